"""The CORS rules of buckets: kept for a minute, fetched few at a time."""

import asyncio
from pathlib import Path

from forebay.request.bucket_cors import LIFETIME, MAX_FETCHES, BucketCors
from harness.fake import actions
from harness.fake.gate import Gate
from harness.fake_origin import FakeOrigin
from harness.inspection import run_loop_until
from harness.rig import Rig

RULES = b"<CORSConfiguration><CORSRule><AllowedOrigin>*</AllowedOrigin></CORSRule></CORSConfiguration>"


def fetches(origin: FakeOrigin) -> int:
    return origin.log.count("GET", "GetBucketCors")


async def test_rules_are_kept_for_a_minute(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path) as rig:
        now = 0.0
        cors = BucketCors(rig.parts.origins, rig.parts.context.tasks, lambda: now)
        bucket = origin.store.create_bucket("bucket")
        assert await cors.rules("bucket") == ()
        bucket.cors = RULES
        now = LIFETIME - 1
        assert await cors.rules("bucket") == ()
        now = LIFETIME
        assert len(await cors.rules("bucket")) == 1
        assert fetches(origin) == 2


async def test_strangers_cause_few_requests_at_a_time(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path) as rig:
        gate, cors = Gate(), BucketCors(rig.parts.origins, rig.parts.context.tasks)
        origin.faults.add(actions.HoldRequest(gate), operation="GetBucketCors")
        names = [f"bucket-{number}" for number in range(3 * MAX_FETCHES)]
        waiting = [rig.parts.context.tasks.spawn(cors.rules(name), name) for name in names * 2]
        await run_loop_until(lambda: fetches(origin) == MAX_FETCHES)
        gate.open()
        assert await asyncio.gather(*waiting) == [()] * len(waiting)
        assert fetches(origin) == MAX_FETCHES


async def test_rules_fetched_before_a_write_are_not_kept(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path) as rig:
        gate, cors = Gate(), BucketCors(rig.parts.origins, rig.parts.context.tasks)
        bucket = origin.store.create_bucket("bucket")
        origin.faults.add(actions.HoldRequest(gate), operation="GetBucketCors", times=1)
        early = rig.parts.context.tasks.spawn(cors.rules("bucket"), "early")
        await run_loop_until(lambda: fetches(origin) == 1)
        cors.fence_bucket("bucket")
        bucket.cors = RULES
        assert len(await cors.rules("bucket")) == 1
        gate.open()
        await early
        assert len(await cors.rules("bucket")) == 1
        assert fetches(origin) == 2
