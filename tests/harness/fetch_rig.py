"""The fetch and metadata rooms over a FakeOrigin, with a clock and a memory budget of the test's own.

When the rig is left, every flight and every buffer must have been released.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from forebay.core.byte_ranges import Span
from forebay.core.fair_semaphore import FairSemaphore
from forebay.core.fences import Fences, InDoubtWrites
from forebay.core.heads import Head
from forebay.core.names import BlockId, ObjectName
from forebay.core.task_registry import TaskRegistry
from forebay.fetch.block_source import BlockSource
from forebay.fetch.fetch_request import FetchRequest, ObjectView
from forebay.fetch.fetcher import Fetcher
from forebay.fetch.flight import FlightRegistry
from forebay.fetch.ordered_body import OrderedBody
from forebay.fetch.paused_readers import PausedReaders
from forebay.fetch.run_source import ThroughputFloor
from forebay.metadata.direct_openings import DirectOpenings
from forebay.metadata.head_replacement import HeadReplacement
from forebay.metadata.lookup_request import LookupRequest
from forebay.metadata.object_checksums import ObjectChecksums
from forebay.metadata.object_heads import ObjectHeads
from forebay.metadata.own_writes import OwnWrites
from forebay.metadata.permissions import Permissions
from forebay.metadata.resolution import ResolvedVersion
from forebay.metadata.resolver import Resolver
from forebay.metadata.shared_lookup import SharedLookups
from forebay.metadata.staged_objects import StagedObjects
from forebay.metadata.version_fetch import VersionFetch
from forebay.origin.origin_limits import OriginLimits
from forebay.origin.reads.hedging import Hedging
from forebay.origin.reads.object_reads import OriginReads
from forebay.peers.owners import Peers
from forebay.policy.coalescing import FetchBounds, Run
from forebay.policy.rules import DEFAULTS, Decision
from forebay.storage.memory.memory_tier import MemoryTier
from forebay.storage.tiers import Tiers
from forebay.write.invalidation import Invalidator
from harness.fake_origin import FakeOrigin
from harness.held_ssd import HeldSsd
from harness.manual_timers import ManualTimers
from harness.origin_client import client_of
from harness.ssd_rig import RecordedEvents

BLOCK = 64 * 1024
NAME = ObjectName("bucket", "key")
DECISION: Decision = replace(DEFAULTS, block=BLOCK)
DEADLINE = 0.0
HEDGE_AFTER = 2.0
MIN_RATE = 64 * 1024


@dataclass
class FetchRig:
    origin: FakeOrigin
    reads: OriginReads
    tiers: Tiers
    budget: FairSemaphore
    heard: RecordedEvents
    tasks: TaskRegistry
    timers: ManualTimers
    """The clock by which the origin is late."""
    peers: Peers
    now: float = 1_800_000_000.0
    pending: set[ObjectName] = field(default_factory=set)
    """Objects with a pending write, as direct openings see them."""

    def __post_init__(self) -> None:
        self.registry = FlightRegistry()
        self.paused = PausedReaders(self.budget, self.timers)
        self.fences, self.in_doubt_writes = Fences(), InDoubtWrites()
        peers = self.peers
        floor = ThroughputFloor(MIN_RATE, self.timers)
        self.fetcher = Fetcher(self.reads, self.tiers, self.registry, self.budget, self.tasks, self.heard, peers, floor)
        self.lookups = SharedLookups(self.tasks)
        self.heads = heads = ObjectHeads(self.tiers, self.fences, self.in_doubt_writes, lambda: self.now)
        self.staged = StagedObjects(self.reads, self.tiers, heads, self.tasks, peers)
        self.checksums = ObjectChecksums(self.reads, heads, self.lookups)
        permissions = Permissions(60.0, self.fences)
        self.invalidator = Invalidator(
            self.fences, self.in_doubt_writes, (self.lookups, self.staged), self.tiers, lambda: self.now
        )
        self.replacement = HeadReplacement(
            heads, self.lookups, self.invalidator.forget_replaced, self.tasks, self.heard
        )
        self.versions = VersionFetch(self.reads, self.fetcher, heads, permissions, self.replacement, peers)
        pending: Any = self.pending
        self.openings = DirectOpenings(
            self.reads,
            self.fetcher,
            heads,
            self.lookups,
            self.replacement,
            self.checksums,
            OwnWrites(self.staged, pending),
            peers,
        )
        self.resolver = Resolver(
            self.versions,
            heads,
            self.lookups,
            permissions,
            self.checksums,
            OwnWrites(self.staged),
            self.replacement,
            self.openings,
        )

    def block_source(self, deadline: float = DEADLINE, runs_of: int = 8, parallel: int = 4) -> BlockSource:
        """`runs_of`: blocks of one ranged GET."""
        bounds = FetchBounds(runs_of * BLOCK, 0, parallel)
        return BlockSource(self.tiers, self.fetcher, bounds, deadline, self.heard, self.paused, deadline)

    def body(self, head: Head, span: Span, source: BlockSource | None = None) -> OrderedBody:
        return OrderedBody(source or self.block_source(), ObjectView(NAME, head, "rule"), span)

    async def head(self) -> Head:
        """Returns the head of the object at the origin; nothing of it is stored."""
        found = await self.resolver.resolve(LookupRequest(NAME, DECISION, None))
        assert isinstance(found, ResolvedVersion)
        await self.tiers.forget(NAME)
        return found.head

    def block(self, head: Head, number: int) -> BlockId:
        return BlockId(NAME, head.generation, number)

    def fetch(self, head: Head, *missing: int, certain: bool = False) -> FetchRequest:
        """Returns a request from the first of the missing blocks to the last. Its budget is acquired."""
        blocks = range(missing[0], missing[-1] + 1)
        span = Span(blocks.start * BLOCK, min(blocks.stop * BLOCK, head.size))
        fetch = FetchRequest(ObjectView(NAME, head, "rule"), Run(blocks, missing, span), certain)
        assert self.budget.try_acquire(fetch.buffer_bytes)
        return fetch


@asynccontextmanager
async def fetch_rig(
    memory: int = 1 << 24,
    buffers: int = 1 << 24,
    ssd: HeldSsd | None = None,
    peers: Peers | None = None,
    heard: RecordedEvents | None = None,
) -> AsyncIterator[FetchRig]:
    """`peers`: None for the only worker of a node. `heard`: an observer of the test's own."""
    below: Any = ssd
    heard, timers, tasks = RecordedEvents() if heard is None else heard, ManualTimers(), TaskRegistry()
    async with FakeOrigin(verify=False) as origin, client_of(origin.endpoint, OriginLimits(), heard) as client:
        tiers = Tiers(MemoryTier(memory, heard), below)
        reads = OriginReads(client, Hedging(client, tasks, HEDGE_AFTER, timers))
        rig = FetchRig(origin, reads, tiers, FairSemaphore(buffers), heard, tasks, timers, peers or Peers())
        yield rig
        await rig.tasks.wait_idle()
        assert len(rig.registry) == 0, rig.registry
        assert not rig.heads.requests
        assert rig.budget.in_use == 0, rig.budget
