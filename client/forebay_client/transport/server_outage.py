"""How long one server could not be connected to, for all requests of a client.

    no connection ──> requests wait for the server together: `patience` seconds from the first failure on
                  ──> given up: each further request makes one attempt, and fails if that does
                      after an attempt that took long (no answer to a SYN, no name server) others fail without one
                      for as long a time, so that a thousand keys of a batch don't wait one after the other
    a connection  ──> as if nothing had been

A server that is restarted is waited for; one that is gone costs a batch no more than it costs a single read. After
`FORGOTTEN` seconds without an attempt the outage is another one.
"""

import time
from collections.abc import Callable
from typing import Final

from forebay_client.transport.object_request import Unreachable

FORGOTTEN: Final = 30.0


class ServerOutage:
    """See the module. Used by many threads at once: at worst, one waits a little longer."""

    def __init__(self, server: str, patience: float, clock: Callable[[], float] = time.monotonic) -> None:
        """`server`: as messages name it. `patience`: seconds."""
        self._server, self._patience, self._clock = server, patience, clock
        self._began: float | None = None
        self._failed_at = self._took = 0.0
        self._reason = ""

    def failed(self, reason: str, took: float) -> Unreachable:
        """Takes note of an attempt of `took` seconds. Returns what it is raised as."""
        now = self._clock()
        if self._began is None or now - took - self._failed_at > FORGOTTEN:
            self._began = now
        self._failed_at, self._took, self._reason = now, took, reason
        return self._unreachable(now - self._began)

    def known(self) -> Unreachable | None:
        """What an attempt would be raised as now; None: it is to be made."""
        began = self._began
        if began is None or self._clock() - self._failed_at >= self._took or self._failed_at - began < self._patience:
            return None
        return self._unreachable(self._failed_at - began)

    def ended(self) -> None:
        """A connection was made, or used."""
        self._began = None

    def _unreachable(self, seconds: float) -> Unreachable:
        tried = f", tried for {seconds:.0f} s" if seconds >= 1 else ""
        return Unreachable(
            f"no connection to {self._server}: {self._reason}{tried}. Is the server running, and the endpoint right?",
            may_wait=seconds < self._patience,
        )
