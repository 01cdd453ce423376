"""The body receiver: a large body past aiohttp's parser is the same body, and its connection goes on."""

import asyncio
import os
import random
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.streams import StreamReader
from hypothesis import given
from hypothesis import strategies as st

from forebay.core.errors import S3Error
from forebay.core.fair_semaphore import FairSemaphore, SemaphoreShare
from forebay.core.request_record import RequestRecord
from forebay.server.event_loop import loop_factory
from forebay.server.http.aiohttp_connection import AiohttpConnection
from forebay.server.http.aiohttp_exchange import RequestBody
from forebay.server.http.body_receiver import BUFFER, COPIED, FAST, LEAST, BodyReceiver
from forebay.server.http.connection_limits import ConnectionLimits
from harness.certificates import TestAuthority, install, tls_settings
from harness.clients import RawClient, path_of
from harness.fake_origin import FakeOrigin
from harness.inspection import run_loop_until
from harness.manual_timers import ManualTimers
from harness.raw_connection import RawConnection
from harness.rig import TRAINER, Rig


class Connection(asyncio.Protocol):
    """What a receiver, and aiohttp's stream, call of a connection."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.received = 0

    def connection_lost(self, exc: BaseException | None) -> None:
        self.calls.append("lost")

    def eof_received(self) -> None:
        self.calls.append("eof")

    def pause_writing(self) -> None:
        self.calls.append("pause writing")

    def resume_writing(self) -> None:
        self.calls.append("resume writing")

    def pause_reading(self) -> None:
        self.calls.append("pause reading")

    def resume_reading(self) -> None:
        self.calls.append("resume reading")

    def body_received(self, count: int) -> None:
        self.received += count

    def body_ended(self) -> None:
        self.calls.append("ended")


class Receiving:
    """A receiver of `size` bytes, and what was fed to its stream."""

    def __init__(self, size: int) -> None:
        self.connection = Connection()
        self.pieces: list[bytes | memoryview] = []
        self.receiver = BodyReceiver(self.connection, self, size)  # type: ignore[arg-type] # of the stream it calls feed_data alone

    def feed_data(self, data: bytes | memoryview) -> None:
        self.pieces.append(data)

    def receive(self, content: bytes) -> int:
        """As a transport does, once. Returns how many bytes there was room for."""
        buffer = self.receiver.get_buffer(len(content))
        taken = min(len(buffer), len(content))
        buffer[:taken] = content[:taken]
        self.receiver.buffer_updated(taken)
        return taken


@given(st.integers(1, 2 * BUFFER + 5), st.integers(0, 1000))
def test_a_body_in_any_reads_is_the_same_and_ends_with_its_last_byte(size: int, seed: int) -> None:
    content, chance = random.Random(seed).randbytes(size), random.Random(seed)
    receiving, taken = Receiving(size), 0
    while taken < size:
        assert "ended" not in receiving.connection.calls
        taken += receiving.receive(content[taken : taken + chance.choice((1 << 12, 1 << 18, BUFFER))])
    assert (receiving.connection.calls, receiving.connection.received) == (["ended"], size)
    assert b"".join(receiving.pieces) == content, "of buffers that are not written to again"
    assert all(type(piece) is bytes or (isinstance(piece, memoryview) and piece.readonly) for piece in receiving.pieces)


@pytest.mark.parametrize(("size", "kind"), [(1, bytes), (COPIED - 1, bytes), (COPIED, memoryview)])
def test_a_tiny_piece_keeps_no_buffer(size: int, kind: type) -> None:
    """Who keeps it for long would keep all of the buffer that it is a view of."""
    receiving = Receiving(BUFFER)
    receiving.receive(b"x" * size)
    assert [(type(piece), bytes(piece)) for piece in receiving.pieces] == [(kind, b"x" * size)]


def test_nothing_behind_the_body_is_received() -> None:
    receiving = Receiving(10)
    assert receiving.receive(b"x" * 10 + b"GET / HTTP/1.1") == 10


def test_what_else_a_transport_says_is_for_the_connection() -> None:
    receiving = Receiving(10)
    receiver, calls = receiving.receiver, receiving.connection.calls
    receiver.pause_writing()
    receiver.resume_writing()
    receiver.eof_received()
    receiver.connection_lost(None)
    assert calls == ["pause writing", "resume writing", "eof", "lost"]
    receiver.connection_lost(None)
    receiver.pause_writing()
    receiver.resume_writing()
    assert (receiver.eof_received(), len(calls)) == (None, 4), "once lost it is left alone"


async def test_the_stream_keeps_a_piece_as_it_is() -> None:
    """What the receiver relies on: no copy, and flow control by the bytes of a view."""
    connection = Connection()
    content = StreamReader(connection, 100, loop=asyncio.get_running_loop())  # type: ignore[arg-type] # see Connection
    receiver, body = BodyReceiver(connection, content, COPIED), os.urandom(COPIED)
    receiver.get_buffer(-1)[:COPIED] = body
    receiver.buffer_updated(COPIED)
    assert connection.calls == ["pause reading", "ended"]
    piece: object = await content.readany()
    assert isinstance(piece, memoryview)
    assert piece == body
    assert connection.calls[-1] == "resume reading"


# The memory that a buffer is charged to


class Transport(asyncio.Transport):
    """Has the protocol that it is given, and accepts everything."""

    def write(self, _data: bytes | bytearray | memoryview) -> None: ...

    def writelines(self, _pieces: object) -> None: ...

    def close(self) -> None: ...

    def is_closing(self) -> bool:
        return False

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = protocol

    def get_protocol(self) -> asyncio.BaseProtocol:
        return self._protocol


class Served(AiohttpConnection):
    """A connection whose requests wait for the test: it reads their bodies, and then answers them."""

    def record_refusal(self, _error: S3Error) -> str:
        return "id"


class Serving:
    """A connection with requests that wait for the test, and the memory for its bodies."""

    def __init__(self) -> None:
        self.requests = asyncio.Queue[web.BaseRequest]()
        self.answers = asyncio.Queue[web.Response]()
        self.budget = FairSemaphore(8 * BUFFER)
        limits = ConnectionLimits(1 << 14, 10, 10, header_timeout=60.0, idle_timeout=60.0)
        self.loop, self.transport = asyncio.get_running_loop(), Transport()
        server = web.Server(self._handle)
        self.connection = Served(server, self.loop, limits, ManualTimers(), SemaphoreShare(self.budget, 1))
        self.transport.set_protocol(self.connection)
        self.connection.connection_made(self.transport)

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        self.requests.put_nowait(request)
        return await self.answers.get()

    async def begin(self, size: int) -> web.BaseRequest:
        """A request whose body of `size` bytes is received past the parser, from its byte 2 * FAST on."""
        self.connection.data_received(
            b"PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n" % size + bytes(2 * FAST)
        )
        assert isinstance(self.transport.get_protocol(), BodyReceiver)
        return await self.requests.get()

    def receive(self, size: int) -> None:
        while size:
            receiver = self.transport.get_protocol()
            assert isinstance(receiver, BodyReceiver)
            count = min(size, len(receiver.get_buffer(-1)))
            receiver.buffer_updated(count)
            size -= count

    def body_of(self, request: web.BaseRequest) -> AsyncIterator[bytes]:
        record = RequestRecord("PUT", 0.0, "id")
        return RequestBody(request, self.loop, 60.0, record, self.connection.release_buffer).pieces()


async def test_a_body_is_incomplete_where_its_client_left_at_once() -> None:
    serving = Serving()
    await asyncio.sleep(0)  # it waits for requests
    serving.connection.data_received(b"PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\n12")
    await asyncio.sleep(0)  # aiohttp has made a task of the request, which has not run
    serving.connection.connection_lost(ConnectionResetError())
    async with asyncio.timeout(10):
        body = serving.body_of(await serving.requests.get())
    with pytest.raises(S3Error, match="IncompleteBody"):
        _ = [piece async for piece in body]


async def test_a_buffer_is_charged_until_all_of_the_body_was_read() -> None:
    serving = Serving()
    request = await serving.begin(2 * BUFFER)
    serving.receive(2 * BUFFER - 2 * FAST)
    assert request.content.is_eof()
    body = serving.body_of(request)
    size = len(await anext(body))
    assert serving.budget.in_use == BUFFER, "more than a MiB is unread"
    async for piece in body:
        size += len(piece)
    assert (size, serving.budget.in_use) == (2 * BUFFER, 0)
    serving.connection.connection_lost(None)


async def test_a_buffer_nobody_reads_is_charged_until_the_answer() -> None:
    serving = Serving()
    request = await serving.begin(2 * BUFFER)
    serving.receive(2 * BUFFER - 2 * FAST)
    assert (request.content.is_eof(), serving.budget.in_use) == (True, BUFFER)
    serving.answers.put_nowait(web.Response())
    await run_loop_until(lambda: not serving.budget.in_use)
    serving.connection.connection_lost(None)


async def test_a_body_that_ends_behind_its_answer_leaves_no_charge() -> None:
    serving = Serving()
    request = await serving.begin(2 * BUFFER)
    serving.answers.put_nowait(web.Response())
    await run_loop_until(lambda: serving.connection._current_request is None)  # noqa: SLF001 # aiohttp's
    assert serving.budget.in_use == BUFFER, "it is being written to"
    serving.receive(2 * BUFFER - 2 * FAST)
    assert serving.budget.in_use == 0
    assert request.content.is_eof()
    serving.connection.connection_lost(None)


async def test_a_connection_has_one_buffer_whatever_follows_a_body() -> None:
    """The next body comes before the first was read: aiohttp's parser takes it."""
    serving = Serving()
    await serving.begin(2 * BUFFER)
    serving.receive(2 * BUFFER - 2 * FAST)
    head = b"PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n" % (2 * BUFFER)
    serving.connection.data_received(head + bytes(2 * FAST))
    assert serving.transport.get_protocol() is serving.connection
    assert serving.budget.in_use == BUFFER
    serving.connection.connection_lost(None)
    assert serving.budget.in_use == 0


# Over sockets


async def _send(connection: RawConnection, head: bytes, body: bytes) -> None:
    """As much at once as is taken for a fast client, then in pieces."""
    await connection.send(head + body[: 2 * FAST])
    for start in range(2 * FAST, len(body), 300_000):
        await connection.send(body[start : start + 300_000])


def _is_receiving(rig: Rig) -> bool:
    """Whether a connection's body is received past the parser."""
    transports = [each.transport for each in rig.worker.listener.server.connections]
    return any(isinstance(each.get_protocol(), BodyReceiver) for each in transports if each is not None)


async def test_requests_follow_on_the_connection_of_a_large_body(tmp_path: Path) -> None:
    bodies = [os.urandom(LEAST * 3 + 7), os.urandom(LEAST * 2 + 1)]
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path) as rig:
        origin.store.create_bucket("bucket")
        client = rig.client()
        async with await client.open() as connection:
            for number, body in enumerate(bodies):
                put = client.sign("PUT", path_of("bucket", f"{number}"), (), body)
                await _send(connection, put.wire[: -len(body)], body[:-1])
                await run_loop_until(lambda: _is_receiving(rig))
                await connection.send(body[-1:])
                assert (await connection.answer()).status == 200
                assert not _is_receiving(rig)
                await connection.send(client.sign("GET", path_of("bucket", f"{number}")).wire)
                assert (await connection.answer()).body == body
        assert rig.parts.storage.budget.in_use == 0


def test_uvloop_receives_large_bodies_so_with_tls_and_without(tmp_path: Path) -> None:
    authority, body = TestAuthority(tmp_path), os.urandom(LEAST * 3 + 7)
    install(tmp_path, authority.issue("first"))

    async def dialogue() -> None:
        async with (
            FakeOrigin() as origin,
            Rig(origin.endpoint, origin.secret, tmp_path, server=tls_settings(tmp_path)) as rig,
        ):
            origin.store.create_bucket("bucket")
            secure = f"https://127.0.0.1:{rig.worker.tls_address[1]}"
            trust = ssl.create_default_context(cafile=authority.file)
            for client in (rig.client(), RawClient(secure, TRAINER, tls=trust)):
                async with await client.open() as connection:
                    put = client.sign("PUT", path_of("bucket", "key"), (), body)
                    await _send(connection, put.wire[: -len(body)], body[:-1])
                    await run_loop_until(lambda: _is_receiving(rig))
                    await connection.send(body[-1:])
                    assert (await connection.answer()).status == 200
                    await connection.send(client.sign("GET", path_of("bucket", "key")).wire)
                    assert (await connection.answer()).body == body

    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(dialogue())


async def test_a_client_that_leaves_in_a_large_body_leaves_no_memory_behind(tmp_path: Path) -> None:
    body = os.urandom(LEAST * 3)
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path) as rig:
        origin.store.create_bucket("bucket")
        client = rig.client()
        async with await client.open() as connection:
            put = client.sign("PUT", path_of("bucket", "key"), (), body)
            await _send(connection, put.wire[: -len(body)], body[: 2 * LEAST])
            await run_loop_until(lambda: _is_receiving(rig))
            assert rig.parts.storage.budget.in_use >= BUFFER
        await run_loop_until(lambda: rig.worker.listener.requests.is_idle)
        assert rig.parts.storage.budget.in_use == 0
        assert origin.store.current("bucket", "key") is None


async def test_without_memory_the_parser_receives_the_body(tmp_path: Path) -> None:
    body = os.urandom(LEAST * 3)
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path) as rig:
        origin.store.create_bucket("bucket")
        budget, taken = rig.parts.storage.budget, rig.parts.storage.budget.capacity - BUFFER + 1
        assert budget.try_acquire(taken)
        assert (await rig.client().request("PUT", path_of("bucket", "key"), (), body)).status == 200
        budget.release(taken)
        found = origin.store.current("bucket", "key")
        assert found is not None
        assert b"".join(found.content.views(0, found.content.size)) == body
