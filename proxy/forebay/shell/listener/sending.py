"""Sending: bodies that the kernel takes from files by itself (sendfile), past the transport.

The transport owns the connection; a Sender has another descriptor of the same socket, and writes to it only while the
transport has nothing to write. Until a body has left whole, nobody else may write and nothing may be read: that is for
the connection to see to (forebay.shell.listener.connection).

    send ──> all gone at once (the usual case)
        └──> busy: goes on whenever the socket takes more ──> finished() ; or broken()

https://man7.org/linux/man-pages/man2/sendfile.2.html
"""

import asyncio
import os
import socket
from collections import deque
from collections.abc import Callable, Iterable
from typing import NamedTuple

from forebay.stores.shared import SharedBlock


class Stretch(NamedTuple):
    """Bytes of a block that is sent as it is."""

    block: SharedBlock
    start: int
    stop: int


class Sender:
    """Of one connection. Ended by `close`."""

    def __init__(self, transport: asyncio.Transport, finished: Callable[[], None], broken: Callable[[], None]) -> None:
        """`finished`, `broken`: what became of a body that did not leave at once."""
        self._transport = transport
        self._finished = finished
        self._broken = broken
        self._socket = socket.socket(fileno=os.dup(transport.get_extra_info("socket").fileno()))
        self._socket.setblocking(False)
        self._head = b""
        self._left: deque[Stretch] = deque()
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
        if not self._go_on():
            self.busy = True
            asyncio.get_running_loop().add_writer(self._socket.fileno(), self._writable)
        return not self.busy

    def close(self) -> None:
        """Let go of the socket, whatever is left."""
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
            asyncio.get_running_loop().remove_writer(self._socket.fileno())

    def _go_on(self) -> bool:
        """Have the kernel take what it takes now; whether that was all. Raises OSError if the client has gone."""
        try:
            while self._head:
                sent = self._socket.send(self._head, socket.MSG_MORE)
                self._head = self._head[sent:]
            while self._left:
                block, start, stop = self._left[0]
                sent = os.sendfile(self._socket.fileno(), block.fd, start, stop - start)
                self.moved += sent
                if start + sent == stop:
                    self._left.popleft()
                else:
                    self._left[0] = Stretch(block, start + sent, stop)
        except BlockingIOError:
            return False
        return True
