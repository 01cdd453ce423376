"""Pins: which one has an object, and what they will take."""

import pytest

from forebay.core.names import ObjectName
from forebay.policy.pins import Pin, PinSet

WIDE = Pin("bucket", "train/", 1.0, 10, 1_000)
NARROW = Pin("bucket", "train/a/", 2.0, 4, 400)
OTHER = Pin("bucket", "val", 3.0)
PINS = PinSet([NARROW, OTHER, WIDE])


@pytest.mark.parametrize(
    ("path", "pin"),
    [
        ("bucket/train/x", WIDE),
        ("bucket/train/a/x", WIDE),
        ("bucket/train/", WIDE),
        ("bucket/val", OTHER),
        ("bucket/validation/x", OTHER),
        ("bucket/train", None),
        ("other/train/x", None),
        ("bucket/train/x\0upload", None),
    ],
)
def test_an_object_belongs_to_the_outermost_pin(path: str, pin: Pin | None) -> None:
    bucket, _, key = path.partition("/")
    assert PINS.find(ObjectName(bucket, key)) == pin
    assert any(each.covers(ObjectName(bucket, key)) for each in PINS) == (pin is not None)


def test_the_empty_prefix_is_the_whole_bucket() -> None:
    whole = Pin("bucket", "", 4.0)
    pins = PINS.with_pin(whole)
    assert pins.find(ObjectName("bucket", "train/a/x")) == pins.find(ObjectName("bucket", "")) == whole
    assert list(pins.outermost()) == [whole]
    assert list(pins) == [whole, WIDE, NARROW, OTHER]


def test_the_inner_pin_comes_into_its_own() -> None:
    pins = PINS.without(WIDE)
    assert pins.find(ObjectName("bucket", "train/a/x")) == NARROW
    assert pins.find(ObjectName("bucket", "train/x")) is None
    assert pins.is_outermost(NARROW)
    assert not PINS.is_outermost(NARROW)


def test_a_pin_of_the_same_prefix_is_replaced() -> None:
    again = Pin("bucket", "train/", 1.0, 11, 1_100)
    pins = PINS.with_pin(again)
    assert len(pins) == 3
    assert pins.get("bucket", "train/") == again
    assert pins.get("bucket", "train") is None


def test_each_byte_is_needed_once() -> None:
    assert PINS.needed({}) == 1_000
    assert PINS.needed({WIDE: 700, NARROW: 400, OTHER: 50}) == 1_150, "more has come than was listed"
    assert PINS.without(WIDE).needed({NARROW: 100, OTHER: 50}) == 450


@pytest.mark.parametrize(("quota", "bytes_"), [(None, 750), (100, 100), (0, 0)])
def test_the_quota_is_a_share_unless_it_is_set(quota: int | None, bytes_: int) -> None:
    assert PINS.with_quota(quota).quota_of(1_000) == bytes_
    assert PINS.with_quota(quota).with_pin(WIDE).without(OTHER).quota_of(1_000) == bytes_
