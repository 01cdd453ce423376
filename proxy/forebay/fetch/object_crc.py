"""Whether what was fetched of an object is what its origin tells of it: CRC-64, which OSS has of every object.

    head tells a CRC-64          blocks land, in any order, in one fetch or many          the last of them
          │                              └─ each block's CRC-64 is kept                        └─ combined, compared

The comparison needs every block of the version to have come from the origin since the process began. So it is made of
objects that were read whole once, or bit by bit; not of one of which blocks were found on the SSD after a restart, or
were staged while it was written (those were compared as they left), or are never read.

It is made before the last block is anybody's: who reads a cold object from one end to the other gets all of it only if
it is right. What was handed out before can't be taken back, but it is forgotten, and never answered again.

Bounded: the versions begun longest ago are forgotten first, and are not compared then.
"""

from collections import OrderedDict
from typing import Final, TypeAlias

from forebay.core.buffers import Buffer
from forebay.core.byte_ranges import block_count
from forebay.core.heads import Head
from forebay.core.names import BlockId, Generation, ObjectName
from forebay.protocol.body.crc64 import combine, crc64
from forebay.protocol.oss.oss_vocabulary import CRC64

BLOCK_CAPACITY: Final = 200_000
"""Blocks, of all versions under way: some 20 MB."""

_Version: TypeAlias = tuple[ObjectName, Generation]


class ObjectCrc:
    """The CRC-64 of blocks that have come, until their versions are whole."""

    def __init__(self, capacity: int = BLOCK_CAPACITY) -> None:
        self._capacity = capacity
        self._blocks: OrderedDict[_Version, dict[int, tuple[int, int]]] = OrderedDict()
        self._count = 0

    def __len__(self) -> int:
        """How many versions are under way."""
        return len(self._blocks)

    def has_crc(self, head: Head) -> bool:
        """Whether the origin has told what to compare this version with."""
        return _origin_crc(head) is not None

    def verifies(self, block: BlockId, buffer: Buffer, head: Head) -> bool:
        """Whether `buffer`, which is all of `block`, may stand: False if with it the version is whole and not what the
        origin told of it."""
        told = _origin_crc(head)
        if told is None:
            return True
        count, version = block_count(head.size, head.block_size), (block.object, block.generation)
        value = crc64(buffer)
        if count == 1:
            return value == told
        known = self._blocks.setdefault(version, {})
        self._count += block.number not in known
        known[block.number] = value, len(buffer)
        if len(known) < count:
            self._forget_oldest()
            return True
        self.forget(block.object, block.generation)
        whole = 0
        for number in range(count):
            whole = combine(whole, *known[number])
        return whole == told

    def forget(self, name: ObjectName, generation: Generation) -> None:
        """What came of this version is not to be believed, or needed, any more."""
        self._count -= len(self._blocks.pop((name, generation), ()))

    def _forget_oldest(self) -> None:
        while self._count > self._capacity and len(self._blocks) > 1:
            _, known = self._blocks.popitem(last=False)
            self._count -= len(known)


def _origin_crc(head: Head) -> int | None:
    for name, value in head.facts.headers:
        if name == CRC64:
            return int(value) if value.isdecimal() and value.isascii() else None
    return None
