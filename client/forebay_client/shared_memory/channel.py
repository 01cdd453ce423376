"""One read channel to Forebay: a connection of its Unix socket, as forebay.protocol.channel_frames has it.

    read(head) ──> message: slots given back since the last one, the head ──> frame ──> head of the response, body
    send_batch(head, document) ──> message ──> receive_batch() ──> a frame of entries; ... ──> the last frame

A channel is used by one thread at a time; views of its ring may be dropped by any. It ends with the first failure
(ChannelBroken), because the next bytes can't be trusted. Views outlive it.

A fork copies views that the parent may give back later, and the slot would be written again under the child's eyes. So
a channel with views at a fork gives nothing back any more, and is not used again: `is_forked`.
"""

import mmap
import socket
import struct
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from typing import Final, NamedTuple

from forebay.protocol.channel_frames import (
    DECLINED,
    DROPPED,
    ENTRIES,
    ENTRY,
    IN_FILES,
    INLINE,
    INSIDE,
    LAST,
    MAX_FILES,
    MAX_PIECES,
    MAX_RELEASES,
    MEMORY,
    PIECE,
    RING,
    SLOT_UNIT,
    SWITCHED,
    UPGRADE,
    WITH_DESCRIPTOR,
    ChannelFrame,
    Piece,
    message,
    read_pieces,
)
from forebay_client.shared_memory.channel_input import TIMED_OUT, ChannelBroken, ChannelInput
from forebay_client.shared_memory.mapped_memory import MappedMemory, MappingError
from forebay_client.shared_memory.received_files import NotReadable, close_files, read_files
from forebay_client.shared_memory.received_head import ReceivedHead

_ENDS: Final = (ChannelBroken, KeyboardInterrupt)
"""Exceptions that end a channel, and are passed on as they are."""
_FAILURES: Final = (OSError, ValueError, MemoryError, OverflowError, MappingError)
"""Exceptions that end a channel while an answer is received: a length that nobody could send raises one of them."""

_MAX_NUMBER: Final = 0xFFFFFFFF
"""The largest number of a slot that is given back."""
_OPENING: Final = 2.0
"""Seconds until a channel is open: some 50 us, unless Forebay hangs."""


class ReadDeclined(Exception):
    """The read is one for plain HTTP; the channel is as it was."""


class BatchFrame(NamedTuple):
    """A part of the answer to a batch."""

    entries: Iterator[tuple[int, int, int, int, int]]
    """For each entry: position in the batch, status, bytes of its text, length, and position in the body."""
    texts: bytes
    body: memoryview
    is_last: bool


class ClientChannel:
    """See the module."""

    def __init__(self, path: str, timeout: float) -> None:
        """`timeout`: seconds without a byte. Raises ChannelBroken."""
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._limit(min(timeout, _OPENING))
        self._input = ChannelInput(self._socket)
        self.timeout = timeout
        self._ring: MappedMemory | None = None
        self._files: dict[int, MappedMemory] = {}
        self._released: deque[int] = deque()
        self._views = 0
        """Views of the ring that were made and not yet given back."""
        self.is_forked = False
        self.used_at = 0.0
        """The time of its last use, on the monotonic clock; kept by its pool."""
        try:
            self._socket.connect(path)
            self._socket.sendall(UPGRADE)
            self._switch()
            self._limit(timeout)
        except (BrokenPipeError, ConnectionResetError) as error:  # the server may close before it has read anything
            self.close()
            raise ChannelBroken("refused") from error
        except (OSError, ValueError) as error:  # ValueError: no path at all
            self.close()
            raise ChannelBroken("denied" if isinstance(error, PermissionError) else "unreachable") from error
        except BaseException:
            self.close()
            raise

    def _limit(self, timeout: float) -> None:
        """Sets the kernel's timeouts: Python's own cost a system call for each use."""
        limit = struct.pack("@ll", int(timeout), int(timeout % 1 * 1e6))
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)

    @property
    def has_views(self) -> bool:
        """Whether somebody has a view of the ring."""
        return self._views > len(self._released)

    @property
    def peer_user(self) -> int:
        """The user that Forebay runs as."""
        raw = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        return int(struct.unpack("3i", raw)[1])

    def read(self, head: bytes, target: memoryview | None = None) -> tuple[ReceivedHead, memoryview]:
        """The response to the request with this head, and its body; in `target` if that is large enough. Raises
        ChannelBroken, ReadDeclined."""
        try:
            self._send(message(head, self._taken_back()))
            return self._receive(target)
        except _ENDS:
            self.close()
            raise
        except _FAILURES as error:
            self.close()
            raise ChannelBroken(_reason(error)) from error

    def send_batch(self, head: bytes, document: bytes) -> None:
        """Sends a batch, whose frames come behind those of the batches before. Raises ChannelBroken."""
        try:
            self._send(message(head, self._taken_back(), document))
        except _ENDS:
            self.close()
            raise
        except OSError as error:
            self.close()
            raise ChannelBroken(_reason(error)) from error

    def receive_batch(self) -> BatchFrame:
        """The next frame of a batch. Raises ChannelBroken, ReadDeclined."""
        try:
            if slots := self._taken_back():
                self._send(message(b"", slots))
            return self._receive_entries()
        except _ENDS:
            self.close()
            raise
        except _FAILURES as error:
            self.close()
            raise ChannelBroken(_reason(error)) from error

    def _send(self, data: bytes) -> None:
        """Raises ChannelBroken where Forebay has ended the channel."""
        try:
            self._socket.sendall(data)
        except (BrokenPipeError, ConnectionResetError) as error:
            raise ChannelBroken("ended") from error

    def flush(self) -> None:
        """Gives back the slots of views that were dropped since the last read. Raises ChannelBroken, also if Forebay
        has ended the channel."""
        try:
            while slots := self._taken_back():
                self._socket.sendall(message(b"", slots))
            if self._socket.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) == b"":
                raise ConnectionResetError
        except BlockingIOError:
            return
        except OSError as error:
            self.close()
            raise ChannelBroken("ended") from error

    def close(self) -> None:
        """Ends the channel. Views stay good."""
        self._socket.close()
        self._ring = None
        self._files.clear()
        self._input.close()

    def __del__(self) -> None:
        with suppress(AttributeError):  # of one that Ctrl-C kept from being made
            self.close()

    def _taken_back(self) -> list[int]:
        """The slots to be given back in one message."""
        released, slots = self._released, list[int]()
        if self.is_forked:
            return slots
        while released and len(slots) < MAX_RELEASES:
            slots.append(released.popleft())
        self._views -= len(slots)
        return slots

    # Receiving

    def _switch(self) -> None:
        if self._input.receive(len(SWITCHED)) != SWITCHED:
            raise ChannelBroken("refused")

    def _receive_frame(self) -> ChannelFrame:
        while True:
            frame = self._input.frame()
            if frame.kind == DECLINED:
                raise ReadDeclined
            if frame.kind != DROPPED:
                return frame
            if self._files.pop(frame.position, None) is None:
                raise ChannelBroken("garbage")

    def _receive_entries(self) -> BatchFrame:
        frame = self._receive_frame()
        if frame.flags & IN_FILES:
            return self._receive_entry_in_files(frame)
        size = frame.pieces * ENTRY.size
        if frame.kind != ENTRIES or size > frame.head:
            raise ChannelBroken("garbage")
        head = self._input.receive(frame.head)
        if frame.flags & INSIDE:
            body = memoryview(bytearray(frame.length))
            self._input.receive_into(body)
            body = body.toreadonly()
        else:
            body = self._view_of_ring(frame)
        return BatchFrame(ENTRY.iter_unpack(head[:size]), head[size:], body, bool(frame.flags & LAST))

    def _receive_entry_in_files(self, frame: ChannelFrame) -> BatchFrame:
        if frame.kind != ENTRIES or frame.head != ENTRY.size or frame.pieces > MAX_PIECES:
            raise ChannelBroken("garbage")
        size = frame.pieces * PIECE.size
        raw = self._input.receive(size + ENTRY.size)
        if frame.pieces == 1 and not frame.flags & WITH_DESCRIPTOR:  # as most are
            body = self._view_of_known_file(raw, frame.length)
        else:
            body = self._view_of_files(read_pieces(raw, frame.pieces), frame.length)
        return BatchFrame(ENTRY.iter_unpack(raw[size:]), b"", body, bool(frame.flags & LAST))

    def _receive(self, target: memoryview | None) -> tuple[ReceivedHead, memoryview]:
        frame = self._receive_frame()
        if frame.kind == ENTRIES or frame.pieces > MAX_PIECES:
            raise ChannelBroken("garbage")
        if frame.kind == INLINE:
            return self._receive_inline(frame.length, target)
        if frame.kind == RING:
            head = ReceivedHead(self._input.receive(frame.head))
            body = self._view_of_ring(frame)
        elif frame.kind == MEMORY and frame.pieces == 1 and not frame.flags:  # as most are
            raw = self._input.receive(PIECE.size + frame.head)
            head = ReceivedHead(raw[PIECE.size :])
            body = self._view_of_known_file(raw, frame.length)
        else:
            pieces = read_pieces(self._input.receive(frame.pieces * PIECE.size), frame.pieces)
            head = ReceivedHead(self._input.receive(frame.head))
            if frame.kind == MEMORY:
                body = self._view_of_files(pieces, frame.length)
            else:
                body = self._read_segments(pieces, frame.length, target)
        if target is not None and body.obj is not target.obj and len(body) <= len(target):
            target[: len(body)] = body
            body = target[: len(body)]
        return head, body

    def _receive_inline(self, length: int, target: memoryview | None) -> tuple[ReceivedHead, memoryview]:
        """A head and a body of `length` bytes in all."""
        head = ReceivedHead(self._input.receive_head(length))
        size = length - len(head.raw)
        if size < 0:
            raise ChannelBroken("garbage")
        fits = target is not None and size <= len(target) and head.status < 300
        body = target[:size] if target is not None and fits else memoryview(bytearray(size))
        self._input.receive_into(body)
        return head, body

    def _view_of_ring(self, frame: ChannelFrame) -> memoryview:
        if frame.flags & WITH_DESCRIPTOR:
            self._ring = self._input.receive_file()
        ring = self._ring
        number, rest = divmod(frame.position, SLOT_UNIT)
        if ring is None or rest or number > _MAX_NUMBER or frame.position + frame.length > ring.size:
            raise ChannelBroken("garbage")
        self._views += 1
        return ring.slot(frame.position, frame.length, self._released, number)

    def _view_of_known_file(self, piece: bytes, length: int) -> memoryview:
        number, flags, size, position = PIECE.unpack_from(piece)
        file = self._files.get(number)
        if file is None or flags or size != length or position + length > file.size:
            raise ChannelBroken("garbage")
        return file.view(position, length)

    def _view_of_files(self, pieces: list[Piece], length: int) -> memoryview:
        for piece in pieces:
            if piece.flags & WITH_DESCRIPTOR:
                self._files[piece.file] = self._input.receive_file()
        if len(self._files) > MAX_FILES:
            raise ChannelBroken("garbage")
        try:
            parts = [(self._files[piece.file], piece.position, piece.length) for piece in pieces]
        except KeyError:
            raise ChannelBroken("garbage") from None
        if not parts or any(at + size > file.size for file, at, size in parts) or length != sum(p[2] for p in parts):
            raise ChannelBroken("garbage")
        if len(parts) == 1:
            file, position, _ = parts[0]
            return file.view(position, length)
        borders = [at for _, at, _ in parts] + [size for _, _, size in parts[:-1]]
        if not any(border % mmap.PAGESIZE for border in borders):
            return MappedMemory.of_pieces(parts).view(0, length)
        return memoryview(b"".join([file.view(at, size) for file, at, size in parts]))

    def _read_segments(self, pieces: list[Piece], length: int, target: memoryview | None) -> memoryview:
        """Copies the pieces: a file on disk is not mapped, as an error of the disk would be a signal."""
        count = max((piece.file for piece in pieces), default=-1) + 1
        descriptors: list[int] = []
        try:
            while len(descriptors) < count:
                descriptors.append(self._input.receive_descriptor())
            if length != sum(piece.length for piece in pieces):
                raise ChannelBroken("garbage")
            body = target[:length] if target is not None and length <= len(target) else memoryview(bytearray(length))
        except BaseException:
            close_files(descriptors)
            raise
        try:
            read_files(descriptors, pieces, body, self.timeout)
        except NotReadable as error:
            raise ChannelBroken(str(error)) from error
        return body


def _reason(error: BaseException) -> str:
    if isinstance(error, BlockingIOError | TimeoutError):
        return TIMED_OUT
    if isinstance(error, MappingError):
        return "unmappable"
    if isinstance(error, ConnectionResetError):  # by a close before all was read that this client had sent
        return "ended"
    return "broken" if isinstance(error, OSError) else "garbage"
