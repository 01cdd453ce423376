"""The input of a read channel: bytes, and the descriptors that come with them.

Descriptors are kept in the order in which they came until somebody takes them; `close` closes those that nobody took.
There are never more than those of two frames: the front of the next frame may be received with the end of one.
"""

import array
import os
import socket
from collections import deque
from typing import Final

from forebay.protocol.channel_frames import FRAME, MAX_PIECES, ChannelFrame, read_frame
from forebay_client.shared_memory.mapped_memory import MappedMemory
from forebay_client.shared_memory.received_files import close_files

BUFFER: Final = 64 << 10
"""Bytes of the longest part that is received as a whole."""
_RIGHTS: Final = socket.CMSG_SPACE(4 * MAX_PIECES) if hasattr(socket, "CMSG_SPACE") else 0
# Plain numbers: as flags of an enumeration they cost more than the system call's own work.
_CLOSE_ON_EXEC: Final = int(getattr(socket, "MSG_CMSG_CLOEXEC", 0))
_TRUNCATED: Final = int(getattr(socket, "MSG_CTRUNC", 0))


TIMED_OUT: Final = "timeout"
"""Why a channel is broken on which nothing came in time."""


class ChannelBroken(Exception):
    """The channel can't be used any more. The argument is the reason, in a word."""


class ChannelInput:
    """See the module. Every call raises ChannelBroken, and OSError of the socket."""

    __slots__ = ("_buffer", "_descriptors", "_end", "_socket", "_start", "_whole")

    def __init__(self, connected: socket.socket) -> None:
        self._socket = connected
        self._buffer = bytearray(BUFFER)
        self._whole = memoryview(self._buffer)
        self._start = self._end = 0
        self._descriptors: deque[int] = deque()

    def frame(self) -> ChannelFrame:
        """The next frame. Raises ValueError for an unknown kind."""
        if self._end - self._start < FRAME.size:
            self._fill(FRAME.size)
        frame = read_frame(self._buffer, self._start)
        self._start += FRAME.size
        return frame

    def receive(self, size: int) -> bytes:
        """The next `size` bytes."""
        if size > BUFFER:
            raise ChannelBroken("garbage")
        if self._end - self._start < size:
            self._fill(size)
        start = self._start
        self._start = end = start + size
        return self._whole[start:end].tobytes()

    def receive_head(self, most: int) -> bytes:
        """The head of a response, of at most `most` bytes."""
        while (at := self._buffer.find(b"\r\n\r\n", self._start, self._end)) < 0:
            if self._end - self._start >= min(most, BUFFER):
                raise ChannelBroken("garbage")
            self._fill(self._end - self._start + 1)
        return self.receive(at + 4 - self._start)

    def receive_into(self, body: memoryview) -> None:
        """Receives as many bytes as `body` has."""
        size = len(body)
        have = min(size, self._end - self._start)
        body[:have] = self._buffer[self._start : self._start + have]
        self._start += have
        while have < size:
            count = self._socket.recv_into(body[have:])
            if not count:
                raise ChannelBroken("broken")
            have += count

    def receive_file(self) -> MappedMemory:
        """The memory file that came next. Raises MappingError."""
        fd = self.receive_descriptor()
        try:
            mapped = MappedMemory.of_file(fd)
        except BaseException:
            close_files([fd])  # it may be of any file system
            raise
        os.close(fd)
        return mapped

    def receive_descriptor(self) -> int:
        """The descriptor that came next; the caller closes it."""
        if not self._descriptors:
            raise ChannelBroken("garbage")
        return self._descriptors.popleft()

    def close(self) -> None:
        """Closes the descriptors that nobody took."""
        while self._descriptors:
            close_files([self._descriptors.popleft()])

    def _fill(self, size: int) -> None:
        """Receives until `size` bytes are in the buffer. Raises ChannelBroken."""
        while self._end - self._start < size:
            if self._start == self._end:
                self._start = self._end = 0
            elif self._start:
                self._buffer[: self._end - self._start] = self._buffer[self._start : self._end]
                self._start, self._end = 0, self._end - self._start
            free = self._whole if not self._end else self._whole[self._end :]
            count, rights, flags, _ = self._socket.recvmsg_into([free], _RIGHTS, _CLOSE_ON_EXEC)
            if rights:
                for _, _, numbers in rights:
                    self._descriptors.extend(array.array("i", numbers[: len(numbers) // 4 * 4]))
                if len(self._descriptors) > 2 * MAX_PIECES:
                    raise ChannelBroken("garbage")
            if not count:
                raise ChannelBroken("ended")
            if flags & _TRUNCATED:
                raise ChannelBroken("descriptors")
            self._end += count
