"""Baselines of the machine: minimal servers and a file reader, without any Forebay code.

    python -m benchmarks.baseline serve SIZE    answers every request with SIZE bytes; prints its port
    python -m benchmarks.baseline relay PORT    relays connections to PORT of this machine; prints its port
    python -m benchmarks.baseline read FILE ... reads the files in a loop, from the disk; prints a line when it
                                            has started

All run until they are terminated.
"""

import asyncio
import itertools
import os
import socket
import sys
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
        case "read", *paths:
            read(paths)
