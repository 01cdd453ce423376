"""The resolver: what is the current version of an object, as far as its rule allows to believe it.

    head known, fresh   ->  believed                                                        (no request)
    head known, stale   ->  the check: one conditional request; 304 vouches for the head, 200 or 206 replaces it
    head not known      ->  the opening: one ranged GET whose answer is the head and the first blocks at once

Openings and checks are shared by the readers that arrive meanwhile, with two limits that keep promises:

- after a write was acknowledged nobody joins what was asked before it (`fence` empties the tables);
- a reader that must see the origin's state of now (`always`, no-cache) never joins a check that was sent before it
  came; where it joined an opening, it checks for itself afterwards.

What is learnt is stored only if no fence was raised since it was asked for.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias, assert_never

from forebay.decisions.freshness import Always, Fresh, judge
from forebay.decisions.planner import Run
from forebay.decisions.rules import Decision
from forebay.flights.fences import Doubts, Fences, Tick
from forebay.flights.fetcher import Fetch, Fetcher
from forebay.flights.flight import Flight
from forebay.flights.tasks import TaskRegistry
from forebay.stores.origin.outcomes import Foreign, Opened, Refused, Unchanged
from forebay.stores.origin.reads import OriginReads
from forebay.stores.tiers import Tiers
from forebay.words.errors import ForebayError, Throttled
from forebay.words.heads import Head, head_of
from forebay.words.names import BlockId, Generation, ObjectName, Version
from forebay.words.ranges import Span, block_span, blocks_touching

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Known:
    """The version to answer with."""

    head: Head
    how: Literal["believed", "checked", "opened"]
    arriving: Mapping[int, Flight] = field(default_factory=dict)
    """The flights that came with the answer that told the head, landed or not, by block number. Held here, so that a
    reader gets their bytes even where no tier could keep them."""
    joined: bool = False
    """That answer was asked for by somebody else."""


Resolution: TypeAlias = Known | Refused | Foreign


@dataclass(frozen=True, slots=True)
class Opening:
    """What to ask the origin for when it has to be asked anyway."""

    span: Span | None
    """The first bytes wanted, from a block's beginning on; None: only the head (HEAD)."""


@dataclass(frozen=True, slots=True)
class Staged:
    """Bytes that passed through on their way up and are in the tiers, reachable once a head names their generation."""

    generation: Generation
    block_size: int
    size: int
    etag: str
    """As the origin confirmed it."""


class Resolver:
    """Shares what readers need to know first. `clock` gives seconds since the epoch; `deadline` is the most seconds to
    wait for memory before the blocks of an opening are let go."""

    def __init__(
        self,
        reads: OriginReads,
        tiers: Tiers,
        fetcher: Fetcher,
        fences: Fences,
        doubts: Doubts,
        tasks: TaskRegistry,
        clock: Callable[[], float],
        deadline: float,
    ) -> None:
        self._reads = reads
        self._tiers = tiers
        self._fetcher = fetcher
        self._fences = fences
        self._doubts = doubts
        self._tasks = tasks
        self._clock = clock
        self._deadline = deadline
        self._shared: dict[tuple[ObjectName, str], asyncio.Task[Resolution]] = {}
        self._installing: dict[ObjectName, asyncio.Task[None]] = {}

    def fence(self, name: ObjectName) -> None:
        """From here on nobody joins what was asked about `name` before."""
        for what in ("GET", "HEAD", "check"):
            self._shared.pop((name, what), None)
        self._installing.pop(name, None)

    def fence_bucket(self, bucket: str) -> None:
        for key in [key for key in self._shared if key[0].bucket == bucket]:
            del self._shared[key]
        for name in [name for name in self._installing if name.bucket == bucket]:
            del self._installing[name]

    async def disbelieve(self, name: ObjectName, head: Head) -> None:
        """Forget `head`, which was found to be outdated, unless it has been replaced already."""
        known = self._tiers.head(name)
        if known is not None and known.version == head.version:
            await self._tiers.forget(name)

    def install(self, name: ObjectName, staged: Staged) -> None:
        """Make what was staged while it was written the object's bytes, once the origin has told its facts.

        Runs on its own; readers that come meanwhile wait for it rather than fetch what is at hand. To be called when
        the write was confirmed and its last fence is up.
        """
        task = self._tasks.spawn(self._install(name, staged), f"install {name.path}")
        self._installing[name] = task
        task.add_done_callback(lambda done: self._installed(name, done))

    def _installed(self, name: ObjectName, task: asyncio.Task[None]) -> None:
        if self._installing.get(name) is task:
            del self._installing[name]

    async def _install(self, name: ObjectName, staged: Staged) -> None:
        since, asked_at = self._fences.now(), self._clock()
        try:
            answer = await self._reads.open_read(name, None, method="HEAD")
        except ForebayError as error:
            _log.info("%s was written, but is not installed: %s", name.path, error)
            return
        if not isinstance(answer, Opened):
            return
        answer.body.close()
        facts = answer.facts
        if facts.version.etag == staged.etag and facts.size == staged.size:
            self._store(name, Head(facts, staged.block_size, staged.generation, asked_at), since)

    def believed(self, name: ObjectName, decision: Decision, *, no_cache: bool) -> Head | None:
        """The head, if it may be believed as it is. Synchronous: the way of a hit."""
        head = self._tiers.head(name)
        return head if head is not None and self._fresh(name, head, decision, no_cache) else None

    async def resolve(
        self, name: ObjectName, decision: Decision, opening: Opening, *, no_cache: bool = False
    ) -> Resolution:
        """The current version of `name`, or what the origin answered instead. Raises OriginError when it can't be
        read."""
        installing = self._installing.get(name)
        if installing is not None:
            await asyncio.wait([installing])
        head = self._tiers.head(name)
        if head is not None and self._fresh(name, head, decision, no_cache):
            return Known(head, "believed")
        strict = no_cache or self._always(name, decision)
        if head is None:
            method = "HEAD" if opening.span is None else "GET"
            found = await self._share((name, method), lambda: self._open(name, decision, opening))
            if not (strict and isinstance(found, Known) and found.joined):
                return found
            head = found.head
        if strict:
            return await self._tasks.finish(self._check(name, decision, head, opening), f"check {name.path}")
        return await self._share((name, "check"), lambda: self._check(name, decision, head, opening))

    def _always(self, name: ObjectName, decision: Decision) -> bool:
        return isinstance(decision.freshness, Always) or self._doubts.holds(name, self._clock())

    def _fresh(self, name: ObjectName, head: Head, decision: Decision, no_cache: bool) -> bool:
        now = self._clock()
        freshness = Always() if self._doubts.holds(name, now) else decision.freshness
        verdict = judge(head.validated_at, freshness, now, self._tiers.trusted_from, no_cache)
        return isinstance(verdict, Fresh)

    async def _share(
        self, key: tuple[ObjectName, str], work: Callable[[], Coroutine[Any, Any, Resolution]]
    ) -> Resolution:
        """The result of the work under way for `key`, begun if there is none."""
        task = self._shared.get(key)
        if task is not None:
            found = await asyncio.shield(task)
            return replace(found, joined=True) if isinstance(found, Known) else found
        task = self._tasks.spawn(work(), f"{key[1]} {key[0].path}")
        self._shared[key] = task
        task.add_done_callback(lambda done: self._unshare(key, done))
        return await asyncio.shield(task)

    def _unshare(self, key: tuple[ObjectName, str], task: asyncio.Task[Resolution]) -> None:
        if self._shared.get(key) is task:
            del self._shared[key]

    async def _open(self, name: ObjectName, decision: Decision, opening: Opening) -> Resolution:
        return await self._ask(name, decision, opening.span, unless=None)

    async def _check(self, name: ObjectName, decision: Decision, head: Head, opening: Opening) -> Resolution:
        return await self._ask(name, decision, opening.span, unless=head)

    async def _ask(self, name: ObjectName, decision: Decision, span: Span | None, unless: Head | None) -> Resolution:
        since, asked_at = self._fences.now(), self._clock()
        version: Version | None = unless.version if unless is not None else None
        answer = await self._reads.open_read(name, span, method="GET" if span is not None else "HEAD", unless=version)
        match answer:
            case Opened():
                head = head_of(answer.facts, decision.block, asked_at)
                self._store(name, head, since)
                arriving: Mapping[int, Flight] = {}
                if span is not None:
                    arriving = await self._take_first_blocks(name, head, decision, answer)
                return Known(head, "opened", arriving)
            case Unchanged():
                if unless is None:
                    return Foreign("304 to a request without If-None-Match")
                if answer.last_modified not in ("", unless.facts.last_modified):
                    # The same bytes written again, or other metadata on them: the head is to be read anew.
                    return await self._ask(name, decision, None, unless=None)
                head = unless.validated(asked_at)
                self._store(name, head, since)
                return Known(head, "checked")
            case Refused(status=416) if span is not None:
                # Past the end, or an empty object. The client's range is judged against the head, as on a hit.
                return await self._ask(name, decision, None, unless=None)
            case Refused():
                if answer.status == 404 and unless is not None:
                    await self._tiers.forget(name)
                return answer
            case Foreign():
                return answer
        assert_never(answer)

    def _store(self, name: ObjectName, head: Head, since: Tick) -> None:
        if self._fences.allows(name, since):
            self._tiers.put_head(name, head)

    async def _take_first_blocks(
        self, name: ObjectName, head: Head, decision: Decision, opened: Opened
    ) -> Mapping[int, Flight]:
        numbers = blocks_touching(opened.span, head.block_size)
        missing = [number for number in numbers if not self._at_hand(BlockId(name, head.generation, number))]
        if not missing:
            opened.body.close()
            return {}
        blocks = range(numbers.start, missing[-1] + 1)
        span = Span(opened.span.start, block_span(missing[-1], head.block_size, head.size).stop)
        try:
            fetch = Fetch(name, head, Run(blocks, tuple(missing), span), decision.rule, keep=True)
            return await self._fetcher.adopt(fetch, opened, self._deadline)
        except Throttled:
            return {}  # the reader asks for memory itself and is told to slow down, if it still must

    def _at_hand(self, block: BlockId) -> bool:
        return self._fetcher.registry.find(block) is not None or self._tiers.resident(block)
