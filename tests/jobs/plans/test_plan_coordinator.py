"""The plan coordinator, while plans of one name are sent and removed at the same time by several workers."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

from forebay.jobs.plans.plan_coordinator import MAX_PLANS, PlanCoordinator
from forebay.jobs.plans.plan_entries import PlanEntries, PlanEntry
from forebay.jobs.plans.plan_files import plan_id
from forebay.jobs.plans.plan_store import PlanRecord, PlanStore
from forebay.jobs.plans.plan_window import PlanStart
from forebay.server.composition import Parts
from forebay.server.gateway_policy import EVERYBODY
from harness.fake_origin import FakeOrigin
from harness.plan_process import plan_process

ID = plan_id("bucket", EVERYBODY.id, "order")


class NotedEntries:
    """The entries of a plan, and whether they were closed."""

    def __init__(self, entries: PlanEntries) -> None:
        self._entries = entries
        self.count = entries.count
        self.is_closed = False

    def read(self, start: int, stop: int) -> list[PlanEntry]:
        return self._entries.read(start, stop)

    def find(self, key: str, after: int = 0) -> int | None:
        return self._entries.find(key, after)

    def close(self) -> None:
        self.is_closed = True
        self._entries.close()


class HeldStore(PlanStore):
    """A store whose plans are loaded, and then held until the test lets them go."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.let_go = asyncio.Event()
        self.let_go.set()
        self.loading = asyncio.Semaphore(0)
        self.loaded: list[NotedEntries] = []

    async def load(self, plan: str) -> tuple[PlanRecord, PlanEntries, PlanStart] | None:
        loaded = await super().load(plan)
        if loaded is not None:
            record, entries, start = loaded
            self.loaded.append(NotedEntries(entries))
            loaded = record, cast("Any", self.loaded[-1]), start
        self.loading.release()
        await self.let_go.wait()
        return loaded

    async def send(self, *keys: str, name: str = "order") -> None:
        """A worker receives a plan."""

        async def body() -> AsyncIterator[bytes]:
            yield "\n".join(keys).encode()

        plan = plan_id("bucket", EVERYBODY.id, name)
        record = PlanRecord(plan, "bucket", EVERYBODY.id, name, 0.0, 0, 0)
        await self.receive(record, EVERYBODY, body())


def coordinator_of(store: PlanStore, parts: Parts) -> PlanCoordinator:
    context, jobs = parts.context, parts.jobs
    return PlanCoordinator(
        store,
        jobs.ahead,
        jobs.node_reads,
        context.policy,
        lambda: 1 << 20,
        context.timers,
        context.tasks,
        context.clock,
    )


@asynccontextmanager
async def coordinator(directory: Path) -> AsyncIterator[tuple[PlanCoordinator, HeldStore]]:
    async with FakeOrigin(verify=False) as origin, plan_process(origin, directory / "state") as parts:
        store = HeldStore(directory / "plans")
        plans = coordinator_of(store, parts)
        await plans.start()
        try:
            yield plans, store
        finally:
            plans.close()


def shown(plans: PlanCoordinator) -> list[tuple[str, int]]:
    return [(plan.state, plan.entries) for plan in plans.plans()]


async def test_of_two_that_come_at_once_the_one_that_is_kept_runs(tmp_path: Path) -> None:
    async with coordinator(tmp_path) as (plans, store), asyncio.TaskGroup() as group:
        store.let_go.clear()
        await store.send("a")
        group.create_task(plans.add(ID))
        await store.loading.acquire()
        await store.send("a", "b")
        second = group.create_task(plans.add(ID))
        await asyncio.sleep(0)
        store.let_go.set()
        await second
        assert shown(plans) == [("running", 2)]


async def test_a_plan_is_shown_while_another_takes_its_name(tmp_path: Path) -> None:
    async with coordinator(tmp_path) as (plans, store), asyncio.TaskGroup() as group:
        await store.send("a")
        await plans.add(ID)
        await store.loading.acquire()
        await store.send("a", "b")
        store.let_go.clear()
        group.create_task(plans.add(ID))
        await store.loading.acquire()
        assert shown(plans) == [("running", 1)]
        store.let_go.set()


async def test_what_a_worker_left_half_way_goes_with_its_plan(tmp_path: Path) -> None:
    """A worker dies when it has kept a plan and nobody was told: after a DELETE it would come back at a restart."""
    async with coordinator(tmp_path) as (plans, store):
        await store.send("a")
        await plans.add(ID)
        await store.send("a", "b")
        await plans.remove(ID)
        assert (await store.plans(), [plan.is_removed for plan in plans.plans()]) == ([], [True])
        await plans.add(ID)
        assert shown(plans) == [("cancelled", 1)]


async def test_what_is_missed_removes_nothing_that_comes_meanwhile(tmp_path: Path) -> None:
    """Sent, deleted before it was loaded, and sent again."""
    async with coordinator(tmp_path) as (plans, store), asyncio.TaskGroup() as group:
        await store.send("a")
        await store.remove_any(ID)
        store.let_go.clear()
        first = group.create_task(plans.add(ID))
        await store.loading.acquire()
        await store.send("a", "b")
        store.let_go.set()
        await first
        await plans.add(ID)
        assert shown(plans) == [("running", 2)]


async def test_plans_sent_while_nobody_counted_take_no_more_places(tmp_path: Path) -> None:
    """Worker 0 is away: the others keep what is sent, for its return."""
    async with coordinator(tmp_path) as (plans, store):
        for number in range(MAX_PLANS + 3):
            await store.send("a", name=str(number))
        await plans.start()
        assert len(plans.plans()) == len(await store.plans()) == MAX_PLANS
        assert [entries.is_closed for entries in store.loaded] == [False] * MAX_PLANS + [True] * 3
        loaded = await store.load((await store.plans())[0])
        assert loaded is not None
        assert plans.follow(*loaded) is None, "nor do followed recordings"
        loaded[1].close()


async def test_a_plan_that_is_told_of_again_goes_on(tmp_path: Path) -> None:
    """By a worker that did not hear the answer: what was loaded for it is closed."""
    async with coordinator(tmp_path) as (plans, store):
        await store.send("a")
        await plans.add(ID)
        await plans.add(ID)
        assert shown(plans) == [("running", 1)]
        assert [entries.is_closed for entries in store.loaded] == [False, True]


async def test_a_plan_sent_as_its_process_ends_is_left_to_the_next(tmp_path: Path) -> None:
    async with coordinator(tmp_path) as (plans, store):
        await store.send("a")
        plans.close()
        await plans.add(ID)
        loaded = await store.load(ID)
        assert loaded is not None
        assert plans.follow(*loaded) is None
        assert (shown(plans), await store.plans()) == ([], [ID])
        loaded[1].close()
        assert [entries.is_closed for entries in store.loaded] == [True, True]


async def test_a_plan_that_is_gone_from_the_disk_ends(tmp_path: Path) -> None:
    async with coordinator(tmp_path) as (plans, store):
        await store.send("a")
        await plans.add(ID)
        await store.remove_any(ID)
        await plans.add(ID)
        assert shown(plans) == [("cancelled", 1)]


async def test_the_start_is_over_when_earlier_plans_are_known(tmp_path: Path) -> None:
    async with FakeOrigin(verify=False) as origin, plan_process(origin, tmp_path / "state") as parts:
        store = HeldStore(tmp_path / "plans")
        await store.send("a")
        store.let_go.clear()
        plans = coordinator_of(store, parts)
        async with asyncio.TaskGroup() as group:
            group.create_task(plans.start())
            waiting = group.create_task(plans.wait_started())
            await store.loading.acquire()
            assert (waiting.done(), shown(plans)) == (False, [])
            store.let_go.set()
        assert shown(plans) == [("running", 1)]
        plans.close()


async def test_a_plan_that_is_sent_anew_comes_behind_the_others(tmp_path: Path) -> None:
    async with coordinator(tmp_path) as (plans, store):
        for number, name in enumerate(("first", "second", "first"), 1):
            await store.send(*"abc"[:number], name=name)
            await plans.add(plan_id("bucket", EVERYBODY.id, name))
        assert [(plan.name, plan.entries) for plan in plans.plans()] == [("second", 2), ("first", 3)]


async def test_a_plan_is_cancelled_once(tmp_path: Path) -> None:
    """And gone from the disk; one that is not known may be removed."""
    async with coordinator(tmp_path) as (plans, store):
        await store.send("a")
        await plans.add(ID)
        assert [await plans.cancel(each) for each in (ID, ID, "unknown")] == [True, False, False]
        assert (shown(plans), await store.plans()) == ([("cancelled", 1)], [])
        await plans.remove("unknown")
        assert shown(plans) == [("cancelled", 1)]


async def test_ended_plans_are_shown_in_the_order_of_their_ends(tmp_path: Path) -> None:
    """Each as it ended last, and not while it runs once more."""
    async with coordinator(tmp_path) as (plans, store):
        for number, name in enumerate(("first", "second", "first"), 1):
            await store.send(*"abc"[:number], name=name)
            plan = plan_id("bucket", EVERYBODY.id, name)
            await plans.add(plan)
            assert [(each.name, each.entries) for each in plans.plans() if each.state == "running"] == [(name, number)]
            assert len(plans.plans()) == min(number, 2)
            await plans.cancel(plan)
        assert [(plan.name, plan.entries) for plan in plans.plans()] == [("second", 2), ("first", 3)]


async def test_plans_of_a_series_run_one_after_another(tmp_path: Path) -> None:
    """The next one as soon as the one before has ended; those of other series beside them."""
    names = ["train/1", "train/2", "other/1", "single", "simple"]
    async with coordinator(tmp_path) as (plans, store):
        for name in names:
            await store.send("a", name=name)
        ids = [plan_id("bucket", EVERYBODY.id, name) for name in names]
        loaded = [await store.load(plan) for plan in ids]
        for each in loaded:
            assert each is not None
            plans.follow(*each)
        states = {plan.name: plan.state for plan in plans.plans()}
        assert states == dict.fromkeys(names, "running") | {"train/2": "queued"}
        plans.stop(ids[0])
        states = {plan.name: plan.state for plan in plans.plans()}
        assert states == dict.fromkeys(names, "running") | {"train/1": "cancelled"}
