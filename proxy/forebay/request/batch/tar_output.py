"""The answer to a batch over HTTP: a TAR, joined from small pieces and written to the client's reply.

Everything is copied, so that no block of a tier and no flight waits for a slow client: what waits is at most FULL_SIZE
bytes and one piece, charged to the share of the buffers that batches have while there is room in it.
"""

from typing import Final

from forebay.core.buffers import Buffer
from forebay.core.fair_semaphore import SemaphoreShare
from forebay.core.heads import HeaderPairs
from forebay.protocol.batch.batch_output import STEP
from forebay.protocol.batch.batch_request import BatchEntry
from forebay.protocol.batch.tar_entries import EntryMark, entry_header, mark_header
from forebay.protocol.dates import parse_http_date
from forebay.protocol.exchange import Reply
from forebay.protocol.tar_header import END_OF_TAR, padding

FULL_SIZE: Final = STEP
"""Bytes that are joined before they are written: as many as a transport takes before it waits for the client."""


class TarOutput:
    """Writes the response of one batch: a BatchOutput. The head leaves with the first bytes."""

    def __init__(self, reply: Reply, headers: HeaderPairs, share: SemaphoreShare, *, shows_index: bool) -> None:
        """`shows_index`: whether entries say which of the batch they are, as they come in another order."""
        self._reply = reply
        self._headers = headers
        self._share = share
        self._shows_index = shows_index
        self._joined = bytearray()
        self._size = 0
        """Of the entry that was begun."""

    @property
    def has_started(self) -> bool:
        """Whether the head has left."""
        return self._reply.started

    @property
    def is_full(self) -> bool:
        """Whether it is to be flushed before more is appended."""
        return len(self._joined) >= FULL_SIZE

    def put(self, index: int, entry: BatchEntry, last_modified: str, content: Buffer) -> None:
        """Appends a whole entry."""
        self.begin(index, entry, last_modified, len(content))
        self.append(content)
        self.end()

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

    def end(self) -> None:
        """Appends the zeros behind an entry."""
        self._joined += padding(self._size)

    async def flush(self) -> None:
        """Writes what was appended, if anything was. Raises ConnectionError when the client has left, or stalls."""
        if not self._joined:
            return
        joined, self._joined = self._joined, bytearray()
        if not self._reply.started:
            await self._reply.start(200, self._headers, None)
        charged = len(joined) if self._share.try_acquire(len(joined)) else 0
        try:
            await self._reply.write(memoryview(joined).toreadonly())
        finally:
            self._share.release(charged)

    async def finish(self) -> None:
        """Ends the TAR, and the response."""
        self._joined += END_OF_TAR
        await self.flush()
        await self._reply.finish()
