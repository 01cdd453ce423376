"""The fetcher: ranged GETs that feed flights.

    run of neighbouring blocks ──> one ranged GET, pinned to the version (If-Match) ──> flights, block by block
                                        ▲         └── broke off: resumed at that byte, a bounded number of times
                                        └── none wanted any more: ends before the next block

Bytes are received straight into the flights' buffers; followers read them as they arrive. Blocks of the run that are
here already (a gap that is cheaper to read through) are read and dropped.

An object that another worker owns is fetched from that worker, in the same way and under the same pin (peers.owners).

A fetch belongs to the task registry, not to the reader that caused it. After each piece it checks whether a follower is
left for any remaining block. If not, it ends, and the blocks that it had not begun are as if never requested. A block
that it has begun is finished: a client that always gives up early still fills the cache, one block per attempt.

The caller has acquired the memory budget of each missing block; it is released with the flight (fetch.flight).
"""

import logging
from collections import deque
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Protocol, assert_never

from forebay.core.buffers import Buffer
from forebay.core.byte_ranges import Span, blocks_touching
from forebay.core.errors import (
    ForebayError,
    OriginBroken,
    OriginRefused,
    OriginUnfit,
    OriginUnreachable,
    PeerUnavailable,
    VersionChanged,
)
from forebay.core.events import FlightStarted, Observe, OriginBytesRead, OriginFailed
from forebay.core.fair_semaphore import FairSemaphore
from forebay.core.heads import Head
from forebay.core.names import BlockId, ObjectName
from forebay.core.task_registry import TaskRegistry
from forebay.fetch.fetch_request import FetchRequest, ObjectView
from forebay.fetch.flight import Flight, FlightRegistry
from forebay.fetch.object_crc import ObjectCrc
from forebay.origin.object_reads import OriginReads
from forebay.origin.origin_identity import secret_key_of
from forebay.origin.read_outcomes import ErrorResponse, ObjectOpened, Revalidated, Uncacheable
from forebay.peers.owners import Peers
from forebay.policy.coalescing import Run

_log = logging.getLogger(__name__)

_READ_THROUGH: Final = 64 * 1024
"""Bytes at a time that are received and dropped."""


class BlockStore(Protocol):
    """What the fetcher needs of the tiers."""

    def admit(self, block: BlockId, buffer: Buffer) -> None:
        """Stores a block."""

    def has(self, block: BlockId) -> bool:
        """Whether a block is stored."""
        ...

    async def forget(self, name: ObjectName) -> None:
        """Forgets the head and the blocks of an object."""


class Fetcher:
    """Starts fetches and owns them until they end."""

    def __init__(
        self,
        reads: OriginReads,
        tiers: BlockStore,
        registry: FlightRegistry,
        budget: FairSemaphore,
        tasks: TaskRegistry,
        observe: Observe,
        peers: Peers,
        resumptions: int = 2,
    ) -> None:
        """`budget`: bytes of buffers; `resumptions`: how often one fetch is resumed."""
        self._peers = peers
        self._reads = reads
        self._tiers = tiers
        self.registry = registry
        self.budget = budget
        self._tasks = tasks
        self._observe = observe
        self._resumptions = resumptions
        self._object_crc = ObjectCrc()

    def start(self, fetch: FetchRequest) -> dict[int, Flight]:
        """Starts a fetch whose budget is acquired. Returns the flights of its missing blocks by number.

        What changed while the budget was waited for is heeded: a block that another fetch is reading gives that flight,
        and one that has landed is not fetched again (and not returned).
        """
        return self._start(fetch, None)

    def adopt(self, fetch: FetchRequest, opened: ObjectOpened) -> dict[int, Flight]:
        """Feeds the flights from a response under way, which begins where the run begins.

        The budget is acquired here, if it is free. An open response occupies a slot at the origin, for which others may
        wait that hold memory, so it must not wait for memory itself. Without memory, or with nothing missing any more,
        the response is closed. Returns what `start` does, to be followed at once: a fetch without followers ends.
        """
        if not self.budget.try_acquire(fetch.buffer_bytes):
            opened.body.close()
            return {}
        return self._start(fetch, opened)

    def adopt_first_blocks(self, view: ObjectView, opened: ObjectOpened) -> dict[int, Flight]:
        """Feeds the flights of the blocks not yet here from the response that came with the head.

        A response that feeds none (to a HEAD, or without memory for it) is closed: until then it occupies a slot at the
        origin.
        """
        numbers = blocks_touching(opened.span, view.head.block_size)
        missing = [number for number in numbers if not self._is_available(view.block(number))]
        if not missing:
            opened.body.close()
            return {}
        blocks = range(numbers.start, missing[-1] + 1)
        span = Span(opened.span.start, view.block_span(missing[-1]).stop)
        return self.adopt(FetchRequest(view, Run(blocks, tuple(missing), span)), opened)

    def _is_available(self, block: BlockId) -> bool:
        return self.registry.find(block) is not None or self._tiers.has(block)

    def _start(self, fetch: FetchRequest, opened: ObjectOpened | None) -> dict[int, Flight]:
        flights, started, view = {}, {}, fetch.view
        for number in fetch.run.missing:
            block, length = view.block(number), view.block_length(number)
            flight = self.registry.find(block)
            if flight is None and (fetch.ignore_tiers or not self._tiers.has(block)):
                flight = started[number] = Flight(block, length, self._release, view.identity)
            else:
                self.budget.release(length)
            if flight is not None:
                flights[number] = flight
        if not started:
            if opened is not None:
                opened.body.close()
            return flights
        self.registry.add(started.values())
        self._observe(FlightStarted(len(started)))
        if opened is not None and self._land_at_once(view, started, opened):
            return flights
        self._tasks.spawn(self._fetch(fetch, started, opened), name=f"fetch {view.name.path}#{fetch.run.blocks.start}")
        return flights

    def _land_at_once(self, view: ObjectView, started: dict[int, Flight], opened: ObjectOpened) -> bool:
        """Lands an object of one block that came whole with its head; returns whether it did. Such a fetch needs no
        task. The caller of `adopt` follows the flight before anything else runs."""
        head, flight = view.head, started.get(0)
        if flight is None or head.size > head.block_size or opened.source != "origin" or self._object_crc.has_crc(head):
            return False
        if not opened.body.read_if_buffered(flight.unfilled()):
            return False
        self._observe(OriginBytesRead(flight.length, view.rule))
        flight.advance(flight.length)
        self._tiers.admit(flight.block, flight.buffer)
        return True

    def _release(self, flight: Flight) -> None:
        self.registry.remove(flight)
        self.budget.release(flight.length)

    async def _fetch(self, fetch: FetchRequest, flights: dict[int, Flight], opened: ObjectOpened | None) -> None:
        name = fetch.view.name
        blocks = deque(_RunBlock(fetch.view.block_length(number), flights.get(number)) for number in fetch.run.blocks)
        failure: Exception = OriginBroken("the fetch ended without followers")
        try:
            await self._read(fetch, blocks, opened)
        except _ChecksumMismatch as error:
            _log.warning("%s: %s; the object is forgotten", name.path, error.reason)
            self._observe(OriginFailed("GetObject", error.reason))
            await self._tiers.forget(name)
            failure = error
        except ForebayError as error:
            failure = error
        except Exception as error:
            _log.exception("fetch of %s failed", name.path)
            failure = OriginBroken(f"{type(error).__name__} while fetching")
        finally:
            for block in blocks:
                if block.flight is not None:
                    self.registry.remove(block.flight)
                    block.flight.fail(failure)
            for flight in flights.values():
                flight.finish()

    async def _read(self, fetch: FetchRequest, blocks: "deque[_RunBlock]", opened: ObjectOpened | None) -> None:
        """Reads the bytes of the run into its flights, in order, each once, across resumptions. Ends early when no
        remaining block is wanted."""
        position, resumptions = fetch.run.span.start, self._resumptions
        while True:
            try:
                if opened is None:
                    opened = await self._open(fetch, position)
                for block in blocks:
                    if block.flight is not None:
                        block.flight.source = "flight" if opened.source == "origin" else opened.source
                while blocks and _is_wanted(blocks):
                    count = await opened.body.read_into(blocks[0].target())
                    if position + count == opened.span.stop and await opened.body.read_into(memoryview(bytearray(1))):
                        raise OriginBroken("the body is longer than announced")
                    position += count
                    if opened.source == "origin":  # the owner has counted what came through it
                        self._observe(OriginBytesRead(count, fetch.view.rule))
                    self._advance(fetch.view.head, count, blocks)
                return
            except (OriginBroken, OriginUnreachable) as error:
                if resumptions == 0 or (opened is None and isinstance(error, OriginUnreachable)):
                    raise  # the origin client has retried a request that could not even be opened
                resumptions -= 1
                _log.info("fetch of %s broke off at byte %d, resuming: %s", fetch.view.name.path, position, error)
            finally:
                if opened is not None:
                    opened.body.close()  # an adopted response may go on beyond the run
                opened = None

    async def _open(self, fetch: FetchRequest, position: int) -> ObjectOpened:
        view, span = fetch.view, Span(position, fetch.run.span.stop)
        owner = self._peers.owner(view.name)
        if owner is not None:
            with suppress(PeerUnavailable):
                return await owner.read(view.name, view.head, span, view.identity)
        version = view.head.version
        answer = await self._reads.open_read(
            view.name,
            span,
            pin=version,
            version_id=version.version_id if view.head.by_id else None,
            credential=await secret_key_of(view.identity),
        )
        match answer:
            case ObjectOpened() if answer.span == span and answer.facts.size == view.head.size:
                return answer
            case ObjectOpened():
                answer.body.close()
                raise VersionChanged("another size under the same ETag")
            case ErrorResponse(status=404):
                raise VersionChanged("the object is gone")
            case ErrorResponse():
                raise OriginRefused(answer.status, answer.headers, answer.body)
            case Uncacheable():
                raise OriginUnfit(answer.reason)
            case Revalidated():
                raise OriginBroken("304 to a request without If-None-Match")
        assert_never(answer)

    def _advance(self, head: Head, count: int, blocks: "deque[_RunBlock]") -> None:
        """Accounts for `count` bytes received into the first block's target. Raises _ChecksumMismatch, before a reader
        has them, if they complete an object whose CRC-64 is another than the origin's."""
        block = blocks[0]
        block.remaining -= count
        flight = block.flight
        if flight is None:
            if block.remaining == 0:
                blocks.popleft()
            return
        if block.remaining == 0 and not self._object_crc.verifies(flight.block, flight.full_buffer(), head):
            raise _ChecksumMismatch("the bytes read do not match the origin's CRC-64")
        flight.advance(count)
        if block.remaining == 0:
            blocks.popleft()
            self._tiers.admit(flight.block, flight.buffer)


class _ChecksumMismatch(VersionChanged):
    """The known head or the bytes are wrong. Either way the object must be looked up again."""


@dataclass(slots=True)
class _RunBlock:
    """One block of a run."""

    remaining: int
    """Bytes of it still to come."""
    flight: Flight | None
    """The flight that it feeds; None: its bytes are dropped."""

    def target(self) -> memoryview:
        """Returns where its next bytes go."""
        if self.flight is not None:
            return self.flight.unfilled()
        return memoryview(bytearray(min(self.remaining, _READ_THROUGH)))


def _is_wanted(blocks: "deque[_RunBlock]") -> bool:
    """Whether the first block has been begun, or any has a follower."""
    first = blocks[0].flight
    if first is not None and first.filled > 0:
        return True
    return any(block.flight is not None and block.flight.is_wanted for block in blocks)
