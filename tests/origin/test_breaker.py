"""The breaker, as a table of events and the states after them, and by a property of all their sequences."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.origin.breaker import Breaker, BreakerState, Outage

CLOSED, SUSPECTED, OPEN = BreakerState.CLOSED, BreakerState.SUSPECTED, BreakerState.OPEN

# (what happens, the state after it); threshold 3. A failure with a key is of a connection that was made, for this key.
SEQUENCES = {
    "failures in a row raise a suspicion, and a probe that fails opens it": [
        ("failed", CLOSED),
        ("failed", CLOSED),
        ("failed", SUSPECTED),
        ("probe failed", OPEN),
        ("probe failed", OPEN),
    ],
    "a response in between starts the count again": [
        ("failed", CLOSED),
        ("failed", CLOSED),
        ("succeeded", CLOSED),
        ("failed", CLOSED),
        ("failed", CLOSED),
        ("probe failed", CLOSED),
    ],
    "one target counts once": [
        *[("failed a", CLOSED)] * 100,
        ("failed b", CLOSED),
        *[("failed a", CLOSED)] * 100,
        ("failed c", SUSPECTED),
    ],
    "connections that were not made and targets count together": [
        ("failed a", CLOSED),
        ("failed", CLOSED),
        ("failed b", SUSPECTED),
    ],
    "a probe that succeeds acquits it": [
        *[("failed", None)] * 3,
        ("succeeded", CLOSED),
        ("failed", CLOSED),
    ],
    "a response closes it": [
        *[("failed", None)] * 3,
        ("probe failed", OPEN),
        ("succeeded", CLOSED),
        ("failed", CLOSED),
    ],
    "a probe that failed before opens it without another": [
        ("probe failed", CLOSED),
        ("failed", CLOSED),
        ("failed", CLOSED),
        ("failed", OPEN),
    ],
    "a probe that began before a response means nothing": [
        *[("failed", None)] * 3,
        ("outdated probe failed", SUSPECTED),
        ("succeeded", CLOSED),
        ("outdated probe failed", CLOSED),
        *[("failed", None)] * 2,
        ("failed", SUSPECTED),
    ],
}


def apply(breaker: Breaker, event: str, now: float) -> None:
    match event.split():
        case ["succeeded"]:
            breaker.succeeded()
        case ["failed"]:
            breaker.failed()
        case ["failed", key]:
            breaker.failed(("bucket", key))
        case ["probe", "failed"]:
            breaker.probe_failed("connection refused", breaker.answers, now)
        case _:
            breaker.probe_failed("connection refused", breaker.answers - 1, now)


@pytest.mark.parametrize("steps", SEQUENCES.values(), ids=SEQUENCES.keys())
def test_the_state_after_each_event(steps: list[tuple[str, BreakerState | None]]) -> None:
    breaker = Breaker(threshold=3)
    for now, (event, state) in enumerate(steps):
        apply(breaker, event, now)
        if state is not None:
            assert breaker.state is state, (event, repr(breaker))
        assert breaker.admit() is (breaker.state is not OPEN)


def test_an_outage_has_its_latest_cause_and_its_begin() -> None:
    breaker = Breaker(threshold=1)
    breaker.probe_failed("name not resolved", 0, 5.0)
    breaker.probe_failed("connection refused", 0, 7.0)
    assert breaker.outage == Outage("connection refused", 5.0)
    breaker.succeeded()
    breaker.probe_failed("connection refused", breaker.answers, 9.0)
    assert breaker.outage == Outage("connection refused", 9.0)


def test_the_end_of_an_outage_is_told_once() -> None:
    breaker, told = Breaker(threshold=2), list[BreakerState]()
    breaker.on_outage_ended = lambda: told.append(breaker.state)
    for event in ("failed", "failed", "succeeded", "probe failed", "failed", "failed", "succeeded", "succeeded"):
        apply(breaker, event, 0)
    assert told == [CLOSED], "what no probe has confirmed is no outage"


def test_reachable_is_the_latest_news() -> None:
    breaker, seen = Breaker(threshold=1), list[bool | None]()
    for event in ("failed", "probe failed", "failed", "succeeded", "failed", "probe failed"):
        seen.append(breaker.reachable)
        apply(breaker, event, 0)
    assert [*seen, breaker.reachable] == [None, None, False, False, True, True, False]


EVENTS = st.lists(
    st.sampled_from(["succeeded", "failed", "failed a", "failed b", "probe failed", "outdated probe failed"]),
    max_size=60,
)


@given(EVENTS)
def test_only_a_failed_probe_and_failures_in_a_row_open_it(events: list[str]) -> None:
    """Against a model that looks at the events since the latest response."""
    breaker = Breaker(threshold=3)
    recent: list[str] = []
    for now, event in enumerate(events):
        apply(breaker, event, now)
        recent = [] if event == "succeeded" else [*recent, event]
        failures = recent.count("failed") + len({"failed a", "failed b"} & set(recent))
        probed = "probe failed" in recent
        assert breaker.state is (CLOSED if failures < 3 else OPEN if probed else SUSPECTED)
        assert (breaker.outage is not None) is probed
        assert (breaker.reachable is False) is probed
