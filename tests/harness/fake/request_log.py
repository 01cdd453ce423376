"""The requests that the fake has received. Tests count here which origin requests a cache made.

A request stands in `requests` from the moment its head has been read; its `status` is None until an answer is sent.
"""

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from multidict import CIMultiDictProxy


@dataclass(slots=True)
class LoggedRequest:
    method: str
    target: str
    """Raw, as received."""
    bucket: str | None
    key: str | None
    operation: str
    range: str | None
    headers: CIMultiDictProxy[str]
    connection: int
    """The same number for the requests of one connection."""
    status: int | None = None
    bytes_received: int = 0
    bytes_sent: int = 0
    """Of the body that were handed to the socket."""
    finished: bool = False

    @property
    def is_probe(self) -> bool:
        """Whether Forebay sent it for itself, to see whether it reaches the origin and is accepted there."""
        return self.headers.get("User-Agent") == "forebay-probe"


@dataclass(slots=True)
class RequestLog:
    keep: bool = True
    """False: only the counters, for long benchmarks."""
    requests: list[LoggedRequest] = field(default_factory=list)
    counts: Counter[tuple[str, str, str | None]] = field(default_factory=Counter)
    """By (method, operation, key)."""
    probes: list[LoggedRequest] = field(default_factory=list)
    """Requests that no client caused. They are in nothing else."""
    bytes_sent: int = 0
    concurrent: int = 0
    high_water: int = 0
    connections: int = 0
    """Accepted so far."""
    _waiters: list[asyncio.Future[None]] = field(default_factory=list)

    def reset(self) -> None:
        """Forgets what was seen. Requests under way stay counted in `concurrent`."""
        self.requests.clear()
        self.counts.clear()
        self.bytes_sent = self.connections = 0
        self.high_water = self.concurrent

    def matching(
        self, method: str | None = None, operation: str | None = None, key: str | None = None
    ) -> list[LoggedRequest]:
        return [
            each
            for each in self.requests
            if method in {None, each.method} and operation in {None, each.operation} and key in {None, each.key}
        ]

    def count(self, method: str | None = None, operation: str | None = None, key: str | None = None) -> int:
        return sum(
            number
            for (its_method, its_operation, its_key), number in self.counts.items()
            if method in {None, its_method} and operation in {None, its_operation} and key in {None, its_key}
        )

    def ranges(self, key: str | None = None) -> list[str | None]:
        """The Range headers of all GETs, in order; None for a GET without."""
        return [each.range for each in self.matching("GET", key=key)]

    async def wait_for(
        self, count: int, method: str | None = None, operation: str | None = None, key: str | None = None
    ) -> None:
        """Waits until `count` such requests have come."""
        await self._wait_until(lambda: self.count(method, operation, key) >= count)

    async def wait_idle(self) -> None:
        """Waits until no request is under way."""
        await self._wait_until(lambda: self.concurrent == 0)

    async def _wait_until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            changed = asyncio.get_running_loop().create_future()
            self._waiters.append(changed)
            await changed

    def record_start(self, entry: LoggedRequest) -> None:
        if entry.is_probe:
            self.probes.append(entry)
            return
        self.counts[entry.method, entry.operation, entry.key] += 1
        self.concurrent += 1
        self.high_water = max(self.high_water, self.concurrent)
        if self.keep:
            self.requests.append(entry)
        self._notify()

    def record_end(self, entry: LoggedRequest) -> None:
        entry.finished = True
        if entry.is_probe:
            return
        self.concurrent -= 1
        self.bytes_sent += entry.bytes_sent
        self._notify()

    def _notify(self) -> None:
        waiters, self._waiters = self._waiters, []
        for each in waiters:
            if not each.done():
                each.set_result(None)
