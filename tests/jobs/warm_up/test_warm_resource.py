"""Warm-ups over the data port: of what the sender may read, and of no more."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from forebay.jobs.warm_up.warm_resource import MAX_JOBS
from forebay_client import AccessDenied, AsyncClient, InvalidRequest, ServiceUnavailable, WarmHandle
from forebay_client.transport.object_request import ObjectRequest
from harness.fake import actions
from harness.fake.gate import Gate
from harness.fake_origin import FakeOrigin
from harness.reference_sigv4 import Secret
from harness.rig import READER, TRAINER, Rig

RULES = """\
[[rules]]
path = "**"
freshness = "immutable"

[[auth.keys]]
id = "owner"
secret = "owner-secret"
origin_access_key = "owner"
origin_secret_key = "owner"
grants = [{ path = "**", allow = ["read", "list"] }]
"""
OWNER = Secret("owner", "owner-secret")


def client_of(rig: Rig, secret: Secret = TRAINER) -> AsyncClient:
    return AsyncClient(rig.endpoint, access_key=secret.access, secret_key=secret.secret, retries=0)


@asynccontextmanager
async def twenty_objects(tmp_path: Path) -> AsyncIterator[tuple[FakeOrigin, Rig]]:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, rest=RULES) as rig:
        for number in range(10):
            origin.store.put_synthetic("data", f"open/{number}", 1000)
            origin.store.put_synthetic("data", f"closed/{number}", 1000)
        yield origin, rig


async def ended(rig: Rig, handle: WarmHandle) -> tuple[str, int]:
    """How a job ended, and how many objects it has warmed."""
    await rig.parts.jobs.warm_ups.wait(handle.job)
    job = rig.parts.jobs.warm_ups.job(handle.job)
    assert job is not None
    return job.state, job.done


async def test_a_prefix_is_warmed(tmp_path: Path) -> None:
    async with twenty_objects(tmp_path) as (origin, rig), client_of(rig, READER) as client:
        handle = await client.warm("data", "open/")
        assert (handle.is_accepted, handle.dropped) == (True, 0)
        assert await ended(rig, handle) == ("done", 10)
        origin.log.reset()
        assert [item.error async for item in client.get_many("data", [f"open/{number}" for number in range(10)])] == (
            [None] * 10
        )
        assert origin.log.count("GET") == 0


async def test_a_prefix_with_a_line_end_is_warmed(tmp_path: Path) -> None:
    async with twenty_objects(tmp_path) as (_, rig), client_of(rig, READER) as client:
        request = ObjectRequest("PUT", "data", ".forebay/warm/prefix", content=memoryview(b"open/\n"))
        answer = await asyncio.to_thread(client.blocking.send_request, request)
        assert await ended(rig, WarmHandle("data", True, answer.headers["x-forebay-warm-job"])) == ("done", 10)


async def test_keys_that_may_not_be_read_are_left_out(tmp_path: Path) -> None:
    async with twenty_objects(tmp_path) as (origin, rig), client_of(rig, READER) as client:
        handle = await client.warm("data", ["open/1", "closed/1", "open/2", ".forebay/plans/x"])
        assert handle.dropped == 2
        assert await ended(rig, handle) == ("done", 2)
        assert origin.log.count("GET", key="closed/1") == 0


async def test_a_prefix_above_what_may_be_read_is_refused(tmp_path: Path) -> None:
    async with twenty_objects(tmp_path) as (_, rig), client_of(rig, READER) as client:
        for prefix in ("", "o", "closed/"):
            with pytest.raises(AccessDenied):
                await client.warm("data", prefix)
        assert rig.parts.jobs.warm_ups.jobs() == []


async def test_a_key_with_a_credential_of_its_own_warms_nothing(tmp_path: Path) -> None:
    async with twenty_objects(tmp_path) as (origin, rig), client_of(rig, OWNER) as client:
        origin.allow(OWNER)
        for objects in ("open/", ["open/1"]):
            with pytest.raises(AccessDenied):
                await client.warm("data", objects)
        assert rig.parts.jobs.warm_ups.jobs() == []


async def test_the_jobs_of_a_sender_are_bounded(tmp_path: Path) -> None:
    async with twenty_objects(tmp_path) as (origin, rig), client_of(rig) as client:
        origin.faults.add(actions.HoldRequest(gate := Gate()), operation="ListObjectsV2")
        first = [await client.warm("data", f"open/{number}") for number in range(MAX_JOBS)]
        assert (await client.warm("data", "open/0")).job == first[0].job, "the same prefix is the same job"
        with pytest.raises(ServiceUnavailable) as caught:
            await client.warm("data", "closed/")
        assert caught.value.code == "SlowDown"
        gate.open()
        for handle in first:
            assert await ended(rig, handle) == ("done", 1)
        assert await ended(rig, await client.warm("data", "closed/")) == ("done", 10)


async def test_a_malformed_warm_up_is_refused(tmp_path: Path) -> None:
    async with twenty_objects(tmp_path) as (_, rig), client_of(rig) as client:
        for name, body in (
            ("soon", b""),
            ("prefix", b"\xff"),
            ("keys", b"a\n\xff\n"),
            ("keys", b"k" * 2000),
            ("keys", b"\n\n"),
        ):
            request = ObjectRequest("PUT", "data", f".forebay/warm/{name}", content=memoryview(body))
            with pytest.raises(InvalidRequest):
                await asyncio.to_thread(client.blocking.send_request, request)
        with pytest.raises(InvalidRequest) as caught:
            await asyncio.to_thread(
                client.blocking.send_request, ObjectRequest("DELETE", "data", ".forebay/warm/prefix")
            )
        assert caught.value.code == "MethodNotAllowed"
        assert rig.parts.jobs.warm_ups.jobs() == []
