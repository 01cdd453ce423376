"""A lease map: values that are known for a time, as many as there is room for.

Every write looks some of them up, so a look-up is one of a dict and one of the clock. All have leases of one length, so
the one that was set first ends first, and gives way to a new one.
"""

from collections.abc import Callable
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class LeaseMap(Generic[K, V]):
    """At most `most` values. `lease`: seconds; `clock`: seconds from any origin."""

    __slots__ = ("_clock", "_lease", "_most", "_values")

    def __init__(self, most: int, lease: float, clock: Callable[[], float]) -> None:
        self._most = most
        self._lease = lease
        self._clock = clock
        self._values: dict[K, tuple[V, float]] = {}
        """With the ends of their leases, in that order."""

    def __contains__(self, key: K) -> bool:
        return self.get(key) is not None

    def get(self, key: K) -> V | None:
        """Returns a value; None: it is not known, or no longer."""
        found = self._values.get(key)
        return found[0] if found is not None and self._clock() < found[1] else None

    def set(self, key: K, value: V) -> None:
        """Notes a value, whose lease begins."""
        values = self._values
        values.pop(key, None)
        values[key] = value, self._clock() + self._lease
        if len(values) > self._most:
            del values[next(iter(values))]

    def discard(self, key: K) -> None:
        """Forgets a value."""
        self._values.pop(key, None)

    def clear(self) -> None:
        """Forgets all values."""
        self._values.clear()
