"""The composition root: every part of one worker, made once and given its parts.

Reads from the bottom up, room by room, each part after those that it uses. No module below makes parts of other rooms.

    origin ──> storage ──> fetch ──> metadata ──> write ──> request ──> jobs, peers          compose
                                                     └──> fast lane, request service          connection_services

Where a part needs to know what another one does later it gets a function: `observe` (metrics), `clock`, and the policy
in force, which a reload replaces (`gateway.policy`).
"""

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from aiohttp import http_parser

from forebay.core.events import OwnerMissed
from forebay.core.fair_semaphore import FairSemaphore, SemaphoreShare
from forebay.core.fences import Fences, InDoubtWrites
from forebay.core.names import ObjectName
from forebay.core.read_stream import ReadStream
from forebay.core.task_registry import TaskRegistry
from forebay.core.timers import Timers
from forebay.datasets.data_sets import DataSets
from forebay.datasets.read_counts import ReadCounts
from forebay.fetch.fetcher import Fetcher
from forebay.fetch.flight import FlightRegistry
from forebay.fetch.ordered_body import BlockSource
from forebay.fetch.paused_readers import PausedReaders
from forebay.fetch.run_reader import ThroughputFloor
from forebay.jobs.cache_residency import CacheResidency
from forebay.jobs.head_hints import HeadHints
from forebay.jobs.job_store import JobStore
from forebay.jobs.node_prefetcher import NodePrefetcher
from forebay.jobs.object_warmer import ObjectWarmer
from forebay.jobs.packing.pack_services import PackServices
from forebay.jobs.pin_registry import PinRegistry
from forebay.jobs.plans.node_plans import NodePlans
from forebay.jobs.plans.plan_coordinator import PlanCoordinator
from forebay.jobs.plans.plan_resource import PlanResource
from forebay.jobs.plans.plan_store import PlanStore
from forebay.jobs.prefetcher import Prefetcher
from forebay.jobs.read_ahead import ReadAhead
from forebay.jobs.recordings.kept_recordings import KeptRecordings
from forebay.jobs.recordings.recording_access import RecordingAccess
from forebay.jobs.recordings.recording_resource import RecordingResource
from forebay.jobs.warm_resource import WarmResource
from forebay.jobs.warm_up import WarmUps
from forebay.jobs.warm_up_run import WarmUpServices
from forebay.metadata.head_replacement import HeadReplacement
from forebay.metadata.listed_heads import ListedHeads
from forebay.metadata.object_checksums import ObjectChecksums
from forebay.metadata.object_heads import ObjectHeads
from forebay.metadata.packed_objects import PackedObjects
from forebay.metadata.peer_hints import PeerHints
from forebay.metadata.permissions import Permissions
from forebay.metadata.resolver import Resolver
from forebay.metadata.shared_lookup import SharedLookups
from forebay.metadata.staged_objects import StagedObjects
from forebay.namespace.listings import Listings
from forebay.namespace.namespace_owners import NodeListings
from forebay.namespace.origin_pages import OriginPages
from forebay.namespace.packs.pack_catalogue import PackCatalogue
from forebay.namespace.packs.packed_pages import PackedPages
from forebay.namespace.pending_entries import PendingEntries
from forebay.namespace.pending_pages import PendingPages
from forebay.origin.origins import Origins
from forebay.peers.node_reads import NodeReads
from forebay.peers.owners import Peers
from forebay.policy.coalescing import FetchBounds
from forebay.policy.origin_routes import routes_of
from forebay.policy.pools import Pool
from forebay.protocol.channel_frames import SLOT_UNIT
from forebay.request.admission import GatewayPolicy
from forebay.request.batch.batch_reader import BatchReader
from forebay.request.batch.batch_run import BatchServices
from forebay.request.batch.cached_entries import CachedEntries
from forebay.request.bucket_cors import BucketCors
from forebay.request.flush_resource import FlushResource
from forebay.request.forwarded_reads import ForwardedReads
from forebay.request.gateway import Gateway
from forebay.request.listing_read import ListingReader
from forebay.request.object_read import ObjectReader
from forebay.request.oss_frontend import OssFrontend
from forebay.request.reader_policy import PolicyInForce
from forebay.request.resource_router import ResourceRouter
from forebay.request.resource_uploads import ResourceUploads
from forebay.request.verified_bodies import VerifiedBodies
from forebay.request.write_resource import WriteResource
from forebay.server.admin.data_set_rows import data_set_rows
from forebay.server.data_set_resource import DataSetResource
from forebay.server.fastpath.fast_lane import FastLane, HitSources, HitTelemetry
from forebay.server.gateway_policy import gateway_policy
from forebay.server.http.client_connection import ConnectionServices
from forebay.server.http.connection_limits import ConnectionLimits
from forebay.server.http.request_service import RequestService
from forebay.server.http.sendfile_writer import SendQueue
from forebay.server.origin_composition import compose_origins
from forebay.server.recording_parts import compose_recordings
from forebay.server.resource_limits import usable_connections
from forebay.server.rpc.peer_service import PeerService
from forebay.server.shared_memory.client_memory import ClientMemory
from forebay.server.shared_memory.read_channel import ChannelServices
from forebay.server.ssd_attachment import SsdAttachment
from forebay.server.telemetry.access_log import AccessLog
from forebay.server.telemetry.metrics import Metrics
from forebay.server.write_back_parts import compose_write_back, open_journal
from forebay.settings.model import LimitSettings, Settings
from forebay.storage.cache_origin import CacheOrigins, all_ids, cache_origins, origin_fingerprint, routes_fingerprint
from forebay.storage.journal.journal_files import JournalFiles
from forebay.storage.memory.memory_tier import MemoryTier
from forebay.storage.pin_file import PinFile
from forebay.storage.run_record import NodeRun, begin_run
from forebay.storage.spool import Spool
from forebay.storage.tiers import Tiers
from forebay.write.back.node_backlog import NodeBacklog
from forebay.write.back.write_back import WriteBack
from forebay.write.body_digest import WrittenDigests
from forebay.write.forwarder import Forwarder
from forebay.write.invalidation import Invalidator
from forebay.write.length_spooler import LengthSpooler
from forebay.write.multipart.multipart_registry import MultipartRegistry
from forebay.write.multipart.part_coalescer import PartCoalescer
from forebay.write.object_write import DOCUMENT_LIMIT, ObjectWriter
from forebay.write.tracked_write import WriteTracker
from forebay.write.warm_on_write import WarmOnWrite

_log = logging.getLogger(__name__)

BUFFER_WAIT = 10.0
"""Seconds that a reader waits for a buffer before it is answered SlowDown: less than any SDK's timeout."""

SPOOL_SHARE = 4
"""A spool may hold one in so many bytes of the buffers for long; further bodies go to files."""

PEER_BUFFER_WAIT = 1.0
"""The same for another worker, which holds buffers of its own meanwhile: two workers must not wait for each other's. It
asks the origin itself then."""

UNSENT_SHARE = 2
"""One in so many bytes of the buffers may wait for slow clients that can't be made to give it back."""

BATCH_SHARE = 4
"""One in so many bytes of the buffers may be held by batches, for entries that wait for their turn."""

STRICT_CHUNKS = http_parser.HttpRequestParser is not http_parser.HttpRequestParserPy
"""Whether aiohttp parses chunked framing strictly. Its parser in Python accepts control characters in chunk extensions,
which other parsers may read otherwise: where it is in use, an S3 request has to announce the length of its body."""


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts of a running worker that are run, resized or inspected from outside."""

    metrics: Metrics
    tasks: TaskRegistry
    origins: Origins
    tiers: Tiers
    ssd: SsdAttachment | None
    """None: no SSD tier is configured."""
    budget: FairSemaphore
    rings: FairSemaphore
    """The bytes of memory that clients on the Unix socket share."""
    spool: Spool
    upload_starts: Spool
    """What was read ahead of uploads. By itself, so that uploads that drip take no space from bodies that must be
    spooled."""
    uploads: MultipartRegistry
    flights: FlightRegistry
    resolver: Resolver
    invalidator: Invalidator
    listings: Listings
    catalogue: PackCatalogue
    listing_permissions: Permissions
    policy: GatewayPolicy
    gateway: Gateway
    warm_ups: WarmUps
    peers: Peers
    node_reads: NodeReads
    """The reads of all workers, for whoever subscribes."""
    prefetcher: Prefetcher
    """Of this worker; `ahead` fetches in whichever worker owns the object."""
    ahead: NodePrefetcher
    read_ahead: ReadAhead
    data_sets: DataSets
    read_counts: ReadCounts
    data_set_resource: DataSetResource
    plans: NodePlans
    plan_resource: PlanResource
    pins: PinRegistry
    recordings: RecordingAccess
    kept_recordings: KeptRecordings | None
    """None: another worker collects the reads of the node, and keeps what was recorded of them."""
    peer_service: PeerService
    write_back: WriteBack | None
    """None: no journal is configured."""
    backlog: NodeBacklog | None
    """Likewise."""


@dataclass(frozen=True, slots=True)
class WorkerGroup:
    """The workers of one node, as one of them sees them."""

    name: str
    """Workers with the same name share the directory of the SSD tier."""
    peers: Peers


def compose(
    settings: Settings,
    metrics: Metrics,
    clock: Callable[[], float] = time.time,
    buffer_wait: float = BUFFER_WAIT,
    group: WorkerGroup | None = None,
    timers: Timers | None = None,
    run: NodeRun | None = None,
    journal_files: JournalFiles | None = None,
) -> Parts:
    """Make the parts, inside the loop that will serve. Raises SettingsError for an impossible endpoint.

    `clock`: seconds since the epoch; freshness is judged by it. `buffer_wait`: see BUFFER_WAIT. `group`: the other
    workers of the node, None if there are none; `settings` are then this worker's share (settings.worker_share).
    `timers`: of late responses of the origin, of slow clients and of batches of reads; None: the loop. `run`: of the
    node; None: nothing is known of earlier ones. `journal_files`: the system calls of the journal, None for the real
    ones.
    """
    observe = metrics.observe
    tasks = TaskRegistry()
    peers = group.peers if group is not None else Peers()
    peers.on_owner_missed = lambda: observe(OwnerMissed())

    # origin
    timers = timers if timers is not None else asyncio.get_running_loop()
    routes = routes_of(settings)
    origins = compose_origins(settings, routes, observe, timers, tasks)

    # storage
    def pool_of(name: ObjectName) -> Pool | None:
        return gateway.policy.rules.pool(name)

    journal, pending = open_journal(settings, group.name if group is not None else None, metrics, journal_files)
    tiers = Tiers(MemoryTier(settings.memory.size, observe), None, peers.owns, pool_of, pending)
    tiers.memory.ahead.budget.resize(settings.memory.ahead)
    pins = PinRegistry(
        PinFile(_pin_path(settings)),
        tiers,
        origins.list_objects,
        lambda: gateway.policy.rules,
        clock,
        settings.ssd.pin_quota if settings.ssd is not None else None,
    )
    ssd = None
    if settings.ssd is not None:
        cached = CacheOrigins(cache_origins(settings), routes.position_of, routes_fingerprint(settings))
        ssd = SsdAttachment(
            tiers,
            settings.ssd,
            cached,
            run or begin_run(None, *cached.origins),
            observe,
            family=group.name if group is not None else None,
            clock=clock,
        )
        ssd.attach_at_start()
    budget = FairSemaphore(settings.memory.buffers)
    spool = _spool(settings.limits, budget, buffer_wait)
    upload_starts = _spool(settings.limits, budget, buffer_wait)

    # fetch
    bounds = FetchBounds(settings.fetch.max_run, settings.fetch.gap, settings.fetch.parallel)
    flights = FlightRegistry()
    floor = ThroughputFloor(settings.fetch.min_rate, timers)
    fetcher = Fetcher(origins, tiers, flights, budget, tasks, observe, peers, floor)
    paused = PausedReaders(budget, timers)
    block_source = BlockSource(tiers, fetcher, bounds, buffer_wait, observe, paused)

    # metadata
    fences, in_doubt_writes = Fences(), InDoubtWrites()
    digests, hints = WrittenDigests(peers), PeerHints(tiers)
    heads = ObjectHeads(tiers, fences, in_doubt_writes, clock, digests.add_crc)
    lookups = SharedLookups(tasks)
    permissions = Permissions(settings.auth.authorization_ttl, fences)
    checksums = ObjectChecksums(origins, heads, lookups)
    staged = StagedObjects(origins, tiers, heads, tasks, peers)
    cors = BucketCors(origins, tasks)
    pages: OriginPages = OriginPages(origins)
    pending_entries = PendingEntries(pending)
    catalogue = PackCatalogue(pages, origins, fences, tasks, observe, clock, _snapshot_directory(settings))
    pages = PackedPages(pages, catalogue, lambda: gateway.policy.rules)
    listings = Listings(
        pages,
        fences,
        in_doubt_writes,
        tasks,
        observe,
        clock,
        lambda: gateway.policy.rules.listings,
        _snapshot_directory(settings),
        settings.limits.listings,
        pending=pending_entries,
    )
    node_listings = NodeListings(listings, peers)
    invalidator = Invalidator(
        fences,
        in_doubt_writes,
        (lookups, staged, cors, listings, catalogue),
        tiers,
        clock,
        peers,
        shared=settings.ssd is not None,
    )
    replacement = HeadReplacement(heads, invalidator.forget_replaced, tasks, observe)
    listed_heads = ListedHeads(node_listings, heads, replacement, observe)
    listings.on_snapshot = lambda old, new: tasks.spawn(listed_heads.compare(old, new), f"compare {new.bucket}")
    resolver = Resolver(
        origins, fetcher, heads, lookups, permissions, checksums, staged, replacement, peers, listed_heads, pending
    )
    packed = PackedObjects(resolver, catalogue, lambda: gateway.policy.rules)

    # write
    forwarder = Forwarder(origins, upload_starts, settings.limits.request_body)
    uploads = MultipartRegistry(peers, time.monotonic, settings.limits.held_idle)
    coalescer = PartCoalescer(origins, spool, uploads)
    warm_on_write = WarmOnWrite(tiers, budget, staged, uploads, tasks)
    tracker = WriteTracker(digests, uploads, coalescer, warm_on_write)
    write_back = compose_write_back(
        settings,
        journal,
        pending,
        routes,
        origins,
        forwarder,
        invalidator,
        tiers,
        heads,
        staged,
        tasks,
        peers,
        lambda: gateway.policy.rules,
        clock,
        metrics,
    )
    writer = ObjectWriter(forwarder, invalidator, tracker, tasks, write_back, packed)
    length_spooler = LengthSpooler(spool, settings.limits.request_body, DOCUMENT_LIMIT)

    # request
    policy = gateway_policy(settings)
    front = OssFrontend(origins, forwarder, length_spooler, uploads)
    read_stream = ReadStream(timers, peers.number)
    node_reads = NodeReads(
        read_stream,
        peers,
        timers,
        tasks.spawn,
        lambda dropped: metrics.count("forebay_reads_dropped_total", by=dropped),
    )
    reader = ObjectReader(resolver, block_source, read_stream, packed)
    forwarded_reads = ForwardedReads(origins, front)
    spooler = length_spooler if STRICT_CHUNKS else None
    listing_permissions = Permissions(settings.auth.authorization_ttl, fences)
    pending_pages = PendingPages(pages, pending_entries)
    listing_reader = ListingReader(node_listings, origins, listing_permissions, fences, clock, pending_pages)
    resources = ResourceRouter({}, ResourceUploads(uploads, spool), spooler)
    cached_entries, batch_share = CachedEntries(resolver, tiers, read_stream), SemaphoreShare(budget, BATCH_SHARE)
    batches = BatchReader(BatchServices(cached_entries, batch_share, tasks, observe), VerifiedBodies(spooler))
    gateway = Gateway(
        policy, reader, forwarded_reads, writer, front, resources, batches, spooler, cors, listing_reader, write_back
    )

    # data sets
    data_sets = DataSets(timers.time)
    read_counts = ReadCounts(
        read_stream,
        data_sets,
        peers,
        tasks.spawn,
        lambda name: gateway.policy.rules.decide(name).block,
        timers.time,
    )
    read_counts.apply_rules(policy.rules.data_sets)

    # jobs, and what other workers ask of this one
    warmer = ObjectWarmer(packed, block_source, origins.background, lambda: gateway.policy.rules, peers)
    warm_ups = WarmUps(
        WarmUpServices(
            origins.list_objects,
            warmer,
            CacheResidency(tiers, peers),
            timers,
            lambda bucket: origins.of(bucket).breaker.reachable is not False,
            lambda result: metrics.count("forebay_warm_objects_total", result),
            PackServices(origins, invalidator, tasks, budget, clock, catalogue.directory),
        ),
        tasks,
        clock,
        _job_store(settings),
    )
    prefetcher = Prefetcher(
        packed,
        block_source,
        origins.background,
        lambda: gateway.policy.rules,
        timers,
        lambda result, size: metrics.count("forebay_ahead_bytes_total", result, by=size),
    )
    ahead = NodePrefetcher(prefetcher, peers)
    plan_store = PlanStore(_plan_directory(settings, run))

    def count_entries(result: str, number: int) -> None:
        metrics.count("forebay_plan_entries_total", result, by=number)

    plan_coordinator = PlanCoordinator(
        plan_store,
        ahead,
        node_reads,
        lambda: gateway.policy,
        lambda: tiers.memory.ahead.budget.capacity * peers.workers,
        timers,
        tasks,
        clock,
        count_entries,
    )
    plans = NodePlans(plan_store, plan_coordinator, peers)
    plan_resource = PlanResource(plans, clock, count_entries)
    resources.by_kind["plans"] = plan_resource
    data_set_resource = DataSetResource(
        lambda: data_set_rows(data_sets.states(), gateway.policy.rules, tiers, pins.states(), plan_coordinator.plans()),
        peers,
        lambda: gateway.policy.rules,
        clock,
    )
    resources.by_kind["datasets"] = data_set_resource
    resources.by_kind["warm"] = WarmResource(warm_ups)
    kept_recordings, recordings = compose_recordings(
        settings,
        node_reads,
        peers,
        PolicyInForce(lambda: gateway.policy),
        plan_coordinator,
        tasks,
        clock,
        metrics,
    )
    resources.by_kind["recordings"] = RecordingResource(recordings, spool)
    backlog = NodeBacklog(write_back, peers) if write_back is not None else None
    if backlog is not None:
        resources.by_kind["writes"] = WriteResource(backlog)
        resources.by_kind["flush"] = FlushResource(backlog)
    head_hints = HeadHints(warmer, tasks.spawn)
    reader.on_head_hint = head_hints.add
    read_ahead = ReadAhead(node_reads, ahead, origins.list_objects, lambda: gateway.policy, tasks.spawn, timers)
    read_ahead.use_policy()
    peer_service = PeerService(
        resolver,
        hints,
        staged,
        replace(block_source, buffer_timeout=PEER_BUFFER_WAIT, started_timeout=PEER_BUFFER_WAIT),
        invalidator,
        in_doubt_writes,
        warmer,
        tracker,
        listings,
        catalogue,
        node_reads,
        prefetcher,
        data_sets,
        data_set_resource,
        plans,
        kept_recordings.local if kept_recordings is not None else None,
        lambda: gateway.policy,
        clock,
        write_back,
        backlog,
    )
    return Parts(
        metrics=metrics,
        tasks=tasks,
        origins=origins,
        tiers=tiers,
        ssd=ssd,
        budget=budget,
        rings=FairSemaphore(settings.memory.rings),
        spool=spool,
        upload_starts=upload_starts,
        uploads=uploads,
        flights=flights,
        resolver=resolver,
        invalidator=invalidator,
        listings=listings,
        catalogue=catalogue,
        listing_permissions=listing_permissions,
        policy=policy,
        gateway=gateway,
        warm_ups=warm_ups,
        peers=peers,
        node_reads=node_reads,
        prefetcher=prefetcher,
        ahead=ahead,
        read_ahead=read_ahead,
        data_sets=data_sets,
        read_counts=read_counts,
        data_set_resource=data_set_resource,
        plans=plans,
        plan_resource=plan_resource,
        pins=pins,
        recordings=recordings,
        kept_recordings=kept_recordings,
        peer_service=peer_service,
        write_back=write_back,
        backlog=backlog,
    )


def connection_services(
    settings: Settings, parts: Parts, access_log: AccessLog | None, timers: Timers
) -> ConnectionServices:
    """The services that every connection of a worker's listener works with. `access_log`: None for none."""
    limits = settings.limits
    allowed = ConnectionLimits(
        header_size=limits.header_size,
        connections=usable_connections(settings),
        requests=limits.requests,
        header_timeout=limits.header_timeout,
        idle_timeout=limits.idle_timeout,
        stall=limits.body_timeout,
    )
    unsent = SemaphoreShare(parts.budget, UNSENT_SHARE)
    sources = HitSources(parts.resolver, parts.tiers, unsent)
    fast_lane = FastLane(parts.gateway, sources, HitTelemetry(parts.metrics, access_log))
    requests = RequestService(
        parts.gateway, parts.metrics, access_log, allowed, timers, fast_lane, settings.server.socket
    )
    send_queue = SendQueue(asyncio.get_running_loop())
    return ConnectionServices(requests, allowed, timers, unsent, send_queue)


def socket_services(settings: Settings, parts: Parts, services: ConnectionServices, timers: Timers) -> ChannelServices:
    """The services that every channel of the worker's Unix socket works with, beside those of its connections."""
    count = parts.metrics.count
    memory = ClientMemory(
        parts.rings,
        settings.memory.ring // SLOT_UNIT * SLOT_UNIT,
        lambda: parts.tiers.memory.occupancy().capacity,
        timers,
        lambda form: count("forebay_socket_reads_total", form),
    )
    return ChannelServices(
        services.requests,
        services.limits,
        timers,
        services.unsent,
        services.send_queue,
        memory,
        lambda: parts.gateway.policy,
    )


def _job_store(settings: Settings) -> JobStore | None:
    if settings.server.state_dir is None:
        return None
    return JobStore(Path(settings.server.state_dir) / f"jobs-{origin_fingerprint(all_ids(settings))}")


def _pin_path(settings: Settings) -> Path | None:
    """Where pins are kept: with the state of the node, else beside the SSD tier, without which there are none."""
    directory = settings.server.state_dir or (settings.ssd.path if settings.ssd is not None else None)
    return Path(directory) / f"pins-{origin_fingerprint(all_ids(settings))}.json" if directory is not None else None


def _snapshot_directory(settings: Settings) -> Path | None:
    """Where snapshots of namespaces are: beside the SSD tier, else with the state of the node."""
    directory = settings.ssd.path if settings.ssd is not None else settings.server.state_dir
    return Path(directory) / "listings" if directory is not None else None


def _plan_directory(settings: Settings, run: NodeRun | None) -> Path | None:
    """Where plans are kept, beside the run record: those of one origin and one address, so that two Forebays on a
    machine run each their own. None: there is no state directory."""
    if run is None or not run.records:
        return None
    address = settings.server.listen
    fingerprint = origin_fingerprint(f"{all_ids(settings)} {address.host}:{address.port}")
    return Path(run.records[0]).parent / f"plans-{fingerprint}"


def _spool(settings: LimitSettings, budget: FairSemaphore, wait: float) -> Spool:
    parent = Path(settings.held_path) if settings.held_path is not None else None
    return Spool(settings.held, budget, share=budget.capacity // SPOOL_SHARE, wait=wait, parent=parent)
