"""The objects that a memory tier keeps a head or a block of: for listings, and for operations on a whole object.

An object is here exactly while a head or a block of it is kept.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from forebay.core.heads import Head
from forebay.core.names import BlockId, ObjectName

NAMES_AT_ONCE: Final = 256


class CachedObject(NamedTuple):
    """The head and the cached bytes of one object, for listings."""

    name: ObjectName
    head: Head | None
    cached: int
    """Bytes of blocks, of all generations."""


@dataclass(slots=True)
class _MemoryObject:
    head: Head | None = None
    blocks: dict[BlockId, int] = field(default_factory=dict)
    """The length of each block, so that listings need not look into the LRU order."""


class MemoryObjects:
    """The objects of one tier."""

    def __init__(self) -> None:
        self._objects: dict[ObjectName, _MemoryObject] = {}

    def names(self) -> Iterator[ObjectName]:
        """Yields all names."""
        yield from self._objects

    def blocks(self, name: ObjectName) -> list[BlockId]:
        """Returns the blocks that are kept of an object."""
        entry = self._objects.get(name)
        return [] if entry is None else list(entry.blocks)

    def has_blocks(self, name: ObjectName) -> bool:
        """Returns whether a block of an object is kept."""
        entry = self._objects.get(name)
        return entry is not None and bool(entry.blocks)

    def cached_bytes(self, name: ObjectName) -> int:
        """Returns the bytes of an object's blocks."""
        entry = self._objects.get(name)
        return 0 if entry is None else sum(entry.blocks.values())

    def add_block(self, block: BlockId, length: int) -> None:
        """A block is kept."""
        self._entry(block.object).blocks[block] = length

    def add(self, name: ObjectName, head: Head, block: BlockId, length: int) -> bool:
        """A head and the only block of its object are kept. Returns False, and adds nothing, if something of it is."""
        if name in self._objects:
            return False
        self._objects[name] = _MemoryObject(head, {block: length})
        return True

    def remove_block(self, block: BlockId) -> bool:
        """A block is kept no longer. Returns whether it was the last of an object that has a head."""
        entry = self._objects[block.object]
        del entry.blocks[block]
        self._drop_if_empty(block.object, entry)
        return entry.head is not None and not entry.blocks

    def set_head(self, name: ObjectName, head: Head | None) -> None:
        """A head is kept; None: no longer."""
        entry = self._entry(name)
        entry.head = head
        self._drop_if_empty(name, entry)

    def listing(self, bucket: str, prefix: str, step: int = NAMES_AT_ONCE) -> Iterator[list[CachedObject]]:
        """Yields the objects of a bucket whose keys start with `prefix`, in no order.

        Each step looks at `step` names and yields those that match, perhaps none, so that the caller can let the loop
        run in between. Objects admitted meanwhile may be missing, objects dropped meanwhile are left out.
        """
        names = list(self._objects)
        for start in range(0, len(names), step):
            yield [
                CachedObject(name, entry.head, sum(entry.blocks.values()))
                for name in names[start : start + step]
                if name.bucket == bucket and name.key.startswith(prefix) and (entry := self._objects.get(name))
            ]

    def _entry(self, name: ObjectName) -> _MemoryObject:
        entry = self._objects.get(name)
        if entry is None:
            entry = self._objects[name] = _MemoryObject()
        return entry

    def _drop_if_empty(self, name: ObjectName, entry: _MemoryObject) -> None:
        if entry.head is None and not entry.blocks:
            del self._objects[name]
