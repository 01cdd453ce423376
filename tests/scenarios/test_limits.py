"""Limits on the resources that one client, or all of them, can use; a refusal is an S3 error where a response can still
be sent."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest
from aiohttp.web_protocol import RequestHandler

from forebay.server.http.client_connection import ClientConnection
from harness.aws_chunked import Framing
from harness.clients import UNSIGNED_PAYLOAD, chunked, path_of
from harness.fake import actions
from harness.fake.gate import Gate
from harness.fake_origin import FakeOrigin
from harness.inspection import error_code, run_loop_until
from harness.manual_timers import ManualTimers
from harness.raw_connection import head_bytes
from harness.reference_sigv4 import Secret
from harness.rig import Rig

MIB = 1 << 20
TARGET = "/bucket/key"
PASSED_ON = '[[rules]]\npath = "**"\naccelerate = false\n'
PATIENCE = 8
"""Seconds that a test waits for what has to happen sooner."""


def limits(**values: str) -> str:
    return "[limits]\n" + "".join(f"{name} = {value}\n" for name, value in values.items())


HUGE = {
    "a long header": (("x-padding", "x" * 20_000),),
    "a very long header": (("x-padding", "x" * 2_000_000),),
    "many headers": tuple((f"x-padding-{number}", "x" * 1000) for number in range(40)),
    "very many headers": tuple((f"x-padding-{number}", "x") for number in range(5000)),
}


@pytest.mark.parametrize("name", HUGE)
async def test_a_head_that_is_too_large_is_refused(tmp_path: Path, name: str) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path) as rig:
        client = rig.client()
        request = client.sign("GET", TARGET)  # alone: signing the padding as well takes seconds
        request = replace(request, pairs=(*request.pairs, *HUGE[name]))
        async with await client.open() as connection, asyncio.timeout(PATIENCE):
            answer = await client.send(request, connection)
            if not answer.aborted:  # what is sent on after the refusal may reset the connection before it is read
                assert answer.status == 400
                assert error_code(answer) in {"RequestHeaderSectionTooLarge", "BadRequest"}
                assert await connection.ended()
        assert not [seen for seen in origin.log.requests if seen.bucket is not None]


async def test_a_target_that_is_too_long_is_refused(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path) as rig:
        answer = await rig.client().request("GET", f"{TARGET}?prefix={'x' * 20_000}")
        assert (answer.status, error_code(answer)) == (400, "RequestHeaderSectionTooLarge")


async def test_connection_over_the_limit_gets_slow_down(tmp_path: Path) -> None:
    async with (
        FakeOrigin() as origin,
        Rig(origin.endpoint, origin.secret, tmp_path, rest=limits(connections="2")) as rig,
    ):
        origin.store.put("bucket", "key", b"x")
        client = rig.client()
        async with await client.open() as one, await client.open() as two:
            for connection in (one, two):
                assert (await client.request("GET", TARGET, connection=connection)).status == 200
            async with await client.open() as three, asyncio.timeout(PATIENCE):
                answer = await three.answer()
                assert (answer.status, error_code(answer)) == (503, "SlowDown")
                assert await three.ended()
            assert (await client.request("GET", TARGET, connection=one)).status == 200


@pytest.mark.parametrize("sent", [b"", b"G", b"GET /bucket/key HTTP/1.1\r\nHost: x\r\nx-more: "])
async def test_a_head_that_does_not_come_ends_the_connection(tmp_path: Path, sent: bytes) -> None:
    rest, timers = limits(header_timeout='"0.1s"', idle_timeout='"1s"'), ManualTimers()
    async with (
        FakeOrigin() as origin,
        Rig(origin.endpoint, origin.secret, tmp_path, timers, rest=rest) as rig,
        await rig.client().open() as connection,
        asyncio.timeout(PATIENCE),
    ):
        await connection.send(sent)
        await _times_out(rig, timers, 0.1 if sent else 1.0)
        assert await connection.ended()


@pytest.mark.parametrize("sent", [b"", b"GET /bucket/key HTTP/1.1\r\nHost"])
async def test_an_idle_connection_is_ended(tmp_path: Path, sent: bytes) -> None:
    rest, timers = limits(header_timeout='"0.1s"', idle_timeout='"1s"'), ManualTimers()
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, timers, rest=rest) as rig:
        origin.store.put("bucket", "key", b"x")
        client = rig.client()
        async with await client.open() as connection, asyncio.timeout(PATIENCE):
            timers.advance(0.5)
            await client.request("GET", TARGET, connection=connection)  # it begins anew
            await connection.send(sent)
            await _times_out(rig, timers, 0.1 if sent else 1.0)
            assert await connection.ended()


async def _times_out(rig: Rig, timers: ManualTimers, seconds: float) -> None:
    """Let `seconds` pass for the one connection that waits for a request, and not be enough a moment before."""
    await timers.armed(seconds)
    await run_loop_until(lambda: any(isinstance(each, ClientConnection) and not each.is_busy for each in _open(rig)))
    timers.advance(0.99 * seconds)
    assert len(_open(rig)) == 1
    timers.advance(0.02 * seconds)


def _open(rig: Rig) -> list[RequestHandler]:
    return [each for each in rig.worker.listener.server.connections if each.transport is not None]


async def test_stalled_body_is_aborted(tmp_path: Path) -> None:
    async with (
        FakeOrigin() as origin,
        Rig(
            origin.endpoint, origin.secret, tmp_path, timers := ManualTimers(), rest=limits(body_timeout='"1s"')
        ) as rig,
    ):
        origin.store.put("bucket", "key", b"old")
        client = rig.client()
        request = client.sign("PUT", TARGET, (), b"x" * 100_000)
        async with await client.open() as connection, asyncio.timeout(PATIENCE):
            await connection.send(head_bytes("PUT", TARGET, request.pairs) + b"x" * 50_000)
            await timers.armed(1.0)
            timers.advance(1.0)
            answer = await connection.answer()
            assert (answer.status, error_code(answer), answer.headers["Connection"]) == (400, "RequestTimeout", "close")
        await origin.log.wait_idle()
        assert origin.store.get("bucket", "key").size == 3


@pytest.mark.parametrize("transfer", ["length", "chunked"])
async def test_client_that_sends_first_still_gets_the_error(tmp_path: Path, transfer: str) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path) as rig:
        client = rig.client(Secret("trainer", "wrong"))
        request = client.sign("PUT", TARGET, (), bytes(16 * MIB), payload=UNSIGNED_PAYLOAD)
        async with await client.open() as connection, asyncio.timeout(PATIENCE):
            await connection.send((chunked(request, MIB) if transfer == "chunked" else request).wire)
            answer = await connection.answer()
            assert (answer.status, error_code(answer)) == (403, "SignatureDoesNotMatch")
            assert await connection.ended()


async def test_client_that_reads_nothing_is_disconnected(tmp_path: Path) -> None:
    async with (
        FakeOrigin() as origin,
        Rig(
            *(origin.endpoint, origin.secret, tmp_path, timers := ManualTimers()),
            rest=PASSED_ON + limits(body_timeout='"1s"'),
        ) as rig,
    ):
        origin.store.put_synthetic("bucket", "key", 1 << 30)
        client = rig.client()
        async with await client.open(receive_buffer=4096) as connection, asyncio.timeout(PATIENCE):
            await connection.send(client.sign("GET", TARGET).wire)
            await connection.read_head()
            await run_loop_until(lambda: any(each.writing_paused for each in _open(rig)))
            timers.advance(1.0)
            await origin.log.wait_idle()


async def test_request_over_the_limit_gets_slow_down(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, rest=limits(requests="1")) as rig:
        origin.store.put("bucket", "key", b"x")
        gate, client = Gate(), rig.client()
        origin.faults.add(actions.HoldHead(gate), key="key")
        async with asyncio.TaskGroup() as group:
            first = group.create_task(client.request("GET", TARGET))
            await gate.reached()
            answer = await client.request("GET", "/bucket/other")
            assert (answer.status, error_code(answer), answer.headers["Retry-After"]) == (503, "SlowDown", "1")
            gate.open()
        assert first.result().status == 200


@pytest.mark.parametrize("framing", [None, Framing()], ids=["plain", "aws-chunked"])
async def test_a_body_that_is_too_large_is_refused_before_it_is_sent(tmp_path: Path, framing: Framing | None) -> None:
    async with (
        FakeOrigin() as origin,
        Rig(origin.endpoint, origin.secret, tmp_path, rest=limits(request_body='"1MiB"')) as rig,
    ):
        origin.store.create_bucket("bucket")
        client = rig.client()
        request = client.sign(
            "PUT", TARGET, (), b"x" * (MIB + 1), framing=framing, payload=None if framing else UNSIGNED_PAYLOAD
        )
        async with await client.open() as connection:
            await connection.send(head_bytes("PUT", TARGET, request.pairs))
            answer = await connection.answer()
        assert (answer.status, error_code(answer)) == (400, "EntityTooLarge")
        assert (await client.request("PUT", TARGET, (), b"x" * MIB)).status == 200


async def test_concurrent_origin_requests_are_bounded(tmp_path: Path) -> None:
    async with (
        FakeOrigin() as origin,
        Rig(origin.endpoint, origin.secret, tmp_path, origin="concurrency = 4") as rig,
    ):
        keys = [f"key{number}" for number in range(20)]
        for key in keys:
            origin.store.put("bucket", key, b"x")
        gate = Gate()
        origin.faults.add(actions.HoldHead(gate), bucket="bucket")
        async with asyncio.TaskGroup() as group:
            for key in keys:
                group.create_task(rig.client().request("GET", path_of("bucket", key)))
            for key in keys:
                group.create_task(rig.client().request("PUT", path_of("bucket", f"{key}.new"), (), b"x"))
            await gate.reached(5)
            gate.open()
        assert origin.log.high_water <= 6  # 4 reads, 1 write, and the readiness probe


async def test_origin_slot_holder_does_not_wait_for_memory(tmp_path: Path) -> None:
    """With one place and memory for one block, who has the one would otherwise wait for who has the other."""
    small, narrow = '[[rules]]\npath = "**"\nblock = "1MiB"\n', 'concurrency = 1\nmax_run = "1MiB"'
    async with (
        FakeOrigin() as origin,
        Rig(origin.endpoint, origin.secret, tmp_path, buffers="1MiB", origin=narrow, rest=small) as rig,
        asyncio.timeout(PATIENCE),
    ):
        for number in range(4):
            origin.store.put("bucket", f"key{number}", bytes(3 * MIB))
        async with asyncio.TaskGroup() as readers:
            found = [readers.create_task(rig.client().request("GET", f"{TARGET}{number}")) for number in range(4)]
        assert [(answer.result().status, len(answer.result().body)) for answer in found] == [(200, 3 * MIB)] * 4
