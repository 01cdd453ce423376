"""The file of a namespace snapshot: blocks of keys, appended in any order, read at any position.

    block     u32 crc   u32 size   body (namespace.entry_block), deflated if `size` is not 0: its length before

A block has the entries of one page of the origin's listing, about a thousand, in order. Pages are cut from it as it is
on disk: about 300 bytes a key. Blocks beyond half of the file's capacity are deflated to a sixth, which costs a third
more CPU a page, so that larger namespaces fit. The index (the last key and the address of each block) is in memory:
less than a byte a key.

The file has no name: it belongs to the process that writes it, and ends with it. A block that does not match its
checksum raises StorageError, and its reader drops the snapshot.

docs/on-disk-format.md
"""

import asyncio
import os
import struct
import tempfile
import weakref
import zlib
from collections import OrderedDict
from collections.abc import Awaitable
from pathlib import Path
from typing import Final, NamedTuple

from forebay.core.errors import StorageError
from forebay.namespace.entry_block import pack_block, unpack_block
from forebay.protocol.xml.entry_rows import EntryRows
from forebay.protocol.xml.listed_page import KeyEncoding

_HEADER: Final = struct.Struct("<II")
_CHECKED: Final = 4
"""The offset of the first byte under the checksum."""
_LEVEL: Final = 1
_REMEMBERED: Final = 8
"""Blocks that are kept, of a third of a megabyte each: the pages of one client follow each other."""


class BlockAddress(NamedTuple):
    """The position of a block, in bytes."""

    offset: int
    length: int


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
        self._decoded: OrderedDict[int, EntryRows] = OrderedDict()
        self.size = 0
        """Bytes that its blocks occupy."""

    def append(self, keys: list[str], facts: list[str], encoding: KeyEncoding) -> Awaitable[BlockAddress]:
        """Packs a block at once, and writes it when the result is awaited; see EntryRows.written for the arguments. The
        await raises StorageError if the disk fails or the capacity is used up. The result keeps no reference to the
        arguments: a page is thousands of small objects, and the objects of many pages alive at once would fragment the
        heap.
        """
        return self._append(pack_block(EntryRows.written(keys, facts, encoding)))

    async def _append(self, body: bytes) -> BlockAddress:
        pieces = _checked(body, 0)
        if len(body) > self._capacity // 2 - self.size:
            pieces = await asyncio.to_thread(_deflated, body)
        address = BlockAddress(self.size, sum(map(len, pieces)))
        if self.size + address.length > self._capacity:
            raise StorageError(f"a listing of more than {self._capacity} bytes")
        self.size += address.length
        await asyncio.to_thread(self._write, pieces, address)
        return address

    def _write(self, pieces: tuple[bytes, bytes], address: BlockAddress) -> None:
        try:
            if os.pwritev(self._fd, pieces, address.offset) != address.length:
                raise StorageError("the file of a listing can't be written: no space is left")
        except OSError as error:
            raise StorageError(f"the file of a listing can't be written: {error}") from error

    async def read(self, address: BlockAddress) -> EntryRows:
        """Returns a block. Raises StorageError."""
        block = self._decoded.get(address.offset)
        if block is None:
            content: bytes | bytearray | None = self._read_resident(address)
            if content is None:
                content = await asyncio.to_thread(self._read, address)
            block = _decoded(content, address)
            self._decoded[address.offset] = block
            if len(self._decoded) > _REMEMBERED:
                self._decoded.popitem(last=False)
        self._decoded.move_to_end(address.offset)
        return block

    def _read_resident(self, address: BlockAddress) -> bytes | bytearray | None:
        """Returns the bytes if the page cache has them all."""
        content = bytearray(address.length)
        try:
            count = os.preadv(self._fd, (content,), address.offset, os.RWF_NOWAIT)
        except OSError:
            return None
        return content if count == address.length else None

    def _read(self, address: BlockAddress) -> bytes:
        try:
            return os.pread(self._fd, address.length, address.offset)
        except OSError as error:
            raise StorageError(f"the file of a listing can't be read: {error}") from error


def _deflated(body: bytes) -> tuple[bytes, bytes]:
    return _checked(zlib.compress(body, _LEVEL), len(body))


def _checked(body: bytes, size: int) -> tuple[bytes, bytes]:
    """The header of a block, and its body."""
    header = _HEADER.pack(0, size)[_CHECKED:]
    crc = zlib.crc32(body, zlib.crc32(header))
    return crc.to_bytes(_CHECKED, "little") + header, body


def _decoded(content: bytes | bytearray, address: BlockAddress) -> EntryRows:
    if len(content) != address.length or len(content) < _HEADER.size:
        raise StorageError("the file of a listing is cut short")
    view = memoryview(content)
    crc, size = _HEADER.unpack_from(content)
    if zlib.crc32(view[_CHECKED:]) != crc:
        raise StorageError("the file of a listing is damaged")
    body = view[_HEADER.size :]
    if size:
        try:
            body = memoryview(zlib.decompress(body, bufsize=size))
        except zlib.error as error:
            raise StorageError("the file of a listing is damaged") from error
    return unpack_block(body)
