"""A client connection by itself, on a transport of the test's. With the fast lane: tests/server/fastpath."""

import asyncio
from pathlib import Path

import pytest

from forebay.server.http.client_connection import ClientConnection
from harness.fake_origin import FakeOrigin
from harness.manual_timers import ManualTimers
from harness.rig import Rig

STALL = 60.0


class Transport(asyncio.Transport):
    """Accepts everything."""

    def __init__(self) -> None:
        super().__init__({"peername": ("127.0.0.1", 1)})
        self.closed = asyncio.Event()

    def write(self, _data: bytes | bytearray | memoryview) -> None: ...

    def get_write_buffer_size(self) -> int:
        return 0

    def is_closing(self) -> bool:
        return self.closed.is_set()

    def close(self) -> None:
        self.closed.set()


def connect(rig: Rig) -> tuple[ClientConnection, Transport]:
    """A connection of the rig's listener, and its transport."""
    connection, transport = rig.worker.listener.server(), Transport()
    connection.connection_made(transport)
    return connection, transport


async def test_a_drain_ends_with_the_stall_timeout(tmp_path: Path) -> None:
    timers = ManualTimers()
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, timers) as rig:
        connection, _ = connect(rig)
        await connection.drain()
        connection.pause_writing()
        async with asyncio.TaskGroup() as group:
            draining = group.create_task(connection.drain())
            await timers.armed(STALL)
            timers.advance(STALL - 1)
            connection.resume_writing()
            await draining
        connection.pause_writing()
        with pytest.raises(ConnectionAbortedError), timers.flowing(1.0):
            await connection.drain()
        connection.connection_lost(None)


async def test_writing_to_a_slow_client_is_not_idleness(tmp_path: Path) -> None:
    """A connection ends when it has been idle for its time, which begins when the response has left."""
    timers, limits = ManualTimers(), '[limits]\nidle_timeout = "10s"\n'
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, timers, rest=limits) as rig:
        connection, transport = connect(rig)
        while connection.is_busy:  # noqa: ASYNC110 # aiohttp's task has its first turn
            await asyncio.sleep(0)
        connection.pause_writing()
        timers.advance(15.0)
        connection.resume_writing()
        timers.advance(9.0)
        assert not transport.closed.is_set()
        timers.advance(1.0)
        assert transport.closed.is_set()
        connection.connection_lost(None)
