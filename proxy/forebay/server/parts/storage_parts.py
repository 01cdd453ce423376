"""The parts of storage in one worker: the tiers with their pins, the journal, and the budget of buffers and spools."""

import secrets
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Final

from forebay.core.fair_semaphore import FairSemaphore
from forebay.core.names import ObjectName
from forebay.jobs.pin_registry import PinRegistry
from forebay.origin.origins import Origins
from forebay.policy.origin_routes import OriginRoutes
from forebay.policy.pools import Pool
from forebay.server.parts.state_paths import pin_path
from forebay.server.parts.worker_context import WorkerContext
from forebay.storage.cache_origin import CacheOrigins, cache_origins, routes_fingerprint
from forebay.storage.journal.pending_objects import PendingObjects
from forebay.storage.memory.memory_tier import MemoryTier
from forebay.storage.pin_file import PinFile
from forebay.storage.run_record import begin_run
from forebay.storage.spool import Spool
from forebay.storage.tiers import Tiers

if TYPE_CHECKING:  # only with an SSD tier, or a journal
    from forebay.server.ssd_attachment import SsdAttachment
    from forebay.storage.journal.journal import Journal
    from forebay.storage.journal.journal_files import JournalFiles

SPOOL_SHARE: Final = 4
"""A spool may hold one in so many bytes of the buffers for long; further bodies go to files."""


@dataclass(frozen=True, slots=True)
class StorageParts:
    """The parts that keep bytes."""

    tiers: Tiers
    ssd: "SsdAttachment | None"
    """None: no SSD tier is configured."""
    pins: PinRegistry
    journal: "Journal | None"
    """None: no journal is configured."""
    pending: PendingObjects | None
    """None: no journal is configured."""
    budget: FairSemaphore
    """The bytes of buffers."""
    rings: FairSemaphore
    """The bytes of memory that clients on the Unix socket share."""
    spool: Spool
    upload_starts: Spool
    """The beginnings of uploads, which are read ahead. Apart from the spool, so that uploads that drip take no space
    from bodies that must be spooled."""


def compose_storage(
    context: WorkerContext, routes: OriginRoutes, origins: Origins, journal: "Journal | None"
) -> StorageParts:
    """Opens the tiers. `journal`: see `open_journal`. Raises OSError."""
    settings = context.settings

    def pool_of(name: ObjectName) -> Pool | None:
        return context.rules().pool(name)

    pending = PendingObjects(journal.read) if journal is not None else None
    tiers = Tiers(MemoryTier(settings.memory.size, context.observe), None, context.peers.owns, pool_of, pending)
    context.metrics.add_block_counts("memory", tiers.memory.counts)
    tiers.memory.ahead.budget.resize(settings.memory.ahead)
    pins = PinRegistry(
        PinFile(pin_path(settings)),
        tiers,
        origins.list_objects,
        context.rules,
        context.clock,
        settings.ssd.pin_quota if settings.ssd is not None else None,
    )
    ssd = _attach_ssd(context, routes, tiers)
    budget, rings = FairSemaphore(settings.memory.buffers), FairSemaphore(settings.memory.rings)
    spool, upload_starts = _spool(context, budget), _spool(context, budget)
    return StorageParts(tiers, ssd, pins, journal, pending, budget, rings, spool, upload_starts)


def open_journal(context: WorkerContext, files: "JournalFiles | None") -> "Journal | None":
    """Opens the journal; None if none is configured. `files`: its system calls. Raises JournalUnusable."""
    settings, metrics = context.settings.journal, context.metrics
    if settings is None:
        return None
    from forebay.storage.journal.journal import Journal  # noqa: PLC0415 # only with a journal
    from forebay.storage.journal.journal_files import JournalFiles  # noqa: PLC0415 # likewise

    sync_times, counting = metrics.histogram("forebay_journal_sync_seconds"), Lock()

    def on_sync(seconds: float) -> None:  # in any thread of the journal: the event loop would be woken for nothing else
        with counting:
            sync_times.add(seconds)

    family = context.family if context.family is not None else secrets.token_hex(8)
    return Journal.open(Path(settings.path), family, files or JournalFiles(on_sync))


def _attach_ssd(context: WorkerContext, routes: OriginRoutes, tiers: Tiers) -> "SsdAttachment | None":
    settings = context.settings
    if settings.ssd is None:
        return None
    from forebay.server.ssd_attachment import SsdAttachment  # noqa: PLC0415 # only with an SSD tier

    cached = CacheOrigins(cache_origins(settings), routes.position_of, routes_fingerprint(settings))
    ssd = SsdAttachment(
        tiers,
        settings.ssd,
        cached,
        context.run or begin_run(None, *cached.origins),
        context.observe,
        family=context.family,
        clock=context.clock,
    )
    ssd.attach_at_start()
    return ssd


def _spool(context: WorkerContext, budget: FairSemaphore) -> Spool:
    limits = context.settings.limits
    parent = Path(limits.held_path) if limits.held_path is not None else None
    return Spool(limits.held, budget, share=budget.capacity // SPOOL_SHARE, wait=context.buffer_wait, parent=parent)
