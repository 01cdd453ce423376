"""The parts of write-back in one worker: the journal that it shares with the other workers, the pending objects that
reads look at, and what accepts writes and carries them out."""

import secrets
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from forebay.core.task_registry import TaskRegistry
from forebay.metadata.staged_objects import StagedObjects
from forebay.origin.origins import Origins
from forebay.peers.owners import Peers
from forebay.policy.origin_routes import OriginRoutes
from forebay.policy.rules import Rules
from forebay.server.telemetry.metrics import Metrics
from forebay.settings.model import Settings
from forebay.storage.cache_origin import CacheOrigins, cache_origins
from forebay.storage.journal.journal import Journal
from forebay.storage.journal.pending_objects import PendingObjects
from forebay.storage.journal.record_origins import RecordOrigins
from forebay.storage.tiers import Tiers
from forebay.write.back.pending_uploads import PendingUploads
from forebay.write.back.persister import Persister
from forebay.write.back.write_back import WriteBack
from forebay.write.forwarder import Forwarder
from forebay.write.invalidation import Invalidator

PROOF_LEASE: Final = 900.0
"""Seconds for which a write that the origin has accepted proves that it accepts others like it."""


def open_journal(settings: Settings, family: str | None) -> tuple[Journal, PendingObjects] | tuple[None, None]:
    """The journal, and the objects that it has pending; None, None: no journal is configured. `family`: the name that
    all workers of the node share; None: there is one worker. Raises OSError."""
    if settings.journal is None:
        return None, None
    journal = Journal.open(Path(settings.journal.path), family if family is not None else secrets.token_hex(8))
    return journal, PendingObjects(journal.read)


def compose_write_back(
    settings: Settings,
    journal: Journal | None,
    pending: PendingObjects | None,
    routes: OriginRoutes,
    origins: Origins,
    forwarder: Forwarder,
    invalidator: Invalidator,
    tiers: Tiers,
    staged: StagedObjects,
    tasks: TaskRegistry,
    peers: Peers,
    rules: Callable[[], Rules],
    clock: Callable[[], float],
    metrics: Metrics,
) -> WriteBack | None:
    """Write-back on an open journal. None: no journal is configured."""
    if settings.journal is None or journal is None or pending is None:
        return None
    uploads = PendingUploads()
    configured = CacheOrigins(cache_origins(settings), routes.position_of)
    return WriteBack(
        journal,
        RecordOrigins(configured),
        pending,
        uploads,
        origins,
        Persister(origins, pending, uploads, invalidator),
        forwarder,
        invalidator,
        tiers,
        staged,
        tasks,
        peers,
        rules,
        size=settings.journal.size,
        proof_lease=PROOF_LEASE,
        clock=clock,
        monotonic=time.monotonic,
        on_write=lambda result: metrics.count("forebay_journal_writes_total", result),
    )
