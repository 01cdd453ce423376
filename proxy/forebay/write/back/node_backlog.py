"""The backlog of the node, from any of its workers: the pending writes, and a person's orders about them.

Every worker knows which writes are pending. The one that carries them out knows how far each is, and has it tried again
or given up, so the others ask it (RPC `backlog`).
"""

import asyncio
from base64 import b64decode, b64encode
from collections.abc import Mapping
from dataclasses import asdict
from heapq import nsmallest
from typing import Any, Final

from forebay.core.byte_ranges import Span
from forebay.core.errors import BucketMissing, ForebayError, S3Error, Throttled
from forebay.core.names import ObjectName
from forebay.core.pending_write import CONTENT_PART, DamagedContent, PendingPage, PendingState, PendingWrite
from forebay.origin.origin_request import OriginRequest
from forebay.origin.origins import Origins
from forebay.peers.frames import Document
from forebay.peers.owners import Peers
from forebay.peers.peer_codec import decode
from forebay.storage.journal.body_file import BodyDamaged
from forebay.storage.journal.log_writer import RecordId
from forebay.write.back.drain.drainer import DrainEntry
from forebay.write.back.node_flush import FlushReport, NodeFlush
from forebay.write.back.pending.accepted_write import write_id
from forebay.write.back.write_back import WriteBack

LARGEST_PAGE: Final = 1000
"""Writes."""
_BUCKET_TIMEOUT: Final = 10.0
"""Seconds for the answer to whether there is a bucket."""


class NodeBacklog:
    """See the module. Methods raise Throttled while no worker carries writes out."""

    def __init__(self, write_back: WriteBack, peers: Peers, origins: Origins) -> None:
        self._write_back = write_back
        self._peers = peers
        self._origins = origins

    async def flush(self, bucket: str, prefix: str, seconds: float, before: str) -> FlushReport:
        """Waits until the pending writes under a prefix are at the origin, for so many seconds at most. `before`: of an
        earlier flush, whose writes are waited for; empty: it is the first. Raises BucketMissing if nothing is pending,
        and the origin says that there is no such bucket."""
        latest = int(before) if before.isdecimal() else self._write_back.journal.stamp()
        flush = NodeFlush(self._write_back.shown, self._write_back.pending, bucket, prefix, latest)
        await flush.wait(seconds)
        report = flush.report()
        if not (before or report.found):
            await self._check_bucket(bucket)
        return report

    async def page(self, bucket: str, prefix: str, state: str, after: str, limit: int = LARGEST_PAGE) -> PendingPage:
        """A page of the writes under a prefix and in a state, as they were accepted. An empty bucket or state: any."""
        fields = {"bucket": bucket, "prefix": prefix, "state": state, "after": after, "limit": limit}
        return _decode_page(await self._call_drainer("page", fields))

    async def find(self, number: str) -> PendingWrite | None:
        """The write of this id; None: it is not pending."""
        return await self._ask_write("find", {"id": number})

    async def retry(self, number: str) -> PendingWrite | None:
        """Has a write tried again now, if it is stuck. None: it is not pending."""
        return await self._ask_write("retry", {"id": number})

    async def discard(self, number: str, name: ObjectName) -> PendingWrite | None:
        """Gives a write of this object up, if it is stuck: the state that is returned is the one before. None: no such
        write is pending."""
        return await self._ask_write("discard", {"id": number, "bucket": name.bucket, "key": name.key})

    async def content(self, number: str, offset: int) -> bytes | DamagedContent | None:
        """CONTENT_PART bytes of the object that a write makes, fewer at its end. None: there is none."""
        response = await self._call_drainer("content", {"id": number, "offset": offset})
        if "damage" in response:
            return DamagedContent(str(response["damage"]))
        found = response["content"]
        return decode(lambda: b64decode(found)) if found is not None else None

    async def _check_bucket(self, bucket: str) -> None:
        """Raises BucketMissing; not if the origin can't be asked."""
        try:
            async with (
                asyncio.timeout(_BUCKET_TIMEOUT),
                await self._origins.send(OriginRequest("HEAD", bucket, operation="HeadBucket")) as answer,
            ):
                is_missing = answer.status == 404
        except S3Error:  # no origin has it
            is_missing = True
        except (ForebayError, TimeoutError):
            return
        if is_missing:
            raise BucketMissing(f"there is no bucket {bucket}")

    async def answer(self, request: Document) -> Document:
        """Answers another worker."""
        if not self._write_back.is_draining:
            return {"is_drainer": False}
        return {"is_drainer": True, **await self._carry_out(str(request["verb"]), request["fields"])}

    async def _ask_write(self, verb: str, fields: Mapping[str, Any]) -> PendingWrite | None:
        found = (await self._call_drainer(verb, fields))["write"]
        return decode(lambda: _decode_write(found)) if found is not None else None

    async def _call_drainer(self, verb: str, fields: Mapping[str, Any]) -> Document:
        if self._write_back.is_draining:
            return await self._carry_out(verb, fields)
        request = {"kind": "backlog", "verb": verb, "fields": dict(fields)}
        for response in (await self._peers.call_all(request)).values():
            if response.get("is_drainer") is True:
                return response
        raise Throttled("no worker carries writes out at the moment")

    # In the worker that carries writes out

    async def _carry_out(self, verb: str, fields: Mapping[str, Any]) -> Document:
        if verb == "page":
            return self._page(**fields)
        record = self._record_of(str(fields["id"]))
        if verb == "content":
            try:
                content = await self._content(record, int(fields["offset"])) if record is not None else None
            except (OSError, BodyDamaged) as error:
                return {"damage": str(error)}
            return {"content": b64encode(content).decode() if content is not None else None}
        entry = self._entries.get(record) if record is not None else None
        if record is None or entry is None:
            return {"write": None}
        before = self._view(record, entry)
        if verb == "discard" and (before.bucket, before.key) != (fields["bucket"], fields["key"]):
            return {"write": None}
        if entry.is_stuck and verb == "discard":
            await self._discard(record, entry)
        elif entry.is_stuck and verb == "retry":
            self._write_back.drainer.retry(record)
        return {"write": asdict(before)}

    def _page(self, bucket: str, prefix: str, state: str, after: str, limit: int) -> Document:
        behind = int(after) if after.isdecimal() else -1
        found = [
            (entry.write.interval.written, record)
            for record, entry in self._entries.items()
            if entry.write.interval.written > behind
            and (not bucket or entry.write.name.bucket == bucket)
            and entry.write.name.key.startswith(prefix)
            and (not state or self._state(record, entry) == state)
        ]
        page = nsmallest(limit, found)
        views = [asdict(self._view(record, self._entries[record])) for _, record in page]
        return {"writes": views, "next": str(page[-1][0]) if len(page) < len(found) else None}

    async def _content(self, record: RecordId, offset: int) -> bytes | None:
        version = self._entries[record].version
        if version.head is None:
            return None
        span = Span(min(offset, version.head.size), min(offset + CONTENT_PART, version.head.size))
        return bytes(await self._write_back.pending.read_parts(version.parts, span)) if span.length else b""

    async def _discard(self, record: RecordId, entry: DrainEntry) -> None:
        """Gives up a write that is stuck. Raises Throttled, and then nothing has changed."""
        entry.is_stuck = False  # nobody else discards it, or has it tried again, meanwhile
        try:
            await self._write_back.settlement.given_up(entry.write, record)
        except OSError as error:
            raise Throttled(f"the journal can't be written: {error.strerror}") from None
        finally:
            entry.is_stuck = True
        self._write_back.drainer.discard(record)

    @property
    def _entries(self) -> Mapping[RecordId, DrainEntry]:
        return self._write_back.drainer.entries

    def _record_of(self, number: str) -> RecordId | None:
        return next((record for record in self._entries if write_id(record) == number), None)

    def _state(self, record: RecordId, entry: DrainEntry) -> PendingState:
        if entry.is_stuck:
            return "conflict" if entry.is_conflict else "stuck"
        if self._write_back.drainer.blocked_by(record) is not None:
            return "waiting"
        return "failing" if entry.reason else "sending"

    def _view(self, record: RecordId, entry: DrainEntry) -> PendingWrite:
        write, first = entry.write, self._write_back.drainer.blocked_by(record)
        return PendingWrite(
            write_id(record),
            *write.name,
            write.kind,
            self._state(record, entry),
            write.size,
            write.facts.version.etag if write.facts is not None else "",
            write.accepted_at,
            entry.attempts,
            entry.reason,
            write_id(first) if first is not None else "",
            len(write.parts),
            write.headers,
            entry.is_kept,
        )


def _decode_page(document: Document) -> PendingPage:
    return decode(lambda: PendingPage(tuple(map(_decode_write, document["writes"])), document["next"]))


def _decode_write(document: Mapping[str, Any]) -> PendingWrite:
    headers = tuple((str(name), str(value)) for name, value in document["headers"])
    return PendingWrite(**{**document, "headers": headers})
