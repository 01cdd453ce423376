"""Warm-up jobs: what they list, record and keep, within bounds."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest

from forebay.core.errors import OriginUnreachable, Throttled
from forebay.core.names import ObjectName
from forebay.jobs.cache_residency import CacheResidency
from forebay.jobs.object_warmer import ObjectWarmer
from forebay.jobs.warm_up import MAX_ENDED, MAX_RUNNING, ObjectLister, WarmUps
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
    residency = CacheResidency(rig.tiers, Peers())
    return WarmUps(list_objects, warmer, residency, rig.tasks, lambda: rig.now, lambda _: None)


async def test_a_job_warms_a_listing_and_reports_failures() -> None:
    async with fetch_rig() as rig:
        rig.origin.store.put_synthetic(*NAME, 2 * BLOCK)
        jobs = warm_ups(rig)
        job = jobs.start(NAME.bucket, prefix="")
        await jobs.wait(job.id)
        assert (job.state, job.listed, job.done, job.failed) == ("failed", 2, 1, 1)
        assert (job.bytes_listed, job.bytes_done) == (2 * BLOCK + 5, 2 * BLOCK)
        assert job.failures == [("missing", "the origin answered 404 NoSuchKey")]
        assert (job.fits, job.kept, job.bytes_kept, job.not_kept) == (True, 1, 2 * BLOCK, None)
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


MANY = [f"key-{number:02}" for number in range(20)]


async def twenty_objects(_bucket: str, _prefix: str) -> AsyncIterator[Entry]:
    for key in MANY:
        yield Entry(key, 2 * BLOCK)


async def no_object(_bucket: str, _prefix: str) -> AsyncIterator[Entry]:
    entries: list[Entry] = []
    for entry in entries:
        yield entry


def put_many(rig: FetchRig) -> None:
    for key in MANY:
        rig.origin.store.put_synthetic(NAME.bucket, key, 2 * BLOCK)


async def test_a_job_that_does_not_fit_counts_what_stayed() -> None:
    async with fetch_rig(memory=16 * BLOCK) as rig:
        put_many(rig)
        jobs = warm_ups(rig, twenty_objects)
        job = jobs.start(NAME.bucket, prefix="key", concurrency=1)
        await jobs.wait(job.id)
        assert (job.state, job.done, job.failed, job.reason) == ("failed", 20, 0, None)
        assert (job.fits, job.capacity, job.bytes_listed) == (False, 16 * BLOCK, 40 * BLOCK)
        whole = [key for key in MANY if rig.tiers.memory.cached_bytes(ObjectName(NAME.bucket, key)) == 2 * BLOCK]
        assert 0 < len(whole) < 8
        assert (job.kept, job.not_kept) == (len(whole), "the rest did not fit")
        occupied = sum(rig.tiers.memory.cached_bytes(ObjectName(NAME.bucket, key)) for key in MANY)
        assert (job.bytes_kept, job.bytes_in_memory, job.bytes_on_ssd) == (occupied, occupied, 0)


async def test_if_fits_fetches_nothing_that_does_not_fit() -> None:
    async with fetch_rig(memory=16 * BLOCK) as rig:
        put_many(rig)
        jobs = warm_ups(rig, twenty_objects)
        job = jobs.start(NAME.bucket, prefix="key", if_fits=True)
        await jobs.wait(job.id)
        assert (job.state, job.done, job.kept) == ("failed", 0, 0)
        assert job.reason == "nothing was fetched, because it does not fit"
        assert rig.origin.log.requests == []
    async with fetch_rig() as rig:
        put_many(rig)
        jobs = warm_ups(rig, twenty_objects)
        job = jobs.start(NAME.bucket, prefix="key", if_fits=True)
        await jobs.wait(job.id)
        assert (job.state, job.done, job.kept) == ("done", 20, 20)


async def test_a_prefix_without_objects_fails_the_job() -> None:
    async with fetch_rig() as rig:
        jobs = warm_ups(rig, no_object)
        for check in (False, True):
            job = jobs.start(NAME.bucket, prefix="trian/", check=check)
            await jobs.wait(job.id)
            assert (job.state, job.reason) == ("failed", "no key begins with 'trian/'")


async def test_a_check_fetches_nothing() -> None:
    async with fetch_rig() as rig:
        put_many(rig)
        jobs = warm_ups(rig, twenty_objects)
        await jobs.wait(jobs.start(NAME.bucket, keys=MANY[:5]).id)
        fetched = len(rig.origin.log.requests)
        for prefix, keys in (("", ()), (None, MANY)):
            job = jobs.start(NAME.bucket, prefix=prefix, keys=keys, check=True)
            await jobs.wait(job.id)
            assert (job.state, job.listed, job.done, job.kept) == ("failed", 20, 20, 5)
            assert job.bytes_kept == 10 * BLOCK
        job = jobs.start(NAME.bucket, keys=MANY[:5], check=True)
        await jobs.wait(job.id)
        assert (job.state, job.kept, job.bytes_listed) == ("done", 5, 10 * BLOCK)
        assert len(rig.origin.log.requests) == fetched


async def test_an_object_of_another_size_does_not_count_as_kept() -> None:
    async with fetch_rig() as rig:
        rig.origin.store.put_synthetic(*NAME, 2 * BLOCK)
        jobs = warm_ups(rig)
        await jobs.wait(jobs.start(NAME.bucket, keys=[NAME.key]).id)

        async def listing(_bucket: str, _prefix: str) -> AsyncIterator[Entry]:
            yield Entry(NAME.key, 3 * BLOCK)

        job = (checks := warm_ups(rig, listing)).start(NAME.bucket, prefix="", check=True)
        await checks.wait(job.id)
        assert (job.state, job.kept, job.bytes_kept) == ("failed", 0, 2 * BLOCK)


async def test_a_list_of_keys_is_counted_at_once() -> None:
    async with fetch_rig() as rig:
        jobs = warm_ups(rig)
        job = jobs.start(NAME.bucket, keys=["a", "b"])
        assert (job.listed, job.listing_ended, job.fits) == (2, True, None)
        await jobs.wait(job.id)


async def test_a_defect_ends_the_job() -> None:
    async def defective(_bucket: str, _prefix: str) -> AsyncIterator[Entry]:
        yield Entry(NAME.key, 1 // 0)

    async with fetch_rig() as rig:
        jobs = warm_ups(rig, defective)
        job = jobs.start(NAME.bucket, prefix="")
        await jobs.wait(job.id)
        assert (job.state, job.reason) == ("failed", "ZeroDivisionError('integer division or modulo by zero')")
