"""Baselines of the machine: minimal servers and a file reader, without any Forebay code.

    python -m benchmarks.baseline serve SIZE    answers every request with SIZE bytes; prints its port
    python -m benchmarks.baseline relay PORT    relays connections to PORT of this machine; prints its port
    python -m benchmarks.baseline store PORT    fetches what it is asked for from a port, keeps it and answers with it
    python -m benchmarks.baseline read FILE ... reads the files in a loop, from the disk; prints a line when it
                                            has started

All run until they are terminated.
"""

import asyncio
import itertools
import os
import socket
import sys
from collections.abc import Callable
from functools import partial

import uvloop

_PIECE = 1 << 20


class FixedResponder(asyncio.Protocol):
    """One connection; one request at a time."""

    def __init__(self, answer: bytes) -> None:
        self._answer = answer

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._write = transport.write  # type: ignore[attr-defined] # of a TCP server it can be written to

    def data_received(self, data: bytes) -> None:
        self._write(self._answer)


async def serve(size: int) -> None:
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size + bytes(size)
    server = await asyncio.get_running_loop().create_server(lambda: FixedResponder(answer), "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


class RelayProtocol(asyncio.Protocol):
    """One side of a relayed connection: what comes on it goes to the other."""

    def __init__(self, other: asyncio.Transport | None = None) -> None:
        self.other = other

    def data_received(self, data: bytes) -> None:
        assert self.other is not None, "nobody speaks unasked: the two know each other by the time that one does"
        self.other.write(data)

    def connection_lost(self, exc: Exception | None) -> None:
        if self.other is not None:
            self.other.close()


async def relay(port: int) -> None:
    loop = asyncio.get_running_loop()
    listening = socket.create_server(("127.0.0.1", 0))
    listening.setblocking(False)
    print(listening.getsockname()[1], flush=True)
    while True:
        client, _ = await loop.sock_accept(listening)
        far, answers = await loop.create_connection(RelayProtocol, "127.0.0.1", port)
        answers.other, _ = await loop.connect_accepted_socket(partial(RelayProtocol, far), client)


class StoringProtocol(asyncio.Protocol):
    """A client's connection to a cache that does nothing but fetch and store: no request is looked at but for its
    path, nothing is shared, checked, counted or signed. One request at a time, whose head comes whole."""

    def __init__(self, origin: "OriginConnections") -> None:
        self._origin = origin

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._write = transport.write  # type: ignore[attr-defined] # of a TCP server it can be written to

    def data_received(self, data: bytes) -> None:
        self._origin.fetch(data.split(b" ", 2)[1], self._reply)

    def connection_lost(self, exc: Exception | None) -> None:
        self._write = lambda _: None  # what is under way is kept

    def _reply(self, response: bytes) -> None:
        self._write(response)


class OriginConnections:
    """Connections to the origin, and all that came over them, by path."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._idle: list[FetchProtocol] = []
        self._connecting: set[asyncio.Task[None]] = set()
        self.stored: dict[bytes, bytes] = {}

    def fetch(self, path: bytes, reply: Callable[[bytes], None]) -> None:
        if self._idle:
            self._idle.pop().fetch(path, reply)
        else:
            task = asyncio.get_running_loop().create_task(self._connect(path, reply))
            self._connecting.add(task)
            task.add_done_callback(self._connecting.discard)

    async def _connect(self, path: bytes, reply: Callable[[bytes], None]) -> None:
        loop = asyncio.get_running_loop()
        _, connection = await loop.create_connection(lambda: FetchProtocol(self), "127.0.0.1", self._port)
        connection.fetch(path, reply)

    def store(self, connection: "FetchProtocol", path: bytes, body: bytes) -> None:
        self.stored[path] = body
        self._idle.append(connection)


class FetchProtocol(asyncio.Protocol):
    """One connection to the origin."""

    def __init__(self, owner: OriginConnections) -> None:
        self._owner = owner
        self._received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._write = transport.write  # type: ignore[attr-defined] # it can be written to

    def fetch(self, path: bytes, reply: Callable[[bytes], None]) -> None:
        self._path, self._reply, self._received = path, reply, b""
        self._write(b"GET %b HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" % path)

    def data_received(self, data: bytes) -> None:
        self._received = received = self._received + data if self._received else data
        end = received.find(b"\r\n\r\n") + 4
        at = received.find(b"Content-Length: ") + 16
        if end > 3 and len(received) - end == int(received[at : received.find(b"\r", at)]):
            body = received[end:]
            self._owner.store(self, self._path, body)
            self._reply(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))


async def store(port: int) -> None:
    origin = OriginConnections(port)
    server = await asyncio.get_running_loop().create_server(lambda: StoringProtocol(origin), "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


def read(paths: list[str]) -> None:
    files = [os.open(path, os.O_RDONLY) for path in paths]
    room = bytearray(_PIECE)
    for turn in itertools.count():
        for fd in files:
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        for fd in files:
            for start in range(0, os.fstat(fd).st_size, _PIECE):
                os.preadv(fd, [room], start)
        if turn == 0:
            print(flush=True)  # what the parent waits for


if __name__ == "__main__":
    match sys.argv[1:]:
        case "serve", size:
            uvloop.run(serve(int(size)))
        case "relay", port:
            uvloop.run(relay(int(port)))
        case "store", port:
            uvloop.run(store(int(port)))
        case "read", *paths:
            read(paths)
