"""The read codec: batches of reads as documents, from a worker to the collector. Each numbered object is named once.

    group     context; number of the log; codes, base64 of u64, little-endian; when the log was emptied
              known: how many objects of the log were sent before, then the keys and extents of those behind them
              transient: columns of the reads that no number stands for

The encoder counts an object as sent once the collector has answered (`confirm`). A collector that was restarted knows
none: it refuses with UnknownReads, and the encoder begins anew (`forget`). For each context the latest log is known.
"""

import sys
from array import array
from base64 import b64decode, b64encode
from typing import Any, Final, TypeAlias

from forebay.core.events import ObjectRead
from forebay.core.names import ObjectName
from forebay.core.read_log import CODE, TRANSIENT, Codes, KnownReads, LogContext, ReadGroup
from forebay.core.read_stream import MAX_LOGS, ReadBatch
from forebay.peers.frames import Document
from forebay.peers.peer_codec import decode_span

_SEPARATOR: Final = "\0"
"""The separator of keys, which none contains."""
_Sent: TypeAlias = dict[LogContext, tuple[KnownReads, int, int]]
"""The objects of each context's log, the log's number, and the number of objects that were sent."""


class UnknownReads(Exception):  # not an error: the batch is sent again, with all objects
    """A batch names objects that were sent to an earlier collector."""


class BatchEncoder:
    """Encodes the batches of one worker."""

    def __init__(self) -> None:
        self._sent: _Sent = {}
        self._logs = 0

    def encode(self, batch: ReadBatch) -> tuple[Document, _Sent]:
        """Returns a batch as a document, and the state of the collector once it has it."""
        sent = dict(self._sent) if len(self._sent) < MAX_LOGS else {}
        groups = []
        for group in batch.groups:
            known, number, count = sent.get(group.context, (None, 0, 0))
            if known is not group.known:
                self._logs += 1
                number, count = self._logs, 0
            keys = group.known.keys[count:]
            sent[group.context] = group.known, number, count + len(keys)
            groups.append(
                {
                    "context": group.context,
                    "log": number,
                    "known": count,
                    "keys": _SEPARATOR.join(keys) if keys else None,
                    "extents": group.known.extents[count:].tolist(),
                    "codes": b64encode(_little(group.codes).tobytes()).decode("ascii"),
                    "transient": _columns(group),
                    "drained_at": group.drained_at,
                }
            )
        return {"worker": batch.worker, "dropped": batch.dropped, "groups": groups}, sent

    def confirm(self, sent: _Sent) -> None:
        """Notes the state of the collector, which has acknowledged the batch."""
        self._sent = sent

    def forget(self) -> None:
        """Has all objects sent again."""
        self._sent = {}


class BatchDecoder:
    """Decodes the batches of one worker's process."""

    def __init__(self) -> None:
        self._logs: dict[LogContext, tuple[KnownReads, int]] = {}

    def decode(self, document: Document) -> ReadBatch:
        """Returns the batch of a document. Raises UnknownReads; KeyError, TypeError, ValueError, IndexError for a
        document that does not fit."""
        groups = [self._group(each) for each in document["groups"]]
        return ReadBatch(groups, int(document["worker"]), int(document["dropped"]))

    def _group(self, document: Any) -> ReadGroup:
        bucket, principal, rule, track = document["context"]
        context = LogContext(str(bucket), str(principal), str(rule), str(track))
        number, count = int(document["log"]), int(document["known"])
        known, latest = self._logs.get(context, (KnownReads(), 0))
        if latest != number:
            known = KnownReads()
        if count > len(known.keys):
            raise UnknownReads
        if document["keys"] is not None:
            new = len(known.keys) - count  # those before are here: the answer to an earlier attempt was lost
            for key, extent in zip(document["keys"].split(_SEPARATOR)[new:], document["extents"][new:], strict=True):
                known.add(key, int(extent) >> 1)
        if len(self._logs) >= MAX_LOGS:
            self._logs.clear()
        self._logs[context] = known, number
        codes: Codes = array(CODE)
        codes.frombytes(b64decode(document["codes"], validate=True))
        transient = _transient(context, document["transient"])
        group = ReadGroup(context, _little(codes), known, transient, float(document["drained_at"]))
        known_count = len(known.keys)
        others = [each for each in group.numbers if each >= known_count]
        if others and not TRANSIENT <= min(others) <= max(others) < TRANSIENT + len(transient):
            raise ValueError("a read without a name")
        return group


def _little(codes: Codes) -> Codes:
    if sys.byteorder == "big":
        codes = codes[:]
        codes.byteswap()
    return codes


def _columns(group: ReadGroup) -> Document | None:
    if not group.transient:
        return None
    names, spans, sizes, _, _, caches, shares, _ = zip(*group.transient, strict=True)
    return {
        "keys": _SEPARATOR.join([key for _, key in names]),
        "spans": spans,
        "sizes": sizes,
        "caches": caches,
        "shares": shares,
    }


def _transient(context: LogContext, document: Document | None) -> list[ObjectRead]:
    if document is None:
        return []
    bucket, principal, rule, track = context
    columns = [document[name] for name in ("spans", "sizes", "caches", "shares")]
    return [
        ObjectRead(ObjectName(bucket, key), decode_span(span), size, principal, rule, cache, float(share), track)
        for key, span, size, cache, share in zip(document["keys"].split(_SEPARATOR), *columns, strict=True)
    ]
