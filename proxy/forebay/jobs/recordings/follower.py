"""The follower: fetches the rest of a recording that a reader goes along, a bounded horizon ahead of it.

    reader at 812 ──────────> recording:  ... 811 812 813 ───────────── 1068 ...
                                              read    fetched, or on the     not before the reader gets nearer
                                                      way (prefetcher)

It ends when the reader parts from the recording or is at its end; a reader that stops costs one horizon. Keys that the
reader may not read are left out: whose reads a recording was made of tells nothing of who follows it.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from typing import Final, Protocol

from forebay.core.events import ReaderKey, RecordedRead
from forebay.core.names import ObjectName
from forebay.core.task_registry import TaskRegistry
from forebay.jobs.prefetcher import AheadOutcome, AheadRequest
from forebay.jobs.recordings.recording import Recording
from forebay.origin.origin_identity import OriginIdentity
from forebay.protocol.recordings.recording_file import RecordingDecoder

MAX_FOLLOWED: Final = 8
"""Recordings that are followed at once; each has its file in memory."""
CONCURRENCY: Final = 32
"""Reads of one recording that are fetched at once."""
HORIZON_READS: Final = 4096
HORIZON_BYTES: Final = 256 << 20
"""How far ahead of the reader: whichever is nearer."""
_LEAST_AHEAD: Final = 8
"""Reads ahead, whatever their size."""


class TicketedFetches(Protocol):
    """Fetches ahead (jobs.node_prefetcher)."""

    async def fetch(self, request: AheadRequest) -> AheadOutcome:
        """Fetches a piece. Never raises ForebayError."""
        ...

    def finish(self, tickets: Iterable[int]) -> None:
        """The bytes of these tickets were read."""
        ...

    def drop(self, tickets: Iterable[int]) -> None:
        """The bytes of these tickets won't be read."""
        ...


class FollowedRecording:
    """One recording that is followed by one reader."""

    def __init__(
        self, reader: ReaderKey, identity: OriginIdentity | None, position: int, horizon: int, ahead: TicketedFetches
    ) -> None:
        """`identity`: whose credential is sent to the origin. `horizon`: bytes."""
        self.reader = reader
        self.position = position
        """Of the reader."""
        self._identity = identity
        self._start = position
        self._horizon = horizon
        self._ahead = ahead
        self.is_finishing = False
        """Whether the reader is near the end."""
        self._moved = asyncio.Event()
        self._tickets: dict[int, list[int]] = {}
        """Of the reads that were fetched, by their positions."""

    def advance(self, position: int) -> None:
        """The reader is at `position`."""
        if position > self.position:
            self.position = position
            behind = [each for each in self._tickets if each < position]
            self._ahead.finish(ticket for each in behind for ticket in self._tickets.pop(each))
            self._moved.set()

    def finish(self) -> None:
        """The reader is near the end: nothing is too far ahead any more."""
        self.is_finishing = True
        self._moved.set()

    async def run(self, content: bytes, may_read: Callable[[ObjectName], bool]) -> None:
        """Fetches what comes, until the recording ends."""
        slots = asyncio.Semaphore(CONCURRENCY)
        async with asyncio.TaskGroup() as group:
            async for position, read in self._due(content):
                name = ObjectName(self.reader.bucket, read.key)
                if may_read(name):
                    await slots.acquire()
                    task = group.create_task(self._fetch(position, name, read))
                    task.add_done_callback(lambda _: slots.release())

    def release(self, *, is_read: bool) -> None:
        """Gives back what was fetched. `is_read`: the reader has it, or will have soon."""
        tickets = [ticket for each in self._tickets.values() for ticket in each]
        self._tickets.clear()
        if is_read:
            self._ahead.finish(tickets)
        else:
            self._ahead.drop(tickets)

    async def _fetch(self, position: int, name: ObjectName, read: RecordedRead) -> None:
        start, stop = read.start, None if read.is_whole else read.start + read.length
        group = f"recording {self.reader.principal} {self.reader.bucket}/{self.reader.track}"
        while position >= self.position:
            expected = max(1, read.start + read.length - start)
            outcome = await self._ahead.fetch(AheadRequest(name, start, stop, group, self._identity, expected))
            if outcome.status == "full" and not self.is_finishing:
                self._moved.clear()
                await self._moved.wait()
                continue
            if outcome.ticket:
                if position >= self.position:
                    self._tickets.setdefault(position, []).append(outcome.ticket)
                else:
                    self._ahead.finish((outcome.ticket,))
            end = outcome.size if stop is None else min(stop, outcome.size)
            if outcome.status != "fetched" or not start < outcome.stop < end:
                return
            start = outcome.stop

    async def _due(self, content: bytes) -> AsyncGenerator[tuple[int, RecordedRead]]:
        """Yields the reads from the start on and their positions, each once it is within the horizon."""
        position = 0
        sizes: dict[int, int] = {}
        """Of the reads ahead of the reader, by position."""
        ahead, counted = 0, self._start
        for page in RecordingDecoder(content).pages():
            if position + len(page.reads) <= self._start:
                position += len(page.reads)
                continue
            await asyncio.sleep(0)
            for read in page.reads:
                while position >= self._start:
                    while counted < min(self.position, position):
                        ahead -= sizes.pop(counted, 0)
                        counted += 1
                    distance = position - self.position
                    is_near = distance < HORIZON_READS and ahead < self._horizon
                    if is_near or distance < _LEAST_AHEAD or self.is_finishing:
                        break
                    self._moved.clear()
                    await self._moved.wait()
                if position >= max(self._start, self.position):
                    sizes[position] = read.length
                    ahead += read.length
                    yield position, read
                position += 1


class Follower:
    """Follows recordings for all readers of the node. Implements reader_track.FollowListener."""

    def __init__(
        self,
        read: Callable[[Recording], Awaitable[bytes]],
        may_follow: Callable[[ReaderKey, Recording], bool],
        may_read: Callable[[str, ObjectName], bool],
        identity: Callable[[str], OriginIdentity | None],
        ahead: TicketedFetches,
        horizon: Callable[[], int],
        tasks: TaskRegistry,
        count: Callable[[str], None],
    ) -> None:
        """`read` returns the file of a recording. `may_read(principal, name)` judges by the grants in force. `horizon`:
        bytes that may be ahead of a reader. `count("followed" or "parted")` is called for each."""
        self._read = read
        self._may_follow = may_follow
        self._may_read = may_read
        self._identity = identity
        self._ahead = ahead
        self._horizon = horizon
        self._tasks = tasks
        self._count = count
        self._running: dict[ReaderKey, tuple[FollowedRecording, asyncio.Task[None]]] = {}

    @property
    def running(self) -> int:
        """How many recordings are followed."""
        return len(self._running)

    def may_follow(self, reader: ReaderKey, recording: Recording) -> bool:
        """As the policy in force has it."""
        return self._may_follow(reader, recording)

    def followed(self, reader: ReaderKey, recording: Recording, position: int) -> None:
        """Begins to fetch ahead of the reader."""
        self._cancel(reader)
        if len(self._running) >= MAX_FOLLOWED:
            return
        self._count("followed")
        horizon, identity = min(HORIZON_BYTES, self._horizon()), self._identity(reader.principal)
        followed = FollowedRecording(reader, identity, position, horizon, self._ahead)
        task = self._tasks.spawn(self._run(followed, recording), f"follow {recording.bucket}/{recording.name}")
        self._running[reader] = followed, task
        task.add_done_callback(lambda done: self._settle(followed, done))

    def advanced(self, reader: ReaderKey, position: int) -> None:
        """Fetches further."""
        if (running := self._running.get(reader)) is not None:
            running[0].advance(position)

    def ended(self, reader: ReaderKey, *, parted: bool) -> None:
        """Fetches what is left, or nothing any more."""
        if parted:
            self._count("parted")
            self._cancel(reader)
        elif (running := self._running.get(reader)) is not None:
            followed, task = running
            followed.finish()
            if task.done():
                self._settle(followed, task)

    def close(self) -> None:
        """Follows nothing any more."""
        for reader in tuple(self._running):
            self._cancel(reader)

    def _cancel(self, reader: ReaderKey) -> None:
        if (running := self._running.pop(reader, None)) is not None:
            followed, task = running
            if task.done():
                followed.release(is_read=False)
            task.cancel()

    def _settle(self, followed: FollowedRecording, task: asyncio.Task[None]) -> None:
        """Called when everything is fetched, or nothing more will be. Then what was fetched waits for the reader."""
        is_current = self._running.get(followed.reader, (None,))[0] is followed
        has_failed = task.cancelled() or task.exception() is not None
        if has_failed or not is_current or followed.is_finishing:
            followed.release(is_read=not has_failed and is_current)
            if is_current:
                del self._running[followed.reader]

    async def _run(self, followed: FollowedRecording, recording: Recording) -> None:
        try:
            content = await self._read(recording)
        except FileNotFoundError:  # it was dropped meanwhile
            return
        principal = followed.reader.principal
        await followed.run(content, lambda name: self._may_read(principal, name))
