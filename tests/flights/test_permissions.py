"""Permissions: remembered as long as they are good for, and never what was refused."""

from forebay.flights.permissions import Permissions
from forebay.words.names import ObjectName

NAME, OTHER = ObjectName("bucket", "key"), ObjectName("bucket", "other")


def test_a_positive_answer_is_good_for_its_time() -> None:
    permissions = Permissions(60.0)
    permissions.allowed("asker", NAME, 1000.0)
    assert permissions.holds("asker", NAME, 1000.0)
    assert permissions.holds("asker", NAME, 1059.9)
    assert not permissions.holds("asker", NAME, 1060.0)


def test_it_is_of_one_asker_and_one_object() -> None:
    permissions = Permissions(60.0)
    permissions.allowed("asker", NAME, 1000.0)
    assert not permissions.holds("other", NAME, 1000.0)
    assert not permissions.holds("asker", OTHER, 1000.0)


def test_a_refusal_takes_it_away() -> None:
    permissions = Permissions(60.0)
    permissions.allowed("asker", NAME, 1000.0)
    permissions.refused("asker", NAME)
    permissions.refused("asker", OTHER)
    assert not permissions.holds("asker", NAME, 1000.0)


def test_an_answer_that_was_overtaken_does_not_shorten_it() -> None:
    permissions = Permissions(60.0)
    permissions.allowed("asker", NAME, 1030.0)
    permissions.allowed("asker", NAME, 1000.0)
    assert permissions.holds("asker", NAME, 1080.0)


def test_without_a_time_each_hit_asks() -> None:
    permissions = Permissions(0.0)
    permissions.allowed("asker", NAME, 1000.0)
    assert not permissions.holds("asker", NAME, 1000.0)


def test_an_answer_from_the_future_proves_nothing() -> None:
    permissions = Permissions(60.0)
    permissions.allowed("asker", NAME, 1000.0)
    assert not permissions.holds("asker", NAME, 999.0)


def test_memory_is_bounded_and_the_oldest_is_asked_again() -> None:
    permissions = Permissions(60.0, remembered=2)
    for number in range(3):
        permissions.allowed("asker", ObjectName("bucket", str(number)), 1000.0)
    assert len(permissions) == 2
    assert not permissions.holds("asker", ObjectName("bucket", "0"), 1000.0)
    assert permissions.holds("asker", ObjectName("bucket", "2"), 1000.0)
