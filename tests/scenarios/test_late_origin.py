"""A response that hangs or drips holds up nobody for long: neither its first reader nor those that join it.

Time is moved by the test: no request waits for a real timeout.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from forebay.core.byte_ranges import Span
from harness.clients import path_of
from harness.fake import actions
from harness.fake.gate import Gate
from harness.fake_origin import FakeOrigin
from harness.inspection import cache_status, metric_value, run_loop_until
from harness.manual_timers import ManualTimers
from harness.rig import Rig

KIB = 1 << 10
BLOCK = 64 * KIB
RULES = '[[rules]]\npath = "**"\nblock = "64KiB"\nfreshness = "60s"\n'
OBJECT = path_of("bucket", "key")


@asynccontextmanager
async def rig_and_origin(directory: Path) -> AsyncIterator[tuple[Rig, FakeOrigin, ManualTimers]]:
    timers = ManualTimers()
    async with (
        FakeOrigin() as origin,
        Rig(origin.endpoint, origin.secret, directory, timers, rest=RULES) as rig,
    ):
        yield rig, origin, timers


@pytest.mark.parametrize("stale", [False, True], ids=["opening", "conditional request"])
async def test_a_request_that_hangs_holds_up_no_reader(tmp_path: Path, stale: bool) -> None:
    async with rig_and_origin(tmp_path) as (rig, origin, timers):
        content = origin.store.put_synthetic("bucket", "key", 8 * BLOCK)
        client = rig.client()
        if stale:
            await client.request("GET", OBJECT)
            rig.advance_clock(61)
        sent = origin.log.count(key="key")
        origin.faults.add(actions.HoldRequest(gate := Gate()), key="key", times=1)
        async with asyncio.TaskGroup() as group:
            readers = [group.create_task(client.request("GET", OBJECT)) for _ in range(20)]
            await run_loop_until(lambda: rig.worker.listener.requests.in_flight == 20)
            await gate.reached()
            timers.advance(2.5)
        for reader in readers:
            assert reader.result().body == content.expected(Span(0, 8 * BLOCK))
            assert cache_status(reader.result()) == (200, "revalidated" if stale else "miss")
        assert origin.log.count(key="key") - sent == 2
        assert await metric_value(rig, 'forebay_origin_hedges_total{result="won"}') == 1
        gate.open()
