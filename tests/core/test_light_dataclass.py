"""The proxy's `dataclass`: equal to the standard one in all that a caller sees, but for a refused assignment."""

import ast
import dataclasses
from collections.abc import Callable
from copy import deepcopy
from dataclasses import FrozenInstanceError, asdict, field, fields, replace
from typing import Any, Final

import pytest

from forebay.core.light_dataclass import dataclass
from structure.source_tree import modules

Decorator = Callable[..., Any]
BOTH: Final = pytest.mark.parametrize("decorator", [dataclass, dataclasses.dataclass], ids=["light", "standard"])


def key_class(decorator: Decorator, **options: Any) -> Any:
    @decorator(slots=True, **options)
    class Key:
        name: str
        secret: str = field(default="", repr=False)
        seen: int = field(default=0, compare=False)
        length: int = field(init=False)

        def __post_init__(self) -> None:
            object.__setattr__(self, "length", len(self.name))

    return Key


@BOTH
def test_a_frozen_class_compares_hashes_and_prints_its_fields(decorator: Decorator) -> None:
    key = key_class(decorator, frozen=True)
    one = key("a", secret="s", seen=1)
    assert one == key("a", "s", 2)
    assert one != key("b", "s", 1)
    assert hash(one) == hash(key("a", "s", 2)) == hash(("a", "s", 1))
    assert {one: 1}[key("a", "s")] == 1
    assert repr(one).endswith("Key(name='a', seen=1, length=1)")
    assert "'s'" not in repr(one)
    assert key.__match_args__ == ("name", "secret", "seen")
    assert not hasattr(one, "__dict__")


@BOTH
def test_functions_for_dataclasses_take_it(decorator: Decorator) -> None:
    key = key_class(decorator, frozen=True)
    one = key("ab")
    assert [each.name for each in fields(one)] == ["name", "secret", "seen", "length"]
    assert replace(one, name="abc").length == 3
    assert asdict(one) == {"name": "ab", "secret": "", "seen": 0, "length": 2}
    assert deepcopy(one) == one


@BOTH
def test_instances_of_another_class_are_not_equal(decorator: Decorator) -> None:
    one, other = key_class(decorator, frozen=True)("a"), key_class(decorator, frozen=True)("a")
    assert one != other
    assert one != ("a", "", 1)


@BOTH
def test_a_mutable_class_has_no_hash(decorator: Decorator) -> None:
    key = key_class(decorator)
    assert key("a") == key("a")
    with pytest.raises(TypeError, match="unhashable"):
        hash(key("a"))


@BOTH
def test_without_eq_an_instance_equals_itself_alone(decorator: Decorator) -> None:
    key = key_class(decorator, eq=False)
    one = key("a")
    assert one == one  # noqa: PLR0124 # what is tested
    assert one != key("a")
    assert hash(one) != hash(key("a"))


@BOTH
def test_a_class_keeps_the_methods_that_it_defines(decorator: Decorator) -> None:
    class Named:
        name: str

        def __repr__(self) -> str:
            return self.name

        def __eq__(self, other: object) -> bool:
            return other == self.name

        def __hash__(self) -> int:
            return 7

    named = decorator(frozen=True, slots=True)(Named)
    assert repr(named("a")) == "a"
    assert named("a") == "a"
    assert hash(named("a")) == 7


@BOTH
def test_a_subclass_adds_its_fields(decorator: Decorator) -> None:
    base = key_class(decorator, frozen=True)

    @decorator(frozen=True, slots=True)
    class Longer(base):  # type: ignore[misc, valid-type] # a class made by a function
        more: int = 0

    assert Longer("a", more=1) != Longer("a", more=2)
    assert Longer("a") != base("a")
    assert repr(Longer("a")).endswith("Longer(name='a', seen=0, length=1, more=0)")


@BOTH
def test_a_class_without_fields(decorator: Decorator) -> None:
    @decorator(frozen=True, slots=True)
    class Nothing:
        pass

    assert Nothing() == Nothing()
    assert hash(Nothing()) == hash(())
    assert repr(Nothing()).endswith("Nothing()")


def test_only_the_standard_one_refuses_an_assignment() -> None:
    light, standard = key_class(dataclass, frozen=True)("a"), key_class(dataclasses.dataclass, frozen=True)("a")
    light.name = "b"
    with pytest.raises(FrozenInstanceError):
        standard.name = "b"


def test_all_but_permits_take_the_light_one() -> None:
    standard = [
        str(module.path)
        for module in modules()
        if module.path.parts[0] == "forebay" and module.name != "light_dataclass"
        for node in ast.walk(module.tree)
        if isinstance(node, ast.ImportFrom) and node.module == "dataclasses"
        if any(alias.name == "dataclass" for alias in node.names)
    ]
    assert standard == ["forebay/policy/access.py"]
