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

from forebay.server.http.send_queue import Departures
from forebay.storage.ssd.verified_blocks import Checked

_JOINED: Final = range(256 << 10, 1 << 20)
"""Bytes of a body's first stretch with which it leaves together with its head."""
_AHEAD: Final = 1 << 20
"""Bytes of a file on the disk that are looked at at once, when a client has made us wait."""
_BELIEVED: Final = 0.1
"""Seconds for which what was found in the page cache is taken to be there: it was used lately, and leaves last."""
_NOWHERE: Final = 0, 0.0
"""What was found when nothing was looked for."""


class Open(Protocol):
    """An open file, for as long as somebody holds this."""

    fd: int


Stretch: TypeAlias = tuple[Open, int, int, Checked | None]
"""Bytes of a file that are sent as they are: the file, from where, up to where, and what is known of them if they are
not in memory for certain. A plain tuple, as making one of a class of its own takes ten times as long."""


class Sender:
    """Of one connection. Ended by `close`."""

    def __init__(
        self,
        transport: asyncio.Transport,
        departures: Departures,
        waits: Callable[[int], None],
        left: Callable[[bool], None],
        broken: Callable[[bool], None],
    ) -> None:
        """`waits` is told of a body that did not leave at once, and of how many bytes it is; `left` and `broken` of
        every body's end, and whether it had to wait."""
        self._transport, self._departures = transport, departures
        self._loop = asyncio.get_running_loop()
        self._waits, self._left, self._broken = waits, left, broken
        self._socket = socket.socket(fileno=os.dup(transport.get_extra_info("socket").fileno()))
        self._socket.setblocking(False)
        self._fd = self._socket.fileno()
        self._head = b""
        self._body: Sequence[Stretch] = ()
        self._at = self._into = 0
        """Which of the body's stretches comes next, and how many of its bytes have gone."""
        self._found = _NOWHERE
        """Up to where the page cache has what comes next of its file, and until when that is believed."""
        self._fetched = False
        """Whether a thread has just read and checked it: then it is sent, whatever the page cache says."""
        self._closed = False
        self.busy = self.waiting = False
        """Whether a body is being sent, and whether the client keeps it waiting."""
        self.moved = 0
        """Bytes that the kernel has taken so far, of all bodies."""

    @property
    def free(self) -> bool:
        """Whether a body may be sent: nobody's bytes are on their way that it could overtake."""
        return not self.busy and self._transport.get_write_buffer_size() == 0

    def send(self, head: bytes, body: Sequence[Stretch]) -> None:
        """Send an answer. Only when `free`."""
        self._head, self._body, self._at = head, body, 0
        self.busy = True
        self._departures.add(self._depart)

    def close(self) -> None:
        """Let go of the socket, whatever is left. Nobody is told."""
        self._closed = True
        self._rest()
        self._socket.close()

    def _depart(self) -> None:
        if self._closed:
            return
        try:
            gone = self._go_on()
        except OSError:
            self._rest()
            self._broken(False)
            return
        if gone:
            self._rest()
            self._left(False)
        else:
            self.waiting = True
            self._loop.add_writer(self._fd, self._writable)
            self._waits(sum(stop - start for _, start, stop, _ in self._body))

    def _writable(self) -> None:
        try:
            if not self._go_on():
                return
        except OSError:
            self._rest()
            self._broken(True)
            return
        self._rest()
        self._left(True)

    def _rest(self) -> None:
        """No body is being sent: let go of the last one's files."""
        if self.waiting:
            self._loop.remove_writer(self._fd)
        self.busy = self.waiting = False
        self._body = ()

    def _go_on(self) -> bool:
        """Have the kernel take what it takes now; whether that was all. Raises OSError if the client has gone."""
        body, fd = self._body, self._fd
        try:
            while head := self._head:
                sent = self._socket.send(head, _together(body))
                self._head = head[sent:] if sent < len(head) else b""
            while self._at < len(body):
                file, start, stop, lying = body[self._at]
                start += self._into
                count = stop - start
                if self.waiting and lying is not None:
                    count = self._at_hand(lying, start, stop) - start
                    if not count:
                        return False
                sent = os.sendfile(fd, file.fd, start, count)
                self._fetched = False
                if not sent:
                    raise OSError("the file is shorter than it was")
                self.moved += sent
                if start + sent == stop:
                    self._at += 1
                    self._into = 0
                    self._found = _NOWHERE
                else:
                    self._into += sent
        except BlockingIOError:
            return False
        return True

    def _at_hand(self, lying: Checked, start: int, stop: int) -> int:
        """Up to where these bytes can be sent without waiting for the disk; `start`: a thread reads them first."""
        ahead = min(stop, start + _AHEAD)
        if self._fetched:
            return ahead
        found, until = self._found
        if found > start and self._loop.time() < until and lying.unchanged():
            return min(stop, found)
        if lying.stands(start, ahead):
            self._found = ahead, self._loop.time() + _BELIEVED
            return ahead
        self._fetch(lying, start, ahead)
        return start

    def _fetch(self, lying: Checked, start: int, stop: int) -> None:
        """Have a thread read and check what is not known any more, and go on then."""
        loop = self._loop
        loop.remove_writer(self._fd)

        def fetched(done: asyncio.Future[bool]) -> None:
            if self._closed:
                return
            if done.cancelled() or done.exception() is not None or not done.result():
                self._rest()
                self._broken(True)
            else:
                self._fetched = True
                self._found = stop, loop.time() + _BELIEVED
                loop.add_writer(self._fd, self._writable)

        loop.run_in_executor(None, lying.check_again, start, stop).add_done_callback(fetched)


def _together(body: Sequence[Stretch]) -> int:
    """The flag by which the kernel keeps a head back until the body comes, and sends both as one.

    That pays for large bodies that begin with a page, and that a socket takes at once. Elsewhere it takes longer than
    sending the head by itself: on loopback up to twice as long in all (docs/notes/performance-log.md).
    """
    _, start, stop, _ = body[0]
    return socket.MSG_MORE if stop - start in _JOINED and start % mmap.PAGESIZE == 0 else 0
