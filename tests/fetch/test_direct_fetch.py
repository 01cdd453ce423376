"""Direct fetches land without a task; a task goes on with the request where anything but the version's bytes comes."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from forebay.core.byte_ranges import Span
from forebay.core.errors import OriginBroken, VersionChanged
from forebay.core.events import Event, OriginBytesRead
from forebay.core.heads import Head
from forebay.core.requester import BACKGROUND, requester
from forebay.fetch.fetch_request import FetchRequest, ObjectView
from forebay.fetch.flight import Flight
from forebay.policy.coalescing import Run
from harness.fake import actions
from harness.fake.gate import Gate
from harness.fetch_rig import HEDGE_AFTER, NAME, FetchRig, fetch_rig
from harness.inspection import run_loop_until
from harness.ssd_rig import RecordedEvents

SMALL, LARGE = 1234, 600_000


class FailsToCount(RecordedEvents):
    """Fails at the bytes of an object, once it is told to."""

    fails = False

    def __call__(self, event: Event) -> None:
        super().__call__(event)
        if self.fails and isinstance(event, OriginBytesRead):
            raise ArithmeticError("a counter of the test's")


class Known:
    """An object of one block whose head is known, and none of its bytes."""

    def __init__(self, rig: FetchRig, head: Head, content: bytes) -> None:
        self.rig, self.head, self.content = rig, head, content

    def start(self, principal: str = BACKGROUND) -> Flight:
        """The flight of its block, which has a follower."""
        view = ObjectView(NAME, self.head, "rule")
        fetch = FetchRequest(view, Run(range(1), (0,), Span(0, self.head.size)))
        assert self.rig.budget.try_acquire(fetch.buffer_bytes)
        before = requester.get()
        requester.set(principal)
        flight = self.rig.fetcher.start(fetch)[0]
        requester.set(before)
        flight.follow()
        return flight

    async def landed(self, flight: Flight) -> bytes:
        try:
            await flight.wait_filled(flight.length)
            return bytes(flight.buffer)
        finally:
            flight.leave()

    @property
    def requests(self) -> int:
        return self.rig.origin.log.count("GET")


@asynccontextmanager
async def known(size: int = SMALL, heard: RecordedEvents | None = None) -> AsyncIterator[Known]:
    """The connection that its head came over is idle."""
    async with fetch_rig(heard=heard) as rig:
        content = rig.origin.store.put_synthetic(*NAME, size).expected(Span(0, size))
        head = replace(await rig.head(), block_size=1 << 20)
        await rig.tasks.wait_idle()
        rig.origin.log.counts.clear()
        yield Known(rig, head, content)


@pytest.mark.parametrize("size", [SMALL, LARGE])
async def test_a_known_version_lands_without_a_task(size: int) -> None:
    async with known(size) as on:
        flight = on.start()
        assert len(on.rig.tasks) == 0
        assert await on.landed(flight) == on.content
        assert (on.requests, len(on.rig.tasks)) == (1, 0)
        assert on.rig.tiers.memory.has(flight.block)


async def test_demand_reads_in_a_task() -> None:
    async with known() as on:
        flight = on.start("reader")
        assert len(on.rig.tasks) == 1
        assert await on.landed(flight) == on.content


async def test_without_an_idle_connection_a_task_fetches() -> None:
    async with known() as on:
        await on.rig.reads.client.pool.close()
        flight = on.start()
        assert len(on.rig.tasks) == 1
        assert await on.landed(flight) == on.content


@pytest.mark.parametrize("size", [SMALL, LARGE])
async def test_bytes_of_another_version_never_land(size: int) -> None:
    async with known(size) as on:
        on.rig.origin.store.put(*NAME, bytes(size))
        with pytest.raises(VersionChanged):
            await on.landed(on.start())
        assert on.requests == 1


async def test_a_reader_that_joins_has_bytes_as_they_come() -> None:
    async with known(LARGE) as on:
        gate = Gate()
        on.rig.origin.faults.add(actions.HoldAfter(300_000, gate), times=1)
        flight = on.start()
        await gate.reached()
        await run_loop_until(lambda: not on.rig.reads.client.pool.body_turns.waiting)
        flight.follow()
        flight.demand()
        await flight.wait_filled(1)
        assert (flight.has_landed, len(on.rig.tasks)) == (False, 1)
        flight.leave()
        gate.open()
        assert await on.landed(flight) == on.content
        assert on.requests == 1


async def test_a_late_response_goes_on_in_a_task() -> None:
    async with known() as on:
        gate = Gate()
        on.rig.origin.faults.add(actions.HoldHead(gate), times=1)
        flight = on.start()
        await gate.reached()
        for _ in range(4):
            on.rig.timers.advance(HEDGE_AFTER / 4)
        assert len(on.rig.tasks) == 1
        gate.open()
        assert await on.landed(flight) == on.content


async def test_a_body_that_breaks_off_is_resumed() -> None:
    async with known(LARGE) as on:
        on.rig.origin.faults.add(actions.CloseAfter(300_000), times=1)
        assert await on.landed(on.start()) == on.content
        assert on.requests == 2


async def test_what_nobody_follows_any_more_is_not_received() -> None:
    async with known(LARGE) as on:
        gate = Gate()
        on.rig.origin.faults.add(actions.HoldHead(gate), times=1)
        flight = on.start()
        await gate.reached()
        flight.leave()
        gate.open()
        await run_loop_until(lambda: flight.has_ended)
        assert not flight.filled
        assert on.rig.reads.client.reads.in_use == 0


async def test_a_failure_to_land_fails_the_flight() -> None:
    heard = FailsToCount()
    async with known(heard=heard) as on:
        heard.fails = True
        with pytest.raises(OriginBroken):
            await on.landed(on.start())
        heard.fails = False
        assert await asyncio.wait_for(on.landed(on.start()), 5.0) == on.content
