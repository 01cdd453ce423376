"""A gate holds an answer until the test opens it: what other tests do with sleeps.

closed --open()--> open        requests that come to an open gate pass at once; a gate never closes again
"""

import asyncio


class Gate:
    def __init__(self) -> None:
        self._opened = asyncio.Event()
        self._arrival = asyncio.Condition()
        self.arrived = 0
        """How many requests have come to it."""

    def open(self) -> None:
        self._opened.set()

    async def wait_open(self) -> None:
        """Waits for the gate to open: the side of the fake."""
        async with self._arrival:
            self.arrived += 1
            self._arrival.notify_all()
        await self._opened.wait()

    async def reached(self, count: int = 1) -> None:
        """Waits until `count` requests have come to the gate: the side of the test."""
        async with self._arrival:
            await self._arrival.wait_for(lambda: self.arrived >= count)
