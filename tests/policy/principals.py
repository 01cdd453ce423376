"""Principals whose grants are written in short."""

from typing import Final

from forebay.policy.grants import Grant, Principal
from forebay.policy.path_patterns import Pattern
from forebay.protocol.operations import Access

_LETTERS: Final = {"r": Access.READ, "w": Access.WRITE, "l": Access.LIST, "d": Access.DELETE}


def principal(*grants: tuple[str, str]) -> Principal:
    """A principal whose grants are written as a path and the first letters of what is allowed."""
    return Principal(
        "trainer", tuple(Grant(Pattern(path), frozenset(map(_LETTERS.__getitem__, allow))) for path, allow in grants)
    )
