"""Direct prefetches: objects of one block that no tier knows, fetched ahead without a task.

    begin ──plain──> opening (metadata.direct_openings) ──kept──> claimed, and its ticket issued ──> on_end(outcome)
       │                └── given up, or another version meanwhile ──> a task fetches it in full ──> on_end(outcome)
       └──> False: it is for a task, and nothing was done

An epoch's plan has millions of such objects, and a task costs as much as all else that is done for one. What is begun
here takes the same turns, and ends with the same outcome, as by jobs.prefetch.prefetcher.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, NamedTuple, TypeAlias

from forebay.core.byte_ranges import Span
from forebay.core.errors import S3Error
from forebay.core.events import BytesWarmed, Observe
from forebay.core.heads import Head
from forebay.core.names import BlockId
from forebay.core.requester import BACKGROUND
from forebay.jobs.prefetch.prefetch_request import OnOutcome, PrefetchOutcome, PrefetchRequest
from forebay.jobs.prefetch.prefetch_tickets import PrefetchTickets
from forebay.metadata.direct_openings import DirectOpening, DirectOpenings
from forebay.metadata.object_checksums import ObjectChecksums
from forebay.origin.turns.background_turns import BackgroundTurns
from forebay.peers.frames import Spawn
from forebay.policy.rules import Decision
from forebay.storage.tiers import Tiers

Fetch: TypeAlias = Callable[[PrefetchRequest], Coroutine[Any, Any, PrefetchOutcome]]
"""Fetches in a task."""


class _UnderWay(NamedTuple):
    request: PrefetchRequest
    turns: BackgroundTurns
    drops: int
    """Calls that had dropped all tickets when it was begun."""
    on_end: OnOutcome


class DirectPrefetches:
    """The direct prefetches of one worker."""

    def __init__(
        self,
        openings: DirectOpenings,
        checksums: ObjectChecksums,
        tiers: Tiers,
        tickets: PrefetchTickets,
        turns_of: Callable[[str], BackgroundTurns],
        observe: Observe,
        fetch: Fetch,
        spawn: Spawn,
    ) -> None:
        """`turns_of`: those of the origin that has a bucket; raises S3Error. `fetch`: goes on with an object that turns
        out to need a task. `spawn`: starts that task."""
        self._openings, self._checksums = openings, checksums
        self._tiers, self._ahead, self._tickets = tiers, tiers.memory.ahead, tickets
        self._turns_of, self._observe, self._fetch, self._spawn = turns_of, observe, fetch, spawn
        self._under_way: dict[DirectOpening, _UnderWay] = {}

    def begin(self, request: PrefetchRequest, decision: Decision, span: Span, on_end: OnOutcome) -> bool:
        """Begins to fetch a whole object that there is room for. Returns False if it is for a task. `span`: the bytes
        that are requested with its head. `on_end`: called once, in a later turn of the loop, unless all is closed
        before."""
        name = request.name
        if decision.packed is not None or self._openings.heads.current(name) is not None:
            return False
        try:
            turns = self._turns_of(name.bucket)
        except S3Error:
            return False
        if not turns.try_acquire(request.group):
            return False
        self._ahead.open_object(name)
        opening = self._openings.begin(name, decision, span, BACKGROUND, self._end)
        if opening is None:
            self._close_object(request)
            turns.release(request.group)
            return False
        self._under_way[opening] = _UnderWay(request, turns, self._tickets.drops, on_end)
        return True

    def _end(self, opening: DirectOpening) -> None:
        request, turns, drops, on_end = self._under_way.pop(opening)
        turns.release(request.group)
        head = opening.head
        ticket = None if head is None or opening.body is None else self._claim(request, head)
        opening.finish()
        self._close_object(request)
        is_dropped = drops != self._tickets.drops
        if head is None:
            opening.give_up()
            if is_dropped or turns.waiting or not turns.has_room:
                opening.abandon()  # its request has a turn at the origin, which demand may want
        if is_dropped:
            self._tickets.drop([ticket or 0])
            outcome = PrefetchOutcome("unavailable", problem="its reader has ended")
            asyncio.get_running_loop().call_soon(on_end, outcome)
        elif head is None or ticket is None:
            self._spawn(self._go_on(request, opening, on_end), f"fetch {request.name.key} ahead")
        else:
            outcome = PrefetchOutcome("fetched", head.size, head.size, head.size, ticket, "", 1, head.size)
            asyncio.get_running_loop().call_soon(on_end, outcome)
            if request.checksums or self._checksums.is_prefetched:
                self._checksums.complete(request.name, head, None)
            self._observe(BytesWarmed(head.size, opening.decision.rule))
            self._tickets.on_bytes("fetched", head.size)

    def _claim(self, request: PrefetchRequest, head: Head) -> int | None:
        """Claims the block of an object, and returns its ticket; None: there is no room for it."""
        block = BlockId(request.name, head.generation, 0)
        return self._tickets.issue([block]) if self._ahead.claim(block, head.size) else None

    async def _go_on(self, request: PrefetchRequest, opening: DirectOpening, on_end: OnOutcome) -> None:
        try:
            outcome = await self._fetch(request)
        finally:
            opening.abandon()  # unless it was taken over
        on_end(outcome)

    def _close_object(self, request: PrefetchRequest) -> None:
        for landed, buffer in self._ahead.close_opening(request.name):
            self._tiers.admit(landed, buffer)

    def close(self) -> None:
        """Ends all that is under way. Nobody is called any more."""
        under_way, self._under_way = self._under_way, {}
        for opening, (request, turns, _, _) in under_way.items():
            opening.close()
            self._close_object(request)
            turns.release(request.group)
