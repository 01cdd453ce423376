"""Sending: bodies that the kernel takes from files by itself (sendfile), past the transport.

The transport owns the connection; a Sender has another descriptor of the same socket, and writes to it only while the
transport has nothing to write. Until a body has left whole, nobody else may write and nothing may be read: that is for
the connection to see to (forebay.server.http.client_connection).

    send ─> its turn comes (departing) ─> all gone, the usual case ──────────────────────────────> left(waited=False)
                                      └─> goes on whenever the socket takes more (waits) ─> left(waited=True), or broken

What lies on a disk was right, and in the page cache, when the answer was made. Whoever takes it slowly may find it gone
from there, or changed: so it is looked at again, and read and checked by a thread if need be. Bytes that are not right
any more end the connection, as the head has promised so many.

https://man7.org/linux/man-pages/man2/sendfile.2.html
"""

import asyncio
import mmap
import os
import socket
from collections.abc import Callable, Sequence
from typing import Final, Protocol, TypeAlias

from forebay.server.http.send_queue import SendQueue
from forebay.storage.ssd.verified_extents import VerifiedExtent

_JOINED_SIZES: Final = range(256 << 10, 1 << 20)
"""Bytes of a body's first stretch with which it leaves together with its head."""
_LOOKAHEAD: Final = 1 << 20
"""Bytes of a file on the disk that are looked at at once, when a client has made us wait."""
_RESIDENT_SECONDS: Final = 0.1
"""Seconds for which what was found in the page cache is taken to be there: it was used lately, and leaves last."""
_UNKNOWN: Final = 0, 0.0
"""What was found when nothing was looked for."""


class OpenFile(Protocol):
    """An open file, for as long as somebody holds this."""

    fd: int


FileExtent: TypeAlias = tuple[OpenFile, int, int, VerifiedExtent | None]
"""Bytes of a file that are sent as they are: the file, from where, up to where, and what is known of them if they are
not in memory for certain. A plain tuple, as making one of a class of its own takes ten times as long."""


class SendfileWriter:
    """Of one connection. Ended by `close`."""

    def __init__(
        self,
        transport: asyncio.Transport,
        queue: SendQueue,
        blocked: Callable[[int], None],
        finished: Callable[[bool], None],
        failed: Callable[[bool], None],
    ) -> None:
        """`waits` is told of a body that did not leave at once, and of how many bytes it is; `left` and `broken` of
        every body's end, and whether it had to wait."""
        self._transport, self._queue = transport, queue
        self._loop = asyncio.get_running_loop()
        self._blocked, self._finished, self._failed = blocked, finished, failed
        self._socket = socket.socket(fileno=os.dup(transport.get_extra_info("socket").fileno()))
        self._socket.setblocking(False)
        self._fd = self._socket.fileno()
        self._head = b""
        self._body: Sequence[FileExtent] = ()
        self._index = self._offset = 0
        """Which of the body's stretches comes next, and how many of its bytes have gone."""
        self._resident = _UNKNOWN
        """Up to where the page cache has what comes next of its file, and until when that is believed."""
        self._is_verified = False
        """Whether a thread has just read and checked it: then it is sent, whatever the page cache says."""
        self._is_closed = False
        self.is_busy = self.is_blocked = False
        """Whether a body is being sent, and whether the client keeps it waiting."""
        self.sent = 0
        """Bytes that the kernel has taken so far, of all bodies."""

    @property
    def is_free(self) -> bool:
        """Whether a body may be sent: nobody's bytes are on their way that it could overtake."""
        return not self.is_busy and self._transport.get_write_buffer_size() == 0

    def send(self, head: bytes, body: Sequence[FileExtent]) -> None:
        """Send an answer. Only when `free`."""
        self._head, self._body, self._index = head, body, 0
        self.is_busy = True
        self._queue.add(self._start)

    def close(self) -> None:
        """Let go of the socket, whatever is left. Nobody is told."""
        self._is_closed = True
        self._reset()
        self._socket.close()

    def _start(self) -> None:
        if self._is_closed:
            return
        try:
            gone = self._send_more()
        except OSError:
            self._reset()
            self._failed(False)
            return
        if gone:
            self._reset()
            self._finished(False)
        else:
            self.is_blocked = True
            self._loop.add_writer(self._fd, self._writable)
            self._blocked(sum(stop - start for _, start, stop, _ in self._body))

    def _writable(self) -> None:
        try:
            if not self._send_more():
                return
        except OSError:
            self._reset()
            self._failed(True)
            return
        self._reset()
        self._finished(True)

    def _reset(self) -> None:
        """No body is being sent: let go of the last one's files."""
        if self.is_blocked:
            self._loop.remove_writer(self._fd)
        self.is_busy = self.is_blocked = False
        self._body = ()

    def _send_more(self) -> bool:
        """Have the kernel take what it takes now; whether that was all. Raises OSError if the client has gone."""
        body, fd = self._body, self._fd
        try:
            while head := self._head:
                sent = self._socket.send(head, _head_flag(body))
                self._head = head[sent:] if sent < len(head) else b""
            while self._index < len(body):
                file, start, stop, lying = body[self._index]
                start += self._offset
                count = stop - start
                if self.is_blocked and lying is not None:
                    count = self._sendable_until(lying, start, stop) - start
                    if not count:
                        return False
                sent = os.sendfile(fd, file.fd, start, count)
                self._is_verified = False
                if not sent:
                    raise OSError("the file is shorter than it was")
                self.sent += sent
                if start + sent == stop:
                    self._index += 1
                    self._offset = 0
                    self._resident = _UNKNOWN
                else:
                    self._offset += sent
        except BlockingIOError:
            return False
        return True

    def _sendable_until(self, lying: VerifiedExtent, start: int, stop: int) -> int:
        """Up to where these bytes can be sent without waiting for the disk; `start`: a thread reads them first."""
        ahead = min(stop, start + _LOOKAHEAD)
        if self._is_verified:
            return ahead
        found, until = self._resident
        if found > start and self._loop.time() < until and lying.is_unchanged():
            return min(stop, found)
        if lying.is_verified(start, ahead):
            self._resident = ahead, self._loop.time() + _RESIDENT_SECONDS
            return ahead
        self._verify(lying, start, ahead)
        return start

    def _verify(self, lying: VerifiedExtent, start: int, stop: int) -> None:
        """Have a thread read and check what is not known any more, and go on then."""
        loop = self._loop
        loop.remove_writer(self._fd)

        def fetched(done: asyncio.Future[bool]) -> None:
            if self._is_closed:
                return
            if done.cancelled() or done.exception() is not None or not done.result():
                self._reset()
                self._failed(True)
            else:
                self._is_verified = True
                self._resident = stop, loop.time() + _RESIDENT_SECONDS
                loop.add_writer(self._fd, self._writable)

        loop.run_in_executor(None, lying.verify_again, start, stop).add_done_callback(fetched)


def _head_flag(body: Sequence[FileExtent]) -> int:
    """The flag by which the kernel keeps a head back until the body comes, and sends both as one.

    That pays for large bodies that begin with a page, and that a socket takes at once. Elsewhere it takes longer than
    sending the head by itself: on loopback up to twice as long in all (docs/notes/performance-log.md).
    """
    _, start, stop, _ = body[0]
    return socket.MSG_MORE if stop - start in _JOINED_SIZES and start % mmap.PAGESIZE == 0 else 0
