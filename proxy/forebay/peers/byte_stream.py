"""The byte stream of a connection between two workers: received bytes go straight into the reader's buffer.

    read_exactly   ──> the connection's own buffer: heads of frames and documents, several of them for one system call
    read_into      ──> the reader's buffer, as soon as the own one is empty: the kernel copies a body to where it stays

At most one reader waits at a time. Without one, bytes that fill the own buffer pause the transport. Whoever cancels a
read closes the connection: what was received by then is lost. `wait_readable` takes nothing, and may be cancelled.
"""

import asyncio
import socket
from collections import deque
from collections.abc import Callable
from typing import Final, cast

from forebay.core.buffers import Buffer

_BUFFER_SIZE: Final = 16 * 1024
_SEND_BUFFER: Final = 1 << 20
"""Bytes that the kernel is asked to take at once; net.core.wmem_max bounds them."""
HIGH_WATER: Final = 512 * 1024
"""Bytes that wait for the other end, from which on `drain` waits."""


class ByteStream(asyncio.BufferedProtocol):
    """One end of a connection. Made inside the running loop."""

    transport: asyncio.Transport
    """From the connection on."""

    def __init__(self, on_connected: Callable[["ByteStream"], None] | None = None) -> None:
        self._loop = asyncio.get_running_loop()
        self._on_connected = on_connected
        self._buffer = memoryview(bytearray(_BUFFER_SIZE))
        self._start = self._stop = 0
        """The start and the end of the unread bytes in the buffer."""
        self._target: memoryview | None = None
        self._reader: asyncio.Future[int] | None = None
        self._is_reading = True
        self._is_full = False
        self._writers: deque[asyncio.Future[None]] = deque()
        self.has_ended = False
        """Whether nothing more will be received."""

    # The transport's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The transport is connected."""
        self.transport = cast("asyncio.Transport", transport)
        self.transport.set_write_buffer_limits(HIGH_WATER)
        transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER)
        if self._on_connected is not None:
            self._on_connected(self)

    def get_buffer(self, sizehint: int) -> memoryview:
        """The reader's buffer if it waits for a body, else the free part of the own one."""
        return self._target if self._target is not None else self._buffer[self._stop :]

    def buffer_updated(self, nbytes: int) -> None:
        """`nbytes` were received."""
        if self._target is not None:
            self._target = None
        else:
            self._stop += nbytes
            if self._stop == _BUFFER_SIZE:
                self._pause()
        self._wake(nbytes)

    def eof_received(self) -> None:
        """The other end sends nothing more: the transport closes."""
        self.has_ended = True
        self._wake(0)

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection has ended."""
        self.has_ended = True
        self._wake(0)
        self._end_drains()

    def pause_writing(self) -> None:
        """The other end accepts nothing for now."""
        self._is_full = True

    def resume_writing(self) -> None:
        """The other end accepts bytes again."""
        self._is_full = False
        self._end_drains()

    def _end_drains(self) -> None:
        while self._writers:
            writer = self._writers.popleft()
            if not writer.done():
                writer.set_result(None)

    def _pause(self) -> None:
        if self._is_reading:
            self._is_reading = False
            self.transport.pause_reading()

    def _resume(self) -> None:
        if not self._is_reading and not self.transport.is_closing():
            self._is_reading = True
            self.transport.resume_reading()

    def _wake(self, count: int) -> None:
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(count)

    # The user's side

    async def read_exactly(self, count: int) -> bytes | bytearray:
        """Returns the next `count` bytes. Raises ConnectionResetError if the connection ends before."""
        if count > _BUFFER_SIZE:
            return await self._read_long(count)
        while self._stop - self._start < count:
            if self._start + count > _BUFFER_SIZE:
                kept = bytes(self._buffer[self._start : self._stop])
                self._buffer[: len(kept)] = kept
                self._start, self._stop = 0, len(kept)
            if not await self._received():
                raise ConnectionResetError("it was closed")
        return bytes(self._consume(count))

    async def _read_long(self, count: int) -> bytearray:
        whole, filled = bytearray(count), 0
        with memoryview(whole) as target:
            while filled < count:
                filled += await self.read_into(target[filled:])
        return whole

    async def read_into(self, target: memoryview) -> int:
        """Receives at least one byte into the front of `target`. Returns how many. Raises ConnectionResetError if the
        connection ends before."""
        if self._stop > self._start:
            found = self._consume(min(len(target), self._stop - self._start))
            target[: len(found)] = found
            return len(found)
        self._target = target
        try:
            received = await self._received()
        finally:
            self._target = None
        if not received:
            raise ConnectionResetError("it was closed")
        return received

    async def wait_readable(self) -> bool:
        """Waits until there are bytes to read, or the end. Returns whether there are bytes. May be cancelled."""
        return self._stop > self._start or bool(await self._received())

    def _consume(self, count: int) -> memoryview:
        """Returns the next bytes of the buffer, which are good until the next wait."""
        found = self._buffer[self._start : self._start + count]
        self._start += count
        if self._start == self._stop:
            self._start = self._stop = 0
        return found

    async def _received(self) -> int:
        """Waits for bytes. Returns how many have come; 0 at the end."""
        if self.has_ended:
            return 0
        reader: asyncio.Future[int] = self._loop.create_future()
        self._reader = reader
        self._resume()
        try:
            return await reader
        finally:
            self._reader = None

    def write(self, *pieces: Buffer | bytes) -> None:
        """Writes to the send buffer. Raises ConnectionResetError."""
        if self.transport.is_closing():
            raise ConnectionResetError("it was closed")
        self.transport.writelines(pieces)

    async def drain(self) -> None:
        """Waits until the other end has accepted so much that more may be written. Raises ConnectionResetError."""
        if self._is_full and not self.transport.is_closing():
            writer: asyncio.Future[None] = self._loop.create_future()
            self._writers.append(writer)
            await writer
        if self.transport.is_closing():
            raise ConnectionResetError("it was closed")
