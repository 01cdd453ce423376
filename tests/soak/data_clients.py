"""The clients of the data bucket: writers, readers of single objects and batches, users of the client library."""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from typing import Final

from soak.batch_reads import BatchReads
from soak.client_requests import RequestSender, SoakServer
from soak.data_bucket import WRITERS
from soak.data_reads import DataReads
from soak.data_writer import DataWriter
from soak.library_calls import LibraryCalls
from soak.oracle import Oracle
from soak.ordered_reads import OrderedReads
from soak.view_holder import hold_and_be_killed
from soak.write_history import WriteHistory

LIBRARY_USERS: Final = 2
_READERS: Final = 4
_BATCH_READERS: Final = 3


class DataClients:
    """`socket`: of the server, for the client library."""

    def __init__(self, server: SoakServer, socket: str, oracle: Oracle, history: WriteHistory, seed: int) -> None:
        self._server, self._socket, self._oracle, self._history, self._seed = server, socket, oracle, history, seed

    async def run(self, deadline: float) -> None:
        async with asyncio.TaskGroup() as group:
            for number in range(WRITERS - LIBRARY_USERS):
                group.create_task(self._write(number, deadline))
            for number in range(_READERS):
                group.create_task(self._read(number, deadline))
            for number in range(_BATCH_READERS):
                group.create_task(self._read_batches(number, deadline))
            for number in range(LIBRARY_USERS):
                group.create_task(self._call_library(number, deadline))
            group.create_task(self._read_in_order(deadline))
            group.create_task(self._hold_views(deadline))

    async def _write(self, number: int, deadline: float) -> None:
        rng = self._random("writer", number)
        async with self._sender(rng) as sender:
            await _repeat(DataWriter(sender, self._history, number, rng).act, deadline)

    async def _read(self, number: int, deadline: float) -> None:
        rng = self._random("reader", number)
        async with self._sender(rng) as sender:
            await _repeat(DataReads(sender, self._history, rng).act, deadline)

    async def _read_batches(self, number: int, deadline: float) -> None:
        rng = self._random("batches", number)
        async with self._sender(rng) as sender:
            await _repeat(BatchReads(sender, self._history, rng).act, deadline)

    async def _call_library(self, number: int, deadline: float) -> None:
        """One of the last writers."""
        rng = self._random("library", number)
        calls = LibraryCalls(self._server.endpoints(), self._socket, self._history, WRITERS - 1 - number, rng)
        await _repeat(calls.act, deadline)
        await calls.close()

    async def _read_in_order(self, deadline: float) -> None:
        rng = self._random("order", 0)
        reads = OrderedReads(self._endpoint(rng), self._socket, self._history, rng)
        await _repeat(reads.act, deadline)
        await reads.close()

    async def _hold_views(self, deadline: float) -> None:
        rng = self._random("views", 0)

        async def act() -> None:
            await hold_and_be_killed(self._endpoint(rng), self._socket, self._history, rng)
            await asyncio.sleep(rng.random() * 5)

        await _repeat(act, deadline)

    def _sender(self, rng: random.Random) -> RequestSender:
        """Unobserved: a write may wait for its turn while the journal is full."""
        return RequestSender(self._server, self._oracle, rng, is_timed=False)

    def _endpoint(self, rng: random.Random) -> str:
        return rng.choice(self._server.endpoints())

    def _random(self, what: str, number: int) -> random.Random:
        return random.Random(f"{self._seed}/{what}/{number}")


async def _repeat(act: Callable[[], Awaitable[object]], deadline: float) -> None:
    while time.monotonic() < deadline:
        await act()
