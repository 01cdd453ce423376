"""The anchors of a recording: the same in whatever way its reads are appended, and few."""

from collections.abc import Callable

import pytest

from forebay.core.read_hashes import ReadHashes
from forebay.policy.anchor_index import MAX_ANCHORS, AnchorIndex
from harness.loader_orders import hashes_of, index_of, sample_keys


def append(index: AnchorIndex, hashes: ReadHashes) -> bool:
    index.append(hashes)
    return True


WAYS: dict[str, Callable[[AnchorIndex, ReadHashes], bool]] = {
    "one by one": lambda index, hashes: bool(index.extend(hashes)) or True,
    "new": AnchorIndex.extend_new,
    "unseen": append,
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("count", "step"), [(3000, 700), (30_000, 2048), (90_000, 5000)])
def test_each_way_of_appending_keeps_the_same_anchors(way: str, count: int, step: int) -> None:
    hashes = hashes_of(sample_keys(count))
    index = AnchorIndex()
    for start in range(0, count, step):
        assert WAYS[way](index, hashes[start : start + step])
    assert index.count == count
    assert MAX_ANCHORS // 2 < len(index) <= MAX_ANCHORS or index.has_all
    expected = {found: at for at, found in enumerate(hashes) if found < index.threshold}
    assert index.positions == expected
    assert dict(zip(*index.columns, strict=True)) == expected
    assert list(index.columns[1]) == sorted(expected.values())


@pytest.mark.parametrize("way", ["one by one", "unseen"])
@pytest.mark.parametrize("is_looked_up", [False, True])
def test_of_a_repeated_read_the_first_position_is_kept(way: str, is_looked_up: bool) -> None:
    index, hashes = AnchorIndex(), hashes_of(["a", "b", "a", "c", "b", "a"])
    for each in range(len(hashes)):
        WAYS[way](index, hashes[each : each + 1])
    if is_looked_up:
        assert len(index.positions) == 3
    assert [list(column) for column in index.columns] == [list(hashes_of(["a", "b", "c"])), [0, 1, 3]]


@pytest.mark.parametrize("more", [["new", "k7"], ["new", "other", "new"]])
def test_repeated_reads_are_refused_and_change_nothing(more: list[str]) -> None:
    keys = [f"k{number}" for number in range(20)]
    index = index_of(keys)
    assert not index.extend_new(hashes_of(more))
    assert (index.count, index.positions) == (20, index_of(keys).positions)
    assert index.extend_new(hashes_of(["new"]))
    assert index.positions == index_of([*keys, "new"]).positions


@pytest.mark.parametrize("is_looked_up", [False, True])
def test_truncation_forgets_the_reads_behind(is_looked_up: bool) -> None:
    index = AnchorIndex()
    index.append(hashes_of(sample_keys(100)))
    if is_looked_up:
        assert len(index.positions) == 100
    index.truncate(40)
    assert (index.count, index.positions) == (40, index_of(sample_keys(40)).positions)


def test_an_index_of_the_first_reads_leaves_the_whole_alone() -> None:
    index = index_of(sample_keys(50))
    whole = dict(index.positions)
    before = index.before(20)
    assert (before.count, before.positions) == (20, index_of(sample_keys(20)).positions)
    assert (index.count, index.positions) == (50, whole)
