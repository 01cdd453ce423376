"""A bare loop beside which reads are timed: what a loop in Python can do at all, while it carries the same bytes.

    GET anything       ──> 4 KiB, at once
    GET /begin         ──> from now on bodies are carried between this process and an origin
    GET /under-way     ──> 200 while they are, 204 afterwards

As a process: `python -m benchmarks.bare.bare_transfer put|get|keep ORIGIN CONNECTIONS SIZE COUNT PREFIX`, which prints
its port. It sends or receives pieces of 128 KiB, one body on each connection, and does nothing with them: no hash, no
head. Only `keep` has memory of its own for each body, and keeps all.
"""

import asyncio
import mmap
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Literal, cast

import uvloop

from benchmarks.load.http_client import KeepAliveConnection
from benchmarks.load.paced_reads import latencies
from benchmarks.origins.origin import BUCKET
from benchmarks.processes import cores
from benchmarks.processes.processes import module, ready_line

_PIECE: Final = 128 << 10
_HEAD: Final = 16 << 10
"""Bytes at most of an answer's head, in front of its body."""
_HIT: Final = b"HTTP/1.1 200 OK\r\nContent-Length: 4096\r\n\r\n" + bytes(4096)
_EMPTY: Final = "HTTP/1.1 {status} OK\r\nContent-Length: 0\r\n\r\n"
_BURST: Final = 50
"""Reads between two questions whether it is still at work."""


class BareTransfer:
    """A running one."""

    def __init__(self, port: int) -> None:
        self._port = port
        self.begin_url = f"http://127.0.0.1:{port}/begin"

    def read_beside(self, target: str, alone: int) -> tuple[list[float], list[float]]:
        """The times of so many reads alone, and of reads while it carries its bodies."""
        with cores.pinned(cores.LOAD):
            before = latencies(self._port, target, alone)
            self._ask("/begin")
            beside = []
            while self._ask("/under-way") == 200:
                beside += latencies(self._port, target, _BURST)
        return before, beside

    def _ask(self, path: str) -> int:
        with KeepAliveConnection(self._port) as connection:
            return connection.get(f"GET {path} HTTP/1.1\r\nHost: bare\r\n\r\n".encode()).status


@contextmanager
def running_bare_transfer(
    mode: Literal["put", "get"], directory: Path, origin: int, size: int, count: int, prefix: str
) -> Iterator[BareTransfer]:
    """On the servers' core. `count` bodies of `size` bytes are put to, or got from, `prefix` of an origin's port."""
    arguments = [mode, *map(str, (origin, 16, size, count)), prefix]
    with cores.pinned(cores.SERVER):
        child = module("benchmarks.bare.bare_transfer", *arguments, log=directory / "bare.log")
    with child:
        yield BareTransfer(int(ready_line(child)))


@contextmanager
def running_bare_receiver(
    directory: Path, origin: int, connections: int, size: int, count: int, prefix: str
) -> Iterator[BareTransfer]:
    """On any core. `count` bodies of `size` bytes are received, over so many connections, and kept."""
    arguments = ["keep", *map(str, (origin, connections, size, count)), prefix]
    with module("benchmarks.bare.bare_transfer", *arguments, log=directory / "bare.log") as child:
        yield BareTransfer(int(ready_line(child)))


class _Answers(asyncio.Protocol):
    def __init__(self, carrier: "_Carrier") -> None:
        self._carrier = carrier

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        match data.split(b" ", 2)[1]:
            case b"/begin":
                self._carrier.begin()
                self._transport.write(_EMPTY.format(status=200).encode())
            case b"/under-way":
                self._transport.write(_EMPTY.format(status=200 if self._carrier.is_under_way else 204).encode())
            case _:
                self._transport.write(_HIT)


class _Carrier:
    def __init__(self, mode: str, origin: int, connections: int, size: int, count: int, prefix: str) -> None:
        self._carry = self._put if mode == "put" else self._get
        self._kept: list[mmap.mmap] | None = [] if mode == "keep" else None
        self._origin, self._connections, self._size = origin, connections, size
        self._names = (f"/{BUCKET}/{prefix}/{number:05}" for number in range(count))
        self._work: asyncio.Future[Any] | None = None

    @property
    def is_under_way(self) -> bool:
        return self._work is not None and not self._work.done()

    def begin(self) -> None:
        self._work = asyncio.gather(*(self._carry() for _ in range(self._connections)))

    async def _put(self) -> None:
        piece = memoryview(bytes(_PIECE))
        for name in self._names:
            reader, writer = await asyncio.open_connection("127.0.0.1", self._origin)
            writer.write(f"PUT {name} HTTP/1.1\r\nHost: origin\r\nContent-Length: {self._size}\r\n\r\n".encode())
            for start in range(0, self._size, _PIECE):
                writer.write(piece[: self._size - start])
                await writer.drain()
                await asyncio.sleep(0)
            await reader.readuntil(b"\r\n\r\n")
            writer.close()

    async def _get(self) -> None:
        loop = asyncio.get_running_loop()
        _, receiver = await loop.create_connection(_Receiver, "127.0.0.1", self._origin)
        for name in self._names:
            if self._kept is not None:
                self._kept.append(mmap.mmap(-1, self._size + _HEAD))
                receiver.memory = memoryview(self._kept[-1])
            await receiver.get(name, self._size)
        receiver.transport.close()


class _Receiver(asyncio.BufferedProtocol):
    _buffer = memoryview(bytearray(_PIECE))
    memory: memoryview | None = None
    """For the next body, and its head."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)

    def get(self, name: str, size: int) -> "asyncio.Future[None]":
        self._done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._left, self._is_head, self._filled = size, True, 0
        self.transport.write(f"GET {name} HTTP/1.1\r\nHost: origin\r\n\r\n".encode())
        return self._done

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._buffer if self.memory is None else self.memory[self._filled :][:_PIECE]

    def buffer_updated(self, nbytes: int) -> None:
        received = self.get_buffer(0)[:nbytes]
        self._filled += nbytes
        if self._is_head:
            nbytes -= bytes(received).index(b"\r\n\r\n") + 4
            self._is_head = False
        self._left -= nbytes
        if not self._left:
            self._done.set_result(None)


async def _serve(mode: str, origin: int, connections: int, size: int, count: int, prefix: str) -> None:
    carrier = _Carrier(mode, origin, connections, size, count, prefix)
    server = await asyncio.get_running_loop().create_server(lambda: _Answers(carrier), "127.0.0.1", 0)
    sys.stdout.write(f"{server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    await server.serve_forever()


if __name__ == "__main__":
    _mode, _origin, _connections, _size, _count, _prefix = sys.argv[1:]
    uvloop.run(_serve(_mode, int(_origin), int(_connections), int(_size), int(_count), _prefix))
