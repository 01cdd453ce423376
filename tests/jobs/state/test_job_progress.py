"""The position of a job, and its speed."""

import pytest

from forebay.jobs.state.job_progress import SPEED_WINDOW, CompletedEntry, JobPosition, JobSpeed, WarmUpFailure

BAD = WarmUpFailure("b", "k", "why")


def test_the_position_passes_no_gap() -> None:
    position = JobPosition()
    assert position.complete(1, CompletedEntry(10, BAD)) == []
    assert position.complete(2, CompletedEntry(20)) == []
    assert (position.entries, position.done, position.failed, position.size) == (0, 0, 0, 0)
    assert position.complete(0, CompletedEntry(5)) == [BAD]
    assert (position.entries, position.done, position.failed, position.size) == (3, 2, 1, 35)


def test_the_speed_is_that_of_the_last_half_minute() -> None:
    speed = JobSpeed()
    assert speed.rates(0.0, 0, 0) is None
    speed.add_sample(0.0, 0, 0)
    assert speed.rates(0.5, 100, 1) is None
    for second in range(1, 100):
        speed.add_sample(float(second), 1000 * second if second < 50 else 50_000, second)
    speed.add_sample(99.5, 10**9, 0)  # too soon: left out
    rates = speed.rates(99.0, 50_000, 99)
    assert rates is not None
    assert rates[0] == 0.0
    assert rates[1] == pytest.approx(1.0)


def test_a_job_that_stands_still_slows_down() -> None:
    speed = JobSpeed()
    speed.add_sample(0.0, 0, 0)
    speed.add_sample(10.0, 1000, 10)
    assert speed.rates(10.0, 1000, 10) == (100.0, 1.0)
    assert speed.rates(10.0 + SPEED_WINDOW, 1000, 10) == (25.0, 0.25)
