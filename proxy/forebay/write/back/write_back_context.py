"""The parts that write-back works with, in groups: journal, origin, cache, worker, limits, events."""

import math
from collections.abc import Callable
from dataclasses import dataclass

from forebay.core.byte_rate import ByteRate
from forebay.core.task_registry import TaskRegistry
from forebay.metadata.staged_objects import StagedObjects
from forebay.origin.origins import Origins
from forebay.peers.owners import Peers
from forebay.policy.rules import Rules
from forebay.storage.journal.journal import Journal
from forebay.storage.journal.pending_objects import PendingObjects
from forebay.storage.journal.record_origins import RecordOrigins
from forebay.storage.tiers import Tiers
from forebay.write.back.drain.origin_versions import OriginVersions
from forebay.write.back.pending.pending_uploads import PendingUploads
from forebay.write.forwarder import Forwarder
from forebay.write.invalidation import Invalidator


@dataclass(frozen=True, slots=True)
class JournalState:
    """The journal, and this worker's view of its content."""

    journal: Journal
    origins: RecordOrigins
    pending: PendingObjects
    uploads: PendingUploads


@dataclass(frozen=True, slots=True)
class OriginAccess:
    """The way to the origin, and its known versions."""

    origins: Origins
    forwarder: Forwarder
    versions: OriginVersions
    rate: ByteRate | None = None
    """The rate at which the drainer sends pending writes; None: it has no bound."""


@dataclass(frozen=True, slots=True)
class CachedState:
    """The cached content, heads and generations of objects."""

    tiers: Tiers
    staged: StagedObjects
    invalidator: Invalidator


@dataclass(frozen=True, slots=True)
class WriteBackWorker:
    """The worker whose write-back it is."""

    tasks: TaskRegistry
    peers: Peers
    rules: Callable[[], Rules]
    """Returns the rules in force."""
    clock: Callable[[], float]
    """Seconds since the epoch."""
    monotonic: Callable[[], float]
    """Seconds from any origin."""


@dataclass(frozen=True, slots=True)
class WriteBackLimits:
    """Sizes in bytes, times in seconds."""

    size: int
    """The largest size of the journal."""
    proof_lease: float
    """The time for which a write that the origin has accepted proves that it accepts others like it."""
    max_age: float = math.inf
    """The age at which a pending write is reported."""
    upload_max_age: float = math.inf
    """The time for which an unfinished upload is kept after its last part."""


def _count_nothing(*_: object) -> None:
    return


@dataclass(frozen=True, slots=True)
class WriteBackEvents:
    """Called when something is to be counted."""

    wrote: Callable[[str, int], None] = _count_nothing
    """`wrote(result, size)`, for each write: "accepted" or "through", then "persisted", "stuck" or "conflict"."""
    full: Callable[[int], None] = _count_nothing
    """Called with the seconds for which the journal has had no room."""
    expired: Callable[[], None] = _count_nothing
    """Called for each unfinished upload that is aborted."""
    moved: Callable[[], None] = _count_nothing
    """Called for each upload that goes on at the origin."""
    damaged: Callable[[], None] = _count_nothing
    """Called for each part of such an upload that is damaged in the journal."""
