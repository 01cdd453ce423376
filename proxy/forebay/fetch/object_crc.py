"""Object CRC: compares the bytes fetched of an object with the origin's CRC-64, which OSS has for every object.

    head has a CRC-64        blocks land in any order, in one fetch or many        the last block lands
          │                          └─ each block's CRC-64 is kept                    └─ combined and compared

The comparison needs every block of the version to have come from the origin since the process started. So it covers
objects that are read whole, at once or bit by bit. It does not cover objects with blocks on the SSD from before a
restart, or objects that were staged while written (their bytes were compared as they left).

It is made before the last block is visible to any reader: a reader of a cold object, from start to end, gets all of it
only if it is right. Bytes delivered before that can't be recalled, but the object is forgotten and not served again.

Bounded: the versions begun longest ago are forgotten first, and are not compared.
"""

from collections import OrderedDict
from typing import Final, TypeAlias

from forebay.core.buffers import Buffer
from forebay.core.byte_ranges import block_count
from forebay.core.heads import Head
from forebay.core.names import BlockId, Generation, ObjectName
from forebay.protocol.body.crc64 import crc64
from forebay.protocol.body.crc_combination import combine_crc64
from forebay.protocol.oss.oss_headers import CRC64

BLOCK_CAPACITY: Final = 200_000
"""Blocks of all versions under way: some 20 MB."""

_Version: TypeAlias = tuple[ObjectName, Generation]


class ObjectCrc:
    """The CRC-64 of blocks that have arrived, until their versions are complete."""

    def __init__(self, capacity: int = BLOCK_CAPACITY) -> None:
        self._capacity = capacity
        self._blocks: OrderedDict[_Version, dict[int, tuple[int, int]]] = OrderedDict()
        self._count = 0

    def __len__(self) -> int:
        """The number of versions under way."""
        return len(self._blocks)

    def has_crc(self, head: Head) -> bool:
        """Whether the origin has given a CRC-64 to compare this version with."""
        return _origin_crc(head) is not None

    def verifies(self, block: BlockId, buffer: Buffer, head: Head) -> bool:
        """Whether `buffer`, all of `block`, may be used: False if it completes a version whose CRC-64 is another than
        the origin's."""
        expected = _origin_crc(head)
        if expected is None:
            return True
        count, version = block_count(head.size, head.block_size), (block.object, block.generation)
        crc = crc64(buffer)
        if count == 1:
            return crc == expected
        known = self._blocks.setdefault(version, {})
        self._count += block.number not in known
        known[block.number] = crc, len(buffer)
        if len(known) < count:
            self._forget_oldest()
            return True
        self.forget(block.object, block.generation)
        whole = 0
        for number in range(count):
            whole = combine_crc64(whole, *known[number])
        return whole == expected

    def forget(self, name: ObjectName, generation: Generation) -> None:
        """Forgets the blocks of a version."""
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
