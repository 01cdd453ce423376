"""The resolver: finds the version of an object to answer with, as fresh as its rule demands.

    head fresh    ->  used as it is                                                            (no request)
    head stale    ->  revalidation: one conditional request; 304 confirms the head, 200 or 206 replaces it
    head unknown  ->  opening: one ranged GET whose response is the head and the first blocks at once

A read of a version by its id takes the same way. Its head is never stale (metadata.object_heads).

Openings and revalidations are shared by the readers that arrive meanwhile (metadata.shared_lookup), within limits:

- After a write was acknowledged, no reader joins a lookup that was sent before it (SharedLookups.fence). The same holds
  once a version was found replaced by another writer: it is forgotten before its successor is sent to a client
  (metadata.head_replacement).
- A strict reader (`always`, no-cache) never joins a revalidation that was sent before the reader came. If it joined an
  opening, it sends a request of its own afterwards.
- A principal with its own origin credential sends its own requests and joins only those. A head is stale for it as well
  once the origin's permission has expired (metadata.permissions). While another identity's opening is under way it
  requests the head only: once the origin has given it that, the blocks of the other opening serve both.

What has to be fetched comes from the origin, or from the worker that owns the object (metadata.version_fetch).

The resolver makes none of its parts; the composition root does.
"""

import asyncio
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Final

from forebay.core.errors import ForebayError
from forebay.core.heads import Head
from forebay.core.names import ObjectName
from forebay.metadata.direct_openings import DirectOpenings
from forebay.metadata.head_replacement import HeadReplacement
from forebay.metadata.listed_heads import ListedHeads
from forebay.metadata.lookup_request import LookupRequest
from forebay.metadata.object_checksums import ObjectChecksums
from forebay.metadata.object_heads import ObjectHeads
from forebay.metadata.own_writes import OwnWrites
from forebay.metadata.permissions import Permissions
from forebay.metadata.resolution import Resolution, ResolvedVersion
from forebay.metadata.shared_lookup import BegunRead, LookupKey, SharedLookup, SharedLookups
from forebay.metadata.version_fetch import VersionFetch
from forebay.origin.origin_identity import OriginIdentity
from forebay.policy.rules import Decision

OPENING_TIMEOUT: Final = 1.0
"""Seconds that a reader with a head of its own waits for another identity's opening, which brings the blocks."""


class Resolver:
    """Resolves lookup requests. See the module."""

    def __init__(
        self,
        versions: VersionFetch,
        heads: ObjectHeads,
        lookups: SharedLookups,
        permissions: Permissions,
        checksums: ObjectChecksums,
        own_writes: OwnWrites,
        replacement: HeadReplacement,
        openings: DirectOpenings,
        listed: ListedHeads | None = None,
    ) -> None:
        """`listed` None: no listing renews a head."""
        self._versions = versions
        self.heads = heads
        self._lookups = lookups
        self.permissions = permissions
        self.checksums = checksums
        self._own_writes = own_writes
        self._replacement = replacement
        self._openings = openings
        self._listed = listed

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
        return head if head is not None and self.is_usable(name, head, decision, no_cache, identity) else None

    def is_usable(
        self, name: ObjectName, head: Head, decision: Decision, no_cache: bool, identity: OriginIdentity | None
    ) -> bool:
        """Whether the current head may be used for `identity` without a request."""
        return self.is_permitted(name, identity) and self.heads.is_fresh(name, head, decision, no_cache)

    def is_permitted(self, name: ObjectName, identity: OriginIdentity | None) -> bool:
        """Whether `identity` may read `name` without a request: the origin allowed it recently, or the identity is
        None."""
        return identity is None or self.permissions.is_allowed(identity, name, self.heads.clock())

    def is_unsettled(self, name: ObjectName) -> bool:
        """Whether a write of an object is pending or in doubt. Then a listing of the origin proves nothing about it."""
        return self._own_writes.are_pending(name) or self.is_in_doubt(name)

    def is_in_doubt(self, name: ObjectName) -> bool:
        """Whether the origin may have carried out a write of an object whose answer was lost."""
        return self.heads.in_doubt_writes.covers(name, self.heads.clock())

    def resolve_nowait(self, request: LookupRequest) -> ResolvedVersion | None:
        """Returns the version, if it is known without a request and without waiting."""
        name = request.name
        if request.version_id is not None or self.is_unsettled(name) or not self._own_writes.are_settled(name):
            return None
        head = self.fresh_head(name, request.decision, no_cache=request.no_cache, identity=request.identity)
        return ResolvedVersion(head, "fresh") if head is not None else None

    async def resolve(self, request: LookupRequest, *, leads: bool = False) -> Resolution:
        """Returns the version, or the origin's response in its place. Raises OriginError when it can't be read.

        `leads`: whether a GET that opens the object runs in this task (see SharedLookup.lead)."""
        if request.version_id is not None:
            return await self._resolve_by_id(request, request.version_id)
        name, decision, identity = request.name, request.decision, request.identity
        if not self._own_writes.are_settled(name) and (written := await self._own_writes.settle(name, identity)):
            return written
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
            if leads and not strict:
                opened = await self._openings.open(request, partial(self._versions.open, request, strict=False))
                if opened is not None:
                    return opened
            resolution, joined = await self._share_opening(request, strict=strict, leads=leads)
            if not (strict and joined):
                return resolution
            # Sent before this reader came: what was refused then may be there by now.
            head = resolution.head if isinstance(resolution, ResolvedVersion) else None
        if strict:
            return await self._fetch_unshared(request, head)
        resolution, _ = await self._lookups.share(
            name, LookupKey("check", identity), lambda _: self._versions.fetch(request, head, strict=False)
        )
        return resolution

    async def _resolve_by_id(self, request: LookupRequest, version_id: str) -> Resolution:
        if self._is_strict(request):
            return await self._fetch_unshared(request, None)
        head = self.heads.by_id(request.name, version_id)
        if head is not None:
            return ResolvedVersion(head, "fresh")
        key = LookupKey(request.method, request.identity, version_id)
        resolution, _ = await self._lookups.share(
            request.name, key, lambda _: self._versions.fetch(request, None, strict=False)
        )
        return resolution

    def _is_strict(self, request: LookupRequest) -> bool:
        return request.no_cache or self.heads.is_always_checked(request.name, request.decision)

    async def _share_opening(self, request: LookupRequest, *, strict: bool, leads: bool) -> tuple[Resolution, bool]:
        name, identity, method = request.name, request.identity, request.method
        other = None
        if method == "GET":
            if request.checksums:
                self.checksums.prefetch(name, identity)
            if self._versions.owns(name):  # looked up now: of two that begin at once, the second waits for the first
                other = self._lookups.find_opening(name, other_than=identity)
        if other is None:
            work = partial(self._versions.open, request, strict=strict)
        else:
            work = partial(self._open_beside, other, request, strict=strict)
        return await self._lookups.share(name, LookupKey(method, identity), work, leads=leads)

    async def _open_beside(
        self, other: SharedLookup, request: LookupRequest, _sent: BegunRead | None, *, strict: bool
    ) -> Resolution:
        """Opens only the head of the object beside the `other` opening under way."""
        if other.is_done:
            return await self._versions.fetch(request, None, strict=strict)
        own = await self._versions.fetch(request._replace(span=None), None, strict=strict)
        if isinstance(own, ResolvedVersion) and not other.is_done:
            with suppress(ForebayError, TimeoutError):
                async with asyncio.timeout(OPENING_TIMEOUT):
                    opened = await other.wait()
                if isinstance(opened, ResolvedVersion) and opened.head.generation == own.head.generation:
                    return replace(own, flights=dict(opened.flights), joined=True)
        return own

    async def _fetch_unshared(self, request: LookupRequest, known: Head | None) -> Resolution:
        work = self._versions.fetch(request, known, strict=True)
        return await self._lookups.start_unshared(work, f"strict {request.name.path}").wait()
