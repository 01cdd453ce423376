"""Liveness of another worker: heartbeats while a response is waited for, to tell a slow worker from a hung one.

    a response is waited for ──> a ping every PING_INTERVAL ──> answered                alive: it may take its time
                                                            └──> MAX_MISSED in a row    silent: connections are aborted
    silent ──> pings go on ──> answered, or the process ended                           alive again

A hung worker (stopped, swapped out, stuck in the kernel) accepts connections and never answers; one that works for long
on a call answers pings. Two must be missed, so that one pause of our own, after which a ping seems late that was
answered in time, does not count. A ping is not missed either while frames arrive: with a thousand readers a turn of two
loops takes longer than a ping may, and giving up then would send the origin a request for bytes that are arriving.

Ending a hung worker is not done here, but by callers that can't go on without it (peers.peer_client) and by the
supervisor.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, Protocol

from forebay.core.errors import ForebayError
from forebay.peers.frames import Spawn

PING_INTERVAL: Final = 0.5
"""Seconds between two pings."""
PING_TIMEOUT: Final = 1.0
"""Seconds that one may take. A worker under the heaviest load answers within some tenths."""
MAX_MISSED: Final = 2


class Abortable(Protocol):
    """A connection to the worker."""

    frames_received: int

    def abort(self) -> None:
        """Closes the connection at once."""


class Heartbeat:
    """Pings one worker while connections to it are watched. `ping` returns at the answer, and raises PeerUnavailable or
    the worker's error."""

    def __init__(
        self,
        ping: Callable[[], Awaitable[object]],
        spawn: Spawn,
        name: str,
        interval: float = PING_INTERVAL,
        timeout: float = PING_TIMEOUT,
    ) -> None:
        self._ping = ping
        self._interval, self._timeout = interval, timeout
        self._spawn = spawn
        self._name = name
        self._watched: set[Abortable] = set()
        self._is_running = False
        self.is_silent = False

    def watch(self, channel: Abortable) -> None:
        """Aborts `channel` if the worker falls silent."""
        self._watched.add(channel)
        if not self._is_running:
            self._is_running = True
            self._spawn(self._run(), f"heartbeat of {self._name}")

    def unwatch(self, channel: Abortable) -> None:
        """Stops to watch `channel`."""
        self._watched.discard(channel)

    def _frames_received(self) -> int:
        """Returns a number that changes when a frame has arrived."""
        return sum(channel.frames_received for channel in self._watched)

    async def _run(self) -> None:
        missed = 0
        try:
            while self._watched or self.is_silent:
                before = self._frames_received()
                await asyncio.sleep(self._interval)
                try:
                    async with asyncio.timeout(self._timeout):
                        await self._ping()
                except TimeoutError:
                    missed = missed + 1 if self._frames_received() == before else 0
                except ForebayError:  # it has ended, as its connections will show, or answered with a failure
                    missed = 0
                else:
                    missed = 0
                self.is_silent = missed >= MAX_MISSED
                if self.is_silent:
                    watched, self._watched = self._watched, set()
                    for channel in watched:
                        channel.abort()
        finally:
            self._is_running = False
