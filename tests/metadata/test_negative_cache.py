"""The negative cache: which lookups it pauses, and for how long."""

from forebay.core.names import ObjectName
from forebay.metadata.negative_cache import NegativeCache

FIRST, SECOND, THIRD, FOURTH = (ObjectName("bucket", key) for key in ("one", "other", "third", "fourth"))
NOW = 1_700_000_000.0


def test_a_failure_pauses_only_its_object_for_a_while() -> None:
    cache = NegativeCache(10.0)
    assert not cache.is_paused(FIRST, None, NOW)
    cache.add_failure(FIRST, None, NOW)
    assert [cache.is_paused(FIRST, None, NOW + after) for after in (0.0, 9.9, 10.0)] == [True, True, False]
    assert not cache.is_paused(SECOND, None, NOW)


def test_a_timeout_pauses_only_its_object() -> None:
    cache = NegativeCache(10.0)
    for now in (NOW, NOW, NOW + 10.0):  # any number of times
        cache.add_timeout(FIRST, None, now)
        assert [cache.is_paused(FIRST, None, now + after) for after in (0.0, 9.9, 10.0)] == [True, True, False]
        assert not cache.is_paused(SECOND, None, now)


def test_timeouts_of_two_objects_in_a_row_pause_all_objects() -> None:
    cache = NegativeCache(10.0)
    cache.add_timeout(FIRST, None, NOW)
    cache.add_timeout(SECOND, None, NOW)
    assert [cache.is_paused(THIRD, None, NOW + after) for after in (0.0, 9.9, 10.0)] == [True, True, False]
    cache.add_timeout(THIRD, None, NOW + 10.0)  # one is enough after a pause
    assert cache.is_paused(FOURTH, None, NOW + 10.0)


def test_a_response_between_two_timeouts_prevents_a_general_pause() -> None:
    cache = NegativeCache(10.0)
    cache.add_timeout(FIRST, None, NOW)
    cache.clear_timeouts()
    cache.add_timeout(SECOND, None, NOW)
    assert not cache.is_paused(THIRD, None, NOW)


def test_a_clock_set_back_ends_every_pause() -> None:
    cache = NegativeCache(10.0)
    for name in (FIRST, SECOND):
        cache.add_timeout(name, None, NOW)
    assert not cache.is_paused(FIRST, None, NOW - 3600)


def test_the_capacity_is_bounded() -> None:
    cache = NegativeCache(10.0, capacity=2)
    for number in range(5):
        cache.add_failure(ObjectName("bucket", str(number)), None, NOW)
    assert len(cache) == 2
    assert cache.is_paused(ObjectName("bucket", "4"), None, NOW)
