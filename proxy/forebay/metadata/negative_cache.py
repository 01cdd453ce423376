"""What was asked about an object in vain, lately: so that nobody waits for it again and again.

An origin that says no, or answers with something else, does so about one object, to the one who asked; the others ask
about theirs. One that does not answer in time may be slow about one object. If it is about a second one, with no answer
in between, it is slow for all, and nobody asks: were each object to find that out for itself, each would keep a reader
waiting. So is it if it does not answer the first question after that pause.
"""

from typing import Final

from cachetools import FIFOCache

from forebay.core.names import ObjectName
from forebay.origin.origin_identity import OriginIdentity

CAPACITY: Final = 16_384
_TIMEOUTS: Final = 2
"""Objects about which there is no answer in time, in a row, before nobody asks about any."""


class NegativeCache:
    """See the module. Times are seconds since the epoch."""

    def __init__(self, pause: float, capacity: int = CAPACITY) -> None:
        """`pause`: seconds for which nobody asks again."""
        self._pause = pause
        self._until: FIFOCache[tuple[ObjectName, str | None], float] = FIFOCache(capacity)
        self._all_until = 0.0
        self._timed_out: set[ObjectName] = set()
        """What was waited for since the last answer; no more than it takes to tell."""

    def __len__(self) -> int:
        return len(self._until)

    def add_failure(self, name: ObjectName, identity: OriginIdentity | None, now: float) -> None:
        """The answer, to `identity`, was none."""
        self._until[_key(name, identity)] = now + self._pause

    def add_timeout(self, name: ObjectName, identity: OriginIdentity | None, now: float) -> None:
        """No answer came in time."""
        self.add_failure(name, identity, now)
        if len(self._timed_out) < _TIMEOUTS:
            self._timed_out.add(name)
        if len(self._timed_out) == _TIMEOUTS:
            self._all_until = now + self._pause

    def clear_timeouts(self) -> None:
        """An answer came in time, whatever it was."""
        self._timed_out.clear()

    def is_paused(self, name: ObjectName, identity: OriginIdentity | None, now: float) -> bool:
        """Whether it is too early to ask again. A time too far ahead (the clock was set back) is none."""
        until = max(self._all_until, self._until.get(_key(name, identity), 0.0))
        return 0.0 < until - now <= self._pause


def _key(name: ObjectName, identity: OriginIdentity | None) -> tuple[ObjectName, str | None]:
    return name, identity.id if identity is not None else None
