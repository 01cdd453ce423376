"""The parts of a process in open mode that a test sends plans to."""

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


@asynccontextmanager
async def plan_process(origin: FakeOrigin, directory: Path) -> AsyncIterator[Parts]:
    """The parts; the test starts their coordinator."""
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
        await parts.jobs.prefetcher.close()
        await parts.origins.of(None).close()
