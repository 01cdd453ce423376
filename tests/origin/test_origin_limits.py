"""The delay before a read is repeated."""

from hypothesis import given
from hypothesis import strategies as st

from forebay.origin.origin_limits import OriginLimits

LIMITS = OriginLimits(attempts=6, backoff_base=1.0, backoff_cap=5.0, retry_deadline=20.0)


def test_the_bound_doubles_up_to_the_cap() -> None:
    assert [LIMITS.delay_before(attempt, 0, 1.0) for attempt in range(2, 8)] == [1.0, 2.0, 4.0, 5.0, 5.0, None]


def test_none_after_the_deadline() -> None:
    assert LIMITS.delay_before(3, 18.5, 0.5) == 1.0
    assert LIMITS.delay_before(3, 19.0, 0.5) is None


@given(st.integers(2, 6), st.floats(0, 19), st.floats(0, 1, exclude_max=True))
def test_jitter_is_full(attempt: int, elapsed: float, jitter: float) -> None:
    delay = LIMITS.delay_before(attempt, elapsed, jitter)
    if delay is not None:
        assert 0 <= delay <= LIMITS.backoff_cap
        assert elapsed + delay < LIMITS.retry_deadline
    assert LIMITS.delay_before(attempt, elapsed, 0.0) == 0.0
