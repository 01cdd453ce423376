"""The run reader: reads one run of one version into its flights, over as many responses as that needs.

    open ──> receive ──last byte, or nobody wants the rest──> end
      ▲         ├── broke off: resumed at that byte, a bounded number of times
      │         ├── slow, and a reader waits: a second request from that byte on, beside the first
      │         │        ├── opened: replaces the first response; what that has delivered meanwhile is skipped
      └─────────┘        └── failed, or the first has recovered: it is kept, and judged again after twice the time
                └── slow, and nobody follows: end

Slow is below the floor over a window of time (policy.throughput_window). Only time in which a reader waits for a byte
of the run counts, or in which nobody follows it; one sweep examines all runs (core.sweep), so none has a timer. A
response from another worker is not replaced: that worker does so with the origin's.

After each piece it checks whether a follower is left for any remaining block. If not, it ends, and the blocks that it
had not begun are as if never requested. A block that it has begun is finished, as long as that is not slow: a client
that always gives up early still fills the cache, one block per attempt.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from forebay.core.byte_ranges import Span
from forebay.core.errors import (
    ForebayError,
    OriginBroken,
    OriginUnreachable,
    VersionChanged,
)
from forebay.core.events import OriginBytesRead, SlowResponse
from forebay.core.interruption import Interruption
from forebay.core.requester import BACKGROUND, requester
from forebay.fetch.fetch_request import FetchRequest
from forebay.fetch.flight import Flight
from forebay.fetch.run_source import RunSource
from forebay.origin.reads.read_outcomes import ObjectOpened
from forebay.policy.throughput_window import PATIENCE, ThroughputWindow

_log = logging.getLogger(__name__)

_RESUMPTIONS: Final = 2
"""Resumptions of one fetch, at most."""
READ_THROUGH: Final = 64 * 1024
"""Bytes at a time that are received and dropped; a response that delivers more while it is being replaced is kept."""


class ChecksumMismatch(VersionChanged):
    """The known head or the bytes are wrong. Either way the object must be looked up again."""


class RunReader:
    """Reads one run, once. A member of the sweep meanwhile."""

    __slots__ = (
        "_blocks",
        "_fetch",
        "_is_from_origin",
        "_position",
        "_received",
        "_replacement",
        "_replacing",
        "_scope",
        "_source",
        "_window",
    )

    def __init__(self, source: RunSource, fetch: FetchRequest, flights: Mapping[int, Flight]) -> None:
        """`flights`: of the missing blocks, by number."""
        self._source = source
        self._fetch = fetch
        self._blocks = deque(
            _RunBlock(fetch.view.block_length(number), flights.get(number)) for number in fetch.run.blocks
        )
        self._position = fetch.run.span.start
        self._received = 0
        self._window = ThroughputWindow(source.floor.rate)
        self._is_from_origin = False
        self._scope: Interruption | None = None
        """Interrupts the response that is being received."""
        self._replacing: asyncio.Task[None] | None = None
        self._replacement: ObjectOpened | None = None

    def __repr__(self) -> str:
        return f"<RunReader {self._fetch.view.name.path} at {self._position} of {self._fetch.run.span}>"

    async def read(self, opened: ObjectOpened | None) -> None:
        """Reads the bytes into the flights, in order, each once. Returns early when no remaining block is wanted.
        `opened`: a response under way, which begins where the run begins. Raises ForebayError."""
        self._source.floor.sweep.add(self)
        try:
            await self._read(opened)
        finally:
            self._source.floor.sweep.remove(self)
            self._drop_replacement()

    def fail(self, failure: Exception) -> list[Flight]:
        """Fails the flights that have not landed, and returns them."""
        flights = [block.flight for block in self._blocks if block.flight is not None]
        for flight in flights:
            flight.fail(failure)
        return flights

    async def _read(self, opened: ObjectOpened | None) -> None:
        resumptions = _RESUMPTIONS
        while True:
            if opened is None:
                opened, self._replacement = self._replacement, None
            try:
                if opened is None:
                    opened = await self._source.open(self._fetch.view, self._rest_from(self._position))
                if await self._receive(opened):
                    return
            except (OriginBroken, OriginUnreachable) as error:
                if resumptions == 0 or (opened is None and isinstance(error, OriginUnreachable)):
                    raise  # the origin client has retried a request that could not even be opened
                resumptions -= 1
                self._drop_replacement()
                path = self._fetch.view.name.path
                _log.info("fetch of %s broke off at byte %d, resuming: %s", path, self._position, error)
            finally:
                if opened is not None:
                    opened.body.close()  # an adopted response may go on beyond the run
                opened = None

    async def _receive(self, opened: ObjectOpened) -> bool:
        """Receives a response into the flights. Returns False if the sweep has interrupted it, or it ends before the
        run, and the rest is still wanted."""
        for block in self._blocks:
            if block.flight is not None:
                block.flight.source = "flight" if opened.source == "origin" else opened.source
                block.flight.on_demand(opened.body.skip_turns)
        self._is_from_origin = opened.source == "origin"
        self._window.restart(self._source.floor.timers.time(), self._received)
        skipped, body = self._position - opened.span.start, opened.body
        scope = self._scope = Interruption()
        briefly = requester.get() == BACKGROUND
        try:
            with scope:
                while skipped:
                    skipped -= self._count(await body.read_into(memoryview(bytearray(skipped))))
                while self._blocks and (self._is_begun() or self._is_followed()):
                    if self._position == opened.span.stop:
                        return False  # it was asked for when blocks were smaller
                    count = self._count(await body.read_into(self._blocks[0].target(briefly=briefly)))
                    if self._position + count == opened.span.stop:
                        await body.read_into(memoryview(bytearray(1)))  # raises OriginBroken if there is more
                    self._position += count
                    self._advance(count)
            return True
        except TimeoutError:
            if not scope.is_requested:
                raise
            return not self._is_followed()
        finally:
            self._scope = None

    def _count(self, received: int) -> int:
        self._received += received
        if self._is_from_origin:  # the owner has counted what came through it
            self._source.observe(OriginBytesRead(received, self._fetch.view.rule))
        return received

    def _is_begun(self) -> bool:
        first = self._blocks[0].flight
        return first is not None and first.filled > 0

    def _is_followed(self) -> bool:
        return any(block.flight is not None and block.flight.is_wanted for block in self._blocks)

    def _is_awaited(self) -> bool:
        return any(block.flight is not None and block.flight.is_awaited for block in self._blocks)

    # The sweep's side

    def postpone(self, seconds: float) -> None:
        """See forebay.core.sweep.Examined."""
        self._window.postpone(seconds)

    def examine(self, now: float) -> None:
        """See forebay.core.sweep.Examined. Has a slow response replaced, or ends it."""
        if self._scope is None or self._replacing is not None or self._replacement is not None:
            return
        is_followed = self._is_followed()
        if is_followed and not (self._is_from_origin and self._is_awaited()):
            self._window.restart(now, self._received)
            return
        if not self._window.is_slow(now, self._received, self._window.patience if is_followed else PATIENCE):
            return
        if not is_followed:
            self._end_response("ended")
        elif self._source.reads.admits_hedge(self._fetch.view.name.bucket):
            self._window.double()
            self._replacing = self._source.tasks.spawn(self._replace(self._position), f"replace {self!r}")

    def _end_response(self, action: Literal["ended", "replaced"]) -> None:
        if self._scope is not None:
            self._source.observe(SlowResponse(action))
            self._scope.interrupt()

    async def _replace(self, position: int) -> None:
        """Opens another response from `position` on, and interrupts the slow one if it is still slow."""
        try:
            opened = await self._source.open_at_origin(self._fetch.view, self._rest_from(position), is_hedge=True)
        except ForebayError as failure:
            _log.info("the slow response to %r is kept: %s", self, failure)
            self._source.observe(SlowResponse("kept"))
            return
        finally:
            self._replacing = None
        if self._scope is None or self._position - position > READ_THROUGH:
            opened.body.close()
            self._source.observe(SlowResponse("kept"))
            return
        self._replacement = opened
        self._end_response("replaced")

    def _drop_replacement(self) -> None:
        if self._replacing is not None:
            self._replacing.cancel()
        if self._replacement is not None:
            self._replacement.body.close()
            self._replacement = None

    def _rest_from(self, position: int) -> Span:
        return Span(position, self._fetch.run.span.stop)

    def _advance(self, count: int) -> None:
        """Accounts for `count` bytes received into the first block's target. Raises ChecksumMismatch, before a reader
        has them, if they complete an object whose CRC-64 is another than the origin's."""
        blocks, head = self._blocks, self._fetch.view.head
        block = blocks[0]
        block.remaining -= count
        flight = block.flight
        if flight is None:
            if block.remaining == 0:
                blocks.popleft()
            return
        if block.remaining == 0 and not self._source.object_crc.verifies(flight.block, flight.full_buffer(), head):
            raise ChecksumMismatch("the bytes read do not match the origin's CRC-64")
        flight.advance(count)
        if block.remaining == 0:
            blocks.popleft()
            self._source.tiers.admit(flight.block, flight.buffer)


@dataclass(slots=True)
class _RunBlock:
    """One block of a run."""

    remaining: int
    """Bytes of it still to come."""
    flight: Flight | None
    """The flight that it feeds; None: its bytes are dropped."""

    def target(self, *, briefly: bool) -> memoryview:
        """Returns where its next bytes go. `briefly`: see Flight.unfilled."""
        if self.flight is not None:
            return self.flight.unfilled(briefly=briefly)
        return memoryview(bytearray(min(self.remaining, READ_THROUGH)))
