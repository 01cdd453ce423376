"""The table of cases: what is asked, in which order. Whether the answers are right is not said here, only that with
Forebay they have to be what they are without it."""

from collections.abc import Callable
from typing import Final

from suites.alike.recording_client import RecordingClient

Case = Callable[[RecordingClient], None]
CASES: Final[dict[str, Case]] = {}


def case(script: Case) -> Case:
    """Its name is the function's, after that of its module."""
    CASES[f"{script.__module__.rpartition('.')[2]}.{script.__name__}"] = script
    return script
