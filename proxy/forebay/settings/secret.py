"""A secret that no `repr`, `str`, format or traceback shows. `reveal()` gives its text."""

from hmac import compare_digest
from typing import final


@final
class Secret:
    """A secret text. Comparison takes constant time."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        """The text. Never for logs, errors, labels or files."""
        return self._value

    def __repr__(self) -> str:
        return "Secret(***)"

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return repr(self)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and compare_digest(self._value.encode(), other._value.encode())

    def __hash__(self) -> int:
        return hash(self._value)
