"""The fake itself: what the conformance suite can't ask of a real store. Log, listener, foreign writer, switches."""

import asyncio
import gc
import socket
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

from forebay.core.byte_ranges import Span
from harness.clients import RawClient
from harness.fake.actions import HoldHead
from harness.fake.gate import Gate
from harness.fake_origin import FakeOrigin
from harness.reference_sigv4 import Secret

TEN_GIB = 10 << 30


async def test_requests_are_counted(fake: FakeOrigin, client: RawClient) -> None:
    fake.store.put("bucket", "k", b"0123456789")
    async with await client.open() as connection:
        await client.request("GET", "/bucket/k", [("Range", "bytes=0-3")], connection=connection)
        await client.request("HEAD", "/bucket/k", connection=connection)
        await client.request("GET", "/bucket/other?x-id=GetObject", connection=connection)
    assert fake.log.count() == 3
    assert fake.log.count("GET", key="k") == 1
    assert fake.log.count(operation="HeadObject") == 1
    assert fake.log.ranges("k") == ["bytes=0-3"]
    first, second, third = fake.log.requests
    assert (first.status, first.bytes_sent, first.headers["Range"], first.finished) == (206, 4, "bytes=0-3", True)
    assert (second.status, second.bytes_sent) == (200, 0)
    assert (third.target, third.bucket, third.key, third.status) == (
        "/bucket/other?x-id=GetObject",
        "bucket",
        "other",
        404,
    )
    assert first.connection == third.connection
    assert fake.log.connections == 1
    fake.log.reset()
    assert (fake.log.count(), fake.log.requests, fake.log.bytes_sent) == (0, [], 0)


async def test_the_high_water_mark_of_concurrency(fake: FakeOrigin, client: RawClient) -> None:
    fake.store.put("bucket", "k", b"x")
    fake.faults.add(HoldHead(gate := Gate()))
    async with asyncio.TaskGroup() as group:
        for _ in range(5):
            group.create_task(client.request("GET", "/bucket/k"))
        await gate.reached(5)
        assert (fake.log.concurrent, fake.log.high_water) == (5, 5)
        assert fake.log.requests[0].status is None
        gate.open()
    await fake.log.wait_idle()
    assert (fake.log.concurrent, fake.log.high_water) == (0, 5)


@pytest.mark.parametrize("turns", range(6))
async def test_a_connection_that_comes_as_it_ends_is_closed(turns: int) -> None:
    """asyncio leaves a socket open whose listener is closed before it has a transport; the collector finds it."""
    with warnings.catch_warnings(record=True) as unclosed:
        warnings.simplefilter("always", ResourceWarning)
        async with FakeOrigin() as origin:
            with socket.create_connection(("127.0.0.1", origin.port)):
                for _ in range(turns):
                    await asyncio.sleep(0)
                await origin.refuse()
        for _ in range(3):
            await asyncio.sleep(0)
        gc.collect()
    assert [str(each.message) for each in unclosed] == []


async def test_a_test_waits_for_a_request(fake: FakeOrigin, client: RawClient) -> None:
    fake.store.put("bucket", "k", b"x")
    async with asyncio.TaskGroup() as group:
        group.create_task(client.request("GET", "/bucket/k"))
        await fake.log.wait_for(1, "GET", key="k")
    assert fake.log.count("GET") == 1


async def test_the_foreign_writer(fake: FakeOrigin, client: RawClient) -> None:
    fake.store.put("bucket", "k", b"one", content_type="text/plain", x_amz_meta_colour="blue")
    before = await client.request("GET", "/bucket/k")
    assert (before.body, before.headers["Content-Type"], before.headers["x-amz-meta-colour"]) == (
        b"one",
        "text/plain",
        "blue",
    )
    fake.store.put("bucket", "k", b"two")
    pinned = await client.request("GET", "/bucket/k", [("If-Match", before.headers["ETag"])])
    assert pinned.status == 412
    assert (await client.request("GET", "/bucket/k")).body == b"two"
    fake.store.delete("bucket", "k")
    assert (await client.request("GET", "/bucket/k")).status == 404


async def test_ten_gibibytes(fake: FakeOrigin, client: RawClient) -> None:
    content = fake.store.put_synthetic("bucket", "big", TEN_GIB, seed=3)
    head = await client.request("HEAD", "/bucket/big")
    assert head.headers["Content-Length"] == str(TEN_GIB)
    answer = await client.request("GET", "/bucket/big", [("Range", f"bytes={TEN_GIB - 3_000_001}-")])
    assert answer.body == content.expected(Span(TEN_GIB - 3_000_001, TEN_GIB))


async def test_refused_and_accepted_again_on_the_same_port(fake: FakeOrigin, client: RawClient) -> None:
    fake.store.put("bucket", "k", b"x")
    async with await client.open() as kept:
        assert (await client.request("GET", "/bucket/k", connection=kept)).status == 200
        await fake.refuse()
        with pytest.raises(ConnectionRefusedError):
            await client.request("GET", "/bucket/k")
        assert (await client.request("GET", "/bucket/k", connection=kept)).status == 200
        port = fake.port
        with socket.socket() as other, pytest.raises(OSError, match="in use"):
            other.bind(("127.0.0.1", port))
        await fake.listen()
        assert fake.port == port
        assert (await client.request("GET", "/bucket/k")).status == 200


async def test_idle_connections_are_closed_on_command(fake: FakeOrigin, client: RawClient) -> None:
    fake.store.put("bucket", "k", b"x")
    fake.faults.add(HoldHead(gate := Gate()), skip=1)
    async with await client.open() as idle, await client.open() as busy:
        assert (await client.request("GET", "/bucket/k", connection=idle)).status == 200
        async with asyncio.TaskGroup() as group:
            held = group.create_task(client.request("GET", "/bucket/k", connection=busy))
            await gate.reached()
            assert fake.disconnect() == 1
            assert await idle.ended()
            gate.open()
        assert held.result().status == 200


async def test_verification_can_be_switched_off() -> None:
    async with FakeOrigin(verify=False) as fake:
        fake.store.put("bucket", "k", b"x")
        client = RawClient(fake.endpoint, Secret("nobody", "nothing"))
        assert (await client.request("GET", "/bucket/k")).body == b"x"
        assert (await client.unsigned("GET", "/bucket/k")).body == b"x"


async def test_session_tokens() -> None:
    secret = Secret("temporary", "secret", token="token")
    async with FakeOrigin(secrets=[secret]) as fake:
        fake.store.put("bucket", "k", b"x")
        good, bad = RawClient(fake.endpoint, secret), RawClient(fake.endpoint, Secret("temporary", "secret"))
        assert (await good.request("GET", "/bucket/k")).status == 200
        assert (await good.unsigned("GET", good.presign("GET", "/bucket/k"))).status == 200
        assert (await bad.request("GET", "/bucket/k")).status == 400


async def test_virtual_hosts() -> None:
    async with FakeOrigin(domain="s3.test") as fake:
        fake.store.put("bucket", "a/b", b"x")
        client = RawClient(fake.endpoint, fake.secret, host="bucket.s3.test")
        assert (await client.request("GET", "/a/b")).body == b"x"


async def test_expect_100_continue(fake: FakeOrigin, client: RawClient) -> None:
    fake.store.create_bucket("bucket")
    request = client.sign("PUT", "/bucket/k", [("Expect", "100-continue")], b"body")
    async with await client.open() as connection:
        await connection.send(request.wire[: -len(request.body)])
        assert (await connection.read_head("100-continue")).status == 100
        await connection.send(request.body)
        assert (await connection.answer("PUT")).status == 200
    assert fake.store.get("bucket", "k").size == 4


async def test_smaller_parts_where_a_test_wants_them() -> None:
    async with FakeOrigin(smallest_part=1) as fake:
        fake.store.create_bucket("bucket")
        client = RawClient(fake.endpoint, fake.secret)
        upload = (await client.request("POST", "/bucket/k?uploads=")).body.split(b"UploadId>")[1][:-2].decode()
        parts = ""
        for number in (1, 2):
            sent = await client.request("PUT", f"/bucket/k?partNumber={number}&uploadId={upload}", body=b"x")
            parts += f"<Part><PartNumber>{number}</PartNumber><ETag>{sent.headers['ETag']}</ETag></Part>"
        manifest = f"<CompleteMultipartUpload>{parts}</CompleteMultipartUpload>".encode()
        assert (await client.request("POST", f"/bucket/k?uploadId={upload}", body=manifest)).status == 200
        assert fake.store.get("bucket", "k").part_sizes == (1, 1)


async def test_as_a_process() -> None:
    command = [
        sys.executable,
        "-m",
        "harness.fake",
        "--no-verify",
        "--stored",
        "bucket/k:4KiB",
        "--synthetic",
        "bucket/s:2GiB:5",
    ]
    tests = Path(__file__).parent.parent
    environment = {"PYTHONPATH": str(tests.parent / "proxy")}
    process = await asyncio.create_subprocess_exec(
        *command, cwd=tests, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        endpoint = (await process.stdout.readline()).decode().strip()
        client = RawClient(endpoint, Secret("a", "b"))
        assert len((await client.request("GET", "/bucket/k")).body) == 4096
        assert (await client.request("HEAD", "/bucket/s")).headers["Content-Length"] == str(2 << 30)
    finally:
        process.terminate()
        _, errors = await process.communicate()
    assert (process.returncode, errors) == (0, b"")
