"""The ordered body: the bytes of one range of one version, in order, from memory, SSD and flights.

    memory ──┐
    ssd ─────┼──>  pieces, in order, as soon as each is there
    flights ─┘          ▲
                        └── fetches are started ahead of the reader, no further than its window

A reader goes through it with `next_piece` and `advance`: it may use any part of a piece, and reads on from there.
While its client accepts nothing it is paused, and holds no piece (`pause`, `resume`).

Back-pressure: only bytes that the reader is about to need are fetched. The window starts small and grows only when the
reader had to wait for the origin, at most once per half a run: otherwise the client's empty socket buffer would make it
grow to its full size at the start. It is no larger than what the client accepts in a short time, nor, once half of the
buffers are in use, than the reader's share of them. So a slow reader occupies little memory, and a fast one soon has
several ranged GETs in flight. The buffers of a paused reader are given up when others need them (fetch.paused_readers);
their bytes are read or fetched again when the client accepts bytes.

Blocks in the tiers are read when their turn comes, and fetched if they were evicted meanwhile. A reader waits for the
memory of the block whose turn it is; memory for blocks ahead is acquired only if it is free. A reader that waits for
memory holds none: two of them can't wait for each other.
"""

from collections.abc import AsyncGenerator, Mapping
from types import MappingProxyType
from typing import Literal, TypeAlias

from forebay.core.buffers import Buffer
from forebay.core.byte_ranges import Span, blocks_touching
from forebay.fetch.block_source import BlockSource
from forebay.fetch.fetch_request import FetchRequest, ObjectView
from forebay.fetch.flight import Flight
from forebay.fetch.followed_flights import FlightSource, FollowedFlights
from forebay.policy.coalescing import BlockState, Run, coalesce
from forebay.policy.prefetch_window import PrefetchWindow

ByteSource: TypeAlias = Literal["memory", "ssd"] | FlightSource
_Piece: TypeAlias = tuple[ByteSource, Buffer]


class OrderedBody:
    """Yields the bytes `span` of the version of `view`, once, to one reader, who calls `close` in the end."""

    def __init__(
        self,
        source: BlockSource,
        view: ObjectView,
        span: Span,
        flights: Mapping[int, Flight] = MappingProxyType({}),
        *,
        joined: bool = False,
    ) -> None:
        """`flights`: of the response that brought the head. `joined`: another reader had started them."""
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
        self._position = span.start
        """The next byte for the reader."""
        self._last_block = -1
        """The number of the block that the reader was in last."""
        self._tier_piece: _Piece | None = None
        """The piece that was read from a tier, from the position on."""
        self._charged = 0
        """Bytes of the budget that this piece takes while the reader is paused."""
        self._is_open = False
        """Whether it is counted as a reader: it has been planned, and not closed."""
        self._accepted = 0
        """Bytes that the client has accepted since it last made the reader wait."""
        self._is_paused = False
        self._paused_at = 0.0
        self._flights = FollowedFlights(source, view)
        for number, flight in flights.items():
            if number in self._blocks:
                self._flights.follow(number, flight, joined=joined)
        self.locations: list[BlockState] = []
        """The places of the blocks of the first window when it was planned. They decide the cache status."""

    def __repr__(self) -> str:
        path = self._view.name.path
        return f"<OrderedBody {path} {self._span} planned={self._planned} {self._flights}>"

    @property
    def length(self) -> int:
        """Bytes of the body."""
        return self._span.length

    async def plan(self) -> None:
        """Locates the blocks of the first window, and starts to fetch the missing ones. Raises Throttled."""
        if not self._is_open:
            self._is_open = True
            self._source.paused.open += 1
        await self._plan_ahead(self._blocks.start)

    def single_buffer(self) -> tuple[ByteSource, Buffer] | None:
        """Returns the whole body, if it lies in one block that has landed or is in memory; then it needs no plan.
        Otherwise changes nothing. The bytes are good until `close`."""
        number = self._blocks.start
        if len(self._blocks) != 1:
            return None
        flight, within = self._flights.get(number), self._within(number)
        if flight is not None:
            if not flight.has_landed:
                return None
            self.locations = [BlockState.IN_FLIGHT]
            return self._flights.piece(number, within)
        buffer = self._source.tiers.memory.get(self._view.block(number))
        if buffer is None:
            return None
        self.locations = [BlockState.MEMORY]
        return "memory", buffer[within.start : within.stop]

    @property
    def is_complete(self) -> bool:
        """Whether the reader has all bytes."""
        return self._position >= self._span.stop

    async def next_piece(self) -> tuple[ByteSource, Buffer]:
        """Returns the next bytes, at least one, and their source. They are good until `advance`, `pause` or `close`.

        Raises what the fetch failed with (OriginError, VersionChanged among them) or Throttled; the bytes before are
        good. The failure of a flight requested with another identity is not raised: the block is requested again.
        """
        if self._tier_piece is not None:
            return self._tier_piece
        number = self._position // self._view.head.block_size
        is_new = number != self._last_block
        if is_new:
            self._last_block = number
            self._window.client_accepted(self._accepted, 0.0)
            self._accepted = 0
            await self._plan_ahead(number)
        wanted = self._within(number)
        while True:
            flight = self._flights.get(number)
            if flight is None:
                found = await self._read_tiers(number, wanted)
                if found is not None:
                    if is_new:
                        self._window.reader_ready()
                    self._tier_piece = found
                    return found
                await self._fetch_now(number)
                continue
            if is_new:
                self._adapt_window(number, flight)
            if flight.filled > wanted.start or await self._flights.wait_filled(number, wanted.start + 1):
                return self._flights.piece(number, wanted)
            self._flights.leave(number)

    def advance(self, count: int) -> None:
        """Notes that the reader has used `count` bytes of the piece that `next_piece` returned."""
        self._position += count
        self._accepted += count
        if self._tier_piece is not None:
            source, buffer = self._tier_piece
            self._tier_piece = (source, buffer[count:]) if count < len(buffer) else None
        if self._position % self._view.head.block_size == 0 or self.is_complete:
            number = (self._position - 1) // self._view.head.block_size
            if number in self._flights:
                self._flights.leave(number)

    def pause(self) -> None:
        """Notes that the client accepts no bytes for now. From here on the body's buffers are given up if others need
        them."""
        if self._tier_piece is not None:
            source, buffer = self._tier_piece
            if source == "ssd" and self._source.fetcher.budget.try_acquire(len(buffer)):
                self._charged = len(buffer)
            else:
                self._tier_piece = None  # memory finds it again at no cost
        self._is_paused = True
        self._paused_at = self._source.paused.time()
        self._source.paused.pause(self)

    def resume(self) -> None:
        """Notes that the client accepts bytes again. Always follows `pause`."""
        self._is_paused = False
        self._source.paused.resume(self)
        self._release_read()
        self._window.client_accepted(self._accepted, self._source.paused.time() - self._paused_at)
        self._accepted = 0

    def give_up_spare(self) -> bool:
        """Leaves the flights ahead of the block being sent, and that block's if a tier has it."""
        current, is_held = self._position // self._view.head.block_size, bool(self._charged)
        self._tier_piece, self._planned = None, min(self._planned, current + 1)
        self._release_read()
        for number, flight in self._flights.items():
            if number != current or (flight.has_landed and self._source.tiers.has(flight.block)):
                self._flights.leave(number)
                is_held = True
        return is_held

    def give_up_all(self) -> bool:
        """Leaves every flight."""
        return self._flights.leave_all()

    def _release_read(self) -> None:
        if self._charged:
            self._source.fetcher.budget.release(self._charged)
            self._charged = 0

    async def pieces(self) -> AsyncGenerator[tuple[ByteSource, Buffer]]:
        """Yields the bytes in order, and the source of each piece, for a reader that is never paused. Raises the errors
        of `next_piece`."""
        while not self.is_complete:
            source, buffer = await self.next_piece()
            yield source, buffer
            self.advance(len(buffer))

    async def arrivals(self) -> AsyncGenerator[tuple[Span, bool]]:
        """Brings every block into the tiers without reading those that are there. For warm-up.

        Yields the bytes of each block once it is there, and whether it was fetched for this. Raises what `pieces`
        raises.
        """
        for number in self._blocks:
            await self._plan_ahead(number)
            arrived = fetched = False
            while not arrived and (number in self._flights or not self._source.tiers.has(self._view.block(number))):
                flight = self._flights.get(number)
                if flight is None:
                    await self._fetch_now(number)
                    continue
                self._adapt_window(number, flight)
                arrived = await self._flights.wait_filled(number, flight.length)
                fetched = arrived and not self._flights.is_joined(number)
                self._flights.leave(number)
            yield self._view.block_span(number), fetched

    def close(self) -> None:
        """Gives up everything, also while paused."""
        if self._is_open:
            self._is_open = False
            self._source.paused.open -= 1
        if self._is_paused:
            self._is_paused = False
            self._source.paused.resume(self)
        self._tier_piece = None
        if self._charged:
            self._release_read()
        self._flights.leave_all()

    def _within(self, number: int) -> Span:
        """Returns the bytes of a block that the reader has yet to use, relative to the block."""
        start = number * self._view.head.block_size
        stop = min(self._view.head.block_size, self._span.stop - start)
        return Span(max(0, self._position - start), stop)

    def _adapt_window(self, number: int, flight: Flight) -> None:
        if flight.has_landed:
            self._window.reader_ready()
        elif number >= self._may_grow_at:
            self._may_grow_at = number + max(1, self._per_run // 2)
            self._window.reader_waited()

    async def _read_tiers(self, number: int, within: Span) -> tuple[ByteSource, Buffer] | None:
        block = self._view.block(number)
        buffer = self._source.tiers.memory.get(block)
        if buffer is not None:
            return "memory", buffer[within.start : within.stop]
        within = self._window.next_read(within)
        buffer = await self._source.tiers.read(block, self._view.block_length(number), within)
        return ("ssd", buffer) if buffer is not None else None

    async def _plan_ahead(self, current: int) -> None:
        """Plans the next blocks, a run or more at a time, as far as the window allows."""
        if self._planned >= self._blocks.stop:
            return
        ahead, reach = self._window.runs * self._per_run, self._window.reach
        share = self._source.paused.share()
        if reach is not None or share is not None:
            most = min(bound for bound in (reach, share) if bound is not None)
            ahead = max(1, min(ahead, most // self._view.head.block_size))
        if self._planned - current > max(0, ahead - self._per_run):
            return
        extent = range(max(self._planned, current), min(current + ahead, self._blocks.stop))
        locations = [self._locate(number) for number in extent]
        if self._planned == self._blocks.start:
            self.locations = locations
        self._planned = extent.stop
        for number, location in zip(extent, locations, strict=True):
            if location is BlockState.IN_FLIGHT:
                self._flights.join(number)
        bounds = self._source.bounds if extent.start in self._middle else self._source.bounds.edge
        head = self._view.head
        for run in coalesce(extent.start, locations, head.block_size, head.size, bounds):
            fetch = FetchRequest(self._view, run)
            if not self._source.fetcher.budget.try_reclaim(fetch.buffer_bytes):
                self._planned = run.missing[0]
                if self._planned == current:
                    self._planned = current + 1
                    await self._fetch_alone(current)
                break
            self._flights.start(fetch)

    async def _fetch_alone(self, number: int, *, ignore_tiers: bool = False) -> None:
        """Fetches the block whose turn it is by itself. If its memory must be waited for, all flights are left first,
        and the blocks behind it are planned anew. Raises Throttled."""
        run = Run(range(number, number + 1), (number,), self._view.block_span(number))
        fetch, budget = FetchRequest(self._view, run, ignore_tiers), self._source.fetcher.budget
        if not budget.try_acquire(fetch.buffer_bytes):
            self._flights.leave_all()
            self._planned = number + 1
            is_started = self._position > self._span.start
            await budget.acquire(
                fetch.buffer_bytes, self._source.started_timeout if is_started else self._source.buffer_timeout
            )
        self._flights.start(fetch)

    def _locate(self, number: int) -> BlockState:
        return BlockState.IN_FLIGHT if number in self._flights else self._source.locate(self._view.block(number))

    async def _fetch_now(self, number: int) -> None:
        """Fetches a block that was in a tier when it was planned and is not any more. Afterwards it is followed, unless
        another reader brought it in while memory was waited for."""
        self._flights.join(number)
        if number in self._flights:
            return
        # indexed, but it has just given nothing
        await self._fetch_alone(number, ignore_tiers=self._source.tiers.has(self._view.block(number)))
