"""The answer to a batch over HTTP: a TAR, in pieces that are written together.

    small, or in pieces    joined, copied                              so that no flight waits for a slow client
    large, in memory       its buffer, where the transport can         what waits is at most FULL_SIZE bytes and one
    large, in files        the file, where the transport can           block: charged to the share of the buffers that
                                                                       batches have while there is room in it

Bytes that the kernel sends from a file occupy no buffer. Joined bytes wait for more of an entry that trickles in:
beyond UNCHARGED_SIZE they are charged, or written.

An entry in its turn may flush while what comes before it is being written, so flushes wait for each other.
"""

import asyncio
import sys
from typing import Final

from forebay.core.buffers import Buffer
from forebay.core.fair_semaphore import SemaphoreShare
from forebay.core.heads import HeaderPairs
from forebay.policy.grants import Principal
from forebay.protocol.batch.batch_request import BatchEntry
from forebay.protocol.batch.tar_entries import EntryMark, entry_header, mark_header
from forebay.protocol.dates import parse_http_date
from forebay.protocol.exchange import BodyPart, ChunkWriter, Reply
from forebay.protocol.tar_header import END_OF_TAR, padding
from forebay.request.batch.cached_entries import EntryInFiles
from forebay.request.batch.file_output import FileOutput

FULL_SIZE: Final = 256 << 10
"""Bytes that are gathered before they are written, at least."""
UNCHARGED_SIZE: Final = 16 << 10
"""Bytes that a batch may gather without a charge, as it may of each entry ahead (EntryReply)."""
COPIED_SIZE: Final = 16 << 10
"""Bytes of an entry up to which it is copied: a buffer more to write costs as much."""


class TarOutput(FileOutput):
    """Writes the response of one batch: a BatchOutput. The head leaves with the first bytes."""

    def __init__(
        self,
        reply: Reply,
        headers: HeaderPairs,
        share: SemaphoreShare,
        chunks: ChunkWriter | None,
        *,
        shows_index: bool,
    ) -> None:
        """`chunks`: writes to the reply's body without a copy; None: everything is joined. `shows_index`: whether
        entries say which of the batch they are, as they come in another order."""
        self._reply = reply
        self._headers = headers
        self._share = share
        self._chunks = chunks
        self._shows_index = shows_index
        self._flushing = asyncio.Lock()
        self._parts: list[BodyPart] = []
        self._joined = bytearray()
        """The joined bytes behind the parts."""
        self._parts_size = self._memory_size = 0
        """Bytes of all parts, and of those in memory."""
        self._copied = self._charged = 0
        """Bytes that were copied since the last write, and their charge."""
        self._size = 0
        """The size of the entry that was begun."""

    @property
    def has_started(self) -> bool:
        """Whether the head has left."""
        return self._reply.started

    @property
    def is_full(self) -> bool:
        """Whether it is to be flushed before more is appended."""
        is_bare = self._copied > UNCHARGED_SIZE and not self._charged
        return is_bare or self._parts_size + len(self._joined) >= FULL_SIZE

    @property
    def least_in_file(self) -> int | None:
        """See FileOutput. The kernel is as fast from the buffer of a block, and its client reads that faster."""
        return sys.maxsize if self._chunks is not None and self._chunks.has_files else None

    def put(self, index: int, entry: BatchEntry, last_modified: str, content: Buffer) -> None:
        """Appends a whole entry."""
        self.begin(index, entry, last_modified, len(content))
        if self._chunks is None or len(content) <= COPIED_SIZE:
            self.append(content)
        else:
            self._end_joined()
            self._parts.append(content)
            self._parts_size += len(content)
            self._memory_size += len(content)
        self.end()

    def put_in_files(self, index: int, entry: BatchEntry, found: EntryInFiles, _reader: Principal) -> bool:
        """See FileOutput. Always done: no more of a file is sent than the entry."""
        self.begin(index, entry, found.prepared.head.facts.last_modified, found.span.length)
        self._end_joined()
        self._parts += found.extents
        self._parts_size += found.span.length
        self.end()
        return True

    def mark(self, index: int, entry: BatchEntry, mark: EntryMark) -> None:
        """Appends a mark."""
        self._joined += mark_header(entry.entry_name, mark, index if self._shows_index else None)

    def begin(self, index: int, entry: BatchEntry, last_modified: str, size: int) -> None:
        """Appends the header of an entry."""
        modified_at = parse_http_date(last_modified) or 0
        self._joined += entry_header(entry.entry_name, size, modified_at, index if self._shows_index else None)
        self._size = size

    def append(self, piece: Buffer | bytes | bytearray) -> None:
        """Copies a piece."""
        self._joined += piece
        self._copied += len(piece)
        if self._copied > UNCHARGED_SIZE and not self._charged and self._share.try_acquire(FULL_SIZE):
            self._charged = FULL_SIZE

    def end(self) -> None:
        """Appends the zeros behind an entry."""
        self._joined += padding(self._size)

    def _end_joined(self) -> None:
        """Makes one piece of the joined ones."""
        if self._joined:
            self._parts.append(memoryview(self._joined))
            self._parts_size += len(self._joined)
            self._memory_size += len(self._joined)
            self._joined = bytearray()

    async def flush(self) -> None:
        """Writes the appended pieces, if any. Raises ConnectionError when the client has left, or stalls."""
        async with self._flushing:
            await self._write()

    async def _write(self) -> None:
        self._end_joined()
        if not self._parts:
            return
        parts, size, in_memory = self._parts, self._parts_size, self._memory_size
        self._parts, self._parts_size, self._memory_size = [], 0, 0
        self.close()
        if not self._reply.started:
            await self._reply.start(200, self._headers, None)
        charged = in_memory if self._share.try_acquire(in_memory) else 0
        try:
            if self._chunks is not None:
                await self._chunks.write(parts, size)
            else:
                for joined in parts:
                    assert not isinstance(joined, tuple)  # noqa: S101 # files are for chunks
                    await self._reply.write(joined)
        finally:
            self._share.release(charged)

    async def finish(self) -> None:
        """Ends the TAR, and the response."""
        self._joined += END_OF_TAR
        await self.flush()
        await self._reply.finish()

    def close(self) -> None:
        """Releases the charge of the copied bytes, which are about to be written, or dropped."""
        self._share.release(self._charged)
        self._copied = self._charged = 0
