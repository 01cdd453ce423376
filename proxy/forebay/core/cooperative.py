"""Work that is done in stretches: a generator that yields wherever it may be interrupted, and returns what came of it.

Pure code says where. Whoever has a loop lets others have their turn there (forebay.core.yielding); whoever has none, or
has little to do, goes through it at once.
"""

from collections.abc import Generator
from typing import TypeAlias, TypeVar

Result = TypeVar("Result")

Stretches: TypeAlias = Generator[None, None, Result]


def at_once(work: Stretches[Result]) -> Result:
    """What comes of it, without a stop."""
    while True:
        try:
            next(work)
        except StopIteration as done:
            result: Result = done.value
            return result
