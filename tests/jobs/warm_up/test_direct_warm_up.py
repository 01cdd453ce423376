"""Direct warm-up: small objects one after the other, and what is left to a task."""

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from forebay.core.byte_ranges import Span
from forebay.core.errors import S3Error
from forebay.core.events import BytesWarmed
from forebay.core.names import ObjectName
from forebay.jobs.warm_up.direct_warm_up import SMALL_FLUSH_BYTES, DirectRun, DirectWarmer
from forebay.metadata.lookup_request import LookupRequest
from forebay.metadata.resolution import ResolvedVersion
from forebay.origin.turns.background_turns import BackgroundTurns
from forebay.origin.turns.request_turns import RequestTurns
from forebay.policy.rules import Rules
from harness.fake import actions
from harness.fake.gate import Gate
from harness.fetch_rig import BLOCK, DECISION, FetchRig, fetch_rig

NAMES = [ObjectName("bucket", f"key-{number}") for number in range(5)]
FIRST = Span(0, BLOCK)


class Job:
    """A run over some objects, with an idle connection to the origin."""

    def __init__(self, rig: FetchRig, *, accelerate: bool = True, slots: int = 64) -> None:
        self.rig = rig
        self.turns = RequestTurns(slots, "reads", rig.timers).background
        rules = Rules([], replace(DECISION, accelerate=accelerate))
        self.warmer = DirectWarmer(rig.openings, lambda _: self.turns, lambda: rules, lambda _: FIRST, rig.heard)
        self.kept: list[tuple[ObjectName, int]] = []

    def run(self, names: Iterator[ObjectName], pauses: Callable[[ObjectName], bool] = bool) -> DirectRun[ObjectName]:
        def kept(name: ObjectName, size: int) -> bool:
            self.kept.append((name, size))
            return pauses(name)

        return DirectRun(self.warmer, "job", names, lambda name: name, kept)

    async def connect(self) -> "Job":
        """Has one object of its own fetched."""
        name = ObjectName("bucket", "connection")
        self.rig.origin.store.put(*name, b"x")
        await self.resolve(name)
        return self

    async def resolve(self, name: ObjectName) -> ResolvedVersion:
        """What a task gets."""
        found = await self.rig.resolver.resolve(LookupRequest(name, DECISION, FIRST), leads=True)
        assert isinstance(found, ResolvedVersion)
        found.release_flights()
        return found


def never(_: ObjectName) -> bool:
    return False


async def test_small_objects_are_warmed_one_after_the_other() -> None:
    async with fetch_rig() as rig:
        for number, name in enumerate(NAMES):
            rig.origin.store.put_synthetic(*name, 10 + number)
        job = await Job(rig).connect()
        run = job.run(iter(NAMES), never)
        assert (await run.next(), run.has_ended) == (None, True)
        assert job.kept == [(name, 10 + number) for number, name in enumerate(NAMES)]
        assert [event.size for event in rig.heard.of(BytesWarmed)] == [10, 11, 12, 13, 14]
        assert all(rig.heads.current(name) is not None for name in NAMES)
        assert (job.turns.in_use, rig.origin.log.count()) == (0, 1 + len(NAMES))


async def test_a_task_goes_on_with_a_large_object() -> None:
    async with fetch_rig() as rig:
        rig.origin.store.put_synthetic(*NAMES[0], 3 * BLOCK)
        rig.origin.store.put_synthetic(*NAMES[1], 10)
        job = await Job(rig).connect()
        run = job.run(iter(NAMES[:2]), never)
        assert (await run.next(), job.turns.in_use) == (NAMES[0], 0)
        assert (await job.resolve(NAMES[0])).head.size == 3 * BLOCK
        await job.connect()
        assert (await run.next(), run.has_ended) == (None, True)
        assert (job.kept, rig.origin.log.count(key=NAMES[0].key)) == ([(NAMES[1], 10)], 1)


async def test_nothing_is_left_to_a_task_that_waits_for_a_turn() -> None:
    """The request has a turn at the origin, which demand may want meanwhile."""
    async with fetch_rig() as rig:
        rig.origin.store.put_synthetic(*NAMES[0], 3 * BLOCK)
        rig.origin.faults.add(actions.HoldHead(gate := Gate()), key=NAMES[0].key, times=1)
        job = await Job(rig, slots=1).connect()
        run = job.run(iter(NAMES[:1]), never)
        async with asyncio.TaskGroup() as group:
            warming = group.create_task(run.next())
            await gate.reached()
            other = group.create_task(job.turns.acquire("other"))
            await asyncio.sleep(0)
            assert (job.turns.waiting, rig.reads.client.reads.in_use) == (1, 1)
            gate.open()
            assert await warming == NAMES[0]
        assert rig.reads.client.reads.in_use == 0
        await other
        job.turns.release("other")


async def test_a_failure_at_the_end_of_an_object_ends_the_run() -> None:
    async with fetch_rig() as rig:
        rig.origin.store.put_synthetic(*NAMES[0], 10)
        rig.origin.faults.add(actions.HoldHead(gate := Gate()), key=NAMES[0].key, times=1)
        job, origins = await Job(rig).connect(), [True]

        def turns_of(_: str) -> BackgroundTurns:
            if not origins:
                raise S3Error("NoSuchBucket")
            return job.turns

        job.warmer = DirectWarmer(
            rig.openings, turns_of, lambda: Rules([], replace(DECISION, accelerate=True)), lambda _: FIRST, rig.heard
        )
        run = job.run(iter(NAMES[:1]), never)

        async def lose_the_origin() -> None:
            await gate.reached()
            origins.clear()
            gate.open()

        failure, _ = await asyncio.gather(run.next(), lose_the_origin(), return_exceptions=True)
        assert isinstance(failure, S3Error)


async def test_what_no_task_goes_on_with_is_dropped() -> None:
    async with fetch_rig() as rig:
        rig.origin.store.put_synthetic(*NAMES[0], 3 * BLOCK)
        job = await Job(rig).connect()
        run = job.run(iter(NAMES[:1]), never)
        assert await run.next() == NAMES[0]
        assert rig.reads.client.reads.in_use == 1
        run.close()
        assert rig.reads.client.reads.in_use == 0


@pytest.mark.parametrize("reason", ["known", "no rule", "no turn", "no connection"])
async def test_what_is_not_plain_is_left_to_a_task(reason: str) -> None:
    async with fetch_rig() as rig:
        rig.origin.store.put_synthetic(*NAMES[0], 10)
        job = Job(rig, accelerate=reason != "no rule", slots=1 if reason == "no turn" else 64)
        if reason != "no connection":
            await job.connect()
        if reason == "known":
            await job.resolve(NAMES[0])
        if reason == "no turn":
            assert job.turns.try_acquire("another job")
        run, before = job.run(iter(NAMES[:1]), never), job.turns.in_use
        assert (await run.next(), job.turns.in_use, job.kept) == (NAMES[0], before, [])


async def test_a_run_stops_where_its_caller_has_something_to_do() -> None:
    async with fetch_rig() as rig:
        for name in NAMES:
            rig.origin.store.put_synthetic(*name, 10)
        job = await Job(rig).connect()
        run = job.run(iter(NAMES), lambda name: name == NAMES[1])
        assert (await run.next(), run.has_ended, len(job.kept)) == (None, False, 2)
        job.warmer.count_stored(SMALL_FLUSH_BYTES)
        assert (await run.next(), run.has_ended, len(job.kept)) == (None, False, 3)
        assert [job.warmer.take_flush(), job.warmer.take_flush()] == [True, False]
        assert (await run.next(), run.has_ended, len(job.kept)) == (None, True, 5)


async def test_a_cancelled_run_leaves_nothing() -> None:
    async with fetch_rig() as rig:
        rig.origin.store.put_synthetic(*NAMES[0], 10)
        rig.origin.faults.add(actions.HoldHead(gate := Gate()), key=NAMES[0].key, times=1)
        job = await Job(rig).connect()
        run = job.run(iter(NAMES[:1]), never)
        async with asyncio.TaskGroup() as group:
            waiting = group.create_task(run.next())
            await gate.reached()
            waiting.cancel()
        run.close()
        assert (job.turns.in_use, rig.reads.client.reads.in_use) == (0, 0)
        gate.open()


async def test_a_failure_of_the_caller_reaches_it() -> None:
    async with fetch_rig() as rig:
        rig.origin.store.put_synthetic(*NAMES[0], 10)
        job = await Job(rig).connect()

        def fails(_: ObjectName) -> bool:
            raise RuntimeError("full")

        with pytest.raises(RuntimeError, match="full"):
            await job.run(iter(NAMES[:1]), fails).next()
        assert job.turns.in_use == 0
