"""A view of the packs of one pattern in one bucket, as they were at one moment, and which of their keys are objects.

    indexes       newest first: of a key that several have, the newest counts
    shadowed      keys of objects that differ from the member of the same name: the object wins
    since         the fence at which the view was begun: a key that was written later may be an object

An object with the ETag, the size and the time of the member is the member: either may be read.
"""

from collections.abc import Sequence
from typing import NamedTuple

from forebay.core.errors import MalformedPack, PackUnavailable, StorageError
from forebay.core.fences import Fences, Tick
from forebay.core.names import ObjectName
from forebay.namespace.packs.index_file import IndexFile
from forebay.policy.key_order import prefix_end
from forebay.protocol.packs.packed_member import PackedMember, PackShard
from forebay.protocol.packs.tombstones import Tombstone


class FoundMember(NamedTuple):
    """A member, and its shard."""

    member: PackedMember
    shard: PackShard


class MemberTombstone(NamedTuple):
    """The tombstone of a member, written or yet to be written."""

    index_key: str
    tombstone: Tombstone
    is_applied: bool
    """Whether it is at the origin, and known here."""


class PackView:
    """A view, which is replaced as a whole."""

    def __init__(
        self,
        bucket: str,
        indexes: Sequence[IndexFile],
        shadowed: frozenset[str],
        fences: Fences,
        since: Tick,
        at: float,
    ) -> None:
        """`at`: seconds since the epoch, before the first request to the origin."""
        self.bucket = bucket
        self.indexes = tuple(sorted(indexes, key=lambda each: each.index.description.created_at, reverse=True))
        self.shadowed = shadowed
        self._fences = fences
        self.since = since
        self.taken_at = at

    @property
    def members(self) -> int:
        """Members of all indexes that are not deleted."""
        return sum(each.members for each in self.indexes)

    @property
    def resident_bytes(self) -> int:
        """Bytes of memory that the tables of its indexes take."""
        return sum(each.index.resident_bytes for each in self.indexes)

    @property
    def is_outrun(self) -> bool:
        """Whether so much was written since that nothing is known of any key."""
        return not self._fences.allows(ObjectName(self.bucket, ""), self.since)

    def may_be_object(self, key: str) -> bool:
        """Returns whether a key may be an object that differs from the member."""
        return key in self.shadowed or not self._fences.allows(ObjectName(self.bucket, key), self.since)

    async def find(self, key: str) -> FoundMember | None:
        """Returns the member of a key; None: no pack has it. Raises PackUnavailable."""
        for each in self.indexes:
            try:
                member = await each.find(key)
            except (MalformedPack, StorageError) as damage:
                raise PackUnavailable(f"{each.name.path}: {damage}") from None
            if member is not None:
                return FoundMember(member, each.shards[member.shard])
        return None

    def find_nowait(self, key: str) -> FoundMember | None:
        """Returns the member of a key if that needs no waiting; None: there may be none."""
        for each in self.indexes:
            try:
                member = each.find_nowait(key)
            except MalformedPack:
                return None  # `find` says so
            if member == "unknown":
                return None
            if member is not None:
                return FoundMember(member, each.shards[member.shard])
        return None

    async def tombstones(self, key: str) -> list[MemberTombstone]:
        """Returns the tombstones that hide the members of a key in all indexes that have one. Raises
        PackUnavailable."""
        found = []
        for each in self.indexes:
            try:
                member, is_hidden = await each.find_with_hidden(key)
            except (MalformedPack, StorageError) as damage:
                raise PackUnavailable(f"{each.name.path}: {damage}") from None
            if member is not None:
                tombstone = Tombstone(key, each.shards[member.shard].key, member.offset)
                found.append(MemberTombstone(each.name.key, tombstone, is_hidden))
        return found

    async def members_behind(self, after: str, prefix: str, end: str | None, limit: int) -> list[PackedMember]:
        """Returns the first members behind `after` under a prefix, up to `end` inclusive, at most `limit`, in order.
        Raises PackUnavailable."""
        found: dict[str, PackedMember] = {}
        for each in self.indexes:  # the newest first: its members stay
            try:
                for member in await _members_behind(each, after, prefix, end, limit):
                    found.setdefault(member.key, member)
            except (MalformedPack, StorageError) as damage:
                raise PackUnavailable(f"{each.name.path}: {damage}") from None
        return [found[key] for key in sorted(found)[:limit]]


async def _members_behind(file: IndexFile, after: str, prefix: str, end: str | None, limit: int) -> list[PackedMember]:
    found: list[PackedMember] = []
    start, stop = max(after, prefix), prefix_end(prefix) if prefix else None
    number = file.index.block_of(start)
    if number is None or not any(
        each.startswith(prefix) or prefix.startswith(each) for each in file.index.description.prefixes
    ):
        return found
    while number < file.index.blocks:
        block = await file.block(number)
        for position, key in enumerate(block.keys):
            if key <= after or key < prefix:
                continue
            if (end is not None and key > end) or (stop is not None and key >= stop) or len(found) >= limit:
                return found
            if not file.is_hidden(number, position):
                found.append(block.member(position))
        number += 1
    return found
