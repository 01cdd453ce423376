"""The read sender: carries one worker's reads to the collector, in order, each once.

    add ──> ring, MAX_UNSENT reads ──> one batch under way ──> answered: the next one
                │                              └── not answered: the same batch again, RETRY_SECONDS later
                └── overflow: the oldest are dropped, and counted

Sending delays no read, and no read is lost without a count: a collector that is busy, hangs or is restarted gets them
afterwards, as many as the ring has. A batch is numbered, so that one whose answer was lost is delivered once
(`BatchNumbers`). One that the collector fails at MAX_FAILURES times is dropped and counted: it would stay for ever.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from random import getrandbits
from typing import Final

from forebay.core.errors import ForebayError, PeerNotListening
from forebay.core.read_log import ReadGroup
from forebay.core.read_stream import ReadBatch
from forebay.core.timers import Timers
from forebay.peers.frames import Document, Spawn
from forebay.peers.read_codec import BatchEncoder

MAX_UNSENT: Final = 8192
"""Reads of the ring. A batch under way has as many at most, beside them."""
RETRY_SECONDS: Final = 0.25
MAX_FAILURES: Final = 20
"""Answers that are failures, or connections that end over a batch. A collector that does not listen is none: it is
being restarted."""
COLLECTED: Final[Document] = {"collected": True}
"""The response to a delivered batch. A batch without a subscriber gets another response."""
UNKNOWN: Final[Document] = {"unknown": True}
"""The answer to a batch that names objects by numbers that this collector does not know."""


class ReadSender:
    """Carries the reads of worker `worker`."""

    def __init__(
        self,
        worker: int,
        call: Callable[[Document], Awaitable[Document]],
        timers: Timers,
        spawn: Spawn,
        on_dropped: Callable[[int], None],
    ) -> None:
        """`call` calls the collector, and raises PeerUnavailable or the error of the method. `on_dropped` is called
        with the number of dropped reads."""
        self._worker = worker
        self._call = call
        self._encoder = BatchEncoder()
        self._timers = timers
        self._spawn = spawn
        self._on_dropped = on_dropped
        self._run = f"{getrandbits(64):016x}"  # unlike that of this worker's last process, not secret
        self._number = 0
        self._unsent: list[ReadGroup] = []
        self._dropped = 0
        """Reads that are missing before the unsent ones."""
        self._is_sending = False
        self._retry = asyncio.Event()
        self._under_way = 0
        """Reads of the batch under way."""
        self._wanted = 0
        """Changes when no reads are wanted any more."""

    def add(self, groups: Sequence[ReadGroup], dropped: int = 0) -> None:
        """Sends reads as soon as the earlier ones have arrived. `dropped`: so many are missing before them."""
        self._unsent += groups
        overflow = surplus = max(0, _count(self._unsent) - MAX_UNSENT)
        while surplus:
            first = self._unsent[0]
            if len(first) > surplus:
                self._unsent[0] = first.part(surplus, len(first))
                break
            surplus -= len(self._unsent.pop(0))
        self._count(dropped + overflow)
        if not self._is_sending:
            self._is_sending = True
            self._spawn(self._send(), "send reads to the collector")

    def discard(self) -> None:
        """Forgets all reads, as they are not needed any more."""
        self._unsent.clear()
        self._dropped = 0
        self._wanted += 1
        self._retry.set()

    def drop(self) -> None:
        """Forgets all reads, and counts them as dropped: the collector has not been there for too long."""
        lost = _count(self._unsent) + self._under_way
        self.discard()
        self._count(lost)

    def _count(self, dropped: int) -> None:
        if dropped:
            self._dropped += dropped
            self._on_dropped(dropped)

    async def _send(self) -> None:
        try:
            while self._unsent:
                groups, self._unsent = self._unsent, []
                dropped, self._dropped = self._dropped, 0
                self._number += 1
                self._under_way, wanted = _count(groups), self._wanted
                is_there = await self._deliver(ReadBatch(groups, self._worker, dropped))
                lost, self._under_way = self._under_way, 0
                if not is_there and wanted == self._wanted:
                    self._dropped += dropped  # no batch has reported them
                    self._count(lost)
        finally:
            self._is_sending = False

    async def _deliver(self, batch: ReadBatch) -> bool:
        """Returns whether the collector has the batch."""
        failures, wanted = 0, self._wanted
        while wanted == self._wanted and failures < MAX_FAILURES:
            document, sent = self._encoder.encode(batch)
            request = {"kind": "reads", "run": self._run, "number": self._number, **document}
            try:
                answer = await self._call(request)
                if answer.get("collected") is True:
                    self._encoder.confirm(sent)
                    return True
                if answer == UNKNOWN:
                    self._encoder.forget()
            except PeerNotListening:
                pass
            except ForebayError:
                failures += 1
            self._retry.clear()
            timer = self._timers.call_later(RETRY_SECONDS, self._retry.set)
            if wanted == self._wanted:
                await self._retry.wait()
            timer.cancel()
        return False


def _count(groups: Sequence[ReadGroup]) -> int:
    return sum(map(len, groups))


class BatchNumbers:
    """The latest batch that each worker has delivered: it may be sent again when its answer was lost."""

    def __init__(self) -> None:
        self._latest: dict[int, tuple[str, int]] = {}

    def is_new(self, worker: int, run: str, number: int) -> bool:
        """Returns whether batch `number` of a worker's process `run` was not delivered yet; it counts as delivered from
        now on."""
        latest = self._latest.get(worker)
        if latest is not None and latest[0] == run and number <= latest[1]:
            return False
        self._latest[worker] = run, number
        return True
