"""Node reads: the reads of every worker, brought together in worker 0, the node's collector.

    worker 0      read stream ────────────────────────────────────────┐
    worker k      read stream ──> at most one call under way ── RPC ──┴──> subscribers: plans, recordings, statistics

A worker sends its reads only while worker 0 wants them. Wanting is a lease: worker 0 renews it every RENEW_SECONDS as
long as it has a subscriber, so that neither a restarted collector nor a restarted sender needs to know of the other's
restart. Reads are never waited for: while a call is under way they are kept, MAX_UNSENT of them, and then dropped and
counted (`forebay_reads_dropped_total`, and `ReadBatch.dropped`).

A subscriber gets at most what one worker has answered within core.read_stream.BATCH_SECONDS, in the order of that
worker. The order between workers is that of arrival.
"""

from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from forebay.core.errors import ForebayError
from forebay.core.events import ObjectRead
from forebay.core.names import ObjectName
from forebay.core.read_stream import ReadBatch, ReadStream, ReadSubscriber
from forebay.core.timers import Timers
from forebay.peers.frames import Document, Spawn
from forebay.peers.owners import Peers
from forebay.peers.peer_codec import decode, decode_span
from forebay.policy.recognition import tracked_read

COLLECTOR: Final = 0
"""The number of the collecting worker."""
RENEW_SECONDS: Final = 1.0
LEASE_SECONDS: Final = 3.0
MAX_UNSENT: Final = 4096
_ANSWERED: Final[Document] = {}
_SEPARATOR: Final = "\0"
"""No key has this character."""


class NodeReads:
    """The reads of a node, as one of its workers has to do with them."""

    def __init__(
        self,
        stream: ReadStream,
        peers: Peers,
        timers: Timers,
        spawn: Spawn,
        on_dropped: Callable[[int], None] = lambda _: None,
    ) -> None:
        """`on_dropped` is called with the number of reads that were dropped here."""
        self._stream = stream
        self._peers = peers
        self._timers = timers
        self._spawn = spawn
        self._on_dropped = on_dropped
        self._subscribers: list[ReadSubscriber] = []
        self._unsubscribe: Callable[[], None] | None = None
        """Ends the subscription to this worker's own stream."""
        self._leased_until = 0.0
        self._unsent: list[ObjectRead] = []
        self._dropped = 0
        self._is_sending = False

    @property
    def is_collector(self) -> bool:
        """Whether the reads come together in this worker."""
        return self._peers.number == COLLECTOR

    # The collector

    def subscribe(self, subscriber: ReadSubscriber) -> Callable[[], None]:
        """Has `subscriber` called with the reads of all workers from now on. Returns a function that ends this. Raises
        RuntimeError in another worker than the collector."""
        if not self.is_collector:
            raise RuntimeError("reads are collected by another worker")
        self._subscribers.append(subscriber)
        if self._unsubscribe is None:
            self._unsubscribe = self._stream.subscribe(self._deliver)
            self._renew()

        def unsubscribe() -> None:
            if subscriber in self._subscribers:
                self._subscribers.remove(subscriber)
            if not self._subscribers and self._unsubscribe is not None:
                self._unsubscribe()
                self._unsubscribe = None

        return unsubscribe

    def _renew(self) -> None:
        if self._subscribers and self._peers.others:
            self._peers.notify({"kind": "collect_reads", "seconds": LEASE_SECONDS})
            self._timers.call_later(RENEW_SECONDS, self._renew)

    def _deliver(self, batch: ReadBatch) -> None:
        for subscriber in tuple(self._subscribers):
            subscriber(batch)

    def receive(self, request: Document) -> Document:
        """Delivers another worker's reads. Raises PeerUnavailable for a document that does not fit."""
        self._deliver(decode(lambda: decode_batch(request)))
        return _ANSWERED

    # Any other worker

    def lease(self, request: Document) -> None:
        """Sends this worker's reads to the collector for a while."""
        seconds = decode(lambda: float(request["seconds"]))
        self._leased_until = self._timers.time() + seconds
        if self._unsubscribe is None:
            self._unsubscribe = self._stream.subscribe(self._collect)
            self._timers.call_later(seconds, self._check_lease)

    def _check_lease(self) -> None:
        rest = self._leased_until - self._timers.time()
        if rest > 0:
            self._timers.call_later(rest, self._check_lease)
        elif self._unsubscribe is not None:
            self._unsubscribe()
            self._unsubscribe = None

    def _collect(self, batch: ReadBatch) -> None:
        room = max(0, MAX_UNSENT - len(self._unsent))
        dropped = batch.dropped + max(0, len(batch.reads) - room)
        self._unsent += batch.reads[:room]
        if dropped:
            self._dropped += dropped
            self._on_dropped(dropped)
        if not self._is_sending:
            self._is_sending = True
            self._spawn(self._send(), "send reads to the collector")

    async def _send(self) -> None:
        try:
            while self._unsent:
                reads, self._unsent = self._unsent, []
                dropped, self._dropped = self._dropped, 0
                batch = ReadBatch(reads, self._peers.number, dropped)
                with suppress(ForebayError):  # the collector has gone: its successor wants later ones
                    await self._peers.others[COLLECTOR].call({"kind": "reads", **encode_batch(batch)})
        finally:
            self._is_sending = False


def encode_batch(batch: ReadBatch) -> Document:
    """Returns reads as a document, in columns; what many reads share is in it once."""
    names, spans, sizes, users, rules, caches, shares, tracked = zip(*batch.reads, strict=True)
    buckets, keys = zip(*names, strict=True)
    tracks = [each.reader.track if each is not None else "" for each in tracked]
    contexts: dict[tuple[str, str, str, str, str, float], int] = {}
    of_read = [
        contexts.setdefault(context, len(contexts))
        for context in zip(buckets, users, rules, caches, tracks, shares, strict=True)
    ]
    starts, stops = zip(*spans, strict=True)
    return {
        "worker": batch.worker,
        "dropped": batch.dropped,
        "contexts": list(contexts),
        "of_read": of_read if len(contexts) > 1 else None,
        "keys": _SEPARATOR.join(keys),
        "starts": starts if any(starts) else None,
        "stops": stops if stops != sizes else None,
        "sizes": sizes,
    }


def decode_batch(document: Document) -> ReadBatch:
    """Returns the reads of a document. Raises KeyError, TypeError, ValueError, IndexError."""
    contexts: list[Any] = [
        (str(bucket), str(user), str(rule), cache, str(track), float(share))
        for bucket, user, rule, cache, track, share in document["contexts"]
    ]
    keys, sizes = document["keys"].split(_SEPARATOR), document["sizes"]
    of_read = document["of_read"] or [0] * len(keys)
    spans = zip(document["starts"] or [0] * len(keys), document["stops"] or sizes, strict=True)
    reads = []
    for context, key, bounds, size in zip(of_read, keys, spans, sizes, strict=True):
        bucket, user, rule, cache, track, share = contexts[context]
        name, span = ObjectName(bucket, key), decode_span(bounds)
        tracked = tracked_read(track, user, name, span, size)
        reads.append(ObjectRead(name, span, size, user, rule, cache, share, tracked))
    return ReadBatch(reads, int(document["worker"]), int(document["dropped"]))
