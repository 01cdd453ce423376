"""The resolver: finds the version of an object to answer with, as fresh as its rule demands.

    head fresh    ->  used as it is                                                            (no request)
    head stale    ->  revalidation: one conditional request; 304 confirms the head, 200 or 206 replaces it
    head unknown  ->  opening: one ranged GET whose response is the head and the first blocks at once

A read of a version by its id takes the same way. Its head is never stale (metadata.object_heads).

Openings and revalidations are shared by the readers that arrive meanwhile (metadata.shared_lookup), within limits:

- After a write was acknowledged, no reader joins a lookup that was sent before it (SharedLookups.fence). The same holds
  once a version was found replaced by another writer: it is forgotten before its successor is told
  (metadata.head_replacement).
- A strict reader (`always`, no-cache) never joins a revalidation that was sent before the reader came. If it joined an
  opening, it sends a request of its own afterwards.
- A principal with its own origin credential sends its own requests and joins only those. A head is stale for it as well
  once the origin's permission has expired (metadata.permissions). While another identity's opening is under way it
  requests the head only: once the origin has given it that, the blocks of the other opening serve both.

An object that another worker owns is looked up at that worker (peers.owners), which answers as it answers its own
readers. Only requests with a principal's own credential go to the origin from any worker, and for heads only: the bytes
come through the owner.

The resolver makes none of its parts; the composition root does.
"""

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, Final, Literal, NamedTuple, assert_never

from forebay.core.byte_ranges import Span
from forebay.core.errors import ForebayError, PeerUnavailable, S3Error, SizeContradicted
from forebay.core.fences import Tick
from forebay.core.heads import Head, head_of
from forebay.core.names import ObjectName
from forebay.fetch.fetch_request import ObjectView
from forebay.fetch.fetcher import Fetcher
from forebay.metadata.head_replacement import HeadReplacement
from forebay.metadata.listed_heads import ListedHeads
from forebay.metadata.object_checksums import ObjectChecksums
from forebay.metadata.object_heads import ObjectHeads
from forebay.metadata.permissions import Permissions
from forebay.metadata.shared_lookup import LookupKey, Resolution, ResolvedVersion, SharedLookup, SharedLookups
from forebay.metadata.staged_objects import StagedObjects
from forebay.origin.object_reads import ObjectReads
from forebay.origin.origin_identity import OriginIdentity, request_credential
from forebay.origin.read_outcomes import ErrorResponse, ObjectOpened, Revalidated, Uncacheable
from forebay.peers.owners import LookupStatus, Owner, OwnerResponse, Peers
from forebay.policy.rules import Decision
from forebay.protocol.response_headers import agrees
from forebay.storage.journal.pending_objects import Deleted, PendingObjects
from forebay.storage.slab_allocator import is_preallocated, preallocate_buffer

OPENING_TIMEOUT: Final = 1.0
"""Seconds that a reader with a head of its own waits for another identity's opening, which brings the blocks."""

_CONTRADICTIONS: Final = 2
"""How often an object is looked up anew because its size was contradicted."""


class LookupRequest(NamedTuple):
    """One reader's request for a version."""

    name: ObjectName
    decision: Decision
    span: Span | None
    """The first bytes to read, from a block border on, if the origin must be asked anyway; None: the head only."""
    checksums: bool = False
    """Whether the object's checksums are wanted as well (metadata.object_checksums)."""
    no_cache: bool = False
    identity: OriginIdentity | None = None
    """The identity that the origin is asked with; None: Forebay's own."""
    version_id: str | None = None
    """None: the current version."""


class Resolver:
    """Resolves lookup requests. See the module."""

    def __init__(
        self,
        reads: ObjectReads,
        fetcher: Fetcher,
        heads: ObjectHeads,
        lookups: SharedLookups,
        permissions: Permissions,
        checksums: ObjectChecksums,
        staged: StagedObjects,
        replacement: HeadReplacement,
        peers: Peers,
        listed: ListedHeads | None = None,
        pending: PendingObjects | None = None,
    ) -> None:
        """`listed` None: no listing renews a head."""
        self._reads = reads
        self._fetcher = fetcher
        self.heads = heads
        self._lookups = lookups
        self.permissions = permissions
        self.checksums = checksums
        self._staged = staged
        self._replacement = replacement
        self._peers = peers
        self._listed = listed
        self._pending = pending

    async def invalidate(self, name: ObjectName, head: Head) -> None:
        """Forgets `head`, which was found outdated, unless it has been replaced already."""
        if head.by_id:
            self.heads.remove_by_id(name, head.version.version_id or "")
            return
        await self._replacement.remove(name, head)

    def fresh_head(
        self, name: ObjectName, decision: Decision, *, no_cache: bool, identity: OriginIdentity | None = None
    ) -> Head | None:
        """Returns the current head if it may be used for `identity` without a request. Synchronous: every hit calls
        it."""
        head = self.heads.current(name)
        if head is None or not self.is_permitted(name, identity):
            return None
        return head if self.heads.is_fresh(name, head, decision, no_cache) else None

    def is_permitted(self, name: ObjectName, identity: OriginIdentity | None) -> bool:
        """Whether the origin has lately allowed `identity` to read `name`, or need not be asked."""
        return identity is None or self.permissions.is_allowed(identity, name, self.heads.clock())

    def may_be_written(self, name: ObjectName) -> bool:
        """Whether a write of an object is pending or in doubt, so that what the origin lists says nothing of it."""
        is_pending = self._pending is not None and name in self._pending
        return is_pending or self.heads.in_doubt_writes.covers(name, self.heads.clock())

    async def resolve(self, request: LookupRequest, *, leads: bool = False) -> Resolution:
        """Returns the version, or the origin's response in its place. Raises OriginError when it can't be read.

        `leads`: whether a GET that opens the object runs in this task (see SharedLookup.lead)."""
        if request.version_id is not None:
            return await self._resolve_by_id(request, request.version_id)
        name, decision, identity = request.name, request.decision, request.identity
        if self._pending is not None and (pending := self._pending.head(name)) is not None:
            if identity is None:
                return _resolved_pending(name, pending)
            await self._pending.wait_settled(name.__eq__)  # only the origin can say what its own credential may read
        await self._staged.wait_installed(name)
        head = self.heads.current(name)
        if (
            head is not None
            and self.is_permitted(name, identity)
            and self.heads.is_fresh(name, head, decision, request.no_cache)
        ):
            return ResolvedVersion(head, "fresh")
        strict = self._is_strict(request)
        if head is not None and self._listed is not None and not strict and self.is_permitted(name, identity):
            renewed = await self._listed.renewed(name, head, decision)
            if renewed is not None:
                return ResolvedVersion(renewed, "fresh")
        if head is None:
            resolution, joined = await self._share_opening(request, strict=strict, leads=leads)
            if not (strict and joined):
                return resolution
            # Sent before this reader came: what was refused then may be there by now.
            head = resolution.head if isinstance(resolution, ResolvedVersion) else None
        if strict:
            return await self._fetch_unshared(request, head)
        resolution, _ = await self._lookups.share(
            name, LookupKey("check", identity), lambda: self._fetch(request, head, strict=False)
        )
        return resolution

    async def _resolve_by_id(self, request: LookupRequest, version_id: str) -> Resolution:
        if self._is_strict(request):
            return await self._fetch_unshared(request, None)
        head = self.heads.by_id(request.name, version_id)
        if head is not None:
            return ResolvedVersion(head, "fresh")
        key = LookupKey(_method(request), request.identity, version_id)
        resolution, _ = await self._lookups.share(request.name, key, lambda: self._fetch(request, None, strict=False))
        return resolution

    def _is_strict(self, request: LookupRequest) -> bool:
        return request.no_cache or self.heads.is_always_checked(request.name, request.decision)

    async def _share_opening(self, request: LookupRequest, *, strict: bool, leads: bool) -> tuple[Resolution, bool]:
        name, identity, method = request.name, request.identity, _method(request)
        other = None
        if method == "GET":
            if request.checksums:
                self.checksums.prefetch(name, identity)
            if self._peers.owns(name):  # looked up now: of two that begin at once, the second waits for the first
                other = self._lookups.find_opening(name, other_than=identity)
        if other is None:
            work = partial(self._fetch, request, None, strict=strict)
        else:
            work = partial(self._open_beside, other, request, strict=strict)
        return await self._lookups.share(name, LookupKey(method, identity), work, leads=leads)

    async def _open_beside(self, other: SharedLookup, request: LookupRequest, *, strict: bool) -> Resolution:
        """Opens only the head of the object beside the `other` opening under way."""
        if other.is_done:
            return await self._fetch(request, None, strict=strict)
        own = await self._fetch(request._replace(span=None), None, strict=strict)
        if isinstance(own, ResolvedVersion) and not other.is_done:
            with suppress(ForebayError, TimeoutError):
                async with asyncio.timeout(OPENING_TIMEOUT):
                    opened = await other.wait()
                if isinstance(opened, ResolvedVersion) and opened.head.generation == own.head.generation:
                    return replace(own, flights=dict(opened.flights), joined=True)
        return own

    async def _fetch_unshared(self, request: LookupRequest, known: Head | None) -> Resolution:
        work = self._fetch(request, known, strict=True)
        return await self._lookups.start_unshared(work, f"strict {request.name.path}").wait()

    async def _fetch(self, request: LookupRequest, known: Head | None, *, strict: bool) -> Resolution:
        """Asks the origin, or the object's owner. `known`: the head to revalidate; `strict`: the owner must not use
        a fresh head. Where sizes contradict each other, asks again for bytes, unconditionally."""
        for _ in range(_CONTRADICTIONS):
            try:
                return await self._ask(request, known, strict=strict)
            except SizeContradicted:
                request, known = request._replace(span=request.span or Span(0, request.decision.block)), None
        return await self._ask(request, known, strict=strict)

    def _ask(self, request: LookupRequest, known: Head | None, *, strict: bool) -> Coroutine[Any, Any, Resolution]:
        owner = self._peers.owner(request.name)
        if owner is None:
            return self._fetch_from_origin(request, known)
        if request.identity is not None:
            return self._fetch_from_origin(request._replace(span=None), known)
        return self._ask_owner(owner, request, known, strict=strict)

    async def _ask_owner(self, owner: Owner, request: LookupRequest, known: Head | None, *, strict: bool) -> Resolution:
        with suppress(PeerUnavailable):
            return await self._fetch_from_owner(owner, request, known, strict=strict)
        return await self._fetch_from_origin(request, known)

    async def _fetch_from_origin(self, request: LookupRequest, known: Head | None) -> Resolution:
        name, span, identity, version_id = request.name, request.span, request.identity, request.version_id
        since, requested_at = self.heads.now()
        if span is not None and not is_preallocated(first := min(request.decision.block, span.length)):
            # Behind the request, which leaves in this turn of the loop: there is time while the origin answers.
            asyncio.get_running_loop().call_soon(preallocate_buffer, first)
        answer = await self._reads.open_read(
            name,
            span,
            method=_method(request),
            version_id=version_id,
            if_none_match=known.version if known is not None else None,
            credential=await request_credential(identity),
        )
        match answer:
            case ObjectOpened():
                head = self._opened_head(request, answer, requested_at)
                if head is None:
                    answer.body.close()
                    return Uncacheable("another version than the one with this id, or a response that names none")
                if not self._replacement.try_store(name, head, since):
                    since = await self._store(name, head, since, answer)
                if identity is not None:
                    self.permissions.allow(identity, name, requested_at, since)
                return self._resolved(request, head, "fetched", answer)
            case Revalidated():
                if known is None:
                    return Uncacheable("304 to a request without If-None-Match")
                is_same_time = answer.last_modified in {"", known.facts.last_modified}
                if not (is_same_time and agrees(known.facts, answer.repeated)):
                    # The same bytes written again, or new metadata on them: the head must be fetched anew.
                    return await self._fetch_from_origin(request._replace(span=None), None)
                head = known.with_validation(requested_at)
                since = await self._replacement.store(name, head, since)
                if identity is not None:
                    self.permissions.allow(identity, name, requested_at, since)
                return ResolvedVersion(head, "revalidated")
            case ErrorResponse(status=416) if span is not None:
                # Past the end, or an empty object. The client's range is judged against the head, as on a hit.
                return await self._fetch_from_origin(request._replace(span=None), None)
            case ErrorResponse():
                if identity is None:
                    await self._remove(request, answer, requested_at)
                else:
                    self.permissions.revoke(identity, name)
                return answer
            case Uncacheable():
                if identity is not None:
                    self.permissions.revoke(identity, name)
                return answer
        assert_never(answer)

    async def _store(self, name: ObjectName, head: Head, since: Tick, opened: ObjectOpened | None) -> Tick:
        """Stores the head of a response; returns the tick that it counts as requested at."""
        try:
            return await self._replacement.store(name, head, since)
        except BaseException:
            if opened is not None:
                opened.body.close()
            raise

    async def _fetch_from_owner(
        self, owner: Owner, request: LookupRequest, known: Head | None, *, strict: bool
    ) -> Resolution:
        since, requested_at = self.heads.now()
        response = await owner.resolve(request.name, request.span, known, strict=strict, version_id=request.version_id)
        match response:
            case OwnerResponse(head, status, opened):
                await self._store(request.name, head, since, opened)
                if opened is None:
                    return ResolvedVersion(head, status)
                return self._resolved(request, head, status, opened)
            case ErrorResponse():
                await self._remove(request, response, requested_at)
                return response
            case Uncacheable():
                return response
        assert_never(response)

    def _opened_head(self, request: LookupRequest, answer: ObjectOpened, requested_at: float) -> Head | None:
        """Returns the head of a response; None: it is not the version that was requested by its id."""
        block = request.decision.block
        if request.version_id is None:
            return head_of(self.heads.with_known_facts(request.name, answer.facts), block, requested_at)
        if answer.facts.version.version_id != request.version_id:
            return None
        return replace(head_of(answer.facts, block, requested_at), by_id=True)

    def _resolved(
        self, request: LookupRequest, head: Head, status: LookupStatus, opened: ObjectOpened
    ) -> ResolvedVersion:
        view = ObjectView(request.name, head, request.decision.rule, request.identity)
        return ResolvedVersion(head, status, self._fetcher.adopt_first_blocks(view, opened))

    async def _remove(self, request: LookupRequest, refused: ErrorResponse, requested_at: float) -> None:
        """Forgets what a refusal shows to be gone."""
        if request.version_id is not None:
            self.heads.remove_by_id(request.name, request.version_id)
        elif refused.status == 404:
            known = self.heads.current(request.name)
            if known is not None and known.validated_at <= requested_at:
                await self._replacement.remove(request.name, known)


def _resolved_pending(name: ObjectName, pending: Head | Deleted) -> ResolvedVersion:
    """The version that a pending write makes. Raises S3Error NoSuchKey for an object that it deletes."""
    if isinstance(pending, Deleted):
        raise S3Error("NoSuchKey", Key=name.key)
    return ResolvedVersion(pending, "fresh")


def _method(request: LookupRequest) -> Literal["GET", "HEAD"]:
    return "GET" if request.span is not None else "HEAD"
