"""What a suite is: where it is from, how it is run against an endpoint, and which of its cases are lost on purpose."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from suites.endpoints import SuiteEndpoint

_NOT_PASSED: Final = ("failed", "skipped")


@dataclass(frozen=True, slots=True)
class Suite:
    """`run` says of each case that it failed, was skipped, or what else became of it: passed, or what was answered."""

    name: str
    title: str
    source: str
    """Where it is from, and its version: as the page has it."""
    origins: tuple[str, ...]
    """Those of suites.endpoints that it is run with."""
    install: Callable[[], Path]
    """Gives the place that `run` is given. NotToBeHad says why this machine can't have it."""
    run: Callable[[Path, SuiteEndpoint, Path], Mapping[str, str]]
    """Place, ground, a directory for what it writes."""
    known: Mapping[str, str] = field(default_factory=dict)
    """Why Forebay loses a case on purpose; the keys are what the origin's name, the case's and a blank contain."""


@dataclass(frozen=True, slots=True)
class SuiteComparison:
    """One suite, one origin, both ways."""

    cases: int
    alone: int
    """How many did not fail with the origin alone, and were not skipped."""
    through: int
    lost: Mapping[str, str]
    """The cases that pass alone and not through Forebay, and why; "" for those nobody can explain."""


def compare(suite: Suite, origin: str, alone: Mapping[str, str], through: Mapping[str, str]) -> SuiteComparison:
    """A case is lost if it did not fail alone, and something else became of it through Forebay."""
    passed = {name: outcome for name, outcome in alone.items() if outcome not in _NOT_PASSED}
    lost = [name for name, outcome in passed.items() if through.get(name) != outcome]
    whole = sum(outcome not in _NOT_PASSED for outcome in through.values())
    return SuiteComparison(len(alone), len(passed), whole, {name: _why(suite, f"{origin} {name} ") for name in lost})


def _why(suite: Suite, name: str) -> str:
    return next((why for words, why in suite.known.items() if words in name), "")
