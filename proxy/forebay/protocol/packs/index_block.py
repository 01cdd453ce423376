"""A block of an index: some members in the order of their keys, in columns, deflated except for those of hashes.

    u32 size of the deflated part   deflated part   n * 8 digest   m * 16 MD5

    deflated part, n members, columns one after the other, integers little-endian:
      u32 n   u32 length of the keys   u32 length of the texts   u32 length of the header sets
      n u64 offset / 512   n u64 size   n u64 modified   n u32 shard   n u32 header set   n u8 kind of ETag
      keys, NUL between   ETags that are texts, NUL between   header sets, JSON

An ETag that is the hex of an MD5 in quotes (kind 1) takes 16 bytes; any other is a text (kind 0). A block repeats equal
sets of headers once.
"""

import json
import struct
import sys
import zlib
from array import array
from bisect import bisect_left
from collections.abc import Sequence
from typing import Final

from forebay.core.errors import MalformedPack
from forebay.core.heads import HeaderPairs
from forebay.protocol.packs.packed_member import DIGEST_BYTES, PackedMember
from forebay.protocol.tar_header import BLOCK

BLOCK_MEMBERS: Final = 128
MAX_BLOCK_BYTES: Final = 16 << 20
_HEAD: Final = struct.Struct("<IIII")
_LENGTH: Final = struct.Struct("<I")
_MD5_BYTES: Final = 16
_QUOTED_MD5: Final = 2 + 2 * _MD5_BYTES


class MemberBlock:
    """The members of one block. Raises MalformedPack for bytes that are no block."""

    def __init__(self, content: bytes | memoryview) -> None:
        try:
            (deflated,) = _LENGTH.unpack_from(content)
            body = _inflated(content[_LENGTH.size : _LENGTH.size + deflated])
            count, keys, texts, sets = _HEAD.unpack_from(body)
            position = _HEAD.size
            columns = []
            for kind, width in (("Q", 8), ("Q", 8), ("Q", 8), ("I", 4), ("I", 4), ("B", 1)):
                columns.append(_column(kind, body[position : position + width * count], count))
                position += width * count
            self.offsets, self.sizes, self.times, self.shards, self._header_sets, self._kinds = columns
            parts = [body[start : start + size] for start, size in _spans(position, (keys, texts, sets))]
            self.keys = str(parts[0], "utf-8").split("\0")
            self._texts = str(parts[1], "utf-8").split("\0")
            self._headers: list[HeaderPairs] = [
                tuple((str(a), str(b)) for a, b in pairs) for pairs in json.loads(parts[2])
            ]
        except (struct.error, zlib.error, ValueError, TypeError) as error:
            raise MalformedPack(f"a block of the index is damaged: {error}") from None
        self._raw = bytes(content[_LENGTH.size + deflated :])
        self._md5s = count * DIGEST_BYTES
        is_md5 = sum(self._kinds)
        if (
            position + keys + texts + sets != len(body)
            or len(self.keys) != count
            or len(self._raw) != self._md5s + is_md5 * _MD5_BYTES
            or max(self._header_sets, default=0) >= max(1, len(self._headers))
            or max(self._kinds, default=0) > 1
            or (count > is_md5 and len(self._texts) != count - is_md5)
        ):
            raise MalformedPack("a block of the index contradicts itself")

    def __len__(self) -> int:
        return len(self.keys)

    def position_of(self, key: str) -> int | None:
        """Returns the position of the member with this key in the block; None: there is none."""
        number = bisect_left(self.keys, key)
        return number if number < len(self.keys) and self.keys[number] == key else None

    def find(self, key: str) -> PackedMember | None:
        """Returns the member of a key."""
        number = self.position_of(key)
        return None if number is None else self.member(number)

    def etag(self, number: int) -> str:
        """Returns the ETag of a member."""
        kinds = self._kinds
        rank = sum(kinds[:number])  # of at most BLOCK_MEMBERS bytes
        if not kinds[number]:
            return self._texts[number - rank]
        at = self._md5s + rank * _MD5_BYTES
        return f'"{self._raw[at : at + _MD5_BYTES].hex()}"'

    def member(self, number: int) -> PackedMember:
        """Returns a member, by its position in the block."""
        at = number * DIGEST_BYTES
        return PackedMember(
            self.keys[number],
            self.shards[number],
            self.offsets[number] * BLOCK,
            self.sizes[number],
            self.etag(number),
            self.times[number],
            self._headers[self._header_sets[number]],
            self._raw[at : at + DIGEST_BYTES],
        )


def encode_block(members: Sequence[PackedMember]) -> bytes:
    """Returns the bytes of a block. `members` in the order of their keys."""
    sets: dict[HeaderPairs, int] = {}
    numbers = [sets.setdefault(each.headers, len(sets)) for each in members]
    kinds = bytes(_is_md5(each.etag) for each in members)
    keys = "\0".join(each.key for each in members).encode()
    texts = "\0".join(each.etag for each, is_md5 in zip(members, kinds, strict=True) if not is_md5).encode()
    headers = json.dumps(list(sets), separators=(",", ":"), ensure_ascii=False).encode()
    body = b"".join(
        (
            _HEAD.pack(len(members), len(keys), len(texts), len(headers)),
            _packed("Q", [each.offset // BLOCK for each in members]),
            _packed("Q", [each.size for each in members]),
            _packed("Q", [each.modified for each in members]),
            _packed("I", [each.shard for each in members]),
            _packed("I", numbers),
            kinds,
            keys,
            texts,
            headers,
        )
    )
    deflated = zlib.compress(body, 6)
    digests = b"".join(each.digest for each in members)
    md5s = b"".join(bytes.fromhex(each.etag[1:-1]) for each, is_md5 in zip(members, kinds, strict=True) if is_md5)
    return b"".join((_LENGTH.pack(len(deflated)), deflated, digests, md5s))


def _is_md5(etag: str) -> bool:
    if len(etag) != _QUOTED_MD5 or etag[0] != '"' or etag[-1] != '"':
        return False
    return all(character in "0123456789abcdef" for character in etag[1:-1])


def _inflated(content: bytes | memoryview) -> bytes:
    inflater = zlib.decompressobj()
    body = inflater.decompress(content, MAX_BLOCK_BYTES)
    if not inflater.eof or inflater.unused_data:
        raise ValueError("it is cut short, or too large")
    return body


def _spans(position: int, sizes: Sequence[int]) -> list[tuple[int, int]]:
    spans = []
    for size in sizes:
        spans.append((position, size))
        position += size
    return spans


def _column(kind: str, content: bytes, count: int) -> Sequence[int]:
    if kind == "B":
        if len(content) != count:
            raise ValueError("a column is cut short")
        return content
    column = array(kind)
    column.frombytes(content)
    if sys.byteorder == "big":
        column.byteswap()
    if len(column) != count:
        raise ValueError("a column is cut short")
    return column


def _packed(kind: str, values: Sequence[int]) -> bytes:
    column = array(kind, values)
    if sys.byteorder == "big":
        column.byteswap()
    return column.tobytes()
