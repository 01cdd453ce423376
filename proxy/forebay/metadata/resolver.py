"""The resolver: what is the current version of an object, as far as its rule allows to believe it.

    head known, fresh   ->  believed                                                        (no request)
    head known, stale   ->  the check: one conditional request; 304 vouches for the head, 200 or 206 replaces it
    head not known      ->  the opening: one ranged GET whose answer is the head and the first blocks at once

Openings and checks are shared by the readers that arrive meanwhile, with limits that keep promises:

- after a write was acknowledged nobody joins what was asked before it (`fence` empties the tables);
- a reader that must see the origin's state of now (`always`, no-cache) never joins a check that was sent before it
  came; where it joined an opening, it asks for itself afterwards;
- a principal with its own origin credential asks in its own name, and joins only what was asked in it. To it a head is
  stale as well while the origin's permission is (metadata.permissions). While somebody else's opening is under way it
  asks for the head alone: once the origin has told it that, the bytes of the other serve both.

What another worker of the node owns is asked of that worker, which answers as it would answer a reader of its own
(peers.owners): openings, checks and installations are the owner's. In its own name a principal asks the origin from
wherever it is, for heads alone; the bytes come by way of the owner all the same.

What is learnt is stored only if no fence was raised since it was asked for, and nothing was learnt that was asked for
later.
"""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final, Literal, TypeAlias, assert_never

from forebay.core.byte_ranges import Span
from forebay.core.errors import ForebayError
from forebay.core.fences import Doubts, Fences, Tick
from forebay.core.heads import Head, ObjectFacts, head_of
from forebay.core.names import ObjectName
from forebay.core.task_registry import TaskRegistry
from forebay.fetch.fetcher import Fetcher
from forebay.metadata.object_checksums import ObjectChecksums
from forebay.metadata.permissions import Permissions
from forebay.metadata.shared_lookup import Resolution, ResolvedVersion, SharedLookup, SharedLookups
from forebay.metadata.staged_objects import StagedBody, StagedObjects
from forebay.metadata.version_resolver import Versions
from forebay.origin.object_reads import OriginReads
from forebay.origin.origin_identity import OriginIdentity, secret_key_of
from forebay.origin.read_outcomes import ErrorResponse, ObjectOpened, Revalidated, Uncacheable
from forebay.peers.owners import Owner, OwnerResponse, Peers, PeerUnavailable
from forebay.peers.peer_codec import encode_head, encode_name
from forebay.policy.freshness import AlwaysRevalidate, Fresh, judge
from forebay.policy.rules import Decision
from forebay.protocol.oss.oss_vocabulary import CRC64
from forebay.storage.slab_allocator import preallocate_buffer
from forebay.storage.tiers import Tiers

__all__ = ["Opening", "Resolution", "ResolvedVersion", "Resolver"]

BESIDE: Final = 1.0
"""Seconds that one whom the origin has answered waits for its answer to somebody else, which brings the bytes."""

_log = logging.getLogger(__name__)


TellsMore: TypeAlias = Callable[[ObjectName, ObjectFacts], ObjectFacts]


def unchanged(_name: ObjectName, facts: ObjectFacts) -> ObjectFacts:
    """Nothing is known besides."""
    return facts


@dataclass(frozen=True, slots=True)
class Opening:
    """What to ask the origin for when it has to be asked anyway."""

    span: Span | None
    """The first bytes wanted, from a block's beginning on; None: only the head (HEAD)."""
    checksums: bool = False
    """Whether the object's are wanted as well (forebay.metadata.object_checksums)."""


class Resolver:
    """Shares what readers need to know first. `clock` gives seconds since the epoch."""

    def __init__(
        self,
        reads: OriginReads,
        tiers: Tiers,
        fetcher: Fetcher,
        fences: Fences,
        doubts: Doubts,
        tasks: TaskRegistry,
        clock: Callable[[], float],
        permissions: Permissions,
        told: TellsMore = unchanged,
        peers: Peers | None = None,
    ) -> None:
        """`told`: what is known of a version besides what the origin says of it."""
        self._peers = peers or Peers()
        self._reads = reads
        self._told = told
        self._tiers = tiers
        self._fetcher = fetcher
        self._fences = fences
        self.in_doubt_writes = doubts
        self._tasks = tasks
        self.clock = clock
        self.permissions = permissions
        self._questions = SharedLookups(tasks)
        self.checksums = ObjectChecksums(reads, tiers, self._questions, fences, clock, self._known_facts, self._store)
        self._installs = StagedObjects(self._confirmed, tiers, tasks, self._peers)
        self.versions = Versions(reads, fetcher.adopt_first_blocks, fences, doubts, tasks, clock, peers=self._peers)

    def fence(self, name: ObjectName) -> None:
        """From here on nobody joins what was asked about `name` before."""
        self._questions.fence(name)
        self._installs.fence(name)

    def fence_bucket(self, bucket: str) -> None:
        self._questions.fence_bucket(bucket)
        self._installs.fence_bucket(bucket)

    async def invalidate(self, name: ObjectName, head: Head) -> None:
        """Forget `head`, which was found to be outdated, unless it has been replaced already."""
        if head.by_id:
            self.versions.disbelieve(name, head)
            return
        known = self._tiers.head(name)
        if known is not None and known.version == head.version:
            await self._gone(name, known)

    async def _gone(self, name: ObjectName, head: Head) -> None:
        await self._tiers.forget(name)
        if self._peers.owns(name):
            self._peers.notify({"kind": "gone", "name": encode_name(name), "head": encode_head(head)})

    def install(self, name: ObjectName, staged: StagedBody, identity: OriginIdentity | None = None) -> None:
        """Make what was staged while `identity` wrote it the object's bytes (see metadata.staged_objects)."""
        self._installs.install(name, staged, identity)

    async def _confirmed(self, name: ObjectName, staged: StagedBody, identity: OriginIdentity | None) -> None:
        """Install it, if the origin tells of the very bytes."""
        since, asked_at = self._fences.now(), self.clock()
        answer = await self._reads.open_read(name, None, method="HEAD", credential=await secret_key_of(identity))
        if not isinstance(answer, ObjectOpened):
            return
        answer.body.close()
        facts = self._known_facts(name, answer.facts)
        if facts.version.etag == staged.etag and facts.size == staged.size:
            self._store(name, Head(facts, staged.block_size, staged.generation, asked_at), since)

    def fresh_head(
        self, name: ObjectName, decision: Decision, *, no_cache: bool, identity: OriginIdentity | None = None
    ) -> Head | None:
        """The head, if it may be believed as it is, and given to `identity`. Synchronous: the way of a hit."""
        head = self._tiers.head(name)
        if head is None or not self.is_permitted(name, identity) or not self._fresh(name, head, decision, no_cache):
            return None
        return head

    async def resolve(
        self,
        name: ObjectName,
        decision: Decision,
        opening: Opening,
        *,
        no_cache: bool = False,
        identity: OriginIdentity | None = None,
    ) -> Resolution:
        """The current version of `name`, or what the origin answered instead. Raises OriginError when it can't be
        read. What has to be asked is asked in the name of `identity`, who joins nobody else's questions."""
        await self._installs.wait_installed(name)
        head = self._tiers.head(name)
        if head is not None and self.is_permitted(name, identity) and self._fresh(name, head, decision, no_cache):
            return ResolvedVersion(head, "believed")
        strict = no_cache or self._always(name, decision)
        if head is None:
            method: Literal["GET", "HEAD"] = "HEAD" if opening.span is None else "GET"
            if opening.checksums and method == "GET":
                self.checksums.prefetch(name, identity)
            # Looked for now: of two that begin at once, the second waits for the first.
            beside = method == "GET" and self._peers.owns(name)
            other = self._questions.find_opening(name, identity) if beside else None
            found, joined = await self._questions.share(
                name,
                (method, identity),
                lambda: self._open(other, name, decision, opening.span, identity, strict=strict),
            )
            if not (strict and joined):
                return replace(found, joined=True) if joined and isinstance(found, ResolvedVersion) else found
            if not isinstance(found, ResolvedVersion):  # what was refused before this reader came may be there by now
                work = self._ask(name, decision, opening.span, None, identity, strict=True)
                return await self._questions.start_unshared(work, f"GET {name.path}").wait()
            head = found.head
        known = head
        if strict:
            work = self._ask(name, decision, opening.span, known, identity, strict=True)
            return await self._questions.start_unshared(work, f"check {name.path}").wait()
        found, joined = await self._questions.share(
            name, ("check", identity), lambda: self._ask(name, decision, opening.span, known, identity)
        )
        return replace(found, joined=True) if joined and isinstance(found, ResolvedVersion) else found

    async def _open(
        self,
        other: SharedLookup | None,
        name: ObjectName,
        decision: Decision,
        span: Span | None,
        identity: OriginIdentity | None,
        *,
        strict: bool,
    ) -> Resolution:
        """Ask what nothing is known of, beside the `other` opening that is under way."""
        if other is None or other.is_done:
            return await self._ask(name, decision, span, None, identity, strict=strict)
        found = await self._ask(name, decision, None, None, identity, strict=strict)
        if isinstance(found, ResolvedVersion) and not other.is_done:
            with suppress(ForebayError, TimeoutError):
                async with asyncio.timeout(BESIDE):
                    came = await other.wait()
                if isinstance(came, ResolvedVersion) and came.head.generation == found.head.generation:
                    return replace(found, flights=dict(came.flights), joined=True)
        return found

    def _known_facts(self, name: ObjectName, facts: ObjectFacts) -> ObjectFacts:
        """The facts with what was known of this very version before the origin was asked."""
        facts = self._told(name, facts)
        known = self._tiers.head(name)
        if known is None or (known.version, known.size) != (facts.version, facts.size):
            return facts
        given = {header.lower() for header, _ in facts.headers}
        lasting = tuple(pair for pair in known.facts.headers if pair[0] == CRC64 and CRC64 not in given)
        return replace(facts, headers=(*facts.headers, *lasting)) if lasting else facts

    def _always(self, name: ObjectName, decision: Decision) -> bool:
        return isinstance(decision.freshness, AlwaysRevalidate) or self.in_doubt_writes.holds(name, self.clock())

    def _fresh(self, name: ObjectName, head: Head, decision: Decision, no_cache: bool) -> bool:
        now, doubted_until = self.clock(), self.in_doubt_writes.until(name)
        freshness = AlwaysRevalidate() if now < doubted_until else decision.freshness
        trusted_from = max(self._tiers.trusted_from, doubted_until)
        return isinstance(judge(head.validated_at, freshness, now, trusted_from, no_cache), Fresh)

    def is_permitted(self, name: ObjectName, identity: OriginIdentity | None) -> bool:
        """Whether the origin has lately let `identity` read `name`, or need not be asked."""
        return identity is None or self.permissions.is_allowed(identity, name, self.clock())

    async def _ask(
        self,
        name: ObjectName,
        decision: Decision,
        span: Span | None,
        unless: Head | None,
        identity: OriginIdentity | None,
        *,
        strict: bool = False,
    ) -> Resolution:
        """Ask the origin, or whoever owns the object. `strict`: its owner must not answer with what it believes."""
        owner = self._peers.owner(name)
        if owner is not None and identity is not None:
            span = None
        elif owner is not None:
            with suppress(PeerUnavailable):
                return await self._ask_owner(owner, name, decision, span, unless, strict=strict)
        since, asked_at = self._fences.now(), self.clock()
        if span is not None:
            # Behind the request, which leaves in this turn of the loop: while the origin answers there is time.
            asyncio.get_running_loop().call_soon(preallocate_buffer, min(decision.block, span.length))
        answer = await self._reads.open_read(
            name,
            span,
            method="GET" if span is not None else "HEAD",
            if_none_match=unless.version if unless is not None else None,
            credential=await secret_key_of(identity),
        )
        if identity is not None:
            if isinstance(answer, ObjectOpened | Revalidated):
                self.permissions.allow(identity, name, asked_at, since)
            else:
                self.permissions.revoke(identity, name)
        match answer:
            case ObjectOpened():
                head = head_of(self._known_facts(name, answer.facts), decision.block, asked_at)
                self._store(name, head, since)
                return ResolvedVersion(
                    head, "opened", self._fetcher.adopt_first_blocks(name, head, decision, answer, identity)
                )
            case Revalidated():
                if unless is None:
                    return Uncacheable("304 to a request without If-None-Match")
                if answer.last_modified not in ("", unless.facts.last_modified):
                    # The same bytes written again, or other metadata on them: the head is to be read anew.
                    return await self._ask(name, decision, None, None, identity)
                head = unless.validated(asked_at)
                self._store(name, head, since)
                return ResolvedVersion(head, "checked")
            case ErrorResponse(status=416) if span is not None:
                # Past the end, or an empty object. The client's range is judged against the head, as on a hit.
                return await self._ask(name, decision, None, None, identity)
            case ErrorResponse():
                if answer.status == 404 and unless is not None and identity is None:
                    await self._gone(name, unless)
                return answer
            case Uncacheable():
                return answer
        assert_never(answer)

    async def _ask_owner(
        self,
        owner: Owner,
        name: ObjectName,
        decision: Decision,
        span: Span | None,
        unless: Head | None,
        *,
        strict: bool,
    ) -> Resolution:
        since = self._fences.now()
        told = await owner.resolve(name, span, unless, strict=strict)
        match told:
            case OwnerResponse(head, how, opened):
                self._store(name, head, since)
                return ResolvedVersion(head, how, self._fetcher.adopt_first_blocks(name, head, decision, opened))
            case ErrorResponse():
                if told.status == 404 and unless is not None:
                    await self._tiers.forget(name)
                return told
            case Uncacheable():
                return told
        assert_never(told)

    def _store(self, name: ObjectName, head: Head, since: Tick) -> None:
        if not self._fences.allows(name, since):
            return
        known = self._tiers.head(name)
        if known is not None and head.validated_at < known.validated_at <= self.clock():
            return  # two answers overtook each other (one from the future is of a clock that was set back)
        if known is not None and known.version != head.version and self._peers.owns(name):
            self._peers.notify({"kind": "learnt", "name": encode_name(name), "head": encode_head(head)})
        if self.in_doubt_writes.holds(name, self.clock()):
            self._tiers.memory.put_head(name, head)  # the doubt does not outlive the process, so neither may this
        else:
            self._tiers.put_head(name, head)
