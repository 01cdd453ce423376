"""Baselines of the machine: minimal servers and a file reader, without any Forebay code.

    python -m benchmarks.bare.baseline serve SIZE
        answers every request with SIZE bytes; prints its port
    python -m benchmarks.bare.baseline relay PORT
        relays connections to PORT of this machine; prints its port
    python -m benchmarks.bare.baseline store PORT
        fetches what it is asked for from a port, keeps it and answers with it
    python -m benchmarks.bare.baseline receive PORT SIZE COUNT CONNECTIONS
        gets /bench/big/00000 and so on from a port of the benchmarks' origin, into one buffer for each connection and
        into new memory, in a loop and with blocking reads; prints what an object costs
    python -m benchmarks.bare.baseline read FILE ...
        reads the files in a loop, from the disk; prints a line when it has started

All but `receive` run until they are terminated.
"""

import asyncio
import itertools
import mmap
import os
import socket
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from threading import Lock, Thread
from typing import cast

import uvloop

_PIECE = 1 << 20


class FixedResponder(asyncio.Protocol):
    """One connection; one request at a time."""

    def __init__(self, answer: bytes) -> None:
        self._answer = answer

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._write = cast("asyncio.Transport", transport).write

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
        self._write: Callable[[bytes], None]

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._write = cast("asyncio.Transport", transport).write

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
        self._write = cast("asyncio.Transport", transport).write

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


class ReceivingProtocol(asyncio.BufferedProtocol):
    """One connection, and one object of `size` bytes after the other."""

    def __init__(self, size: int) -> None:
        self._size, self._head = size, memoryview(bytearray(128 << 10))
        self._received = size

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._write = cast("asyncio.Transport", transport).write

    def fetch(self, request: bytes, body: memoryview) -> "asyncio.Future[None]":
        self._body, self._received = body, -1
        self._done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._write(request)
        return self._done

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._body[self._received :] if 0 <= self._received < self._size else self._head

    def buffer_updated(self, nbytes: int) -> None:
        if self._received < 0:
            start = bytes(self._head[:nbytes]).index(b"\r\n\r\n") + 4
            nbytes -= start
            self._body[:nbytes] = self._head[start : start + nbytes]
            self._received = 0
        self._received += nbytes
        if self._received == self._size:
            self._done.set_result(None)


def _requests(count: int) -> Iterator[bytes]:
    return (b"GET /bench/big/%05d HTTP/1.1\r\nHost: origin\r\n\r\n" % number for number in range(count))


async def _receive_in_a_loop(port: int, connections: int, requests: Iterator[bytes], bodies: "Bodies") -> None:
    loop = asyncio.get_running_loop()

    async def work() -> None:
        _, receiving = await loop.create_connection(lambda: ReceivingProtocol(bodies.size), "127.0.0.1", port)
        body = bodies.next()
        for request in requests:
            await receiving.fetch(request, body)
            body = bodies.next(body)

    await asyncio.gather(*(work() for _ in range(connections)))


def _receive_blocking(port: int, connections: int, requests: Iterator[bytes], bodies: "Bodies") -> None:
    taken = Lock()

    def work() -> None:
        body, head = bodies.next(), memoryview(bytearray(1024))
        with socket.create_connection(("127.0.0.1", port)) as connection:
            while True:
                with taken:
                    request = next(requests, None)
                if request is None:
                    return
                connection.sendall(request)
                count = connection.recv_into(head)
                start = bytes(head[:count]).index(b"\r\n\r\n") + 4
                body[: count - start] = head[start:count]
                count -= start
                while count < bodies.size:
                    count += connection.recv_into(body[count:])
                body = bodies.next(body)

    threads = [Thread(target=work) for _ in range(connections)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


class Bodies:
    """Memory for bodies: new for each, or the same again."""

    def __init__(self, size: int, *, is_new: bool) -> None:
        self.size, self._is_new = size, is_new
        self._kept: list[mmap.mmap] = []

    def next(self, last: memoryview | None = None) -> memoryview:
        if last is not None and not self._is_new:
            return last
        self._kept.append(mmap.mmap(-1, self.size))
        return memoryview(self._kept[-1])


def receive(port: int, size: int, count: int, connections: int) -> None:
    for is_new in (False, True):
        for name in ("loop", "blocking"):
            bodies, before = Bodies(size, is_new=is_new), time.process_time()
            if name == "loop":
                uvloop.run(_receive_in_a_loop(port, connections, _requests(count), bodies))
            else:
                _receive_blocking(port, connections, _requests(count), bodies)
            cost = (time.process_time() - before) / count * 1e6
            print(f"{name}, {'new memory' if is_new else 'one buffer a connection'}: {cost:.0f} us", flush=True)


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
        case "receive", *numbers:
            receive(*map(int, numbers))
        case "read", *paths:
            read(paths)
