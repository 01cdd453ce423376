"""The ordered body: the bytes of one range of one version, in order, from wherever they are.

    memory ──┐
    ssd ─────┼──>  pieces, in order, as soon as each is there
    flights ─┘          ▲
                        └── fetches are started ahead of the reader, no further than its window

Back-pressure is in the shape of it: nothing is fetched for bytes that the reader is not about to want. The window
starts small and grows only when the reader had to wait for the origin, once in half a run's worth of bytes at most:
what the client's socket takes at the start must not make it grow to its full size. So a slow reader holds little, and a
fast one soon has several ranged GETs in flight.

Blocks at hand are looked up again when their turn comes, and fetched if they were evicted meanwhile. Memory for the
block whose turn it is, is waited for; memory for those ahead is taken only if there is some. A reader that waits for
memory holds none: two of them can't wait for each other.
"""

from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, TypeAlias

from forebay.core.buffers import Buffer
from forebay.core.byte_ranges import Span, block_span, blocks_touching
from forebay.core.errors import OriginError
from forebay.core.events import FlightJoined, Observe
from forebay.core.heads import Head
from forebay.core.names import BlockId, ObjectName
from forebay.fetch.fetcher import Fetch, Fetcher
from forebay.fetch.flight import Flight
from forebay.origin.origin_identity import OriginIdentity
from forebay.policy.coalescing import FetchBounds, Place, Run, coalesce
from forebay.policy.prefetch_window import Window
from forebay.storage.tiers import Tiers

ByteSource: TypeAlias = Literal["memory", "ssd", "worker", "joined", "flight"]
"""Joined: out of a flight that somebody else had started. Worker: from another worker of the node, which had it."""


@dataclass(frozen=True, slots=True)
class BlockSource:
    """Where bodies get their bytes, and within which bounds."""

    tiers: Tiers
    fetcher: Fetcher
    bounds: FetchBounds
    buffer_timeout: float
    """Seconds to wait for memory before the reader is told to slow down."""
    observe: Observe


class OrderedBody:
    """The bytes `span` of the version that `head` describes. One reader, once; `close` when done, whatever happened."""

    def __init__(
        self,
        source: BlockSource,
        name: ObjectName,
        head: Head,
        span: Span,
        rule: str,
        flights: Mapping[int, Flight] = MappingProxyType({}),
        *,
        joined: bool = False,
        identity: OriginIdentity | None = None,
    ) -> None:
        """`arriving`: the flights that came with the head; `joined`: they were for somebody else; `identity`: in whose
        name the origin is asked for what is missing."""
        self._source = source
        self._name = name
        self._head = head
        self._span = span
        self._rule = rule
        self._identity = identity
        self._blocks = blocks_touching(span, head.block_size)
        self._window = Window(source.bounds.parallel)
        self._per_run = max(1, source.bounds.max_run // head.block_size)
        edge = source.bounds.parallel * self._per_run // 2
        self._middle = range(self._blocks.start + edge, self._blocks.stop - edge)
        """The blocks that are neither of the beginning nor of the end."""
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
        self.locations: list[Place] = []
        """Where the blocks of the first window were when it was planned: what the cache status is told from."""

    def __repr__(self) -> str:
        return f"<OrderedBody {self._name.path} {self._span} planned={self._planned} follows={list(self._followed)}>"

    @property
    def length(self) -> int:
        return self._span.length

    async def plan(self) -> None:
        """Look where the first window is and start fetching what is missing. Raises Throttled."""
        await self._plan_ahead(self._blocks.start)

    def single_buffer(self) -> tuple[ByteSource, Buffer] | None:
        """All of it, if it lies in one block that has landed or is in memory: then nothing is to be planned. Otherwise
        nothing has happened. The bytes are good until `close`."""
        number = self._blocks.start
        if len(self._blocks) != 1:
            return None
        flight, within = self._followed.get(number), self._within(number)
        if flight is not None:
            if not flight.has_landed:
                return None
            self.locations = [Place.IN_FLIGHT]
            return "joined" if number in self._joined else flight.source, flight.buffer[within.start : within.stop]
        buffer = self._source.tiers.memory.get(self._block(number))
        if buffer is None:
            return None
        self.locations = [Place.MEMORY]
        return "memory", buffer[within.start : within.stop]

    async def pieces(self) -> AsyncGenerator[tuple[ByteSource, Buffer]]:
        """The bytes in order, and where each came from.

        Raises what the fetch failed with (OriginError, VersionChanged among them) or Throttled; what was handed out
        until then is good, and is all there will be. What a flight failed with that was asked for in another's name is
        not told: the block is asked for anew.
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
        """For warm-up: have every block come into the tiers without reading those that are there.

        Gives the size of each as soon as it is there, and whether it was fetched for this. Raises what `pieces` raises.
        """
        for number in self._blocks:
            await self._plan_ahead(number)
            came = fetched = False
            while not came and (number in self._followed or not self._source.tiers.has(self._block(number))):
                if number not in self._followed:
                    await self._fetch_now(number)
                    continue
                flight = self._followed[number]
                self._adapt_window(number, flight)
                came = await self._wait_filled(flight, flight.length)
                fetched = came and number not in self._joined
                self._leave(number)
            yield self._length(number), fetched

    def close(self) -> None:
        """Leave every flight that is still followed."""
        for number in list(self._followed):
            self._leave(number)

    def _leave(self, number: int) -> None:
        self._joined.discard(number)
        self._followed.pop(number).leave()

    async def _wait_filled(self, flight: Flight, needed: int) -> bool:
        """Whether so many bytes of a flight have come. False if they never will, and why is no answer to this reader:
        the origin was asked in another's name. Otherwise raises what the flight failed with."""
        try:
            await flight.wait_filled(needed)
        except OriginError:
            if flight.identity == self._identity:
                raise
            return False
        return True

    def _block(self, number: int) -> BlockId:
        return BlockId(self._name, self._head.generation, number)

    def _length(self, number: int) -> int:
        return block_span(number, self._head.block_size, self._head.size).length

    def _within(self, number: int) -> Span:
        """The wanted bytes of a block, relative to it."""
        start = number * self._head.block_size
        wanted = block_span(number, self._head.block_size, self._head.size).clip(self._span)
        return Span(wanted.start - start, wanted.stop - start)

    def _adapt_window(self, number: int, flight: Flight) -> None:
        if flight.has_landed:
            self._window.reader_ready()
        elif number >= self._may_grow_at:
            self._may_grow_at = number + max(1, self._per_run // 2)
            self._window.reader_waited()

    async def _read_or_follow(self, number: int, within: Span) -> tuple[ByteSource, Buffer] | None:
        """The bytes from a tier; or None, and then the block's flight is followed."""
        while number not in self._followed:
            found = await self._read_tiers(number, within)
            if found is not None:
                return found
            await self._fetch_now(number)
        return None

    async def _read_tiers(self, number: int, within: Span) -> tuple[ByteSource, Buffer] | None:
        block = self._block(number)
        buffer = self._source.tiers.memory.get(block)
        if buffer is not None:
            return "memory", buffer[within.start : within.stop]
        buffer = await self._source.tiers.read(block, self._length(number), within)
        return ("ssd", buffer) if buffer is not None else None

    async def _plan_ahead(self, current: int) -> None:
        """Plan on, a run's worth or more at a time, while the window has room for it."""
        ahead = self._window.runs * self._per_run
        if self._planned >= self._blocks.stop or self._planned - current > ahead - self._per_run:
            return
        stretch = range(max(self._planned, current), min(current + ahead, self._blocks.stop))
        places = [self._locate(number) for number in stretch]
        if self._planned == self._blocks.start:
            self.locations = places
        self._planned = stretch.stop
        for number, place in zip(stretch, places, strict=True):
            if place is Place.IN_FLIGHT:
                self._join(number)
        bounds = self._source.bounds if stretch.start in self._middle else self._source.bounds.edge
        for run in coalesce(stretch.start, places, self._head.block_size, self._head.size, bounds):
            fetch = Fetch(self._name, self._head, run, self._rule, self._identity)
            if not self._source.fetcher.budget.try_acquire(fetch.buffer_bytes):
                self._planned = run.missing[0]
                if self._planned == current:
                    await self._wait_for_memory(fetch, run.blocks.stop)
                    self._start(fetch)
                break
            self._start(fetch)

    async def _wait_for_memory(self, fetch: Fetch, planned: int) -> None:
        """Take the budget of `fetch`, whose first block is the one whose turn it is. What was followed is left, and
        planned anew from `planned` on. Raises Throttled."""
        self.close()
        self._planned = planned
        await self._source.fetcher.budget.acquire(fetch.buffer_bytes, self._source.buffer_timeout)

    def _locate(self, number: int) -> Place:
        if number in self._followed:
            return Place.IN_FLIGHT
        block = self._block(number)
        if self._source.tiers.memory.has(block):
            return Place.MEMORY
        if self._source.fetcher.registry.find(block) is not None:
            return Place.IN_FLIGHT
        ssd = self._source.tiers.ssd
        return Place.SSD if ssd is not None and ssd.has(block) else Place.MISSING

    def _join(self, number: int) -> None:
        flight = self._source.fetcher.registry.find(self._block(number))
        if flight is not None and self._follow(number, flight):
            self._joined.add(number)
            self._source.observe(FlightJoined())

    def _start(self, fetch: Fetch) -> None:
        for number, flight in self._source.fetcher.start(fetch).items():
            self._follow(number, flight)

    def _follow(self, number: int, flight: Flight) -> bool:
        if number in self._followed:  # looked ahead at twice, as memory was short the first time
            return False
        flight.follow()
        self._followed[number] = flight
        return True

    async def _fetch_now(self, number: int) -> None:
        """A block that was at hand when it was planned and is not any more. Afterwards it is followed, unless somebody
        else brought it in while memory was waited for."""
        self._join(number)
        if number in self._followed:
            return
        span = block_span(number, self._head.block_size, self._head.size)
        run = Run(range(number, number + 1), (number,), span)
        certain = self._source.tiers.has(self._block(number))  # a tier that says so and has just given nothing
        fetch = Fetch(self._name, self._head, run, self._rule, self._identity, certain)
        if not self._source.fetcher.budget.try_acquire(fetch.buffer_bytes):
            await self._wait_for_memory(fetch, number + 1)
        self._start(fetch)
