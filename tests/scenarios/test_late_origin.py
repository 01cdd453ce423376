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
from harness.inspection import cache_status, lost_clients, metric_value, run_loop_until
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


@pytest.mark.parametrize("soon", [True, False], ids=["at once", "later"])
async def test_a_drip_whose_client_has_left_holds_up_no_later_reader(tmp_path: Path, soon: bool) -> None:
    """`soon`: the later reader joins the dripping flight; otherwise that has ended."""
    async with rig_and_origin(tmp_path) as (rig, origin, timers):
        content = origin.store.put_synthetic("bucket", "key", 8 * BLOCK)
        drop, rest = Gate(), Gate()
        origin.faults.add(
            actions.HoldAfter(2 * BLOCK + 100, drop), actions.HoldAfter(2 * BLOCK + 200, rest), key="key", times=1
        )
        client = rig.client()
        async with await client.open() as first:
            await first.send(client.sign("GET", OBJECT).wire)
            await first.read_head()
            await first.read(2 * BLOCK + 100)
            first.reset()
            await run_loop_until(lambda: lost_clients(rig) == 1)
        if not soon:
            drop.open()  # the client's absence is noticed when there is something to send
            await run_loop_until(lambda: rig.parts.fetch.flights.followers == 0)
            timers.advance(7.0)
            await rig.wait_idle()
            assert (len(rig.parts.fetch.flights), rig.parts.storage.budget.in_use) == (0, 0)
        spans = [Span(number * BLOCK, number * BLOCK + 10) for number in (0, 2, 7)]
        async with asyncio.TaskGroup() as group:
            readers = [
                group.create_task(client.request("GET", OBJECT, headers=[("Range", f"bytes={s.start}-{s.stop - 1}")]))
                for s in spans
            ]
            await run_loop_until(readers[0].done)
            if soon:
                timers.advance(7.0)
        assert [reader.result().body for reader in readers] == [content.expected(span) for span in spans]
        drop.open()
        rest.open()


async def test_a_hundred_readers_of_a_drip_cost_two_requests(tmp_path: Path) -> None:
    async with rig_and_origin(tmp_path) as (rig, origin, timers):
        content = origin.store.put_synthetic("bucket", "key", 4 * BLOCK)
        origin.faults.add(actions.HoldAfter(BLOCK + 100, gate := Gate()), key="key", times=1)
        client = rig.client()
        request = client.sign("GET", OBJECT)
        async with asyncio.TaskGroup() as group:
            readers = [group.create_task(client.send(request)) for _ in range(100)]
            await run_loop_until(lambda: rig.worker.listener.requests.in_flight == 100)
            await gate.reached()
            await run_loop_until(lambda: rig.parts.fetch.flights.followers >= 300)
            timers.advance(7.0)
        assert {reader.result().body for reader in readers} == {content.expected(Span(0, 4 * BLOCK))}
        assert origin.log.count(key="key") == 2
        assert await metric_value(rig, 'forebay_origin_slow_responses_total{action="replaced"}') == 1
        gate.open()
