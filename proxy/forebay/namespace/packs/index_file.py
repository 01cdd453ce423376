"""This worker's copy of the index of one pack: an anonymous file, and its table in memory.

    origin ──one GET──> anonymous file ──footer, tables: verified──> lookups, a block each (protocol.packs.pack_index)

A block is read from the page cache, or by a thread if it is not there. Each block has a checksum, which detects damage
at the origin, on the way and on the disk.

Members with a tombstone are treated as absent: one bit in memory for each.
"""

import asyncio
import os
import tempfile
import weakref
from collections import OrderedDict
from collections.abc import Iterable
from pathlib import Path
from typing import Final, Literal

from forebay.core.byte_ranges import Span
from forebay.core.errors import MalformedPack, OriginBroken, StorageError
from forebay.core.names import ObjectName
from forebay.origin.reads.object_reads import ObjectReads
from forebay.origin.reads.origin_read import OriginRead
from forebay.origin.reads.read_outcomes import ErrorResponse, ObjectOpened, ReadBody
from forebay.protocol.packs.index_block import MemberBlock
from forebay.protocol.packs.pack_index import PackIndex, footer_span, tables_span
from forebay.protocol.packs.packed_member import PackedMember, PackShard
from forebay.protocol.packs.tombstones import Tombstone

_COPIED: Final = 1 << 20
"""Bytes that are copied at once."""
_REMEMBERED: Final = 64
"""Blocks that are kept decoded, of some 30 KB each: neighbours are looked up one after the other."""


class IndexFile:
    """An open index. Made by `fetch_index`; the file is closed when nothing refers to it any more."""

    def __init__(self, name: ObjectName, etag: str, fd: int, index: PackIndex) -> None:
        self.name = name
        self.etag = etag
        self.index = index
        self._fd = fd
        self._decoded: OrderedDict[int, MemberBlock] = OrderedDict()
        self._hidden: dict[int, int] = {}
        """The deleted members of each block that has some, by the number of the block: a bit for each member."""
        self._unplaced: dict[int, list[Tombstone]] = {}
        """The tombstones for each block that could not be read, until it can be."""
        self.applied: set[str] = set()
        """The keys of the objects whose tombstones it knows."""
        weakref.finalize(self, os.close, fd)

    @property
    def shards(self) -> tuple[PackShard, ...]:
        """The shards, by the numbers that members name."""
        return self.index.description.shards

    def covers(self, key: str) -> bool:
        """Returns whether it may have a key."""
        return key.startswith(self.index.description.prefixes)

    async def find(self, key: str) -> PackedMember | None:
        """Returns the member of a key. Raises MalformedPack, StorageError."""
        member, is_hidden = await self.find_with_hidden(key)
        return None if is_hidden else member

    async def find_with_hidden(self, key: str) -> tuple[PackedMember | None, bool]:
        """Returns the member of a key, and whether a tombstone hides it. Raises MalformedPack, StorageError."""
        number = self.index.block_of(key) if self.covers(key) else None
        if number is None:
            return None, False
        block = await self.block(number)
        position = block.position_of(key)
        return (None, False) if position is None else (block.member(position), self.is_hidden(number, position))

    def find_nowait(self, key: str) -> PackedMember | Literal["unknown"] | None:
        """Returns the member of a key; "unknown" where its block has to be waited for. Raises MalformedPack."""
        number = self.index.block_of(key) if self.covers(key) else None
        if number is None:
            return None
        block = self.block_nowait(number)
        if block is None:
            return "unknown"
        position = block.position_of(key)
        return None if position is None or self.is_hidden(number, position) else block.member(position)

    def is_hidden(self, number: int, position: int) -> bool:
        """Returns whether a member has a tombstone. `position`: in the block `number`."""
        return bool(self._hidden) and self._hidden.get(number, 0) >> position & 1 == 1

    @property
    def members(self) -> int:
        """Members without a tombstone."""
        return len(self.index) - sum(map(int.bit_count, self._hidden.values()))

    async def hide(self, tombstones: Iterable[Tombstone]) -> None:
        """Hides those members of the index that `tombstones`, sorted by key, name. Raises StorageError."""
        for key, shard, offset in tombstones:
            number = self.index.block_of(key) if self.covers(key) else None
            if number is None:
                continue
            try:
                block = await self.block(number)
            except MalformedPack:  # no member of this block can be read, now
                self._unplaced.setdefault(number, []).append(Tombstone(key, shard, offset))
                continue
            self._hide_in(number, block, Tombstone(key, shard, offset))

    def _hide_in(self, number: int, block: MemberBlock, tombstone: Tombstone) -> None:
        position = block.position_of(tombstone.key)
        if position is None:
            return
        member = block.member(position)
        if (self.shards[member.shard].key, member.offset) == (tombstone.shard, tombstone.offset):
            self._hidden[number] = self._hidden.get(number, 0) | 1 << position

    async def block(self, number: int) -> MemberBlock:
        """Returns a block. Raises MalformedPack, StorageError."""
        block = self.block_nowait(number)
        if block is None:
            block = self._decode(number, await asyncio.to_thread(_read, self._fd, self.index.span(number)))
        return block

    def block_nowait(self, number: int) -> MemberBlock | None:
        """Returns a block that was decoded lately or is in the page cache; None: any other. Raises MalformedPack."""
        block = self._decoded.get(number)
        if block is None:
            content = _read_resident(self._fd, self.index.span(number))
            return self._decode(number, content) if content is not None else None
        self._decoded.move_to_end(number)
        return block

    def _decode(self, number: int, content: bytes | bytearray) -> MemberBlock:
        block = self._decoded[number] = self.index.decode(number, bytes(content))
        if len(self._decoded) > _REMEMBERED:
            self._decoded.popitem(last=False)
        for tombstone in self._unplaced.pop(number, ()):
            self._hide_in(number, block, tombstone)
        return block


async def fetch_index(reads: ObjectReads, name: ObjectName, directory: Path) -> IndexFile:
    """Copies an index from the origin and opens it. Raises MalformedPack with the reason, and OriginError, Throttled,
    S3Error, StorageError."""
    answer = await reads.open_read(name, OriginRead())
    if isinstance(answer, ErrorResponse):
        raise OriginBroken(f"the index {name.path} can't be read: status {answer.status}")
    if not isinstance(answer, ObjectOpened):
        raise OriginBroken(f"the index {name.path} can't be read")
    try:
        size, etag = answer.facts.size, answer.facts.version.etag
        fd = await asyncio.to_thread(_open_file, directory)
        try:
            await _copy(answer.body, fd)
            footer = await asyncio.to_thread(_read, fd, footer_span(size))
            tables = await asyncio.to_thread(_read, fd, tables_span(size, footer))
            index = await asyncio.to_thread(PackIndex, size, footer, tables)
        except BaseException:
            os.close(fd)
            raise
    finally:
        answer.body.close()
    return IndexFile(name, etag, fd, index)


async def _copy(body: ReadBody, fd: int) -> None:
    buffer = memoryview(bytearray(_COPIED))
    filled = 0
    while True:
        count = await body.read_into(buffer[filled:])
        filled += count
        if filled == len(buffer) or not count:
            await asyncio.to_thread(_write, fd, buffer[:filled])
            filled = 0
        if not count:
            return


def _open_file(directory: Path) -> int:
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=directory, buffering=0) as file:
            return os.dup(file.fileno())
    except OSError as error:
        raise StorageError(f"no file for the index of a pack: {error}") from error


def _write(fd: int, content: memoryview) -> None:
    try:
        if os.write(fd, content) != len(content):
            raise StorageError("the index of a pack can't be kept: no space is left")
    except OSError as error:
        raise StorageError(f"the index of a pack can't be kept: {error}") from error


def _read_resident(fd: int, span: Span) -> bytearray | None:
    """Returns the bytes, if the page cache has them all."""
    content = bytearray(span.length)
    try:
        count = os.preadv(fd, (content,), span.start, os.RWF_NOWAIT)
    except OSError:
        return None
    return content if count == span.length else None


def _read(fd: int, span: Span) -> bytes:
    try:
        content = os.pread(fd, span.length, span.start)
    except OSError as error:
        raise StorageError(f"the index of a pack can't be read: {error}") from error
    if len(content) != span.length:
        raise MalformedPack("the copy of the index is cut short")
    return content
