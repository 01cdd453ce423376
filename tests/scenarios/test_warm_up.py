"""Warm-up jobs, ordered through the admin port."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import aiohttp

from harness.clients import path_of
from harness.fake import actions
from harness.fake.gate import Gate
from harness.fake_origin import FakeOrigin
from harness.rig import Rig
from harness.warm_orders import start_job

RULES = '[[rules]]\npath = "bucket/raw/**"\naccelerate = false\n'
Ask = Callable[..., Awaitable[tuple[int, Any]]]


async def admin(rig: Rig, method: str, path: str, body: object = None) -> tuple[int, Any]:
    async with (
        aiohttp.ClientSession() as session,
        session.request(method, f"{rig.admin}{path}", json=body if body is not None else {}) as answer,
    ):
        return answer.status, await answer.json()


async def start(rig: Rig, bucket: str = "bucket", **order: object) -> str:
    status, job = await admin(rig, "POST", "/v1/jobs", {"bucket": bucket, **order})
    assert status == 201, job
    return str(job["id"])


async def ended(rig: Rig, job_id: str) -> Any:
    await rig.parts.jobs.warm_ups.wait(job_id)
    async with aiohttp.ClientSession() as session, session.get(f"{rig.admin}/v1/jobs/{job_id}") as answer:
        assert answer.status == 200
        return await answer.json()


async def test_a_prefix_is_warmed_and_nothing_else(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path) as rig:
        keys = [f"set/a b/{number}" for number in range(30)]
        for key in (*keys, "other"):
            origin.store.put("bucket", key, key.encode() * 100)
        job = await ended(rig, await start(rig, prefix="set/"))
        assert (job["state"], job["listed"], job["done"], job["failed"]) == ("done", 30, 30, 0)
        gets = origin.log.count("GET", "GetObject")
        assert gets == 30
        for key in keys:
            answer = await rig.client().request("GET", path_of("bucket", key))
            assert (answer.body, answer.headers["x-forebay-cache"]) == (key.encode() * 100, "hit-memory")
        assert origin.log.count("GET", "GetObject") == gets
        answer = await rig.client().request("GET", "/bucket/other")
        assert answer.headers["x-forebay-cache"] == "miss"


async def test_key_list_is_warmed_and_failures_are_reported(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, rest=RULES) as rig:
        for key in ("a", "raw/b", "c"):
            origin.store.put("bucket", key, b"x" * 1000)
        origin.faults.add(actions.FORBIDDEN, key="c")
        job = await ended(rig, await start(rig, keys=["a", "raw/b", "c", "missing"]))
        assert (job["state"], job["done"], job["failed"]) == ("failed", 1, 3)
        reasons = {failure["key"]: failure["reason"] for failure in job["failures"]}
        assert reasons.keys() == {"raw/b", "c", "missing"}
        assert "accelerate" in reasons["raw/b"]
        assert "403" in reasons["c"]
        assert "404" in reasons["missing"]
        assert origin.log.count(key="raw/b") == 0


async def test_warm_up_respects_its_concurrency(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path) as rig:
        keys = [f"key{number}" for number in range(12)]
        for key in keys:
            origin.store.put("bucket", key, b"x")
        gate = Gate()
        origin.faults.add(actions.HoldHead(gate), operation="GetObject")
        origin.log.high_water = 0
        job_id = await start(rig, keys=keys, concurrency=3)
        await gate.reached(3)
        gate.open()
        assert (await ended(rig, job_id))["done"] == 12
        assert origin.log.high_water <= 4  # and the readiness probe


async def test_progress_is_reported_and_a_job_can_be_cancelled(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path) as rig:
        keys = [f"key{number}" for number in range(10)]
        for key in keys:
            origin.store.put("bucket", key, b"x" * 100)
        gate = Gate()
        origin.faults.add(actions.HoldHead(gate), operation="GetObject", skip=4)
        job_id = await start(rig, keys=keys, concurrency=1)
        await gate.reached()
        _, jobs = await admin(rig, "GET", "/v1/jobs")
        assert [(job["id"], job["state"], job["done"]) for job in jobs["jobs"]] == [(job_id, "running", 4)]
        status, job = await admin(rig, "DELETE", f"/v1/jobs/{job_id}")
        assert (status, job["state"], job["done"]) == (200, "cancelled", 4)
        gate.open()
        await rig.wait_idle()
        assert origin.log.count("GET", "GetObject") == 5
        for key in keys:
            assert (await rig.client().request("GET", path_of("bucket", key))).body == b"x" * 100


async def test_a_job_that_is_cancelled_before_it_has_begun(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path) as rig:
        warm_ups = rig.parts.jobs.warm_ups
        job = await warm_ups.cancel((await start_job(warm_ups, "bucket", keys=("key",))).id)
        assert job is not None
        assert (job.state, job.ended_at is not None, warm_ups.running) == ("cancelled", True, 0)


async def test_cached_blocks_are_not_fetched_again(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path) as rig:
        origin.store.put("bucket", "key", b"x" * (3 << 20))
        await rig.client().request("GET", "/bucket/key")
        await rig.wait_idle()
        before = origin.log.bytes_sent
        job = await ended(rig, await start(rig, keys=["key"]))
        assert (job["state"], job["done"]) == ("done", 1)
        assert origin.log.bytes_sent == before


async def test_truncated_listing_fails_the_job_and_keeps_its_blocks(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path) as rig:
        origin.store.put("bucket", "key", b"x")
        origin.faults.add(actions.FORBIDDEN, operation="ListObjectsV2")
        job = await ended(rig, await start(rig, prefix=""))
        assert (job["state"], job["done"]) == ("failed", 0)
        assert job["reason"] == "no listing: the origin answered AccessDenied"


async def test_a_missing_bucket_is_the_users_error(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path) as rig:
        job = await ended(rig, await start(rig, bucket="bukcet"))
        assert job["reason"] == "no listing: the origin answered NoSuchBucket, there is no such bucket"
        listed = await ended(rig, await start(rig, bucket="bukcet", keys=["key"]))
        assert listed["failures"] == [
            {"key": "key", "reason": "the origin answered 404 NoSuchBucket", "bucket": "bukcet"}
        ]
        assert rig.parts.context.metrics.total("forebay_origin_failures_total") == 0


async def test_what_does_not_fit_is_counted_by_tier(tmp_path: Path) -> None:
    tiers = {"memory": "16MiB", "ssd": "64MiB"}
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, **tiers) as rig:
        for number in range(20):
            origin.store.put_synthetic("bucket", f"set/{number:02}", 8 << 20)
        job = await ended(rig, await start(rig, prefix="set/"))
        assert (job["state"], job["listed"], job["done"], job["failed"]) == ("failed", 20, 20, 0)
        assert (job["fits"], job["not_kept"]) == (False, "the rest did not fit")
        assert 16 << 20 < job["capacity"] < 64 << 20
        _, page = await admin(rig, "GET", "/v1/cache?bucket=bucket&prefix=set/")
        whole = [each for each in page["objects"] if each["cached"] == each["size"]]
        assert 0 < job["kept"] == len(whole) < 20
        for counted, field in (("bytes_kept", "cached"), ("bytes_in_memory", "memory"), ("bytes_on_ssd", "ssd")):
            assert job[counted] == sum(each[field] for each in page["objects"])
        check = await ended(rig, await start(rig, prefix="set/", check=True))
        assert (check["kept"], check["bytes_kept"]) == (job["kept"], job["bytes_kept"])
        refused = await ended(rig, await start(rig, prefix="set/", if_fits=True))
        assert (refused["state"], refused["done"]) == ("failed", 0)


async def test_small_objects_are_on_the_ssd_when_their_job_ends(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, ssd="64MiB") as rig:
        for number in range(300):
            origin.store.put_synthetic("bucket", f"set/{number:03}", 20_000)
        job = await ended(rig, await start(rig, prefix="set/"))
        assert (job["state"], job["done"], job["kept"]) == ("done", 300, 300)
        assert job["bytes_on_ssd"] == 300 * 20_000


async def test_a_job_ends_with_the_worker(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path) as rig:
        origin.store.put("bucket", "key", b"x")
        gate = Gate()
        origin.faults.add(actions.HoldHead(gate), operation="GetObject")
        await start(rig, keys=["key"])
        await gate.reached()
        async with asyncio.timeout(60):
            await rig.stop()
