"""Warm-up jobs: what they list, record and keep, within bounds."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from forebay.core.errors import OriginBroken, OriginOverloaded, OriginUnreachable, Throttled
from forebay.core.names import ObjectName
from forebay.jobs.state.inventory import Inventory, InventoryEntry
from forebay.jobs.state.job_store import JobStore
from forebay.jobs.state.warm_up_order import ListedSource, WarmUpOrder
from forebay.jobs.warm_up.cache_residency import CacheResidency
from forebay.jobs.warm_up.object_warmer import ObjectWarmer
from forebay.jobs.warm_up.warm_up_fetch import ATTEMPTS
from forebay.jobs.warm_up.warm_up_run import ObjectLister, WarmUpRun, WarmUpServices
from forebay.jobs.warm_up.warm_ups import MAX_ENDED, MAX_QUEUED, MAX_RUNNING, WarmUps
from forebay.origin.turns.request_turns import RequestTurns
from forebay.peers.owners import Peers
from forebay.policy.rules import Rules
from harness.fake import actions
from harness.fake.gate import Gate
from harness.fetch_rig import BLOCK, DECISION, NAME, FetchRig, fetch_rig
from harness.inspection import run_loop_until
from harness.warm_orders import keys_of, order_of, start_job


@dataclass
class Entry:
    key: str
    size: int
    last_modified: float = 0.0


async def two_entries(_bucket: str, _prefix: str) -> AsyncIterator[Entry]:
    yield Entry(NAME.key, 2 * BLOCK)
    yield Entry("missing", 5)


async def broken_listing(_bucket: str, _prefix: str) -> AsyncIterator[Entry]:
    yield Entry(NAME.key, 2 * BLOCK)
    raise OriginBroken("the origin answered AccessDenied")


async def unreachable_listing(_bucket: str, _prefix: str) -> AsyncIterator[Entry]:
    yield Entry(NAME.key, 2 * BLOCK)
    raise OriginUnreachable("no network")


class LastingResidency(CacheResidency):
    """As if there were an SSD tier."""

    is_lasting = True


def warm_ups(
    rig: FetchRig,
    list_objects: ObjectLister = two_entries,
    store: JobStore | None = None,
    *,
    is_lasting: bool = False,
    slots: int = 64,
    origin_answers: bool = True,
) -> WarmUps:
    turns = RequestTurns(slots, "reads", rig.timers).background
    warmer = ObjectWarmer(
        rig.resolver,
        rig.openings,
        rig.block_source(deadline=5.0),
        lambda _: turns,
        lambda: Rules([], DECISION),
        Peers(),
    )
    residency = (LastingResidency if is_lasting else CacheResidency)(rig.tiers, Peers())
    services = WarmUpServices(list_objects, warmer, residency, rig.timers, lambda _: origin_answers, lambda _: None)
    return WarmUps(services, rig.tasks, lambda: rig.now, WarmUpRun, store)


async def test_a_job_warms_a_listing_and_reports_failures() -> None:
    async with fetch_rig() as rig:
        rig.origin.store.put_synthetic(*NAME, 2 * BLOCK)
        jobs = warm_ups(rig)
        job = await start_job(jobs, NAME.bucket, prefix="")
        await jobs.wait(job.id)
        assert (job.state, job.listed, job.done, job.failed) == ("failed", 2, 1, 1)
        assert (job.bytes_listed, job.bytes_done) == (2 * BLOCK + 5, 2 * BLOCK)
        assert job.failures == [(NAME.bucket, "missing", "the origin answered 404 NoSuchKey")]
        assert (job.fits, job.kept, job.bytes_kept, job.not_kept) == (True, 1, 2 * BLOCK, None)
        assert jobs.running == 0


async def test_who_sees_that_a_job_has_ended_sees_when() -> None:
    async with fetch_rig() as rig:
        rig.origin.store.put_synthetic(*NAME, 2 * BLOCK)
        job = await start_job(warm_ups(rig), NAME.bucket, prefix="")
        await run_loop_until(lambda: job.has_ended)
        assert job.ended_at == rig.now


async def test_a_broken_listing_fails_the_job_with_its_reason() -> None:
    async with fetch_rig() as rig:
        rig.origin.store.put_synthetic(*NAME, 2 * BLOCK)
        jobs = warm_ups(rig, broken_listing)
        job = await start_job(jobs, NAME.bucket, prefix="")
        await jobs.wait(job.id)
        reason = "the listing broke off: the origin answered AccessDenied"
        assert (job.state, job.done, job.reason) == ("failed", 1, reason)


async def test_a_listing_goes_on_when_the_origin_is_back() -> None:
    listings = 0

    async def listing(_bucket: str, _prefix: str) -> AsyncIterator[Entry]:
        nonlocal listings
        listings += 1
        for key in MANY[: 5 * listings]:
            yield Entry(key, 2 * BLOCK)
        if listings < 3:
            raise OriginUnreachable("no network")
        if listings < 4:
            raise OriginOverloaded("the origin answered SlowDown")

    async with fetch_rig() as rig:
        put_many(rig)
        jobs = warm_ups(rig, listing)
        job = await start_job(jobs, NAME.bucket, prefix="")
        await run_loop_until(lambda: job.waiting_for == "no network")
        assert (job.listed, job.bytes_listed, job.listing_ended) == (0, 0, False)
        with rig.timers.flowing(0.5, progress=lambda: job.bytes_fetched):
            await jobs.wait(job.id)
        assert (job.state, job.listed, job.done, job.waiting_for, listings) == ("done", 20, 20, None, 4)


async def test_a_listing_gives_up_an_origin_that_stays_away() -> None:
    async with fetch_rig() as rig:
        rig.origin.store.put_synthetic(*NAME, 2 * BLOCK)
        jobs = warm_ups(rig, unreachable_listing)
        job = await start_job(jobs, NAME.bucket, prefix="")
        with rig.timers.flowing(60.0, progress=lambda: job.bytes_fetched):
            await jobs.wait(job.id)
        assert (job.state, job.done, job.reason) == ("failed", 1, "the listing broke off: no network")


async def test_further_jobs_wait_for_their_turn() -> None:
    async with fetch_rig() as rig:
        jobs = warm_ups(rig)
        started = [await start_job(jobs, NAME.bucket) for _ in range(MAX_RUNNING + 2)]
        assert [job.state for job in started] == ["running"] * MAX_RUNNING + ["queued"] * 2
        assert await jobs.cancel(started[-1].id) is started[-1]
        await asyncio.gather(*(jobs.wait(job.id) for job in started))
        assert [job.state for job in started] == ["failed"] * (MAX_RUNNING + 1) + ["cancelled"]


async def test_waiting_and_ended_jobs_are_bounded() -> None:
    async with fetch_rig() as rig:
        jobs = warm_ups(rig)
        for _ in range(MAX_RUNNING + MAX_QUEUED):
            await start_job(jobs, NAME.bucket)
        with pytest.raises(Throttled):
            await start_job(jobs, NAME.bucket)
        await asyncio.gather(*(jobs.wait(job.id) for job in jobs.jobs()))
        assert len(jobs.jobs()) == MAX_ENDED


async def test_a_job_cancelled_before_it_begins_is_cancelled() -> None:
    async with fetch_rig() as rig:
        jobs = warm_ups(rig)
        job = await start_job(jobs, NAME.bucket, prefix="")
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
        job = await start_job(jobs, NAME.bucket, prefix="key", concurrency=1)
        await jobs.wait(job.id)
        assert (job.state, job.done, job.failed, job.reason) == ("failed", 20, 0, None)
        assert (job.fits, job.capacity, job.bytes_listed) == (False, 16 * BLOCK, 40 * BLOCK)
        whole = [
            key for key in MANY if rig.tiers.memory.objects.cached_bytes(ObjectName(NAME.bucket, key)) == 2 * BLOCK
        ]
        assert 0 < len(whole) < 8
        assert (job.kept, job.not_kept) == (len(whole), "the rest did not fit")
        occupied = sum(rig.tiers.memory.objects.cached_bytes(ObjectName(NAME.bucket, key)) for key in MANY)
        assert (job.bytes_kept, job.bytes_in_memory, job.bytes_on_ssd) == (occupied, occupied, 0)


async def test_if_fits_fetches_nothing_that_does_not_fit() -> None:
    async with fetch_rig(memory=16 * BLOCK) as rig:
        put_many(rig)
        jobs = warm_ups(rig, twenty_objects)
        job = await start_job(jobs, NAME.bucket, prefix="key", if_fits=True)
        await jobs.wait(job.id)
        assert (job.state, job.done, job.kept) == ("failed", 0, 0)
        assert job.reason == "nothing was fetched, because it does not fit"
        assert rig.origin.log.requests == []
    async with fetch_rig() as rig:
        put_many(rig)
        jobs = warm_ups(rig, twenty_objects)
        job = await start_job(jobs, NAME.bucket, prefix="key", if_fits=True)
        await jobs.wait(job.id)
        assert (job.state, job.done, job.kept) == ("done", 20, 20)


async def test_a_prefix_without_objects_fails_the_job() -> None:
    async with fetch_rig() as rig:
        jobs = warm_ups(rig, no_object)
        for check in (False, True):
            job = await start_job(jobs, NAME.bucket, prefix="trian/", check=check)
            await jobs.wait(job.id)
            assert (job.state, job.reason) == ("failed", "no key begins with 'trian/'")


async def test_a_check_fetches_nothing() -> None:
    async with fetch_rig() as rig:
        put_many(rig)
        jobs = warm_ups(rig, twenty_objects)
        await jobs.wait((await start_job(jobs, NAME.bucket, keys=tuple(MANY[:5]))).id)
        fetched = len(rig.origin.log.requests)
        for prefix, keys in (("", ()), (None, tuple(MANY))):
            job = await start_job(jobs, NAME.bucket, prefix=prefix, keys=keys, check=True)
            await jobs.wait(job.id)
            assert (job.state, job.listed, job.done, job.kept) == ("failed", 20, 20, 5)
            assert job.bytes_kept == 10 * BLOCK
        job = await start_job(jobs, NAME.bucket, keys=tuple(MANY[:5]), check=True)
        await jobs.wait(job.id)
        assert (job.state, job.kept, job.bytes_listed) == ("done", 5, 10 * BLOCK)
        assert len(rig.origin.log.requests) == fetched


async def test_an_object_of_another_size_does_not_count_as_kept() -> None:
    async with fetch_rig() as rig:
        rig.origin.store.put_synthetic(*NAME, 2 * BLOCK)
        jobs = warm_ups(rig)
        await jobs.wait((await start_job(jobs, NAME.bucket, keys=(NAME.key,))).id)

        async def listing(_bucket: str, _prefix: str) -> AsyncIterator[Entry]:
            yield Entry(NAME.key, 3 * BLOCK)

        checks = warm_ups(rig, listing)
        job = await start_job(checks, NAME.bucket, prefix="", check=True)
        await checks.wait(job.id)
        assert (job.state, job.kept, job.bytes_kept) == ("failed", 0, 2 * BLOCK)


async def test_a_list_of_keys_is_counted_at_once() -> None:
    async with fetch_rig() as rig:
        jobs = warm_ups(rig)
        job = await start_job(jobs, NAME.bucket, keys=("a", "b"))
        assert (job.listed, job.listing_ended, job.fits) == (2, True, None)
        await jobs.wait(job.id)


async def test_a_defect_ends_the_job() -> None:
    async def defective(_bucket: str, _prefix: str) -> AsyncIterator[Entry]:
        yield Entry(NAME.key, 1 // 0)

    async with fetch_rig() as rig:
        jobs = warm_ups(rig, defective)
        job = await start_job(jobs, NAME.bucket, prefix="")
        await jobs.wait(job.id)
        assert (job.state, job.reason) == ("failed", "ZeroDivisionError('integer division or modulo by zero')")


# Bounds


async def test_until_ends_a_job_with_its_share_of_the_cache() -> None:
    async with fetch_rig(memory=40 * BLOCK) as rig:
        put_many(rig)
        jobs = warm_ups(rig, twenty_objects)
        for bound, count in ((WarmUpOrder(until_share=0.5), 10), (WarmUpOrder(until_size=5 * BLOCK), 2)):
            job = await jobs.start(replace(bound, sources=(ListedSource(NAME.bucket, "key"),)))
            await jobs.wait(job.id)
            assert (job.state, job.done, job.left_out, job.kept) == ("done", count, 20 - count, count)
        listed = keys_of(NAME.bucket, *MANY)
        job = await jobs.start(WarmUpOrder(until_size=5 * BLOCK, concurrency=1), listed)
        await jobs.wait(job.id)
        assert (job.state, job.done, job.left_out) == ("done", 3, 17)  # sizes are known too late: one more


async def test_newer_than_leaves_out_what_is_older() -> None:
    async def dated(_bucket: str, _prefix: str) -> AsyncIterator[Entry]:
        for number, key in enumerate(MANY):
            yield Entry(key, 2 * BLOCK, float(number))

    async with fetch_rig() as rig:
        put_many(rig)
        jobs = warm_ups(rig, dated)
        job = await start_job(jobs, NAME.bucket, "", newer_than=15.0)
        await jobs.wait(job.id)
        assert (job.state, job.listed, job.done, job.older) == ("done", 5, 5, 15)
        job = await start_job(jobs, NAME.bucket, "", newer_than=50.0)
        await jobs.wait(job.id)
        assert (job.state, job.reason) == ("failed", "none of 20 objects is new enough")


async def test_a_glob_warms_what_it_matches() -> None:
    async with fetch_rig() as rig:
        put_many(rig)
        jobs = warm_ups(rig, twenty_objects)
        sources = (ListedSource.matching(NAME.bucket, "key-1*"), ListedSource.matching(NAME.bucket, "key-*5"))
        job = await jobs.start(WarmUpOrder(sources))
        await jobs.wait(job.id)
        assert (job.state, job.listed, job.kept) == ("done", 12, 12)
        job = await jobs.start(WarmUpOrder((ListedSource.matching(NAME.bucket, "*.tar"),)))
        await jobs.wait(job.id)
        assert (job.state, job.reason) == ("failed", "no key matches '*.tar'")


async def test_a_rate_bounds_the_bytes_from_the_origin() -> None:
    async with fetch_rig() as rig:
        rig.origin.store.put_synthetic(*NAME, 4 << 20)
        jobs = warm_ups(rig)
        job = await jobs.start(WarmUpOrder(rate=1 << 20), keys_of(NAME.bucket, NAME.key))
        began = rig.timers.time()
        for _ in range(3):
            await rig.timers.armed(within=2.0)
            passed = rig.timers.time() - began
            assert job.bytes_fetched <= (passed + 2) * (1 << 20)
            rig.timers.advance(1.0)
        with rig.timers.flowing(0.1, progress=lambda: job.bytes_fetched):
            await jobs.wait(job.id)
        assert (job.state, job.bytes_done, job.bytes_fetched) == ("done", 4 << 20, 4 << 20)
        assert rig.timers.time() - began >= 2.0
        again = await jobs.start(WarmUpOrder(rate=1), keys_of(NAME.bucket, NAME.key))
        await jobs.wait(again.id)
        assert (again.state, again.bytes_done, again.bytes_fetched) == ("done", 4 << 20, 0)


async def test_a_rate_counts_a_small_object_by_its_size() -> None:
    async with fetch_rig() as rig:
        put_many(rig)
        rig.origin.faults.add(actions.HoldHead(gate := Gate()), method="GET")
        jobs = warm_ups(rig, twenty_objects)
        job = await start_job(jobs, NAME.bucket, "key", rate=1 << 20, concurrency=8)  # no clock moves
        await gate.reached(8)
        gate.open()
        with rig.timers.flowing(0.1, progress=lambda: job.bytes_fetched):
            await jobs.wait(job.id)
        assert job.bytes_fetched == len(MANY) * 2 * BLOCK


async def test_a_rate_delays_no_small_object_that_is_cached() -> None:
    async with fetch_rig() as rig:
        put_many(rig)
        jobs = warm_ups(rig)
        for rate in (None, 1):  # no clock moves
            job = await jobs.start(WarmUpOrder(rate=rate), keys_of(NAME.bucket, *MANY))
            await jobs.wait(job.id)
            assert (job.state, job.done, job.bytes_fetched > 0) == ("done", len(MANY), rate is None)


async def test_a_range_of_a_list_is_all_that_is_fetched() -> None:
    async with fetch_rig() as rig:
        rig.origin.store.put_synthetic(*NAME, 100 * BLOCK)
        jobs, listed = warm_ups(rig), Inventory()
        listed.add(InventoryEntry(*NAME, None, 10 * BLOCK + 5, 12 * BLOCK))
        job = await jobs.start(WarmUpOrder(), listed)
        await jobs.wait(job.id)
        assert (job.state, job.bytes_done, job.bytes_fetched, job.kept) == ("done", 2 * BLOCK - 5, 2 * BLOCK, 1)
        assert rig.tiers.memory.objects.cached_bytes(NAME) == 2 * BLOCK


async def test_jobs_share_their_turns_fairly() -> None:
    async with fetch_rig() as rig:
        keys = [f"other-{number:02}" for number in range(60)]
        for key in keys:
            rig.origin.store.put_synthetic(NAME.bucket, key, 10)
        put_many(rig)
        jobs = warm_ups(rig, slots=2)
        large = await start_job(jobs, NAME.bucket, keys=tuple(keys), concurrency=50)
        small = await start_job(jobs, NAME.bucket, keys=tuple(MANY[:10]), concurrency=50)
        await jobs.wait(small.id)
        assert large.done <= 20
        await jobs.wait(large.id)
        assert (small.done, large.done) == (10, 60)


# Outages


async def test_a_job_waits_while_the_origin_is_away() -> None:
    async with fetch_rig() as rig:
        put_many(rig)
        rig.origin.faults.add(actions.Drop(), times=12)
        jobs = warm_ups(rig, twenty_objects, origin_answers=False)
        job = await start_job(jobs, NAME.bucket, "", concurrency=2)
        await run_loop_until(lambda: job.waiting_for is not None)
        with rig.timers.flowing(0.5, progress=lambda: job.bytes_fetched):
            await jobs.wait(job.id)
        assert (job.state, job.done, job.failed, job.waiting_for) == ("done", 20, 0, None)


async def test_an_object_that_never_comes_fails_alone() -> None:
    async with fetch_rig() as rig:
        put_many(rig)
        rig.origin.faults.add(actions.Drop(), key="key-03")
        jobs = warm_ups(rig, twenty_objects)
        job = await start_job(jobs, NAME.bucket, "", concurrency=2)
        with rig.timers.flowing(0.5, progress=lambda: job.bytes_fetched):
            await jobs.wait(job.id)
        assert (job.state, job.done, job.failed, job.reason) == ("failed", 19, 1, None)


@pytest.mark.parametrize(
    "fault",
    [actions.SLOW_DOWN, actions.INTERNAL_ERROR, actions.Respond(429, "TooManyRequests"), actions.CloseAfter(3)],
    ids=["503", "500", "429", "cut off"],
)
async def test_a_failure_that_may_pass_is_tried_again(fault: actions.Action) -> None:
    async with fetch_rig() as rig:
        put_many(rig)
        rig.origin.faults.add(fault, method="GET", times=12)
        jobs = warm_ups(rig, twenty_objects)
        job = await start_job(jobs, NAME.bucket, "", concurrency=4)
        with rig.timers.flowing(0.5, progress=lambda: job.bytes_fetched):
            await jobs.wait(job.id)
        assert (job.state, job.done, job.failed, job.waiting_for) == ("done", 20, 0, None), job.failures


async def test_an_object_that_always_fails_is_named_with_its_reason() -> None:
    async with fetch_rig() as rig:
        put_many(rig)
        rig.origin.faults.add(actions.SLOW_DOWN, key="key-03")
        rig.origin.faults.add(actions.FORBIDDEN, key="key-05")
        jobs = warm_ups(rig, twenty_objects)
        job = await start_job(jobs, NAME.bucket, "", concurrency=2)
        with rig.timers.flowing(0.5, progress=lambda: job.bytes_fetched):
            await jobs.wait(job.id)
        assert (job.state, job.done, job.failed) == ("failed", 18, 2)
        failures = {each.key: each.reason for each in job.failures}
        assert failures == {
            "key-03": "the origin answered 503 SlowDown",
            "key-05": "the origin answered 403 AccessDenied",
        }
        assert rig.origin.log.count("GET", key="key-05") == 1


async def test_a_job_of_which_all_fails_ends_soon() -> None:
    async with fetch_rig() as rig:
        put_many(rig)
        rig.origin.faults.add(actions.INTERNAL_ERROR)
        jobs = warm_ups(rig, twenty_objects)
        job = await start_job(jobs, NAME.bucket, "", concurrency=1)
        with rig.timers.flowing(0.5, progress=rig.origin.log.count):
            await jobs.wait(job.id)
        assert (job.state, job.done, job.failed) == ("failed", 0, 20)
        sent = [rig.origin.log.count("GET", key=f"key-{number:02}") for number in range(20)]
        attempts = [number // sent[-1] for number in sent]
        assert attempts == [*range(ATTEMPTS, 0, -1), *[1] * (20 - ATTEMPTS)]


async def test_a_job_gives_up_an_origin_that_stays_away() -> None:
    async with fetch_rig() as rig:
        put_many(rig)
        rig.origin.faults.add(actions.Drop())
        jobs = warm_ups(rig, twenty_objects, origin_answers=False)
        job = await start_job(jobs, NAME.bucket, "", concurrency=2)
        with rig.timers.flowing(60.0, progress=rig.origin.log.count):
            await jobs.wait(job.id)
        assert (job.state, job.done, job.failed) == ("failed", 0, 0)
        assert job.reason == "it has waited for 60 minutes: disconnected before the answer"


# Restarts


async def test_a_job_that_is_cut_off_goes_on(tmp_path: Path) -> None:
    async with fetch_rig() as rig:
        put_many(rig)
        rig.origin.faults.add(actions.FORBIDDEN, key="key-02")
        gate = Gate()
        rig.origin.faults.add(actions.HoldHead(gate), key="key-11")
        first = warm_ups(rig, twenty_objects, JobStore(tmp_path))
        job = await start_job(first, NAME.bucket, "", concurrency=1)
        await gate.reached()
        assert job.survives
        await rig.tasks.close()
        assert job.state == "queued"
        first.close()
        gate.open()

        second = warm_ups(rig, no_object, JobStore(tmp_path), is_lasting=True)
        assert await second.adopt() == 1
        [adopted] = second.jobs()
        assert (adopted.id, adopted.done, adopted.failed, adopted.resumed) == (job.id, 10, 1, 1)
        before = rig.origin.log.count("GET", "GetObject")
        await second.wait(job.id)
        assert (adopted.state, adopted.done, adopted.failed, adopted.kept) == ("failed", 19, 1, 19)
        assert rig.origin.log.count("GET", "GetObject") - before == 9
        assert [each.key for each in await second.failures(job.id, 0, 10) or ()] == ["key-02"]
        second.close()

        third = warm_ups(rig, no_object, JobStore(tmp_path))
        assert await third.adopt() == 0
        [ended] = third.jobs()
        assert (ended.state, ended.done, ended.kept, ended.ended_at) == ("failed", 19, 19, adopted.ended_at)
        assert [each.key for each in ended.failures] == ["key-02"]
        third.close()


async def test_without_a_lasting_tier_a_job_starts_over(tmp_path: Path) -> None:
    async with fetch_rig() as rig:
        put_many(rig)
        gate = Gate()
        rig.origin.faults.add(actions.HoldHead(gate), key="key-11")
        first = warm_ups(rig, store=JobStore(tmp_path))
        job = await start_job(first, NAME.bucket, keys=tuple(MANY), concurrency=1)
        await gate.reached()
        await rig.tasks.close()
        first.close()
        gate.open()
        for key in MANY:
            await rig.tiers.forget(ObjectName(NAME.bucket, key))
        second = warm_ups(rig, store=JobStore(tmp_path))
        assert await second.adopt() == 1
        [adopted] = second.jobs()
        assert adopted.done == 0
        await second.wait(job.id)
        assert (adopted.state, adopted.done, adopted.kept) == ("done", 20, 20)
        second.close()


async def test_a_job_cut_off_while_it_lists_lists_anew(tmp_path: Path) -> None:
    listing = asyncio.Event()

    async def held(_bucket: str, _prefix: str) -> AsyncIterator[Entry]:
        yield Entry(MANY[0], 2 * BLOCK)
        listing.set()
        await asyncio.Event().wait()

    async with fetch_rig() as rig:
        put_many(rig)
        first = warm_ups(rig, held, JobStore(tmp_path))
        await first.start(order_of(NAME.bucket, "key-"), keys_of(NAME.bucket, "other"))
        await listing.wait()
        await rig.tasks.close()
        first.close()
        second = warm_ups(rig, twenty_objects, JobStore(tmp_path))
        await second.adopt()
        [job] = second.jobs()
        await second.wait(job.id)
        assert (job.listed, job.done, job.failed, job.bytes_listed) == (21, 20, 1, 40 * BLOCK)
        second.close()


async def test_a_cancelled_job_does_not_go_on(tmp_path: Path) -> None:
    async with fetch_rig() as rig:
        first = warm_ups(rig, store=JobStore(tmp_path))
        await first.cancel((await start_job(first, NAME.bucket, keys=("a",))).id)
        first.close()
        second = warm_ups(rig, store=JobStore(tmp_path))
        assert await second.adopt() == 0
        assert [job.state for job in second.jobs()] == ["cancelled"]
        second.close()


async def test_records_that_are_not_understood_are_removed(tmp_path: Path) -> None:
    async with fetch_rig() as rig:
        (tmp_path / "a1").mkdir()
        jobs = warm_ups(rig, store=JobStore(tmp_path))
        assert await jobs.adopt() == 0
        assert (jobs.jobs(), JobStore(tmp_path).claim_all()) == ([], [])
        jobs.close()
