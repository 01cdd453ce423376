"""Direct warm-up: small objects that no tier knows, warmed one after the other without a task.

    next ──> item ──plain──> opening (metadata.direct_openings) ──kept──> counted, and the next item
               └── else           └── given up, or something is to be waited for
                                       the item, and what was begun, are the caller's: its task goes on

A job has as many runs as it may fetch objects at once, each with one object under way; they share the items. Only items
that need no other decision of the object warmer are warmed here.
"""

import asyncio
from collections.abc import Callable, Iterator
from functools import partial
from typing import Final, Generic, TypeVar

from forebay.core.byte_ranges import Span
from forebay.core.errors import S3Error
from forebay.core.events import BytesWarmed, Observe
from forebay.core.names import ObjectName
from forebay.core.requester import BACKGROUND
from forebay.metadata.direct_openings import DirectOpening, DirectOpenings
from forebay.origin.turns.background_turns import BackgroundTurns
from forebay.policy.rules import Decision, Rules

SMALL_FLUSH_BYTES: Final = 16 << 20
"""Bytes of small objects that are fetched before the tiers must have stored them: hundreds of them are stored in one
transaction."""
UNFLUSHED_OVERHEAD: Final = 4 << 10
"""Bytes for which the head of an object and the order to write it count."""

_Item = TypeVar("_Item")


class DirectWarmer:
    """Warms plain small objects of one worker. See forebay.jobs.warm_up.object_warmer for the rest."""

    def __init__(
        self,
        openings: DirectOpenings,
        turns_of: Callable[[str], BackgroundTurns],
        rules: Callable[[], Rules],
        first_span: Callable[[Decision], Span],
        observe: Observe,
    ) -> None:
        """`first_span`: the bytes that are requested with the head of an object."""
        self._openings, self._turns_of, self._rules = openings, turns_of, rules
        self._first_span, self._observe = first_span, observe
        self._unflushed = 0

    def begin(self, name: ObjectName, group: str, on_end: Callable[[DirectOpening], None]) -> DirectOpening | None:
        """Begins to warm an object in the name of a job; None: it is for a task, and nothing was done."""
        decision, openings = self._rules().decide(name), self._openings
        if not decision.accelerate or decision.packed is not None or openings.heads.current(name) is not None:
            return None
        try:
            turns = self._turns_of(name.bucket)
        except S3Error:
            return None
        if not turns.try_acquire(group):
            return None
        opening = openings.begin(name, decision, self._first_span(decision), BACKGROUND, on_end)
        if opening is None:
            turns.release(group)
        return opening

    def release(self, name: ObjectName, group: str) -> None:
        """Gives the turn of an object back that was begun."""
        self._turns_of(name.bucket).release(group)

    def has_room(self, name: ObjectName) -> bool:
        """Whether an object may begin to be warmed now."""
        turns = self._turns_of(name.bucket)
        return turns.has_room and not turns.waiting

    def end(self, group: str, opening: DirectOpening) -> int | None:
        """Counts an object that was begun, and returns its size; None: it was given up, or its bytes are not kept."""
        self.release(opening.name, group)
        head, kept = opening.head, opening.body is not None
        opening.finish()
        if head is None or not kept:
            return None
        self._observe(BytesWarmed(head.size, opening.decision.rule))
        self.count_stored(head.size)
        return head.size

    def count_stored(self, size: int) -> None:
        """Counts a small object that the tiers have admitted."""
        self._unflushed += size + UNFLUSHED_OVERHEAD

    def take_flush(self) -> bool:
        """Whether so much was admitted that the caller has to wait until the tiers have stored it; counts anew then."""
        if self._unflushed < SMALL_FLUSH_BYTES:
            return False
        self._unflushed = 0
        return True

    @property
    def is_flush_due(self) -> bool:
        """Whether a caller has to wait for the tiers."""
        return self._unflushed >= SMALL_FLUSH_BYTES


class DirectRun(Generic[_Item]):
    """One object of a job after the other."""

    def __init__(
        self,
        warmer: DirectWarmer,
        group: str,
        items: Iterator[_Item],
        name_of: Callable[[_Item], ObjectName | None],
        kept: Callable[[_Item, int], bool],
    ) -> None:
        """`name_of`: of an item; None where it needs a task. `kept`: called with the size of each object that is
        kept; returns whether the run stops for its caller to do something."""
        self._warmer, self._group, self._items = warmer, group, items
        self._name_of, self._kept = name_of, kept
        self._stopped: asyncio.Future[_Item | None] = asyncio.get_running_loop().create_future()
        self._under_way: tuple[ObjectName, DirectOpening] | None = None
        self._given_up: DirectOpening | None = None
        self.has_ended = False
        """Whether there are no items left."""

    async def next(self) -> _Item | None:
        """Warms objects until one needs a task, and returns it; None: there are no more, or `kept` or the tiers want
        the caller to wait."""
        self._abandon()
        self._stopped = asyncio.get_running_loop().create_future()
        self._advance()
        return await self._stopped

    def close(self) -> None:
        """Ends the object under way."""
        self._abandon()
        under_way, self._under_way = self._under_way, None
        if under_way is not None:
            name, opening = under_way
            opening.close()
            self._warmer.release(name, self._group)

    def _abandon(self) -> None:
        """Ends a given up opening, unless a task has taken it over."""
        given_up, self._given_up = self._given_up, None
        if given_up is not None:
            given_up.abandon()

    def _advance(self) -> None:
        item = next(self._items, None)
        if item is None:
            self.has_ended = True
            self._stop(None)
            return
        name = self._name_of(item)
        opening = None if name is None else self._warmer.begin(name, self._group, partial(self._end, item))
        if name is None or opening is None:
            self._stop(item)
        else:
            self._under_way = name, opening

    def _end(self, item: _Item, opening: DirectOpening) -> None:
        self._under_way = None
        try:
            size = self._warmer.end(self._group, opening)
            if size is None:
                if opening.head is None:
                    self._give_up(opening)
                self._stop(item)
            elif self._kept(item, size) or self._warmer.is_flush_due:
                self._stop(None)
            else:
                self._advance()
        except Exception as failure:
            if not self._stopped.done():
                self._stopped.set_exception(failure)

    def _give_up(self, opening: DirectOpening) -> None:
        """Leaves an opening to the task of the caller; not while that has to wait for a turn, as the request of the
        opening has one at the origin, which demand may want."""
        opening.give_up()
        if self._warmer.has_room(opening.name):
            self._given_up = opening
        else:
            opening.abandon()

    def _stop(self, item: _Item | None) -> None:
        if not self._stopped.done():  # else the caller was cancelled, and closes this
            self._stopped.set_result(item)
