"""The composition root: every part of one worker, made once and given its parts.

Each room's parts are made by a function of server/parts, after those that it uses. No module below makes parts of other
rooms.

    origin ──> storage ──> fetch ──> namespaces ──> metadata ──> writes ──> requests ──> jobs ──> peers      compose
                                                                               └──> listener, Unix socket
                                                                                    connection_parts.py

A part that depends on the later state of another one gets a function: `observe` (metrics), `clock`, and the policy in
force, which a reload replaces (`gateway.policy`).
"""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from forebay.core.events import OwnerMissed
from forebay.core.timers import Timers
from forebay.origin.origins import Origins
from forebay.origin.turns.body_turns import BodyTurns
from forebay.peers.owners import Peers
from forebay.policy.origin_routes import routes_of
from forebay.server.parts.fetch_parts import FetchParts, compose_fetch
from forebay.server.parts.job_parts import JobParts, compose_jobs
from forebay.server.parts.metadata_parts import MetadataParts, compose_metadata
from forebay.server.parts.namespace_parts import NamespaceParts, compose_namespaces
from forebay.server.parts.origin_parts import compose_origins
from forebay.server.parts.peer_parts import compose_peer_service
from forebay.server.parts.request_parts import RequestParts, compose_requests
from forebay.server.parts.storage_parts import StorageParts, compose_storage, open_journal
from forebay.server.parts.worker_context import WorkerContext
from forebay.server.parts.write_parts import WriteParts, compose_writes
from forebay.server.rpc.peer_service import PeerService
from forebay.server.telemetry.metrics import Metrics
from forebay.settings.model import Settings
from forebay.storage.run_record import NodeRun

if TYPE_CHECKING:  # only with a journal
    from forebay.storage.journal.journal_files import JournalFiles

BUFFER_WAIT = 10.0
"""Seconds that a reader waits for a buffer before it is answered SlowDown: less than any SDK's timeout."""


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts of a running worker, room by room."""

    context: WorkerContext
    origins: Origins
    storage: StorageParts
    fetch: FetchParts
    namespaces: NamespaceParts
    metadata: MetadataParts
    writes: WriteParts
    requests: RequestParts
    jobs: JobParts
    peer_service: PeerService


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
    journal_files: "JournalFiles | None" = None,
) -> Parts:
    """Makes the parts, inside the loop that will serve. Raises SettingsError for an impossible endpoint,
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
    return Parts(context, origins, storage, fetch, namespaces, metadata, writes, requests, jobs, peer_service)
