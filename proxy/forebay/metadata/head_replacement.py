"""Head replacement: once a response shows that a version was replaced at the origin, no later response is of it.

    response of another version ──> forget the known one ──> store the new head ──> the reader's response
                                    in every worker and tier, durably

A reader that learns of a replacement (by a revalidation, a 404, a missing block) waits for the removal before its
client is answered. So no later response is of the old version, not even after a crash. Responses under way may go on
with its blocks, which no head names any more. The cost is an invalidation for each version found replaced, and nothing
where no head is known or the known one is confirmed.

Which of two versions is the newer one is known only if one was requested after the other was answered. Of two requests
at the same time the origin may carry out either last (the first is sent again, or is late), so both versions are given
up. Where the origin has no object, and none is known, requests under way store nothing any more, and nobody joins them.

A version with another size than it was known with is no replacement: one of two responses is wrong, and which is not
known. Both are given up, and the caller asks the origin anew, unconditionally.

One removal of an object is under way at a time; others that have found the same wait for it.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any, Final, NoReturn, TypeAlias

from forebay.core.errors import SizeContradicted
from forebay.core.events import HeadContradicted, Observe
from forebay.core.fences import Tick
from forebay.core.heads import Head
from forebay.core.names import Generation, ObjectName
from forebay.core.task_registry import TaskRegistry
from forebay.metadata.object_heads import HeadDestination, ObjectHeads
from forebay.metadata.shared_lookup import SharedLookups

_WARNING_PAUSE: Final = 60.0
"""Seconds between two warnings."""

_log = logging.getLogger(__name__)

ForgetReplaced: TypeAlias = Callable[[ObjectName, Generation | None, Tick], Coroutine[Any, Any, Tick | None]]
"""Forgets an object in all workers, durably, except the blocks of a generation. Returns the tick at which facts of
requests at the given tick may be stored; None: they must not be stored (write.invalidation)."""


class HeadReplacement:
    """Stores heads, and removes those of replaced versions first."""

    def __init__(
        self,
        heads: ObjectHeads,
        lookups: SharedLookups,
        forget_replaced: ForgetReplaced,
        tasks: TaskRegistry,
        observe: Observe,
    ) -> None:
        self._heads = heads
        self._lookups = lookups
        self._forget_replaced = forget_replaced
        self._tasks = tasks
        self._observe = observe
        self._warn_from = 0.0
        self._removals: dict[ObjectName, asyncio.Task[Tick | None]] = {}

    def try_store(self, name: ObjectName, head: Head, since: Tick) -> bool:
        """Stores a head as `store` does, unless another version is known or is being forgotten: then does nothing.
        Returns whether `store` is no longer needed."""
        return name not in self._removals and self._heads.store(name, head, since) is None

    def try_store_over(self, known: Head | None, name: ObjectName, head: Head, since: Tick) -> bool:
        """Stores the head of a current version as `try_store` does. `known`: the head that was just looked up."""
        return name not in self._removals and self._heads.store_over(known, name, head, since) is None

    def try_destination_over(
        self, known: Head | None, name: ObjectName, head: Head, since: Tick
    ) -> HeadDestination | None:
        """Returns where `try_store_over` would put the head (ObjectHeads.put); None where it would do nothing and
        `store` is needed. Stores nothing."""
        if name in self._removals:
            return None
        destination = self._heads.destination_over(known, name, head, since)
        return None if isinstance(destination, Head) else destination

    async def store(self, name: ObjectName, head: Head, since: Tick) -> Tick:
        """Stores a head that was requested at `since`, where that is allowed; another version is forgotten before.

        Returns the tick that the head counts as requested at: a later one if it has replaced another. Raises
        SizeContradicted if the version was known with another size, which is forgotten then.
        """
        while True:
            await self._wait_removed(name)
            replaced = self._heads.store(name, head, since)
            if replaced is None:
                return since
            if replaced.version == head.version:
                await self._give_up(name, replaced, head)
            is_overtaken = self._heads.is_overtaken(name, head, replaced)
            tick = await self._remove(name, replaced.generation, since)
            if tick is None or is_overtaken:
                return since
            since = tick

    async def remove(self, name: ObjectName, head: Head) -> None:
        """Forgets the version that `head` describes, which is not the current one, unless that was done already."""
        await self._wait_removed(name)
        known = self._heads.current(name)
        if known is not None and known.version == head.version:
            await self._remove(name, None, self._heads.now().tick)

    async def remove_deleted(self, name: ObjectName, requested_at: float) -> None:
        """The origin has no object, by the response to a request that was sent then: forgets the version that is
        known. Blocks stay of one that was requested meanwhile, and may be newer."""
        await self._wait_removed(name)
        known = self._heads.current(name)
        if known is not None:
            keep = known.generation if known.validated_at > requested_at else None
            await self._remove(name, keep, self._heads.now().tick)
        elif not self._heads.requests.is_single(name):
            self._heads.fence(name)
            self._lookups.fence(name)

    async def _give_up(self, name: ObjectName, known: Head, head: Head) -> NoReturn:
        """Forgets the known head of a version that a response has given another size."""
        self._observe(HeadContradicted())
        now = self._heads.clock()
        if not 0.0 <= self._warn_from - now <= _WARNING_PAUSE:
            self._warn_from = now + _WARNING_PAUSE
            _log.warning(
                "%s has %d bytes, and had %d under the same ETag %s: both are forgotten; further cases are counted",
                name.path,
                head.size,
                known.size,
                head.version.etag,
            )
        if known.by_id:
            self._heads.remove_by_id(name, known.version.version_id or "")
        else:
            await self._remove(name, None, self._heads.now().tick)
        raise SizeContradicted(f"one version with {known.size} and with {head.size} bytes")

    async def _wait_removed(self, name: ObjectName) -> None:
        while (removal := self._removals.get(name)) is not None:
            await asyncio.wait([removal])

    async def _remove(self, name: ObjectName, keep: Generation | None, since: Tick) -> Tick | None:
        """Runs to its end also if its caller is cancelled."""
        removal = self._tasks.spawn(self._forget_replaced(name, keep, since), f"forget replaced {name.path}")
        self._removals[name] = removal
        removal.add_done_callback(lambda _: self._removals.pop(name))
        return await asyncio.shield(removal)
