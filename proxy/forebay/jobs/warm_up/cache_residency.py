"""Cache residency: which bytes of objects are cached now, over all workers of the node. Nothing is fetched, and no
block counts as used. The bytes of a member of a pack are those of its shard.

Each worker reports the blocks that it has in memory (`local_residency`, also a method of the peer service); the SSD
tier is shared, so the calling worker alone looks at it. A worker that is down has none.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, NamedTuple, Protocol, TypeAlias

from forebay.core.byte_ranges import Span, block_count, block_span, blocks_touching
from forebay.core.heads import Head
from forebay.core.names import BlockId, ObjectName
from forebay.peers.frames import Document
from forebay.peers.owners import Peers
from forebay.peers.peer_codec import decode, decode_head, decode_name, encode_head, encode_names
from forebay.storage.tiers import Tiers

BLOCKS_AT_ONCE: Final = 512
"""Look-ups after which the event loop runs other tasks."""
NAMES_AT_ONCE: Final = 100
"""Names in one call to other workers."""


FindShard: TypeAlias = Callable[[ObjectName], Awaitable[tuple[ObjectName, Span] | None]]
"""Returns the shard of a member of a pack, and where the member is in it; None: the object is no member."""


class ResidentObject(NamedTuple):
    """An object of which a head is cached, as far as its bytes are wanted. Sizes in bytes."""

    size: int
    """The size of the whole object."""
    wanted: int
    memory: int
    """Bytes in the memory of some worker, a block counted once."""
    ssd: int
    cached: int
    """Bytes in some tier, a block counted once."""

    @property
    def is_whole(self) -> bool:
        """Whether every wanted byte is cached."""
        return self.cached == self.wanted

    def as_member(self, member: Span, wanted: Span) -> "ResidentObject":
        """Returns the residency of a member of this shard, by its share of the bytes that were looked up."""
        share = (wanted.length * each // (self.wanted or 1) for each in (self.memory, self.ssd, self.cached))
        return ResidentObject(member.length, wanted.length, *share)


class LocalObject(NamedTuple):
    """The state of an object in one worker: the head, and its blocks in memory, the lowest bit for the first."""

    head: Head
    memory: int


class CacheResidency:
    """Looks into the tiers of this worker, and of its peers."""

    def __init__(self, tiers: Tiers, peers: Peers, find_shard: FindShard | None = None) -> None:
        """`find_shard` None: there are no packs."""
        self._tiers = tiers
        self._peers = peers
        self._find_shard = find_shard

    @property
    def is_lasting(self) -> bool:
        """Whether something is kept after the process has ended."""
        return self._tiers.ssd is not None

    def capacity(self) -> int:
        """Returns the bytes that the cache can keep of one set of objects: the capacity of the larger tier, as blocks
        in memory are on the SSD as well. Memory is that of all workers."""
        ssd = self._tiers.ssd
        memory = self._tiers.memory.occupancy().capacity * self._peers.workers
        return max(memory, ssd.lasting_capacity if ssd is not None else 0)

    async def settle(self) -> None:
        """Waits until the SSD tier has stored all fetched blocks, and reclaimed the excess."""
        if self._tiers.ssd is not None:
            await self._peers.call_all({"kind": "flush"})
            await self._tiers.ssd.settle()

    async def look_up(
        self, names: Sequence[ObjectName], ranges: Sequence[tuple[int, int | None]] = ()
    ) -> list[ResidentObject | None]:
        """Returns the cached state of each object; None: not even its head is cached. `ranges`: of each object, where
        the wanted bytes start and stop (None: at its end); whole blocks are counted. Without them everything is
        wanted."""
        found: list[ResidentObject | None] = []
        for start in range(0, len(names), NAMES_AT_ONCE):
            members = [await self._member(name) for name in names[start : start + NAMES_AT_ONCE]]
            batch = [shard for shard, _ in members]
            views = [await local_residency(self._tiers, batch)]
            request = {"kind": "residency", **encode_names(batch)}
            views += [decode_residency(response) for response in (await self._peers.call_all(request)).values()]
            for nth, name in enumerate(batch):
                wanted = ranges[start + nth] if ranges else (0, None)
                own = [view[nth] for view in views if nth < len(view)]
                member = members[nth][1]
                if member is None:
                    found.append(await self._merge(name, own, wanted))
                    continue
                first, stop = wanted
                span = Span(member.start + first, member.stop if stop is None else member.start + stop).clip(member)
                shard = await self._merge(name, own, (span.start, span.stop))
                found.append(shard and shard.as_member(member, span))
        return found

    async def _member(self, name: ObjectName) -> tuple[ObjectName, Span | None]:
        """Returns the object whose blocks are looked up, and where a member is in it; None: it is no shard."""
        found = await self._find_shard(name) if self._find_shard is not None else None
        return found if found is not None else (name, None)

    async def _merge(
        self, name: ObjectName, found: Sequence[LocalObject | None], wanted: tuple[int, int | None]
    ) -> ResidentObject | None:
        views = [view for view in found if view is not None]
        if not views:
            return None
        head = views[0].head if len(views) == 1 else max((each.head for each in views), key=_validated_at)
        if head.size <= head.block_size:
            return self._small(name, head, views, wanted)
        ssd, memory = await _resident_blocks(name, head, self._tiers.ssd), 0
        for view in views:
            if view.head.generation == head.generation:
                memory |= view.memory
        start, stop = wanted
        blocks = blocks_touching(Span(start, min(head.size, head.size if stop is None else stop)), head.block_size)
        mask = (1 << blocks.stop) - (1 << blocks.start)
        sizes = (_bytes(each & mask, head) for each in (mask, memory, ssd, memory | ssd))
        return ResidentObject(head.size, *sizes)

    def _small(
        self, name: ObjectName, head: Head, views: Sequence[LocalObject], wanted: tuple[int, int | None]
    ) -> ResidentObject:
        """Returns the residency of an object of one block, as most objects of a large job are."""
        start, stop = wanted
        size = head.size if start < min(head.size, head.size if stop is None else stop) else 0
        is_in_memory = False
        for view in views:
            is_in_memory = is_in_memory or (view.memory > 0 and view.head.generation == head.generation)
        memory = size if is_in_memory else 0
        tier = self._tiers.ssd
        ssd = size if tier is not None and tier.has(BlockId(name, head.generation, 0)) else 0
        return ResidentObject(head.size, size, memory, ssd, max(memory, ssd))


async def local_residency(tiers: Tiers, names: Sequence[ObjectName]) -> list[LocalObject | None]:
    """Returns the state of each object in this worker."""
    found: list[LocalObject | None] = []
    for name in names:
        head = tiers.memory.heads.peek(name)
        if head is None and tiers.ssd is not None:
            head = tiers.ssd.head(name)
        if head is None:
            found.append(None)
        elif 0 < head.size <= head.block_size:  # most objects of a large job
            found.append(LocalObject(head, int(tiers.memory.has(BlockId(name, head.generation, 0)))))
        else:
            found.append(LocalObject(head, await _resident_blocks(name, head, tiers.memory)))
    return found


async def encode_residency(tiers: Tiers, request: Document) -> Document:
    """Returns the response of the peer service: the state of the request's objects in this worker."""
    found = await local_residency(tiers, decode(lambda: [decode_name(name) for name in request["names"]]))
    return {"objects": [[encode_head(each.head), f"{each.memory:x}"] if each is not None else None for each in found]}


def decode_residency(response: Document) -> list[LocalObject | None]:
    """Returns the states of a response; none from a worker that has only just started. Raises PeerUnavailable."""
    return decode(
        lambda: [
            LocalObject(decode_head(each[0]), int(each[1], 16)) if each is not None else None
            for each in response.get("objects", ())
        ]
    )


def _validated_at(head: Head) -> float:
    return head.validated_at


class _BlockIndex(Protocol):
    def has(self, block: BlockId) -> bool: ...


async def _resident_blocks(name: ObjectName, head: Head, tier: _BlockIndex | None) -> int:
    blocks = 0
    if tier is None:
        return blocks
    for number in range(block_count(head.size, head.block_size)):
        blocks |= tier.has(BlockId(name, head.generation, number)) << number
        if number % BLOCKS_AT_ONCE == BLOCKS_AT_ONCE - 1:
            await asyncio.sleep(0)
    return blocks


def _bytes(blocks: int, head: Head) -> int:
    """Returns the bytes of the blocks whose bits are set. All blocks but the last are of one length."""
    last = block_count(head.size, head.block_size) - 1
    if last < 0 or not blocks >> last & 1:
        return blocks.bit_count() * head.block_size
    return (blocks.bit_count() - 1) * head.block_size + block_span(last, head.block_size, head.size).length
