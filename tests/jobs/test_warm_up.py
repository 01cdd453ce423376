"""Warm-up jobs: what they list, record and keep, within bounds."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest

from forebay.core.errors import OriginUnreachable, Throttled
from forebay.jobs.object_warmer import ObjectWarmer
from forebay.jobs.warm_up import (
    MAX_ENDED,
    MAX_FAILURES,
    MAX_RUNNING,
    ObjectLister,
    WarmUpJob,
    WarmUps,
)
from forebay.peers.owners import Peers
from forebay.policy.rules import Rules
from harness.fetch_rig import BLOCK, DECISION, NAME, FetchRig, fetch_rig


@dataclass
class Entry:
    key: str
    size: int


async def two_entries(_bucket: str, _prefix: str) -> AsyncIterator[Entry]:
    yield Entry(NAME.key, 2 * BLOCK)
    yield Entry("missing", 5)


async def broken_listing(_bucket: str, _prefix: str) -> AsyncIterator[Entry]:
    yield Entry(NAME.key, 2 * BLOCK)
    raise OriginUnreachable("no network")


def warm_ups(rig: FetchRig, list_objects: ObjectLister = two_entries) -> WarmUps:
    warmer = ObjectWarmer(rig.resolver, rig.block_source(deadline=5.0), lambda: Rules([], DECISION), Peers())
    return WarmUps(list_objects, warmer, rig.tasks, lambda: rig.now, lambda _: None)


async def test_a_job_warms_a_listing_and_reports_failures() -> None:
    async with fetch_rig() as rig:
        rig.origin.store.put_synthetic(*NAME, 2 * BLOCK)
        jobs = warm_ups(rig)
        job = jobs.start(NAME.bucket, prefix="")
        await jobs.wait(job.id)
        assert (job.state, job.listed, job.done, job.failed) == ("failed", 2, 1, 1)
        assert (job.bytes_listed, job.bytes_done) == (2 * BLOCK + 5, 2 * BLOCK)
        assert job.failures == [("missing", "the origin answered 404")]
        assert jobs.running == 0


async def test_a_broken_listing_fails_the_job_with_its_reason() -> None:
    async with fetch_rig() as rig:
        rig.origin.store.put_synthetic(*NAME, 2 * BLOCK)
        jobs = warm_ups(rig, broken_listing)
        job = jobs.start(NAME.bucket, prefix="")
        await jobs.wait(job.id)
        assert (job.state, job.done, job.reason) == ("failed", 1, "the listing broke off: no network")


async def test_running_and_ended_jobs_are_bounded() -> None:
    async with fetch_rig() as rig:
        jobs = warm_ups(rig)
        for _ in range(MAX_RUNNING):
            jobs.start(NAME.bucket, prefix=None)
        with pytest.raises(Throttled):
            jobs.start(NAME.bucket, prefix=None)
        await asyncio.gather(*(jobs.wait(job.id) for job in jobs.jobs()))
        for _ in range(MAX_ENDED + 5):
            await jobs.wait(jobs.start(NAME.bucket, prefix=None).id)
        assert len(jobs.jobs()) == MAX_ENDED + 1


async def test_a_job_cancelled_before_it_begins_is_cancelled() -> None:
    async with fetch_rig() as rig:
        jobs = warm_ups(rig)
        job = jobs.start(NAME.bucket, prefix="")
        assert await jobs.cancel(job.id) is job
        assert (job.state, job.ended_at, jobs.running) == ("cancelled", rig.now, 0)
        assert await jobs.cancel("unknown") is None


def test_the_failures_kept_are_bounded() -> None:
    job = WarmUpJob("id", "bucket", None, 1, 0.0)
    for number in range(MAX_FAILURES + 1):
        job.fail(str(number), "why")
    assert (job.failed, len(job.failures)) == (MAX_FAILURES + 1, MAX_FAILURES)
