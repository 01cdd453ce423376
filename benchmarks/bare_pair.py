"""A baseline: two processes of a bare loop, each of which owns half of the objects, without any Forebay code.

    python -m benchmarks.bare_pair PORT     fetches what it is asked for from a port, keeps it and answers with it;
                                            prints its port

What a connection asks of the process that does not own it is asked of the other one, over a socket between them, and
kept by both: the least that several workers do (forebay.peers.relayed_openings). Runs until it is terminated.
"""

import asyncio
import itertools
import os
import socket
import struct
import sys
from collections.abc import Callable
from typing import cast
from zlib import crc32

import uvloop

from benchmarks.baseline import OriginConnections, StoringProtocol

_HEAD = struct.Struct(">II?")
"""Of a frame: the length of what follows the head, a number, and whether it is an answer."""
Reply = Callable[[bytes], None]


class Link(asyncio.Protocol):
    """The socket to the other process. What is written in a turn of the loop leaves together."""

    def __init__(self, origin: OriginConnections, ended: "asyncio.Future[None]") -> None:
        self._origin, self._ended = origin, ended
        self._loop = asyncio.get_running_loop()
        self._numbers = itertools.count()
        self._asked: dict[int, tuple[bytes, Reply]] = {}
        self._rest = b""
        self._unsent: list[bytes] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._ended.set_result(None)

    def fetch(self, path: bytes, reply: Reply) -> None:
        number = next(self._numbers)
        self._asked[number] = path, reply
        self._write(number, path, is_answer=False)

    def _write(self, number: int, content: bytes, *, is_answer: bool) -> None:
        if not self._unsent:
            self._loop.call_soon(self._send)
        self._unsent += (_HEAD.pack(len(content), number, is_answer), content)

    def _send(self) -> None:
        unsent, self._unsent = self._unsent, []
        self._transport.writelines(unsent)

    def data_received(self, data: bytes) -> None:
        received, start = self._rest + data if self._rest else data, 0
        while len(received) - start >= _HEAD.size:
            length, number, is_answer = _HEAD.unpack_from(received, start)
            stop = start + _HEAD.size + length
            if stop > len(received):
                break
            content = received[start + _HEAD.size : stop]
            self._loop.call_soon(self._end if is_answer else self._begin, number, content)
            start = stop
        self._rest = received[start:]

    def _begin(self, number: int, path: bytes) -> None:
        self._origin.fetch(path, lambda response: self._write(number, response, is_answer=True))

    def _end(self, number: int, response: bytes) -> None:
        path, reply = self._asked.pop(number)
        self._origin.stored[path] = response
        reply(response)


class HalfOfObjects(OriginConnections):
    """Fetches what this process owns; the rest comes over the link."""

    link: Link

    def __init__(self, port: int, number: int) -> None:
        super().__init__(port)
        self._number = number

    def fetch(self, path: bytes, reply: Reply) -> None:
        if crc32(path) % 2 == self._number:
            super().fetch(path, reply)
        else:
            self.link.fetch(path, reply)


async def serve(port: int, number: int, listening: socket.socket, between: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[None] = loop.create_future()
    origin = HalfOfObjects(port, number)
    _, origin.link = await loop.create_unix_connection(lambda: Link(origin, ended), sock=between)
    await loop.create_server(lambda: StoringProtocol(origin), sock=listening)
    if number == 0:
        print(listening.getsockname()[1], flush=True)
    await ended


def main(port: int) -> None:
    between = socket.socketpair()
    listening = []
    for at in (0, 1):
        listening.append(socket.socket())
        listening[at].setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        listening[at].bind(("127.0.0.1", listening[0].getsockname()[1] if at else 0))
        listening[at].listen(1024)
    number = 0 if os.fork() else 1
    between[1 - number].close()
    listening[1 - number].close()
    uvloop.run(serve(port, number, listening[number], between[number]))


if __name__ == "__main__":
    main(int(sys.argv[1]))
