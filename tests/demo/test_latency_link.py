"""The far link: what goes in comes out, in order, and every end of a connection passes through. Of time only lower
bounds are asserted, which hold on any machine."""

import asyncio
import random
import socket
import struct
from asyncio import StreamReader, StreamWriter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any, cast

import pytest

from forebay_demo.latency_link import LatencyLink, LinkDirection

Handler = Callable[[StreamReader, StreamWriter], Awaitable[None]]
Connection = tuple[StreamReader, StreamWriter]


@asynccontextmanager
async def serving(handler: Handler) -> AsyncIterator[tuple[str, int]]:
    """The address of a server of `handler`, for one connection, whose end is waited for."""
    over = asyncio.Event()

    async def handle(reader: StreamReader, writer: StreamWriter) -> None:
        try:
            with suppress(ConnectionError):
                await handler(reader, writer)
        finally:
            await ended(writer)
            over.set()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()
        await over.wait()


@asynccontextmanager
async def linked(
    handler: Handler, round_trip: float = 0.0, bandwidth: float | None = None
) -> AsyncIterator[Connection]:
    """A connection through a link to a server of one handler."""
    async with serving(handler) as address, LatencyLink(*address, round_trip=round_trip, bandwidth=bandwidth) as link:
        reader, writer = await asyncio.open_connection("127.0.0.1", link.port)
        try:
            yield reader, writer
        finally:
            await ended(writer)


async def ended(writer: StreamWriter) -> None:
    writer.close()
    with suppress(ConnectionError):
        await writer.wait_closed()


async def echo(reader: StreamReader, writer: StreamWriter) -> None:
    while received := await reader.read(65536):
        writer.write(received)
        await writer.drain()


async def answer_at_the_end(reader: StreamReader, writer: StreamWriter) -> None:
    received = await reader.read(-1)
    writer.write(b"got %d" % len(received))


async def reset(reader: StreamReader, writer: StreamWriter) -> None:
    await reader.readexactly(1)
    reset_on_close(writer)


def reset_on_close(writer: StreamWriter) -> None:
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


@pytest.mark.parametrize("round_trip", [0.0, 0.004])
async def test_bytes_come_out_as_they_went_in(round_trip: float) -> None:
    content = random.Random(1).randbytes(3_000_000)
    async with linked(echo, round_trip) as (reader, writer):

        async def send() -> None:
            for start in range(0, len(content), 77_777):
                writer.write(content[start : start + 77_777])
                await writer.drain()
            writer.write_eof()

        async with asyncio.TaskGroup() as both:
            both.create_task(send())
            received = both.create_task(reader.read(-1))
        assert received.result() == content


async def test_a_half_close_passes_and_the_answer_comes_back() -> None:
    async with linked(answer_at_the_end, 0.002) as (reader, writer):
        writer.write(b"x" * 1000)
        writer.write_eof()
        assert await reader.read(-1) == b"got 1000"


async def test_a_reset_by_the_target_reaches_the_client() -> None:
    async with linked(reset) as (reader, writer):
        writer.write(b"x")
        with pytest.raises(ConnectionResetError):
            await reader.read(-1)


async def test_a_reset_by_the_client_reaches_the_target() -> None:
    seen: asyncio.Future[BaseException | None] = asyncio.get_running_loop().create_future()

    async def watch(reader: StreamReader, writer: StreamWriter) -> None:
        writer.write(b"hello")
        try:
            await reader.read(-1)
        except ConnectionResetError as error:
            seen.set_result(error)
        else:
            seen.set_result(None)

    async with linked(watch) as (reader, writer):
        assert await reader.readexactly(5) == b"hello"
        reset_on_close(writer)
        assert isinstance(await seen, ConnectionResetError)


async def test_a_target_that_refuses_is_a_reset() -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))  # bound, not listening
        async with LatencyLink(*nobody.getsockname(), round_trip=0.0) as link:
            reader, writer = await asyncio.open_connection("127.0.0.1", link.port)
            with pytest.raises(ConnectionResetError):
                await reader.read(-1)
            await ended(writer)


async def test_closing_the_link_ends_its_connections() -> None:
    async with serving(echo) as address:
        async with LatencyLink(*address, round_trip=0.0) as link:
            reader, writer = await asyncio.open_connection("127.0.0.1", link.port)
            writer.write(b"x")
            assert await reader.readexactly(1) == b"x"
        with pytest.raises(ConnectionResetError):
            await reader.read(-1)
        await ended(writer)


async def test_an_exchange_takes_one_round_trip_and_the_first_two() -> None:
    now = asyncio.get_running_loop().time
    started = now()
    async with linked(echo, 0.030) as (reader, writer):
        for round_trips in (2, 3, 4):
            writer.write(b"x")
            await reader.readexactly(1)
            assert now() - started >= round_trips * 0.030


async def test_bandwidth_is_not_exceeded() -> None:
    now = asyncio.get_running_loop().time
    async with linked(echo, 0.0, bandwidth=2_000_000) as (reader, writer):
        started = now()
        writer.write(b"x" * 100_000)
        await reader.readexactly(100_000)
        assert now() - started >= 0.05


class GatedSink:
    """The side of a StreamWriter that a Way uses; nothing drains until the gate is open."""

    def __init__(self) -> None:
        self.received = b""
        self.ended = False
        self.gate = asyncio.Event()

    def write(self, received: bytes) -> None:
        self.received += received

    async def drain(self) -> None:
        await self.gate.wait()

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        self.ended = True


class CountingSource:
    """The side of a StreamReader that a Way uses: endless pieces of a kilobyte, up to a total."""

    def __init__(self, pieces: int) -> None:
        self.taken = 0
        self._pieces = pieces

    async def read(self, _most: int) -> bytes:
        if self.taken == self._pieces:
            return b""
        self.taken += 1
        return b"%1024d" % self.taken


async def test_a_slow_receiver_holds_the_sender_back() -> None:
    source, sink = CountingSource(pieces=100), GatedSink()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(LinkDirection(0.0, in_flight=10 * 1024).relay(cast(Any, source), cast(Any, sink)))
        for _ in range(500):
            await asyncio.sleep(0)
        assert source.taken == 10
        sink.gate.set()
    assert sink.received == b"".join(b"%1024d" % number for number in range(1, 101))
    assert sink.ended
