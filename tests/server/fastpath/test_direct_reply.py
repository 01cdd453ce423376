"""The direct reply: its framing, and that a short body is never taken for a whole one."""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from forebay.core.fair_semaphore import FairSemaphore, SemaphoreShare
from forebay.core.request_record import RequestRecord
from forebay.server.fastpath.direct_reply import ENCRYPTED_SIZE, TAIL_SIZE, UNSENT_ENCRYPTED, DirectReply
from harness.clients import path_of
from harness.fake.actions import HoldAfter, HoldHead
from harness.fake.gate import Gate
from harness.fake_origin import FakeOrigin
from harness.rig import Rig

COLD = path_of("b", "cold")


class FakeConnection:
    """A connection and its transport in one. `accepted`: bytes that the client accepts at once from now on."""

    def __init__(self, *, secure: bool = False, accepted: int = 1 << 30) -> None:
        self.transport: Any = self
        self.content = b""
        self.written: list[bytes | memoryview] = []
        self.writing_paused = False
        self.aborted = False
        self.secure = secure
        self.accepted = accepted
        self.unsent = SemaphoreShare(FairSemaphore(1 << 20), 2)

    def is_closing(self) -> bool:
        return False

    def write(self, data: bytes | memoryview) -> None:
        self.content += data
        self.written.append(data)
        self.accepted -= len(data)
        self.writing_paused = self.accepted < 0

    def writelines(self, pieces: Sequence[bytes | memoryview]) -> None:
        for piece in pieces:
            self.write(piece)

    def write_now(self, pieces: Sequence[bytes | memoryview]) -> int:
        assert not self.secure
        data = b"".join(pieces)[: max(0, self.accepted)]
        self.content += data
        self.accepted -= len(data)
        return len(data)

    def set_write_buffer_limits(self, high: int, low: int) -> None:
        assert (self.secure, high, low) == (True, 1, 0)

    def abort(self) -> None:
        self.aborted = True

    async def drain(self) -> None:
        raise ConnectionAbortedError


def _reply(connection: FakeConnection, method: str = "GET", is_last: Callable[[], bool] = lambda: False) -> DirectReply:
    record = RequestRecord(method, 0.0, "0" * 16)
    return DirectReply(connection, record, is_last, (), is_head=method == "HEAD")


async def _answer(
    connection: FakeConnection, reply: DirectReply, status: int, length: int | None, *body: bytes
) -> tuple[str, bytes]:
    await reply.start(status, (("ETag", '"a"'),), length)
    for piece in body:
        await reply.write(piece)
    await reply.finish()
    head, _, content = connection.content.partition(b"\r\n\r\n")
    return head.decode(), content


async def test_a_body_is_framed_by_whether_its_length_is_known() -> None:
    connection = FakeConnection()
    head, body = await _answer(connection, _reply(connection), 206, 3, b"ab", b"c")
    assert head.startswith("HTTP/1.1 206 Partial Content\r\nETag: ")
    assert body == b"abc"
    assert "Content-Length: 3" in head
    assert "Content-Type: application/octet-stream" in head
    assert "Connection" not in head

    connection = FakeConnection()
    head, body = await _answer(connection, _reply(connection), 200, None, b"ab", b"", b"c" * 17)
    assert "Transfer-Encoding: chunked" in head
    assert "Content-Length" not in head
    assert body == b"2\r\nab\r\n11\r\nccccccccccccccccc\r\n0\r\n\r\n"


@pytest.mark.parametrize(("method", "status", "length"), [("HEAD", 200, 3), ("GET", 304, None), ("HEAD", 200, None)])
async def test_only_head_announces_a_length_without_a_body(method: str, status: int, length: int | None) -> None:
    connection = FakeConnection()
    head, body = await _answer(connection, _reply(connection, method), status, length)
    assert body == b""
    assert "Transfer-Encoding" not in head
    assert ("Content-Length: 3" in head) == (length == 3)


async def test_the_last_response_of_a_connection_says_close() -> None:
    connection = FakeConnection()
    reply = _reply(connection, is_last=lambda: True)
    head, _ = await _answer(connection, reply, 200, 0)
    assert head.endswith("\r\nConnection: close")
    assert not reply.keep_alive


@pytest.mark.parametrize("value", ["a\r\nb: c", "a\nb", "a\rb", "a\0b"])
async def test_a_header_with_a_control_character_is_not_sent(value: str) -> None:
    connection = FakeConnection()
    reply = _reply(connection)
    with pytest.raises(ValueError, match="control character"):
        await reply.start(200, (("x-amz-meta-a", value),), 0)
    assert connection.content == b""
    assert not reply.started


async def test_a_body_shorter_than_announced_is_an_error() -> None:
    connection = FakeConnection()
    reply = _reply(connection)
    await reply.start(200, (), 3)
    await reply.write(b"ab")
    with pytest.raises(ConnectionError):
        await reply.finish()


async def test_a_client_that_stalls_or_has_left_gets_no_more() -> None:
    connection = FakeConnection()
    reply = _reply(connection)
    await reply.start(200, (), 3)
    connection.accepted = 0
    with pytest.raises(ConnectionAbortedError):
        await reply.write(b"a")
    connection.transport = None
    with pytest.raises(ConnectionResetError):
        await reply.write(b"b")
    reply.abort()
    assert reply.aborted


async def test_a_blocked_client_gets_a_copied_tail_and_no_reference_is_kept() -> None:
    connection = FakeConnection(accepted=100_000)
    reply, piece = _reply(connection), memoryview(bytearray(1 << 20))
    await reply.start(200, (), len(piece))
    count = reply.accept(piece)
    assert count == 100_000 - connection.content.index(b"\r\n\r\n") - 4 + TAIL_SIZE
    assert reply.is_blocked
    assert [type(written) for written in connection.written] == [bytes]
    connection.accepted, connection.writing_paused = 10, False
    assert reply.accept(piece) == 10 + TAIL_SIZE
    connection.accepted, connection.writing_paused = 1 << 30, False
    assert reply.accept(piece[:500]) == 500
    assert not reply.is_blocked


async def test_a_client_that_accepts_half_a_head_gets_it_whole() -> None:
    connection = FakeConnection(accepted=20)
    reply = _reply(connection)
    await reply.start(200, (), 5)
    assert reply.accept(memoryview(b"abcde")) == 5
    assert connection.content.partition(b"\r\n\r\n")[2] == b"abcde"
    assert connection.content.count(b"HTTP/1.1 200") == 1


async def test_tls_encrypts_little_at_once_and_charges_what_waits() -> None:
    connection = FakeConnection(secure=True, accepted=0)
    reply, piece = _reply(connection), memoryview(bytearray(1 << 20))
    await reply.start(200, (), len(piece))
    assert reply.accept(piece) == ENCRYPTED_SIZE
    charged: list[int] = []

    async def drain() -> None:
        charged.append(connection.unsent.in_use)

    connection.drain = drain  # type: ignore[method-assign] # an instance of a fake
    await reply.drain()
    assert reply.accept(piece) == ENCRYPTED_SIZE
    assert connection.unsent.try_acquire(400 << 10)
    await reply.drain()
    assert charged == [UNSENT_ENCRYPTED, 400 << 10]
    assert reply.accept(piece) == TAIL_SIZE  # no room for more that waits
    connection.unsent.release(400 << 10)
    assert connection.unsent.in_use == 0


async def test_requests_behind_a_read_wait_and_are_answered(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path) as rig:
        origin.store.put("b", "cold", b"cold")
        origin.store.put("b", "up", b"")
        client, gate = rig.client(), Gate()
        origin.faults.add(HoldHead(gate), key="cold", method="GET")
        async with await client.open() as connection:
            await connection.send(client.sign("GET", COLD).wire)
            await origin.log.wait_for(1, "GET", key="cold")
            # One of each kind: a hit by then, a request with a body, and one that aiohttp must refuse.
            await connection.send(client.sign("GET", COLD).wire)
            await connection.send(client.sign("PUT", path_of("b", "up"), (), b"new").wire)
            await connection.send(b"GET / HTTP/9.9\r\n\r\n")
            gate.open()
            answers = [await connection.answer() for _ in range(4)]
            assert [answer.status for answer in answers] == [200, 200, 200, 400]
            assert [answer.body for answer in answers[:2]] == [b"cold", b"cold"]
            caches = [dict(answer.pairs).get("x-forebay-cache") for answer in answers[:2]]
            assert caches == ["miss", "hit-memory"]


async def test_draining_waits_for_a_read_and_ends_the_connection(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path) as rig:
        origin.store.put("b", "cold", b"cold" * 1000)
        client, gate = rig.client(), Gate()
        origin.faults.add(HoldAfter(100, gate), key="cold", method="GET")
        listener = rig.worker.listener
        async with await client.open() as connection, asyncio.TaskGroup() as group:
            await connection.send(client.sign("GET", COLD).wire)
            await origin.log.wait_for(1, "GET", key="cold")
            assert listener.requests.in_flight == 1
            draining = group.create_task(listener.drain(60.0, asyncio.Event()))
            await asyncio.sleep(0)
            gate.open()
            answer = await connection.answer()
            assert answer.body == b"cold" * 1000
            assert await draining
            assert await connection.ended()


async def test_closing_breaks_off_reads_under_way(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path) as rig:
        origin.store.put("b", "cold", b"cold")
        client, gate = rig.client(), Gate()
        origin.faults.add(HoldHead(gate), key="cold", method="GET")
        listener = rig.worker.listener
        async with await client.open() as connection:
            await connection.send(client.sign("GET", COLD).wire)
            await origin.log.wait_for(1, "GET", key="cold")
            await listener.close()
            assert listener.requests.in_flight == 0
            assert await connection.ended()
        gate.open()
