"""What was asked in vain: for how long, and for whom, that keeps from asking again."""

from forebay.core.names import ObjectName
from forebay.metadata.negative_cache import NegativeCache

ONE, OTHER, THIRD, FOURTH = (ObjectName("bucket", key) for key in ("one", "other", "third", "fourth"))
NOW = 1_700_000_000.0


def test_an_answer_that_was_none_is_that_objects_alone_and_for_a_while() -> None:
    vain = NegativeCache(10.0)
    assert not vain.is_paused(ONE, None, NOW)
    vain.add_failure(ONE, None, NOW)
    assert [vain.is_paused(ONE, None, NOW + after) for after in (0.0, 9.9, 10.0)] == [True, True, False]
    assert not vain.is_paused(OTHER, None, NOW)


def test_an_answer_that_did_not_come_is_that_objects_alone() -> None:
    vain = NegativeCache(10.0)
    for now in (NOW, NOW, NOW + 10.0):  # however often
        vain.add_timeout(ONE, None, now)
        assert [vain.is_paused(ONE, None, now + after) for after in (0.0, 9.9, 10.0)] == [True, True, False]
        assert not vain.is_paused(OTHER, None, now)


def test_when_none_came_about_two_in_a_row_it_is_everybodys_and_for_a_while() -> None:
    vain = NegativeCache(10.0)
    vain.add_timeout(ONE, None, NOW)
    vain.add_timeout(OTHER, None, NOW)
    assert [vain.is_paused(THIRD, None, NOW + after) for after in (0.0, 9.9, 10.0)] == [True, True, False]
    vain.add_timeout(THIRD, None, NOW + 10.0)  # and the next is enough
    assert vain.is_paused(FOURTH, None, NOW + 10.0)


def test_an_answer_in_between_tells_them_apart() -> None:
    vain = NegativeCache(10.0)
    vain.add_timeout(ONE, None, NOW)
    vain.clear_timeouts()
    vain.add_timeout(OTHER, None, NOW)
    assert not vain.is_paused(THIRD, None, NOW)


def test_a_clock_that_was_set_back_keeps_nobody_from_asking() -> None:
    vain = NegativeCache(10.0)
    for name in (ONE, OTHER):
        vain.add_timeout(name, None, NOW)
    assert not vain.is_paused(ONE, None, NOW - 3600)


def test_it_is_bounded() -> None:
    vain = NegativeCache(10.0, capacity=2)
    for number in range(5):
        vain.add_failure(ObjectName("bucket", str(number)), None, NOW)
    assert len(vain) == 2
    assert vain.is_paused(ObjectName("bucket", "4"), None, NOW)
