"""Bodies that the kernel sends from files by itself (sendfile), past the transport.

The transport owns the connection; a `SendfileWriter` has another descriptor of the same socket, and writes to it only
while the transport has nothing to write. Until a body has left whole, nothing else may be written or read there: the
connection sees to that (forebay.server.http.client_connection).

    send ─> its turn in the queue ─┬─> all sent, the usual case ──────────────────────────> finished(was_blocked=False)
                                   └─> blocked: resumes whenever the socket accepts more ─> finished(was_blocked=True)
                                                                                            or failed

All bodies of one loop leave in turns (`SendQueue`), once the requests that arrived together have been answered:

    request ─ answered ┐
    request ─ answered ┼─> sent, sent, sent
    request ─ answered ┘

Answering runs Python, sending runs the kernel, and either is faster right after itself (caches). And a waiting client
is woken once: when it has read the first response, the next one is there.

Bytes on a disk were verified, and in the page cache, when the response was made. While a slow client accepts them they
may leave the cache, or change: so they are checked again, and read and verified by a thread if need be. Bytes that are
wrong by then end the connection, as the head has announced their number.

https://man7.org/linux/man-pages/man2/sendfile.2.html
"""

import asyncio
import mmap
import os
import socket
from collections import deque
from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Final

from forebay.server.fastpath.lane_answer import FileExtent
from forebay.storage.memory.promotion import SENT_HITS
from forebay.storage.ssd.segments.verified_extents import VerifiedExtent

TURN_SECONDS: Final = 0.001
"""Seconds of sending after which the loop looks at its sockets again."""
_JOINED_SIZES: Final = range(256 << 10, 1 << 20)
"""Sizes, in bytes, of a body's first extent with which it leaves together with its head."""
_LOOKAHEAD: Final = 1 << 20
"""Bytes of a file on disk whose residency is checked at once, when the client has blocked us."""
_RESIDENT_SECONDS: Final = 0.1
"""Seconds for which bytes seen in the page cache are taken to be there: they were used just now, and leave last."""
_UNKNOWN: Final = 0, 0.0


class SendQueue:
    """The bodies of one event loop that wait for their turn. `clock`: seconds."""

    def __init__(self, loop: asyncio.AbstractEventLoop, clock: Callable[[], float] = perf_counter) -> None:
        self._loop, self._clock = loop, clock
        self._waiting: deque[Callable[[], None]] = deque()
        self._is_scheduled = False

    def add(self, send: Callable[[], None]) -> None:
        """Schedules `send`, after the earlier ones."""
        self._waiting.append(send)
        if not self._is_scheduled:
            self._is_scheduled = True
            self._loop.call_soon(self._run)

    def _run(self) -> None:
        until = self._clock() + TURN_SECONDS
        try:
            for _ in range(len(self._waiting)):
                self._waiting.popleft()()
                if self._clock() >= until:
                    break
        finally:
            self._is_scheduled = bool(self._waiting)
            if self._is_scheduled:
                self._loop.call_soon(self._run)


class SendfileWriter:
    """Sends the bodies of one connection, one at a time. Ended by `close`."""

    unpromoted_hits = SENT_HITS

    def __init__(
        self,
        transport: asyncio.Transport,
        queue: SendQueue,
        blocked: Callable[[int], None],
        finished: Callable[[bool], None],
        failed: Callable[[bool], None],
    ) -> None:
        """`blocked`: called with the size of a body that did not leave at once. `finished`, `failed`: called at the end
        of every body, with whether it was blocked."""
        self._transport, self._queue = transport, queue
        self._loop = asyncio.get_running_loop()
        self._blocked, self._finished, self._failed = blocked, finished, failed
        self._socket = socket.socket(fileno=os.dup(transport.get_extra_info("socket").fileno()))
        self._socket.setblocking(False)
        self._fd = self._socket.fileno()
        self._head = b""
        self._body: Sequence[FileExtent] = ()
        self._index = self._offset = 0
        """The extent that is sent next, and how many of its bytes have left."""
        self._resident = _UNKNOWN
        """Up to where the page cache has the current extent, and until when that is believed."""
        self._is_verified = False
        """Whether a thread has just read and verified the next bytes: they are sent, resident or not."""
        self._is_closed = False
        self.is_busy = self.is_blocked = False
        """Whether a body is being sent, and whether it waits for the client."""
        self.sent = 0
        """Bytes that the kernel has accepted so far, of all bodies."""

    @property
    def is_free(self) -> bool:
        """Whether a body may be sent: no bytes are queued that it could overtake."""
        return not self.is_busy and self._transport.get_write_buffer_size() == 0

    def send(self, head: bytes, body: Sequence[FileExtent]) -> None:
        """Sends a response. Only when `is_free`."""
        self._head, self._body, self._index = head, body, 0
        self.is_busy = True
        self._queue.add(self._start)

    def close(self) -> None:
        """Closes the descriptor, with bytes left to send or without. No callback is called."""
        self._is_closed = True
        self._reset()
        self._socket.close()

    def _start(self) -> None:
        if self._is_closed:
            return
        try:
            is_sent = self._send_more()
        except OSError:
            self._reset()
            self._failed(False)
            return
        if is_sent:
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
        """Drops the body, and with it the files."""
        if self.is_blocked:
            self._loop.remove_writer(self._fd)
        self.is_busy = self.is_blocked = False
        self._body = ()

    def _send_more(self) -> bool:
        """Sends as much as the socket accepts now. Returns whether all was sent. Raises OSError if the client has
        left."""
        body, fd = self._body, self._fd
        try:
            while head := self._head:
                sent = self._socket.send(head, _head_flag(body))
                self._head = head[sent:] if sent < len(head) else b""
            while self._index < len(body):
                file, start, stop, extent = body[self._index]
                start += self._offset
                count = stop - start
                if self.is_blocked and extent is not None:
                    count = self._sendable_until(extent, start, stop) - start
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

    def _sendable_until(self, extent: VerifiedExtent, start: int, stop: int) -> int:
        """Up to where these bytes can be sent without waiting for the disk; `start`: a thread must read them first."""
        ahead = min(stop, start + _LOOKAHEAD)
        if self._is_verified:
            return ahead
        resident, until = self._resident
        if resident > start and self._loop.time() < until and extent.is_unchanged():
            return min(stop, resident)
        if extent.is_verified(start, ahead):
            self._resident = ahead, self._loop.time() + _RESIDENT_SECONDS
            return ahead
        self._verify(extent, start, ahead)
        return start

    def _verify(self, extent: VerifiedExtent, start: int, stop: int) -> None:
        """Has a thread read these bytes and verify them, and resumes then."""
        loop = self._loop
        loop.remove_writer(self._fd)

        def verified(done: asyncio.Future[bool]) -> None:
            if self._is_closed:
                return
            if done.cancelled() or done.exception() is not None or not done.result():
                self._reset()
                self._failed(True)
            else:
                self._is_verified = True
                self._resident = stop, loop.time() + _RESIDENT_SECONDS
                loop.add_writer(self._fd, self._writable)

        loop.run_in_executor(None, extent.verify_again, start, stop).add_done_callback(verified)


def _head_flag(body: Sequence[FileExtent]) -> int:
    """The flag that has the kernel hold a head back until its body follows, and send both as one.

    That pays for large bodies that begin with a page and that a socket accepts at once. Elsewhere it takes longer than
    sending the head by itself: on loopback up to twice as long in all (docs/notes/performance-log.md).
    """
    _, start, stop, _ = body[0]
    return socket.MSG_MORE if stop - start in _JOINED_SIZES and start % mmap.PAGESIZE == 0 else 0
