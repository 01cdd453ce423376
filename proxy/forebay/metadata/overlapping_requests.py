"""Overlapping requests: those about one object that are under way at the same time.

The origin may carry out any of them last, whichever was sent first, and their responses overtake each other. So if two
of them show two versions, it is not known which is the newer one. Of an object with a single request under way only the
number of requests is kept.
"""

from collections.abc import Callable

from forebay.core.heads import Head
from forebay.core.names import ObjectName, Version


class OverlappingRequests:
    """The requests under way of one worker. `clock`: seconds since the epoch, as in a head's `validated_at`."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._counts: dict[ObjectName, int] = {}
        self._shown: dict[ObjectName, tuple[Version | None, float]] = {}
        """The version that a response has shown while others were awaited, and when; None: two have shown two."""

    def __len__(self) -> int:
        """Returns the number of objects with a request under way."""
        return len(self._counts)

    def enter(self, name: ObjectName) -> None:
        """Counts a request whose response may be stored. `leave` ends it."""
        self._counts[name] = self._counts.get(name, 0) + 1

    def leave(self, name: ObjectName) -> None:
        """Ends a request."""
        left = self._counts.pop(name) - 1
        if left:
            self._counts[name] = left
        else:
            self._shown.pop(name, None)

    def is_single(self, name: ObjectName) -> bool:
        """Whether no more than one request about an object is under way."""
        return self._counts.get(name, 0) <= 1

    def note_shown(self, name: ObjectName, head: Head) -> None:
        """Notes the version that a response shows, for the other requests."""
        if not self.is_single(name):
            self._shown[name] = None if self.is_contradicted(name, head) else head.version, self._clock()

    def is_contradicted(self, name: ObjectName, head: Head) -> bool:
        """Whether another version was shown while the request that has brought `head` was under way. A time in the
        future is of a clock that was set back."""
        shown = self._shown.get(name)
        return shown is not None and shown[0] != head.version and head.validated_at <= shown[1] <= self._clock()
