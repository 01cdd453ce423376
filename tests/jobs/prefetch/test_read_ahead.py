"""Read-ahead: what is ordered, for whom, and what becomes of it when it is wrong."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from forebay.core.byte_ranges import Span
from forebay.core.events import ObjectRead
from forebay.core.names import ObjectName
from forebay.core.read_stream import ReadBatch, ReadSubscriber
from forebay.core.task_registry import TaskRegistry
from forebay.jobs.prefetch.prefetch_request import PrefetchOutcome, PrefetchRequest
from forebay.jobs.prefetch.read_ahead import IDLE, LIST_SECONDS, MAX_TASKS, PAGE_KEYS, SWEEP_SECONDS, ReadAhead
from forebay.policy.grants import Grant, Principal
from forebay.policy.path_patterns import Pattern
from forebay.policy.rules import Rule, Rules
from forebay.protocol.operations import Access
from forebay.request.admission import GatewayPolicy
from forebay.request.authentication import Keyring
from harness.manual_timers import ManualTimers

MIB = 1 << 20
SHARDS = [f"train/{number:02}.tar" for number in range(40)]


def read_of(key: str, start: int, stop: int, size: int = 100 * MIB, principal: str = "trainer") -> ObjectRead:
    return ObjectRead(ObjectName("b", key), Span(start, stop), size, principal, "**", "miss", 0.0)


@dataclass
class Listed:
    key: str
    size: int


@dataclass
class FakeReads:
    """The reads of a node, as a test emits them."""

    is_collector: bool = True
    subscribers: list[ReadSubscriber] = field(default_factory=list)

    def subscribe(self, subscriber: ReadSubscriber) -> Callable[[], None]:
        self.subscribers.append(subscriber)
        return lambda: self.subscribers.remove(subscriber)

    def emit(self, *reads: ObjectRead) -> None:
        for subscriber in self.subscribers:
            subscriber(ReadBatch.of(reads))


@dataclass
class FakeFetcher:
    """Fetches everything, or as far as there is room."""

    requests: list[PrefetchRequest] = field(default_factory=list)
    finished: list[int] = field(default_factory=list)
    dropped: list[int] = field(default_factory=list)
    piece: int = 8 * MIB
    is_full: bool = False

    async def fetch(self, request: PrefetchRequest) -> PrefetchOutcome:
        self.requests.append(request)
        if self.is_full:
            return PrefetchOutcome("full")
        assert request.stop is not None
        stop = min(request.stop, request.start + self.piece)
        return PrefetchOutcome("fetched", 100 * MIB, stop, stop - request.start, len(self.requests))

    def finish(self, tickets: Iterable[int], *, late: bool = False) -> None:
        self.finished += tickets

    def drop(self, tickets: Iterable[int]) -> None:
        self.dropped += tickets


class Scene:
    """A read-ahead over fakes. `granted`: what the principal may read."""

    def __init__(self, granted: str = "**", *, has_identity: bool = False, read_ahead: int | None = 16 * MIB) -> None:
        principal = Principal("trainer", (Grant(Pattern(granted), frozenset({Access.READ})),))
        identities: Any = {"trainer": "identity"} if has_identity else {}
        keyring = Keyring({}, {"trainer": principal}, origin_identities=identities)
        self.policy = GatewayPolicy(keyring, Rules([Rule("**", read_ahead=read_ahead)]), (), {})
        self.reads, self.fetcher, self.tasks, self.timers = FakeReads(), FakeFetcher(), TaskRegistry(), ManualTimers()
        self.listings: list[tuple[str, str, str]] = []
        self.keys = SHARDS
        self.key_size = 10 * MIB
        self.listed = 0
        self.gate = asyncio.Event()
        """Listings wait for it."""
        self.gate.set()
        reads: Any = self.reads
        self.ahead = ReadAhead(reads, self.fetcher, self._list, lambda: self.policy, self.tasks.spawn, self.timers)
        self.ahead.use_policy()

    async def _list(self, bucket: str, prefix: str, after: str) -> AsyncGenerator[Listed]:
        self.listings.append((bucket, prefix, after))
        await self.gate.wait()
        for key in self.keys:
            if key.startswith(prefix) and key > after:
                self.listed += 1
                yield Listed(key, self.key_size)

    async def read(self, key: str, start: int, stop: int, size: int = 100 * MIB, principal: str = "trainer") -> None:
        self.reads.emit(read_of(key, start, stop, size, principal))
        await self.tasks.wait_idle()

    def fetched(self) -> list[tuple[str, int, int]]:
        return [(each.name.key, each.start // MIB, (each.stop or 0) // MIB) for each in self.fetcher.requests]


async def test_a_run_is_fetched_ahead_in_pieces_that_are_finished() -> None:
    scene = Scene()
    for number in range(8):
        await scene.read("key", number * MIB, (number + 1) * MIB)
    assert scene.fetched()[:1] == [("key", 3, 9)]
    assert scene.ahead.waiting >= 1
    for number in range(8, 100):
        await scene.read("key", number * MIB, (number + 1) * MIB)
    assert scene.ahead.waiting == 0
    assert sorted(scene.fetcher.finished) == list(range(1, len(scene.fetcher.requests) + 1))
    assert {each.group for each in scene.fetcher.requests} == {"read-ahead trainer"}


async def test_what_is_not_read_is_dropped_after_a_while() -> None:
    """One timer looks for it."""
    scene = Scene()
    for key in ("key", "other"):
        for number in range(3):
            await scene.read(key, number * MIB, (number + 1) * MIB)
    assert (scene.ahead.waiting, scene.timers.pending) == (2, 1)
    scene.timers.advance(IDLE - SWEEP_SECONDS)
    assert (scene.ahead.waiting, scene.timers.pending) == (2, 1)
    scene.timers.advance(2 * SWEEP_SECONDS)
    assert (scene.ahead.waiting, scene.fetcher.dropped, scene.timers.pending) == (0, [1, 2], 0)


async def test_the_next_shards_are_fetched_in_listing_order() -> None:
    scene = Scene()
    for key in SHARDS[:7]:
        await scene.read(key, 0, 10 * MIB, 10 * MIB)
    assert scene.listings == [("b", "train/", SHARDS[2])]
    pieces = [(SHARDS[5], 0, 10), (SHARDS[5], 8, 10), (SHARDS[6], 0, 10), (SHARDS[6], 8, 10)]
    assert scene.fetched() == [*pieces, (SHARDS[7], 0, 10), (SHARDS[7], 8, 10)]
    assert {each.start for each in scene.fetcher.requests} == {0, 8 * MIB}


async def test_a_listing_is_not_repeated_at_its_end() -> None:
    scene = Scene()
    for _ in range(2):
        for key in SHARDS:
            await scene.read(key, 0, 10 * MIB, 10 * MIB)
        scene.timers.advance(LIST_SECONDS)
    assert len(scene.listings) == 1


async def test_nothing_is_fetched_that_the_principal_may_not_read() -> None:
    scene = Scene(granted="b/train/0*")
    for key in SHARDS[:10]:
        await scene.read(key, 0, 10 * MIB, 10 * MIB)
    assert {name for name, *_ in scene.fetched()} <= set(SHARDS[:10])
    assert scene.fetched()
    before = len(scene.fetcher.requests)
    for number in range(10):
        await scene.read("key", number * MIB, (number + 1) * MIB, principal="stranger")
    assert len(scene.fetcher.requests) == before


async def test_a_credential_of_its_own_fetches_and_lists_nothing() -> None:
    scene = Scene(has_identity=True)
    for key in SHARDS[:10]:
        await scene.read(key, 0, 10 * MIB, 10 * MIB)
    assert (scene.listings, scene.fetcher.requests) == ([], [])
    for number in range(3):
        await scene.read("key", number * MIB, (number + 1) * MIB)
    assert [str(each.identity) for each in scene.fetcher.requests] == ["identity"]


async def test_a_full_budget_ends_the_fetch() -> None:
    scene = Scene()
    scene.fetcher.is_full = True
    for number in range(3):
        await scene.read("key", number * MIB, (number + 1) * MIB)
    assert (len(scene.fetcher.requests), scene.ahead.waiting) == (1, 0)


async def test_fetches_at_once_are_bounded() -> None:
    """Those that have ended do not count."""
    scene = Scene()
    for turn in (1, 2):
        for number in range(3):
            keys = [f"key{turn}-{each}" for each in range(3 * MAX_TASKS)]
            scene.reads.emit(*(read_of(key, number * MIB, (number + 1) * MIB) for key in keys))
        await scene.tasks.wait_idle()
        assert len(scene.fetcher.requests) == turn * MAX_TASKS


async def test_without_such_a_rule_nothing_is_subscribed_to() -> None:
    scene = Scene(read_ahead=None)
    assert scene.reads.subscribers == []
    scene.policy = Scene().policy
    scene.ahead.use_policy()
    assert len(scene.reads.subscribers) == 1
    scene.policy = Scene(read_ahead=0).policy
    scene.ahead.use_policy()
    assert scene.reads.subscribers == []
    scene.reads.is_collector = False
    scene.policy = Scene().policy
    scene.ahead.use_policy()
    assert scene.reads.subscribers == []


async def test_a_policy_that_is_used_again_changes_nothing() -> None:
    scene = Scene()
    for _ in range(2):
        scene.ahead.use_policy()
        assert len(scene.reads.subscribers) == 1


async def test_objects_of_another_rule_are_not_read_ahead() -> None:
    scene = Scene()
    scene.policy = replace(
        scene.policy, rules=Rules([Rule("b/train/**", read_ahead=0), Rule("**", read_ahead=16 * MIB)])
    )
    for key in SHARDS[:7]:
        await scene.read(key, 0, 10 * MIB, 10 * MIB)
    for number in range(5):
        await scene.read(SHARDS[9], number * MIB, (number + 1) * MIB)
    assert (scene.fetcher.requests, scene.listings) == ([], [])


async def test_the_next_object_is_due_near_the_end_of_a_run() -> None:
    scene = Scene()
    for key in SHARDS[:2]:
        await scene.read(key, 0, 10 * MIB, 10 * MIB)
    await scene.read(SHARDS[2], 99 * MIB, 100 * MIB)  # an index at its end
    await scene.read(SHARDS[2], 82 * MIB, 83 * MIB)
    assert scene.listings == []
    await scene.read(SHARDS[2], 83 * MIB, 84 * MIB)
    assert scene.listings == [("b", "train/", SHARDS[2])]


async def test_listings_follow_each_other_at_intervals() -> None:
    """One at a time, for all directories."""
    scene = Scene()
    scene.keys = [f"{directory}/{number}" for directory in "abcd" for number in range(8)]
    scene.gate.clear()

    async def read_some(directory: str) -> int:
        for number in range(4):
            scene.reads.emit(read_of(f"{directory}/{number}", 0, MIB, MIB))
            await asyncio.sleep(0)
        return len(scene.listings)

    scene.timers.advance(LIST_SECONDS)
    assert await read_some("a") == 1
    scene.timers.advance(LIST_SECONDS)
    assert await read_some("b") == 1, "the first is not here yet"
    scene.gate.set()
    await scene.tasks.wait_idle()
    assert await read_some("c") == 2
    await scene.tasks.wait_idle()
    assert await read_some("d") == 2, "too soon"
    scene.timers.advance(LIST_SECONDS)
    assert await read_some("d") == 3
    await scene.tasks.wait_idle()


async def test_one_page_of_a_large_directory_is_listed() -> None:
    scene = Scene()
    scene.keys = [f"d/{number:05}" for number in range(3 * PAGE_KEYS)]
    for key in scene.keys[:3]:
        await scene.read(key, 0, MIB, MIB)
    assert (len(scene.listings), scene.listed) == (1, PAGE_KEYS)
    scene.timers.advance(LIST_SECONDS)
    for key in scene.keys[PAGE_KEYS - 3 : PAGE_KEYS + 3]:
        await scene.read(key, 0, MIB, MIB)
    assert (len(scene.listings), scene.listed) == (2, 2 * PAGE_KEYS), "there was more"


async def test_an_empty_object_is_not_fetched_ahead() -> None:
    scene = Scene()
    scene.key_size = 0
    for key in SHARDS[:7]:
        await scene.read(key, 0, 10 * MIB, 10 * MIB)
    assert (len(scene.listings), scene.fetcher.requests) == (1, [])


async def test_a_full_budget_ends_the_fetch_of_a_next_object() -> None:
    scene = Scene()
    scene.fetcher.is_full = True
    for key in SHARDS[:5]:
        await scene.read(key, 0, 10 * MIB, 10 * MIB)
    assert (scene.fetched(), scene.ahead.waiting) == ([(SHARDS[5], 0, 10)], 0)


async def test_reads_of_something_else_finish_no_piece() -> None:
    """Of another object, or of other bytes."""
    scene = Scene()
    for number in range(3):
        await scene.read("key", number * MIB, (number + 1) * MIB)
    await scene.read("other", 5 * MIB, 6 * MIB)
    await scene.read("key", 0, MIB)
    assert (scene.fetcher.finished, scene.ahead.waiting) == ([], 1)
    await scene.read("key", 3 * MIB, 4 * MIB)
    assert 1 in scene.fetcher.finished
