"""Where the answer to a batch goes: the contract that a TAR over HTTP and the frames of a read channel implement.

    put    an entry whose bytes are all there             begin, append ..., end    one whose bytes come in pieces
    mark   an entry that can't be read                    flush, finish             write what was appended

Entries come one after the other, each whole before the next. What is appended is copied by the time `flush` or `finish`
begins to wait, so that no flight waits for a slow client. What is put may be referred to until they return: it is
charged, as the body of a hit is.
"""

from typing import Final, Protocol

from forebay.core.buffers import Buffer
from forebay.protocol.batch.batch_request import BatchEntry
from forebay.protocol.batch.tar_entries import EntryMark

STEP: Final = 64 << 10
"""Bytes that are appended at once at most."""


class BatchOutput(Protocol):
    """See the module. `index`: the position of the entry in the batch. `last_modified`: as HTTP has it, or empty."""

    @property
    def is_full(self) -> bool:
        """Whether it is to be flushed before more is appended."""
        ...

    def put(self, index: int, entry: BatchEntry, last_modified: str, content: Buffer) -> None:
        """Appends a whole entry."""

    def mark(self, index: int, entry: BatchEntry, mark: EntryMark) -> None:
        """Appends what stands for an entry that can't be read."""

    def begin(self, index: int, entry: BatchEntry, last_modified: str, size: int) -> None:
        """Begins an entry of `size` bytes."""

    def append(self, piece: Buffer | bytes | bytearray) -> None:
        """Copies a piece of it."""

    def end(self) -> None:
        """Ends it: `size` bytes were appended."""

    async def flush(self) -> None:
        """Writes what was appended, if anything was. Raises ConnectionError when the client has left, or stalls."""

    async def finish(self) -> None:
        """Ends the response."""
