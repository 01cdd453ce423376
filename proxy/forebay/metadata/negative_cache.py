"""The negative cache: remembers lookups without a usable response for a while, so that no reader repeats them.

    failure    of one object and one identity: the origin refused, or answered with something else
    timeout    of one object; of every object once _TIMEOUTS objects in a row had no response in time

After timeouts of two objects, with no response in between, the origin counts as slow for all objects: otherwise each
object would keep a reader waiting to find that out. The same holds if the first lookup after that pause times out.
"""

from typing import Final

from cachetools import FIFOCache

from forebay.core.names import ObjectName
from forebay.origin.origin_identity import OriginIdentity

CAPACITY: Final = 16_384
_TIMEOUTS: Final = 2
"""Objects whose lookups time out in a row before all are paused."""


class NegativeCache:
    """Failed lookups, by object and identity. Times are seconds since the epoch."""

    def __init__(self, pause: float, capacity: int = CAPACITY) -> None:
        """`pause`: seconds without a look-up after a failure."""
        self._pause = pause
        self._until: FIFOCache[tuple[ObjectName, str | None], float] = FIFOCache(capacity)
        self._all_until = 0.0
        self._timed_out: set[ObjectName] = set()
        """Objects that timed out since the last response, at most _TIMEOUTS."""

    def __len__(self) -> int:
        return len(self._until)

    def add_failure(self, name: ObjectName, identity: OriginIdentity | None, now: float) -> None:
        """Adds a lookup without a usable response."""
        self._until[_key(name, identity)] = now + self._pause

    def add_timeout(self, name: ObjectName, identity: OriginIdentity | None, now: float) -> None:
        """Adds a lookup without a response in time."""
        self.add_failure(name, identity, now)
        if len(self._timed_out) < _TIMEOUTS:
            self._timed_out.add(name)
        if len(self._timed_out) == _TIMEOUTS:
            self._all_until = now + self._pause

    def clear_timeouts(self) -> None:
        """Notes a response that came in time, a success or not."""
        self._timed_out.clear()

    def is_paused(self, name: ObjectName, identity: OriginIdentity | None, now: float) -> bool:
        """Whether it is too early for another lookup. An end too far ahead (the clock was set back) does not count."""
        until = max(self._all_until, self._until.get(_key(name, identity), 0.0))
        return 0.0 < until - now <= self._pause


def _key(name: ObjectName, identity: OriginIdentity | None) -> tuple[ObjectName, str | None]:
    return name, identity.id if identity is not None else None
