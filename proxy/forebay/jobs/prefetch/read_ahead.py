"""Read-ahead over separate requests: fetches the next bytes of a sequential reader before it requests them.

    reads of the node ──> runs of ranges in an object, objects in listing order      (policy.read_sequences)
                              └──> the next bytes, or the next objects ──> prefetcher ──> tickets
    a read of them ──> finish        IDLE seconds without one ──> drop               (jobs.prefetch.prefetcher)

Within one response the ordered body fetches ahead by itself (policy.prefetch_window). This is for rules that set
`read_ahead`; without such a rule nothing is subscribed to.

It reads with the rights of its reader: the rules and grants in force must let the principal read the bytes, and for a
principal with an origin credential of its own they are fetched with that. The next objects are found by a listing with
Forebay's credential, so there are none for such a principal. It belongs to the collector (peers.node_reads).
"""

from collections import deque
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, suppress
from dataclasses import dataclass
from typing import Final, Protocol

from forebay.core.byte_ranges import Span
from forebay.core.errors import ForebayError
from forebay.core.events import ObjectRead
from forebay.core.names import ObjectName
from forebay.core.read_stream import ReadBatch
from forebay.core.timers import Timers
from forebay.jobs.prefetch.prefetch_request import PrefetchRequest, PrefetchService
from forebay.peers.frames import Spawn
from forebay.peers.node_reads import NodeReads
from forebay.policy.grants import Principal, may_read
from forebay.policy.read_sequences import KeyOrder, KeyOrders, ReadSequences, directory_of
from forebay.request.admission import GatewayPolicy

IDLE: Final = 30.0
"""Seconds without a read of the prefetched bytes, after which they are dropped."""
SWEEP_SECONDS: Final = 5.0
MAX_TASKS: Final = 16
"""Fetches at once; more are not begun. Each is of one reader's next bytes."""
PAGE_KEYS: Final = 1000
LIST_SECONDS: Final = 1.0
"""Seconds between two requests for a listing. Readers in random order must not cause many."""


class ListedKeyEntry(Protocol):
    """An object of a listing."""

    @property
    def key(self) -> str:
        """The key of the object."""
        ...

    @property
    def size(self) -> int:
        """The size of the object in bytes."""
        ...


@dataclass(frozen=True, slots=True)
class _Piece:
    """Bytes that were fetched ahead and not read yet."""

    span: Span
    ticket: int
    until: float


class ReadAhead:
    """Reads ahead of the sequential readers of a node."""

    def __init__(
        self,
        reads: NodeReads,
        fetcher: PrefetchService,
        list_after: Callable[[str, str, str], AsyncGenerator[ListedKeyEntry]],
        policy: Callable[[], GatewayPolicy],
        spawn: Spawn,
        timers: Timers,
    ) -> None:
        """`list_after(bucket, prefix, key)`: a listing behind `key`. `policy` returns the one in force."""
        self._reads = reads
        self._fetcher = fetcher
        self._list_after = list_after
        self._policy = policy
        self._spawn = spawn
        self._timers = timers
        self._unsubscribe: Callable[[], None] | None = None
        self._runs = ReadSequences()
        self._orders = KeyOrders()
        self._pieces: dict[ObjectName, deque[_Piece]] = {}
        self._tasks = 0
        self._is_listing = self._is_sweeping = False
        self._listed_at = -LIST_SECONDS

    def __repr__(self) -> str:
        return f"<ReadAhead {len(self._runs)} objects, {self._tasks} tasks, {self.waiting} pieces>"

    @property
    def waiting(self) -> int:
        """Pieces that were fetched ahead and not read yet."""
        return sum(map(len, self._pieces.values()))

    def use_policy(self) -> None:
        """Reads ahead from here on if some rule in force has `read_ahead`. Also after each change of the rules."""
        is_wanted = self._reads.is_collector and self._policy().rules.reads_ahead
        if is_wanted and self._unsubscribe is None:
            self._unsubscribe = self._reads.subscribe(self._receive)
        elif not is_wanted and self._unsubscribe is not None:
            self._unsubscribe()
            self._unsubscribe = None

    def _receive(self, batch: ReadBatch) -> None:
        rules = self._policy().rules
        for read in batch.reads:
            if self._pieces:
                self._finish(read)
            read_ahead = rules.decide(read.name).read_ahead
            if read_ahead:
                self._observe(read, read_ahead)

    def _observe(self, read: ObjectRead, read_ahead: int) -> None:
        policy, span = self._policy(), read.span
        principal = policy.keyring.principal(read.principal)
        if principal is None:
            return
        if span.length < read.size:
            run = self._runs.observe(read)
            extent = run.next_extent(read_ahead, read.size)
            if extent is not None:
                self._order(principal, read.name, extent)
            is_near_end = run.reads > 1 and read.size - span.stop <= read_ahead
        else:
            is_near_end = True
        if is_near_end and principal.id not in policy.keyring.origin_identities:
            order = self._orders.observe(principal.id, read.name)
            now = self._timers.time()
            if order.needs_page and not self._is_listing and now - self._listed_at >= LIST_SECONDS:
                self._is_listing, self._listed_at = True, now
                self._spawn(self._list(read.name, order), "list ahead")
            for key, size in order.next_objects(read_ahead):
                self._order(principal, ObjectName(read.name.bucket, key), Span(0, size))

    def _order(self, principal: Principal, name: ObjectName, extent: Span) -> None:
        if self._tasks < MAX_TASKS and may_read(principal, name):
            self._tasks += 1
            self._spawn(self._fetch(principal.id, name, extent), "read ahead")

    async def _fetch(self, principal: str, name: ObjectName, extent: Span) -> None:
        identity = self._policy().keyring.origin_identities.get(principal)
        start = extent.start
        try:
            while start < extent.stop:
                group = f"read-ahead {principal}"
                outcome = await self._fetcher.fetch(PrefetchRequest(name, start, extent.stop, group, identity))
                if outcome.ticket:
                    piece = _Piece(Span(start, outcome.stop), outcome.ticket, self._timers.time() + IDLE)
                    self._pieces.setdefault(name, deque()).append(piece)
                    self._schedule()
                if outcome.stop <= start:
                    return
                start = outcome.stop
        finally:
            self._tasks -= 1

    async def _list(self, name: ObjectName, order: KeyOrder) -> None:
        page = [(name.key, 0)]
        try:
            with suppress(ForebayError):
                async with aclosing(self._list_after(name.bucket, directory_of(name.key), name.key)) as found:
                    async for entry in found:
                        page.append((entry.key, entry.size))
                        if len(page) > PAGE_KEYS:
                            break
            order.learn(page, is_last=len(page) <= PAGE_KEYS)
        finally:
            self._is_listing = False

    # What was fetched

    def _finish(self, read: ObjectRead) -> None:
        pieces = self._pieces.get(read.name)
        if pieces is None:
            return
        met = [piece for piece in pieces if piece.span.clip(read.span).length]
        if met:
            self._fetcher.finish([piece.ticket for piece in met])
            self._remove(read.name, met)

    def _remove(self, name: ObjectName, gone: list[_Piece]) -> None:
        left = deque(piece for piece in self._pieces[name] if piece not in gone)
        if left:
            self._pieces[name] = left
        else:
            del self._pieces[name]

    def _schedule(self) -> None:
        if self._pieces and not self._is_sweeping:
            self._is_sweeping = True
            self._timers.call_later(SWEEP_SECONDS, self._sweep)

    def _sweep(self) -> None:
        now, self._is_sweeping = self._timers.time(), False
        for name, pieces in list(self._pieces.items()):
            idle = [piece for piece in pieces if piece.until <= now]
            if idle:
                self._fetcher.drop([piece.ticket for piece in idle])
                self._remove(name, idle)
        self._schedule()
