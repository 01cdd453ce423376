"""The fetch of a version: asks the origin, or the worker that owns the object, and stores the head of the response.

    request ──> origin, or owner ──> head: stored, where no fence or later request forbids it (metadata.object_heads)
                                └──> first blocks: landed, or under way (fetch.fetcher)

An object that another worker owns is looked up at that worker (peers.owners), which answers as it answers its own
readers. Only requests with a principal's own credential go to the origin from any worker, and for heads only: the bytes
come through the owner.

The resolver decides whether a version has to be fetched, and which readers share the fetch (metadata.resolver).
"""

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final, assert_never

from forebay.core.byte_ranges import Span
from forebay.core.errors import PeerUnavailable, SizeContradicted
from forebay.core.fences import RequestTime, Tick
from forebay.core.heads import Head, head_of
from forebay.core.names import ObjectName
from forebay.fetch.fetch_request import ObjectView
from forebay.fetch.fetcher import Fetcher
from forebay.metadata.head_replacement import HeadReplacement
from forebay.metadata.lookup_request import LookupRequest
from forebay.metadata.object_heads import ObjectHeads
from forebay.metadata.permissions import Permissions
from forebay.metadata.resolution import Resolution, ResolvedVersion
from forebay.metadata.shared_lookup import BegunRead
from forebay.origin.origin_identity import request_credential
from forebay.origin.reads.object_reads import ObjectReads
from forebay.origin.reads.origin_read import OriginRead
from forebay.origin.reads.read_outcomes import ErrorResponse, ObjectOpened, Revalidated, Uncacheable
from forebay.origin.reads.sent_reads import SentRead
from forebay.peers.owners import LookupStatus, Owner, OwnerResponse, Peers
from forebay.protocol.response_headers import agrees
from forebay.storage.slab_allocator import is_preallocated, preallocate_buffer

_CONTRADICTIONS: Final = 2
"""Look-ups of an object that are repeated because its size was contradicted, at most."""


class VersionFetch:
    """Fetches versions. See the module."""

    def __init__(
        self,
        reads: ObjectReads,
        fetcher: Fetcher,
        heads: ObjectHeads,
        permissions: Permissions,
        replacement: HeadReplacement,
        peers: Peers,
    ) -> None:
        self._reads = reads
        self._fetcher = fetcher
        self._heads = heads
        self._permissions = permissions
        self._replacement = replacement
        self._peers = peers

    def owns(self, name: ObjectName) -> bool:
        """Whether this worker fetches the object, and no other."""
        return self._peers.owns(name)

    def open(
        self, request: LookupRequest, sent: BegunRead | None = None, *, strict: bool
    ) -> Coroutine[Any, Any, Resolution]:
        """Does what `fetch` does where no head is known. `sent`: a read of the object under way, if there is one: at
        the origin, or at its owner, which is called anew."""
        if sent is not None:
            request = request._replace(span=sent.span)
        return self.fetch(request, None, strict=strict, sent=sent if isinstance(sent, SentRead) else None)

    async def fetch(
        self, request: LookupRequest, known: Head | None, *, strict: bool, sent: SentRead | None = None
    ) -> Resolution:
        """Asks the origin, or the object's owner. `known`: the head to revalidate; `strict`: the owner must not use
        a fresh head. Where sizes contradict each other, asks again for bytes, unconditionally."""
        name = request.name
        self._heads.requests.enter(name)
        try:
            for _ in range(_CONTRADICTIONS):
                try:
                    return await self._request(request, known, sent, strict=strict)
                except SizeContradicted:
                    request, known = request._replace(span=request.span or Span(0, request.decision.block)), None
            return await self._request(request, known, None, strict=strict)
        finally:
            self._heads.requests.leave(name)

    def _request(
        self, request: LookupRequest, known: Head | None, sent: SentRead | None, *, strict: bool
    ) -> Coroutine[Any, Any, Resolution]:
        owner = self._peers.owner(request.name)
        if owner is None:
            return self._fetch_from_origin(request, known, sent)
        if request.identity is not None:
            return self._fetch_from_origin(request._replace(span=None), known)
        return self._request_from_owner(owner, request, known, strict=strict)

    async def _request_from_owner(
        self, owner: Owner, request: LookupRequest, known: Head | None, *, strict: bool
    ) -> Resolution:
        with suppress(PeerUnavailable):
            return await self._fetch_from_owner(owner, request, known, strict=strict)
        return await self._fetch_from_origin(request, known)

    async def _fetch_from_origin(
        self, request: LookupRequest, known: Head | None, sent: SentRead | None = None
    ) -> Resolution:
        span, identity = request.span, request.identity
        requested = self._heads.now() if sent is None else sent.requested
        if span is not None and not is_preallocated(first := min(request.decision.block, span.length)):
            # Behind the request, which leaves in this turn of the loop: there is time while the origin answers.
            asyncio.get_running_loop().call_soon(preallocate_buffer, first)
        if_none_match = known.version if known is not None else None
        answer = await self._reads.open_read(
            request.name,
            OriginRead(request.method, span, if_none_match=if_none_match, version_id=request.version_id),
            credential=None if identity is None else await request_credential(identity),
            sent=sent,
        )
        if isinstance(answer, ObjectOpened):  # nearly all are: without patterns
            return await self._opened(request, answer, requested)
        match answer:
            case Revalidated():
                return await self._revalidated(request, known, answer, requested)
            case ErrorResponse(status=416) if span is not None:
                # Past the end, or an empty object. The client's range is judged against the head, as on a hit.
                return await self._fetch_from_origin(request._replace(span=None), None)
            case ErrorResponse() if identity is None:
                await self._remove(request, answer, requested.seconds)
            case ErrorResponse() | Uncacheable():
                if identity is not None:
                    self._permissions.revoke(identity, request.name)
            case _:
                assert_never(answer)
        return answer

    async def _opened(self, request: LookupRequest, opened: ObjectOpened, requested: RequestTime) -> Resolution:
        """Stores the head that a response has brought, and feeds the first flights from its body."""
        name, identity, version_id = request.name, request.identity, request.version_id
        since, requested_at = requested
        if version_id is None:
            before = self._heads.current(name)
            facts = self._heads.merged_facts(name, opened.facts, before)
            head = head_of(facts, request.decision.block, requested_at)
            is_stored = self._replacement.try_store_over(before, name, head, since)
        elif opened.facts.version.version_id == version_id:
            head = replace(head_of(opened.facts, request.decision.block, requested_at), by_id=True)
            is_stored = self._replacement.try_store(name, head, since)
        else:
            opened.body.close()
            return Uncacheable("another version than the one with this id, or a response that names none")
        if not is_stored:
            since = await self._store(name, head, since, opened)
        if identity is not None:
            self._permissions.allow(identity, name, requested_at, since)
        return self._resolved(request, head, "fetched", opened)

    async def _revalidated(
        self, request: LookupRequest, known: Head | None, answer: Revalidated, requested: RequestTime
    ) -> Resolution:
        """Stores the known head as validated by a 304; fetches it anew where the 304 has another time or other
        headers, or spells the ETag in another way."""
        if known is None:
            return Uncacheable("304 to a request without If-None-Match")
        name, identity = request.name, request.identity
        since, requested_at = requested
        is_same = answer.etag == known.version.etag and answer.last_modified in {"", known.facts.last_modified}
        if not (is_same and agrees(known.facts, answer.repeated)):
            # The same bytes were written again, or with other metadata; or blocks have to go under another ETag.
            return await self._fetch_from_origin(request._replace(span=None), None)
        head = known.with_validation(requested_at)
        current = self._heads.current(name)
        if current is None or not self._heads.is_overtaken(name, head, current):
            since = await self._replacement.store(name, head, since)
        if identity is not None:
            self._permissions.allow(identity, name, requested_at, since)
        return ResolvedVersion(head, "revalidated")

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
        since, requested_at = self._heads.now()
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

    def _resolved(
        self, request: LookupRequest, head: Head, status: LookupStatus, opened: ObjectOpened
    ) -> ResolvedVersion:
        view = ObjectView(request.name, head, request.decision.rule, request.identity)
        return ResolvedVersion(head, status, self._fetcher.adopt_first_blocks(view, opened))

    async def _remove(self, request: LookupRequest, refused: ErrorResponse, requested_at: float) -> None:
        """Forgets the version that a refusal shows to be gone."""
        if request.version_id is not None:
            self._heads.remove_by_id(request.name, request.version_id)
        elif refused.status == 404:
            await self._replacement.remove_deleted(request.name, requested_at)
