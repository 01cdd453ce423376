"""Deletions of members of packs: a DELETE hides the member by a tombstone, whether or not an object hides it already.

    an object hides the member        tombstone ──> DELETE at the origin            never a moment in which it shows
    nothing hides it                  DELETE at the origin ──> tombstone            none, if the origin refuses
    the journal takes the DELETE      tombstone ──> journal ──> acknowledged
    there is no member                DELETE ──> other packs than before? then once more: is there one now?
    a tombstone hides it already      the other workers are told: this one may have found what another node has hidden,
                                      or a worker that has died since

The fourth case is that of a pack which is published meanwhile, with an object that its job had read before.

No other write of the key is under way meanwhile (write.member_writes): the DELETE of the second case removes no object.

The DELETE is acknowledged, by the origin's answer or from the journal, when the origin has all of its tombstones and
all workers know them. A version is deleted by its id without a tombstone, unless an object that hides the member may
come to its end so: members have no versions, and the versions of the objects that were packed are somebody's to clear.

If this worker dies before all others know of a tombstone, or the origin does not say that it has it, the keys are in
doubt in the others, and each read of them looks for one (metadata.packed_objects).

Tombstones are written with Forebay's credential; by a principal with a credential of its own, with that one.
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from typing import Final, NamedTuple

from forebay.core.errors import S3Error
from forebay.core.names import ObjectName
from forebay.metadata.lookup_request import LookupRequest
from forebay.metadata.resolution import ResolvedVersion
from forebay.metadata.resolver import Resolver
from forebay.namespace.packs.pack_catalogue import PackCatalogue
from forebay.namespace.packs.pack_view import PackView
from forebay.namespace.packs.tombstone_store import TombstoneStore
from forebay.origin.origin_identity import OriginIdentity
from forebay.peers.frames import Document
from forebay.peers.owners import Peers
from forebay.peers.peer_codec import decode
from forebay.policy.packed_scopes import pack_freshness
from forebay.policy.rules import Decision, Rules
from forebay.protocol.packs.tombstones import Tombstone
from forebay.protocol.xml.s3_documents import ListedKey
from forebay.write.invalidation import Invalidator

_AT_ONCE: Final = 16
"""Keys of a batch delete that are looked up at once."""


class MemberLook(NamedTuple):
    """The state of one key that is to be deleted."""

    view: PackView | None
    """None: the key can be no member, or its members are not to be hidden."""
    hidden: Sequence[tuple[str, Tombstone]] = ()
    at_once: bool = False
    """Whether its members are to be hidden before the delete."""
    applied: Sequence[tuple[str, Tombstone]] = ()
    """The tombstones that hide its members already, as far as this worker knows."""


class PackedDeletions:
    """Hides members. Keeps no state."""

    def __init__(
        self,
        catalogue: PackCatalogue,
        tombstones: TombstoneStore,
        resolver: Resolver,
        invalidator: Invalidator,
        peers: Peers,
        rules: Callable[[], Rules],
    ) -> None:
        self._catalogue = catalogue
        self._tombstones = tombstones
        self._resolver = resolver
        self._invalidator = invalidator
        self._peers = peers
        self._rules = rules

    async def begin(
        self, bucket: str, listed: Sequence[ListedKey], identity: OriginIdentity | None
    ) -> "PackedDeletion":
        """Hides the members that must not be seen while the DELETE is carried out. `listed`: the keys to delete. Raises
        PackUnavailable, OriginError, S3Error, Throttled."""
        before: list[tuple[str, Tombstone]] = []
        after: list[tuple[str, Tombstone]] = []
        applied: list[tuple[str, Tombstone]] = []
        absent: list[tuple[ListedKey, PackView]] = []
        if not self._rules().packed.is_empty:
            for first in range(0, len(listed), _AT_ONCE):
                part = listed[first : first + _AT_ONCE]
                looks = await asyncio.gather(*(self.look(bucket, each, identity) for each in part))
                for each, look in zip(part, looks, strict=True):
                    (before if look.at_once else after).extend(look.hidden)
                    applied.extend(look.applied)
                    if look.view is not None and not look.hidden:
                        absent.append((each, look.view))
        await self.hide_announced(bucket, before, identity)
        if applied:
            await self._tell_others(bucket, applied)
        return PackedDeletion(self, bucket, identity, after, absent)

    async def hide_replaced(self, name: ObjectName, identity: OriginIdentity | None) -> None:
        """Hides the members of a key for which the origin has an object now. Raises PackUnavailable, OriginError,
        S3Error, Throttled."""
        decision = self._rules().decide(name)
        if decision.packed is None:
            return
        view = await self._catalogue.view(name.bucket, decision.packed, pack_freshness(decision.freshness))
        known = await view.tombstones(name.key)
        hidden = [(each.index_key, each.tombstone) for each in known if not each.is_applied]
        await self.hide_announced(name.bucket, hidden, identity)

    async def hide_announced(
        self, bucket: str, hidden: Sequence[tuple[str, Tombstone]], identity: OriginIdentity | None
    ) -> None:
        """Hides members. Whether they are hidden is in doubt where this worker dies, or the origin fails."""
        if hidden:
            async with self._invalidator.announced([ObjectName(bucket, tombstone.key) for _, tombstone in hidden]):
                await self.hide(bucket, hidden, identity)

    def is_current(self, view: PackView) -> bool:
        """Whether new readers still get this view."""
        return self._catalogue.is_current(view)

    async def look(self, bucket: str, listed: ListedKey, identity: OriginIdentity | None) -> MemberLook:
        """The state of a key that is to be deleted. Raises PackUnavailable, OriginError, S3Error, Throttled."""
        name, rules = ObjectName(bucket, listed.key), self._rules()
        decision = rules.decide(name)
        if decision.packed is None:
            return MemberLook(None)
        view = await self._catalogue.view(bucket, decision.packed, pack_freshness(decision.freshness))
        known = await view.tombstones(name.key)
        applied = [(each.index_key, each.tombstone) for each in known if each.is_applied]
        found = [(each.index_key, each.tombstone) for each in known if not each.is_applied]
        if not found:
            return MemberLook(view, applied=applied)
        is_hidden = name.key in view.shadowed
        if listed.version_id is not None or not is_hidden:
            is_hidden = await self._is_hidden(name, decision, view, identity)
        if listed.version_id is not None and not is_hidden:
            return MemberLook(None)
        if listed.is_conditional and not is_hidden:  # the origin has nothing to compare
            raise S3Error(
                "NotImplemented",
                f"{listed.key} is a member of a pack: delete it without a condition, or by a DELETE with If-Match.",
            )
        return MemberLook(view, found, is_hidden, applied)

    async def _is_hidden(
        self, name: ObjectName, decision: Decision, view: PackView, identity: OriginIdentity | None
    ) -> bool:
        """Whether an object that is another one than the member hides it, or a pending deletion of the key. Asks the
        origin only where one may."""
        if not (view.may_be_object(name.key) or self._resolver.is_unsettled(name)):
            return False
        try:
            resolution = await self._resolver.resolve(LookupRequest(name, decision, None, identity=identity))
        except S3Error as refusal:
            if refusal.code != "NoSuchKey":
                raise
            return True
        found = await view.find(name.key)
        if found is None or not isinstance(resolution, ResolvedVersion):
            return False
        head = resolution.head
        return (head.version.etag, head.size) != (found.member.etag, found.member.size)

    async def hide(self, bucket: str, hidden: Sequence[tuple[str, Tombstone]], identity: OriginIdentity | None) -> None:
        """Hides members, each with the key of its index. Returns when the origin has their tombstones and all workers
        know them. Raises OriginError, S3Error, Throttled."""
        if not hidden:
            return
        by_index: defaultdict[str, list[Tombstone]] = defaultdict(list)
        for index_key, tombstone in hidden:
            by_index[index_key].append(tombstone)
        await asyncio.gather(
            *(self._tombstones.write(bucket, key, tombstones, identity) for key, tombstones in by_index.items())
        )
        await self._catalogue.hide(bucket, hidden)
        await self._tell_others(bucket, hidden)

    async def _tell_others(self, bucket: str, hidden: Sequence[tuple[str, Tombstone]]) -> None:
        """Has all other workers apply tombstones that are at the origin."""
        rows = [[index_key, *tombstone] for index_key, tombstone in hidden]
        await self._peers.call_until_acked({"kind": "members_hidden", "bucket": bucket, "hidden": rows}, slow=True)


class PackedDeletion:
    """One delete, whose members that must not be seen meanwhile are hidden."""

    def __init__(
        self,
        deletions: PackedDeletions,
        bucket: str,
        identity: OriginIdentity | None,
        hidden: Sequence[tuple[str, Tombstone]],
        absent: Sequence[tuple[ListedKey, PackView]],
    ) -> None:
        """`hidden`: the keys of indexes, and tombstones of those of their members that are hidden once the origin has
        carried out the delete; `absent`: the keys that are no members, and the view that has none of them."""
        self._deletions, self._bucket, self._identity = deletions, bucket, identity
        self._hidden, self._absent = hidden, absent

    async def hide_first(self) -> None:
        """Hides the members before the delete is carried out: the journal is to have it. Raises OriginError, S3Error,
        Throttled."""
        await self._deletions.hide_announced(self._bucket, self._hidden, self._identity)
        self._hidden = ()

    async def finish(self, refused: Collection[str] = ()) -> None:
        """Hides the rest, but for the keys that the origin has `refused` to delete. Raises OriginError, S3Error,
        Throttled."""
        hidden = [each for each in self._hidden if each[1].key not in refused]
        for listed, view in self._absent:
            if listed.key not in refused and not self._deletions.is_current(view):
                hidden.extend((await self._deletions.look(self._bucket, listed, self._identity)).hidden)
        await self._deletions.hide(self._bucket, hidden, self._identity)


async def receive_hidden(catalogue: PackCatalogue, document: Document) -> None:
    """Applies the deletions of another worker."""
    hidden = decode(
        lambda: [(str(index), Tombstone(str(key), str(shard), int(at))) for index, key, shard, at in document["hidden"]]
    )
    await catalogue.hide(decode(lambda: str(document["bucket"])), hidden)
