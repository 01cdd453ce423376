"""Write-back in one worker: the parts that accept writes into the journal and carry them out."""

import time
from typing import Final

from forebay.core.byte_rate import ByteRate
from forebay.origin.origins import Origins
from forebay.policy.origin_routes import OriginRoutes
from forebay.server.parts.metadata_parts import MetadataParts
from forebay.server.parts.storage_parts import StorageParts
from forebay.server.parts.worker_context import WorkerContext
from forebay.storage.cache_origin import CacheOrigins, cache_origins
from forebay.storage.journal.record_origins import RecordOrigins
from forebay.write.back.drain.origin_versions import OriginVersions
from forebay.write.back.node_backlog import NodeBacklog
from forebay.write.back.pending.pending_uploads import PendingUploads
from forebay.write.back.write_back import WriteBack
from forebay.write.back.write_back_context import (
    CachedState,
    JournalState,
    OriginAccess,
    WriteBackEvents,
    WriteBackLimits,
    WriteBackWorker,
)
from forebay.write.forwarder import Forwarder

PROOF_LEASE: Final = 900.0


def compose_write_back(
    context: WorkerContext,
    routes: OriginRoutes,
    origins: Origins,
    forwarder: Forwarder,
    storage: StorageParts,
    metadata: MetadataParts,
) -> tuple[WriteBack, NodeBacklog]:
    """Write-back on the open journal of `storage`, and its backlog."""
    settings, journal, pending = context.settings.journal, storage.journal, storage.pending
    metrics, rules, tiers = context.metrics, context.rules, storage.tiers
    assert settings is not None and journal is not None and pending is not None  # noqa: S101, PT018 # all or none

    def count_write(result: str, size: int) -> None:
        metrics.count("forebay_journal_writes_total", result)
        metrics.count("forebay_journal_bytes_total", result, by=size)

    configured = CacheOrigins(cache_origins(context.settings), routes.position_of)
    rate = ByteRate(settings.upload_rate, context.timers) if settings.upload_rate is not None else None
    write_back = WriteBack(
        JournalState(journal, RecordOrigins(configured), pending, PendingUploads()),
        OriginAccess(origins, forwarder, OriginVersions(pending, tiers, metadata.heads, rules), rate),
        CachedState(tiers, metadata.staged, metadata.invalidator),
        WriteBackWorker(context.tasks, context.peers, rules, context.clock, time.monotonic),
        WriteBackLimits(settings.size, PROOF_LEASE, settings.max_age, settings.upload_max_age),
        WriteBackEvents(
            count_write,
            lambda seconds: metrics.count("forebay_journal_full_seconds_total", by=seconds),
            lambda: metrics.count("forebay_journal_expired_uploads_total"),
            lambda: metrics.count("forebay_journal_moved_uploads_total"),
            lambda: metrics.count("forebay_journal_damaged_parts_total"),
        ),
    )
    return write_back, NodeBacklog(write_back, context.peers, origins)
