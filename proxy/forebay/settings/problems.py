"""All problems of a configuration in one error, and suggestions for unknown names."""

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import Final

from forebay.core.errors import SettingsError, SettingsErrors

HIDDEN: Final = "***"
"""Replaces a value that may be a secret."""


def raise_any(problems: Sequence[SettingsError]) -> None:
    """Raises SettingsErrors if there is a problem."""
    if problems:
        raise SettingsErrors(problems)


def unknown_setting(where: str, name: str, known: Iterable[str]) -> SettingsError:
    """The problem of an unknown name, with the nearest known one first. Never shows the value: `secrte` is a misspelt
    secret."""
    known = sorted(known)
    close = get_close_matches(name, known, n=1)
    # A list of all variables would bury the other problems.
    others = [each for each in known if each not in close]
    allowed = ", ".join(others) if len(known) <= 24 else "what docs/configuration.md and its pages list"
    if close:
        allowed = f"{close[0]} (did you mean {close[0]!r}?), {allowed}"
    return SettingsError(where, name, allowed, reason=f"no such setting, allowed: {allowed}")
