"""The node's clock: a later run is later, whatever the nanoseconds."""

from forebay.storage.journal.node_clock import run_of, seconds_between, time_of


def test_a_later_run_is_later() -> None:
    assert time_of(2, 0) > time_of(1, (1 << 64) - 1)
    assert run_of(time_of(2, 5)) == 2


def test_seconds_are_known_within_a_run_alone() -> None:
    assert seconds_between(time_of(1, 1), time_of(1, 1_500_000_001)) == 1.5
    assert seconds_between(time_of(1, 0), time_of(2, 1)) is None
