"""Deleted originals: a pack job's index leaves out members whose originals were deleted after the job had read them.

    shards ──> prefix listed again ──> index without what is not listed ──> published ──> tombstones for the rest

The listing shows every earlier deletion, through whichever node. Of deletions while the index is uploaded only those
through this node are known, by the fences that they raise in every worker. A deletion that is settled after the
publication finds the member itself (write.packed_deletions).
"""

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing

from forebay.core.fences import Tick
from forebay.core.names import ObjectName
from forebay.jobs.packing.index_publisher import MemberSource
from forebay.jobs.packing.pack_services import PackServices
from forebay.jobs.state.pack_order import PackOrder
from forebay.namespace.pending_entries import PendingState
from forebay.origin.bucket_listing import ListedObject
from forebay.protocol.packs.packed_member import PackedMember, PackShard
from forebay.protocol.packs.tombstones import Tombstone


async def deleted_members(
    source: MemberSource, listed: AsyncGenerator[ListedObject], pending: PendingState
) -> AsyncIterator[tuple[int, PackedMember]]:
    """Yields the members of which no object is listed, and those with a pending delete; with their numbers in the
    source. `listed`: in the order of keys, as the members are; `pending`: as it was before the listing began. Raises
    ForebayError."""
    number = 0
    async with aclosing(listed) as objects:
        found = await anext(objects, None)
        async for member in source.members():
            while found is not None and found.key < member.key:
                found = await anext(objects, None)
            is_listed = found is not None and found.key == member.key
            if not is_listed or (member.key in pending and pending[member.key] is None):
                yield number, member
            number += 1


class PresentMembers:
    """The members of a source without the deleted ones, for which it has a bit each. A MemberSource."""

    def __init__(self, source: MemberSource) -> None:
        self._source = source
        self._left_out = bytearray()
        self.shards: Sequence[PackShard] = source.shards

    def leave_out(self, number: int) -> None:
        """Leaves out the member with this number in the source."""
        byte, bit = divmod(number, 8)
        self._left_out.extend(bytes(max(0, byte + 1 - len(self._left_out))))
        self._left_out[byte] |= 1 << bit

    async def members(self) -> AsyncIterator[PackedMember]:
        """Yields the members. Raises ForebayError."""
        number = 0
        async for member in self._source.members():
            byte, bit = divmod(number, 8)
            if byte >= len(self._left_out) or not self._left_out[byte] >> bit & 1:
                yield member
            number += 1


class DeletedOriginals:
    """Finds the deleted originals of one order. Keeps no state."""

    def __init__(self, order: PackOrder, packing: PackServices) -> None:
        self._order, self._packing = order, packing

    def members(self, source: MemberSource) -> AsyncIterator[tuple[int, PackedMember]]:
        """Yields the members whose originals are not there any more, with their numbers. Raises ForebayError."""
        order, packing = self._order, self._packing
        pending = packing.pending.state(order.bucket, order.prefix)
        return deleted_members(source, packing.origins.list_objects(order.bucket, order.prefix), pending)

    async def hide(self, source: MemberSource, since: Tick) -> None:
        """Hides published members whose originals were deleted through this node `since` then. Raises ForebayError."""
        bucket, prefix = self._order.bucket, self._order.prefix
        written = self._packing.fences.raised_since(since)
        if written is None or bucket in written:
            written = None
        elif not any(name[0] == bucket and name[1].startswith(prefix) for name in written if isinstance(name, tuple)):
            return
        hidden = [
            (self._order.index_key, Tombstone(member.key, source.shards[member.shard].key, member.offset))
            async for _, member in self.members(source)
            if written is None or ObjectName(bucket, member.key) in written
        ]
        await self._packing.deletions.hide(bucket, hidden, None)
