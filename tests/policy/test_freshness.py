"""When what is known of an object may be believed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from multidict import CIMultiDict

from forebay.policy.freshness import (
    CLOCK_SKEW,
    FRESH,
    AlwaysRevalidate,
    Freshness,
    FreshnessResult,
    Immutable,
    MaxAge,
    Stale,
    evaluate_freshness,
    freshness_lifetime,
    parse_freshness,
    requests_revalidation,
)

NOW = 1_800_000_000.0


@pytest.mark.parametrize(
    ("freshness", "age", "verdict"),
    [
        (Immutable(), 0, FRESH),
        (Immutable(), 10**8, FRESH),
        (MaxAge(60), 0, FRESH),
        (MaxAge(60), 59.9, FRESH),
        (MaxAge(60), 60, Stale("expired")),
        (MaxAge(60), -CLOCK_SKEW, FRESH),
        (MaxAge(60), -CLOCK_SKEW - 0.1, Stale("clock")),
        (Immutable(), -3600, Stale("clock")),
        (MaxAge(0), 0, Stale("expired")),
        (MaxAge(0), -CLOCK_SKEW, Stale("expired")),
        (AlwaysRevalidate(), 0, Stale("always")),
    ],
)
def test_judge(freshness: Freshness, age: float, verdict: FreshnessResult) -> None:
    assert evaluate_freshness(NOW - age, freshness, NOW, trusted_from=0, no_cache=False) == verdict


@pytest.mark.parametrize("freshness", [Immutable(), MaxAge(60), AlwaysRevalidate()])
def test_nothing_from_before_trust_began_is_believed(freshness: Freshness) -> None:
    assert evaluate_freshness(NOW - 2, freshness, NOW, trusted_from=NOW - 1, no_cache=False) == Stale("untrusted")


def test_validated_when_trust_began_is_trusted() -> None:
    assert evaluate_freshness(NOW - 1, Immutable(), NOW, trusted_from=NOW - 1, no_cache=False) == FRESH


@pytest.mark.parametrize("freshness", [Immutable(), MaxAge(60), AlwaysRevalidate()])
def test_the_client_may_ask_for_a_revalidation(freshness: Freshness) -> None:
    assert evaluate_freshness(NOW, freshness, NOW, trusted_from=0, no_cache=True) == Stale("asked")


times = st.floats(0, 4e9)


@given(times, times, times, st.floats(0, 1e6), st.floats(0, 1e6))
def test_a_longer_freshness_is_never_staler(validated: float, now: float, trusted: float, a: float, b: float) -> None:
    short, long = sorted((a, b))
    if evaluate_freshness(validated, MaxAge(short), now, trusted, no_cache=False) is FRESH:
        assert evaluate_freshness(validated, MaxAge(long), now, trusted, no_cache=False) is FRESH
        assert evaluate_freshness(validated, Immutable(), now, trusted, no_cache=False) is FRESH


@pytest.mark.parametrize(
    ("headers", "asks"),
    [
        ([], False),
        ([("Cache-Control", "no-cache")], True),
        ([("cache-control", "No-Cache")], True),
        ([("Cache-Control", "max-age=0")], True),
        ([("Cache-Control", 'max-age="0"')], True),
        ([("Cache-Control", "max-age=00")], True),
        ([("Cache-Control", "max-age=-1")], True),
        ([("Cache-Control", "max-age")], True),
        ([("Cache-Control", "max-age=60")], False),
        ([("Cache-Control", "max-age=" + "9" * 5000)], False),
        ([("Cache-Control", "no-store")], True),
        ([("Cache-Control", "private, no-cache")], True),
        ([("Cache-Control", "private"), ("Cache-Control", "no-cache")], True),
        ([("Cache-Control", "max-stale=0, only-if-cached, no-transform")], False),
        ([("Pragma", "no-cache")], True),
        ([("Pragma", "other")], False),
        ([("Pragma", "no-cache"), ("Cache-Control", "max-age=60")], False),
    ],
)
def test_asks_revalidation(headers: list[tuple[str, str]], asks: bool) -> None:
    assert requests_revalidation(CIMultiDict(headers)) is asks


def test_the_words_for_it_are_here_too() -> None:
    assert [parse_freshness(text) for text in ("immutable", "always", "60s")] == [
        Immutable(),
        AlwaysRevalidate(),
        MaxAge(60),
    ]


@given(
    validated=st.integers(-5, 5),
    now=st.integers(-10, 10),
    freshness=st.sampled_from([Immutable(), AlwaysRevalidate(), MaxAge(0.0), MaxAge(1.0), MaxAge(3.0)]),
)
def test_a_lifetime_is_when_it_would_be_judged_fresh(validated: int, now: int, freshness: Freshness) -> None:
    begins, ends = freshness_lifetime(validated, freshness)
    assert (begins <= now < ends) == (evaluate_freshness(validated, freshness, now, 0.0, False) == FRESH)
