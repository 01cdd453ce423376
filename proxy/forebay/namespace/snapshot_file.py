"""The file of a namespace snapshot: blocks of keys, appended in any order, read at any position.

    block     u32 crc  u32 keys  u32 facts   deflate(keys, NUL between)   deflate(facts, NUL between)

A block has the entries of a page of the origin's listing, some thousand, in order. Neighbouring keys share most of
their characters, which deflate finds as front coding would; and a whole block is decoded by two calls of C. The index
(the last key of each block, and its address) is in memory: less than a byte a key.

The file has no name: it belongs to the process that writes it, and ends with it. A block that does not match its
checksum raises StorageError; whoever reads it drops the snapshot.

docs/on-disk-format.md
"""

import asyncio
import os
import struct
import tempfile
import weakref
import zlib
from bisect import bisect_left
from collections import OrderedDict
from pathlib import Path
from typing import Final, NamedTuple

from forebay.core.errors import StorageError

_HEADER: Final = struct.Struct("<III")
_LEVEL: Final = 1
_REMEMBERED: Final = 8
"""Decoded blocks that are kept, of a quarter of a megabyte each: the pages of one client follow each other."""


class BlockAddress(NamedTuple):
    """Where a block is, in bytes."""

    offset: int
    keys: int
    facts: int
    entries: int

    @property
    def length(self) -> int:
        """Bytes of the whole block."""
        return _HEADER.size + self.keys + self.facts


class EntryBlock:
    """A block that was read. Its facts are decoded when they are first needed."""

    __slots__ = ("_facts", "_packed", "keys")

    def __init__(self, keys: list[str], packed: bytes) -> None:
        self.keys = keys
        self._packed = packed
        self._facts: list[str] | None = None

    @property
    def facts(self) -> list[str]:
        """The facts of each key. Raises StorageError."""
        if self._facts is None:
            self._facts = _unpacked(self._packed, len(self.keys))
        return self._facts

    def find(self, key: str) -> int | None:
        """The position of a key; None: the block lacks it."""
        position = bisect_left(self.keys, key)
        return position if position < len(self.keys) and self.keys[position] == key else None


class SnapshotFile:
    """An anonymous file in `directory`, of at most `capacity` bytes. Closed when nothing refers to it any more."""

    def __init__(self, directory: Path, capacity: int) -> None:
        """Raises StorageError."""
        try:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=directory, buffering=0) as file:
                self._fd = os.dup(file.fileno())
        except OSError as error:
            raise StorageError(f"no file for a listing: {error}") from error
        weakref.finalize(self, os.close, self._fd)
        self._capacity = capacity
        self._decoded: OrderedDict[int, EntryBlock] = OrderedDict()
        self.size = 0
        """Bytes that its blocks occupy."""

    async def append(self, keys: list[str], facts: list[str]) -> BlockAddress:
        """Writes a block. Raises StorageError: the disk fails, or the capacity is used up."""
        packed = await asyncio.to_thread(_packed, keys, facts)
        address = BlockAddress(self.size, len(packed[1]), len(packed[2]), len(keys))
        if self.size + address.length > self._capacity:
            raise StorageError(f"a listing of more than {self._capacity} bytes")
        self.size += address.length
        await asyncio.to_thread(self._write, b"".join(packed), address.offset)
        return address

    def _write(self, content: bytes, offset: int) -> None:
        try:
            if os.pwrite(self._fd, content, offset) != len(content):
                raise StorageError("the file of a listing can't be written: no space is left")
        except OSError as error:
            raise StorageError(f"the file of a listing can't be written: {error}") from error

    async def read(self, address: BlockAddress) -> EntryBlock:
        """Returns a block. Raises StorageError."""
        block = self._decoded.get(address.offset)
        if block is None:
            content = self._read_resident(address)
            if content is None:
                content = await asyncio.to_thread(self._read, address)
            block = _decoded(content, address)
            self._decoded[address.offset] = block
            if len(self._decoded) > _REMEMBERED:
                self._decoded.popitem(last=False)
        self._decoded.move_to_end(address.offset)
        return block

    def _read_resident(self, address: BlockAddress) -> bytes | None:
        """Returns the bytes if the page cache has them all."""
        content = bytearray(address.length)
        try:
            count = os.preadv(self._fd, (content,), address.offset, os.RWF_NOWAIT)
        except OSError:
            return None
        return bytes(content) if count == address.length else None

    def _read(self, address: BlockAddress) -> bytes:
        try:
            return os.pread(self._fd, address.length, address.offset)
        except OSError as error:
            raise StorageError(f"the file of a listing can't be read: {error}") from error


def _packed(keys: list[str], facts: list[str]) -> tuple[bytes, bytes, bytes]:
    """Header, keys and facts of a block."""
    columns = [zlib.compress("\0".join(column).encode(), _LEVEL) for column in (keys, facts)]
    crc = zlib.crc32(columns[1], zlib.crc32(columns[0]))
    return _HEADER.pack(crc, len(columns[0]), len(columns[1])), columns[0], columns[1]


def _decoded(content: bytes, address: BlockAddress) -> EntryBlock:
    if len(content) != address.length:
        raise StorageError("the file of a listing is cut short")
    crc, keys, facts = _HEADER.unpack_from(content)
    body = memoryview(content)[_HEADER.size :]
    if (keys, facts) != (address.keys, address.facts) or zlib.crc32(body) != crc:
        raise StorageError("the file of a listing is damaged")
    return EntryBlock(_unpacked(body[:keys], address.entries), bytes(body[keys:]))


def _unpacked(column: bytes | memoryview, count: int) -> list[str]:
    try:
        values = zlib.decompress(column).decode().split("\0")
    except (zlib.error, UnicodeDecodeError):
        values = []
    if len(values) != count:
        raise StorageError("the file of a listing is damaged")
    return values
