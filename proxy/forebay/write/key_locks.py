"""Key locks: no deletion of a key is under way together with another write of it, whichever workers carry them.

    deletion    locks its keys here ──> waits for the other writes of them that are under way, in all workers
    others      wait for the deletions here ──> lock their key ──> does another worker delete it?
                     └<── unlock, and wait for the end of that deletion <──────────yes──┘ └──no──> go on

Each locks before it looks for the other, so of two at least one sees the other; and only one of the two gives way.
Deletions don't exclude each other, nor do other writes.

A lock is known to its own worker alone, and ends with the process. What that had sent is in doubt in all others
(write.invalidation).
"""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Final

from forebay.core.errors import Throttled
from forebay.core.names import ObjectName
from forebay.peers.owners import Peers
from forebay.peers.peer_codec import encode_names

WAIT_SECONDS: Final = 30.0
"""Seconds that one write waits for others: a client may take its time over a body."""


class KeyLocks:
    """The locks of one worker."""

    def __init__(self, peers: Peers) -> None:
        self.wait_seconds = WAIT_SECONDS
        self._peers = peers
        self._deletions: Counter[ObjectName] = Counter()
        self._others: Counter[ObjectName] = Counter()
        self._unlocked = asyncio.Event()
        """Set when a lock ends, and then replaced."""
        self.waiting = 0
        """Writes of this worker that wait."""

    def __repr__(self) -> str:
        return f"<KeyLocks deletions={self._deletions.total()} others={self._others.total()} waiting={self.waiting}>"

    @asynccontextmanager
    async def for_deletion(self, names: Sequence[ObjectName]) -> AsyncGenerator[None]:
        """A context in which no other write of these objects is under way. Raises Throttled when that takes too
        long."""
        with self._locked(self._deletions, names):
            async with self._waits():
                await self.wait_for_others(names)
                if self._peers.others:
                    await self._peers.call_until_acked({"kind": "await_writes", **encode_names(names)}, slow=True)
            yield

    @asynccontextmanager
    async def for_change(self, name: ObjectName) -> AsyncGenerator[bool]:
        """A context in which no deletion of an object is under way. Yields whether one was. Raises Throttled when that
        takes too long."""
        has_waited = False
        while True:
            if name in self._deletions:
                has_waited = True
                async with self._waits():
                    await self.wait_for_deletions([name])
                continue  # another one may have begun before this task went on
            with self._locked(self._others, [name]):
                if not await self._is_deleted_elsewhere(name):
                    yield has_waited
                    return
            has_waited = True
            async with self._waits():
                await self._peers.call_until_acked({"kind": "await_deletions", **encode_names([name])}, slow=True)

    async def _is_deleted_elsewhere(self, name: ObjectName) -> bool:
        if not self._peers.others:
            return False
        answers = await self._peers.answers_until_acked({"kind": "is_being_deleted", **encode_names([name])})
        return any(answer.get("deleting") for answer in answers)

    # What other workers ask

    def is_being_deleted(self, names: Sequence[ObjectName]) -> bool:
        """Whether a deletion of one of the objects is under way in this worker."""
        return any(name in self._deletions for name in names)

    async def wait_for_deletions(self, names: Sequence[ObjectName]) -> None:
        """Waits until no deletion of one of the objects is under way in this worker."""
        await self._wait_until_unlocked(self._deletions, names)

    async def wait_for_others(self, names: Sequence[ObjectName]) -> None:
        """Waits until no other write of one of the objects is under way in this worker."""
        await self._wait_until_unlocked(self._others, names)

    @contextmanager
    def _locked(self, locks: Counter[ObjectName], names: Sequence[ObjectName]) -> Iterator[None]:
        locks.update(names)
        try:
            yield
        finally:
            for name in names:
                locks[name] -= 1
                if not locks[name]:
                    del locks[name]
            self._unlocked.set()
            self._unlocked = asyncio.Event()

    async def _wait_until_unlocked(self, locks: Counter[ObjectName], names: Sequence[ObjectName]) -> None:
        while any(name in locks for name in names):
            await self._unlocked.wait()

    @asynccontextmanager
    async def _waits(self) -> AsyncGenerator[None]:
        self.waiting += 1
        try:
            async with asyncio.timeout(self.wait_seconds):
                yield
        except TimeoutError:
            raise Throttled("another write of the same key takes too long") from None
        finally:
            self.waiting -= 1
