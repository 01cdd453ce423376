"""Flushes over the data port: they return when what was pending is at the origin, for whoever may see it."""

import asyncio
from pathlib import Path

import pytest

from forebay_client import AccessDenied, AsyncClient, ClientError, InvalidRequest, ObjectNotFound, ServiceUnavailable
from forebay_client.transport.object_request import ObjectRequest
from harness.fake import actions
from harness.fake.gate import Gate
from harness.fake_origin import FakeOrigin
from harness.reference_sigv4 import Secret
from harness.rig import READER, TRAINER
from harness.write_back_rig import WriteBackRig, at_origin

FLUSH = ".forebay/flush/"
OWN = Secret("own", "own-secret")
OWN_KEY = """
[[auth.keys]]
id = "own"
secret = "own-secret"
origin_access_key = "own-there"
origin_secret_key = "own-secret-there"
grants = [{ path = "**", allow = ["read", "write"] }]

"""


def client_of(rig: WriteBackRig, secret: Secret = TRAINER, dialect: str = "s3") -> AsyncClient:
    return AsyncClient(rig.endpoint, access_key=secret.access, secret_key=secret.secret, retries=0, dialect=dialect)


@pytest.mark.parametrize("dialect", ["s3", "oss"])
async def test_a_flush_returns_when_the_writes_have_arrived(tmp_path: Path, dialect: str) -> None:
    async with FakeOrigin() as origin, WriteBackRig(origin, tmp_path) as rig, client_of(rig, dialect=dialect) as client:
        await rig.prove()
        origin.faults.add(actions.HoldRequest(gate := Gate()), method="PUT", key="run/a")
        await client.put("ckpt", "run/a", b"first")
        await gate.reached()
        async with asyncio.TaskGroup() as group:
            flush = group.create_task(client.flush("ckpt", "run/"))
            await client.flush("ckpt", "else/")
            with pytest.raises(ServiceUnavailable, match="1 writes have not reached the origin"):
                await client.flush("ckpt", timeout=0)
            assert not flush.done()
            gate.open()
        assert at_origin(origin, "run/a") == b"first"


async def test_a_flush_waits_for_a_prefix_with_a_line_end(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, WriteBackRig(origin, tmp_path) as rig, client_of(rig) as client:
        await rig.prove()
        origin.faults.add(actions.HoldRequest(gate := Gate()), method="PUT", key="run/a")
        await client.put("ckpt", "run/a", b"first")
        await gate.reached()
        request = ObjectRequest("PUT", "ckpt", f"{FLUSH}new/0", content=memoryview(b"run/\n"))
        answer = await asyncio.to_thread(client.blocking.send_request, request)
        assert answer.headers["x-forebay-flush-left"] == "1"
        gate.open()


async def test_a_flush_ends_at_what_waits_for_a_person(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, WriteBackRig(origin, tmp_path) as rig, client_of(rig) as client:
        await rig.prove()
        origin.faults.add(actions.Respond(403, "AccessDenied"), key="a/refused")
        await client.put("ckpt", "a/refused", b"first")
        await client.put("ckpt", "a/behind", b"second")
        async with asyncio.timeout(15):  # of 20 that one request waits
            with pytest.raises(ServiceUnavailable, match=r"2 writes have not .* until an operator decides"):
                await client.flush("ckpt")


async def test_a_flush_needs_the_right_to_the_whole_prefix(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, WriteBackRig(origin, tmp_path) as rig, client_of(rig, READER) as client:
        await rig.prove()
        await client.flush("ckpt", "open/run/")
        for prefix in ("", "op", "run/"):
            with pytest.raises(AccessDenied):
                await client.flush("ckpt", prefix)


async def test_a_malformed_flush_is_refused(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, WriteBackRig(origin, tmp_path) as rig, client_of(rig) as client:
        await rig.prove()
        for name, body in (("soon", b""), ("new", b"\xff")):
            request = ObjectRequest("PUT", "ckpt", FLUSH + name, content=memoryview(body))
            with pytest.raises(InvalidRequest) as caught:
                await asyncio.to_thread(client.blocking.send_request, request)
            assert caught.value.code == "InvalidArgument"
        for method, status in (("DELETE", 405), ("GET", 404)):
            with pytest.raises(ClientError) as refused:
                await asyncio.to_thread(client.blocking.send_request, ObjectRequest(method, "ckpt", f"{FLUSH}new"))
            assert refused.value.status == status


async def test_a_flush_goes_on_with_the_same_writes(tmp_path: Path) -> None:
    """By what the request before has returned: the time on the node's clock, of 20 digits and more."""
    async with FakeOrigin() as origin, WriteBackRig(origin, tmp_path) as rig, client_of(rig) as client:
        await rig.prove()
        origin.faults.add(actions.HoldRequest(gate := Gate()), method="PUT", key="a/first")
        await client.put("ckpt", "a/first", b"1")
        await gate.reached()
        names, left = ["new"], list[str]()
        for _ in range(2):
            request = ObjectRequest("PUT", "ckpt", f"{FLUSH}{names[-1]}/0", content=memoryview(b""))
            response = await asyncio.to_thread(client.blocking.send_request, request)
            names.append(response.headers["x-forebay-flush-before"])
            left.append(response.headers["x-forebay-flush-left"])
            await client.put("ckpt", "a/later", b"2")
        assert (left, names[1], len(names[1])) == (["1", "1"], names[2], 20)
        gate.open()
        await client.flush("ckpt")


async def test_a_flush_of_no_bucket_is_refused(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, WriteBackRig(origin, tmp_path) as rig, client_of(rig) as client:
        with pytest.raises(ObjectNotFound) as refused:
            await client.flush("mistyped")
        assert refused.value.code == "NoSuchBucket"
        assert (refused.value.bucket, refused.value.key) == ("mistyped", None), "not the key of the resource"
        origin.faults.add(actions.Respond(403, "AccessDenied"), method="HEAD", key=None)
        await client.flush("mistyped")  # it may be there


async def test_a_key_with_its_own_credential_sees_no_pending_writes(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, WriteBackRig(origin, tmp_path, rest=OWN_KEY) as rig, client_of(rig, OWN) as own:
        await rig.prove()
        origin.faults.add(actions.HoldRequest(gate := Gate()), method="PUT", key="a/others")
        await rig.put("a/others", b"1")
        await gate.reached()
        request = ObjectRequest("PUT", "ckpt", f"{FLUSH}new/0", content=memoryview(b""))
        response = await asyncio.to_thread(own.blocking.send_request, request)
        shown = {name: value for name, value in response.headers.items() if name.startswith("x-forebay-flush-")}
        assert shown == {"x-forebay-flush-left": "0", "x-forebay-flush-held-up": "0"}
        await own.flush("ckpt")
        gate.open()
