"""The snapshots of a worker: which one answers for a namespace, and when the next one is taken.

    scope ──> a fresh snapshot ──────────────> it; from half of its age on, the next walk begins in the background
          ├──> walk under way ───────────────> the one that it takes: pages are there as soon as their keys are listed
          ├──> neither: the walk begins ──────┘
          └──> the walk has failed lately, or a write of the bucket is in doubt: None

A snapshot is as old as its first request. It answers while it is younger than the rule's duration. A write to a bucket
as a whole drops its snapshots, and so does damage. A snapshot ends with its process.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Final, NamedTuple

from forebay.core.errors import ForebayError, OriginBroken, StorageError
from forebay.core.events import Observe, SnapshotEnded
from forebay.core.fences import Fences, InDoubtWrites
from forebay.core.names import ObjectName
from forebay.core.requester import requester
from forebay.core.task_registry import TaskRegistry
from forebay.namespace.namespaces import Namespace, Namespaces, NamespaceState
from forebay.namespace.origin_pages import OriginPages
from forebay.namespace.pending_entries import NOTHING_PENDING, PendingEntries
from forebay.namespace.snapshot import Snapshot, Unlisted
from forebay.namespace.snapshot_walk import SnapshotWalk
from forebay.policy.freshness import Fresh, evaluate_freshness
from forebay.policy.listing_scopes import ListingScope
from forebay.protocol.xml.listed_page import EntryFacts, entry_facts
from forebay.settings.freshness_values import MaxAge

_log = logging.getLogger(__name__)

RETRY_PAUSE: Final = 30.0
"""Seconds after a failed walk in which the origin answers."""


class ListedEntry(NamedTuple):
    """The entry of an object in a snapshot, if the object was not written through Forebay since the snapshot began."""

    facts: EntryFacts
    listed_at: float
    """Seconds since the epoch, before the listing began."""


class Snapshots:
    """See the module. Implements write.invalidation.Joinable."""

    def __init__(
        self,
        pages: OriginPages,
        namespaces: Namespaces,
        fences: Fences,
        in_doubt_writes: InDoubtWrites,
        tasks: TaskRegistry,
        observe: Observe,
        clock: Callable[[], float],
        pending: PendingEntries = NOTHING_PENDING,
        release_memory: Callable[[], object] = lambda: None,
    ) -> None:
        """`release_memory` is called in a thread after each walk, because a walk allocates and frees far more than a
        snapshot keeps."""
        self._pages = pages
        self.namespaces = namespaces
        self._fences = fences
        self._in_doubt_writes = in_doubt_writes
        self._tasks = tasks
        self._observe = observe
        self._clock = clock
        self._pending = pending
        self._release_memory = release_memory
        self.on_snapshot: Callable[[Snapshot, Snapshot], object] = lambda _old, _new: None
        """Called with the old and the new snapshot of a namespace, when that is complete."""

    def fresh(self, bucket: str, scope: ListingScope) -> Snapshot | None:
        """Returns the snapshot to answer from, which may be under way; None: there is none for now."""
        now = self._clock()
        if self._in_doubt_writes.until(ObjectName(bucket, "")) > now:
            return None  # any key of it may be written yet
        namespace = self.namespaces.use(bucket, scope.prefix)
        snapshot, walk = namespace.snapshot, namespace.walk
        if snapshot is not None and self._is_usable(snapshot, scope, now):
            is_old = isinstance(scope.freshness, MaxAge) and now - snapshot.started_at > scope.freshness.seconds / 2
            if is_old and walk is None:
                self._begin(namespace, now)
            return snapshot
        if walk is not None and not self._is_usable(walk.snapshot, scope, now):
            namespace.give_up_walk()
            self._failed(namespace, OriginBroken("it takes longer than the rule allows, or is written too fast"))
            return None
        if walk is None:
            walk = self._begin(namespace, now)
        return walk.snapshot if walk is not None else None

    def _is_usable(self, snapshot: Snapshot, scope: ListingScope, now: float) -> bool:
        trusted_from = self._in_doubt_writes.until(ObjectName(snapshot.bucket, ""))
        freshness = evaluate_freshness(snapshot.started_at, scope.freshness, now, trusted_from, no_cache=False)
        return isinstance(freshness, Fresh) and not snapshot.overlay.is_full

    def _begin(self, namespace: Namespace, now: float) -> SnapshotWalk | None:
        """Begins a walk; None: the latest one failed a moment ago, or no file could be created."""
        if namespace.failed_at is not None and 0.0 <= now - namespace.failed_at < RETRY_PAUSE:
            return None
        try:
            file = self.namespaces.new_file()
        except StorageError as error:
            self._failed(namespace, error)
            return None
        snapshot = Snapshot(namespace.bucket, namespace.prefix, file, namespace.form, now, self._fences.now())
        for key in self._pending.state(namespace.bucket, namespace.prefix):
            snapshot.overlay.mark(key)
        walk = namespace.walk = SnapshotWalk(snapshot, self._pages)
        self._tasks.spawn(self._run(namespace, walk), f"list {namespace.bucket}/{namespace.prefix}")
        return walk

    async def _run(self, namespace: Namespace, walk: SnapshotWalk) -> None:
        requester.set("")  # for the requests of all walkers
        try:
            await walk.run()
        except (ForebayError, asyncio.CancelledError) as error:
            if namespace.walk is walk:
                namespace.walk = None
                if isinstance(error, ForebayError):
                    self._failed(namespace, error)
            walk.end()
            if not isinstance(error, ForebayError):
                raise
            return
        if namespace.walk is not walk:
            return  # given up meanwhile
        old, namespace.snapshot, namespace.walk, namespace.failed_at = namespace.snapshot, walk.snapshot, None, None
        walk.end()
        self._observe(SnapshotEnded("complete"))
        if old is not None:
            self.on_snapshot(old, walk.snapshot)
        await asyncio.to_thread(self._release_memory)

    def _failed(self, namespace: Namespace, error: ForebayError) -> None:
        namespace.failed_at = self._clock()
        self._observe(SnapshotEnded("failed"))
        _log.warning(
            "%s/%s can't be listed, listings are passed on for %g s: %s",
            namespace.bucket,
            namespace.prefix,
            RETRY_PAUSE,
            error,
        )

    def walk_of(self, snapshot: Snapshot) -> SnapshotWalk | None:
        """Returns the walk of a snapshot; None: the snapshot is complete, or its walk has ended early."""
        namespace = self.namespaces.find(snapshot.bucket, snapshot.prefix)
        walk = namespace.walk if namespace is not None else None
        return walk if walk is not None and walk.snapshot is snapshot else None

    def drop_damaged(self, snapshot: Snapshot, error: StorageError) -> None:
        """Drops a snapshot that can't be read. The listing then is a miss."""
        namespace = self.namespaces.find(snapshot.bucket, snapshot.prefix)
        if namespace is not None and snapshot in namespace.snapshots:
            self._observe(SnapshotEnded("damaged"))
            _log.warning("the snapshot of %s/%s is dropped: %s", snapshot.bucket, snapshot.prefix, error)
            self.namespaces.drop(namespace)

    def drop(self, bucket: str, prefix: str = "") -> None:
        """Drops the snapshots with keys under a prefix, for a purge."""
        self.namespaces.drop_under(bucket, prefix)

    def fence(self, name: ObjectName) -> None:
        """Records a write of `name`: from now on no snapshot answers for it."""
        self.namespaces.fence(name)

    def fence_bucket(self, bucket: str) -> None:
        """Records a write of a whole bucket."""
        self.drop(bucket)

    async def entry(self, name: ObjectName, prefix: str) -> ListedEntry | None:
        """Returns the entry of an object in the latest snapshot of the namespace under `prefix`, if it is still proven;
        None otherwise."""
        namespace = self.namespaces.find(name.bucket, prefix)
        for snapshot in reversed(namespace.snapshots if namespace is not None else []):
            if snapshot.started_at < self._in_doubt_writes.until(name):
                continue
            try:
                block = await snapshot.block_behind(name.key, inclusive=True)
                if isinstance(block, Unlisted) or block is None or snapshot.overlay.is_written(name.key):
                    continue
                position = block.find(name.key)
                facts = entry_facts(block.facts(position)) if position is not None else None
            except StorageError as error:
                self.drop_damaged(snapshot, error)
                return None
            if facts is not None:
                return ListedEntry(facts, snapshot.started_at)
        return None

    @property
    def size(self) -> int:
        """Bytes of all snapshots."""
        return self.namespaces.size

    def states(self) -> list[NamespaceState]:
        """The namespaces, the most recently used last."""
        return [each.state(self._clock()) for each in self.namespaces]
