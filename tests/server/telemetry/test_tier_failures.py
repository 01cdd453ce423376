"""Failures of tiers in the log: each kind once, then once a minute; and the latest of a failing tier."""

import pytest

from forebay.core.events import TierFailed
from forebay.server.telemetry.metrics import Metrics
from forebay.server.telemetry.tier_failures import FAILING_SECONDS, LOG_INTERVAL, MOST_KINDS

FULL = TierFailed("ssd", "write", "[Errno 28] No space left on device")


class Failing:
    """Metrics with a clock that is set by hand."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.metrics = Metrics(lambda: self.now)


def test_the_reason_of_a_failure_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    Failing().metrics.observe(FULL)
    assert caplog.messages == ["the ssd tier failed: write: [Errno 28] No space left on device"]
    assert caplog.records[0].levelname == "WARNING"


def test_a_kind_is_logged_once_a_minute_with_a_count(caplog: pytest.LogCaptureFixture) -> None:
    failing = Failing()
    for _ in range(5):
        failing.metrics.observe(FULL)
    failing.metrics.observe(TierFailed("ssd", "read", "[Errno 5] Input/output error"))
    assert len(caplog.messages) == 2
    failing.now += LOG_INTERVAL
    failing.metrics.observe(FULL)
    assert caplog.messages[2].endswith("No space left on device (and 4 times more since it was last logged)")
    failing.now += LOG_INTERVAL
    failing.metrics.observe(FULL)
    assert caplog.messages[3] == caplog.messages[0]


def test_file_names_make_no_kind_of_their_own(caplog: pytest.LogCaptureFixture) -> None:
    failing = Failing()
    for number in range(9):
        failing.metrics.observe(TierFailed("ssd", "read", f"[Errno 5] Input/output error: '/ssd/{number:010}.seg'"))
    assert caplog.messages == ["the ssd tier failed: read: [Errno 5] Input/output error: '/ssd/0000000000.seg'"]


def test_kinds_are_bounded(caplog: pytest.LogCaptureFixture) -> None:
    failing = Failing()
    for number in range(2 * MOST_KINDS):
        failing.metrics.observe(TierFailed("ssd", "read", f"reason {number}"))
    assert len(caplog.messages) == MOST_KINDS
    failing.now += LOG_INTERVAL
    failing.metrics.observe(FULL)
    assert "No space" in caplog.messages[-1]


def test_a_tier_is_failing_until_it_was_quiet_for_a_while() -> None:
    failing = Failing()
    failures = failing.metrics.tier_failures
    assert failures.latest("ssd") is None
    failing.metrics.observe(FULL)
    failing.now += FAILING_SECONDS - 1
    assert failures.latest("ssd") == FULL
    assert failures.latest("memory") is None
    failing.now += 1
    assert failures.latest("ssd") is None
