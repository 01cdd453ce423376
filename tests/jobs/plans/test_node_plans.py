"""The plans of a node while its coordinator starts: what a process before has left is asked about, and cancelled."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from forebay.server.composition import Parts, compose
from forebay.server.telemetry.metrics import Metrics
from forebay.settings.loader import load_settings
from forebay.storage.cache_origin import CacheOrigin
from forebay.storage.run_record import begin_run
from harness.fake_origin import FakeOrigin
from harness.manual_timers import ManualTimers
from harness.memory_exchange import handle_request

PLAN = "/bucket/.forebay/plans/order"


@asynccontextmanager
async def process(origin: FakeOrigin, directory: Path) -> AsyncIterator[Parts]:
    """The parts of a process in open mode, whose coordinator the test starts."""
    text = (
        f'[origin]\nendpoint = "{origin.endpoint}"\ndialect = "swift"\nanonymous = true\n[auth]\nmode = "open"\n'
        f'[server]\nstate_dir = "{directory}"\n'
    )
    settings = load_settings(text, {}, {}, lambda _: "").settings
    run = begin_run(str(directory), CacheOrigin.of(origin.endpoint))
    parts = compose(settings, Metrics(), run=run, timers=ManualTimers())
    try:
        yield parts
    finally:
        parts.jobs.plans.coordinator.close()
        await parts.context.tasks.wait_idle()
        parts.jobs.prefetcher.drop_all()
        await parts.origins.of(None).close()


@asynccontextmanager
async def restarted(directory: Path) -> AsyncIterator[Parts]:
    """The parts of a process whose predecessor was sent a plan."""
    async with FakeOrigin(verify=False) as origin:
        origin.store.put("bucket", "key", b"content")
        async with process(origin, directory) as before:
            assert (await handle_request(before.requests.gateway, "PUT", PLAN, (), b"key\n")).status == 200
        async with process(origin, directory) as parts:
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
