"""A block with written keys over it: in order, each entry from where it belongs."""

from pathlib import Path

import pytest

from forebay.namespace.entry_lookup import KnownKeys
from forebay.namespace.merged_block import MergedBlock, merged_block
from forebay.namespace.origin_pages import PageRequest
from forebay.namespace.snapshot import Unlisted
from harness.listed_keys import ListedKeys, facts_of, snapshot_in

WRITTEN = "<Size>2</Size>"


async def merged(directory: Path, known: dict[str, str | None], unknown: tuple[str, ...] = ()) -> MergedBlock:
    """The keys a, c, d, e, with others over them."""
    snapshot = snapshot_in(directory)
    page = await ListedKeys("acde").fetch(PageRequest("b", "", "", 1000), snapshot.form)
    await snapshot.add(snapshot.ranges[0], page)
    keys = KnownKeys(snapshot, lambda _: False)
    for key in (*known, *unknown):
        snapshot.overlay.mark(key)
    for key, facts in known.items():
        keys.learn(key, facts)
    block = await merged_block(snapshot, "", None, keys, inclusive=True)
    assert isinstance(block, MergedBlock)
    return block


def shown(block: MergedBlock, first: int, stop: int) -> list[tuple[str, str]]:
    return [
        (run.rows.keys[position], run.rows.facts(position))
        for run in block.runs(first, stop)
        for position in range(run.first, run.stop)
    ]


@pytest.mark.parametrize(
    "known", [{}, {"b": WRITTEN, "d": None}, {"0": WRITTEN, "a": WRITTEN, "dd": WRITTEN}, {"c": None}]
)
async def test_each_part_of_it_has_the_right_entries(tmp_path: Path, known: dict[str, str | None]) -> None:
    block = await merged(tmp_path, known)
    wanted = {key: facts_of(key) for key in "acde"} | known
    entries = [(key, facts) for key, facts in sorted(wanted.items()) if facts is not None]
    assert list(block.keys) == [key for key, _ in entries]
    for first in range(len(entries) + 1):
        for stop in range(first, len(entries) + 1):
            assert shown(block, first, stop) == entries[first:stop]


async def test_neighbours_of_the_snapshot_are_one_slice(tmp_path: Path) -> None:
    assert len((await merged(tmp_path, {})).segments) == 1
    assert len((await merged(tmp_path, {"b": WRITTEN})).segments) == 3


async def test_a_key_of_which_nothing_is_known_has_its_turn(tmp_path: Path) -> None:
    block = await merged(tmp_path, {"b": None}, ("bb", "d"))
    assert list(block.keys) == ["a", "bb", "c", "d", "e"]
    assert block.unknown == frozenset(("bb", "d"))


async def test_behind_the_frontier_nothing_is_listed(tmp_path: Path) -> None:
    snapshot = snapshot_in(tmp_path)
    known = KnownKeys(snapshot, lambda _: False)
    assert await merged_block(snapshot, "x", None, known, inclusive=False) == Unlisted("x")
    before = await merged_block(snapshot, "x", "a", known, inclusive=False)
    assert isinstance(before, MergedBlock)
    assert before.end is None


async def test_written_keys_before_the_frontier_are_shown(tmp_path: Path) -> None:
    """The snapshot has no more keys before the end, and the range behind it is not listed yet."""
    snapshot = snapshot_in(tmp_path)
    behind = snapshot.split(snapshot.ranges[0], "m")
    page = await ListedKeys("acde").fetch(PageRequest("b", "", "", 1000), snapshot.form)
    await snapshot.add(snapshot.ranges[0], page)
    assert (snapshot.ranges[0].is_listed, behind.is_listed) == (True, False)
    known = KnownKeys(snapshot, lambda _: False)
    for key in "fhm":
        snapshot.overlay.mark(key)
        known.learn(key, WRITTEN)
    block = await merged_block(snapshot, "e", "h", known, inclusive=False)
    assert isinstance(block, MergedBlock)
    assert (list(block.keys), block.end) == (["f"], None)
    assert await merged_block(snapshot, "e", "n", known, inclusive=False) == Unlisted("m")
