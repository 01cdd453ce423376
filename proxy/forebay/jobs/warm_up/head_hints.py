"""Head hints: `HEAD` with `Range: bytes=0-0` starts the warm-up of an object, where a rule says so (`warm_on_head`).

CoreWeave's LOTA stages an object at such a request, so clients that are written for it need no change. Each object is
warmed once at a time, a few at once, in background turns; hints beyond MAX_WAITING are dropped: they are hints. The
request itself has been admitted and answered as any other.

https://docs.coreweave.com/products/storage/object-storage/improving-performance/prestage-cache
"""

from collections import deque
from contextlib import suppress
from typing import Final

from forebay.core.errors import ForebayError
from forebay.core.names import ObjectName
from forebay.jobs.warm_up.object_warmer import ObjectWarmer
from forebay.peers.frames import Spawn

MAX_WAITING: Final = 1000
AT_ONCE: Final = 4
GROUP: Final = "head hints"
"""Hints share the background turns of one job."""


class HeadHints:
    """Warms the objects that hints name."""

    def __init__(self, warmer: ObjectWarmer, spawn: Spawn) -> None:
        self._warmer = warmer
        self._spawn = spawn
        self._waiting: deque[ObjectName] = deque()
        self._known: set[ObjectName] = set()
        """Objects that wait or are being warmed."""
        self._running = 0

    def __repr__(self) -> str:
        return f"<HeadHints {self._running} running, {len(self._waiting)} waiting>"

    def add(self, name: ObjectName) -> None:
        """An object is to be warmed. Returns at once."""
        if name in self._known or len(self._waiting) >= MAX_WAITING:
            return
        self._known.add(name)
        self._waiting.append(name)
        if self._running < AT_ONCE:
            self._running += 1
            self._spawn(self._warm_waiting(), "warm by hints")

    async def _warm_waiting(self) -> None:
        try:
            while self._waiting:
                name = self._waiting.popleft()
                try:
                    with suppress(ForebayError):
                        await self._warmer.warm(name, GROUP, lambda _: None)
                finally:
                    self._known.discard(name)
        finally:
            self._running -= 1
