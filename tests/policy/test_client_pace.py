"""The pace of a client counts the time in which the client is waited for, and no other."""

import pytest

from forebay.policy.client_pace import WINDOW, ClientPace


def pace_of(*pieces: tuple[float, int], after: float = 0.0) -> ClientPace:
    """The pace after pieces of (seconds that each took to arrive, bytes); `after` each, the origin is waited for."""
    pace, now = ClientPace(), 0.0
    for seconds, size in pieces:
        pace.wait(now)
        now += seconds
        pace.receive(now, size)
        now += after
    pace.wait(now)
    return pace


def end_of(*pieces: tuple[float, int], after: float = 0.0) -> float:
    return sum(seconds + after for seconds, _ in pieces)


def test_nothing_is_known_before_a_window_has_passed() -> None:
    pace = pace_of()
    assert pace.rate(WINDOW - 0.1) is None
    assert pace.rate(WINDOW) == 0


@pytest.mark.parametrize("after", [0.0, 100.0])
def test_only_the_time_of_the_client_counts(after: float) -> None:
    pieces = [(1.0, 1000)] * 20
    pace = pace_of(*pieces, after=after)
    assert pace.rate(end_of(*pieces, after=after)) == pytest.approx(1000)


def test_a_client_that_is_not_waited_for_has_no_pace() -> None:
    pace = pace_of((100.0, 1))
    pace.receive(100.0, 1)
    assert pace.rate(200.0) is None
    pace.receive(300.0, 1)
    assert pace.rate(400.0) is None


def test_a_fast_body_that_stalls_is_slow_soon() -> None:
    pieces = [(0.01, 1 << 20)] * 1000
    pace, now = pace_of(*pieces), end_of(*pieces)
    assert (pace.rate(now) or 0) > 1 << 20
    assert pace.rate(now + WINDOW) == pytest.approx(0, abs=1)


def test_a_slow_body_that_speeds_up_is_slow_no_longer() -> None:
    pieces = [(1.0, 1)] * 100 + [(0.1, 1 << 20)] * 100
    assert (pace_of(*pieces).rate(end_of(*pieces)) or 0) > 1 << 20


def test_a_drip_is_slow_at_every_moment_after_the_window() -> None:
    for count in range(int(WINDOW), 60):
        pieces = [(1.0, 1)] * count
        assert pace_of(*pieces).rate(end_of(*pieces)) == pytest.approx(1)


def test_a_piece_that_is_being_accepted_counts() -> None:
    pace = ClientPace()
    pace.wait(0.0, 100_000)
    assert pace.rate(WINDOW) == 100_000 / WINDOW
    assert pace.rate(100.0) == 1000
    pace.receive(100.0, 100_000)
    pace.wait(100.0, 10)
    assert pace.rate(101.0) == pytest.approx(100_010 / 101)
