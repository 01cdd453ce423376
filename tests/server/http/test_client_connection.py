"""A client connection by itself, on a transport of the test's. With the fast lane: tests/server/fastpath."""

import asyncio
from pathlib import Path

import pytest

from forebay.protocol.exchange import SMALL_BODY
from forebay.server.http.client_connection import ClientConnection
from harness.fake_origin import FakeOrigin
from harness.inspection import run_loop_until
from harness.manual_timers import ManualTimers
from harness.rig import Rig
from harness.write_back_rig import at_origin

STALL = 60.0


class Transport(asyncio.Transport):
    """Accepts everything, but for the `unsent` bytes that it says are left."""

    def __init__(self) -> None:
        super().__init__({"peername": ("127.0.0.1", 1)})
        self.closed = asyncio.Event()
        self.written = bytearray()
        self.unsent = 1 << 20

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += data

    def get_write_buffer_size(self) -> int:
        return self.unsent

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


async def test_a_drain_goes_on_while_the_client_takes_bytes(tmp_path: Path) -> None:
    timers = ManualTimers()
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, timers) as rig:
        connection, transport = connect(rig)
        connection.pause_writing()
        async with asyncio.TaskGroup() as group:
            draining = group.create_task(connection.drain())
            with timers.flowing(1.0):
                while timers.time() < 3 * STALL:
                    transport.unsent -= 1
                    await asyncio.sleep(0)
            assert not draining.done()
            connection.resume_writing()
        connection.connection_lost(None)


async def test_writing_to_a_slow_client_is_not_idleness(tmp_path: Path) -> None:
    """A connection ends when it has been idle for its time, which begins when the response has left."""
    timers, limits = ManualTimers(), '[limits]\nidle_timeout = "10s"\n'
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, timers, rest=limits) as rig:
        connection, transport = connect(rig)
        await run_loop_until(lambda: not connection.is_busy)
        connection.pause_writing()
        timers.advance(15.0)
        connection.resume_writing()
        timers.advance(9.0)
        assert not transport.closed.is_set()
        timers.advance(1.0)
        assert transport.closed.is_set()
        connection.connection_lost(None)


PUT = "/bucket/open/key"


def upload(rig: Rig, size: int) -> bytes:
    """A PUT of that many bytes."""
    return rig.client().sign("PUT", PUT, (), bytes(size)).wire


@pytest.mark.parametrize("size", [0, 10_000, SMALL_BODY])
async def test_a_small_upload_that_came_whole_passes_aiohttp_by(tmp_path: Path, size: int) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path) as rig:
        origin.store.create_bucket("bucket")
        connection, transport = connect(rig)
        for _ in range(2):
            transport.written.clear()
            connection.data_received(upload(rig, size))
            await run_loop_until(lambda: not connection.is_busy)
            assert transport.written.startswith(b"HTTP/1.1 200 OK\r\n")
        assert rig.worker.listener.server.requests_count == 0
        assert at_origin(origin, "open/key", "bucket") == bytes(size)
        connection.connection_lost(None)


@pytest.mark.parametrize("cut", [-10_000, -9_999, -1])
async def test_so_does_one_whose_body_comes_later(tmp_path: Path, cut: int) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path) as rig:
        origin.store.create_bucket("bucket")
        connection, transport = connect(rig)
        wire = upload(rig, 10_000)
        for _ in range(2):
            transport.written.clear()
            connection.data_received(wire[:cut])
            await asyncio.sleep(0)
            for piece in filter(None, (wire[cut:-1], wire[-1:])):
                connection.data_received(piece)
            await run_loop_until(lambda: not connection.is_busy)
            assert transport.written.startswith(b"HTTP/1.1 200 OK\r\n")
        assert rig.worker.listener.server.requests_count == 0
        assert at_origin(origin, "open/key", "bucket") == bytes(10_000)
        connection.connection_lost(None)


@pytest.mark.parametrize("cut", [3, 100, -10_001])
async def test_a_head_in_two_pieces_is_left_to_aiohttp(tmp_path: Path, cut: int) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path) as rig:
        origin.store.create_bucket("bucket")
        connection, transport = connect(rig)
        wire = upload(rig, 10_000)
        connection.data_received(wire[:cut])
        connection.data_received(wire[cut:])
        await run_loop_until(lambda: bool(transport.written) and not connection.is_busy)
        assert transport.written.startswith(b"HTTP/1.1 200 OK\r\n")
        assert rig.worker.listener.server.requests_count == 1
        connection.connection_lost(None)


@pytest.mark.parametrize("size", [10_000, SMALL_BODY + 1])
async def test_so_is_one_that_is_larger_or_has_a_byte_behind_it(tmp_path: Path, size: int) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path) as rig:
        origin.store.create_bucket("bucket")
        connection, transport = connect(rig)
        connection.data_received(upload(rig, size) + (b"G" if size == 10_000 else b""))
        await run_loop_until(lambda: b"200 OK" in transport.written)
        assert rig.worker.listener.server.requests_count == 1
        connection.connection_lost(None)


async def test_so_is_one_for_which_there_is_no_memory(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path) as rig:
        origin.store.create_bucket("bucket")
        connection, transport = connect(rig)
        budget = rig.parts.storage.budget
        held = budget.capacity - 5_000
        assert budget.try_acquire(held)
        connection.data_received(upload(rig, 10_000))
        budget.release(held)
        await run_loop_until(lambda: bool(transport.written))
        assert rig.worker.listener.server.requests_count == 1
        connection.connection_lost(None)
