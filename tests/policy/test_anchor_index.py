"""The anchors of a recording: the same in whatever way its reads are appended, and few."""

from collections.abc import Callable

import pytest

from forebay.core.read_hashes import ReadHashes
from forebay.policy.anchor_index import MAX_ANCHORS, MAX_SEARCHES, AnchorIndex
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


@pytest.mark.parametrize("count", [3000, 30_000])
def test_a_few_batches_are_searched_for_without_a_dictionary(count: int) -> None:
    hashes = hashes_of(sample_keys(count))
    index = AnchorIndex()
    index.append(hashes)
    index.append(hashes[:10])
    expected = {found: at for at, found in enumerate(hashes) if found < index.threshold}
    for nth in range(MAX_SEARCHES + 1):
        assert not index.is_dictionary
        sought = hashes[nth * 50 : nth * 50 + 100] + hashes_of(["other"])
        found = index.find(sought)
        assert {each: found[each] for each in sought if each in found} == {
            each: expected[each] for each in sought if each in expected
        }
        assert index.find(sought[5:20]) is found
    assert index.is_dictionary


def test_reads_that_are_appended_are_found_without_a_dictionary() -> None:
    index, hashes = AnchorIndex(), hashes_of(sample_keys(100))
    index.append(hashes[:50])
    assert index.find(hashes[40:75]).keys() == set(hashes[40:50])
    assert index.extend(hashes[48:52]) == [(50, 48), (51, 49), (52, 52), (53, 53)]
    assert not index.extend_new(hashes[51:60])
    assert index.extend_new(hashes[60:65])
    assert not index.extend_new(hashes[65:68] + hashes[65:66])
    assert index.extend(hashes[65:66]) == [(59, 59)]
    assert not index.is_dictionary
    assert list(index.columns[0]) == list(hashes[:50] + hashes[50:52] + hashes[60:66])
    index.append(hashes[70:72])
    assert index.find(hashes[70:71]) == {hashes[70]: 60}, "searched for anew"


def test_reads_behind_a_truncation_are_found_no_more() -> None:
    index, hashes = AnchorIndex(), hashes_of(sample_keys(100))
    index.append(hashes[:50])
    assert hashes[45] in index.find(hashes[40:60])
    index.truncate(44)
    assert index.find(hashes[40:60]).keys() == set(hashes[40:44])
    assert not index.is_dictionary


@pytest.mark.parametrize(("count", "step"), [(100, 1), (600, 2), (1500, 4), (3000, 8), (30_000, 8)])
def test_sparse_positions_are_a_share_that_is_enough(count: int, step: int) -> None:
    index, hashes = AnchorIndex(), hashes_of(sample_keys(count))
    for part in (hashes[:-50], hashes[-50:]):
        index.append(part)
        threshold, positions = index.sparse
    assert threshold == min(index.threshold, (1 << 32) // step)
    assert positions == {found: at for at, found in enumerate(hashes) if found < threshold}


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
