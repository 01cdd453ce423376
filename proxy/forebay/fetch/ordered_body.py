"""The ordered body: the bytes of one range of one version, in order, from wherever they are.

    memory ──┐
    ssd ─────┼──>  pieces, in order, as soon as each is there
    flights ─┘          ▲
                        └── fetches are started ahead of the reader, no further than its window

Back-pressure: nothing is fetched for bytes that the reader is not about to need. The window starts small and grows only
when the reader had to wait for the origin, at most once per half a run: what the client's socket buffers at the start
must not make it grow to its full size. So a slow reader occupies little memory, and a fast one soon has several ranged
GETs in flight.

Blocks in the tiers are read when their turn comes, and fetched if they were evicted meanwhile. A reader waits for the
memory of the block whose turn it is; memory for blocks ahead is acquired only if it is free. A reader that waits for
memory holds none: two of them can't wait for each other.
"""

from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, TypeAlias

from forebay.core.buffers import Buffer
from forebay.core.byte_ranges import Span, blocks_touching
from forebay.core.errors import OriginError
from forebay.core.events import FlightJoined, Observe
from forebay.fetch.fetch_request import FetchRequest, ObjectView
from forebay.fetch.fetcher import Fetcher
from forebay.fetch.flight import Flight
from forebay.policy.coalescing import BlockState, FetchBounds, Run, coalesce
from forebay.policy.prefetch_window import PrefetchWindow
from forebay.storage.tiers import Tiers

ByteSource: TypeAlias = Literal["memory", "ssd", "worker", "joined", "flight"]
"""joined: a flight that another reader had started. worker: another worker of the node, which had the bytes."""


@dataclass(frozen=True, slots=True)
class BlockSource:
    """Where bodies get their bytes, and within which bounds."""

    tiers: Tiers
    fetcher: Fetcher
    bounds: FetchBounds
    buffer_timeout: float
    """Seconds that a reader waits for memory before it is told to slow down."""
    observe: Observe


class OrderedBody:
    """The bytes `span` of the version of `view`. For one reader, once, who calls `close` in the end."""

    def __init__(
        self,
        source: BlockSource,
        view: ObjectView,
        span: Span,
        flights: Mapping[int, Flight] = MappingProxyType({}),
        *,
        joined: bool = False,
    ) -> None:
        """`flights`: those that came with the head; `joined`: whether another reader had started them."""
        self._source = source
        self._view = view
        self._span = span
        head = view.head
        self._blocks = blocks_touching(span, head.block_size)
        self._window = PrefetchWindow(source.bounds.parallel)
        self._per_run = max(1, source.bounds.max_run // head.block_size)
        edge = source.bounds.parallel * self._per_run // 2
        self._middle = range(self._blocks.start + edge, self._blocks.stop - edge)
        """The blocks that are part neither of the beginning nor of the end."""
        self._may_grow_at = self._blocks.start
        """The first block at which the window may grow again."""
        self._planned = self._blocks.start
        self._followed: dict[int, Flight] = {}
        self._joined: set[int] = set()
        for number, flight in flights.items():
            if number in self._blocks:
                self._follow(number, flight)
                if joined:
                    self._joined.add(number)
        self.locations: list[BlockState] = []
        """Where the blocks of the first window were when it was planned. The cache status is derived from it."""

    def __repr__(self) -> str:
        path = self._view.name.path
        return f"<OrderedBody {path} {self._span} planned={self._planned} follows={list(self._followed)}>"

    @property
    def length(self) -> int:
        """Bytes of the body."""
        return self._span.length

    async def plan(self) -> None:
        """Locates the blocks of the first window and starts to fetch those that are missing. Raises Throttled."""
        await self._plan_ahead(self._blocks.start)

    def single_buffer(self) -> tuple[ByteSource, Buffer] | None:
        """Returns the whole body, if it lies in one block that has landed or is in memory; then it needs no plan.
        Otherwise changes nothing. The bytes are good until `close`."""
        number = self._blocks.start
        if len(self._blocks) != 1:
            return None
        flight, within = self._followed.get(number), self._within(number)
        if flight is not None:
            if not flight.has_landed:
                return None
            self.locations = [BlockState.IN_FLIGHT]
            return "joined" if number in self._joined else flight.source, flight.buffer[within.start : within.stop]
        buffer = self._source.tiers.memory.get(self._view.block(number))
        if buffer is None:
            return None
        self.locations = [BlockState.MEMORY]
        return "memory", buffer[within.start : within.stop]

    async def pieces(self) -> AsyncGenerator[tuple[ByteSource, Buffer]]:
        """Yields the bytes in order, and the source of each piece.

        Raises what the fetch failed with (OriginError, VersionChanged among them) or Throttled; the pieces yielded
        before are good. A failure of a flight that was requested with another identity is not raised: the block is
        requested again.
        """
        for number in self._blocks:
            await self._plan_ahead(number)
            wanted = self._within(number)
            while wanted.length:
                found = await self._read_or_follow(number, wanted)
                if found is not None:
                    self._window.reader_ready()
                    yield found
                    break
                flight = self._followed[number]
                self._adapt_window(number, flight)
                while wanted.length and await self._wait_filled(flight, wanted.start + 1):
                    stop = min(flight.filled, wanted.stop)
                    yield "joined" if number in self._joined else flight.source, flight.buffer[wanted.start : stop]
                    wanted = Span(stop, wanted.stop)
                self._leave(number)

    async def arrivals(self) -> AsyncGenerator[tuple[int, bool]]:
        """Brings every block into the tiers without reading those that are there. For warm-up.

        Yields the size of each block once it is there, and whether it was fetched for this. Raises what `pieces`
        raises.
        """
        for number in self._blocks:
            await self._plan_ahead(number)
            arrived = fetched = False
            while not arrived and (number in self._followed or not self._source.tiers.has(self._view.block(number))):
                if number not in self._followed:
                    await self._fetch_now(number)
                    continue
                flight = self._followed[number]
                self._adapt_window(number, flight)
                arrived = await self._wait_filled(flight, flight.length)
                fetched = arrived and number not in self._joined
                self._leave(number)
            yield self._view.block_length(number), fetched

    def close(self) -> None:
        """Leaves every flight that is still followed."""
        for number in list(self._followed):
            self._leave(number)

    def _leave(self, number: int) -> None:
        self._joined.discard(number)
        self._followed.pop(number).leave()

    async def _wait_filled(self, flight: Flight, needed: int) -> bool:
        """Waits for the first `needed` bytes of a flight. Returns False if they never arrive and the failure is not
        this reader's: the flight was requested with another identity. Otherwise raises the failure."""
        try:
            await flight.wait_filled(needed)
        except OriginError:
            if flight.identity == self._view.identity:
                raise
            return False
        return True

    def _within(self, number: int) -> Span:
        """Returns the bytes of the body that are in a block, relative to the block."""
        start = number * self._view.head.block_size
        wanted = self._view.block_span(number).clip(self._span)
        return Span(wanted.start - start, wanted.stop - start)

    def _adapt_window(self, number: int, flight: Flight) -> None:
        if flight.has_landed:
            self._window.reader_ready()
        elif number >= self._may_grow_at:
            self._may_grow_at = number + max(1, self._per_run // 2)
            self._window.reader_waited()

    async def _read_or_follow(self, number: int, within: Span) -> tuple[ByteSource, Buffer] | None:
        """Returns the bytes from a tier; or None, and then the block's flight is followed."""
        while number not in self._followed:
            found = await self._read_tiers(number, within)
            if found is not None:
                return found
            await self._fetch_now(number)
        return None

    async def _read_tiers(self, number: int, within: Span) -> tuple[ByteSource, Buffer] | None:
        block = self._view.block(number)
        buffer = self._source.tiers.memory.get(block)
        if buffer is not None:
            return "memory", buffer[within.start : within.stop]
        buffer = await self._source.tiers.read(block, self._view.block_length(number), within)
        return ("ssd", buffer) if buffer is not None else None

    async def _plan_ahead(self, current: int) -> None:
        """Plans the next blocks, a run or more at a time, as far as the window allows."""
        ahead = self._window.runs * self._per_run
        if self._planned >= self._blocks.stop or self._planned - current > ahead - self._per_run:
            return
        extent = range(max(self._planned, current), min(current + ahead, self._blocks.stop))
        locations = [self._locate(number) for number in extent]
        if self._planned == self._blocks.start:
            self.locations = locations
        self._planned = extent.stop
        for number, location in zip(extent, locations, strict=True):
            if location is BlockState.IN_FLIGHT:
                self._join(number)
        bounds = self._source.bounds if extent.start in self._middle else self._source.bounds.edge
        head = self._view.head
        for run in coalesce(extent.start, locations, head.block_size, head.size, bounds):
            fetch = FetchRequest(self._view, run)
            if not self._source.fetcher.budget.try_acquire(fetch.buffer_bytes):
                self._planned = run.missing[0]
                if self._planned == current:
                    await self._wait_for_memory(fetch, run.blocks.stop)
                    self._start(fetch)
                break
            self._start(fetch)

    async def _wait_for_memory(self, fetch: FetchRequest, planned: int) -> None:
        """Acquires the budget of `fetch`, whose first block is the one whose turn it is. Leaves all flights first; the
        blocks from `planned` on are planned anew. Raises Throttled."""
        self.close()
        self._planned = planned
        await self._source.fetcher.budget.acquire(fetch.buffer_bytes, self._source.buffer_timeout)

    def _locate(self, number: int) -> BlockState:
        if number in self._followed:
            return BlockState.IN_FLIGHT
        block = self._view.block(number)
        if self._source.tiers.memory.has(block):
            return BlockState.MEMORY
        if self._source.fetcher.registry.find(block) is not None:
            return BlockState.IN_FLIGHT
        ssd = self._source.tiers.ssd
        return BlockState.SSD if ssd is not None and ssd.has(block) else BlockState.MISSING

    def _join(self, number: int) -> None:
        flight = self._source.fetcher.registry.find(self._view.block(number))
        if flight is not None and self._follow(number, flight):
            self._joined.add(number)
            self._source.observe(FlightJoined())

    def _start(self, fetch: FetchRequest) -> None:
        for number, flight in self._source.fetcher.start(fetch).items():
            self._follow(number, flight)

    def _follow(self, number: int, flight: Flight) -> bool:
        if number in self._followed:  # planned twice, as memory was short the first time
            return False
        flight.follow()
        self._followed[number] = flight
        return True

    async def _fetch_now(self, number: int) -> None:
        """Fetches a block that was in a tier when it was planned and is not any more. Afterwards it is followed, unless
        another reader brought it in while memory was waited for."""
        self._join(number)
        if number in self._followed:
            return
        ignore_tiers = self._source.tiers.has(self._view.block(number))  # indexed, but it has just given nothing
        run = Run(range(number, number + 1), (number,), self._view.block_span(number))
        fetch = FetchRequest(self._view, run, ignore_tiers)
        if not self._source.fetcher.budget.try_acquire(fetch.buffer_bytes):
            await self._wait_for_memory(fetch, number + 1)
        self._start(fetch)
