"""Node reads: the reads of every worker, brought together in worker 0, the node's collector.

    worker 0      read stream ────────────────────────────────────────┐
    worker k      read stream ──> at most one call under way ── RPC ──┴──> subscribers: plans, recordings, statistics

A worker sends its reads only while worker 0 wants them. Wanting is a lease, which worker 0 renews every RENEW_SECONDS
as long as it has a subscriber, and ends with the last one: neither a restarted collector nor a restarted sender needs
to know of the other's restart. It outlasts a collector that is busy or restarted: reads are kept meanwhile, and arrive
afterwards (peers.read_sender). Reads that do not fit are dropped and counted (`forebay_reads_dropped_total`, and
`ReadBatch.dropped`). The collection delays no read.

A subscriber gets at most what one worker has answered within an interval of core.read_stream, in the order of that
worker. The order between workers is that of arrival; a group says when it was drained. A lease says whether one of the
subscribers is urgent.
"""

from collections.abc import Callable
from typing import Final

from forebay.core.read_stream import ReadBatch, ReadStream, ReadSubscriber
from forebay.core.timers import Timer, Timers
from forebay.peers.frames import Document, Spawn
from forebay.peers.owners import Peers
from forebay.peers.peer_codec import decode
from forebay.peers.read_codec import BatchDecoder, UnknownReads
from forebay.peers.read_sender import COLLECTED, UNKNOWN, BatchNumbers, ReadSender

COLLECTOR: Final = 0
"""The number of the collecting worker."""
RENEW_SECONDS: Final = 1.0
LEASE_SECONDS: Final = 60.0
"""Longer than a collector hangs before it is ended, and its successor needs to start."""
_NOT_YET: Final[Document] = {}
"""The response to reads without a subscriber: the collector may have just started."""


class NodeReads:
    """The collection of a node's reads, in one of its workers."""

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
        stream.drains_early = bool(peers.others)
        self._peers = peers
        self._timers = timers
        self._on_dropped = on_dropped
        self._numbers = BatchNumbers()
        self._decoders: dict[int, tuple[str, BatchDecoder]] = {}
        """The run and the decoder of each other worker."""
        self._sender: ReadSender | None = None
        if not self.is_collector:
            collector = peers.others[COLLECTOR]
            self._sender = ReadSender(peers.number, collector.call, timers, spawn, on_dropped)
        self._subscribers: list[tuple[ReadSubscriber, bool]] = []
        """And whether each is urgent."""
        self._unsubscribe: Callable[[], None] | None = None
        """Ends the subscription to this worker's own stream."""
        self._is_urgent = False
        """Whether that subscription is."""
        self._leased_until = 0.0
        self._timer: Timer | None = None
        """Renews the lease of the others, or ends this worker's."""

    @property
    def is_collector(self) -> bool:
        """Whether the reads are collected in this worker."""
        return self._peers.number == COLLECTOR

    # The collector

    def subscribe(self, subscriber: ReadSubscriber, *, is_urgent: bool = True) -> Callable[[], None]:
        """Has `subscriber` called with the reads of all workers from now on. `is_urgent`: see ReadStream.subscribe.
        Returns a function that ends this. Raises RuntimeError in another worker than the collector."""
        if not self.is_collector:
            raise RuntimeError("reads are collected by another worker")
        subscription = subscriber, is_urgent
        self._subscribers.append(subscription)
        self._collect()

        def unsubscribe() -> None:
            if subscription in self._subscribers:
                self._subscribers.remove(subscription)
            if self._subscribers:
                self._collect()
            elif self._unsubscribe is not None:
                self._stop()
                self._lease_others(0.0)

        return unsubscribe

    def _collect(self) -> None:
        """Subscribes to the reads of all workers, at the rate of the most urgent subscriber."""
        is_urgent = any(each for _, each in self._subscribers)
        if self._listen(self._deliver_own, is_urgent=is_urgent):
            self._renew()

    def deliver(self) -> None:
        """Delivers the reads of this worker so far at once. Those of others arrive as usual."""
        self._stream.deliver()

    def _stop(self) -> None:
        if self._unsubscribe is not None:
            self._unsubscribe()
            self._unsubscribe = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _listen(self, subscriber: ReadSubscriber, *, is_urgent: bool) -> bool:
        """Subscribes to this worker's own stream. Returns whether that is another subscription than before."""
        before = self._unsubscribe
        if before is not None and self._is_urgent == is_urgent:
            return False
        self._unsubscribe, self._is_urgent = self._stream.subscribe(subscriber, is_urgent=is_urgent), is_urgent
        if before is not None:
            before()
        return True

    def _renew(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._peers.others:
            self._lease_others(LEASE_SECONDS)
            self._timer = self._timers.call_later(RENEW_SECONDS, self._renew)

    def _lease_others(self, seconds: float) -> None:
        self._peers.notify({"kind": "collect_reads", "seconds": seconds, "urgent": self._is_urgent})

    def _deliver_own(self, batch: ReadBatch) -> None:
        if batch.dropped:
            self._on_dropped(batch.dropped)
        self._deliver(batch)

    def _deliver(self, batch: ReadBatch) -> None:
        for subscriber, _ in tuple(self._subscribers):
            subscriber(batch)

    def receive(self, request: Document) -> Document:
        """Delivers another worker's reads, once. Raises PeerUnavailable for a document that does not fit."""
        run, number, worker = decode(lambda: (str(request["run"]), int(request["number"]), int(request["worker"])))
        if not self._subscribers:
            return _NOT_YET
        known_run, decoder = self._decoders.get(worker, ("", None))
        if decoder is None or known_run != run:
            decoder = BatchDecoder()
            self._decoders[worker] = run, decoder
        try:
            batch = decode(lambda: decoder.decode(request))
        except UnknownReads:
            return UNKNOWN
        if self._numbers.is_new(worker, run, number):
            self._deliver(batch)
        return COLLECTED

    # Any other worker

    def lease(self, request: Document) -> None:
        """Sends this worker's reads to the collector for a while; for no longer if that is no time at all."""
        seconds, is_urgent = decode(lambda: (float(request["seconds"]), bool(request["urgent"])))
        sender = self._sender
        if sender is None:
            return
        self._leased_until = self._timers.time() + seconds
        if seconds <= 0:
            self._stop()
            sender.discard()
            return
        is_leased = self._unsubscribe is not None
        self._listen(lambda batch: sender.add(batch.groups, batch.dropped), is_urgent=is_urgent)
        if not is_leased:
            self._timer = self._timers.call_later(seconds, self._check_lease)

    def _check_lease(self) -> None:
        rest = self._leased_until - self._timers.time()
        if rest > 0:
            self._timer = self._timers.call_later(rest, self._check_lease)
        else:
            self._stop()
            if self._sender is not None:
                self._sender.drop()
