"""The body receiver: a large body past aiohttp's parser is the same body, and its connection goes on."""

import asyncio
import os
import random
import ssl
from pathlib import Path

from aiohttp.streams import StreamReader
from hypothesis import given
from hypothesis import strategies as st

from forebay.server.event_loop import loop_factory
from forebay.server.http.body_receiver import BUFFER, FAST, LEAST, BodyReceiver
from harness.certificates import TestAuthority, install, tls_settings
from harness.clients import RawClient, path_of
from harness.fake_origin import FakeOrigin
from harness.inspection import run_loop_until
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
    assert all(isinstance(piece, memoryview) and piece.readonly for piece in receiving.pieces)


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
    receiver, body = BodyReceiver(connection, content, 300), os.urandom(300)
    receiver.get_buffer(-1)[:300] = body
    receiver.buffer_updated(300)
    assert connection.calls == ["pause reading", "ended"]
    piece: object = await content.readany()
    assert isinstance(piece, memoryview)
    assert piece == body
    assert connection.calls[-1] == "resume reading"


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
        assert rig.parts.budget.in_use == 0


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
            assert rig.parts.budget.in_use >= BUFFER
        await run_loop_until(lambda: rig.worker.listener.requests.is_idle)
        assert rig.parts.budget.in_use == 0
        assert origin.store.current("bucket", "key") is None


async def test_without_memory_the_parser_receives_the_body(tmp_path: Path) -> None:
    body = os.urandom(LEAST * 3)
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path) as rig:
        origin.store.create_bucket("bucket")
        budget, taken = rig.parts.budget, rig.parts.budget.capacity - BUFFER + 1
        assert budget.try_acquire(taken)
        assert (await rig.client().request("PUT", path_of("bucket", "key"), (), body)).status == 200
        budget.release(taken)
        found = origin.store.current("bucket", "key")
        assert found is not None
        assert b"".join(found.content.views(0, found.content.size)) == body
