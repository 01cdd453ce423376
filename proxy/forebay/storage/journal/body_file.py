"""A body file: one large body of the journal, with a checksum for each MiB.

    offset      size
         0         n  the bytes of the body
         n        8k  CRC-64/XZ of each MiB (the last may be shorter), big-endian

The record that refers to it has the id of the file, n, and the CRC-64/XZ of the checksums; a body without a record is
removed. A range is verified by itself, so a reader of some bytes reads a MiB at most.

    create ──> append, piece by piece ──> finish: synced, its name too ──> the record ──> release ──> remove_body

The writer locks the file until the record is durable, so that reclaim does not remove it.
"""

import errno
import struct
from collections.abc import Sequence
from contextlib import suppress
from typing import Final, NamedTuple

from forebay.core.buffers import Buffer
from forebay.core.byte_ranges import Span
from forebay.core.errors import StorageError
from forebay.protocol.body.crc64 import crc64
from forebay.protocol.body.crc_combination import combine_crc64
from forebay.storage.journal.journal_files import JournalFiles
from forebay.storage.journal.journal_layout import JournalLayout, new_id
from forebay.storage.slab_allocator import allocate_buffer, populate

SLICE: Final = 1 << 20
"""Bytes of a body that have a checksum of their own."""
REMOVED: Final = 1 << 20
"""Bytes of a body that are removed at a time."""
READ_STEP: Final = 128 << 10
"""Bytes of a body that are read at a time, for the same reason: the loop may be due, and has the same core."""
_WRITEBACK: Final = 4 << 20
"""Bytes that are written to the disk while the rest of the body still comes."""


class BodyRef(NamedTuple):
    """The reference of a record to its body."""

    id: str
    size: int
    """Bytes, without the checksums."""
    sums: int
    """CRC-64/XZ of the checksums."""


class BodyWriter:
    """Writes one body. Blocking, for one thread at a time. Every method raises OSError."""

    def __init__(self, files: JournalFiles, layout: JournalLayout) -> None:
        """Creates the file."""
        self._files = files
        self._layout = layout
        self.id = new_id()
        self.size = 0
        """Bytes so far."""
        self.crc = 0
        """CRC-64/XZ of the body, once it has ended: that of its slices, which costs each a tenth of another pass."""
        self._sums: list[int] = []
        self._sum = 0
        self._begun = 0
        """Bytes that the kernel writes to the disk, or has written."""
        self._fd: int | None = files.create(layout.body(self.id))
        files.lock(self._fd)

    def append(self, pieces: Sequence[Buffer | bytes]) -> None:
        """Adds the next bytes of the body."""
        self._files.write(self._descriptor(), pieces, self.size)
        for piece in pieces:
            self._add(memoryview(piece))
        if self.size - self._begun >= _WRITEBACK:
            self._files.start_writeback(self._descriptor(), self._begun, self.size - self._begun)
            self._begun = self.size

    def finish(self) -> BodyRef:
        """Ends the body, and returns its reference once all of it is durable."""
        fd = self._descriptor()
        if self.size % SLICE:
            self._sums.append(self._sum)
        sums = struct.pack(f">{len(self._sums)}Q", *self._sums)
        self._files.write(fd, [sums], self.size)
        self._files.sync(fd)
        self._files.sync_directory(self._layout.bodies)
        for number, each in enumerate(self._sums):
            self.crc = combine_crc64(self.crc, each, min(SLICE, self.size - number * SLICE))
        return BodyRef(self.id, self.size, crc64(sums))

    def release(self) -> None:
        """Unlocks the file: its record is durable. Idempotent."""
        if self._fd is not None:
            self._files.close(self._fd)
            self._fd = None

    def discard(self) -> None:
        """Removes a body that will have no record."""
        self._files.unlink(self._layout.body(self.id))
        self.release()

    def _descriptor(self) -> int:
        if self._fd is None:
            raise OSError(errno.EBADF, "the body is released")
        return self._fd

    def _add(self, view: memoryview) -> None:
        while view:
            count = min(len(view), SLICE - self.size % SLICE)
            self._sum = crc64(view[:count], self._sum)
            self.size += count
            view = view[count:]
            if self.size % SLICE == 0:
                self._sums.append(self._sum)
                self._sum = 0


def remove_body(files: JournalFiles, path: str) -> None:
    """Removes a body that is no longer needed. Blocking. Raises OSError: its name is there still.

    Its name first, then its bytes, some at a time: the kernel frees a file in one go, 0.1 ms for each MiB, and no other
    thread has the core meanwhile. Whoever reads it still finds it damaged, as if it had come too late."""
    fd = files.open(path, writable=True)
    try:
        files.unlink(path)
        with suppress(OSError):  # what is not cut off goes with the descriptor
            for size in range(files.size(fd) - REMOVED, 0, -REMOVED):
                files.truncate(fd, size)
                files.yield_core()
    finally:
        files.close(fd)


class BodyDamaged(StorageError):
    """Bytes of a body don't match their checksum, or the file is missing or too short."""


class BodyReader:
    """Reads one body, verified. Blocking. Raises OSError and BodyDamaged."""

    def __init__(self, files: JournalFiles, layout: JournalLayout, ref: BodyRef) -> None:
        """Opens the file and verifies the checksums themselves."""
        self._files = files
        self._ref = ref
        try:
            self._fd = files.open(layout.body(ref.id))
        except FileNotFoundError:
            raise BodyDamaged(f"the body {ref.id} is missing") from None
        count = -(-ref.size // SLICE)
        sums = files.read(self._fd, 8 * count, ref.size)
        if len(sums) < 8 * count or crc64(sums) != ref.sums:
            files.close(self._fd)
            raise BodyDamaged(f"the checksums of the body {ref.id} are damaged")
        self._sums = struct.unpack(f">{count}Q", sums)

    def read(self, within: Span) -> memoryview:
        """Returns bytes of the body; whole slices are read and verified for it."""
        first, last = within.start // SLICE, -(-within.stop // SLICE)
        start, stop = first * SLICE, min(last * SLICE, self._ref.size)
        content = allocate_buffer(stop - start, populated=READ_STEP)
        for number in range(first, last):
            offset = number * SLICE - start
            self._read_slice(number, content, offset, min(offset + SLICE, stop - start))
        return content[within.start - start : within.stop - start].toreadonly()

    def _read_slice(self, number: int, content: memoryview, offset: int, end: int) -> None:
        """Fills `content` from `offset` to `end` with a slice of the body. The buffer has anything in it before."""
        checksum, start = 0, number * SLICE - offset
        for at in range(offset, end, READ_STEP):
            step = content[at : min(at + READ_STEP, end)]
            populate(content, at, briefly=True)
            if self._files.read_into(self._fd, step, start + at) < len(step):
                break
            checksum = crc64(step, checksum)
            self._files.yield_core()
        else:
            if checksum == self._sums[number]:
                return
        raise BodyDamaged(f"the body {self._ref.id} is damaged in its MiB {number}")

    def close(self) -> None:
        """Closes the file. Readers of what was returned are not affected."""
        self._files.close(self._fd)
