"""The listener: kept and ended connections, requests one after the other, refusals, and drains."""

import asyncio
import json
import logging
import random
from pathlib import Path

import pytest

from forebay.server.http.body_receiver import LEAST
from harness.clients import chunked
from harness.fake import actions
from harness.fake.gate import Gate
from harness.fake_origin import FakeOrigin
from harness.inspection import run_loop_until
from harness.manual_timers import ManualTimers
from harness.raw_connection import head_bytes
from harness.rig import READER, Rig

TARGET = "/bucket/key"


async def test_a_connection_serves_requests_one_after_another(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path) as rig:
        origin.store.create_bucket("bucket")
        client = rig.client()
        async with await client.open() as connection:
            for method, target, body, status in (
                ("PUT", TARGET, b"x" * 100_000, 200),
                ("HEAD", TARGET, b"", 200),
                ("GET", TARGET, b"", 200),
                ("GET", "/bucket/nothing", b"", 404),
                ("HEAD", "/bucket/nothing", b"", 404),
                ("GET", "/bucket?versions", b"", 200),
                ("DELETE", TARGET, b"", 204),
                ("GET", TARGET, b"", 404),
            ):
                answer = await client.request(method, target, (), body, connection=connection)
                assert (answer.status, answer.aborted) == (status, False), (method, target)
        assert rig.worker.listener.connections <= 1


async def test_pipelined_requests_are_answered_in_order(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path) as rig:
        client, keys = rig.client(), [f"key{number}" for number in range(6)]
        for key in keys:
            origin.store.put("bucket", key, key.encode())
        await client.request("GET", "/bucket/key3")
        gate = Gate()
        origin.faults.add(actions.HoldHead(gate), key="key0")
        async with await client.open() as connection:
            await connection.send(b"".join(client.sign("GET", f"/bucket/{key}").wire for key in keys))
            await gate.reached()
            gate.open()
            assert [(await connection.answer()).body for _ in keys] == [key.encode() for key in keys]


@pytest.mark.parametrize("line", [b"GET /bucket/key HTTP/2.0", b"GET /bucket/key HTTP/1.9", b"nonsense"])
async def test_the_refusal_of_a_malformed_request_is_forebays(tmp_path: Path, line: bytes) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path) as rig:
        reader, writer = await asyncio.open_connection("127.0.0.1", rig.worker.address[1])
        writer.write(line + b"\r\nHost: h\r\n\r\n")
        answer = await reader.read()
        assert b" 405 Method" in answer or b" 400 Bad" in answer
        assert b"\r\nServer: Forebay\r\n" in answer
        writer.close()


@pytest.mark.parametrize("protocol", ["h2c", "websocket"])
async def test_bytes_behind_an_upgrade_are_no_request(tmp_path: Path, protocol: str) -> None:
    """Clients of HTTP/2 ask for it so, by a request of its own, and go on in HTTP/1.1."""
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path) as rig:
        origin.store.put("bucket", "key", b"bytes")
        client = rig.client()
        upgrade = client.sign("GET", "/bucket/key", (("Connection", "Upgrade"), ("Upgrade", protocol))).wire
        inner = client.sign("DELETE", "/bucket/key").wire
        put = client.sign("PUT", "/bucket/other", (), inner)
        async with await client.open() as connection, asyncio.timeout(60):
            for _ in range(2):
                await connection.send(upgrade)
                assert (await connection.answer()).body == b"bytes"
            await connection.send(upgrade + put.wire[: -len(inner)])
            answer = await connection.answer()
            assert (answer.body, answer.headers["Connection"]) == (b"bytes", "close")
            assert await connection.ended()
        assert [seen.method for seen in origin.log.requests if seen.bucket is not None] == ["GET"]


async def test_a_refused_body_is_not_read_as_the_next_request(tmp_path: Path) -> None:
    timers = ManualTimers()
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, timers) as rig:
        origin.store.put("bucket", "open/key", b"x")
        client = rig.client(READER)
        inner = client.sign("GET", "/bucket/open/key").wire
        request = client.sign("PUT", TARGET, (), inner * 1000)
        async with await client.open() as connection, asyncio.timeout(60):
            await connection.send(head_bytes("PUT", TARGET, request.pairs) + inner)
            answer = await connection.answer()
            assert (answer.status, answer.headers["Connection"]) == (403, "close")
            await connection.send(inner * 10)
            with timers.flowing(1.0):
                assert await connection.ended()


@pytest.mark.parametrize(
    ("sent", "code", "limits"),
    [
        (b"GET / HTTP/1.1\r\nHost x\r\n\r\n", "BadRequest", ""),
        (b"GET /%b HTTP/1.1\r\nHost: x\r\n\r\n" % (b"x" * 20_000), "RequestHeaderSectionTooLarge", ""),
        (b"GET / HTTP/1.1\r\n%b\r\n" % (b"x-padding: x\r\n" * 200), "RequestHeaderSectionTooLarge", ""),
        (b"GET / HTTP/1.1\r\n", "SlowDown", "[limits]\nconnections = 1\n"),
    ],
)
async def test_refused_connections_have_an_id_and_a_log_line(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, sent: bytes, code: str, limits: str
) -> None:
    caplog.set_level(logging.INFO)
    async with (
        FakeOrigin() as origin,
        Rig(origin.endpoint, origin.secret, tmp_path, rest=limits) as rig,
        asyncio.timeout(60),
        await rig.client().open() as first,
    ):
        await rig.client().request("GET", TARGET, connection=first)
        async with await rig.client().open() as connection:
            await connection.send(sent)
            answer = await connection.answer()
    line = next(line for line in map(json.loads, rig.access_lines()) if line.get("error") == code)
    assert f"<Code>{code}</Code>".encode() in answer.body
    request_id = answer.headers["x-amz-request-id"]
    assert f"<RequestId>{request_id}</RequestId>".encode() in answer.body
    assert (line["id"], line["peer"], line["method"]) == (request_id, "127.0.0.1", "")
    assert (f"{request_id}: SlowDown: limits.connections are open" in caplog.messages) == (code == "SlowDown")


async def test_connection_close_ends_the_connection(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path) as rig:
        origin.store.put("bucket", "key", b"x")
        client = rig.client()
        for _ in ("cold", "warm"):
            async with await client.open() as connection, asyncio.timeout(60):
                answer = await client.request("GET", TARGET, (("Connection", "close"),), connection=connection)
                assert answer.body == b"x"
                assert await connection.ended()


async def test_a_stop_finishes_requests_and_closes_their_connections(tmp_path: Path) -> None:
    async with FakeOrigin() as origin:
        rig = Rig(origin.endpoint, origin.secret, tmp_path)
        rig.configuration = rig.configuration.replace('drain_timeout = "5s"', 'drain_timeout = "60s"')
        await rig.start()
        origin.store.put("bucket", "key", b"x")
        gate, client = Gate(), rig.client()
        origin.faults.add(actions.HoldHead(gate), key="key")
        async with await client.open() as busy, await client.open() as idle, asyncio.timeout(60):
            assert (await client.request("GET", "/bucket/nothing", connection=idle)).status == 404
            await busy.send(client.sign("GET", TARGET).wire)
            await gate.reached()
            async with asyncio.TaskGroup() as group:
                group.create_task(rig.stop())
                assert await idle.ended()
                gate.open()
                answer = await busy.answer()
                assert (answer.body, answer.headers["Connection"]) == (b"x", "close")
                assert await busy.ended()


@pytest.mark.parametrize("size", [100_000, 3 * LEAST])
@pytest.mark.parametrize("sent", [0, 2000])
@pytest.mark.parametrize("is_chunked", [False, True])
async def test_a_stop_finishes_uploads_under_way(tmp_path: Path, size: int, sent: int, is_chunked: bool) -> None:
    """The rest of a body is received, whoever parses it, and the connection ends behind its answer."""
    content = random.Random(size).randbytes(size)
    async with FakeOrigin() as origin:
        rig = Rig(origin.endpoint, origin.secret, tmp_path)
        rig.configuration = rig.configuration.replace('drain_timeout = "5s"', 'drain_timeout = "60s"')
        await rig.start()
        origin.store.create_bucket("bucket")
        client, requests = rig.client(), rig.worker.listener.requests
        put = client.sign("PUT", TARGET, (), content, payload="UNSIGNED-PAYLOAD")
        wire = chunked(put).wire if is_chunked else put.wire
        sent += wire.index(b"\r\n\r\n") + 4
        async with await client.open() as connection, asyncio.timeout(30):
            await connection.send(wire[:sent])
            await run_loop_until(lambda: requests.in_flight == 1)
            async with asyncio.TaskGroup() as group:
                group.create_task(rig.stop())
                await run_loop_until(lambda: requests.is_draining)
                await connection.send(wire[sent:])
                answer = await connection.answer("PUT")
                assert (answer.status, answer.headers["Connection"]) == (200, "close")
                assert await connection.ended()
        stored = origin.store.current("bucket", "key")
        assert stored is not None
        assert b"".join(stored.content.views(0, size)) == content


@pytest.mark.parametrize("method", ["GET", "PUT"])
async def test_a_stop_ends_with_its_timeout(tmp_path: Path, method: str) -> None:
    async with FakeOrigin() as origin:
        timers = ManualTimers()
        async with Rig(origin.endpoint, origin.secret, tmp_path, timers) as rig:
            origin.store.put("bucket", "key", b"x")
            gate, client = Gate(), rig.client()
            origin.faults.add(actions.HoldHead(gate), key="key")
            async with await client.open() as connection, asyncio.timeout(60):
                await connection.send(client.sign(method, TARGET, (), b"x" if method == "PUT" else b"").wire)
                await gate.reached()
                async with asyncio.TaskGroup() as group:
                    stopping = group.create_task(rig.worker.stop())
                    await run_loop_until(lambda: rig.worker.listener.requests.is_draining)
                    timers.advance(5.0)
                assert stopping.result() is False
                assert (await connection.answer()).aborted
            gate.open()
            rig._worker = None  # noqa: SLF001 # it has been stopped, and its request was not to end well
