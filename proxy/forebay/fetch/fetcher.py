"""The fetcher: ranged GETs that feed flights.

    run of neighbouring blocks ──> one ranged GET, pinned to the version (If-Match) ──> flights, block by block
                                                                                                  (fetch.run_reader)

Bytes are received straight into the flights' buffers; followers read them as they arrive. Cached blocks within the run
(a gap that is cheaper to read through) are read and dropped.

An object that another worker owns is fetched from that worker, in the same way and under the same pin (peers.owners).

A fetch belongs to the task registry, not to the reader that caused it. It ends when none of its blocks is wanted.

The caller has acquired the memory budget of each missing block; it is released with the flight (fetch.flight).
"""

import logging
from collections.abc import Callable
from typing import Protocol

from forebay.core.buffers import Buffer
from forebay.core.byte_ranges import Span, blocks_touching
from forebay.core.errors import ForebayError, OriginBroken
from forebay.core.events import BlockFetched, FlightStarted, Observe, OriginBytesRead, OriginFailed
from forebay.core.fair_semaphore import FairSemaphore
from forebay.core.heads import Head
from forebay.core.names import BlockId, ObjectName
from forebay.core.task_registry import TaskRegistry
from forebay.fetch.fetch_request import FetchRequest, ObjectView
from forebay.fetch.flight import Flight, FlightRegistry, in_slot
from forebay.fetch.object_crc import ObjectCrc
from forebay.fetch.run_reader import ChecksumMismatch, RunReader
from forebay.fetch.run_source import BlockStore, RunSource, ThroughputFloor
from forebay.origin.reads.object_reads import ObjectReads
from forebay.origin.reads.read_outcomes import ObjectOpened
from forebay.peers.owners import Peers
from forebay.policy.coalescing import Run

_log = logging.getLogger(__name__)


class ObjectStore(BlockStore, Protocol):
    """A BlockStore that keeps heads as well."""

    def put_head(self, name: ObjectName, head: Head) -> None:
        """Stores a head."""

    def put_object(self, name: ObjectName, head: Head, block: BlockId, buffer: Buffer) -> None:
        """Stores a head and the only block of its object."""


class Fetcher:
    """Starts fetches and owns them until they end."""

    def __init__(
        self,
        reads: ObjectReads,
        tiers: ObjectStore,
        registry: FlightRegistry,
        budget: FairSemaphore,
        tasks: TaskRegistry,
        observe: Observe,
        peers: Peers,
        floor: ThroughputFloor,
    ) -> None:
        """`budget`: bytes of buffers; `floor`: for responses of the origin."""
        self._tiers = tiers
        self.registry = registry
        self.budget = budget
        self._tasks = tasks
        self._observe = observe
        self._object_crc = ObjectCrc()
        self._source = RunSource(reads, tiers, peers, tasks, observe, floor, self._object_crc)

    def start(self, fetch: FetchRequest) -> dict[int, Flight]:
        """Starts a fetch whose budget is acquired. Returns the flights of its missing blocks by number.

        While the caller waited for the budget, another fetch may have begun: of a block that is being read, its flight
        is returned; a block that has landed is neither fetched again nor returned.
        """
        return self._start(fetch, None)

    def adopt(self, fetch: FetchRequest, opened: ObjectOpened) -> dict[int, Flight]:
        """Feeds the flights from a response under way, which begins where the run begins.

        The budget is acquired here, if it is free. It must not be waited for: an open response occupies a turn at the
        origin, and those that wait for turns may hold memory. With memory for one block only, that one is read. Without
        memory, or with nothing missing any more, the response is closed. Returns what `start` does, to be followed at
        once: a fetch without followers ends.
        """
        if not self.budget.try_reclaim(fetch.buffer_bytes):
            fetch = fetch.first_block()
            if not self.budget.try_reclaim(fetch.buffer_bytes):
                opened.body.close()
                return {}
        return self._start(fetch, opened)

    def adopt_first_blocks(self, view: ObjectView, opened: ObjectOpened) -> dict[int, Flight]:
        """Feeds the flights of the blocks not yet here from the response that came with the head.

        A response that feeds none (to a HEAD, or without memory for it) is closed, as it occupies a turn at the origin.
        """
        landed = self._land_at_once(view, opened)
        if landed is not None:
            return {0: landed}
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
        self._tasks.spawn(self._fetch(fetch, started, opened), name=f"fetch {view.name.path}#{fetch.run.blocks.start}")
        return flights

    def _land_at_once(self, view: ObjectView, opened: ObjectOpened) -> Flight | None:
        if opened.span != (0, view.head.facts.size) or not self.may_land_whole(view.head):
            return None
        flight = self.land_whole(view, opened.body.take_whole, is_from_origin=opened.source == "origin")
        if flight is not None and opened.source != "origin":
            flight.source = opened.source
        return flight

    def may_land_whole(self, head: Head) -> bool:
        """Whether a body may be landed or kept whole: there is no CRC-64 of the version to compare it with first."""
        return not self._object_crc.has_crc(head)

    def land_whole(
        self,
        view: ObjectView,
        body: Callable[[], memoryview | None],
        *,
        is_from_origin: bool = True,
        is_charged: bool = False,
    ) -> Flight | None:
        """Lands an object of one block, without a task. Returns its flight, which the caller follows before anything
        else runs; None if `body` returns no whole body, or there is no memory for it.

        The version `may_land_whole`, or its owner has sent the bytes. `is_charged`: they were acquired from the budget;
        the flight releases them.
        """
        size, block = view.head.facts.size, BlockId(view.name, view.head.generation, 0)
        if not self._is_single_new_block(view.head, block) or not (is_charged or self.budget.try_reclaim(size)):
            return None
        whole = body()
        if whole is None:
            if not is_charged:
                self.budget.release(size)
            return None
        flight = Flight(block, size, self._release, view.identity)
        flight.land(whole)
        self.registry.add((flight,))
        try:
            self._observe(FlightStarted(1))
            if is_from_origin:  # else its owner has counted it
                self._observe(OriginBytesRead(size, view.rule))
            self._tiers.admit(block, flight.buffer)
        except BaseException:
            flight.finish()  # nobody follows it
            raise
        return flight

    def keep_whole(
        self,
        view: ObjectView,
        body: Callable[[], memoryview | None],
        *,
        is_from_origin: bool = True,
        puts_head: bool = False,
    ) -> Buffer | None:
        """Does what `land_whole` does for a single reader, without a flight. Returns the bytes, which belong to the
        memory tier from then on, or to whoever sends them. `puts_head`: the head is stored as well, also where None is
        returned."""
        name, head = view.name, view.head
        size, block = head.facts.size, BlockId(name, head.generation, 0)
        whole = body() if self._is_single_new_block(head, block) else None
        if whole is None:
            if puts_head:
                self._tiers.put_head(name, head)
            return None
        buffer = in_slot(whole).toreadonly()
        self._observe(BlockFetched(size if is_from_origin else 0, view.rule))
        if puts_head:
            self._tiers.put_object(name, head, block, buffer)
        else:
            self._tiers.admit(block, buffer)
        return buffer

    def _is_single_new_block(self, head: Head, block: BlockId) -> bool:
        """Whether an object is one block, which is neither in flight nor in memory. A block that only the SSD has
        counts as new: its bytes have arrived anyway, and the SSD's writer skips blocks that it has."""
        if head.facts.size > head.block_size:
            return False
        return self.registry.find(block) is None and not self._tiers.has_in_memory(block)

    def _release(self, flight: Flight) -> None:
        self.registry.remove(flight)
        self.budget.release(flight.length)

    async def _fetch(self, fetch: FetchRequest, flights: dict[int, Flight], opened: ObjectOpened | None) -> None:
        name, reader = fetch.view.name, RunReader(self._source, fetch, flights)
        failure: Exception = OriginBroken("the fetch ended without followers")
        try:
            await reader.read(opened)
        except ChecksumMismatch as error:
            _log.warning("%s: %s; the object is forgotten", name.path, error.reason)
            self._observe(OriginFailed("GetObject", error.reason, self._source.reads.origin_of(name.bucket)))
            await self._tiers.forget(name)
            failure = error
        except ForebayError as error:
            failure = error
        except Exception as error:
            _log.exception("fetch of %s failed", name.path)
            failure = OriginBroken(f"{type(error).__name__} while fetching")
        finally:
            for flight in reader.fail(failure):
                self.registry.remove(flight)
            for flight in flights.values():
                flight.finish()
