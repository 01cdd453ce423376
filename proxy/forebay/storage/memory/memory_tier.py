"""The memory tier: blocks and heads of one process, bounded in bytes, the least recently used leaves first.

    blocks   ┌ b7 ┬ b2 ┬ b9 ┐      each in its order of use; to make room, a block leaves, or a head once heads
    heads    ┌ hA ┬ hC ┐           take more than half of the tier

Everything is synchronous and belongs to one event loop. A lookup costs about a microsecond; nothing here waits, and
nothing that could take long is done in one go: making room after the tier was shrunk is done by `evict_some`, which the
caller repeats.

Blocks that are sent often are moved to files that the kernel sends from, by those who send them (`place`, `replace`);
what these take is for `storage.memory.arenas` to count.

Invariants:
- `used` is the sum of what each kept block and head was counted as, overhead included, and no block or head is kept
  that `_objects` does not know, nor the other way round (an object is known exactly while something of it is kept);
- after `admit` or `put_head`, `used` is at most the capacity, unless the tier was shrunk and `evict_some` is still
  busy;
- a buffer that pins much more memory than it shows (a slice of a large receive buffer) is copied, so that what is
  counted is what is held.

A head outlives its object's blocks: where these are read from the SSD, the head is what makes that cheap.

Beside a head its readers may keep what they made from it, ready for the next hit (`prepare`). That is found as long as
that very head is kept, and not a moment longer.

Blocks that were read from the SSD and not kept are remembered, by their hash, to be told when they come again: no more
of them than blocks that are kept, each of which is counted with one.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from forebay.core.buffers import Buffer
from forebay.core.events import BlockAdmitted, BlocksEvicted, Observe, unobserved
from forebay.core.heads import Head
from forebay.core.names import BlockId, Generation, ObjectName
from forebay.storage.memory.arenas import ArenaExtent, Arenas
from forebay.storage.memory.entry_cost import BLOCK_OVERHEAD, head_cost, ready_cost
from forebay.storage.tier_contract import Occupancy

MAX_ATTACHMENTS: Final = 8
"""Kept ready beside one head. Who asks in more ways than that begins anew."""
EVICTIONS_AT_ONCE: Final = 256
NAMES_AT_ONCE: Final = 1024


class CachedObject(NamedTuple):
    """What the tier holds of one object, for listings."""

    name: ObjectName
    head: Head | None
    cached: int
    """Bytes of blocks, of all generations."""


@dataclass(slots=True)
class _ObjectEntry:
    """What is kept of one object."""

    head: Head | None = None
    blocks: dict[BlockId, int] = field(default_factory=dict)
    """Each block's length, so that listings need not look into the order of use."""
    ready: list[bytes] = field(default_factory=list)
    """The keys of what is kept ready beside the head."""


class MemoryTier:
    """See the module."""

    def __init__(self, capacity: int, observe: Observe = unobserved) -> None:
        self._capacity = capacity
        self._observe = observe
        self._used = 0
        # In the order of use, the least recent first.
        self._blocks: OrderedDict[BlockId, Buffer] = OrderedDict()
        self._heads: OrderedDict[ObjectName, Head] = OrderedDict()
        self._heads_used = 0
        self.arenas = Arenas(capacity)
        self.give_back: Callable[[Sequence[tuple[BlockId, Buffer]]], None] | None = None
        """Told of blocks that are to be copied from their file, off the loop, and replaced. Without it they leave."""
        self._passed: OrderedDict[int, None] = OrderedDict()
        """Hashes of blocks that were read from the SSD and not kept, in the order in which they were: see `again`. Two
        with one hash cost an admission."""
        self._objects: dict[ObjectName, _ObjectEntry] = {}
        self.attachments: dict[bytes, Any] = {}
        """What was prepared, by its key. To be read only."""
        self._shrunk = False

    def __repr__(self) -> str:
        return (
            f"<MemoryTier {self.used} of {self._capacity} bytes, {len(self._blocks)} blocks, {len(self._heads)} heads, "
            f"{self.arenas!r}>"
        )

    # Blocks

    def get(self, block: BlockId) -> Buffer | None:
        """The block, which is thereby used, or None."""
        found = self._blocks.get(block)
        if found is not None:
            self._blocks.move_to_end(block)
        return found

    def has(self, block: BlockId) -> bool:
        """Whether `get` would succeed. Not a use."""
        return block in self._blocks

    def has_space(self, length: int) -> bool:
        """Whether a block of `length` bytes can be kept and nothing has to leave for it."""
        return self.used + length + BLOCK_OVERHEAD <= self._capacity

    def is_admissible(self, block: BlockId, length: int) -> bool:
        """Whether a block of `length` bytes that was just read from the SSD is worth keeping: there is room for it, or
        it was read before, not more blocks ago than the tier holds. So a scan of more than fits pushes nothing out. It
        is remembered if not."""
        known = hash(block)
        if length + BLOCK_OVERHEAD <= self._capacity and (self.has_space(length) or known in self._passed):
            self._passed.pop(known, None)
            return True
        self._passed[known] = None
        self._bound_passed()
        return False

    @property
    def ghosts(self) -> int:
        """How many blocks are remembered that were read and not kept."""
        return len(self._passed)

    def admit(self, block: BlockId, buffer: Buffer) -> None:
        """Keep a block, whole, as the most recently used. One that is larger than the tier is not kept."""
        cost = len(buffer) + BLOCK_OVERHEAD
        if cost > self._capacity:
            return
        if block in self._blocks:
            self._drop_block(block)
        self._blocks[block] = _owned(buffer)
        self._used += cost
        self._objects.setdefault(block.object, _ObjectEntry()).blocks[block] = len(buffer)
        self._observe(BlockAdmitted("memory", len(buffer)))
        self._make_room()

    def allocate(self, length: int) -> ArenaExtent | None:
        """Where the kernel can send a block from, if there is such a place: to be written to off the loop, and then
        given to `replace`. What is not kept there in the end is told to `arenas.wasted`."""
        return self.arenas.allocate(length, self._capacity - self.used)

    def replace(self, block: BlockId, old: Buffer, new: Buffer) -> bool:
        """Keep `new`, the same bytes elsewhere, in place of `old`, if that is what is kept; whether it was."""
        if self._blocks.get(block) is not old or not self.arenas.accepts(new):
            return False
        self._blocks[block] = new
        self._used -= self.arenas.remove_block(block, len(old))
        self._used += self.arenas.add_block(block, new)
        return True

    # Heads

    def head(self, name: ObjectName) -> Head | None:
        """The head of an object, which is thereby used, or None."""
        found = self._heads.get(name)
        if found is not None:
            self._heads.move_to_end(name)
        return found

    def mark_used(self, name: ObjectName) -> None:
        """Count as a use of the head, which is there: something that is ready beside it was."""
        self._heads.move_to_end(name)

    def attach(self, name: ObjectName, head: Head, key: bytes, ready: object) -> None:
        """Keep `ready`, which was made from `head`, beside it: `self.ready[key]`, until that head is replaced,
        forgotten or the least recently used. Not kept if that head is not the one that is kept."""
        if self._heads.get(name) is not head:
            return
        held = self._objects[name]
        if key not in held.ready:
            if len(held.ready) >= MAX_ATTACHMENTS:
                self._unprepare(name, held, head)
            held.ready.append(key)
            self._count_head(ready_cost(name, head, key))
        self.attachments[key] = ready
        self._make_room()

    def put_head(self, name: ObjectName, head: Head) -> None:
        """Keep the head of an object in place of an older one. Blocks that it doesn't name stay, unreachable, until
        they are the least recently used."""
        cost = head_cost(name, head)
        if name in self._heads:
            self._drop_head(name)
        if cost > self._capacity:
            return
        self._heads[name] = head
        self._count_head(cost)
        self._objects.setdefault(name, _ObjectEntry()).head = head
        self._make_room()

    # Leaving

    def forget(self, name: ObjectName, keep: Generation | None = None) -> None:
        """Drop the head and the blocks of an object, except the blocks of the generation `keep` (bytes that were
        staged for the version which is about to become current)."""
        held = self._objects.get(name)
        if held is None:
            return
        for block in list(held.blocks):
            if block.generation != keep:
                self._drop_block(block)
        if held.head is not None:
            self._drop_head(name)

    def forget_bucket(self, bucket: str) -> None:
        """Drop everything of a bucket. Looks at every object's name: a rare, administrative act."""
        self.purge(bucket, "")

    def purge(self, bucket: str, prefix: str) -> int:
        """Drop every object whose key starts with `prefix`; how many there were. Looks at every object's name."""
        names = [name for name in self._objects if name.bucket == bucket and name.key.startswith(prefix)]
        for name in names:
            self.forget(name)
        return len(names)

    # Size

    def resize(self, capacity: int) -> None:
        """Change the capacity. What is then too much leaves by `evict_some`, not at once: it could be millions."""
        self._capacity = capacity
        self.arenas.resize(capacity)
        self._shrunk = self.used > capacity

    def evict_some(self, limit: int = EVICTIONS_AT_ONCE) -> bool:
        """Let up to `limit` of the least recently used go, down to the capacity; whether more are to go."""
        self._evict(limit)
        # What readers keep of files whose blocks have left goes when they have done: there is nothing to wait for.
        self._shrunk = self.used > self._capacity and bool(self._blocks or self._heads)
        return self._shrunk

    @property
    def used(self) -> int:
        """Bytes that are counted."""
        return self._used + self.arenas.charged()

    def occupancy(self) -> Occupancy:
        return Occupancy(self._capacity, self.used, len(self._blocks), len(self._heads))

    def cached_bytes(self, name: ObjectName) -> int:
        """Bytes of the object's blocks that are held."""
        held = self._objects.get(name)
        return 0 if held is None else sum(held.blocks.values())

    def listing(self, bucket: str, prefix: str, step: int = NAMES_AT_ONCE) -> Iterator[list[CachedObject]]:
        """The objects of a bucket whose keys start with `prefix`, in no order.

        Each step looks at `step` names and gives those that match, perhaps none, so that a caller can let the loop run
        between two steps. Objects that come meanwhile may be missing, those that leave are left out.
        """
        names = list(self._objects)
        for start in range(0, len(names), step):
            yield [
                CachedObject(name, held.head, sum(held.blocks.values()))
                for name in names[start : start + step]
                if name.bucket == bucket and name.key.startswith(prefix) and (held := self._objects.get(name))
            ]

    # Book-keeping

    def _count_head(self, cost: int) -> None:
        self._used += cost
        self._heads_used += cost

    def _drop_block(self, block: BlockId) -> int:
        """Let go of a block; its length."""
        size = len(self._blocks.pop(block))
        held = self._objects[block.object]
        del held.blocks[block]
        self._used -= self.arenas.remove_block(block, size) + BLOCK_OVERHEAD
        self._tidy(block.object, held)
        self._bound_passed()
        return size

    def _bound_passed(self) -> None:
        while len(self._passed) > len(self._blocks) + 1:
            self._passed.popitem(last=False)

    def _drop_head(self, name: ObjectName) -> None:
        """Let go of a head, and of what is ready beside it."""
        head, held = self._heads.pop(name), self._objects[name]
        self._unprepare(name, held, head)
        held.head = None
        self._count_head(-head_cost(name, head))
        self._tidy(name, held)

    def _tidy(self, name: ObjectName, held: _ObjectEntry) -> None:
        if held.head is None and not held.blocks:
            del self._objects[name]

    def _unprepare(self, name: ObjectName, held: _ObjectEntry, head: Head) -> None:
        for key in held.ready:
            # The same key may have come to mean another object, under another configuration: then it is that one's, and
            # is made anew when it is asked for.
            self.attachments.pop(key, None)
            self._count_head(-ready_cost(name, head, key))
        held.ready.clear()

    def _make_room(self) -> None:
        # While a shrunk tier empties itself, each admission only makes up for a bounded number of others. A block may
        # have to leave its file first.
        self._evict(EVICTIONS_AT_ONCE if self._shrunk else 2 * len(self._blocks) + len(self._heads))

    def _evict(self, limit: int) -> None:
        left: list[int] = []
        while self.used > self._capacity and limit > 0 and (self._blocks or self._heads):
            limit -= 1
            if self.arenas.sparse:
                left += (gone := self._give_up())
                limit -= len(gone)
            elif self._blocks and (not self._heads or self._heads_used * 2 <= self._capacity):
                left.append(self._drop_block(next(iter(self._blocks))))
            else:
                self._drop_head(next(iter(self._heads)))
        if left:
            self._observe(BlocksEvicted("memory", len(left), sum(left), "resize" if self._shrunk else "capacity"))

    def _give_up(self) -> Sequence[int]:
        """Have the first of the sparse files closed: its blocks are copied, or leave. Gives the lengths of these."""
        arena = next(iter(self.arenas.sparse))
        if self.give_back is None or not self.arenas.retire(arena):
            return [self._drop_block(block) for block in tuple(arena.blocks)]
        self._used += sum(len(self._blocks[block]) for block in arena.blocks)
        self.give_back([(block, self._blocks[block]) for block in arena.blocks])
        return ()


def _owned(buffer: Buffer) -> Buffer:
    """The buffer, or a copy if it pins a good deal more memory than it shows."""
    try:
        whole = len(buffer.obj)  # type: ignore[arg-type]  # every exporter we meet has a length; others are copied
    except TypeError:
        whole = -1
    if not len(buffer) <= whole <= len(buffer) + len(buffer) // 8 + 64:
        return memoryview(bytes(buffer))
    return buffer.toreadonly()
