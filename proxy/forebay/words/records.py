"""Dataclasses whose methods are written when they are first called. To whoever uses them, and to mypy, they are those
of the standard library, which also finds their fields, makes their slots and writes their methods.

It writes six methods for a frozen dataclass, each as a text that is compiled, while the module is imported: half a
millisecond in Python 3.11, a fifth of the start of a process that has 160 of them and calls the methods of a quarter.
Here a class is given stand-ins. The first call of one has the method written, on a twin made of the same body, and put
in the stand-in's place: from then on it is the very function that it would have been, and costs what it would have.

Not taken over: inheritance from other dataclasses, pickling and copying of frozen ones, options but these two.

https://docs.python.org/3/library/dataclasses.html
"""

import dataclasses
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeVar

_T = TypeVar("_T")

_WRITTEN: Final = ("__init__", "__repr__", "__eq__")
_EVERY_CLASS_ITS_OWN: Final = frozenset(("__dict__", "__weakref__"))


def _dataclass(*, frozen: bool = False, slots: bool = False) -> Callable[[type[_T]], type[_T]]:
    """`dataclasses.dataclass`, with its meaning of the two."""

    def make(cls: type[_T]) -> type[_T]:
        body = {name: value for name, value in vars(cls).items() if name not in _EVERY_CLASS_ITS_OWN}
        cls.__doc__ = cls.__doc__ or cls.__name__  # else it is given its signature, which takes a while to find out
        made = dataclasses.dataclass(init=False, repr=False, eq=False, slots=slots)(cls)
        for name in (*_WRITTEN, "__hash__") if frozen else _WRITTEN:
            if name not in body:
                setattr(made, name, _stand_in(made, name, body, frozen=frozen))
        if frozen:
            made.__setattr__ = _refuse_to_assign  # type: ignore[method-assign] # it takes whatever there is
            made.__delattr__ = _refuse_to_delete  # type: ignore[method-assign] # likewise
        else:
            made.__hash__ = None  # type: ignore[assignment] # what may change and is compared by value has none
        return made

    return make


def _stand_in(made: type, name: str, body: Mapping[str, Any], *, frozen: bool) -> Callable[..., Any]:
    """The method `name` of `made`, until it is called."""

    def method(*args: Any, **kwargs: Any) -> Any:
        written: type = dataclasses.dataclass(
            init=name == "__init__", repr=name == "__repr__", eq=name in ("__eq__", "__hash__"), frozen=frozen
        )(type(made.__name__, made.__bases__, dict(body)))
        setattr(made, name, getattr(written, name))
        return getattr(made, name)(*args, **kwargs)

    return method


def _refuse_to_assign(_self: object, name: str, _value: object) -> NoReturn:
    raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_to_delete(_self: object, name: str) -> NoReturn:
    raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")


if TYPE_CHECKING:
    from dataclasses import dataclass
else:
    dataclass = _dataclass

__all__ = ["dataclass"]
