"""The fetcher: ranged GETs that feed flights.

    run of neighbouring blocks ──> one ranged GET, pinned to the version (If-Match) ──> flights, block by block
                                                                                                  (fetch.run_reader)

Bytes are received straight into the flights' buffers; followers read them as they arrive. Blocks of the run that are
here already (a gap that is cheaper to read through) are read and dropped.

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
    """The same, with heads."""

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

        What changed while the budget was waited for is heeded: a block that another fetch is reading gives that flight,
        and one that has landed is not fetched again (and not returned).
        """
        return self._start(fetch, None)

    def adopt(self, fetch: FetchRequest, opened: ObjectOpened) -> dict[int, Flight]:
        """Feeds the flights from a response under way, which begins where the run begins.

        The budget is acquired here, if it is free. An open response occupies a slot at the origin, for which others may
        wait that hold memory, so it must not wait for memory itself. With memory for one block only, that one is read.
        Without memory, or with nothing missing any more, the response is closed. Returns what `start` does, to be
        followed at once: a fetch without followers ends.
        """
        if not self.budget.try_reclaim(fetch.buffer_bytes):
            fetch = fetch.first_block()
            if not self.budget.try_reclaim(fetch.buffer_bytes):
                opened.body.close()
                return {}
        return self._start(fetch, opened)

    def adopt_first_blocks(self, view: ObjectView, opened: ObjectOpened) -> dict[int, Flight]:
        """Feeds the flights of the blocks not yet here from the response that came with the head.

        A response that feeds none (to a HEAD, or without memory for it) is closed: until then it occupies a slot at the
        origin.
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
        if opened.span != (0, view.head.facts.size) or not self.lands_unverified(view.head):
            return None
        flight = self.land_whole(view, opened.body.take_whole, is_from_origin=opened.source == "origin")
        if flight is not None and opened.source != "origin":
            flight.source = opened.source
        return flight

    def lands_unverified(self, head: Head) -> bool:
        """Whether no CRC-64 is known that the bytes of a version must have: else they are not landed or kept whole."""
        return not self._object_crc.has_crc(head)

    def land_whole(
        self,
        view: ObjectView,
        body: Callable[[], memoryview | None],
        *,
        is_from_origin: bool = True,
        is_charged: bool = False,
    ) -> Flight | None:
        """Lands an object of one block whose whole body `body` returns, and which `lands_unverified`; None: it did not,
        or has no place. Such a fetch needs no task. The caller follows the flight before anything else runs.
        `is_charged`: its bytes were acquired from the budget, which are the flight's once it has landed."""
        size, block = view.head.facts.size, BlockId(view.name, view.head.generation, 0)
        if not self._lands(view.head, block) or not (is_charged or self.budget.try_reclaim(size)):
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
        """Does the same for one reader alone, who needs no flight to share; returns the bytes. They are the memory
        tier's from then on, or of whoever sends them. `puts_head`: the tiers get the head as well, whatever comes of
        the bytes."""
        name, head = view.name, view.head
        size, block = head.facts.size, BlockId(name, head.generation, 0)
        whole = body() if self._lands(head, block) else None
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

    def _lands(self, head: Head, block: BlockId) -> bool:
        """Whether an object is one block, of which there are no other bytes here."""
        if head.facts.size > head.block_size:
            return False
        # A block that only the SSD has lands all the same: its bytes are here, and its writer knows those that it has.
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
