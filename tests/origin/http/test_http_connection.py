"""An HTTP connection reads into the reader's buffer, and never mixes two responses."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import pytest

from forebay.origin.endpoint import ServerAddress
from forebay.origin.http.connection_pool import ConnectionPool
from forebay.origin.http.http_connection import HttpConnection
from forebay.origin.http.large_body import AT_ONCE
from forebay.origin.http.receive_buffer import RECEIVED, ReceiveBuffer
from forebay.origin.http.transport_errors import ConnectionFault
from forebay.origin.origin_limits import OriginLimits
from forebay.origin.turns.body_turns import BodyTurns
from harness.scripted_origin import Script, ScriptedConnection, ScriptedOrigin, respond_always, scripted_origin

ASK = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
LARGE = bytes(range(256)) * 1024


class Net:
    def __init__(self, pool: ConnectionPool, address: ServerAddress, origin: ScriptedOrigin) -> None:
        self.pool, self.address, self.origin = pool, address, origin

    async def requested(self) -> HttpConnection:
        connection = await self.pool.acquire(self.address)
        await connection.send_request(ASK, "GET", 5.0)
        return connection


@asynccontextmanager
async def net(*scripts: Script, keepalive: float = 10.0) -> AsyncIterator[Net]:
    async with scripted_origin(*scripts) as origin:
        pool = ConnectionPool(OriginLimits(keepalive=keepalive), None, BodyTurns(asyncio.get_running_loop()))
        parts = urlsplit(origin.url)
        yield Net(pool, ServerAddress(parts.hostname or "", parts.port or 0, False), origin)
        await pool.close()


async def read(connection: HttpConnection, most: int) -> bytes:
    buffer = bytearray(most)
    return bytes(buffer[: await connection.read_into(memoryview(buffer), 5.0)])


async def whole(connection: HttpConnection, most: int) -> bytes:
    body = b""
    while some := await read(connection, most):
        body += some
    return body


async def cut(line: ScriptedConnection) -> None:
    """Head and body in awkward places, after a 100 and a 103."""
    await line.read_request()
    for raw in (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early\r\nLink: a\r\n\r\nHTT", b"P/1.1 200 OK\r\nConte"):
        await line.send_raw(raw)
        await asyncio.sleep(0)
    await line.send_raw(b"nt-Length: 8\r\n\r\nabc")
    await line.send_raw(b"defgh")
    await line.wait_closed()


async def test_a_head_in_pieces_after_informational_ones() -> None:
    async with net(cut) as on:
        assert await whole(await on.requested(), 3) == b"abcdefgh"


@pytest.mark.parametrize("buffer", [1000, 100_000, 1 << 20])
async def test_a_large_body_goes_into_the_readers_buffer(buffer: int) -> None:
    async with net(respond_always(200, "", LARGE)) as on:
        for _ in range(3):
            assert await whole(await on.requested(), buffer) == LARGE
        assert on.origin.connections == 1


async def test_bodies_that_come_with_their_heads_do_not_mix() -> None:
    """Connections share the buffer that heads are received into: nothing is left in it when the next one has it."""
    async with net(*(respond_always(200, "", bytes([number]) * 60_000) for number in range(8))) as on:
        connections = [await on.requested() for _ in range(8)]
        bodies = [await whole(connection, 100_000) for connection in connections]
    assert sorted(bodies) == [bytes([number]) * 60_000 for number in range(8)]


async def test_a_long_head() -> None:
    """As long as user metadata, replication and checksums can make it, and then too long."""
    async with net(respond_always(200, "x-amz-meta: " + "m" * 50_000 + "\n", b"body")) as on:
        for _ in range(2):
            assert await whole(await on.requested(), 10) == b"body"
    async with net(respond_always(200, "x-amz-meta: " + "m" * 70_000 + "\n")) as on:
        with pytest.raises(ConnectionFault, match="not HTTP"):
            await on.requested()


async def test_an_unread_body_is_not_received() -> None:
    size = 64 << 20

    async def pours(line: ScriptedConnection) -> None:
        await line.read_request()
        await line.respond(200, "", b"", size)
        try:
            await line.send_raw(b"x" * size)
        except ConnectionError:
            poured.append("broken off")

    poured: list[str] = []
    async with net(pours) as on:
        connection = await on.requested()
        assert len(await read(connection, 10)) == 10
        for _ in range(20):
            await asyncio.sleep(0)
        connection.close()
    assert poured == ["broken off"]  # more than all buffers of the system take


async def test_bytes_after_a_response_close_the_connection() -> None:
    """A second answer that came along with the first must not answer the next request."""

    async def twice(line: ScriptedConnection) -> None:
        await line.read_request()
        await line.send_raw(
            b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nabHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nXX"
        )
        await line.wait_closed()

    async with net(twice, respond_always(200, "", b"cd")) as on:
        assert await whole(await on.requested(), 10) == b"ab"
        assert await whole(await on.requested(), 10) == b"cd"
        assert on.origin.connections == 2


async def test_bytes_on_an_idle_connection_close_it() -> None:
    async def late(line: ScriptedConnection) -> None:
        await line.read_request()
        await line.respond(200, "", b"ab")
        await rested.wait()
        await line.send_raw(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nXX")
        await line.wait_closed()
        hung_up.set()

    rested, hung_up = asyncio.Event(), asyncio.Event()
    async with net(late, respond_always(200, "", b"cd")) as on:
        connection = await on.requested()
        assert await whole(connection, 10) == b"ab"
        assert "idle" in repr(connection)
        rested.set()
        await hung_up.wait()
        assert await whole(await on.requested(), 10) == b"cd"
        assert on.origin.connections == 2


async def test_an_idle_connection_sees_its_end() -> None:
    wrong: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: wrong.append(context))
    left, gone = asyncio.Event(), asyncio.Event()

    async def all_at_once(line: ScriptedConnection) -> None:
        await line.read_request()
        await line.send_raw(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabcde")
        await left.wait()

    async with net(all_at_once) as on:
        connection = HttpConnection(lambda _: None, lambda _: gone.set(), ReceiveBuffer())
        await asyncio.get_running_loop().create_connection(lambda: connection, on.address.host, on.address.port)
        await connection.send_request(ASK, "GET", 5.0)
        body = connection.buffered_body()
        assert (body is not None and bytes(body), connection.ended) == (b"abcde", True)
        left.set()
        await gone.wait()
    assert wrong == []


async def test_a_connection_idle_for_long_is_closed() -> None:
    async with net(respond_always(200, "", b"ab"), keepalive=0.01) as on:
        assert await whole(await on.requested(), 10) == b"ab"
        await on.origin.all_ended(1)
        assert "0, 0 idle" in repr(on.pool)


async def test_a_body_that_ends_with_the_connection() -> None:
    async def script(line: ScriptedConnection) -> None:
        await line.read_request()
        await line.respond(500, "", LARGE, -1)

    async with net(script) as on:
        assert await whole(await on.requested(), 1000) == LARGE


async def test_a_cancelled_reader_gets_its_buffer_back() -> None:
    async def script(line: ScriptedConnection) -> None:
        await line.read_request()
        await line.respond(200, "", b"", 1 << 20)
        await cancelled.wait()
        await line.send_raw(b"x" * 1000)
        await line.wait_closed()

    cancelled = asyncio.Event()
    async with net(script) as on:
        connection, buffer = await on.requested(), bytearray(1000)
        async with asyncio.TaskGroup() as tasks:
            task = tasks.create_task(connection.read_into(memoryview(buffer), 5.0))
            await asyncio.sleep(0)
            task.cancel()
        cancelled.set()
        assert len(await read(connection, 1)) == 1  # that has come, and elsewhere
        assert buffer == bytes(1000)


async def test_a_closed_connection_carries_nothing() -> None:
    async with net(respond_always(200, "", b"ab")) as on:
        connection = await on.requested()
        connection.close()
        with pytest.raises(ConnectionFault) as raised:
            await connection.send_request(ASK, "GET", 5.0)
        assert raised.value.lost


class Pausable(asyncio.Transport):
    """A transport that its test feeds, as far as it is read."""

    def __init__(self, connection: HttpConnection) -> None:
        super().__init__()
        self._connection = connection
        self.reads = True
        connection.connection_made(self)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        pass

    def abort(self) -> None:
        self._connection.connection_lost(None)

    def pause_reading(self) -> None:
        self.reads = False

    def resume_reading(self) -> None:
        self.reads = True

    def feed(self, data: bytes) -> int:
        """Has the connection receive, as a transport does: until it pauses. Returns how many bytes it took."""
        taken = 0
        while self.reads and taken < len(data):
            buffer = self._connection.get_buffer(-1)
            size = min(len(buffer), len(data) - taken)
            buffer[:size] = data[taken : taken + size]
            self._connection.buffer_updated(size)
            taken += size
        return taken


@asynccontextmanager
async def requested() -> AsyncIterator[tuple[HttpConnection, Pausable, "asyncio.Task[object]"]]:
    """A connection that waits for the head of its response."""
    connection = HttpConnection(lambda _: None, lambda _: None, ReceiveBuffer())
    transport = Pausable(connection)
    async with asyncio.TaskGroup() as tasks:
        reader = tasks.create_task(connection.send_request(ASK, "GET", 5.0))
        await asyncio.sleep(0)
        yield connection, transport, reader
    connection.close()


async def test_a_head_is_parsed_in_its_readers_turn() -> None:
    """The loop calls many connections before anything else runs: none of them does more than take its bytes."""
    async with requested() as (connection, transport, reader):
        transport.feed(b"HTTP/1.1 200 OK\r\nContent-Length: 600000\r\n\r\nab")
        assert "requested" in repr(connection)
        transport.feed(b"cd")
        await reader
        assert "responding" in repr(connection)
        assert await read(connection, 10) == b"abcd"


async def test_what_follows_a_head_before_its_readers_turn_is_bounded() -> None:
    body = bytes(range(256)) * 4096
    async with requested() as (connection, transport, reader):
        raw = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body
        taken = transport.feed(raw)
        assert taken == RECEIVED
        await reader
        received = b""
        while not connection.ended:
            async with asyncio.TaskGroup() as tasks:
                piece = tasks.create_task(read(connection, len(body)))
                await asyncio.sleep(0)
                taken += transport.feed(raw[taken:])
            received += piece.result()
        assert received == body


async def test_a_turn_of_the_loop_receives_so_much_at_once() -> None:
    """However much has arrived, and whatever room the reader has."""
    async with requested() as (connection, transport, reader):
        transport.feed(b"HTTP/1.1 200 OK\r\nContent-Length: 600000\r\n\r\n")
        await reader
        left = 600_000
        for size in (AT_ONCE, AT_ONCE, 600_000 - 2 * AT_ONCE):
            async with asyncio.TaskGroup() as tasks:
                piece = tasks.create_task(read(connection, 1 << 20))
                await asyncio.sleep(0)
                assert transport.feed(bytes(left)) == size
            assert len(piece.result()) == size
            left -= size


async def test_a_malformed_head_is_told_from_a_lost_connection() -> None:
    async def script(line: ScriptedConnection) -> None:
        await line.read_request()
        await line.send_raw(b"HTTP/1.1 2oo OK\r\nContent-Length: 4\r\n\r\nabcd")

    async with net(script) as on:
        with pytest.raises(ConnectionFault, match="not HTTP"):
            await on.requested()


async def test_a_response_whose_connection_ends_before_its_readers_turn() -> None:
    async with requested() as (connection, transport, reader):
        transport.feed(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nabcd")
        transport.abort()
        await reader
        body = connection.buffered_body()
        assert body is not None
        assert bytes(body) == b"abcd"
