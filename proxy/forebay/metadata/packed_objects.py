"""Packed objects: finds the version of an object that may be a member of a pack.

    may be an object too: written since, or listed with another version, or a strict reader
                     ──yes──> the object (metadata.resolver) ──404──┐
    in a pack, and   ──no────────────────────────────────────────────┴──> the member: its facts from the index, its
                                                                          bytes from its shard
    in no pack       ──> the object

A member's bytes are read as a span of its shard, which is an object like any other: its blocks are fetched, shared and
kept by the rules of the shard's own name. It never changes, so it is never revalidated; another version than the one
that the index names is refused.

Who may read the key has been decided before, by the grants on the key. A principal with its own origin credential also
needs the origin's permission, on the shard: that is the object which it would have to read itself.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

from forebay.core.byte_ranges import Span
from forebay.core.errors import OriginError, PackUnavailable
from forebay.core.heads import head_of
from forebay.core.names import ObjectName
from forebay.metadata.lookup_request import LookupRequest
from forebay.metadata.object_checksums import ObjectChecksums
from forebay.metadata.resolver import Resolver
from forebay.metadata.shared_lookup import Resolution, ResolvedVersion, StoredIn
from forebay.namespace.packs.pack_catalogue import PackCatalogue
from forebay.namespace.packs.pack_view import FoundMember
from forebay.origin.read_outcomes import ErrorResponse
from forebay.policy.packed_scopes import pack_freshness
from forebay.policy.rules import Rules
from forebay.settings.freshness_values import AlwaysRevalidate, Immutable


class PackedObjects:
    """Resolves lookup requests of objects that a rule says may be packed, and all others as the resolver does."""

    def __init__(self, resolver: Resolver, catalogue: PackCatalogue, rules: Callable[[], Rules]) -> None:
        self._resolver = resolver
        self._catalogue = catalogue
        self._rules = rules

    @property
    def checksums(self) -> ObjectChecksums:
        """Those of objects; a member has its own with it."""
        return self._resolver.checksums

    async def resolve(self, request: LookupRequest, *, leads: bool = False) -> Resolution:
        """Returns the version, or the origin's response in its place. Raises what Resolver.resolve raises, and
        PackUnavailable."""
        packed = request.decision.packed
        if packed is None or request.version_id is not None:
            return await self._resolver.resolve(request, leads=leads)
        try:
            view = await self._catalogue.view(request.name.bucket, packed, pack_freshness(request.decision.freshness))
            found = await view.find(request.name.key)
        except OriginError as failure:
            reason = failure.reason
        else:
            if found is None:
                return await self._resolver.resolve(request, leads=leads)
            is_strict = request.no_cache or isinstance(request.decision.freshness, AlwaysRevalidate)
            if not (is_strict or view.may_be_object(request.name.key) or self._resolver.may_be_written(request.name)):
                return await self._member(request, found)
            resolution = await self._resolver.resolve(request, leads=leads)
            return await self._member(request, found) if _is_missing(resolution) else resolution
        resolution = await self._resolver.resolve(request, leads=leads)
        if _is_missing(resolution):
            raise PackUnavailable(reason)
        return resolution

    async def place_in(self, shard: ObjectName, key: str) -> tuple[str, Span] | None:
        """The ETag of a shard and where the member of a key is in it, by the pack's index; None: no index says."""
        decision = self._rules().decide(ObjectName(shard.bucket, key))
        if decision.packed is None:
            return None
        with suppress(OriginError):
            view = await self._catalogue.view(shard.bucket, decision.packed, pack_freshness(decision.freshness))
            found = await view.find(key)
            if found is not None and found.shard.key == shard.key:
                return found.shard.etag, Span(found.member.offset, found.member.stop)
        return None

    async def _member(self, request: LookupRequest, found: FoundMember) -> Resolution:
        member, shard = found
        name = ObjectName(request.name.bucket, shard.key)
        decision = replace(self._rules().decide(name), freshness=Immutable(), packed=None)
        span = None
        if request.span is not None and member.size:
            first = member.offset // decision.block * decision.block
            behind = -(-min(member.stop, member.offset + request.span.length) // decision.block) * decision.block
            span = Span(first, behind)
        resolution = await self._resolver.resolve(LookupRequest(name, decision, span, identity=request.identity))
        if not isinstance(resolution, ResolvedVersion):
            if isinstance(resolution, ErrorResponse) and request.identity is None:
                raise PackUnavailable(f"the origin answered {resolution.status} for the shard {name.path}")
            return resolution
        head = resolution.head
        if (head.version.etag, head.size) != (shard.etag, shard.size):
            raise PackUnavailable(f"{name.path} is not the shard that the index names: it was written again")
        shown = head_of(member.facts(), head.block_size, head.validated_at)
        return replace(resolution, head=shown, stored=StoredIn(name, head, member.offset))


def _is_missing(resolution: Resolution) -> bool:
    return isinstance(resolution, ErrorResponse) and resolution.status == 404
