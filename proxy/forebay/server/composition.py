"""The composition root: every part of one worker, made once and given its parts.

Each room's parts are made by a function of server/parts, after those that it uses. No module below makes parts of other
rooms.

    origin ──> storage ──> fetch ──> namespaces ──> metadata ──> writes ──> requests ──> jobs ──> peers      compose
                                                                               └──> listener, Unix socket
                                                                                    parts/connection_parts.py

Where a part needs to know what another one does later it gets a function: `observe` (metrics), `clock`, and the policy
in force, which a reload replaces (`gateway.policy`).
"""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass

from forebay.core.events import OwnerMissed
from forebay.core.fair_semaphore import FairSemaphore
from forebay.core.task_registry import TaskRegistry
from forebay.core.timers import Timers
from forebay.datasets.data_sets import DataSets
from forebay.datasets.read_counts import ReadCounts
from forebay.fetch.flight import FlightRegistry
from forebay.jobs.node_prefetcher import NodePrefetcher
from forebay.jobs.pin_registry import PinRegistry
from forebay.jobs.plans.node_plans import NodePlans
from forebay.jobs.plans.plan_resource import PlanResource
from forebay.jobs.prefetcher import Prefetcher
from forebay.jobs.read_ahead import ReadAhead
from forebay.jobs.recordings.kept_recordings import KeptRecordings
from forebay.jobs.recordings.recording_access import RecordingAccess
from forebay.jobs.warm_up import WarmUps
from forebay.metadata.direct_openings import DirectOpenings
from forebay.metadata.permissions import Permissions
from forebay.metadata.resolver import Resolver
from forebay.namespace.listings import Listings
from forebay.namespace.packs.pack_catalogue import PackCatalogue
from forebay.origin.body_turns import BodyTurns
from forebay.origin.origins import Origins
from forebay.peers.node_reads import NodeReads
from forebay.peers.owners import Peers
from forebay.policy.origin_routes import routes_of
from forebay.request.admission import GatewayPolicy
from forebay.request.gateway import Gateway
from forebay.server.data_set_resource import DataSetResource
from forebay.server.parts.fetch_parts import compose_fetch
from forebay.server.parts.job_parts import compose_jobs
from forebay.server.parts.metadata_parts import compose_metadata
from forebay.server.parts.namespace_parts import compose_namespaces
from forebay.server.parts.origin_parts import compose_origins
from forebay.server.parts.peer_parts import compose_peer_service
from forebay.server.parts.request_parts import compose_requests
from forebay.server.parts.storage_parts import compose_storage, open_journal
from forebay.server.parts.worker_context import WorkerContext
from forebay.server.parts.write_parts import compose_writes
from forebay.server.rpc.peer_service import PeerService
from forebay.server.ssd_attachment import SsdAttachment
from forebay.server.telemetry.metrics import Metrics
from forebay.settings.model import Settings
from forebay.storage.journal.journal_files import JournalFiles
from forebay.storage.run_record import NodeRun
from forebay.storage.spool import Spool
from forebay.storage.tiers import Tiers
from forebay.write.back.node_backlog import NodeBacklog
from forebay.write.back.write_back import WriteBack
from forebay.write.invalidation import Invalidator
from forebay.write.multipart.multipart_registry import MultipartRegistry

BUFFER_WAIT = 10.0
"""Seconds that a reader waits for a buffer before it is answered SlowDown: less than any SDK's timeout."""


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts of a running worker that are run, resized or inspected from outside."""

    metrics: Metrics
    tasks: TaskRegistry
    origins: Origins
    body_turns: BodyTurns
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
    openings: DirectOpenings
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
    """Make the parts, inside the loop that will serve. Raises SettingsError for an impossible endpoint,
    JournalUnusable.

    `clock`: seconds since the epoch; freshness is judged by it. `buffer_wait`: see BUFFER_WAIT. `group`: the other
    workers of the node, None if there are none; `settings` are then this worker's share (settings.worker_share).
    `timers`: of late responses of the origin, of slow clients and of batches of reads; None: the loop. `run`: of the
    node; None: nothing is known of earlier ones. `journal_files`: the system calls of the journal, None for the real
    ones.
    """
    peers = group.peers if group is not None else Peers()
    peers.on_owner_missed = lambda: metrics.observe(OwnerMissed())
    timers = timers if timers is not None else asyncio.get_running_loop()
    context = WorkerContext(
        settings=settings,
        metrics=metrics,
        peers=peers,
        family=group.name if group is not None else None,
        run=run,
        policy=lambda: gateway.policy,
        rules=lambda: gateway.policy.rules,
        clock=clock,
        timers=timers,
        body_turns=BodyTurns(timers),
        buffer_wait=buffer_wait,
    )
    journal = open_journal(context, journal_files)  # first, as it may refuse the start: nothing else is open yet
    routes = routes_of(settings)
    origins = compose_origins(context, routes)
    storage = compose_storage(context, routes, origins, journal)
    fetch = compose_fetch(context, origins, storage)
    namespaces = compose_namespaces(context, origins, storage.pending)
    metadata = compose_metadata(context, origins, storage, fetch, namespaces)
    writes = compose_writes(context, routes, origins, storage, namespaces, metadata)
    requests = compose_requests(context, origins, storage, fetch, namespaces, metadata, writes)
    gateway = requests.gateway
    jobs = compose_jobs(context, origins, storage, fetch, namespaces, metadata, writes, requests)
    peer_service = compose_peer_service(context, storage, fetch, namespaces, metadata, writes, jobs)
    return Parts(
        metrics=metrics,
        tasks=context.tasks,
        origins=origins,
        body_turns=context.body_turns,
        tiers=storage.tiers,
        ssd=storage.ssd,
        budget=storage.budget,
        rings=FairSemaphore(settings.memory.rings),
        spool=storage.spool,
        upload_starts=storage.upload_starts,
        uploads=writes.uploads,
        flights=fetch.flights,
        resolver=metadata.resolver,
        openings=metadata.openings,
        invalidator=metadata.invalidator,
        listings=namespaces.listings,
        catalogue=namespaces.catalogue,
        listing_permissions=requests.listing_permissions,
        policy=requests.policy,
        gateway=requests.gateway,
        warm_ups=jobs.warm_ups,
        peers=peers,
        node_reads=jobs.node_reads,
        prefetcher=jobs.prefetcher,
        ahead=jobs.ahead,
        read_ahead=jobs.read_ahead,
        data_sets=jobs.data_sets,
        read_counts=jobs.read_counts,
        data_set_resource=jobs.data_set_resource,
        plans=jobs.plans,
        plan_resource=jobs.plan_resource,
        pins=storage.pins,
        recordings=jobs.recordings,
        kept_recordings=jobs.kept_recordings,
        peer_service=peer_service,
        write_back=writes.write_back,
        backlog=writes.backlog,
    )
