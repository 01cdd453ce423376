"""Uploads that drip, and readers that take little: they keep no turn at the origin, and no memory, that others need.

No time passes but by the timers of the listener: where a request of the others would have to wait for a dripping
client, the test fails by its patience.
"""

import asyncio
import time
from base64 import b64encode
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from hashlib import md5
from pathlib import Path
from typing import Final

import pytest

from harness.aws_chunked import Framing
from harness.clients import RawClient, RawRequest, chunked
from harness.fake_origin import FakeOrigin
from harness.inspection import error_code, run_loop_until
from harness.manual_timers import ManualTimers
from harness.raw_connection import RawConnection
from harness.reference_sigv4 import UNSIGNED_CHUNKS_TRAILER, Secret
from harness.rig import TRAINER, Rig
from security.oss_signers import OSS_SIGNERS

KIB, MIB = 1 << 10, 1 << 20
OTHER: Final = Secret("other", "other-secret")
WARM: Final = '[[rules]]\npath = "**"\nwarm_on_write = true\n'
PASSED_ON: Final = '[[rules]]\npath = "bucket/passed-on/**"\naccelerate = false\n'
KEYS: Final = """\
[[auth.keys]]
id = "other"
secret = "other-secret"
grants = [{ path = "**", allow = ["read", "write", "list", "delete"] }]
"""
PATIENCE: Final = 9
"""Seconds: less than a request waits for its turn."""


class Clients:
    """Connections with unfinished requests."""

    def __init__(self, rig: Rig) -> None:
        self.rig = rig
        self.connections: list[RawConnection] = []

    async def drip(self, request: RawRequest, sent: int) -> RawConnection:
        """Sends the head and `sent` bytes of the body. Returns once Forebay has received them."""
        connection = await self.rig.client().open()
        self.connections.append(connection)
        before = self.rig.worker.listener.requests.in_flight
        await connection.send(request.wire[: len(request.wire) - len(request.body) + sent])
        await run_loop_until(lambda: self.rig.worker.listener.requests.in_flight != before)
        return connection

    async def paced(self, count: int) -> None:
        """Runs the loop until so many uploads are on their way to the origin."""
        await run_loop_until(lambda: self.rig.parts.origins.of(None).writes.paced >= count)


@asynccontextmanager
async def serving(
    directory: Path, rules: str = "", timers: ManualTimers | None = None, **settings: str
) -> AsyncIterator[tuple[Rig, FakeOrigin, Clients]]:
    async with (
        FakeOrigin(smallest_part=1) as origin,
        Rig(origin.endpoint, origin.secret, directory, timers, rest=KEYS + rules, **settings) as rig,
    ):
        origin.store.put("bucket", "others", b"for the others")
        clients = Clients(rig)
        try:
            yield rig, origin, clients
        finally:
            for connection in clients.connections:
                connection.reset()
            async with asyncio.timeout(PATIENCE):
                await run_loop_until(lambda: rig.worker.listener.requests.is_idle)
                await rig.wait_idle()
            turns = (rig.parts.origins.of(None).reads, rig.parts.origins.of(None).writes)
            assert [(each.in_use, each.paced, each.waiting) for each in turns] == [(0, 0, 0)] * 2
            spools = (rig.parts.storage.spool, rig.parts.storage.upload_starts)
            assert [(len(each), each.in_use) for each in spools] == [(0, 0)] * 2
            async with asyncio.timeout(PATIENCE):  # a connection has its buffer until it has ended
                await run_loop_until(lambda: rig.parts.storage.budget.in_use == 0)


async def writes_succeed(client: RawClient) -> None:
    """Every kind of write succeeds without waiting for anybody's body."""
    async with asyncio.timeout(PATIENCE):
        copied = [("x-amz-copy-source", "/bucket/others")]
        initiated = await client.request("POST", "/bucket/parts?uploads")
        upload = initiated.body.partition(b"<UploadId>")[2].partition(b"<")[0].decode()
        part = await client.request("PUT", f"/bucket/parts?partNumber=1&uploadId={upload}", body=b"part")
        listed = f"<Part><PartNumber>1</PartNumber><ETag>{part.headers['ETag']}</ETag></Part>"
        completion = f"<CompleteMultipartUpload>{listed}</CompleteMultipartUpload>".encode()
        batch = b"<Delete><Object><Key>batch</Key></Object></Delete>"
        digest = [("Content-MD5", b64encode(md5(batch, usedforsecurity=False).digest()).decode())]
        answers = [
            initiated,
            part,
            await client.request("POST", f"/bucket/parts?uploadId={upload}", body=completion),
            await client.request("PUT", "/bucket/written", body=b"written"),
            await client.request("PUT", "/bucket/copy", copied),
            await client.request("DELETE", "/bucket/copy"),
            await client.request("POST", "/bucket?delete", digest, batch),
        ]
    assert [answer.status for answer in answers] == [200] * 5 + [204, 200]


def stored(origin: FakeOrigin) -> list[str]:
    return [key for key in origin.store.bucket("bucket").keys_from("") if key.startswith("drip")]


def put_of(client: RawClient, number: int, size: int) -> RawRequest:
    return client.sign("PUT", f"/bucket/drip-{number}", body=bytes(size), payload="UNSIGNED-PAYLOAD")


@pytest.mark.parametrize("count", [64, 1000])
async def test_small_uploads_that_drip_take_no_turn(tmp_path: Path, count: int) -> None:
    async with serving(tmp_path, buffers="8MiB") as (rig, origin, clients):
        for number in range(count):
            await clients.drip(put_of(rig.client(), number, MIB), 1 + number % 2000)
        await writes_succeed(rig.client(OTHER))
        await writes_succeed(rig.client())
        assert (rig.parts.origins.of(None).writes.in_use, stored(origin)) == (0, [])
        # Charged by what has come, not by what was announced: a cold read has the memory that it needs.
        assert 0 < rig.parts.storage.upload_starts.in_use <= count * 2000
        origin.store.put_synthetic("bucket", "cold", 4 * MIB)
        async with asyncio.timeout(PATIENCE):
            assert (await rig.client().request("GET", "/bucket/cold")).status == 200


async def test_a_small_upload_that_drips_to_its_end_succeeds(tmp_path: Path) -> None:
    async with serving(tmp_path) as (rig, origin, clients):
        body = bytes(range(256)) * 20
        request = rig.client().sign("PUT", "/bucket/key", body=body)
        connection = await clients.drip(request, 0)
        for at in range(len(body)):
            await connection.send(body[at : at + 1])
            await asyncio.sleep(0)
        assert (await connection.answer()).status == 200
        assert b"".join(origin.store.get("bucket", "key").content.views(0, len(body))) == body


async def test_a_small_body_that_proves_bad_is_never_sent(tmp_path: Path) -> None:
    async with serving(tmp_path) as (rig, origin, _):
        body = bytes(300 * KIB)
        answer = await rig.client().request("PUT", "/bucket/key", [("Content-MD5", "A" * 22 + "==")], body)
        assert (answer.status, error_code(answer)) == (400, "BadDigest")
        assert origin.log.matching("PUT") == []


async def test_large_uploads_that_drip_leave_turns_to_others(tmp_path: Path) -> None:
    async with serving(tmp_path) as (rig, origin, clients):
        for number in range(64):
            await clients.drip(put_of(rig.client(), number, 3 * MIB // 2), MIB + 300 * KIB)
        await clients.paced(36)
        await writes_succeed(rig.client(OTHER))
        await writes_succeed(rig.client())
        async with asyncio.timeout(PATIENCE):  # a large one, too, of another key
            assert (await rig.client(OTHER).send(put_of(rig.client(OTHER), 64, 3 * MIB))).status == 200
        assert (rig.parts.origins.of(None).writes.paced, stored(origin)) == (36, ["drip-64"])


def chunked_put(rig: Rig, number: int) -> RawRequest:
    return chunked(put_of(rig.client(), number, 3 * MIB // 2), KIB)


def framed_put(rig: Rig, number: int) -> RawRequest:
    framing = Framing(UNSIGNED_CHUNKS_TRAILER)
    return rig.client().sign("PUT", f"/bucket/drip-{number}", body=bytes(MIB), framing=framing)


def append(rig: Rig, number: int) -> RawRequest:
    offset = [("x-amz-write-offset-bytes", "0")]
    return rig.client().sign("PUT", f"/bucket/drip-{number}", offset, bytes(MIB))


def part_put(rig: Rig, number: int) -> RawRequest:
    return rig.client().sign("PUT", f"/bucket/drip?partNumber={number + 1}&uploadId=unknown", body=bytes(MIB))


def document_post(rig: Rig, _number: int) -> RawRequest:
    return rig.client().sign("POST", "/bucket/drip?uploadId=unknown", body=bytes(MIB))


REQUESTS: Final[list[Callable[[Rig, int], RawRequest]]] = [chunked_put, framed_put, append, part_put, document_post]


@pytest.mark.parametrize("request_of", REQUESTS)
async def test_every_form_of_small_upload_takes_no_turn(
    tmp_path: Path, request_of: Callable[[Rig, int], RawRequest]
) -> None:
    async with serving(tmp_path) as (rig, origin, clients):
        for number in range(64):
            await clients.drip(request_of(rig, number), 100)
        await writes_succeed(rig.client())
        assert (rig.parts.origins.of(None).writes.in_use, stored(origin)) == (0, [])


async def test_small_parts_that_drip_are_charged_as_they_arrive(tmp_path: Path) -> None:
    async with serving(tmp_path, WARM, buffers="8MiB") as (rig, origin, clients):
        sign = OSS_SIGNERS["SignedOssV4", "header"]
        for number in range(1, 41):
            target = f"/bucket/drip?partNumber={number}&uploadId=unknown"
            request = sign(TRAINER, "PUT", target, (), bytes(4 * MIB), time.time(), None)
            await clients.drip(request, 10)
        await writes_succeed(rig.client())
        assert rig.parts.storage.budget.in_use <= 40 * 10
        origin.store.put_synthetic("bucket", "cold", 4 * MIB)
        async with asyncio.timeout(PATIENCE):
            assert (await rig.client().request("GET", "/bucket/cold")).status == 200


async def test_slow_uploads_end_only_where_others_wait(tmp_path: Path) -> None:
    timers = ManualTimers()
    async with serving(tmp_path, "", timers, origin="concurrency = 16") as (rig, origin, clients):
        writes = rig.parts.origins.of(None).writes  # four, three of them paced, two of a key
        slow = [await clients.drip(put_of(rig.client(), number, 2 * MIB), MIB + 300 * KIB) for number in range(2)]
        await clients.paced(2)
        timers.advance(30)
        assert (writes.paced, writes.waiting) == (2, 0)  # both are slow, and nobody waits
        third = await clients.drip(put_of(rig.client(), 2, 2 * MIB), MIB + 300 * KIB)
        rest = bytes(2 * MIB - MIB - 300 * KIB)
        async with asyncio.timeout(PATIENCE), asyncio.TaskGroup() as group:
            answers = [group.create_task(connection.answer()) for connection in slow]
            await run_loop_until(lambda: writes.waiting > 0)  # not for the rest of its body, which would be whole
            with timers.flowing(0.5, lambda: writes.waiting):
                done, _ = await asyncio.wait(answers, return_when=asyncio.FIRST_COMPLETED)
            (ended,) = done
            assert (ended.result().status, error_code(ended.result())) == (400, "RequestTimeout")
            await third.send(rest)
            assert (await third.answer()).status == 200
            kept = answers.index(next(each for each in answers if not each.done()))
            await slow[kept].send(rest)
            assert (await answers[kept]).status == 200
        assert stored(origin) == sorted([f"drip-{kept}", "drip-2"])
        assert origin.store.get("bucket", f"drip-{kept}").size == 2 * MIB


async def test_slow_readers_of_passed_on_objects_leave_turns(tmp_path: Path) -> None:
    timers = ManualTimers()
    async with serving(tmp_path, PASSED_ON, timers, origin="concurrency = 16") as (rig, origin, clients):
        reads = rig.parts.origins.of(None).reads  # 16, 12 of them paced, 9 of a key
        origin.store.put_synthetic("bucket", "passed-on/large", 64 * MIB)
        origin.store.put_synthetic("bucket", "cold", 4 * MIB)
        client = rig.client()
        for _ in range(16):
            connection = await client.open(receive_buffer=4096)
            clients.connections.append(connection)
            await connection.send(client.sign("GET", "/bucket/passed-on/large").wire)
        await run_loop_until(lambda: reads.in_use + reads.waiting == 16)
        async with asyncio.timeout(PATIENCE):
            assert (await client.request("GET", "/bucket/cold")).status == 200
            assert (await rig.client(OTHER).request("GET", "/bucket?list-type=2")).status == 200
            assert reads.paced == 9
            with timers.flowing(0.5, lambda: reads.waiting):
                assert (await client.request("GET", "/bucket?list-type=2")).status == 200
