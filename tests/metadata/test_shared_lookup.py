"""Shared lookups: one result or failure for all waiters, and flights that live until each has run."""

import asyncio
from typing import Any

import pytest

from forebay.core.errors import OriginBroken
from forebay.core.heads import ObjectFacts, head_of
from forebay.core.names import BlockId, ObjectName, Version
from forebay.core.task_registry import TaskRegistry
from forebay.fetch.flight import Flight
from forebay.metadata.resolution import Resolution, ResolvedVersion
from forebay.metadata.shared_lookup import BegunRead, LookupKey, SharedLookup, SharedLookups
from forebay.origin.credentials import ANONYMOUS
from forebay.origin.origin_identity import OriginIdentity
from forebay.origin.reads.read_outcomes import Uncacheable

ANSWER, NAME = Uncacheable("as it happens"), ObjectName("b", "k")
ALICE, BOB = OriginIdentity("alice", ANONYMOUS), OriginIdentity("bob", ANONYMOUS)


async def test_all_waiters_get_the_result_though_one_is_cancelled() -> None:
    tasks, proceed = TaskRegistry(), asyncio.Event()

    async def work() -> Resolution:
        await proceed.wait()
        return ANSWER

    lookup = SharedLookup()
    lookup.run(tasks, work(), "label")
    async with asyncio.TaskGroup() as group:
        cancelled, *others = [group.create_task(lookup.wait()) for _ in range(3)]
        await asyncio.sleep(0)
        cancelled.cancel()
        proceed.set()
    assert [task.result() for task in others] == [ANSWER, ANSWER]


async def test_all_waiters_get_the_failure() -> None:
    tasks = TaskRegistry()

    async def work() -> Resolution:
        raise OriginBroken("on purpose")

    lookup = SharedLookup()
    lookup.run(tasks, work(), "label")
    outcomes = await asyncio.gather(lookup.wait(), lookup.wait(), return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [OriginBroken, OriginBroken]


@pytest.mark.parametrize("begun", [False, True])
async def test_a_cancelled_lookup_cancels_its_waiters(begun: bool) -> None:
    tasks = TaskRegistry()

    async def work() -> Resolution:
        await asyncio.Event().wait()
        return ANSWER

    lookup = SharedLookup()
    lookup.run(tasks, work(), "label")
    if begun:
        await asyncio.sleep(0)
    async with asyncio.TaskGroup() as group:
        waiting = group.create_task(lookup.wait())
        await tasks.close()
        await asyncio.wait([waiting])
    assert waiting.cancelled()


async def test_a_finished_lookup_is_not_joined() -> None:
    tasks, calls = TaskRegistry(), 0
    lookups = SharedLookups(tasks)

    async def work(_: BegunRead | None) -> Resolution:
        nonlocal calls
        calls += 1
        return ANSWER

    for _ in range(2):  # at once again, before the loop has seen the task end
        assert await lookups.share(NAME, LookupKey("GET", None), work) == (ANSWER, False)
    assert calls == 2


async def test_readers_take_over_from_a_leader_that_was_cancelled() -> None:
    lookups, proceed, begun = SharedLookups(TaskRegistry()), asyncio.Event(), asyncio.Queue[None]()

    async def work(_: BegunRead | None) -> Resolution:
        begun.put_nowait(None)
        await proceed.wait()
        return ANSWER

    async with asyncio.TaskGroup() as group:
        key = LookupKey("GET", None)
        leader, *others = [group.create_task(lookups.share(NAME, key, work, leads=True)) for _ in range(3)]
        await begun.get()
        await asyncio.sleep(0)  # the others have joined it
        leader.cancel()
        await begun.get()
        await asyncio.sleep(0)
        proceed.set()
    assert [task.result() for task in others] == [(ANSWER, False), (ANSWER, True)]
    assert begun.empty()


async def test_waiters_get_the_failure_of_their_leader() -> None:
    lookups, proceed = SharedLookups(TaskRegistry()), asyncio.Event()

    async def work(_: BegunRead | None) -> Resolution:
        await proceed.wait()
        raise OriginBroken("on purpose")

    shares = [lookups.share(NAME, LookupKey("GET", None), work, leads=True) for _ in range(3)]
    asyncio.get_running_loop().call_soon(proceed.set)
    outcomes = await asyncio.gather(*shares, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [OriginBroken] * 3


async def test_flights_with_the_result_live_until_all_waiters_have_run() -> None:
    tasks, proceed, released = TaskRegistry(), asyncio.Event(), list[Flight]()
    head = head_of(ObjectFacts(Version('"v"'), 4, "", ()), 4, 0.0)
    flight = Flight(BlockId(NAME, head.generation, 0), 4, released.append)

    async def work() -> Resolution:
        await proceed.wait()
        flight.unfilled()[:] = b"body"
        flight.advance(4)
        return ResolvedVersion(head, "fetched", {0: flight})

    lookup = SharedLookup()
    lookup.run(tasks, work(), "label")

    async def reader(*, follows: bool) -> None:
        result = await lookup.wait()
        assert isinstance(result, ResolvedVersion)
        assert not released  # though it has landed, and the other reader may have left
        if follows:
            result.flights[0].follow()

    async with asyncio.TaskGroup() as group:
        for follows in (False, True):
            group.create_task(reader(follows=follows))
        await asyncio.sleep(0)
        proceed.set()
    await asyncio.sleep(0)  # the turn of the last reader is over
    assert flight.followers == 1  # the reader that follows it
    assert not released
    flight.leave()
    assert released == [flight]


@pytest.mark.parametrize(
    "key",
    [
        LookupKey("GET", ALICE),
        LookupKey("HEAD", None),
        LookupKey("check", None),
        LookupKey("GET", None, "v1"),
        LookupKey("GET", BOB, "v1"),
    ],
)
async def test_only_gets_of_the_current_version_bring_blocks_to_others(key: LookupKey) -> None:
    lookups = SharedLookups(TaskRegistry())
    assert lookups.begin(NAME, key) is not None
    assert lookups.find_opening(NAME, other_than=ALICE) is None
    lookups.fence(NAME)
    opening = lookups.begin(NAME, LookupKey("GET", BOB))
    assert opening is not None
    assert lookups.find_opening(NAME, other_than=ALICE) is opening
    assert lookups.find_opening(ObjectName("b", "other"), other_than=ALICE) is None
    lookups.fence(NAME)
    assert lookups.find_opening(NAME, other_than=ALICE) is None


class Sent:
    """In place of a request under way."""

    def __init__(self) -> None:
        self.is_closed = False

    def close(self) -> None:
        self.is_closed = True


@pytest.mark.parametrize("is_fenced_first", [False, True])
async def test_a_request_given_up_before_or_behind_a_fence_answers_nobody(is_fenced_first: bool) -> None:
    lookups, given_up = SharedLookups(TaskRegistry()), Sent()
    sent: Any = given_up

    async def work(sent: BegunRead | None) -> Resolution:
        assert sent is None, "what it brings may be older than the write"
        return ANSWER

    lookup = lookups.begin(NAME, LookupKey("GET", None))
    assert lookup is not None
    async with asyncio.TaskGroup() as group:
        waiting = group.create_task(lookups.share(NAME, LookupKey("GET", None), work))
        await asyncio.sleep(0)
        for step in (lookups.fence, lambda _: lookup.give_up(sent))[:: 1 if is_fenced_first else -1]:
            assert not given_up.is_closed
            step(NAME)
        assert given_up.is_closed
        assert lookup.take_over() is None
    assert waiting.result() == (ANSWER, False)
