"""The breaker, as a table of events and the states after them."""

import pytest

from forebay.origin.breaker import Breaker, BreakerState

CLOSED, OPEN, PROBING = BreakerState.CLOSED, BreakerState.OPEN, BreakerState.PROBING

# (what happens, at what time, what admit then answers or None, the state after it); threshold 3, cooldown 10
SEQUENCES = {
    "failures in a row open it": [
        ("failed", 0, None, CLOSED),
        ("failed", 0, None, CLOSED),
        ("admit", 0, True, CLOSED),
        ("failed", 1, None, OPEN),
        ("admit", 10.9, False, OPEN),
    ],
    "a success in between starts the count again": [
        ("failed", 0, None, CLOSED),
        ("failed", 0, None, CLOSED),
        ("succeeded", 0, None, CLOSED),
        ("failed", 0, None, CLOSED),
        ("failed", 0, None, CLOSED),
        ("admit", 0, True, CLOSED),
    ],
    "one probe at a time": [
        *[("failed", 0, None, None)] * 3,
        ("admit", 10, True, PROBING),
        ("admit", 10, False, PROBING),
        ("admit", 19, False, PROBING),
    ],
    "a probe that succeeds closes it": [
        *[("failed", 0, None, None)] * 3,
        ("admit", 10, True, PROBING),
        ("succeeded", 11, None, CLOSED),
        ("admit", 11, True, CLOSED),
    ],
    "a probe that fails opens it again, for another cooldown": [
        *[("failed", 0, None, None)] * 3,
        ("admit", 10, True, PROBING),
        ("failed", 12, None, OPEN),
        ("admit", 21, False, OPEN),
        ("admit", 22, True, PROBING),
    ],
    "a probe that is withdrawn makes way for the next": [
        *[("failed", 0, None, None)] * 3,
        ("admit", 10, True, PROBING),
        ("withdrawn", 11, None, OPEN),
        ("admit", 11, True, PROBING),
    ],
    "a probe that is never heard of again is forgotten": [
        *[("failed", 0, None, None)] * 3,
        ("admit", 10, True, PROBING),
        ("admit", 20, True, PROBING),
    ],
    "late good news of an earlier request closes it": [
        *[("failed", 0, None, None)] * 3,
        ("succeeded", 1, None, CLOSED),
        ("admit", 1, True, CLOSED),
    ],
    "withdrawing from a closed one means nothing": [
        ("withdrawn", 0, None, CLOSED),
        ("admit", 0, True, CLOSED),
    ],
}


@pytest.mark.parametrize("steps", SEQUENCES.values(), ids=SEQUENCES.keys())
def test_the_state_after_each_event(steps: list[tuple[str, float, bool | None, BreakerState | None]]) -> None:
    breaker = Breaker(threshold=3, cooldown=10)
    for event, now, answer, state in steps:
        match event:
            case "admit":
                assert breaker.admit(now) is answer
            case "succeeded":
                breaker.succeeded()
            case "failed":
                breaker.failed(now)
            case "withdrawn":
                breaker.withdrawn(now)
        if state is not None:
            assert breaker.state is state, repr(breaker)
