"""The pace of a client: bytes a second of one body, over the time in which the client is waited for. Pure.

    wait(now) ──> the client is waited for ──> receive(now, size)        and so on, for each piece

Time in which the origin is waited for does not count, so a slow origin makes no client slow. A pace is that of the last
five to ten seconds of waiting. It is an upper bound: a piece that a client has yet to accept counts as accepted.
"""

from typing import Final

WINDOW: Final = 5.0
"""Seconds of waiting that a pace is measured over at least."""


class ClientPace:
    """The pace of one body, in either direction. Times are seconds on any monotonic clock."""

    __slots__ = ("_bytes", "_earlier", "_pending", "_since", "_waited")

    def __init__(self) -> None:
        self._bytes = 0
        self._waited = 0.0
        self._earlier = (0.0, 0)
        self._since: float | None = None
        self._pending = 0

    def wait(self, now: float, pending: int = 0) -> None:
        """The client is waited for from now on. `pending`: bytes that it is to accept."""
        self._since, self._pending = now, pending

    def receive(self, now: float, size: int) -> None:
        """`size` bytes have passed, and the client is no longer waited for. Does nothing if it was not."""
        if self._since is None:
            return
        self._waited += now - self._since
        self._since = None
        self._bytes += size
        if self._waited >= WINDOW:
            self._earlier = (self._waited, self._bytes)
            self._waited, self._bytes = 0.0, 0

    def rate(self, now: float) -> float | None:
        """Bytes a second; None while the client is not waited for, or has not been waited for long enough."""
        if self._since is None:
            return None
        waited, size = now - self._since, self._pending
        for seconds, passed in ((self._waited, self._bytes), self._earlier):
            if waited >= WINDOW:
                break
            waited, size = waited + seconds, size + passed
        return size / waited if waited >= WINDOW else None
