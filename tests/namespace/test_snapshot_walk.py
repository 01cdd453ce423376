"""Walks: whole, in parallel, in few requests, and what a client waits for first."""

import asyncio
import weakref
from pathlib import Path
from random import Random

import pytest

from forebay.core.errors import OriginBroken
from forebay.namespace.origin_pages import PageRequest
from forebay.namespace.snapshot import KeyRange, Snapshot, Unlisted
from forebay.namespace.snapshot_walk import MAX_RANGES, SnapshotWalk
from forebay.protocol.xml.listed_page import ListedEntries, ListingForm
from harness.inspection import run_loop_until
from harness.listed_keys import ListedKeys, facts_of, snapshot_in

FLAT = [f"train/{number:09d}.jpg" for number in range(40_000)]
DIRECTORIES = [
    f"{chr(97 + top)}/{deep:03d}/{number}" for top in range(8) for deep in range(20) for number in range(100)
]


async def all_entries(snapshot: Snapshot) -> list[tuple[str, str]]:
    entries: list[tuple[str, str]] = []
    position, inclusive = "", True
    while (block := await snapshot.block_behind(position, inclusive=inclusive)) is not None:
        assert not isinstance(block, Unlisted)
        listed = [(key, block.facts(number)) for number, key in enumerate(block.keys)]
        entries += [pair for pair in listed if inclusive or pair[0] > position]
        position, inclusive = block.keys[-1], False
    return entries


def begin(walk: SnapshotWalk) -> "asyncio.Future[None]":
    return asyncio.ensure_future(walk.run())  # noqa: TID251 # each test awaits it


def random_keys(seed: int) -> list[str]:
    random = Random(seed)
    return ["".join(random.choices("ab/é\U0001f600", k=random.randint(1, 8))) for _ in range(3000)]


@pytest.mark.parametrize(
    ("keys", "page"),
    [
        ([], 1000),
        (["a"], 1000),
        (FLAT[:1000], 1000),
        (FLAT, 1000),
        (DIRECTORIES, 100),
        (random_keys(1), 7),
        (FLAT[:99], 1),
    ],
)
async def test_a_walk_lists_each_key_once(tmp_path: Path, keys: list[str], page: int) -> None:
    origin, snapshot = ListedKeys(set(keys), page), snapshot_in(tmp_path)
    walk = SnapshotWalk(snapshot, origin)
    await walk.run()
    assert snapshot.is_complete
    assert await all_entries(snapshot) == [(key, facts_of(key)) for key in sorted(set(keys))]
    assert snapshot.keys == len(set(keys))


async def test_a_small_namespace_is_one_request(tmp_path: Path) -> None:
    origin = ListedKeys(FLAT[:900])
    await SnapshotWalk(snapshot_in(tmp_path), origin).run()
    assert len(origin.requests) == 1


@pytest.mark.parametrize("keys", [FLAT, DIRECTORIES])
async def test_a_large_one_is_listed_in_parallel_by_few_requests(tmp_path: Path, keys: list[str]) -> None:
    origin, snapshot = ListedKeys(keys, 100), snapshot_in(tmp_path)
    await SnapshotWalk(snapshot, origin, parallel=8).run()
    assert origin.most_at_once == 8
    pages = len(keys) // 100
    assert len(origin.requests) < 1.7 * pages + 80, f"{len(origin.requests)} requests for {pages} pages"


async def test_only_the_namespace_is_listed(tmp_path: Path) -> None:
    origin, snapshot = ListedKeys([*FLAT[:10], "other", "train"]), snapshot_in(tmp_path, "train/")
    await SnapshotWalk(snapshot, origin).run()
    assert [key for key, _ in await all_entries(snapshot)] == FLAT[:10]


class Repeating(ListedKeys):
    """An origin that repeats any number of keys that it was asked for."""

    async def fetch(self, request: PageRequest, form: ListingForm, *, is_awaited: bool = True) -> ListedEntries:
        page = await super().fetch(request, form, is_awaited=is_awaited)
        return page._replace(max_keys=str(request.limit))


@pytest.mark.parametrize(("origin", "echoed"), [(ListedKeys(["a"]), "1000"), (Repeating(["a"]), None)])
async def test_a_walk_learns_how_the_origin_repeats_a_number(
    tmp_path: Path, origin: ListedKeys, echoed: str | None
) -> None:
    """One above its limit: its limit, or the number itself."""
    snapshot = snapshot_in(tmp_path)
    await SnapshotWalk(snapshot, origin).run()
    assert snapshot.echoed_max_keys == echoed


async def test_a_refusal_ends_the_walk(tmp_path: Path) -> None:
    origin, snapshot = ListedKeys(FLAT), snapshot_in(tmp_path)
    origin.fails_behind = FLAT[20_000]
    with pytest.raises(OriginBroken, match="AccessDenied"):
        await SnapshotWalk(snapshot, origin).run()
    assert not snapshot.is_complete


async def test_a_namespace_beyond_the_capacity_ends_the_walk(tmp_path: Path) -> None:
    snapshot = snapshot_in(tmp_path, capacity=100_000)
    with pytest.raises(OriginBroken, match="more than 100000 bytes"):
        await SnapshotWalk(snapshot, ListedKeys(FLAT)).run()


async def test_an_ended_walk_completes_nothing(tmp_path: Path) -> None:
    origin, snapshot = ListedKeys(FLAT, 10), snapshot_in(tmp_path)
    walk = SnapshotWalk(snapshot, origin)
    running = begin(walk)
    await walk.wait_changed()
    walk.end()
    await running
    assert not snapshot.is_complete
    assert len(origin.requests) < 100


async def test_a_position_that_is_waited_for_comes_first(tmp_path: Path) -> None:
    origin, snapshot = ListedKeys(FLAT, 10), snapshot_in(tmp_path)
    walk = SnapshotWalk(snapshot, origin, parallel=1)
    running = begin(walk)
    await walk.wait_changed()
    position = FLAT[30_000]
    assert isinstance(await snapshot.block_behind(position, inclusive=False), Unlisted)
    walk.request_position(position)
    for _ in range(4):
        await walk.wait_changed()
    block = await snapshot.block_behind(position, inclusive=False)
    assert block is not None
    assert not isinstance(block, Unlisted)
    assert block.keys[0] == FLAT[30_001]
    walk.end()
    await running


async def test_a_client_at_a_frontier_is_served_next(tmp_path: Path) -> None:
    origin, snapshot = ListedKeys(FLAT, 10), snapshot_in(tmp_path)
    walk = SnapshotWalk(snapshot, origin, parallel=1)
    running = begin(walk)
    await walk.wait_changed()
    walk.request_position(FLAT[30_000])
    await run_loop_until(lambda: origin.requests[-1][1] == FLAT[30_010])
    first = snapshot.ranges[0]
    frontier = first.frontier
    walk.request_position(first.frontier)
    assert len(snapshot.ranges) == 2
    before = len(origin.requests)
    await run_loop_until(lambda: first.frontier > frontier)
    assert len(origin.requests) <= before + 2
    walk.end()
    await running


async def test_a_range_that_was_left_is_listed_once(tmp_path: Path) -> None:
    origin, snapshot = ListedKeys(FLAT[:300], 10), snapshot_in(tmp_path)
    walk = SnapshotWalk(snapshot, origin, parallel=2)
    running = begin(walk)
    await walk.wait_changed()
    first = snapshot.ranges[0]
    walk.request_position(FLAT[280])
    walk.request_position(FLAT[200])
    await run_loop_until(lambda: {FLAT[280], FLAT[200]} <= {after for _, after, _ in origin.requests})
    walk.request_position(first.frontier)
    await running
    assert snapshot.is_complete
    assert [key for key, _ in await all_entries(snapshot)] == FLAT[:300]
    assert snapshot.keys == 300


async def test_a_position_is_requested_once_however_often(tmp_path: Path) -> None:
    snapshot = snapshot_in(tmp_path)
    walk = SnapshotWalk(snapshot, ListedKeys(FLAT, 10), parallel=1)
    running = begin(walk)
    await walk.wait_changed()
    for _ in range(3):
        walk.request_position(FLAT[30_000])
    assert [each.low for each in snapshot.ranges] == ["", FLAT[30_000]]
    walk.end()
    await running


async def test_a_position_in_a_listed_range_requests_nothing(tmp_path: Path) -> None:
    snapshot = snapshot_in(tmp_path)
    walk = SnapshotWalk(snapshot, ListedKeys(FLAT[:10]))
    await walk.run()
    walk.request_position(FLAT[200])
    assert len(snapshot.ranges) == 1


async def test_positions_make_a_bounded_number_of_ranges(tmp_path: Path) -> None:
    snapshot = snapshot_in(tmp_path)
    walk = SnapshotWalk(snapshot, ListedKeys(FLAT))
    for position in FLAT[: MAX_RANGES + 100]:
        walk.request_position(position)
    assert len(snapshot.ranges) == MAX_RANGES


class HeldPages(ListedKeys):
    """Answers nothing but the first page until `held` is set."""

    def __init__(self, keys: list[str], page: int) -> None:
        super().__init__(keys, page)
        self.held = asyncio.Event()

    async def fetch(self, wanted: PageRequest, form: ListingForm, *, is_awaited: bool = True) -> ListedEntries:
        page = await super().fetch(wanted, form, is_awaited=is_awaited)
        if len(self.requests) > 1:
            await self.held.wait()
        return page


async def test_an_idle_walker_lists_what_a_client_waits_for(tmp_path: Path) -> None:
    """More walkers than splits are free: the others are idle."""
    origin, snapshot = HeldPages(FLAT, 10), snapshot_in(tmp_path)
    walk = SnapshotWalk(snapshot, origin, parallel=64)
    running = begin(walk)
    await run_loop_until(lambda: len(origin.requests) > 40)
    await asyncio.sleep(0)
    assert len(origin.requests) < 60
    walk.request_position(FLAT[30_000])
    await run_loop_until(lambda: origin.requests[-1][1] == FLAT[30_000])
    walk.end()
    origin.held.set()
    await running


async def test_a_walk_is_demand_for_the_second_client_too(tmp_path: Path) -> None:
    origin = ListedKeys(FLAT, 10)
    walk = SnapshotWalk(snapshot_in(tmp_path), origin, parallel=1)
    running = begin(walk)
    for _ in range(3):
        await walk.wait_changed()
    origin.awaited.clear()
    for _ in range(3):
        await walk.wait_changed()
    assert True in origin.awaited
    walk.end()
    await running


async def test_a_key_of_a_page_that_is_being_written_counts_once(tmp_path: Path) -> None:
    snapshot = snapshot_in(tmp_path)
    walk = SnapshotWalk(snapshot, ListedKeys(FLAT[:100], 10))
    running = begin(walk)
    await run_loop_until(lambda: snapshot.file.size > 0)
    assert snapshot.keys == 0, "the page is being written"
    walk.request_position(FLAT[5])
    await running
    assert [key for key, _ in await all_entries(snapshot)] == FLAT[:100]
    assert snapshot.keys == 100


async def test_a_position_behind_the_only_page_is_listed(tmp_path: Path) -> None:
    snapshot = snapshot_in(tmp_path)
    walk = SnapshotWalk(snapshot, ListedKeys(FLAT[:100]))
    running = begin(walk)
    await run_loop_until(lambda: snapshot.file.size > 0)
    walk.request_position(FLAT[200])
    await running
    assert snapshot.is_complete
    assert [key for key, _ in await all_entries(snapshot)] == FLAT[:100]


async def test_a_walk_is_demand_while_a_client_waits(tmp_path: Path) -> None:
    origin = ListedKeys(FLAT, 10)
    walk = SnapshotWalk(snapshot_in(tmp_path), origin)
    async with asyncio.TaskGroup() as group:
        waiting = group.create_task(walk.wait_changed())
        await asyncio.sleep(0)
        group.create_task(walk.run())
        await waiting
        assert origin.awaited[0] is True
        walk.end()


async def test_the_end_of_a_walk_wakes_who_waits(tmp_path: Path) -> None:
    walk = SnapshotWalk(snapshot_in(tmp_path), ListedKeys([]))
    async with asyncio.timeout(10), asyncio.TaskGroup() as group:
        group.create_task(walk.wait_changed())
        await asyncio.sleep(0)
        walk.end()


async def test_a_walk_is_background_work_once_no_client_waits(tmp_path: Path) -> None:
    origin, snapshot = ListedKeys(FLAT, 10), snapshot_in(tmp_path)
    walk = SnapshotWalk(snapshot, origin, parallel=1)
    running = begin(walk)
    leaving = asyncio.ensure_future(walk.wait_changed())  # noqa: TID251 # cancelled below
    await asyncio.sleep(0)
    leaving.cancel()
    await walk.wait_changed()
    await run_loop_until(lambda: len(origin.requests) > 5)
    assert origin.awaited[-1] is False
    walk.end()
    await running


async def test_an_origin_with_too_long_pages_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OriginBroken, match="a thousand"):
        await SnapshotWalk(snapshot_in(tmp_path), ListedKeys(FLAT, 1001)).run()


async def test_an_origin_that_begins_elsewhere_is_refused(tmp_path: Path) -> None:
    origin, snapshot = ListedKeys(FLAT, 10), snapshot_in(tmp_path, "train/")
    origin.keys = ["other", *FLAT]

    class Careless(ListedKeys):
        async def fetch(self, wanted: PageRequest, form: ListingForm, *, is_awaited: bool = True) -> ListedEntries:
            return await super().fetch(wanted._replace(prefix="", after=""), form, is_awaited=is_awaited)

    with pytest.raises(OriginBroken):
        await SnapshotWalk(snapshot, Careless(origin.keys, 10)).run()


def test_a_range_is_split_behind_its_frontier(tmp_path: Path) -> None:
    snapshot = snapshot_in(tmp_path)
    whole = snapshot.ranges[0]
    behind = snapshot.split(whole, "m")
    assert (whole.low, whole.high, behind.low, behind.high) == ("", "m", "m", None)
    assert isinstance(behind, KeyRange)
    assert snapshot.range_of("m", inclusive=True) is whole
    assert snapshot.range_of("m", inclusive=False) is behind


class PageKeys(list[str]):
    """Keys of a page, of which it is seen when nothing refers to them any more."""


class WatchedPages(ListedKeys):
    """Counts the pages of a walk that are alive when another one comes."""

    def __init__(self, keys: list[str]) -> None:
        super().__init__(keys)
        self.alive: list[int] = []
        self._pages: list[weakref.ref[PageKeys]] = []

    async def fetch(self, wanted: PageRequest, form: ListingForm, *, is_awaited: bool = True) -> ListedEntries:
        page = await super().fetch(wanted, form, is_awaited=is_awaited)
        self.alive.append(sum(each() is not None for each in self._pages))
        keys = PageKeys(page.keys)
        self._pages.append(weakref.ref(keys))
        return page._replace(keys=keys)


async def test_a_walk_keeps_no_page_while_it_is_written(tmp_path: Path) -> None:
    """The small objects of many pages at a time would keep the memory of all of them."""
    pages = WatchedPages(FLAT)
    snapshot = snapshot_in(tmp_path)
    await SnapshotWalk(snapshot, pages).run()
    assert snapshot.is_complete
    assert pages.most_at_once > 1
    assert set(pages.alive) == {0}
