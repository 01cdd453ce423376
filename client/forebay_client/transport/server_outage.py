"""Server outage: the time for which a server has answered no request of a client, and who waits for it to come back.

    no connection ──> requests wait for the server together: `patience` seconds from the first failure on
    no answer     ──> likewise, `silence` seconds from the beginning of the first attempt that had none
                  ──> given up: each further request makes one attempt, and fails if that does
                      of those that come while an attempt that may take long (no answer to a SYN, a server that hangs)
                      is made, and for as long as the last one took, all but one fail without an attempt: a thousand
                      keys of a batch don't wait one after the other
    a connection  ──> as if nothing had been; but for a server without answers, only a response is a sign of life

A server that is restarted is waited for; one that is gone, or hangs, costs a batch no more than it costs a single read.
After `FORGOTTEN` seconds without an attempt the outage is another one.
"""

import time
from collections.abc import Callable
from typing import Final

from forebay_client.transport.object_request import Unreachable

FORGOTTEN: Final = 30.0


class ServerOutage:
    """See the module. Used by many threads at once: at worst, one waits a little longer."""

    def __init__(
        self, server: str, patience: float, silence: float = 0.0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """`server`: as messages name it. `patience`, `silence`: seconds."""
        self._server, self._patience, self._silence, self._clock = server, patience, silence, clock
        self._began: float | None = None
        self._is_silent = False
        """Whether connections can be made, and nothing comes on them."""
        self._failed_at = self._took = 0.0
        self._probed_at: float | None = None
        """The start of the last attempt that others wait for."""
        self._reason = ""

    def failed(self, reason: str, took: float) -> Unreachable:
        """Takes note of an attempt to connect, of `took` seconds. Returns what it is raised as."""
        return self._note(reason, took, is_silent=False)

    def unanswered(self, took: float) -> Unreachable:
        """Takes note of `took` seconds on a connection without a byte. Returns what it is raised as."""
        return self._note("timed out", took, is_silent=True)

    def known(self) -> Unreachable | None:
        """Returns the exception of an attempt, without making it; None: it is to be made."""
        began, now = self._began, self._clock()
        if began is None or not self._is_given_up(self._failed_at - began):
            return None
        # What has no answer may be one object only: the next request for any other finds that out at once.
        is_first = self._is_silent and self._probed_at is None
        if is_first or now - max(self._failed_at, self._probed_at or 0.0) >= self._took:
            self._probed_at = now
            return None
        return self._unreachable(self._failed_at - began)

    def connected(self) -> None:
        """A connection was made."""
        if not self._is_silent:
            self._began = None

    def ended(self) -> None:
        """A response came."""
        self._began = None

    def _note(self, reason: str, took: float, *, is_silent: bool) -> Unreachable:
        now = self._clock()
        if (
            self._began is None
            or self._is_silent is not is_silent
            or now - took - self._failed_at > FORGOTTEN + self._took
        ):
            self._began, self._probed_at = now - took if is_silent else now, None
        self._is_silent = is_silent
        self._failed_at, self._took, self._reason = now, took, reason
        return self._unreachable(now - self._began)

    def _is_given_up(self, seconds: float) -> bool:
        return seconds >= (self._silence if self._is_silent else self._patience)

    def _unreachable(self, seconds: float) -> Unreachable:
        tried = f", tried for {seconds:.0f} s" if seconds >= 1 else ""
        failure = "no response from" if self._is_silent else "no connection to"
        hint = "Does the server hang?" if self._is_silent else "Is the server running, and the endpoint right?"
        may_wait = not self._is_given_up(seconds)
        return Unreachable(f"{failure} {self._server}: {self._reason}{tried}. {hint}", may_wait=may_wait)
