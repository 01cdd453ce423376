"""A question to the origin, its answer, and those who wait for it."""

import asyncio

import pytest

from forebay.core.errors import OriginBroken
from forebay.core.heads import ObjectFacts, head_of
from forebay.core.names import BlockId, ObjectName, Version
from forebay.core.task_registry import TaskRegistry
from forebay.fetch.flight import Flight
from forebay.metadata.shared_lookup import LookupKey, Resolution, ResolvedVersion, SharedLookup, SharedLookups
from forebay.origin.read_outcomes import Uncacheable

ANSWER, NAME = Uncacheable("as it happens"), ObjectName("b", "k")


async def test_all_who_wait_have_the_answer_and_one_who_leaves_takes_it_from_nobody() -> None:
    tasks, told = TaskRegistry(), asyncio.Event()

    async def work() -> Resolution:
        await told.wait()
        return ANSWER

    asking = SharedLookup(tasks, work(), "question")
    async with asyncio.TaskGroup() as group:
        leaving, *staying = [group.create_task(asking.wait()) for _ in range(3)]
        await asyncio.sleep(0)
        leaving.cancel()
        told.set()
    assert [task.result() for task in staying] == [ANSWER, ANSWER]


async def test_what_it_failed_with_is_told_to_all() -> None:
    tasks = TaskRegistry()

    async def work() -> Resolution:
        raise OriginBroken("on purpose")

    asking = SharedLookup(tasks, work(), "question")
    outcomes = await asyncio.gather(asking.wait(), asking.wait(), return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [OriginBroken, OriginBroken]


@pytest.mark.parametrize("begun", [False, True])
async def test_when_it_is_given_up_nobody_waits_for_ever(begun: bool) -> None:
    tasks = TaskRegistry()

    async def work() -> Resolution:
        await asyncio.Event().wait()
        return ANSWER

    asking = SharedLookup(tasks, work(), "question")
    if begun:
        await asyncio.sleep(0)
    async with asyncio.TaskGroup() as group:
        waiting = group.create_task(asking.wait())
        await tasks.close()
        await asyncio.wait([waiting])
    assert waiting.cancelled()


async def test_who_knows_the_answer_finds_the_question_answered() -> None:
    tasks, asked = TaskRegistry(), 0
    questions = SharedLookups(tasks)

    async def work() -> Resolution:
        nonlocal asked
        asked += 1
        return ANSWER

    for _ in range(2):  # at once again, before the loop has seen the task end
        assert await questions.share(NAME, LookupKey("GET", None), work) == (ANSWER, False)
    assert asked == 2


async def test_flights_that_come_with_the_answer_are_followed_until_those_who_waited_had_their_turn() -> None:
    tasks, told, released = TaskRegistry(), asyncio.Event(), list[Flight]()
    head = head_of(ObjectFacts(Version('"v"'), 4, "", ()), 4, 0.0)
    flight = Flight(BlockId(NAME, head.generation, 0), 4, released.append)

    async def work() -> Resolution:
        await told.wait()
        flight.unfilled()[:] = b"body"
        flight.advance(4)
        return ResolvedVersion(head, "fetched", {0: flight})

    asking = SharedLookup(tasks, work(), "question")

    async def one(*, follows: bool) -> None:
        known = await asking.wait()
        assert isinstance(known, ResolvedVersion)
        assert not released  # though it has landed, and the other has gone perhaps
        if follows:
            known.flights[0].follow()

    async with asyncio.TaskGroup() as group:
        for follows in (False, True):
            group.create_task(one(follows=follows))
        await asyncio.sleep(0)
        told.set()
    await asyncio.sleep(0)  # the turn of the last one is over
    assert flight.followers == 1  # the one that took it
    assert not released
    flight.leave()
    assert released == [flight]
