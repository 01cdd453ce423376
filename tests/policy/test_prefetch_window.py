"""How far ahead of its reader a body is fetched."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.core.byte_ranges import Span
from forebay.policy.prefetch_window import FIRST_RUNS, HORIZON, MIN_READ, PACE_BYTES, READY_TO_SHRINK, PrefetchWindow


def test_the_window_doubles_with_each_wait_up_to_parallel() -> None:
    window = PrefetchWindow(parallel=10)
    seen = [window.runs]
    for _ in range(4):
        window.reader_waited()
        seen.append(window.runs)
    assert seen == [FIRST_RUNS, 4, 8, 10, 10]
    assert repr(window) == "Window(10 of 10)"


def test_a_slow_reader_never_makes_it_grow() -> None:
    window = PrefetchWindow(parallel=8)
    for _ in range(1000):
        window.reader_ready()
        assert window.runs == FIRST_RUNS


def test_it_shrinks_when_the_reader_has_fallen_behind_for_long() -> None:
    window = PrefetchWindow(parallel=8)
    window.reader_waited()
    window.reader_waited()
    for _ in range(READY_TO_SHRINK * 8 - 1):
        window.reader_ready()
    assert window.runs == 8
    window.reader_ready()
    assert window.runs == 4


def test_a_wait_starts_the_count_anew() -> None:
    window = PrefetchWindow(parallel=4)
    window.reader_waited()
    for _ in range(READY_TO_SHRINK * 4 - 1):
        window.reader_ready()
    window.reader_waited()
    window.reader_ready()
    assert window.runs == 4


@given(st.integers(1, 64), st.lists(st.booleans(), max_size=300))
def test_the_window_stays_within_bounds(parallel: int, waits: list[bool]) -> None:
    window = PrefetchWindow(parallel)
    for waited in waits:
        before = window.runs
        window.reader_waited() if waited else window.reader_ready()
        assert min(FIRST_RUNS, parallel) <= window.runs <= parallel
        assert waited or window.runs <= before


def test_at_least_one_run() -> None:
    assert PrefetchWindow(1).runs == 1
    with pytest.raises(ValueError):
        PrefetchWindow(0)


def test_the_reach_is_what_the_client_accepts_in_the_horizon() -> None:
    window = PrefetchWindow(4)
    window.client_accepted(1000, 0.0)
    assert window.reach is None  # has never made its reader wait
    window.client_accepted(1000, 0.5)
    assert window.reach == int(1000 * HORIZON / 0.5)


def test_what_a_socket_buffers_at_first_is_not_its_pace() -> None:
    window = PrefetchWindow(4)
    window.client_accepted(PACE_BYTES, 0.001)
    for _ in range(100):
        window.client_accepted(250_000, 1.0)
    assert window.reach is not None
    assert 0.9 <= window.reach / (250_000 * HORIZON) <= 1.1


def test_a_client_that_paused_once_has_its_reach_back_soon() -> None:
    window = PrefetchWindow(4)
    window.client_accepted(1000, 5.0)
    for _ in range(10):
        window.client_accepted(PACE_BYTES, 0.0)
    assert window.reach is not None
    assert window.reach > 128 << 20


def test_a_slow_client_reads_little_of_a_block_at_once() -> None:
    window, block = PrefetchWindow(4), Span(1000, 4 << 20)
    assert window.next_read(block) == block  # its pace is not known
    window.client_accepted(1 << 20, 1.0)
    assert window.next_read(block) == Span(1000, 256 << 10)
    assert window.next_read(Span(1000, 200_000)) == Span(1000, 200_000)
    window.client_accepted(0, 1000.0)
    assert window.next_read(block) == Span(1000, MIN_READ)
    assert window.next_read(Span(MIN_READ - 1, 4 << 20)) == Span(MIN_READ - 1, MIN_READ)
