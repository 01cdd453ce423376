"""The parts of write-back in one worker: the journal that it shares with the other workers, the pending objects that
reads look at, and what accepts writes and carries them out."""

import asyncio
import secrets
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from forebay.core.task_registry import TaskRegistry
from forebay.metadata.object_heads import ObjectHeads
from forebay.metadata.staged_objects import StagedObjects
from forebay.origin.origins import Origins
from forebay.peers.owners import Peers
from forebay.policy.origin_routes import OriginRoutes
from forebay.policy.rules import Rules
from forebay.server.telemetry.metrics import Metrics
from forebay.settings.model import Settings
from forebay.storage.cache_origin import CacheOrigins, cache_origins
from forebay.storage.journal.journal import Journal
from forebay.storage.journal.journal_files import JournalFiles
from forebay.storage.journal.pending_objects import PendingObjects
from forebay.storage.journal.record_origins import RecordOrigins
from forebay.storage.tiers import Tiers
from forebay.write.back.origin_versions import OriginVersions
from forebay.write.back.pending_uploads import PendingUploads
from forebay.write.back.write_back import WriteBack
from forebay.write.back.write_back_context import (
    CachedState,
    JournalState,
    OriginAccess,
    WriteBackEvents,
    WriteBackLimits,
)
from forebay.write.forwarder import Forwarder
from forebay.write.invalidation import Invalidator

PROOF_LEASE: Final = 900.0


def open_journal(
    settings: Settings, family: str | None, metrics: Metrics, files: JournalFiles | None = None
) -> tuple[Journal, PendingObjects] | tuple[None, None]:
    """The journal, and the objects that it has pending; None, None: no journal is configured. `family`: the name that
    all workers of the node share; None: there is one worker. Raises OSError."""
    if settings.journal is None:
        return None, None
    loop = asyncio.get_running_loop()

    def on_sync(seconds: float) -> None:  # in a thread of the journal
        loop.call_soon_threadsafe(metrics.time, "forebay_journal_sync_seconds", seconds)

    path, files = Path(settings.journal.path), files or JournalFiles(on_sync)
    journal = Journal.open(path, family if family is not None else secrets.token_hex(8), files)
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
    heads: ObjectHeads,
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

    def count_write(result: str, size: int) -> None:
        metrics.count("forebay_journal_writes_total", result)
        metrics.count("forebay_journal_bytes_total", result, by=size)

    configured = CacheOrigins(cache_origins(settings), routes.position_of)
    return WriteBack(
        JournalState(journal, RecordOrigins(configured), pending, PendingUploads()),
        OriginAccess(origins, forwarder, OriginVersions(pending, tiers, heads, rules)),
        CachedState(tiers, staged, invalidator),
        tasks,
        peers,
        rules,
        WriteBackLimits(settings.journal.size, PROOF_LEASE, settings.journal.max_age, settings.journal.upload_max_age),
        WriteBackEvents(
            count_write,
            lambda seconds: metrics.count("forebay_journal_full_seconds_total", by=seconds),
            lambda: metrics.count("forebay_journal_expired_uploads_total"),
        ),
        clock=clock,
        monotonic=time.monotonic,
    )
