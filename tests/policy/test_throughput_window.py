"""The throughput window: too few bytes in a window are slow, and windows follow one another."""

from forebay.policy.throughput_window import PATIENCE, ThroughputWindow


def test_a_window_with_too_few_bytes_is_slow() -> None:
    window = ThroughputWindow(100.0)
    window.restart(1000.0, 7)
    assert not window.is_slow(1004.9, 7, PATIENCE)  # it has not passed
    assert not window.is_slow(1005.0, 507, PATIENCE)
    assert window.is_slow(1010.0, 1006, PATIENCE)


def test_a_burst_before_the_window_does_not_help() -> None:
    window = ThroughputWindow(100.0)
    window.restart(0.0, 0)
    assert not window.is_slow(5.0, 1_000_000, PATIENCE)
    assert window.is_slow(10.0, 1_000_001, PATIENCE)


def test_postponed_time_is_left_out() -> None:
    window = ThroughputWindow(100.0)
    window.restart(0.0, 0)
    window.postpone(60.0)
    assert not window.is_slow(64.9, 0, PATIENCE)
    assert window.is_slow(65.0, 0, PATIENCE)


def test_patience_doubles() -> None:
    window = ThroughputWindow(100.0)
    window.double()
    window.double()
    assert window.patience == 4 * PATIENCE


def test_without_a_floor_nothing_is_slow() -> None:
    window = ThroughputWindow(0)
    window.restart(0.0, 0)
    assert not window.is_slow(1e9, 0, PATIENCE)
