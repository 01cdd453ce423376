"""Packed objects: finds the version of an object that may be a member of a pack.

    may be an object too: written since, or listed with another version, or a strict reader
                     ──yes──> the object (metadata.resolver) ──404──┐
    in a pack, and   ──no────────────────────────────────────────────┴──> the member: its facts from the index, its
                                                                          bytes from its shard
    in no pack       ──> the object

A write in doubt may be a deletion, whose tombstone this node does not know: then each read of the key looks for one.

A member's bytes are read as a span of its shard, which is an object like any other: its blocks are fetched, shared and
kept by the rules of the shard's own name. It never changes, so it is never revalidated; another version than the one
that the index names is refused.

The admission has checked the grants on the key. A principal with its own origin credential also needs the origin's
permission, on the shard: the object that it would read at the origin.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Final

from forebay.core.byte_ranges import Span
from forebay.core.errors import OriginError, PackUnavailable
from forebay.core.heads import Head, head_of
from forebay.core.names import ObjectName
from forebay.metadata.lookup_request import LookupRequest
from forebay.metadata.object_checksums import ObjectChecksums
from forebay.metadata.resolution import Resolution, ResolvedVersion, ShardExtent
from forebay.metadata.resolver import Resolver
from forebay.namespace.packs.pack_catalogue import PackCatalogue
from forebay.namespace.packs.pack_view import FoundMember
from forebay.origin.reads.read_outcomes import ErrorResponse
from forebay.policy.packed_scopes import pack_freshness
from forebay.policy.rules import Decision, Rules
from forebay.settings.freshness_values import AlwaysRevalidate, Immutable

_MAX_DECISIONS: Final = 1024
"""Shards whose decisions are kept."""


class PackedObjects:
    """Resolves lookup requests of objects that a rule says may be packed, and all others as the resolver does."""

    def __init__(self, resolver: Resolver, catalogue: PackCatalogue, rules: Callable[[], Rules]) -> None:
        self._resolver = resolver
        self._catalogue = catalogue
        self._rules = rules
        self._decisions: tuple[Rules | None, dict[ObjectName, Decision]] = None, {}
        """The decisions on shards, under the rules that were in force when they were made."""

    @property
    def checksums(self) -> ObjectChecksums:
        """The checksums of objects. A member carries its own."""
        return self._resolver.checksums

    async def resolve(self, request: LookupRequest, *, leads: bool = False) -> Resolution:
        """Returns the version, or the origin's response in its place. Raises the errors of Resolver.resolve, and
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
            if not (is_strict or view.may_be_object(request.name.key) or self._resolver.is_unsettled(request.name)):
                return await self._member(request, found)
            resolution = await self._resolver.resolve(request, leads=leads)
            if not _is_missing(resolution):
                return resolution
            if self._resolver.is_in_doubt(request.name):
                await self._catalogue.look_for_tombstones(request.name.bucket, [request.name.key])
                found = await view.find(request.name.key)
            return await self._member(request, found) if found is not None else resolution
        resolution = await self._resolver.resolve(request, leads=leads)
        if _is_missing(resolution):
            raise PackUnavailable(reason)
        return resolution

    def resolve_nowait(self, request: LookupRequest) -> ResolvedVersion | None:
        """Resolves as Resolver.resolve_nowait does, members included."""
        if request.decision.packed is None:
            return self._resolver.resolve_nowait(request)
        if request.version_id is not None or request.no_cache or request.identity is not None:
            return None
        found = self.member_nowait(request.name, request.decision)
        return ResolvedVersion(found[0], "fresh", stored=found[1]) if found is not None else None

    def member_nowait(self, name: ObjectName, decision: Decision) -> tuple[Head, ShardExtent] | None:
        """Returns the head of a member and its extent, for a plain read without an identity at the origin; None if only
        `resolve` can tell whether the key is a member."""
        if decision.packed is None or isinstance(decision.freshness, AlwaysRevalidate):
            return None
        view = self._catalogue.view_nowait(name.bucket, decision.packed, pack_freshness(decision.freshness))
        if view is None or view.may_be_object(name.key) or self._resolver.is_unsettled(name):
            return None
        found = view.find_nowait(name.key)
        if found is None:
            return None
        member, shard = found
        shard_name = ObjectName(name.bucket, shard.key)
        head = self._resolver.fresh_head(shard_name, self._shard_decision(shard_name), no_cache=False)
        if head is None or (head.version.etag, head.size) != (shard.etag, shard.size):
            return None
        shown = head_of(member.facts(), head.block_size, head.validated_at)
        return shown, ShardExtent(shard_name, head, member.offset)

    async def shard_span(self, name: ObjectName) -> tuple[ObjectName, Span] | None:
        """Returns the shard of a member, and where the member is in it; None: the key is no member, may be an object,
        or its pack can't be read."""
        rules = self._rules()
        if rules.packed.is_empty:
            return None
        decision = rules.decide(name)
        if decision.packed is None:
            return None
        with suppress(OriginError):
            view = await self._catalogue.view(name.bucket, decision.packed, pack_freshness(decision.freshness))
            found = None if view.may_be_object(name.key) else await view.find(name.key)
            if found is not None:
                return ObjectName(name.bucket, found.shard.key), Span(found.member.offset, found.member.stop)
        return None

    async def known_span(self, name: ObjectName) -> tuple[ObjectName, Span] | None:
        """Returns `shard_span` without a request to the origin; None also where the packs are not known yet."""
        decision = self._rules().decide(name)
        if decision.packed is None or self._resolver.is_unsettled(name):
            return None
        view = self._catalogue.view_nowait(name.bucket, decision.packed, pack_freshness(decision.freshness))
        return await self.shard_span(name) if view is not None else None

    async def member_span(self, shard: ObjectName, key: str) -> tuple[str, Span] | None:
        """Returns the ETag of a shard, and the span in it of the member with this key, by the pack's index; None: no
        index has it."""
        decision = self._rules().decide(ObjectName(shard.bucket, key))
        if decision.packed is None:
            return None
        with suppress(OriginError):
            view = await self._catalogue.view(shard.bucket, decision.packed, pack_freshness(decision.freshness))
            found = await view.find(key)
            if found is not None and found.shard.key == shard.key:
                return found.shard.etag, Span(found.member.offset, found.member.stop)
        return None

    def _shard_decision(self, shard: ObjectName) -> Decision:
        """The decision on a shard: it never changes, and is in no pack."""
        rules = self._rules()
        if self._decisions[0] is not rules or len(self._decisions[1]) >= _MAX_DECISIONS:
            self._decisions = rules, {}
        decisions = self._decisions[1]
        decision = decisions.get(shard)
        if decision is None:
            decision = decisions[shard] = replace(rules.decide(shard), freshness=Immutable(), packed=None)
        return decision

    async def _member(self, request: LookupRequest, found: FoundMember) -> Resolution:
        member, shard = found
        name = ObjectName(request.name.bucket, shard.key)
        decision = self._shard_decision(name)
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
        return replace(resolution, head=shown, stored=ShardExtent(name, head, member.offset))


def _is_missing(resolution: Resolution) -> bool:
    return isinstance(resolution, ErrorResponse) and resolution.status == 404
