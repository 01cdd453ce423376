"""The answer to a batch of a read channel: runs of entries, packed one behind the other into a slot of the ring.

    put ... put ──> full, or flushed ──> one slot, one copy ──> one frame         no slot: behind the frame
    begin(large) ── append ... end ────> a slot of its own, as the bytes come     likewise
    put_in_files ──────────────────────> a frame that says where they are         no copy

One frame of a run is some hundred microseconds of copying, one write here and one read there, which all its entries
share. The client gives the slot back when nothing refers to any entry in it.

A batch that is refused before its first frame is declined: the client sends it over HTTP, and gets the error there.
"""

import time
from typing import Final, Protocol

from forebay.core.buffers import Buffer
from forebay.core.heads import HeaderPairs
from forebay.core.request_record import RequestRecord
from forebay.policy.grants import Principal
from forebay.protocol.batch.batch_request import BatchEntry
from forebay.protocol.batch.tar_entries import EntryMark
from forebay.protocol.channel_frames import (
    DECLINED,
    ENTRIES,
    ENTRY,
    ENTRY_UNIT,
    FRAME,
    INSIDE,
    LAST,
    MAX_ENTRIES,
    MAX_TEXT,
)
from forebay.request.batch.cached_entries import EntryInFiles
from forebay.request.batch.file_output import FileOutput
from forebay.server.shared_memory.channel_files import ChannelFiles
from forebay.server.shared_memory.channel_reply import RingConnection
from forebay.server.shared_memory.client_memory import ReadForm
from forebay.server.shared_memory.client_ring import ClientRing
from forebay.storage.memory.shared_blocks import MIN_SHARED_BYTES

RUN_SIZE: Final = 256 << 10
"""Bytes of a run from which on it is written."""
_LARGE: Final = 64 << 10
"""Bytes from which on an entry that comes in pieces has a slot of its own."""
_MAX_TEXTS: Final = 16
"""Texts of one frame: 32 KiB at most."""
_MAX_FRAMES: Final = 16
"""Entries in files that are written at once."""
_OK: Final = 200


class BatchConnection(RingConnection, Protocol):
    """The part of a channel that the answer to a batch needs."""

    def write(self, *pieces: Buffer | bytes) -> None:
        """Writes, if the client is still there."""

    def announce_slot(self, kind: int, flags: int, count: int, head: bytes, position: int, length: int) -> None:
        """Sends a frame about a slot and the bytes behind it. Raises ConnectionError."""

    def abort(self) -> None:
        """Breaks the connection."""

    def count(self, form: ReadForm) -> None:
        """Counts an answer."""


class ChannelBatch(FileOutput):
    """Writes the answer to one batch: a BatchOutput."""

    def __init__(self, channel: BatchConnection, files: ChannelFiles, record: RequestRecord) -> None:
        self._channel, self._files, self._record = channel, files, record
        self._policy = files.policy
        self._frames: list[bytes] = []
        """The frames of entries in files, behind all that was written. While there are any the run is empty."""
        self._entries: list[bytes] = []
        self._texts: list[bytes] = []
        self._pieces: list[tuple[int, Buffer]] = []
        """The pieces to copy, by their position in the run."""
        self._end = 0
        """Bytes of the run."""
        self._index = self._size = 0
        """The index and the size of the entry that was begun."""
        self._joined: bytearray | None = None
        """The bytes of that entry, where it becomes part of a run."""
        self._slot: tuple[ClientRing, int] | None = None
        """The slot for its bytes else; None: they go through the socket."""
        self._done = 0
        """The number of its bytes that have come."""

    @property
    def is_full(self) -> bool:
        """Whether `flush` has to be called before more is appended."""
        is_full = self._end >= RUN_SIZE or len(self._entries) >= MAX_ENTRIES or len(self._texts) >= _MAX_TEXTS
        return is_full or len(self._frames) >= _MAX_FRAMES or self._channel.writing_paused

    def put(self, index: int, _entry: BatchEntry, _last_modified: str, content: Buffer) -> None:
        """Appends an entry whose bytes are all there."""
        if self._frames:
            self._write_frames()
        at, size = self._end, len(content)
        self._entries.append(ENTRY.pack(index, _OK, 0, size, at))
        self._pieces.append((at, content))
        self._end = (at + size + ENTRY_UNIT - 1) & -ENTRY_UNIT

    def mark(self, index: int, _entry: BatchEntry, mark: EntryMark) -> None:
        """Appends a mark in place of an entry that can't be read."""
        self._write_frames()
        text = f"{mark.code}\n{self._record.request_id}\n{mark.message}".encode()[:MAX_TEXT]
        self._entries.append(ENTRY.pack(index, mark.status, len(text), 0, 0))
        self._texts.append(text)

    @property
    def least_in_file(self) -> int:
        """See FileOutput."""
        return MIN_SHARED_BYTES

    def put_in_files(self, index: int, _entry: BatchEntry, found: EntryInFiles, reader: Principal) -> bool:
        """See FileOutput. Raises ConnectionError."""
        if self._files.policy is not self._policy:
            return False  # the reader was admitted under another one
        extents, size = found.extents, found.span.length
        entry = ENTRY.pack(index, _OK, 0, size, 0)
        frame = self._files.known_entry(entry, extents, size)
        self._write_run(0)
        if frame is not None:
            self._frames.append(frame)
            return True
        self._write_frames()
        if not self._files.send_entry(reader, entry, extents, size):
            return False
        self._note_start()
        return True

    def begin(self, index: int, _entry: BatchEntry, _last_modified: str, size: int) -> None:
        """Begins an entry. Raises ConnectionError."""
        self._index, self._size, self._done = index, size, 0
        if size < _LARGE:
            self._joined = bytearray()
            return
        self._write_pending()
        self._slot = self._channel.allocate(size)
        if self._slot is None:
            self._note_start()
            self._channel.write(FRAME.pack(ENTRIES, INSIDE, 1, ENTRY.size, 0, size) + self._entry_begun())

    def append(self, piece: Buffer | bytes | bytearray) -> None:
        """Copies a piece of it. Raises ConnectionError."""
        if self._joined is not None:
            self._joined += piece
        elif self._slot is not None:
            ring, position = self._slot
            ring.copy(position + self._done, (memoryview(piece),))
        elif piece:
            self._channel.write(bytes(piece))
        self._done += len(piece)

    def end(self) -> None:
        """Ends it. Raises ConnectionError."""
        joined, slot = self._joined, self._slot
        self._joined = self._slot = None
        if joined is not None:
            self.put(self._index, BatchEntry(""), "", memoryview(joined))
        elif slot is not None:
            self._note_start()
            self._channel.announce_slot(ENTRIES, 0, 1, self._entry_begun(), slot[1], self._size)

    async def flush(self) -> None:
        """Writes the run, and waits for a client that does not read. Raises ConnectionError."""
        self._write_pending()
        if self._channel.writing_paused:
            await self._channel.drain()

    async def finish(self) -> None:
        """Ends the answer. Raises ConnectionError."""
        self._write_frames()
        self._write_run(LAST)
        self._channel.count("batch")
        if self._channel.writing_paused:
            await self._channel.drain()

    @property
    def has_started(self) -> bool:
        """Whether a frame has left."""
        return bool(self._record.status)

    def _entry_begun(self) -> bytes:
        return ENTRY.pack(self._index, _OK, 0, self._size, 0)

    def _note_start(self) -> None:
        if not self._record.status:
            self._record.status, self._record.first_byte = _OK, time.monotonic()

    def _write_pending(self) -> None:
        """Writes the pending frames, or the run: only one of the two exists."""
        self._write_frames()
        self._write_run(0)

    def _write_frames(self) -> None:
        if self._frames:
            frames, self._frames = self._frames, []
            self._note_start()
            self._channel.write(b"".join(frames))

    def _write_run(self, flags: int) -> None:
        """Copies the run and announces it; with LAST also an empty one."""
        if not self._entries and not flags:
            return
        head, count = b"".join((*self._entries, *self._texts)), len(self._entries)
        size, pieces = self._end, self._pieces
        self._entries, self._texts, self._pieces, self._end = [], [], [], 0
        self._note_start()
        slot = self._channel.allocate(size) if size else None
        if slot is not None:
            ring, start = slot
            view = ring.memory.view
            for at, piece in pieces:
                first = start + at
                view[first : first + len(piece)] = piece
            self._channel.announce_slot(ENTRIES, flags, count, head, start, size)
            return
        frame = FRAME.pack(ENTRIES, flags | INSIDE, count, len(head), 0, size) + head
        if not size:
            self._channel.write(frame)
            return
        body = bytearray(size)
        for at, piece in pieces:
            body[at : at + len(piece)] = piece
        self._channel.write(frame, memoryview(body))


class BatchReply:
    """The reply to a batch's request that is answered by an error instead of entries. Implements
    forebay.protocol.exchange.ObjectReply."""

    is_blocked = False

    def __init__(self, channel: BatchConnection, record: RequestRecord, batch: ChannelBatch) -> None:
        self._channel, self._record, self._batch = channel, record, batch
        self.aborted = False

    @property
    def started(self) -> bool:
        """Whether an answer has begun."""
        return self._batch.has_started

    async def start(self, status: int, _headers: HeaderPairs, _length: int | None) -> None:
        """Declines the batch, with any status."""
        self._record.status = status
        self._channel.count("declined")
        self._channel.write(FRAME.pack(DECLINED, 0, 0, 0, 0, 0))

    async def write(self, buffer: Buffer | bytes) -> None:
        """Drops the bytes: the client gets the error over HTTP."""

    def accept(self, piece: Buffer) -> int:
        """Drops the bytes, as `write` does. Returns their number."""
        return len(piece)

    async def drain(self) -> None:
        """Does nothing: there is nothing to wait for."""

    async def finish(self) -> None:
        """Does nothing: there is nothing to end."""

    def abort(self) -> None:
        """Breaks the connection, so that the client takes no part of the answer for the whole."""
        self.aborted = True
        self._channel.abort()
