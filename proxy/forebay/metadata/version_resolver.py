"""Versions by their id: what `?versionId=` reads need to know first.

A version's bytes never change, so its head is believed without asking again, for as long as it is kept, unless the
rule says `always` or the client says no-cache. It is kept apart from the head of the current version, which it is never
taken for; the bytes of both lie under their generation, so that a version that is also the current one is kept once.

A write to the object makes its versions' heads as if they had not been learnt (the fences say so): it may have removed
the version or changed its tags. What the origin refuses (404, a delete marker's 405) is not kept.

Heads are kept in memory alone, the least recently used leaves first. After a restart one request learns a head anew and
finds the blocks on the SSD.

What another worker of the node owns is asked of that worker, as the current version is (forebay.metadata.resolver).
"""

from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final, Protocol, TypeAlias, assert_never

from cachetools import LRUCache

from forebay.core.byte_ranges import Span
from forebay.core.fences import Doubts, Fences, Tick
from forebay.core.heads import Head, head_of
from forebay.core.names import ObjectName
from forebay.core.task_registry import TaskRegistry
from forebay.fetch.flight import Flight
from forebay.metadata.shared_lookup import Resolution, ResolvedVersion, SharedLookup
from forebay.origin.object_reads import OriginReads
from forebay.origin.read_outcomes import ErrorResponse, ObjectOpened, Revalidated, Uncacheable
from forebay.peers.owners import Owner, OwnerResponse, Peers, PeerUnavailable
from forebay.policy.freshness import AlwaysRevalidate
from forebay.policy.rules import Decision

KEPT: Final = 8 << 20
"""Bytes of heads, as counted: their texts, and OVERHEAD for each."""
OVERHEAD: Final = 1500

_Kept: TypeAlias = tuple[Head, Tick]
"""A head, and since when it is known."""


class TakesBlocks(Protocol):
    """What becomes of the bytes that come with a head: forebay.metadata.resolver."""

    def __call__(
        self, name: ObjectName, head: Head, decision: Decision, opened: ObjectOpened | None, /
    ) -> dict[int, Flight]: ...


class Versions:
    """Shares what readers of versions need to know. `clock`: seconds since the epoch."""

    def __init__(
        self,
        reads: OriginReads,
        take_blocks: TakesBlocks,
        fences: Fences,
        doubts: Doubts,
        tasks: TaskRegistry,
        clock: Callable[[], float],
        kept: int = KEPT,
        peers: Peers | None = None,
    ) -> None:
        self._peers = peers or Peers()
        self._reads = reads
        self._take_blocks = take_blocks
        self._fences = fences
        self._doubts = doubts
        self._tasks = tasks
        self._clock = clock
        self._heads: LRUCache[tuple[ObjectName, str], _Kept] = LRUCache(kept, _cost)
        self._asked: dict[tuple[ObjectName, str, str], tuple[SharedLookup, Tick]] = {}

    def __len__(self) -> int:
        return len(self._heads)

    async def resolve(
        self, name: ObjectName, version_id: str, decision: Decision, span: Span | None, *, no_cache: bool
    ) -> Resolution:
        """The version of `name` with this id, or what the origin answered instead. `span`: what to ask for first, None
        for the head alone. Raises OriginError when it can't be read."""
        strict = no_cache or isinstance(decision.freshness, AlwaysRevalidate) or self._doubts.holds(name, self._clock())
        head = None if strict else self._head(name, version_id)
        if head is not None:
            return ResolvedVersion(head, "believed")
        if strict:
            return await self._begin(name, self._ask(name, version_id, decision, span, strict=True)).wait()
        key = (name, version_id, "HEAD" if span is None else "GET")
        asked = self._asked.get(key)
        if asked is not None and self._fences.allows(name, asked[1]):
            found = await asked[0].wait()
            return replace(found, joined=True) if isinstance(found, ResolvedVersion) else found
        asking = self._begin(name, self._ask(name, version_id, decision, span))
        self._asked[key] = asking, self._fences.now()
        asking.add_done_callback(lambda: self._answered(key, asking))
        return await asking.wait()

    def disbelieve(self, name: ObjectName, head: Head) -> None:
        """Forget a head whose bytes the origin no longer has."""
        self._drop((name, head.version.version_id or ""))

    def _begin(self, name: ObjectName, work: Coroutine[Any, Any, Resolution]) -> SharedLookup:
        return SharedLookup(self._tasks, work, f"version of {name.path}")

    def _answered(self, key: tuple[ObjectName, str, str], asking: SharedLookup) -> None:
        known = self._asked.get(key)
        if known is not None and known[0] is asking:
            del self._asked[key]

    async def _ask(
        self, name: ObjectName, version_id: str, decision: Decision, span: Span | None, *, strict: bool = False
    ) -> Resolution:
        """Ask the origin, or whoever owns the object. `strict`: its owner must not answer with what it believes."""
        if (owner := self._peers.owner(name)) is not None:
            with suppress(PeerUnavailable):
                return await self._ask_owner(owner, name, version_id, decision, span, strict=strict)
        since, asked_at = self._fences.now(), self._clock()
        answer = await self._reads.open_read(
            name, span, method="HEAD" if span is None else "GET", version_id=version_id
        )
        match answer:
            case ObjectOpened():
                if answer.facts.version.version_id != version_id:
                    answer.body.close()
                    return Uncacheable("another version than was asked for, or no word of which")
                head = replace(head_of(answer.facts, decision.block, asked_at), by_id=True)
                self._store(name, version_id, head, since)
                return ResolvedVersion(head, "opened", self._take_blocks(name, head, decision, answer))
            case ErrorResponse(status=416) if span is not None:
                return await self._ask(name, version_id, decision, None)
            case ErrorResponse():
                self._drop((name, version_id))
                return answer
            case Revalidated():
                return Uncacheable("304 to a request without If-None-Match")
            case Uncacheable():
                return answer
        assert_never(answer)

    async def _ask_owner(
        self,
        owner: Owner,
        name: ObjectName,
        version_id: str,
        decision: Decision,
        span: Span | None,
        *,
        strict: bool,
    ) -> Resolution:
        since = self._fences.now()
        told = await owner.resolve(name, span, None, strict=strict, version_id=version_id)
        match told:
            case OwnerResponse(head, how, opened):
                self._store(name, version_id, head, since)
                return ResolvedVersion(head, how, self._take_blocks(name, head, decision, opened))
            case ErrorResponse():
                self._drop((name, version_id))
                return told
            case Uncacheable():
                return told
        assert_never(told)

    def _head(self, name: ObjectName, version_id: str) -> Head | None:
        kept = self._heads.get((name, version_id))
        if kept is None:
            return None
        if not self._fences.allows(name, kept[1]) or kept[0].validated_at < self._doubts.until(name):
            self._drop((name, version_id))
            return None
        return kept[0]

    def _store(self, name: ObjectName, version_id: str, head: Head, since: Tick) -> None:
        if not self._fences.allows(name, since):
            return
        self._heads[name, version_id] = head, since

    def _drop(self, key: tuple[ObjectName, str]) -> None:
        self._heads.pop(key, None)


def _cost(kept: _Kept) -> int:
    return OVERHEAD + sum(len(name) + len(value) for name, value in kept[0].facts.headers)
