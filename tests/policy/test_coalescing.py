"""Which ranged GETs fetch what is missing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.policy.coalescing import BlockState, FetchBounds, coalesce

PLACES = {"M": BlockState.MISSING, "H": BlockState.MEMORY, "S": BlockState.SSD, "F": BlockState.IN_FLIGHT}
BLOCK = 100


def drawn(places: str, longest: int, gap: int, first: int = 0, size: int = 10**6) -> list[tuple[int, int]]:
    """The runs of places that are drawn as letters, as pairs of first and last block. Bounds are in blocks."""
    bounds = FetchBounds(longest * BLOCK, gap * BLOCK, parallel=8)
    runs = coalesce(first, [PLACES[letter] for letter in places], BLOCK, size, bounds)
    return [(run.blocks[0], run.blocks[-1]) for run in runs]


@pytest.mark.parametrize(
    ("places", "longest", "gap", "runs"),
    [
        ("", 4, 1, []),
        ("HSF", 4, 1, []),
        ("M", 4, 1, [(0, 0)]),
        ("HMMS", 4, 0, [(1, 2)]),
        ("MMMM", 4, 0, [(0, 3)]),
        # Evenly, the shorter first.
        ("MMMMM", 4, 0, [(0, 1), (2, 4)]),
        ("MMMMMMMMM", 4, 0, [(0, 2), (3, 5), (6, 8)]),
        ("MMMMMHMFMM", 4, 1, [(0, 2), (3, 6), (8, 9)]),
        # A gap: read through, too wide, in flight, or not worth it as it saves no request.
        ("MHM", 4, 1, [(0, 2)]),
        ("MSM", 4, 1, [(0, 2)]),
        ("MHM", 4, 0, [(0, 0), (2, 2)]),
        ("MHHM", 4, 1, [(0, 0), (3, 3)]),
        ("MFM", 4, 1, [(0, 0), (2, 2)]),
        ("MMMMHMMMM", 4, 1, [(0, 3), (5, 8)]),
        ("MMHMM", 4, 1, [(0, 1), (3, 4)]),
        # A block longer than a run is fetched alone.
        ("MM", 0, 0, [(0, 0), (1, 1)]),
    ],
)
def test_runs(places: str, longest: int, gap: int, runs: list[tuple[int, int]]) -> None:
    assert drawn(places, longest, gap) == runs


def test_indices_count_from_the_first_block() -> None:
    assert drawn("HM", 4, 0, first=7) == [(8, 8)]


def test_the_last_run_ends_with_the_object() -> None:
    (run,) = coalesce(3, [BlockState.MISSING] * 2, BLOCK, 450, FetchBounds(1000, 0, 8))
    assert (run.span.start, run.span.stop) == (300, 450)


@given(
    st.lists(st.sampled_from(list(BlockState)), max_size=40),
    st.integers(0, 1000),
    st.integers(0, 1500),
    st.integers(0, 500),
)
def test_every_missing_block_once_within_bounds(places: list[BlockState], first: int, max_run: int, gap: int) -> None:
    size = (first + len(places)) * BLOCK - 30
    runs = coalesce(first, places, BLOCK, size, FetchBounds(max_run, gap, 8))
    wanted = [first + i for i, place in enumerate(places) if place is BlockState.MISSING]
    assert [index for run in runs for index in run.missing] == wanted
    covered = [index for run in runs for index in run.blocks]
    assert covered == sorted(set(covered))
    for run in runs:
        assert run.span.length <= max(max_run, BLOCK)
        assert run.span.stop <= size
        assert (run.blocks[0], run.blocks[-1]) == (run.missing[0], run.missing[-1])
        assert run.span.start == run.blocks.start * BLOCK
        assert all(places[index - first] is not BlockState.IN_FLIGHT for index in run.blocks)
        for before, after in zip(run.missing, run.missing[1:], strict=False):
            assert (after - before - 1) * BLOCK <= gap


@given(st.lists(st.sampled_from(list(BlockState)), max_size=40), st.integers(1, 10), st.integers(1, 4))
def test_reading_through_only_saves(places: list[BlockState], longest: int, gap: int) -> None:
    apart = coalesce(0, places, BLOCK, 10**6, FetchBounds(longest * BLOCK, 0, 8))
    joined = coalesce(0, places, BLOCK, 10**6, FetchBounds(longest * BLOCK, gap * BLOCK, 8))
    through = sum(len(run.blocks) - len(run.missing) for run in joined)
    assert len(joined) <= len(apart)
    assert through == 0 or len(joined) < len(apart)
