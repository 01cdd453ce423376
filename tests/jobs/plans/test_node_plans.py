"""The plans of a node while its coordinator starts: what a process before has left is asked about, and cancelled."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from forebay.server.composition import Parts
from harness.fake_origin import FakeOrigin
from harness.memory_exchange import handle_request
from harness.plan_process import plan_process

PLAN = "/bucket/.forebay/plans/order"


@asynccontextmanager
async def restarted(directory: Path) -> AsyncIterator[Parts]:
    """The parts of a process whose predecessor was sent a plan."""
    async with FakeOrigin(verify=False) as origin:
        origin.store.put("bucket", "key", b"content")
        async with plan_process(origin, directory) as before:
            assert (await handle_request(before.requests.gateway, "PUT", PLAN, (), b"key\n")).status == 200
        async with plan_process(origin, directory) as parts:
            yield parts


async def let_others_run() -> None:
    for _ in range(100):
        await asyncio.sleep(0)


async def test_a_question_waits_for_the_plans_of_the_process_before(tmp_path: Path) -> None:
    async with restarted(tmp_path) as parts, asyncio.TaskGroup() as group:
        early = group.create_task(handle_request(parts.requests.gateway, "GET", PLAN))
        await let_others_run()
        assert not early.done()
        await parts.jobs.plans.coordinator.start()
        progress = json.loads(bytes((await early).body))
        assert (progress["name"], progress["entries"]) == ("order", 1)


async def test_a_plan_cancelled_while_the_coordinator_starts_does_not_run(tmp_path: Path) -> None:
    async with restarted(tmp_path) as parts, asyncio.TaskGroup() as group:
        early = group.create_task(handle_request(parts.requests.gateway, "DELETE", PLAN))
        await let_others_run()
        await parts.jobs.plans.coordinator.start()
        assert (await early).status == 204
        assert [plan.state for plan in await parts.jobs.plans.plans()] == ["cancelled"]
        assert await parts.jobs.plans.store.plans() == []
