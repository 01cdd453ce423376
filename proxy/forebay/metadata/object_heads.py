"""Object heads: which head of an object is known, whether it is fresh, and whether a new one may be stored.

    current version    in the tiers; fresh as long as its rule says (policy.freshness)
    version by its id  in memory only, least recently used first out; its bytes never change, so it is fresh for as long
                       as it is kept, unless the rule says `always` or the client says no-cache

The two are kept apart: a head by id is never taken for the current one. The blocks of both lie under their generation,
so a version that is also the current one is stored once. After a restart one request fetches a head by id again and
finds its blocks on the SSD.

A head is stored only if no fence was raised since its request was sent, and if no later request has stored one. One
by its id is kept with the tick of its request, and usable only as long as no fence was raised since: a write to an
object may have removed a version or changed its tags.

A peer hint is a head that another worker of the node has from the origin. It is kept in memory as one that was never
validated, as it may have missed fences; so the next reader's opening is a revalidation (metadata.resolver).
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Final, Literal, TypeAlias

from cachetools import LRUCache

from forebay.core.fences import Fences, InDoubtWrites, RequestTime, Tick
from forebay.core.heads import NEVER_VALIDATED, Head, ObjectFacts
from forebay.core.names import ObjectName
from forebay.metadata.overlapping_requests import OverlappingRequests
from forebay.policy.freshness import AlwaysRevalidate, Fresh, evaluate_freshness
from forebay.policy.rules import Decision
from forebay.protocol.oss.oss_headers import CRC64
from forebay.protocol.response_headers import checksum_headers
from forebay.storage.tiers import Tiers

VERSION_BYTES: Final = 8 << 20
"""Bytes of heads by id: their texts, and _OVERHEAD for each."""
_OVERHEAD: Final = 1500

AddFacts: TypeAlias = Callable[[ObjectName, ObjectFacts], ObjectFacts]
"""Adds the results of this worker's computations during the write of the object to the origin's facts."""

HeadDestination: TypeAlias = Literal["tiers", "memory", "nowhere"]
"""The tiers that a head is stored in: all, memory alone, or none."""

_VersionHead: TypeAlias = tuple[Head, Tick]
"""A head by id, and the fence tick at which it was requested."""


def add_nothing(_name: ObjectName, facts: ObjectFacts) -> ObjectFacts:
    """Returns the facts as they are."""
    return facts


class ObjectHeads:
    """The heads known to this worker. `clock`: seconds since the epoch."""

    def __init__(
        self,
        tiers: Tiers,
        fences: Fences,
        in_doubt_writes: InDoubtWrites,
        clock: Callable[[], float],
        add_facts: AddFacts = add_nothing,
    ) -> None:
        self.current = tiers.head
        """Returns the head of the current version, fresh or not; None: unknown. The tiers' own method: every hit calls
        it."""
        self.in_doubt_writes = in_doubt_writes
        self.clock = clock
        self._tiers = tiers
        self._fences = fences
        self._add_facts = add_facts
        self.requests = OverlappingRequests(clock)
        self._versions: LRUCache[tuple[ObjectName, str], _VersionHead] = LRUCache(VERSION_BYTES, _cost)

    def now(self) -> RequestTime:
        """Returns the time of a request that is about to be sent to the origin."""
        return RequestTime(self._fences.now(), self.clock())

    def is_fresh(self, name: ObjectName, head: Head, decision: Decision, no_cache: bool) -> bool:
        """Whether a head of the current version may be used without a request. Synchronous: every hit calls it."""
        now, in_doubt_until = self.clock(), self.in_doubt_writes.until(name)
        freshness = AlwaysRevalidate() if now < in_doubt_until else decision.freshness
        return isinstance(evaluate_freshness(head.validated_at, freshness, now, in_doubt_until, no_cache), Fresh)

    def is_always_checked(self, name: ObjectName, decision: Decision) -> bool:
        """Whether each read needs a request of its own: the rule says so, or a write is in doubt."""
        return isinstance(decision.freshness, AlwaysRevalidate) or self._is_in_doubt(name)

    def by_id(self, name: ObjectName, version_id: str) -> Head | None:
        """Returns the usable head of a version; None: unknown."""
        known = self._versions.get((name, version_id))
        if known is None:
            return None
        head, since = known
        if not self._fences.allows(name, since) or head.validated_at < self.in_doubt_writes.until(name):
            del self._versions[name, version_id]
            return None
        return head

    def with_known_facts(self, name: ObjectName, facts: ObjectFacts) -> ObjectFacts:
        """Returns the origin's facts with earlier facts of the same version: its CRC64, and its checksums if such a
        response would not have them."""
        return self.merged_facts(name, facts, self._tiers.head(name))

    def merged_facts(self, name: ObjectName, facts: ObjectFacts, known: Head | None) -> ObjectFacts:
        """Returns the facts as `with_known_facts` does. `known`: the current head, which was just looked up."""
        facts = self._add_facts(name, facts)
        if known is None or (known.version, known.size) != (facts.version, facts.size):
            return facts
        names = {header.lower() for header, _ in facts.headers}
        kept = tuple(pair for pair in known.facts.headers if pair[0] == CRC64 and CRC64 not in names)
        if known.facts.checksums_known and not facts.checksums_known:
            checksums = checksum_headers(known.facts)
            return replace(facts, headers=(*facts.headers, *kept, *checksums), checksums_known=True)
        return replace(facts, headers=(*facts.headers, *kept)) if kept else facts

    def store(self, name: ObjectName, head: Head, since: Tick) -> Head | None:
        """Stores a head that was requested at `since`, unless a fence or a later request forbids it.

        Stores nothing where a tier has the head of another version, or of this version with another size, and returns
        that: until it is forgotten durably, it may come back (metadata.head_replacement). Nor does it store a head of
        no bytes that its ETag does not prove: every 304 would confirm what responses without their bodies have shown.
        """
        return (
            self._store_by_id(name, head, since)
            if head.by_id
            else self.store_over(self.current(name), name, head, since)
        )

    def _store_by_id(self, name: ObjectName, head: Head, since: Tick) -> Head | None:
        version_id = head.version.version_id or ""
        known = self.by_id(name, version_id)
        if known is not None and known.version == head.version and known.size != head.size:
            return known
        if not head.facts.is_doubtfully_empty:
            self._versions[name, version_id] = head, since
        return None

    def store_over(self, known: Head | None, name: ObjectName, head: Head, since: Tick) -> Head | None:
        """Does what `store` does for the current version. `known`: the current head, as it was just looked up."""
        destination = self.destination_over(known, name, head, since)
        if isinstance(destination, Head):
            return destination
        self.requests.note_shown(name, head)
        self.put(name, head, destination)
        return None

    def destination_over(
        self, known: Head | None, name: ObjectName, head: Head, since: Tick
    ) -> "Head | HeadDestination":
        """Returns the destination of a head, or the other head that `store_over` would return in its place. Stores
        nothing."""
        if known is not None:
            if (known.version, known.size) != (head.version, head.size):
                return known
            if self.is_overtaken(name, head, known):
                return "nowhere"
        elif self.requests.is_contradicted(name, head):
            return "nowhere"
        if not self._fences.allows(name, since) or head.facts.is_doubtfully_empty:
            return "nowhere"
        # An in-doubt write is forgotten at exit: so must this head be.
        return "memory" if self._is_in_doubt(name) else "tiers"

    def is_overtaken(self, name: ObjectName, head: Head, known: Head) -> bool:
        """Whether the `known` head was requested after `head` was, which has come later, or is of another version and
        came while `head` was under way. A time in the future is of a clock that was set back."""
        return head.validated_at < known.validated_at <= self.clock() or self.requests.is_contradicted(name, head)

    def fence(self, name: ObjectName) -> None:
        """Keeps heads of an object from being stored whose requests are under way."""
        self._fences.raise_object(name)

    def put(self, name: ObjectName, head: Head, destination: "HeadDestination") -> None:
        """Puts a head where `destination_over` said. Nothing else may run in between."""
        if destination == "tiers":
            self._tiers.put_head(name, head)
        elif destination == "memory":
            self._tiers.memory.put_head(name, head)

    def keep_hint(self, name: ObjectName, head: Head) -> None:
        """Keeps the head that another worker has from the origin, where none is known."""
        if not (head.by_id or head.facts.is_doubtfully_empty) and self.current(name) is None:
            self._tiers.memory.put_head(name, head.with_validation(NEVER_VALIDATED))

    def _is_in_doubt(self, name: ObjectName) -> bool:
        return self.in_doubt_writes.marked and self.in_doubt_writes.covers(name, self.clock())

    def remove_by_id(self, name: ObjectName, version_id: str) -> None:
        """Forgets the head of a version."""
        self._versions.pop((name, version_id), None)


def _cost(known: _VersionHead) -> int:
    return _OVERHEAD + sum(len(name) + len(value) for name, value in known[0].facts.headers)
