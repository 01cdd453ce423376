"""Readers that are slow on purpose: `python -m benchmarks.misses.slow_clients PORT SIZE CRAWLING PACED`.

Each reads an object of its own, `crawl/NNNNN` at a byte a second or `pace/NNNNN` at PACE bytes a second, over a socket
with a small receive buffer. Prints a line when all have begun. When its input ends they read on as fast as they can,
some at a time; then it prints how many bodies were whole.
"""

import asyncio
import socket
import sys
import time
from typing import Final

import uvloop

from benchmarks.load.http_client import parse_head
from benchmarks.load.signed_requests import signed
from benchmarks.origins.origin import BUCKET
from harness.fake.content import Synthetic

PACE: Final = 250_000
"""Bytes a second."""
_RECEIVE_BUFFER: Final = 16 << 10
_TICK: Final = 0.1
_AT_ONCE: Final = 32
"""Readers that begin at once, and that read on at once in the end."""


class SlowClient:
    """One reader and its connection."""

    def __init__(self, prefix: str, number: int, size: int, port: int) -> None:
        self._wire = signed(port, [f"/{BUCKET}/{prefix}/{number:05}"], time.time(), count=1)[0]
        self._port, self._size = port, size
        self._content = Synthetic(size, number)
        self._socket = socket.socket()
        self._socket.setblocking(False)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BUFFER)
        self._received = 0
        self.is_intact = True
        """Whether all bytes so far were the right ones."""

    async def begin(self, turns: asyncio.Semaphore) -> None:
        """Sends the request, and reads the head of the response."""
        async with turns:
            await self._begin()

    async def _begin(self) -> None:
        loop, head = asyncio.get_running_loop(), b""
        await loop.sock_connect(self._socket, ("127.0.0.1", self._port))
        await loop.sock_sendall(self._socket, self._wire)
        while b"\r\n\r\n" not in head and (byte := await loop.sock_recv(self._socket, 1)):
            head += byte
        self.is_intact = bool(head) and parse_head(head.partition(b"\r\n\r\n")[0])[0] == 200

    async def read(self, count: int) -> None:
        """Reads up to `count` bytes."""
        stop = min(self._size, self._received + count)
        while self.is_intact and self._received < stop:
            try:
                piece = await asyncio.get_running_loop().sock_recv(self._socket, min(1 << 18, stop - self._received))
            except ConnectionError:
                piece = b""
            views = self._content.views(self._received, self._received + len(piece))
            self.is_intact = bool(piece) and piece == b"".join(views)
            self._received += len(piece)

    async def crawl(self, count: int, seconds: float, ended: asyncio.Event) -> None:
        """Reads `count` bytes every so many seconds, until `ended`."""
        while not ended.is_set() and self._received < self._size and self.is_intact:
            await self.read(count)
            await asyncio.sleep(seconds)

    async def finish(self, turns: asyncio.Semaphore) -> bool:
        """Reads the rest. Returns whether the body was whole."""
        async with turns:
            await self.read(self._size)
            self._socket.close()
        return self.is_intact and self._received == self._size


async def run(port: int, size: int, crawling: int, paced: int) -> None:
    ended = asyncio.Event()
    slow = [SlowClient("crawl", number, size, port) for number in range(crawling)]
    steady = [SlowClient("pace", number, size, port) for number in range(paced)]
    turns = asyncio.Semaphore(_AT_ONCE)
    async with asyncio.TaskGroup() as group:
        for client in slow + steady:
            group.create_task(client.begin(turns))
    async with asyncio.TaskGroup() as group:
        for client in slow:
            group.create_task(client.crawl(1, 1.0, ended))
        for client in steady:
            group.create_task(client.crawl(int(PACE * _TICK), _TICK, ended))
        sys.stdout.write(f"begun {sum(client.is_intact for client in slow + steady)}\n")
        sys.stdout.flush()
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
        ended.set()
    whole = await asyncio.gather(*(client.finish(turns) for client in slow + steady))
    sys.stdout.write(f"whole {sum(whole)}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    uvloop.run(run(*map(int, sys.argv[1:5])))
