"""Key locks: a deletion and another write of one key exclude each other, in one worker and between two."""

import asyncio
from typing import Any

import pytest

from forebay.core.errors import Throttled
from forebay.core.names import ObjectName
from forebay.core.task_registry import TaskRegistry
from forebay.peers.frames import Document
from forebay.peers.owners import Peers
from forebay.server.rpc.lock_methods import LockMethods
from forebay.server.rpc.rpc_methods import OpenWrites
from forebay.write.key_locks import KeyLocks
from harness.inspection import run_loop_until

KEY, OTHER = ObjectName("bucket", "key"), ObjectName("bucket", "other")


class Link:
    """Another worker, called without a socket; None: it does not listen."""

    def __init__(self) -> None:
        self.locks: KeyLocks | None = None

    async def call_until_acked(self, request: Document, _: float, *, slow: bool = False) -> str | None:
        assert slow == request["kind"].startswith("await_"), "the others take their time"
        return "process" if await self.answer_until_acked(request, _) is not None else None

    async def answer_until_acked(self, request: Document, _: float) -> Document | None:
        await asyncio.sleep(0)
        if self.locks is None:
            return None
        methods = LockMethods(self.locks).methods
        if (ordered := methods.ordered.get(request["kind"])) is not None:
            return ordered(request, OpenWrites())
        return await methods.unary[request["kind"]](request)


def workers(number: int) -> list[KeyLocks]:
    links = [Link() for _ in range(number)]
    locks = []
    for own in range(number):
        others: Any = {each: links[each] for each in range(number) if each != own}
        locks.append(KeyLocks(Peers(others)))
    for link, each in zip(links, locks, strict=True):
        link.locks = each
    return locks


class Holders:
    """Tasks that hold locks until they are told to end, and how many of each kind hold one key."""

    def __init__(self) -> None:
        self.tasks = TaskRegistry()
        self.holding: list[str] = []

    def start(self, locks: KeyLocks, kind: str, *names: ObjectName) -> tuple[asyncio.Event, asyncio.Task[None]]:
        end = asyncio.Event()

        async def hold() -> None:
            context = locks.for_deletion(names) if kind == "deletion" else locks.for_change(names[0])
            async with context:
                self.holding.append(kind)
                assert len(set(self.holding)) == 1, "they exclude each other"
                await end.wait()
                self.holding.remove(kind)

        return end, self.tasks.spawn(hold(), kind)


@pytest.mark.parametrize("other", [0, 1], ids=["same worker", "another worker"])
@pytest.mark.parametrize(("first", "second"), [("deletion", "change"), ("change", "deletion")])
async def test_one_waits_for_the_other(first: str, second: str, other: int) -> None:
    locks, holders = workers(2), Holders()
    end, held = holders.start(locks[0], first, KEY)
    await run_loop_until(lambda: holders.holding)
    then, waiting = holders.start(locks[other], second, KEY)
    await run_loop_until(lambda: locks[other].waiting or waiting.done())
    assert holders.holding == [first]
    end.set()
    await held
    await run_loop_until(lambda: holders.holding)
    assert holders.holding == [second]
    then.set()
    await waiting
    assert [repr(each) for each in locks] == ["<KeyLocks deletions=0 others=0 waiting=0>"] * 2


@pytest.mark.parametrize("kind", ["deletion", "change"])
async def test_writes_of_one_kind_do_not_wait(kind: str) -> None:
    locks, holders = workers(2), Holders()
    ends = [holders.start(locks[worker], kind, KEY) for worker in (0, 0, 1)]
    await run_loop_until(lambda: len(holders.holding) == 3)
    for end, held in ends:
        end.set()
        await held


async def test_other_keys_do_not_wait() -> None:
    locks, holders = workers(2), Holders()
    end, held = holders.start(locks[0], "deletion", KEY)
    await run_loop_until(lambda: holders.holding)
    for worker in range(2):
        async with locks[worker].for_change(OTHER) as has_waited:
            assert not has_waited
    end.set()
    await held


async def test_a_batch_waits_for_each_of_its_keys() -> None:
    locks, holders = workers(2), Holders()
    end, held = holders.start(locks[1], "change", OTHER)
    await run_loop_until(lambda: holders.holding)
    then, waiting = holders.start(locks[0], "deletion", KEY, OTHER)
    await run_loop_until(lambda: locks[0].waiting or waiting.done())
    assert holders.holding == ["change"]
    end.set()
    await held
    await run_loop_until(lambda: holders.holding == ["deletion"])
    then.set()
    await waiting


async def test_a_write_says_whether_it_has_waited() -> None:
    locks, holders = workers(1), Holders()
    end, _ = holders.start(locks[0], "deletion", KEY)
    await run_loop_until(lambda: holders.holding)
    asyncio.get_running_loop().call_soon(end.set)
    async with locks[0].for_change(KEY) as has_waited:
        assert has_waited


@pytest.mark.parametrize("other", [0, 1], ids=["same worker", "another worker"])
@pytest.mark.parametrize(("first", "second"), [("deletion", "change"), ("change", "deletion")])
async def test_nobody_waits_for_ever(first: str, second: str, other: int) -> None:
    locks, holders = workers(2), Holders()
    end, held = holders.start(locks[0], first, KEY)
    await run_loop_until(lambda: holders.holding)
    locks[other].wait_seconds = 0.0
    context = locks[other].for_deletion([KEY]) if second == "deletion" else locks[other].for_change(KEY)
    with pytest.raises(Throttled):
        async with context:
            pass
    end.set()
    await held
    async with locks[other].for_change(KEY) as has_waited:
        assert not has_waited, "whoever gave up has left no lock"


async def test_a_worker_that_is_gone_holds_nothing() -> None:
    locks = KeyLocks(Peers({1: Link()}))  # type: ignore[dict-item] # a double
    async with locks.for_deletion([KEY]):
        assert locks.is_being_deleted([KEY])
    async with locks.for_change(KEY) as has_waited:
        assert not has_waited


@pytest.mark.parametrize("seed", range(20))
async def test_many_at_once_never_overlap(seed: int) -> None:
    """Each task lets others run while it holds its lock; all of them come to an end."""
    locks, holders = workers(3), Holders()
    held = []
    for number in range(30):
        kind = "deletion" if (number * 7 + seed) % 3 == 0 else "change"
        end, task = holders.start(locks[(number + seed) % 3], kind, KEY)
        asyncio.get_running_loop().call_later(0, end.set)
        held.append(task)
    await asyncio.gather(*held)
