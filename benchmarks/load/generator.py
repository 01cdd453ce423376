"""A load generator of our own: closed loop, one thread, epoll.

Bodies are counted in the kernel and never copied (MSG_TRUNC on a TCP socket, tcp(7)), so with large bodies it costs
half of what they cost any server; with small ones it does some 30,000 requests a second, and wrk is the better one.
"""

import select
import socket
import time
from collections import deque
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import cycle
from typing import Final

from benchmarks.errors import UnexpectedResponse
from benchmarks.load.http_client import parse_head
from benchmarks.load.load import Load, percentile

_COUNT: Final = 4 << 20
_HEAD: Final = 1 << 16
_STUCK: Final = 60.0
"""Seconds without any byte after which a run is given up."""


@dataclass(slots=True)
class _Reader:
    """One connection."""

    socket: socket.socket
    received: bytes = b""
    """Of a head that is not complete."""
    remaining: int = -1
    """Bytes of the body that are still to come; below zero while the head is."""
    sent_at: float = 0.0


def connected(port: int) -> socket.socket:
    """A connection to a port of loopback."""
    return socket.create_connection(("127.0.0.1", port))


class Generator:
    """`connections` to a port of loopback, open while it is used as a context manager; or those given, which it
    closes."""

    def __init__(
        self, port: int, requests: Sequence[bytes], connections: int, given: Sequence[socket.socket] = ()
    ) -> None:
        self._port, self._connections, self._given = port, connections, given
        self._requests, self._count = cycle(requests), len(requests)
        self._stack = ExitStack()
        self._readers: dict[int, _Reader] = {}
        self._trash = memoryview(bytearray(_COUNT))
        self._body_bytes = 0
        self._latencies: list[float] = []

    def __enter__(self) -> "Generator":
        self._poll = self._stack.enter_context(select.epoll())
        opened = self._given or [self._stack.enter_context(connected(self._port)) for _ in range(self._connections)]
        for connection in opened:
            self._stack.enter_context(connection)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection.setblocking(False)
            self._readers[connection.fileno()] = _Reader(connection)
            self._poll.register(connection, select.EPOLLIN)
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def run(self, seconds: float) -> Load:
        """Keep every connection busy for so long; the answers that were whole by then count."""
        self._body_bytes, self._latencies = 0, []
        started = now = time.perf_counter()
        for reader in self._readers.values():
            self._send(reader, started)
        while now < started + seconds:
            for reader in self._ready(started + seconds - now):
                if self._receive(reader):
                    now = time.perf_counter()
                    self._latencies.append(now - reader.sent_at)
                    self._send(reader, now)
            now = time.perf_counter()
        return self._load(now - started)

    def paced(self, seconds: float, rate: float) -> Load:
        """So many requests a second, evenly, for so long, whatever the answers do. A request that finds no connection
        free waits for one, and its time begins when it was due."""
        self._body_bytes, self._latencies = 0, []
        free = deque(self._readers.values())
        started = now = time.perf_counter()
        sent = 0
        while now < started + seconds or len(free) < len(self._readers):
            while free and sent / rate < min(now - started, seconds):
                self._send(free.popleft(), started + sent / rate)
                sent += 1
            # Never asleep: the shortest sleep that epoll knows is a millisecond.
            for reader in self._ready(0.0):
                if self._receive(reader):
                    self._latencies.append(time.perf_counter() - reader.sent_at)
                    free.append(reader)
            now = time.perf_counter()
            if now > started + seconds + _STUCK:
                raise UnexpectedResponse(f"an answer took more than {_STUCK:g} s")
        return self._load(now - started)

    def each_once(self) -> Load:
        """Each request once, in order, as the connections come free."""
        self._body_bytes, self._latencies = 0, []
        started, left = time.perf_counter(), self._count
        for reader in list(self._readers.values())[:left]:
            self._send(reader, started)
            left -= 1
        while len(self._latencies) < self._count:
            ready = self._ready(_STUCK)
            if not ready:
                raise UnexpectedResponse(f"no byte for {_STUCK:g} s")
            for reader in ready:
                if self._receive(reader):
                    now = time.perf_counter()
                    self._latencies.append(now - reader.sent_at)
                    if left:
                        self._send(reader, now)
                        left -= 1
        return self._load(time.perf_counter() - started)

    def once(self) -> Load:
        """One request on each connection, all at the same time, until the last answer is whole."""
        self._body_bytes, self._latencies = 0, []
        started = time.perf_counter()
        for reader in self._readers.values():
            self._send(reader, started)
        while len(self._latencies) < len(self._readers):
            ready = self._ready(_STUCK)
            if not ready:
                raise UnexpectedResponse(f"no byte for {_STUCK:g} s, {len(self._latencies)} answers were whole")
            for reader in ready:
                if self._receive(reader):
                    self._latencies.append(time.perf_counter() - reader.sent_at)
        return self._load(time.perf_counter() - started)

    def _load(self, seconds: float) -> Load:
        self._latencies.sort()
        return Load(
            len(self._latencies),
            seconds,
            self._body_bytes,
            percentile(self._latencies, 0.5),
            percentile(self._latencies, 0.99),
        )

    def _ready(self, timeout: float) -> list[_Reader]:
        return [self._readers[fd] for fd, _ in self._poll.poll(max(0.0, timeout), len(self._readers))]

    def _send(self, reader: _Reader, now: float) -> None:
        reader.sent_at = now
        reader.socket.sendall(next(self._requests))  # far smaller than a socket's buffer

    def _receive(self, reader: _Reader) -> bool:
        """Take what has come; whether the answer is whole."""
        if reader.remaining < 0:
            reader.received += self._some(reader)
            end = reader.received.find(b"\r\n\r\n")
            if end < 0:
                return False
            status, headers = parse_head(reader.received[:end])
            if status not in (200, 206):
                raise UnexpectedResponse(f"status {status}: {reader.received[end + 4 : end + 500]!r}")
            length, body = int(headers["content-length"]), len(reader.received) - end - 4
            self._body_bytes += length
            reader.received, reader.remaining = b"", length - body
        else:
            size = reader.socket.recv_into(self._trash, min(_COUNT, reader.remaining), socket.MSG_TRUNC)
            if not size:
                raise UnexpectedResponse(f"the body ended {reader.remaining} bytes too soon")
            reader.remaining -= size
        if reader.remaining:
            return False
        reader.remaining = -1
        return True

    def _some(self, reader: _Reader) -> bytes:
        # A head and no more than a little of the body is read here: what is read here is copied.
        received = reader.socket.recv(_HEAD)
        if not received:
            raise UnexpectedResponse(f"port {self._port} closed a connection before an answer")
        return received
