"""The plan coordinator, while plans of one name are sent and removed at the same time by several workers."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from forebay.jobs.plans.plan_coordinator import MAX_PLANS, PlanCoordinator
from forebay.jobs.plans.plan_entries import PlanEntries
from forebay.jobs.plans.plan_files import plan_id
from forebay.jobs.plans.plan_store import PlanRecord, PlanStore
from forebay.jobs.plans.plan_window import PlanStart
from forebay.server.gateway_policy import EVERYBODY
from harness.fake_origin import FakeOrigin
from harness.plan_process import plan_process

ID = plan_id("bucket", EVERYBODY.id, "order")


class HeldStore(PlanStore):
    """A store whose plans are loaded, and then held until the test lets them go."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.let_go = asyncio.Event()
        self.let_go.set()
        self.loading = asyncio.Semaphore(0)

    async def load(self, plan: str) -> tuple[PlanRecord, PlanEntries, PlanStart] | None:
        loaded = await super().load(plan)
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


@asynccontextmanager
async def coordinator(directory: Path) -> AsyncIterator[tuple[PlanCoordinator, HeldStore]]:
    async with FakeOrigin(verify=False) as origin, plan_process(origin, directory / "state") as parts:
        store, context, jobs = HeldStore(directory / "plans"), parts.context, parts.jobs
        plans = PlanCoordinator(
            store,
            jobs.ahead,
            jobs.node_reads,
            context.policy,
            lambda: 1 << 20,
            context.timers,
            context.tasks,
            context.clock,
        )
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
