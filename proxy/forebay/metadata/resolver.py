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
from forebay.metadata.object_checksums import Checksums
from forebay.metadata.permissions import Permissions
from forebay.metadata.shared_lookup import Asking, Known, Questions, Resolution
from forebay.metadata.staged_objects import Installs, Staged
from forebay.metadata.version_resolver import Versions
from forebay.origin.object_reads import OriginReads
from forebay.origin.origin_identity import Asker, key_of
from forebay.origin.read_outcomes import Foreign, Opened, Refused, Unchanged
from forebay.peers.owners import Owner, PeerGone, Peers, Told
from forebay.peers.peer_codec import head_document, name_document
from forebay.policy.freshness import Always, Fresh, judge
from forebay.policy.rules import Decision
from forebay.protocol.oss.oss_vocabulary import CRC64
from forebay.storage.slab_allocator import prepare
from forebay.storage.tiers import Tiers

__all__ = ["Known", "Opening", "Resolution", "Resolver"]

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
        self.doubts = doubts
        self._tasks = tasks
        self.clock = clock
        self.permissions = permissions
        self._questions = Questions(tasks)
        self.checksums = Checksums(reads, tiers, self._questions, fences, clock, self._known_facts, self._store)
        self._installs = Installs(self._confirmed, tiers, tasks, self._peers)
        self.versions = Versions(reads, fetcher.adopt_first, fences, doubts, tasks, clock, peers=self._peers)

    def fence(self, name: ObjectName) -> None:
        """From here on nobody joins what was asked about `name` before."""
        self._questions.fence(name)
        self._installs.fence(name)

    def fence_bucket(self, bucket: str) -> None:
        self._questions.fence_bucket(bucket)
        self._installs.fence_bucket(bucket)

    async def disbelieve(self, name: ObjectName, head: Head) -> None:
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
            self._peers.cast({"kind": "gone", "name": name_document(name), "head": head_document(head)})

    def install(self, name: ObjectName, staged: Staged, asker: Asker | None = None) -> None:
        """Make what was staged while `asker` wrote it the object's bytes (see metadata.staged_objects)."""
        self._installs.begin(name, staged, asker)

    async def _confirmed(self, name: ObjectName, staged: Staged, asker: Asker | None) -> None:
        """Install it, if the origin tells of the very bytes."""
        since, asked_at = self._fences.now(), self.clock()
        answer = await self._reads.open_read(name, None, method="HEAD", credential=await key_of(asker))
        if not isinstance(answer, Opened):
            return
        answer.body.close()
        facts = self._known_facts(name, answer.facts)
        if facts.version.etag == staged.etag and facts.size == staged.size:
            self._store(name, Head(facts, staged.block_size, staged.generation, asked_at), since)

    def believed(
        self, name: ObjectName, decision: Decision, *, no_cache: bool, asker: Asker | None = None
    ) -> Head | None:
        """The head, if it may be believed as it is, and given to `asker`. Synchronous: the way of a hit."""
        head = self._tiers.head(name)
        if head is None or not self.permitted(name, asker) or not self._fresh(name, head, decision, no_cache):
            return None
        return head

    async def resolve(
        self,
        name: ObjectName,
        decision: Decision,
        opening: Opening,
        *,
        no_cache: bool = False,
        asker: Asker | None = None,
    ) -> Resolution:
        """The current version of `name`, or what the origin answered instead. Raises OriginError when it can't be
        read. What has to be asked is asked in the name of `asker`, who joins nobody else's questions."""
        await self._installs.settled(name)
        head = self._tiers.head(name)
        if head is not None and self.permitted(name, asker) and self._fresh(name, head, decision, no_cache):
            return Known(head, "believed")
        strict = no_cache or self._always(name, decision)
        if head is None:
            method: Literal["GET", "HEAD"] = "HEAD" if opening.span is None else "GET"
            if opening.checksums and method == "GET":
                self.checksums.foretell(name, asker)
            # Looked for now: of two that begin at once, the second waits for the first.
            beside = method == "GET" and self._peers.owns(name)
            other = self._questions.opening(name, asker) if beside else None
            found, joined = await self._questions.share(
                name, (method, asker), lambda: self._open(other, name, decision, opening.span, asker, strict=strict)
            )
            if not (strict and joined):
                return replace(found, joined=True) if joined and isinstance(found, Known) else found
            if not isinstance(found, Known):  # what was refused before this reader came may be there by now
                work = self._ask(name, decision, opening.span, None, asker, strict=True)
                return await self._questions.begin(work, f"GET {name.path}").answer()
            head = found.head
        known = head
        if strict:
            work = self._ask(name, decision, opening.span, known, asker, strict=True)
            return await self._questions.begin(work, f"check {name.path}").answer()
        found, joined = await self._questions.share(
            name, ("check", asker), lambda: self._ask(name, decision, opening.span, known, asker)
        )
        return replace(found, joined=True) if joined and isinstance(found, Known) else found

    async def _open(
        self,
        other: Asking | None,
        name: ObjectName,
        decision: Decision,
        span: Span | None,
        asker: Asker | None,
        *,
        strict: bool,
    ) -> Resolution:
        """Ask what nothing is known of, beside the `other` opening that is under way."""
        if other is None or other.over:
            return await self._ask(name, decision, span, None, asker, strict=strict)
        found = await self._ask(name, decision, None, None, asker, strict=strict)
        if isinstance(found, Known) and not other.over:
            with suppress(ForebayError, TimeoutError):
                async with asyncio.timeout(BESIDE):
                    came = await other.answer()
                if isinstance(came, Known) and came.head.generation == found.head.generation:
                    return replace(found, arriving=dict(came.arriving), joined=True)
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
        return isinstance(decision.freshness, Always) or self.doubts.holds(name, self.clock())

    def _fresh(self, name: ObjectName, head: Head, decision: Decision, no_cache: bool) -> bool:
        now, doubted_until = self.clock(), self.doubts.until(name)
        freshness = Always() if now < doubted_until else decision.freshness
        trusted_from = max(self._tiers.trusted_from, doubted_until)
        return isinstance(judge(head.validated_at, freshness, now, trusted_from, no_cache), Fresh)

    def permitted(self, name: ObjectName, asker: Asker | None) -> bool:
        """Whether the origin has lately let `asker` read `name`, or need not be asked."""
        return asker is None or self.permissions.holds(asker, name, self.clock())

    async def _ask(
        self,
        name: ObjectName,
        decision: Decision,
        span: Span | None,
        unless: Head | None,
        asker: Asker | None,
        *,
        strict: bool = False,
    ) -> Resolution:
        """Ask the origin, or whoever owns the object. `strict`: its owner must not answer with what it believes."""
        owner = self._peers.owner(name)
        if owner is not None and asker is not None:
            span = None
        elif owner is not None:
            with suppress(PeerGone):
                return await self._ask_owner(owner, name, decision, span, unless, strict=strict)
        since, asked_at = self._fences.now(), self.clock()
        if span is not None:
            # Behind the request, which leaves in this turn of the loop: while the origin answers there is time.
            asyncio.get_running_loop().call_soon(prepare, min(decision.block, span.length))
        answer = await self._reads.open_read(
            name,
            span,
            method="GET" if span is not None else "HEAD",
            unless=unless.version if unless is not None else None,
            credential=await key_of(asker),
        )
        if asker is not None:
            if isinstance(answer, Opened | Unchanged):
                self.permissions.allowed(asker, name, asked_at, since)
            else:
                self.permissions.refused(asker, name)
        match answer:
            case Opened():
                head = head_of(self._known_facts(name, answer.facts), decision.block, asked_at)
                self._store(name, head, since)
                return Known(head, "opened", self._fetcher.adopt_first(name, head, decision, answer, asker))
            case Unchanged():
                if unless is None:
                    return Foreign("304 to a request without If-None-Match")
                if answer.last_modified not in ("", unless.facts.last_modified):
                    # The same bytes written again, or other metadata on them: the head is to be read anew.
                    return await self._ask(name, decision, None, None, asker)
                head = unless.validated(asked_at)
                self._store(name, head, since)
                return Known(head, "checked")
            case Refused(status=416) if span is not None:
                # Past the end, or an empty object. The client's range is judged against the head, as on a hit.
                return await self._ask(name, decision, None, None, asker)
            case Refused():
                if answer.status == 404 and unless is not None and asker is None:
                    await self._gone(name, unless)
                return answer
            case Foreign():
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
            case Told(head, how, opened):
                self._store(name, head, since)
                return Known(head, how, self._fetcher.adopt_first(name, head, decision, opened))
            case Refused():
                if told.status == 404 and unless is not None:
                    await self._tiers.forget(name)
                return told
            case Foreign():
                return told
        assert_never(told)

    def _store(self, name: ObjectName, head: Head, since: Tick) -> None:
        if not self._fences.allows(name, since):
            return
        known = self._tiers.head(name)
        if known is not None and head.validated_at < known.validated_at <= self.clock():
            return  # two answers overtook each other (one from the future is of a clock that was set back)
        if known is not None and known.version != head.version and self._peers.owns(name):
            self._peers.cast({"kind": "learnt", "name": name_document(name), "head": head_document(head)})
        if self.doubts.holds(name, self.clock()):
            self._tiers.memory.put_head(name, head)  # the doubt does not outlive the process, so neither may this
        else:
            self._tiers.put_head(name, head)
