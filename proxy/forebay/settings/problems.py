"""Everything that is wrong with a configuration, at once."""

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import Final

from forebay.core.errors import SettingsError

HIDDEN: Final = "***"
"""Stands for a value that may be a secret."""


class SettingsErrors(SettingsError):
    """A configuration refused for one reason or several. `where`, `given` and `allowed` are those of the first."""

    def __init__(self, problems: Sequence[SettingsError]) -> None:
        first = problems[0]
        super().__init__(first.where, first.given, first.allowed)
        self.problems = tuple(problems)
        self.args = ("\n".join(str(problem) for problem in problems),)


def raise_any(problems: Sequence[SettingsError]) -> None:
    """Raises SettingsErrors if there is a problem."""
    if problems:
        raise SettingsErrors(problems)


def unknown(where: str, name: str, known: Iterable[str]) -> SettingsError:
    """The problem of a name that is no setting. Never shows the value: `secrte` is a misspelt secret."""
    known = sorted(known)
    close = get_close_matches(name, known, n=1)
    hints = [f"did you mean {close[0]!r}?"] if close else []
    # All variables there are would bury the other problems.
    hints.append(f"known here: {', '.join(known)}" if len(known) <= 24 else "see docs/configuration.md")
    return SettingsError(where, name, "; ".join(hints))
