"""Which small parts are put together."""

from hypothesis import given
from hypothesis import strategies as st

from forebay.policy.part_coalescing import CandidatePart, CoalescedParts, PartTooSmall, coalesce_parts

LEAST = 5


def parts_of(*sizes: int | None, kept: bool = True) -> list[CandidatePart]:
    """Small ones are kept unless it is said otherwise; large ones never are."""
    return [
        CandidatePart(number, size, kept and size is not None and size < LEAST) for number, size in enumerate(sizes, 1)
    ]


def runs(*sizes: int | None) -> list[list[int]] | int:
    """The numbers of each run, or the part that is in the way."""
    found = coalesce_parts(parts_of(*sizes), LEAST)
    if isinstance(found, PartTooSmall):
        return found.part.number
    return [[part.number for part in run] for run in found.runs]


def test_small_neighbours_are_put_together_until_they_are_enough() -> None:
    assert runs(1, 1, 1, 1, 1, 1) == [[1, 2, 3, 4, 5], [6]]
    assert runs(3, 3, 3, 3, 1) == [[1, 2], [3, 4], [5]]
    assert runs(1) == [[1]]
    assert runs(1, 1) == [[1, 2]]


def test_large_ones_stay_as_they_are() -> None:
    assert runs(5, 6, 7, 1) == [[1], [2], [3], [4]]
    assert runs(1, 4, 9, 2, 4, 1) == [[1, 2], [3], [4, 5], [6]]


def test_too_few_in_front_of_a_large_one_join_those_before() -> None:
    assert runs(3, 3, 1, 6) == [[1, 2, 3], [4]]


def test_there_is_no_way_between_large_ones() -> None:
    assert runs(5, 1, 5) == 2
    assert runs(1, 5) == 1


def test_what_is_not_known_is_left_to_the_origin() -> None:
    assert runs(None, 1, 1) == [[1], [2, 3]]
    assert runs(3, 3, 1, None) == [[1, 2, 3], [4]]


def test_what_is_not_kept_can_not_be_put_together() -> None:
    found = coalesce_parts(parts_of(1, 1, 1, kept=False), LEAST)
    assert isinstance(found, PartTooSmall)
    assert found.part.number == 1
    assert isinstance(
        coalesce_parts(parts_of(5, 1, kept=False), LEAST), CoalescedParts
    )  # the last may be small as it is


@given(st.lists(st.one_of(st.integers(1, 12), st.none()), max_size=40))
def test_a_plan_is_the_same_bytes_in_parts_that_are_large_enough(sizes: list[int | None]) -> None:
    parts = parts_of(*sizes)
    found = coalesce_parts(parts, LEAST)
    if isinstance(found, PartTooSmall):
        assert found.part.size is not None
        assert found.part.size < LEAST
        return
    assert [part for run in found.runs for part in run] == parts
    for run in found.runs[:-1]:
        assert any(part.size is None for part in run) or sum(part.size or 0 for part in run) >= LEAST
    for run in found.runs:
        assert len(run) == 1 or all(part.kept for part in run)
