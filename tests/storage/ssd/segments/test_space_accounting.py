import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.storage.ssd.segments.space_accounting import MIB, SEGMENT_BYTES, DiskSpace, SpaceAccounting


@given(st.integers(1 << 30, 1 << 45))
def test_what_is_kept_free_for_reclaim_is_a_hundredth_at_most(capacity: int) -> None:
    space = SpaceAccounting(capacity, {}, 0)
    assert capacity - space.lasting_capacity <= capacity // 100


@given(st.integers(MIB, 1 << 45))
def test_at_least_eight_segments_fit(capacity: int) -> None:
    space = SpaceAccounting(capacity, {}, 0)
    assert 8 * space.segment_size < capacity
    assert space.segment_size <= SEGMENT_BYTES


def test_sizes_add_up() -> None:
    space = SpaceAccounting(100 * MIB, {1: MIB, 2: 2 * MIB}, 10)
    assert space.used == 3 * MIB + 10
    space.set_size(3, 5)
    space.set_size(3, 8)
    assert space.used == 3 * MIB + 18
    space.remove(2)
    space.remove(2)
    assert space.used == MIB + 18
    assert space.segments() == [1, 3]


@pytest.mark.parametrize(
    ("used", "due", "fits", "excess"),
    [(69, False, True, False), (71, True, True, False), (90, True, False, False), (91, True, False, True)],
)
def test_reclaim_is_due_before_it_is_full(used: int, due: bool, fits: bool, excess: bool) -> None:
    space = SpaceAccounting(90 * MIB, {0: used * MIB}, 0)
    space.segment_floor = 10 * MIB
    assert (space.is_reclaim_due, space.has_space_for(MIB), space.is_exceeded) == (due, fits, excess)


def test_a_file_system_bounds_what_is_used() -> None:
    space = SpaceAccounting(1000 * MIB, {0: 10 * MIB}, 0)
    space.set_disk(DiskSpace(free=22 * MIB, size=40 * MIB))
    assert space.limit == 31 * MIB  # the 32nd is left for the index
    assert space.segment_size * 8 < space.limit
    assert space.has_space_for(21 * MIB)
    assert not space.has_space_for(22 * MIB)
    space.set_disk(DiskSpace(free=0, size=40 * MIB))  # others have filled it
    assert space.is_exceeded
    space.set_disk(DiskSpace(free=5000 * MIB, size=6000 * MIB))
    assert space.limit == 1000 * MIB
