"""The run reader: a slow response that somebody waits for is replaced, one that nobody wants ends, and no byte is
lost."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from forebay.core.byte_ranges import Span
from forebay.core.errors import OriginBroken, OriginError
from forebay.core.events import SlowResponse
from forebay.core.heads import ObjectFacts
from forebay.core.requester import BACKGROUND, requester
from forebay.fetch.fetch_request import ObjectView
from forebay.fetch.fetcher import Fetcher
from forebay.fetch.flight import Flight
from forebay.fetch.followed_flights import FollowedFlights
from forebay.fetch.run_source import ThroughputFloor
from forebay.origin.origin_client import OriginClient
from forebay.origin.reads.object_reads import OriginReads
from forebay.origin.reads.origin_read import OriginRead
from forebay.origin.reads.read_outcomes import BodySource, ObjectOpened, ReadBody
from forebay.peers.owners import Peers
from harness.fake import actions
from harness.fake.content import Synthetic
from harness.fake.gate import Gate
from harness.fetch_rig import BLOCK, MIN_RATE, NAME, FetchRig, fetch_rig
from harness.inspection import run_loop_until
from harness.manual_timers import ManualTimers


@dataclass
class SlowFetch:
    """A fetch of four blocks whose first response stops within the second block. Somebody waits for all of them."""

    rig: FetchRig
    content: Synthetic
    flights: dict[int, Flight]
    first: Gate
    """Holds the rest of the first response."""

    @property
    def actions(self) -> list[str]:
        return [event.action for event in self.rig.heard.of(SlowResponse)]

    def leave(self) -> None:
        for flight in self.flights.values():
            flight.leave()

    async def received(self) -> bytes:
        for flight in self.flights.values():
            await flight.wait_filled(flight.length)
        return b"".join(bytes(flight.buffer) for flight in self.flights.values())


@asynccontextmanager
async def slow_fetch(*more: actions.Action, missing: Sequence[int] = (0, 1, 2, 3)) -> AsyncIterator[SlowFetch]:
    """`more`: actions on the first response, beyond the stop."""
    async with fetch_rig() as rig:
        content = rig.origin.store.put_synthetic(*NAME, 4 * BLOCK)
        fetch = rig.fetch(await rig.head(), *missing)
        rig.origin.faults.add(actions.HoldAfter(BLOCK + 10, gate := Gate()), *more, method="GET", times=1)
        flights = rig.fetcher.start(fetch)
        for flight in flights.values():
            flight.follow()
        await flights[1].wait_filled(10)
        slow = SlowFetch(rig, content, flights, gate)
        yield slow
        gate.open()


async def waiting(slow: SlowFetch, group: asyncio.TaskGroup) -> "asyncio.Task[bytes]":
    task = group.create_task(slow.received())
    await asyncio.sleep(0)
    assert any(flight.is_awaited for flight in slow.flights.values())
    return task


async def failure(slow: SlowFetch) -> Exception | None:
    try:
        await slow.received()
    except OriginBroken as error:
        return error
    return None


async def test_a_slow_response_is_replaced_from_its_byte_on() -> None:
    async with slow_fetch() as slow:
        async with asyncio.TaskGroup() as group:
            received = await waiting(slow, group)
            slow.rig.timers.advance(7.0)
        assert received.result() == slow.content.expected(Span(0, 4 * BLOCK))
        assert slow.rig.origin.log.ranges() == [f"bytes={start}-{4 * BLOCK - 1}" for start in (0, BLOCK + 10)]
        assert slow.rig.origin.log.matching("GET")[1].headers["If-Match"] == slow.content.etag
        assert slow.actions == ["replaced"]
        slow.leave()


async def test_a_slow_response_is_replaced_before_a_block_that_is_here() -> None:
    async with slow_fetch(missing=(1, 3)) as slow:
        async with asyncio.TaskGroup() as group:
            received = await waiting(slow, group)
            slow.rig.timers.advance(7.0)
        assert received.result()[BLOCK:] == slow.content.expected(Span(3 * BLOCK, 4 * BLOCK))
        assert slow.actions == ["replaced"]
        slow.leave()


async def test_bytes_that_came_while_it_was_replaced_are_skipped() -> None:
    async with slow_fetch(actions.HoldAfter(BLOCK + 1000, Gate())) as slow:
        slow.rig.origin.faults.add(actions.HoldHead(second := Gate()), method="GET", times=1)
        async with asyncio.TaskGroup() as group:
            received = await waiting(slow, group)
            slow.rig.timers.advance(7.0)
            await second.reached()
            slow.first.open()
            await slow.flights[1].wait_filled(1000)
            second.open()
        assert received.result() == slow.content.expected(Span(0, 4 * BLOCK))
        assert slow.actions == ["replaced"]
        slow.leave()


async def test_a_response_that_recovers_while_it_is_replaced_is_kept() -> None:
    async with slow_fetch(actions.HoldAfter(3 * BLOCK, last := Gate())) as slow:
        slow.rig.origin.faults.add(actions.HoldHead(second := Gate()), method="GET", times=1)
        async with asyncio.TaskGroup() as group:
            received = await waiting(slow, group)
            slow.rig.timers.advance(7.0)
            await second.reached()
            slow.first.open()
            await slow.flights[2].wait_filled(BLOCK)
            second.open()
            await run_loop_until(lambda: slow.actions)
            last.open()
        assert received.result() == slow.content.expected(Span(0, 4 * BLOCK))
        assert slow.actions == ["kept"]
        slow.leave()


@pytest.mark.parametrize("fault", [actions.WRONG_ETAG, actions.NO_SUCH_KEY, actions.Drop(), actions.SLOW_DOWN], ids=str)
async def test_without_a_better_response_the_slow_one_is_kept(fault: actions.Action) -> None:
    async with slow_fetch() as slow:
        slow.rig.origin.faults.add(fault, method="GET", times=1)
        async with asyncio.TaskGroup() as group:
            received = await waiting(slow, group)
            slow.rig.timers.advance(7.0)
            await run_loop_until(lambda: slow.actions)
            slow.first.open()
        assert received.result() == slow.content.expected(Span(0, 4 * BLOCK))
        assert (slow.actions, slow.rig.origin.log.count("GET")) == (["kept"], 2)
        slow.leave()


async def test_a_response_that_breaks_while_it_is_replaced_is_resumed() -> None:
    async with slow_fetch(actions.ResetAfter(BLOCK + 20)) as slow:
        rule = slow.rig.origin.faults.add(actions.HoldHead(second := Gate()), method="GET", times=1)
        async with asyncio.TaskGroup() as group:
            received = await waiting(slow, group)
            slow.rig.timers.advance(7.0)
            await second.reached()
            slow.rig.origin.faults.remove(rule)
            slow.first.open()
        assert received.result() == slow.content.expected(Span(0, 4 * BLOCK))
        assert (slow.actions, slow.rig.origin.log.count("GET")) == ([], 3)
        slow.leave()
        second.open()


async def test_patience_doubles_with_each_replacement() -> None:
    async with slow_fetch() as slow:
        gates = [Gate() for _ in range(3)]
        for number, gate in enumerate(gates):
            slow.rig.origin.faults.add(actions.HoldAfter(0, gate), method="GET", times=1, skip=number)
        async with asyncio.TaskGroup() as group:
            received = await waiting(slow, group)
            for seconds, requests in ((6, 2), (11, 3), (21, 4)):
                slow.rig.timers.advance(seconds - 2.0)
                await asyncio.sleep(0)
                assert slow.rig.origin.log.count("GET") == requests - 1
                slow.rig.timers.advance(2.0)
                while len(slow.actions) < requests - 1:  # noqa: ASYNC110 # nobody tells
                    await asyncio.sleep(0)
                for _ in range(20):  # turns of the loop, until the reader has the other response
                    await asyncio.sleep(0)
            for gate in gates:
                gate.open()
        assert received.result() == slow.content.expected(Span(0, 4 * BLOCK))
        slow.leave()


async def test_a_slow_response_for_which_nobody_waits_is_left_alone() -> None:
    """Its readers are behind it: they write to slow clients."""
    async with slow_fetch() as slow:
        slow.rig.timers.advance(600.0)
        slow.first.open()
        assert await slow.received() == slow.content.expected(Span(0, 4 * BLOCK))
        assert (slow.actions, slow.rig.origin.log.count("GET")) == ([], 1)
        slow.leave()


async def test_time_in_which_the_loop_stood_still_is_not_the_origin_s() -> None:
    async with slow_fetch() as slow:
        async with asyncio.TaskGroup() as group:
            received = await waiting(slow, group)
            slow.rig.timers.stall(600.0)
            slow.rig.timers.advance(1.0)
            assert slow.rig.origin.log.count("GET") == 1
            slow.first.open()
        assert received.result() == slow.content.expected(Span(0, 4 * BLOCK))
        assert slow.actions == []
        slow.leave()


async def test_without_a_free_turn_a_slow_response_is_left_alone() -> None:
    async with slow_fetch() as slow:
        turns = slow.rig.reads.client.reads
        turns.capacity = 1
        async with asyncio.TaskGroup() as group:
            received = await waiting(slow, group)
            slow.rig.timers.advance(60.0)
            await asyncio.sleep(0)
            assert turns.in_use == 1
            turns.capacity = 2
            slow.rig.timers.advance(7.0)
        assert received.result() == slow.content.expected(Span(0, 4 * BLOCK))
        assert slow.actions == ["replaced"]
        slow.leave()


async def test_a_slow_block_that_nobody_follows_is_not_finished() -> None:
    """It is as if it had never been requested: a later reader has a request of its own."""
    async with slow_fetch() as slow:
        slow.leave()
        slow.rig.timers.advance(7.0)
        await slow.rig.tasks.wait_idle()
        assert (slow.actions, len(slow.rig.registry), slow.rig.budget.in_use) == (["ended"], 0, 0)
        head = await slow.rig.head()
        slow.rig.origin.log.reset()
        fetch = slow.rig.fetch(head, 1)
        slow.flights = slow.rig.fetcher.start(fetch)
        slow.flights[1].follow()
        assert await slow.received() == slow.content.expected(Span(BLOCK, 2 * BLOCK))
        slow.leave()


async def test_a_reader_that_joins_as_the_slow_response_ends_is_served() -> None:
    async with slow_fetch() as slow:
        slow.leave()
        slow.rig.timers.advance(7.0)
        for flight in slow.flights.values():
            flight.follow()
        assert await slow.received() == slow.content.expected(Span(0, 4 * BLOCK))
        assert slow.rig.origin.log.count("GET") == 2
        slow.leave()


@pytest.mark.parametrize("opened", [False, True])
async def test_a_fetch_cancelled_beside_its_replacement_leaves_nothing(opened: bool) -> None:
    """The rig's client checks that both turns are released."""
    async with slow_fetch() as slow:
        second = Gate()
        fault = actions.HoldAfter(0, second) if opened else actions.HoldHead(second)
        slow.rig.origin.faults.add(fault, method="GET", times=1)
        async with asyncio.TaskGroup() as group:
            failed = group.create_task(failure(slow))
            await asyncio.sleep(0)
            slow.rig.timers.advance(7.0)
            await second.reached()
            await slow.rig.tasks.close()
        assert isinstance(failed.result(), OriginBroken)
        slow.leave()
        second.open()


async def test_a_slow_response_of_another_worker_is_not_replaced() -> None:
    """The owner does that. But where nobody follows the block any more, it ends here as well."""
    async with fetch_rig() as rig:
        rig.origin.store.put_synthetic(*NAME, 2 * BLOCK)
        head = await rig.head()
        rig.origin.log.reset()
        fetch = rig.fetch(head, 0, 1)
        rig.budget.release(fetch.buffer_bytes)
        body = ReadBody(Drip(), head.size, not_reopened)
        flights = rig.fetcher.adopt(fetch, ObjectOpened(head.facts, Span(0, head.size), body, "joined"))
        flights[0].follow()
        await flights[0].wait_filled(1)
        async with asyncio.TaskGroup() as group:
            reader = group.create_task(flights[0].wait_filled(2))
            await asyncio.sleep(0)
            rig.timers.advance(60.0)
            await asyncio.sleep(0)
            assert (rig.heard.of(SlowResponse), rig.origin.log.requests) == ([], [])
            reader.cancel()
        flights[0].leave()
        rig.timers.advance(7.0)
        await rig.tasks.wait_idle()
        assert [event.action for event in rig.heard.of(SlowResponse)] == ["ended"]


async def test_a_body_that_a_client_comes_to_wait_for_skips_its_turns() -> None:
    """Before its response has come or afterwards. Other background work that joins it changes nothing."""
    async with fetch_rig() as rig:
        rig.origin.store.put_synthetic(*NAME, 2 * BLOCK)
        head = await rig.head()
        view, skips = ObjectView(NAME, head, "rule"), list[int]()
        for is_early in (False, True):
            fetch = rig.fetch(head, 0, 1)
            rig.budget.release(fetch.buffer_bytes)
            drip = Drip()
            body = ReadBody(drip, head.size, not_reopened)
            flights = rig.fetcher.adopt(fetch, ObjectOpened(head.facts, Span(0, head.size), body, "origin"))
            client, jobs = FollowedFlights(rig.block_source(), view), FollowedFlights(rig.block_source(), view)
            before = requester.get()
            requester.set(BACKGROUND)
            jobs.follow(0, flights[0])
            requester.set(before)
            if not is_early:
                await flights[0].wait_filled(1)
                skips.append(drip.skips)
            client.join(1)
            await flights[0].wait_filled(1)
            skips.append(drip.skips)
            client.leave_all()
            jobs.leave_all()
            rig.timers.advance(7.0)
            await rig.tasks.wait_idle()
        assert skips == [0, 1, 1]


async def test_a_longer_body_of_a_run_is_refused() -> None:
    """Its last block is read anew, from its beginning or where that had come to: which bytes are right is unknown."""
    async with fetch_rig() as rig:
        content = rig.origin.store.put_synthetic(*NAME, 2 * BLOCK)
        head = await rig.head()
        rig.origin.log.reset()
        fetch = rig.fetch(head, 0, 1)
        rig.budget.release(fetch.buffer_bytes)
        body = ReadBody(Whole(content.expected(Span(0, BLOCK)) + bytes(BLOCK + 1)), head.size, not_reopened)
        flights = rig.fetcher.adopt(fetch, ObjectOpened(head.facts, Span(0, head.size), body, "worker"))
        for flight in flights.values():
            flight.follow()
        await rig.tasks.wait_idle()
        assert b"".join(bytes(flight.buffer) for flight in flights.values()) == content.expected(Span(0, 2 * BLOCK))
        assert rig.origin.log.ranges() == [f"bytes={BLOCK}-{2 * BLOCK - 1}"]
        for flight in flights.values():
            flight.leave()


async def not_reopened(error: OriginError) -> BodySource:
    raise error


class Whole:
    """A body that gives as much of its content as there is room for."""

    def __init__(self, content: bytes) -> None:
        self._rest = content

    def take_whole(self, length: int) -> memoryview | None:
        return None

    async def read_into(self, target: memoryview) -> int:
        count = min(len(target), len(self._rest))
        target[:count], self._rest = self._rest[:count], self._rest[count:]
        return count

    def skip_turns(self) -> None: ...

    def close(self) -> None: ...


class Drip:
    """A body that stops after its first byte."""

    def __init__(self) -> None:
        self._begun = False
        self.skips = 0

    def take_whole(self, length: int) -> memoryview | None:
        return None

    async def read_into(self, target: memoryview) -> int:
        if self._begun:
            await asyncio.Event().wait()
        self._begun = True
        target[:1] = b"a"
        return 1

    def skip_turns(self) -> None:
        self.skips += 1

    def close(self) -> None: ...


class Link:
    """A link of `rate` bytes a second that all responses share, in simulated time. Opening takes `latency` seconds."""

    def __init__(self, timers: ManualTimers, rate: float, latency: float) -> None:
        self.timers, self.rate, self.latency = timers, rate, latency
        self.requests = 0
        self._free_at = 0.0

    async def sleep_until(self, when: float) -> None:
        done = asyncio.Event()
        self.timers.call_later(max(0.0, when - self.timers.time()), done.set)
        await done.wait()

    async def transfer(self, size: int) -> None:
        self._free_at = max(self._free_at, self.timers.time()) + size / self.rate
        await self.sleep_until(self._free_at)


class LinkBody:
    def __init__(self, link: Link, length: int) -> None:
        self._link = link
        self._left = length

    def take_whole(self, length: int) -> memoryview | None:
        return None

    async def read_into(self, target: memoryview) -> int:
        size = min(len(target), self._left, 4096)
        self._left -= size
        await self._link.transfer(size)
        return size

    def skip_turns(self) -> None: ...

    def close(self) -> None: ...


class LinkReads(OriginReads):
    """Reads over a link, of which only bodies take part in its rate."""

    def __init__(self, client: OriginClient, link: Link, facts: ObjectFacts) -> None:
        super().__init__(client)
        self._link = link
        self._facts = facts

    async def open_read(self, name: Any, read: OriginRead, **_more: Any) -> Any:
        span = read.span
        assert span is not None
        self._link.requests += 1
        await self._link.sleep_until(self._link.timers.time() + self._link.latency)
        return ObjectOpened(self._facts, span, ReadBody(LinkBody(self._link, span.length), span.length, not_reopened))


async def seconds_over_a_link(fetches: int, rate: float, floor: float) -> tuple[float, int]:
    """Returns how long so many fetches of 1 MiB take side by side over a link of `rate`, and the number of requests."""
    blocks = 16
    async with fetch_rig() as rig:
        rig.origin.store.put_synthetic(*NAME, fetches * blocks * BLOCK)
        head = await rig.head()
        link = Link(rig.timers, rate, latency=0.5)
        reads = LinkReads(rig.reads.client, link, head.facts)
        throughput = ThroughputFloor(floor, rig.timers)
        fetcher = Fetcher(reads, rig.tiers, rig.registry, rig.budget, rig.tasks, rig.heard, Peers(), throughput)
        flights: dict[int, Flight] = {}
        for number in range(fetches):
            flights |= fetcher.start(rig.fetch(head, *range(number * blocks, (number + 1) * blocks)))
        async with asyncio.TaskGroup() as group:
            for flight in flights.values():
                flight.follow()
                group.create_task(flight.wait_filled(flight.length))
            while not all(flight.has_landed for flight in flights.values()):
                for _ in range(12):
                    await asyncio.sleep(0)
                rig.timers.advance(0.05)
        for flight in flights.values():
            flight.leave()
        return rig.timers.time(), link.requests


@pytest.mark.parametrize("fetches", [1, 4])
async def test_goodput_on_an_honest_slow_link(fetches: int) -> None:
    """16 KB/s, a quarter of the floor. Four fetches have 4 KB/s each."""
    without, _ = await seconds_over_a_link(fetches, 16_000, 0)
    seconds, requests = await seconds_over_a_link(fetches, 16_000, MIN_RATE)
    assert without / seconds >= 0.9
    assert fetches < requests <= 8 * fetches
