"""What was asked in vain: for how long, and for whom, that keeps from asking again."""

from forebay.core.names import ObjectName
from forebay.metadata.negative_cache import Vain

ONE, OTHER, THIRD, FOURTH = (ObjectName("bucket", key) for key in ("one", "other", "third", "fourth"))
NOW = 1_700_000_000.0


def test_an_answer_that_was_none_is_that_objects_alone_and_for_a_while() -> None:
    vain = Vain(10.0)
    assert not vain.holds(ONE, None, NOW)
    vain.asked(ONE, None, NOW)
    assert [vain.holds(ONE, None, NOW + after) for after in (0.0, 9.9, 10.0)] == [True, True, False]
    assert not vain.holds(OTHER, None, NOW)


def test_an_answer_that_did_not_come_is_that_objects_alone() -> None:
    vain = Vain(10.0)
    for now in (NOW, NOW, NOW + 10.0):  # however often
        vain.waited(ONE, None, now)
        assert [vain.holds(ONE, None, now + after) for after in (0.0, 9.9, 10.0)] == [True, True, False]
        assert not vain.holds(OTHER, None, now)


def test_when_none_came_about_two_in_a_row_it_is_everybodys_and_for_a_while() -> None:
    vain = Vain(10.0)
    vain.waited(ONE, None, NOW)
    vain.waited(OTHER, None, NOW)
    assert [vain.holds(THIRD, None, NOW + after) for after in (0.0, 9.9, 10.0)] == [True, True, False]
    vain.waited(THIRD, None, NOW + 10.0)  # and the next is enough
    assert vain.holds(FOURTH, None, NOW + 10.0)


def test_an_answer_in_between_tells_them_apart() -> None:
    vain = Vain(10.0)
    vain.waited(ONE, None, NOW)
    vain.answered()
    vain.waited(OTHER, None, NOW)
    assert not vain.holds(THIRD, None, NOW)


def test_a_clock_that_was_set_back_keeps_nobody_from_asking() -> None:
    vain = Vain(10.0)
    for name in (ONE, OTHER):
        vain.waited(name, None, NOW)
    assert not vain.holds(ONE, None, NOW - 3600)


def test_it_is_bounded() -> None:
    vain = Vain(10.0, remembered=2)
    for number in range(5):
        vain.asked(ObjectName("bucket", str(number)), None, NOW)
    assert len(vain) == 2
    assert vain.holds(ObjectName("bucket", "4"), None, NOW)
