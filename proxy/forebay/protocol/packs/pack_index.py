"""The index of a pack: maps keys to members of shards. Blocks of members, and a table of them at the end.

    "FBPACK" u16 version   blocks (protocol.packs.index_block)   description   table of blocks   footer

    description       JSON, deflated: prefixes, shards, when it was made
    table of blocks   u32 length of its columns   n u64 offset  n u32 length  n u32 CRC-32 of the block  n u32 members
                      first keys, NUL between, deflated; each cut behind the first character that tells it from the
                      last key before it
    footer, 80 bytes  u64 offset of the description  u64 its length  u64 length of the table  u64 members  u64 blocks
                      u64 zero  16 B BLAKE2b of the description, the table and the footer up to here
                      u64 length of the whole index  u16 version  "FBPKIX"

Every byte is verified: the footer's digest covers the table, and the table has a checksum of each block. A truncated
index lacks its footer, or has another length than its footer says. A reader keeps only the table in memory: less than a
byte a member. A block is read when one of its keys is looked up.

This is the format alone: whoever has the bytes reads `footer_span`, then `tables_span`, then blocks by `block_of`.
"""

import json
import struct
import sys
import zlib
from array import array
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final

from forebay.core.byte_ranges import Span
from forebay.core.errors import MalformedPack
from forebay.protocol.packs.index_block import BLOCK_MEMBERS, MemberBlock, encode_block
from forebay.protocol.packs.packed_member import PackedMember, PackShard

VERSION: Final = 1
INDEX_SUFFIX: Final = ".fbpack"
"""The suffix of the keys of indexes."""
REFERENCES_SUFFIX: Final = ".refs.json"
"""The suffix of the keys of the same index as kerchunk reads it."""
_MAGIC: Final = b"FBPACK" + VERSION.to_bytes(2, "little")
_END_MAGIC: Final = VERSION.to_bytes(2, "little") + b"FBPKIX"
_FOOTER: Final = struct.Struct("<QQQQQQ16sQ8s")
_SIGNED: Final = 48
"""Bytes of the footer that its digest covers."""
_MAX_TABLES: Final = 1 << 30
_COUNT: Final = struct.Struct("<I")


@dataclass(frozen=True, slots=True)
class PackDescription:
    """The description in an index."""

    prefixes: tuple[str, ...]
    """The keys of all members begin with one of these."""
    shards: tuple[PackShard, ...]
    created_at: float
    """Seconds since the epoch."""
    sizes: int = 0
    """Bytes of all members."""


class IndexWriter:
    """Writes an index, piece by piece, from members in the order of their keys. Raises ValueError for another order."""

    def __init__(self) -> None:
        self._members: list[PackedMember] = []
        self._offsets, self._lengths, self._crcs, self._counts = array("Q"), array("I"), array("I"), array("I")
        self._first_keys: list[str] = []
        self._last_key = ""
        self._position = 0
        self._size = 0
        self.members = 0

    def add(self, member: PackedMember) -> bytes:
        """Adds a member. Returns the bytes that are complete by now; usually none."""
        if self.members and member.key <= self._last_key:
            raise ValueError(f"{member.key!r} does not come after {self._last_key!r}")
        if not self._members:
            self._first_keys.append(_separator(self._last_key, member.key) if self.members else "")
        self._last_key = member.key
        self._members.append(member)
        self.members += 1
        self._size += member.size
        return self._flush() if len(self._members) == BLOCK_MEMBERS else b""

    def finish(self, prefixes: Sequence[str], shards: Sequence[PackShard], created_at: float) -> bytes:
        """Returns the rest of the index."""
        rest = self._flush() if self._members or not self._position else b""
        document = {
            "prefixes": list(prefixes),
            "shards": [list(each) for each in shards],
            "created_at": created_at,
            "sizes": self._size,
        }
        description = zlib.compress(json.dumps(document, ensure_ascii=False).encode())
        columns = b"".join(map(_column_bytes, (self._offsets, self._lengths, self._crcs, self._counts)))
        table = _COUNT.pack(len(columns)) + columns + zlib.compress("\0".join(self._first_keys).encode())
        signed = struct.pack(
            "<QQQQQQ", self._position, len(description), len(table), self.members, len(self._offsets), 0
        )
        digest = blake2b(description + table + signed, digest_size=16).digest()
        size = self._position + len(description) + len(table) + _FOOTER.size
        footer = signed + digest + size.to_bytes(8, "little") + _END_MAGIC
        return b"".join((rest, description, table, footer))

    def _flush(self) -> bytes:
        start = b"" if self._position else _MAGIC
        self._position += len(start)
        if not self._members:
            return start
        block = encode_block(self._members)
        self._offsets.append(self._position)
        self._lengths.append(len(block))
        self._crcs.append(zlib.crc32(block))
        self._counts.append(len(self._members))
        self._position += len(block)
        self._members = []
        return start + block


class PackIndex:
    """The table of an index whose bytes are stored elsewhere. Raises MalformedPack with the reason."""

    def __init__(self, size: int, footer: bytes, tables: bytes | memoryview) -> None:
        """`size`: bytes of the index; `footer` and `tables`: the bytes of `footer_span` and `tables_span`."""
        self.members: int
        described, first, second, self.members, blocks, _ = struct.unpack_from("<QQQQQQ", footer)
        digest = blake2b(bytes(tables) + footer[:_SIGNED], digest_size=16).digest()
        if len(tables) != first + second or digest != footer[_SIGNED : _SIGNED + 16]:
            raise MalformedPack("the tables of the index do not match their digest")
        try:
            document = json.loads(zlib.decompress(tables[:first]))
            self.description = PackDescription(
                tuple(map(str, document["prefixes"])),
                tuple(PackShard(str(key), int(bytes_), str(etag)) for key, bytes_, etag in document["shards"]),
                float(document["created_at"]),
                int(document["sizes"]),
            )
            table = tables[first:]
            (length,) = _COUNT.unpack_from(table)
            columns, keys = table[4 : 4 + length], str(zlib.decompress(table[4 + length :]), "utf-8")
            self._offsets = _column("Q", columns[: 8 * blocks])
            self._lengths, self._crcs, self.counts = (
                _column("I", columns[(8 + 4 * number) * blocks : (12 + 4 * number) * blocks]) for number in range(3)
            )
            self._first_keys = keys.split("\0") if blocks else []
        except (ValueError, TypeError, KeyError, struct.error, zlib.error) as error:
            raise MalformedPack(f"the tables of the index can't be read: {error!r}") from None
        consistent = {len(each) for each in (self._offsets, self.counts, self._first_keys)} == {blocks}
        if not consistent or sum(self.counts) != self.members or size < described:
            raise MalformedPack("the tables of the index contradict each other")

    def __len__(self) -> int:
        return self.members

    @property
    def blocks(self) -> int:
        """The number of blocks."""
        return len(self._offsets)

    @property
    def resident_bytes(self) -> int:
        """Returns the bytes of memory that the table takes, by the sizes of its parts."""
        columns = (self._offsets, self._lengths, self._crcs, self.counts)
        keys = sys.getsizeof(self._first_keys) + sum(map(sys.getsizeof, self._first_keys))
        return keys + sum(len(each) * each.itemsize for each in columns)

    def block_of(self, key: str) -> int | None:
        """Returns the number of the block that may have `key`; None: no block has it."""
        number: int = bisect_right(self._first_keys, key) - 1
        return number if number >= 0 else None

    def span(self, number: int) -> Span:
        """Returns the bytes of a block."""
        return Span(self._offsets[number], self._offsets[number] + self._lengths[number])

    def decode(self, number: int, content: bytes | memoryview) -> MemberBlock:
        """Returns the members of a block, from its bytes. Raises MalformedPack."""
        if len(content) != self._lengths[number] or zlib.crc32(content) != self._crcs[number]:
            raise MalformedPack(f"block {number} of the index does not match its checksum")
        block = MemberBlock(content)
        if len(block) != self.counts[number] or max(block.shards) >= len(self.description.shards):
            raise MalformedPack(f"block {number} of the index contradicts the table")
        return block


def footer_span(size: int) -> Span:
    """Returns where the footer of an index of `size` bytes is. Raises MalformedPack."""
    if size < len(_MAGIC) + _FOOTER.size:
        raise MalformedPack(f"an index has more than {size} bytes")
    return Span(size - _FOOTER.size, size)


def tables_span(size: int, footer: bytes) -> Span:
    """Returns where the tables are. Raises MalformedPack for bytes that are no footer of an index of this size."""
    if len(footer) != _FOOTER.size or footer[-6:] != _END_MAGIC[-6:]:
        raise MalformedPack("it is no index of a pack, or cut short")
    described, first, second, _, _, _, _, length, end = _FOOTER.unpack(footer)
    version = int.from_bytes(end[:2], "little")
    if version != VERSION:
        raise MalformedPack(f"an index of version {version}; this Forebay reads version {VERSION}")
    if length != size or described + first + second + _FOOTER.size != size or first + second > _MAX_TABLES:
        raise MalformedPack(f"the index has {size} bytes in place of {length}")
    return Span(described, described + first + second)


def open_index(content: bytes | memoryview) -> PackIndex:
    """Returns the index of bytes in memory. Raises MalformedPack."""
    footer = footer_span(len(content))
    end = bytes(content[footer.start :])
    tables = tables_span(len(content), end)
    return PackIndex(len(content), end, content[tables.start : tables.stop])


def _separator(before: str, key: str) -> str:
    """Returns the shortest prefix of `key` that comes after `before`."""
    length = 0
    for mine, other in zip(key, before, strict=False):
        if mine != other:
            break
        length += 1
    return key[: length + 1]


def _column_bytes(column: "array[int]") -> bytes:
    if sys.byteorder == "little":
        return column.tobytes()
    swapped = array(column.typecode, column)
    swapped.byteswap()
    return swapped.tobytes()


def _column(kind: str, content: bytes | memoryview) -> "array[int]":
    column = array(kind)
    column.frombytes(bytes(content))
    if sys.byteorder == "big":
        column.byteswap()
    return column
