"""Sockets that uvloop is given, connected already: their number is the loop's from then on, and nobody else's.

uvloop has libuv close the number, and makes the Python object forget it. But it takes note of the object only when the
coroutine that asked for the connection has its turn again. A connection that ends before that (reset by the other end
at once, a worker that is killed) leaves an object with a number that by then is somebody else's: when the object is
collected, it closes a stranger's connection, whose number the next one gets, and what is meant for one client goes to
another. Slices of what is due (forebay.server.event_loop) let that turn come late, on a busy server by milliseconds.

So the object forgets the number as it tells it. asyncio's own loop keeps the object itself, and needs none of this.
https://github.com/MagicStack/uvloop (loop.pyx, `create_connection`)
"""

import asyncio
import socket
from typing import Any


def detaching_loop(kind: type[asyncio.AbstractEventLoop]) -> type[asyncio.AbstractEventLoop]:
    """This kind of loop, uvloop's, to which connected sockets are given for good."""

    class Giving(kind):  # type: ignore[misc, valid-type] # a class that is made of another when we know which
        async def create_connection(self, *given: Any, sock: socket.socket | None = None, **more: Any) -> Any:
            return await super().create_connection(*given, sock=_DetachedSocket.of(sock), **more)

        async def create_unix_connection(self, *given: Any, sock: socket.socket | None = None, **more: Any) -> Any:
            return await super().create_unix_connection(*given, sock=_DetachedSocket.of(sock), **more)

    return Giving


class _DetachedSocket:
    """A socket to uvloop, which asks for its number once, to hand it to libuv; that closes it whatever happens then.
    Until then it is the caller's to close."""

    def __init__(self, own: socket.socket) -> None:
        self._own = own

    @classmethod
    def of(cls, own: socket.socket | None) -> "_DetachedSocket | None":
        return None if own is None else cls(own)

    @property
    def family(self) -> int:
        return self._own.family

    @property
    def type(self) -> int:
        return self._own.type

    def setblocking(self, blocking: bool) -> None:
        self._own.setblocking(blocking)

    def fileno(self) -> int:
        return self._own.detach()

    def detach(self) -> int:
        """There is no number to forget any more."""
        return -1

    def close(self) -> None:
        """Nothing to close any more."""
