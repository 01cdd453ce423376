"""The prefetcher: fetches bytes that are about to be read, beside demand, into a budget of its own.

    find_nowait                all of it is here                                            ──> ticket
    begin                      an object of one block, without a task (jobs.prefetch.direct_prefetches)
    fetch ──> background turn ──> head ──> claim its blocks ──> fetch the missing ones ──> ticket
    finish(ticket), drop(ticket)      it was read, or won't be (jobs.prefetch.prefetch_tickets)

It reads as a client does, under the same rules, with the same credential and through the same flights; but it skips
cached blocks, and begins no fetch that demand would have to wait for (origin.turns.background_turns). Fetched blocks
wait for their reader outside the tiers (storage.memory.prefetched_blocks), where the ordinary look-up finds them.

Plans, recordings and read-ahead use it in the worker that owns the object (jobs.prefetch.node_prefetcher). The caller
has established that its principal may read the object. One call fetches PIECE bytes at most, so that a large object
takes its turns as many small ones do. There is no wait for room: the outcome is `full`, and the caller tries again when
it has given something back.
"""

import asyncio
from collections.abc import Callable, Iterable
from contextlib import aclosing
from typing import Final, assert_never

from forebay.core.byte_ranges import Span, blocks_touching
from forebay.core.errors import ForebayError, S3Error
from forebay.core.events import BytesWarmed
from forebay.core.names import BlockId
from forebay.core.timers import Timers
from forebay.fetch.block_source import BlockSource
from forebay.fetch.fetch_request import ObjectView
from forebay.fetch.ordered_body import OrderedBody
from forebay.jobs.prefetch.direct_prefetches import DirectPrefetches
from forebay.jobs.prefetch.prefetch_request import OnOutcome, PrefetchOutcome, PrefetchRequest, PrefetchStatus
from forebay.jobs.prefetch.prefetch_tickets import PrefetchTickets
from forebay.jobs.prefetch.transient_failures import is_transient, is_transient_status
from forebay.metadata.direct_openings import DirectOpenings
from forebay.metadata.lookup_request import LookupRequest
from forebay.metadata.packed_objects import PackedObjects
from forebay.metadata.resolution import ResolvedVersion
from forebay.metadata.resolver import Resolver
from forebay.origin.reads.read_outcomes import ErrorResponse, Uncacheable
from forebay.origin.turns.background_turns import BackgroundTurns
from forebay.peers.frames import Spawn
from forebay.policy.rules import Decision, Rules
from forebay.storage.memory.prefetched_blocks import PREFETCHED_OVERHEAD

PIECE: Final = 8 << 20
"""Bytes that one call fetches at most, but for the rest of a block."""


class Prefetcher:
    """Fetches ahead in one worker."""

    def __init__(
        self,
        resolver: Resolver | PackedObjects,
        source: BlockSource,
        openings: DirectOpenings,
        turns_of: Callable[[str], BackgroundTurns],
        rules: Callable[[], Rules],
        timers: Timers,
        spawn: Spawn,
        on_bytes: Callable[[str, int], None] = lambda _result, _size: None,
    ) -> None:
        """`turns_of`: those of the origin that has a bucket; raises S3Error. `rules` returns those in force. `spawn`
        starts tasks. `on_bytes(result, size)` is called with bytes that were "fetched" ahead, and then "used" or
        "useless"."""
        self._resolver = resolver
        self._source = source
        self._tiers = source.tiers
        self._ahead = source.tiers.memory.ahead
        self._turns_of = turns_of
        self._rules = rules
        self._on_bytes = on_bytes
        self._tickets = PrefetchTickets(source.tiers, timers, on_bytes)
        self._direct = DirectPrefetches(
            openings,
            resolver.checksums,
            source.tiers,
            self._tickets,
            turns_of,
            source.observe,
            self._fetch_in_turn,
            spawn,
        )

    def __repr__(self) -> str:
        return f"<Prefetcher {self._tickets!r}, {self._ahead!r}>"

    @property
    def tickets(self) -> int:
        """The number of tickets out."""
        return len(self._tickets)

    def find_nowait(self, request: PrefetchRequest) -> PrefetchOutcome | None:
        """See PrefetchLookup. Without a turn and a task, as all entries of an epoch may be cached."""
        decision = self._rules().decide(request.name)
        if not decision.accelerate:
            return None
        found = self._resolver.resolve_nowait(LookupRequest(request.name, decision, None, identity=request.identity))
        if found is None:
            return None
        head, size = found.head, found.head.size
        if found.stored is None and 0 < size <= head.block_size and not request.start and request.stop is None:
            return self._find_block(BlockId(request.name, head.generation, 0), size)  # as most objects are
        stop = size if request.stop is None else min(request.stop, size)
        if stop - request.start > PIECE:
            return None
        wanted = found.located(Span(request.start, max(request.start, stop)))
        view = found.view(request.name, decision.rule, request.identity)
        numbers = blocks_touching(wanted, view.head.block_size)
        blocks = [view.block(number) for number in numbers]
        if not all(map(self._tiers.has, blocks)):
            return None
        claimed = [block for block in blocks if self._ahead.has(block)]
        for block in claimed:
            self._ahead.claim(block, view.block_length(block.number))
        return self._outcome(view, size, max(request.start, stop), claimed)

    def _find_block(self, block: BlockId, size: int) -> PrefetchOutcome | None:
        """Likewise, of an object that is one block."""
        if self._ahead.has(block):
            self._ahead.claim(block, size)
            return PrefetchOutcome("fetched", size, size, size, self._tickets.issue([block]))
        return PrefetchOutcome("fetched", size, size) if self._tiers.has(block) else None

    def begin(self, request: PrefetchRequest, on_end: OnOutcome) -> bool:
        """See PrefetchLookup."""
        if request.start or request.stop is not None or request.identity is not None:
            return False
        decision = self._rules().decide(request.name)
        if not decision.accelerate or not self._has_room(request, decision):
            return False
        return self._direct.begin(request, decision, self._first_span(request, decision), on_end)

    async def fetch(self, request: PrefetchRequest) -> PrefetchOutcome:
        """Fetches a piece, if there is room for it. Never raises ForebayError."""
        ended: asyncio.Future[PrefetchOutcome] = asyncio.get_running_loop().create_future()

        def end(outcome: PrefetchOutcome) -> None:
            if ended.done():  # the caller was cancelled
                self.drop([outcome.ticket])
            else:
                ended.set_result(outcome)

        return await (ended if self.begin(request, end) else self._fetch_in_turn(request))

    async def _fetch_in_turn(self, request: PrefetchRequest) -> PrefetchOutcome:
        decision = self._rules().decide(request.name)
        if not decision.accelerate:
            return PrefetchOutcome("refused", problem="no rule accelerates it")
        if not self._has_room(request, decision):
            return PrefetchOutcome("full")
        try:
            turns = self._turns_of(request.name.bucket)
        except S3Error as refused:
            return PrefetchOutcome("refused", problem=str(refused))
        drops = self._tickets.drops
        async with turns.turn(request.group):
            try:
                outcome = await self._fetch(request, decision)
            except ForebayError as failure:
                return PrefetchOutcome("unavailable" if is_transient(failure) else "failed", problem=str(failure))
        if drops == self._tickets.drops:
            return outcome
        self.drop([outcome.ticket])  # all was dropped meanwhile
        return PrefetchOutcome("unavailable", problem="its reader has ended")

    def _has_room(self, request: PrefetchRequest, decision: Decision) -> bool:
        """Whether there is room, and demand leaves buffers to fetch through."""
        buffers, room = self._source.fetcher.budget, self._ahead.budget
        # The budget may be smaller than a block, and larger than most objects.
        wanted = max(1, min((request.expected or decision.block) + PREFETCHED_OVERHEAD, room.capacity))
        return room.is_free(wanted) and buffers.in_use * 2 <= buffers.capacity and not buffers.waiting

    def _first_span(self, request: PrefetchRequest, decision: Decision) -> Span:
        """Returns the bytes that are requested with the head of an object: whole blocks, from the first wanted byte
        on."""
        block = decision.block
        start = request.start // block * block
        wanted = PIECE if request.stop is None else max(1, request.stop - start)
        longest = min(PIECE, self._source.first_bytes(), wanted)
        return Span(start, start + -(-longest // block) * block)

    async def _fetch(self, request: PrefetchRequest, decision: Decision) -> PrefetchOutcome:
        if not self._has_room(request, decision):  # others were granted their turns meanwhile
            return PrefetchOutcome("full")
        claimed: list[BlockId] = []
        self._ahead.open_object(request.name)
        try:
            lookup = LookupRequest(
                request.name, decision, self._first_span(request, decision), identity=request.identity
            )
            resolution = await self._resolver.resolve(lookup, leads=True)
            match resolution:
                case ResolvedVersion(head, _, flights, joined):
                    checksums = self._resolver.checksums
                    if request.start == 0 and request.stop is None and (request.checksums or checksums.is_prefetched):
                        checksums.complete(request.name, head, request.identity)
                    view = resolution.view(request.name, decision.rule, request.identity)
                    span = self._claim(request, resolution, view, claimed)
                    body = OrderedBody(self._source, view, resolution.located(span), flights, joined=joined)
                    resolution.release_flights()
                case ErrorResponse(status):
                    refusal: PrefetchStatus = "unavailable" if is_transient_status(status) else "refused"
                    return PrefetchOutcome(refusal, problem=f"the origin answered {status}")
                case Uncacheable(reason):
                    return PrefetchOutcome("refused", problem=reason)
                case _:
                    assert_never(resolution)
        finally:
            for landed, buffer in self._ahead.close_opening(request.name):
                self._tiers.admit(landed, buffer)
        try:
            blocks, size = await self._fetch_blocks(body, decision.rule)
        except BaseException:
            self._tickets.give_up(claimed)
            raise
        finally:
            body.close()
        if not span.length and request.start < min(head.size, request.stop or head.size):
            fits = min(view.head.block_size, view.head.size) + PREFETCHED_OVERHEAD <= self._ahead.budget.capacity
            return PrefetchOutcome("full" if fits else "refused", head.size, problem="its blocks exceed memory.ahead")
        outcome = self._outcome(view, head.size, span.stop, claimed)
        return outcome._replace(fetched_blocks=blocks, fetched_bytes=size)

    def _outcome(self, view: ObjectView, size: int, stop: int, claimed: list[BlockId]) -> PrefetchOutcome:
        waiting = sum(view.block_length(each.number) for each in claimed)
        return PrefetchOutcome("fetched", size, stop, waiting, self._tickets.issue(claimed))

    async def _fetch_blocks(self, body: OrderedBody, rule: str) -> tuple[int, int]:
        """Returns how many came from the origin, and their bytes."""
        blocks = size = 0
        async with aclosing(body.arrivals()) as arrivals:
            async for span, fetched in arrivals:
                if fetched:
                    self._source.observe(BytesWarmed(span.length, rule))
                    self._on_bytes("fetched", span.length)
                    blocks, size = blocks + 1, size + span.length
        return blocks, size

    def _claim(
        self, request: PrefetchRequest, found: ResolvedVersion, view: ObjectView, claimed: list[BlockId]
    ) -> Span:
        """Claims the missing blocks of the next piece, into `claimed`. Returns the bytes that there is room for."""
        most = request.start + PIECE
        stop = min(found.head.size, most if request.stop is None else min(request.stop, most))
        wanted = found.located(Span(request.start, max(request.start, stop)))
        offset = wanted.start - request.start
        for number in blocks_touching(wanted, view.head.block_size):
            block = view.block(number)
            if self._tiers.has(block) and not self._ahead.has(block):
                continue
            if not self._ahead.claim(block, view.block_length(number)):
                stop = max(request.start, view.block_span(number).start - offset)
                break
            claimed.append(block)
        return Span(request.start, max(request.start, stop))

    # Afterwards

    def finish(self, tickets: Iterable[int], *, late: bool = False) -> None:
        """See PrefetchTickets.finish."""
        self._tickets.finish(tickets, late=late)

    def drop(self, tickets: Iterable[int]) -> None:
        """See PrefetchTickets.drop."""
        self._tickets.drop(tickets)

    def drop_all(self) -> None:
        """Drops all that was fetched ahead or is being fetched: its readers have ended."""
        self._tickets.drop_all()

    async def close(self) -> None:
        """Drops all that was fetched ahead, and waits until its claims are given up."""
        self._direct.close()
        await self._tickets.close()
