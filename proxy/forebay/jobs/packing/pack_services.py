"""The services that all pack jobs of a worker share."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from forebay.core.fair_semaphore import FairSemaphore
from forebay.core.fences import Fences
from forebay.core.task_registry import TaskRegistry
from forebay.namespace.packs.tombstone_store import TombstoneStore
from forebay.namespace.pending_entries import PendingEntries
from forebay.origin.origins import Origins
from forebay.write.conditional_writes import ConditionalWrites
from forebay.write.invalidation import Invalidator
from forebay.write.packed_deletions import PackedDeletions


@dataclass(frozen=True, slots=True)
class PackServices:
    """See the module."""

    origins: Origins
    invalidator: Invalidator
    tasks: TaskRegistry
    budget: FairSemaphore
    """Bytes of buffers: of which a job takes a part, for as long as it reads and writes."""
    clock: Callable[[], float]
    """Seconds since the epoch."""
    directory: Path
    """The directory of copies of indexes."""
    tombstones: TombstoneStore
    deletions: PackedDeletions
    fences: Fences
    pending: PendingEntries
    conditional: ConditionalWrites
