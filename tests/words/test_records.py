"""Dataclasses whose methods are written later are what those of the standard library are."""

import dataclasses
from collections.abc import Callable
from dataclasses import InitVar, field, fields, replace
from functools import cached_property
from typing import Any

import pytest

from forebay.words import records

KINDS = pytest.mark.parametrize("kind", [dataclasses.dataclass, records.dataclass], ids=["standard", "ours"])
"""What is said of both is what the standard library means."""


def made(kind: Any, **options: bool) -> Any:
    @kind(**options)
    class Made:
        size: int
        names: list[str] = field(default_factory=list)
        secret: str = field(default="s", repr=False)
        told: bool = field(default=False, compare=False)
        seal: InitVar[int] = 0  # type: ignore[assignment] # mypy does not know what `kind` makes of it

        def __post_init__(self, seal: int) -> None:
            if seal:
                raise ValueError("sealed")

    return Made


@KINDS
@pytest.mark.parametrize("slots", [True, False])
@pytest.mark.parametrize("frozen", [True, False])
def test_made_shown_compared_and_replaced(kind: Any, frozen: bool, slots: bool) -> None:
    made_of = made(kind, frozen=frozen, slots=slots)
    one = made_of(1, told=True)
    assert (one.size, one.names, one.secret, one.told) == (1, [], "s", True)
    assert one.names is not made_of(1).names
    assert repr(one).endswith("Made(size=1, names=[], told=True)")
    assert one == made_of(1)
    assert one != made_of(2)
    assert one != made(kind, frozen=frozen, slots=slots)(1, told=True)
    assert replace(one, size=2).size == 2
    assert dataclasses.asdict(one) == {"size": 1, "names": [], "secret": "s", "told": True}
    assert [each.name for each in fields(made_of)] == ["size", "names", "secret", "told"]
    assert made_of.__match_args__ == ("size", "names", "secret", "told", "seal")
    assert hasattr(one, "__dict__") is not slots
    with pytest.raises(ValueError, match="sealed"):
        made_of(1, seal=1)
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'size'"):
        made_of()


@KINDS
def test_what_is_frozen_stays(kind: Any) -> None:
    made_of = made(kind, frozen=True, slots=True)
    one = made_of(1)
    changes: list[Callable[[], None]] = [lambda: setattr(one, "size", 2), lambda: delattr(one, "size")]
    for change in changes:
        with pytest.raises(dataclasses.FrozenInstanceError, match="field 'size'"):
            change()
    with pytest.raises(TypeError, match="unhashable type: 'list'"):
        hash(one)
    assert hash(made_of(1, ())) == hash(made_of(1, (), told=True)) != hash(made_of(2, ()))


@KINDS
def test_what_is_not_frozen_changes_and_has_no_hash(kind: Any) -> None:
    one = made(kind, slots=True)(1)
    one.size = 2
    assert one.size == 2
    with pytest.raises(TypeError, match="unhashable type"):
        hash(one)
    with pytest.raises(AttributeError):
        one.other = 1


@KINDS
def test_a_method_of_its_own_is_kept_and_what_is_derived_too(kind: Any) -> None:
    @kind(frozen=True)
    class Own:
        size: int

        def __repr__(self) -> str:
            return "own"

        @cached_property
        def twice(self) -> int:
            return 2 * self.size

    own: Any = Own
    assert (repr(own(1)), own(1).twice) == ("own", 2)


def test_from_the_first_call_on_it_is_the_function_that_was_written() -> None:
    made_of = made(records.dataclass, frozen=True, slots=True)
    before = made_of.__init__
    made_of(1)
    assert made_of.__init__ is not before
    assert made_of.__init__.__code__.co_varnames[:2] == ("self", "size")
