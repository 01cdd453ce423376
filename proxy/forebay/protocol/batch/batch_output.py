"""The output of a batch: the interface that a TAR over HTTP and the frames of a read channel implement.

    put    an entry whose bytes are all there             begin, append ..., end    one whose bytes come in pieces
    mark   an entry that can't be read                    flush, finish             write what was appended

Entries come one after the other, each complete before the next one begins. Appended bytes are copied before `flush` or
`finish` begins to wait, so that no flight waits for a slow client. Bytes given to `put` may be referred to until these
return: they are charged to memory, like the body of a hit.
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
        """Whether `flush` has to be called before more is appended."""
        ...

    def put(self, index: int, entry: BatchEntry, last_modified: str, content: Buffer) -> None:
        """Appends a whole entry."""

    def mark(self, index: int, entry: BatchEntry, mark: EntryMark) -> None:
        """Appends a mark in place of an entry that can't be read."""

    def begin(self, index: int, entry: BatchEntry, last_modified: str, size: int) -> None:
        """Begins an entry of `size` bytes."""

    def append(self, piece: Buffer | bytes | bytearray) -> None:
        """Copies a piece of it."""

    def end(self) -> None:
        """Ends it: `size` bytes were appended."""

    async def flush(self) -> None:
        """Writes the appended bytes, if there are any. Raises ConnectionError when the client has left, or stalls."""

    async def finish(self) -> None:
        """Ends the response."""
