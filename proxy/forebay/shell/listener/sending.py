"""Sending: bodies that the kernel takes from files by itself (sendfile), past the transport.

The transport owns the connection; a Sender has another descriptor of the same socket, and writes to it only while the
transport has nothing to write. Until a body has left whole, nobody else may write and nothing may be read: that is for
the connection to see to (forebay.shell.listener.connection).

    send ──> all gone at once (the usual case)
        └──> busy: goes on whenever the socket takes more ──> finished() ; or broken()

What lies on a disk was in the page cache when the answer was made. Whoever takes it slowly may find it gone from there:
so it is looked at again, and read by a thread if the disk must be waited for.

https://man7.org/linux/man-pages/man2/sendfile.2.html
"""

import asyncio
import os
import socket
from collections import deque
from collections.abc import Callable, Iterable
from typing import Final, Protocol, TypeAlias

from forebay.stores.pagecache import PAGE_CACHE

_PROBED: Final = 256 << 10
"""Bytes of a file on the disk that are sent at once when a client has made us wait: as much as is looked at before."""


class Open(Protocol):
    """An open file, for as long as somebody holds this."""

    fd: int


Stretch: TypeAlias = tuple[Open, int, int, bool]
"""Bytes of a file that are sent as they are: the file, from where, up to where, and whether they lie in memory for
certain; else in the page cache, when it was looked at last. A plain tuple, as making one of a class of its own takes
ten times as long."""


class Sender:
    """Of one connection. Ended by `close`."""

    def __init__(self, transport: asyncio.Transport, finished: Callable[[], None], broken: Callable[[], None]) -> None:
        """`finished`, `broken`: what became of a body that did not leave at once."""
        self._transport = transport
        self._finished = finished
        self._broken = broken
        self._socket = socket.socket(fileno=os.dup(transport.get_extra_info("socket").fileno()))
        self._socket.setblocking(False)
        self._fd = self._socket.fileno()
        self._head = b""
        self._left: deque[Stretch] = deque()
        self._fetched = False
        """Whether a thread has just read what comes next: then it is sent, whatever the page cache says."""
        self._closed = False
        self.busy = False
        self.moved = 0
        """Bytes that the kernel has taken so far, of all bodies."""

    @property
    def free(self) -> bool:
        """Whether a body may be sent: nobody's bytes are on their way that it could overtake."""
        return not self.busy and self._transport.get_write_buffer_size() == 0

    def send(self, head: bytes, body: Iterable[Stretch]) -> bool:
        """Send an answer; whether all of it has gone. Only when `free`."""
        self._head = head
        self._left.extend(body)
        if self._go_on():
            return True
        self.busy = True
        asyncio.get_running_loop().add_writer(self._fd, self._writable)
        return False

    def close(self) -> None:
        """Let go of the socket, whatever is left."""
        self._closed = True
        self._rest()
        self._left.clear()
        self._socket.close()

    def _writable(self) -> None:
        try:
            if not self._go_on():
                return
        except OSError:
            self._rest()
            self._broken()
            return
        self._rest()
        self._finished()

    def _rest(self) -> None:
        if self.busy:
            self.busy = False
            asyncio.get_running_loop().remove_writer(self._fd)

    def _go_on(self) -> bool:
        """Have the kernel take what it takes now; whether that was all. Raises OSError if the client has gone."""
        try:
            while self._head:
                sent = self._socket.send(self._head, socket.MSG_MORE)
                self._head = self._head[sent:]
            while self._left:
                file, start, stop, resident = self._left[0]
                count = stop - start
                if self.busy and not resident:
                    count = min(count, _PROBED)
                    if not self._fetched and not PAGE_CACHE.has(file.fd, start, count):
                        self._fetch(file, start, count)
                        return False
                sent = os.sendfile(self._fd, file.fd, start, count)
                self._fetched = False
                if not sent:
                    raise OSError("the file is shorter than it was")
                self.moved += sent
                if start + sent == stop:
                    self._left.popleft()
                else:
                    self._left[0] = (file, start + sent, stop, resident)
        except BlockingIOError:
            return False
        return True

    def _fetch(self, file: Open, start: int, count: int) -> None:
        """Have a thread read what the page cache has lost, and go on then."""
        loop = asyncio.get_running_loop()
        loop.remove_writer(self._fd)

        def fetched(done: asyncio.Future[bytes]) -> None:
            if self._closed:
                return
            if done.cancelled() or done.exception() is not None:
                self.busy = False
                self._broken()
            else:
                self._fetched = True
                loop.add_writer(self._fd, self._writable)

        loop.run_in_executor(None, lambda: os.pread(file.fd, count, start)).add_done_callback(fetched)
