"""Delays between attempts, however many there were. What is retried: test_request_sender.py."""

import pytest

from forebay_client.transport.retry_policy import LONGEST_DELAY, RetryPolicy, patience, silence

POLICY = RetryPolicy(retries=5_000, random=lambda: 1.0)


def test_delays_double_up_to_the_longest() -> None:
    delays = [POLICY.delay(attempt, {}) for attempt in range(12)]
    assert delays == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 20.0, 20.0, 20.0, 20.0]
    assert POLICY.delay(4_999, {}) == LONGEST_DELAY
    assert POLICY.delay(5_000, {}) is None


def test_attempts_to_connect_are_a_second_apart_at_most() -> None:
    assert [POLICY.outage_delay(attempt) for attempt in (0, 3, 4, 1_024, 1_000_000)] == [0.1, 0.8, 1.0, 1.0, 1.0]


@pytest.mark.parametrize(
    ("retries", "seconds"), [(0, 0.0), (4, 5.0), (8, 25.5), (10, 65.5), (1_100, 21_865.5), (10**9, 2e10)]
)
def test_a_server_is_waited_for_as_long_as_its_retries_would_take(retries: int, seconds: float) -> None:
    assert patience(retries) == pytest.approx(seconds)


def test_silence_is_borne_for_two_attempts_by_default() -> None:
    assert [silence(60.0, retries) for retries in (0, 4, 8, 10)] == [60.0, 120.0, 180.0, 210.0]
