"""The pulse of another worker: whether its loop still turns, felt for as long as somebody waits for it.

    somebody waits ──> every EVERY seconds a ping ──> answered          it may take its time
                                                 └──> MISSED in a row   it is silent: nobody waits for it any more
    silent ──> pinged on ──> answered, or it ended                      it is asked again

A worker that hangs (stopped, swapped out, stuck in the kernel) takes connections and never answers; one that works for
long on what it was asked answers pings. Two are missed before it counts, so that one pause of our own, after which a
ping seems late that was answered in time, is not taken for a silence of the other. Nor is one late whose bytes come
meanwhile: with a thousand readers at once a turn of two loops takes longer than a ping may, and to leave it then would
be to ask the origin for what it is sending.

Not here: ending a worker that hangs. Those who may not go on without it do that (peers.peer_client), and the
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
    """A connection to that worker."""

    frames_received: int
    """Frames that have come over it."""

    def abort(self) -> None: ...


class Heartbeat:
    """See the module. `ping` returns when it is answered and raises PeerUnavailable, or what the worker failed with."""

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
        """Break `channel` off should the worker fall silent."""
        self._watched.add(channel)
        if not self._is_running:
            self._is_running = True
            self._spawn(self._run(), f"pulse of {self._name}")

    def unwatch(self, channel: Abortable) -> None:
        self._watched.discard(channel)

    def _frames_received(self) -> int:
        """Differs from what it was if something came from the worker."""
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
                except ForebayError:  # it has ended, as its connections say themselves, or answered with a failure
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
