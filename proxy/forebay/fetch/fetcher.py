"""The fetcher: ranged GETs that feed flights.

One fetch is one run of neighbouring blocks, asked for with one ranged GET that is pinned to the version (If-Match).
Bytes are received straight into the flights' buffers, and told to those who follow as they arrive. A fetch that breaks
off is resumed where it stopped, pinned still, a bounded number of times. Blocks of the run that are at hand already (a
gap that is cheaper to read through) are read and dropped.

What another worker owns is asked of that worker, in the same way and under the same pin (peers.owners).

A fetch belongs to the task registry, not to the reader that caused it. With each piece it looks whether anybody still
wants what remains; if nobody does, it ends, and the blocks that it had not begun are as if never asked for. A block
that it has begun is finished: a client that always gives up early still fills the cache, a block a try.

The caller has the memory budget taken for each block that is to fly; it is given back when the flight is released (see
fetch.flight).
"""

import logging
from collections import deque
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Protocol, assert_never

from forebay.core.buffers import Buffer
from forebay.core.byte_ranges import Span, block_span, blocks_touching
from forebay.core.errors import (
    ForebayError,
    OriginBroken,
    OriginRefused,
    OriginUnfit,
    OriginUnreachable,
    VersionChanged,
)
from forebay.core.events import FlightStarted, Observe, OriginBytesRead, OriginFailed
from forebay.core.fair_semaphore import FairSemaphore
from forebay.core.heads import Head
from forebay.core.names import BlockId, ObjectName
from forebay.core.task_registry import TaskRegistry
from forebay.fetch.flight import Flight
from forebay.fetch.flight_registry import FlightRegistry
from forebay.fetch.object_crc import ObjectCrc
from forebay.origin.object_reads import OriginReads
from forebay.origin.origin_identity import OriginIdentity, secret_key_of
from forebay.origin.read_outcomes import ErrorResponse, ObjectOpened, Revalidated, Uncacheable
from forebay.peers.owners import Peers, PeerUnavailable
from forebay.policy.coalescing import Run
from forebay.policy.rules import Decision

_log = logging.getLogger(__name__)

_READ_THROUGH: Final = 64 * 1024
"""Bytes at a time that are received and dropped."""


class BlockStore(Protocol):
    """What the fetcher needs of the tiers."""

    def admit(self, block: BlockId, buffer: Buffer) -> None: ...

    def has(self, block: BlockId) -> bool: ...

    async def forget(self, name: ObjectName) -> None: ...


@dataclass(frozen=True, slots=True)
class Fetch:
    """An order to the fetcher: one run of one version."""

    name: ObjectName
    head: Head
    run: Run
    rule: str
    """For the metrics: which rule the reader that caused it came under."""
    identity: OriginIdentity | None = None
    """In whose name the origin is asked."""
    ignore_tiers: bool = False
    """The tiers were read and had it not, whatever their indexes still say: a damaged record, an eviction."""

    def block_length(self, number: int) -> int:
        return block_span(number, self.head.block_size, self.head.size).length

    @property
    def buffer_bytes(self) -> int:
        """Bytes of buffer that its flights need."""
        return sum(self.block_length(number) for number in self.run.missing)


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
        resumptions: int = 2,
        peers: Peers | None = None,
    ) -> None:
        self._peers = peers or Peers()
        self._reads = reads
        self._tiers = tiers
        self.registry = registry
        self.budget = budget
        self._tasks = tasks
        self._observe = observe
        self._resumptions = resumptions
        self._object_crc = ObjectCrc()

    def start(self, fetch: Fetch) -> dict[int, Flight]:
        """Start fetching. Its budget is taken already.

        Returns the flights of its missing blocks by number. What changed while the budget was waited for is heeded: a
        block that somebody else fetches is theirs, and one that has landed is not fetched again (and not returned).
        """
        return self._start(fetch, None)

    def adopt(self, fetch: Fetch, opened: ObjectOpened) -> dict[int, Flight]:
        """Let the body of an answer that is already coming feed its flights. The run begins where it begins.

        Takes the budget if it is there. An answer holds a place at the origin, for which others may wait that hold
        memory: so it must not wait for memory itself. Without it, or with nothing missing any more, it is dropped.
        Returns what `launch` does, to be followed at once: a fetch that nobody wants ends.
        """
        if not self.budget.try_acquire(fetch.buffer_bytes):
            opened.body.close()
            return {}
        return self._start(fetch, opened)

    def adopt_first_blocks(
        self,
        name: ObjectName,
        head: Head,
        decision: Decision,
        opened: ObjectOpened | None,
        identity: OriginIdentity | None = None,
    ) -> dict[int, Flight]:
        """Let the body that came with a head, if one did, feed the flights of the blocks that are not at hand. Where it
        feeds none (that of a HEAD, or there is no memory now) it is closed: until then it holds a place at the
        origin."""
        if opened is None:
            return {}
        numbers = blocks_touching(opened.span, head.block_size)
        missing = [number for number in numbers if not self._is_available(BlockId(name, head.generation, number))]
        if not missing:
            opened.body.close()
            return {}
        blocks = range(numbers.start, missing[-1] + 1)
        span = Span(opened.span.start, block_span(missing[-1], head.block_size, head.size).stop)
        return self.adopt(Fetch(name, head, Run(blocks, tuple(missing), span), decision.rule, identity), opened)

    def _is_available(self, block: BlockId) -> bool:
        return self.registry.find(block) is not None or self._tiers.has(block)

    def _start(self, fetch: Fetch, opened: ObjectOpened | None) -> dict[int, Flight]:
        flights, started = {}, {}
        for number in fetch.run.missing:
            block, length = BlockId(fetch.name, fetch.head.generation, number), fetch.block_length(number)
            flight = self.registry.find(block)
            if flight is None and (fetch.ignore_tiers or not self._tiers.has(block)):
                flight = started[number] = Flight(block, length, self._released, fetch.identity)
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
        if opened is not None and self._land_at_once(fetch, started, opened):
            return flights
        self._tasks.spawn(self._fetch(fetch, started, opened), name=f"fetch {fetch.name.path}#{fetch.run.blocks.start}")
        return flights

    def _land_at_once(self, fetch: Fetch, started: dict[int, Flight], opened: ObjectOpened) -> bool:
        """Whether the object is one block, and all of it came along with the head: then there is nothing to wait for,
        and nothing for a task to do. Who has its flight from `adopt` follows it before anything else happens."""
        head, flight = fetch.head, started.get(0)
        if flight is None or head.size > head.block_size or opened.source != "origin" or self._object_crc.has_crc(head):
            return False
        if not opened.body.read_if_buffered(flight.unfilled()):
            return False
        self._observe(OriginBytesRead(flight.length, fetch.rule))
        flight.advance(flight.length)
        self._tiers.admit(flight.block, flight.buffer)
        return True

    def _released(self, flight: Flight) -> None:
        self.registry.remove(flight)
        self.budget.release(flight.length)

    async def _fetch(self, fetch: Fetch, flights: dict[int, Flight], opened: ObjectOpened | None) -> None:
        legs = deque(_RunBlock(fetch.block_length(number), flights.get(number)) for number in fetch.run.blocks)
        failure: Exception = OriginBroken("nobody waited for it any more")
        try:
            await self._read(fetch, legs, opened)
        except _ChecksumMismatch as error:
            _log.warning("%s: %s; it is forgotten", fetch.name.path, error.reason)
            self._observe(OriginFailed("GetObject", error.reason))
            await self._tiers.forget(fetch.name)
            failure = error
        except ForebayError as error:
            failure = error
        except Exception as error:
            _log.exception("fetch of %s failed", fetch.name.path)
            failure = OriginBroken(f"{type(error).__name__} while fetching")
        finally:
            for leg in legs:
                if leg.flight is not None:
                    self.registry.remove(leg.flight)
                    leg.flight.fail(failure)
            for flight in flights.values():
                flight.finish()

    async def _read(self, fetch: Fetch, blocks: "deque[_RunBlock]", opened: ObjectOpened | None) -> None:
        """The bytes of the run in order into its flights, each once, across resumptions; ends early when nobody wants
        the rest."""
        position, resumptions = fetch.run.span.start, self._resumptions
        while True:
            try:
                if opened is None:
                    opened = await self._open(fetch, position)
                for leg in blocks:
                    if leg.flight is not None:
                        leg.flight.source = "flight" if opened.source == "origin" else opened.source
                while blocks and _is_wanted(blocks):
                    came = await opened.body.read_into(blocks[0].target())
                    if position + came == opened.span.stop and await opened.body.read_into(memoryview(bytearray(1))):
                        raise OriginBroken("the body is longer than announced")
                    position += came
                    if opened.source == "origin":  # what came by way of its owner, the owner has counted
                        self._observe(OriginBytesRead(came, fetch.rule))
                    self._block_advanced(fetch, came, blocks)
                return
            except (OriginBroken, OriginUnreachable) as error:
                if resumptions == 0 or (opened is None and isinstance(error, OriginUnreachable)):
                    raise  # what could not even be opened has been retried by the origin client
                resumptions -= 1
                _log.info("fetch of %s broke off at byte %d, resuming: %s", fetch.name.path, position, error)
            finally:
                if opened is not None:
                    opened.body.close()  # an adopted answer may go on beyond the run
                opened = None

    async def _open(self, fetch: Fetch, position: int) -> ObjectOpened:
        span = Span(position, fetch.run.span.stop)
        owner = self._peers.owner(fetch.name)
        if owner is not None:
            with suppress(PeerUnavailable):
                return await owner.read(fetch.name, fetch.head, span, fetch.identity)
        version = fetch.head.version
        version_id = version.version_id if fetch.head.by_id else None
        credential = await secret_key_of(fetch.identity)
        answer = await self._reads.open_read(
            fetch.name, span, pin=version, version_id=version_id, credential=credential
        )
        match answer:
            case ObjectOpened() if answer.span == span and answer.facts.size == fetch.head.size:
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

    def _block_advanced(self, fetch: Fetch, count: int, blocks: "deque[_RunBlock]") -> None:
        """So many bytes have been received into the room of the first leg. Raises _NotAsTold before anybody has them,
        if with them the object is whole and another than the origin told of."""
        leg = blocks[0]
        leg.remaining -= count
        flight = leg.flight
        if flight is None:
            if leg.remaining == 0:
                blocks.popleft()
            return
        if leg.remaining == 0 and not self._object_crc.verifies(flight.block, flight.full_buffer(), fetch.head):
            raise _ChecksumMismatch("read is not what was told of (CRC-64)")
        flight.advance(count)
        if leg.remaining == 0:
            blocks.popleft()
            self._tiers.admit(flight.block, flight.buffer)


class _ChecksumMismatch(VersionChanged):
    """What is believed of the object is wrong, or its bytes are: either way it is to be asked for anew."""


@dataclass(slots=True)
class _RunBlock:
    """One block of a run: how much of it is still to come, and whom it feeds (nobody: read through)."""

    remaining: int
    flight: Flight | None

    def target(self) -> memoryview:
        """Where its next bytes go."""
        if self.flight is not None:
            return self.flight.unfilled()
        return memoryview(bytearray(min(self.remaining, _READ_THROUGH)))


def _is_wanted(blocks: "deque[_RunBlock]") -> bool:
    """Whether to go on: somebody wants a block of what is left, or one has been begun."""
    begun = blocks[0].flight is not None and blocks[0].flight.filled > 0
    return begun or any(leg.flight is not None and leg.flight.is_wanted for leg in blocks)
