"""Listings: answers pages from snapshots of namespaces, and takes snapshots when they are needed.

    query ──> scope (policy.listing_scopes) ──> fresh snapshot ─────────────> page      the origin is not asked
                                          ├──> walk under way ── waits ────> page      as soon as its keys are listed
                                          └──> neither: the walk begins ──┘
              no scope, a walk that failed, a write in doubt ──> None: the origin answers

A snapshot is as old as its first request. It answers while it is younger than the rule's duration; from half of that
on, a listing begins the next one in the background. Its overlay has the keys that were written since its first request
(namespace.write_overlay), so own writes are seen whatever its age. A write to a bucket as a whole drops its snapshots,
and so does damage: a broken cache is a miss.

One worker of a node has the snapshots of a namespace, its owner (policy.ownership, by the bucket and the scope's
prefix); the others ask it for pages and entries. A snapshot ends with its process.
"""

import asyncio
import logging
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from forebay.core.errors import ForebayError, OriginBroken, OriginError, S3Error, StorageError, Throttled
from forebay.core.events import ListingAnswered, Observe, SnapshotEnded
from forebay.core.fences import Fences, InDoubtWrites
from forebay.core.names import ObjectName
from forebay.core.request_record import CacheStatus
from forebay.core.requester import requester
from forebay.core.task_registry import TaskRegistry
from forebay.namespace.entry_lookup import EntryLookup
from forebay.namespace.listing_answer import ListingAnswer
from forebay.namespace.namespaces import Namespace, Namespaces, NamespaceState
from forebay.namespace.origin_pages import OriginPages
from forebay.namespace.page_builder import UnknownKeys, build_page
from forebay.namespace.pending_entries import NOTHING_PENDING, PendingEntries
from forebay.namespace.snapshot import Snapshot, Unlisted
from forebay.namespace.snapshot_file import SnapshotFile
from forebay.namespace.snapshot_walk import SnapshotWalk
from forebay.policy.freshness import Fresh, evaluate_freshness
from forebay.policy.listing_scopes import ListingScope, ListingScopes
from forebay.protocol.listing_query import MAX_KEYS, ListingQuery
from forebay.protocol.xml.listed_page import EntryFacts, entry_facts
from forebay.protocol.xml.listing_document import PageEntries, PageForm, is_writable, listing_document
from forebay.settings.freshness_values import MaxAge

_log = logging.getLogger(__name__)

WAIT: Final = 10.0
"""Seconds that a client waits for a walk to come to its page, then the origin answers it."""
RETRY_PAUSE: Final = 30.0
"""Seconds after a failed walk in which the origin answers."""
_ATTEMPTS: Final = 4
"""How often a page is built anew, because written keys had to be looked up."""


class ListedEntry(NamedTuple):
    """What a snapshot proves of an object that was not written through Forebay since it began."""

    facts: EntryFacts
    listed_at: float
    """Seconds since the epoch, before the listing began."""


class Listings:
    """The namespaces of one worker. Implements write.invalidation.Joinable."""

    def __init__(
        self,
        pages: OriginPages,
        fences: Fences,
        in_doubt_writes: InDoubtWrites,
        tasks: TaskRegistry,
        observe: Observe,
        clock: Callable[[], float],
        scopes: Callable[[], ListingScopes],
        directory: Path | None,
        capacity: int,
        wait: float = WAIT,
        pending: PendingEntries = NOTHING_PENDING,
        release_memory: Callable[[], object] = lambda: None,
    ) -> None:
        """`scopes`: by the rules in force. `directory`: of the snapshots' files, None for the system's temporary one;
        `capacity`: their bytes. `wait`: see WAIT. `release_memory` is called, in a thread, behind each walk: it has
        made and dropped far more than a snapshot keeps."""
        self._pages = pages
        self._fences = fences
        self._in_doubt_writes = in_doubt_writes
        self._tasks = tasks
        self._observe = observe
        self._clock = clock
        self._scopes = scopes
        self._directory = Path(tempfile.gettempdir()) if directory is None else directory
        self._wait = wait
        self._pending = pending
        self._release_memory = release_memory
        self._lookup = EntryLookup(pages, fences, in_doubt_writes, clock, self._pending)
        self._namespaces = Namespaces(capacity)
        self.on_snapshot: Callable[[Snapshot, Snapshot], object] = lambda _old, _new: None
        """Called with the old and the new snapshot of a namespace, when that is complete."""

    def scope(self, bucket: str, prefix: str) -> ListingScope | None:
        """The scope of a listing by the rules in force; None: the origin answers it."""
        return self._scopes().scope(bucket, prefix)

    # Pages

    async def answer(self, query: ListingQuery) -> ListingAnswer | None:
        """The page; None: the origin answers. Raises nothing that the origin would not."""
        answer = None
        if (scope := self.scope(query.bucket, query.prefix)) is not None:
            with suppress(OriginError, StorageError, Throttled, S3Error):
                answer = await self._answer(query, scope)
            self._observe(ListingAnswered("passed_on" if answer is None else answer.source))
        return answer

    async def _answer(self, query: ListingQuery, scope: ListingScope) -> ListingAnswer | None:
        if query.max_keys == 0 and self._pages.speaks_oss(query.bucket):
            return None
        source: CacheStatus = "hit-ssd"
        deadline = asyncio.get_running_loop().time() + self._wait
        known = None
        attempts = 0
        snapshot: Snapshot | None = None
        while True:
            fresh = self._fresh(query.bucket, scope)
            if fresh is None:
                return None
            if fresh is not snapshot:
                snapshot, known = fresh, self._lookup.known_keys(fresh)
            assert known is not None and snapshot is not None  # noqa: S101, PT018 # set together
            if not snapshot.is_complete:
                source = "miss"
            if query.max_keys is not None and query.max_keys > MAX_KEYS and not snapshot.keys:
                return None  # how the origin repeats such a number is not known
            try:
                page = await build_page(snapshot, query, query.limit(MAX_KEYS), known)
            except StorageError as error:
                self._drop_damaged(snapshot, error)
                return None
            match page:
                case PageEntries():
                    form = PageForm(snapshot.form.encoding, snapshot.form.owners, snapshot.echoed_max_keys, MAX_KEYS)
                    return (
                        ListingAnswer(listing_document(query, page, form), source) if is_writable(query, page) else None
                    )
                case UnknownKeys(keys):
                    attempts += 1
                    if attempts > _ATTEMPTS:
                        return None
                    source = "partial" if source == "hit-ssd" else source
                    await self._lookup.learn(snapshot, keys, known)
                case Unlisted(position):
                    walk = self._walk_of(snapshot)
                    if walk is None or (query.delimiter and snapshot.keys):
                        return None  # a common prefix may hide any number of keys
                    walk.request_position(position)
                    try:
                        async with asyncio.timeout_at(deadline):
                            await walk.wait_changed()
                    except TimeoutError:
                        return None

    def _fresh(self, bucket: str, scope: ListingScope) -> Snapshot | None:
        """The snapshot to answer from, which may be under way; None: there can be none now."""
        now = self._clock()
        if self._in_doubt_writes.until(ObjectName(bucket, "")) > now:
            return None  # any key of it may be written yet
        namespace = self._namespaces.use(bucket, scope.prefix)
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

    # Snapshots

    def _begin(self, namespace: Namespace, now: float) -> SnapshotWalk | None:
        """Begins a walk; None: the latest has failed a moment ago, or there is no file for it."""
        if namespace.failed_at is not None and 0.0 <= now - namespace.failed_at < RETRY_PAUSE:
            return None
        self._namespaces.make_room()
        try:
            file = SnapshotFile(self._directory, self._namespaces.capacity // 2)
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

    def _walk_of(self, snapshot: Snapshot) -> SnapshotWalk | None:
        namespace = self._namespaces.find(snapshot.bucket, snapshot.prefix)
        walk = namespace.walk if namespace is not None else None
        return walk if walk is not None and walk.snapshot is snapshot else None

    def _drop_damaged(self, snapshot: Snapshot, error: StorageError) -> None:
        namespace = self._namespaces.find(snapshot.bucket, snapshot.prefix)
        if namespace is not None and snapshot in namespace.snapshots:
            self._observe(SnapshotEnded("damaged"))
            _log.warning("the snapshot of %s/%s is dropped: %s", snapshot.bucket, snapshot.prefix, error)
            self._namespaces.drop(namespace)

    def drop_unruled(self) -> None:
        """Drops what the rules no longer list."""
        for namespace in self._namespaces:
            scope = self.scope(namespace.bucket, namespace.prefix)
            if scope is None or scope.prefix != namespace.prefix:
                self._namespaces.drop(namespace)

    def drop(self, bucket: str, prefix: str = "") -> None:
        """Drops the snapshots with keys under a prefix: of a purge."""
        self._namespaces.drop_under(bucket, prefix)

    # Writes

    def fence(self, name: ObjectName) -> None:
        """A write of `name`: no snapshot says anything of it from now on."""
        self._namespaces.fence(name)

    def fence_bucket(self, bucket: str) -> None:
        """A write of a whole bucket."""
        self.drop(bucket)

    # Heads

    async def entry(self, name: ObjectName) -> ListedEntry | None:
        """What the latest snapshot proves of an object; None: nothing."""
        scope = self.scope(*name)
        namespace = self._namespaces.find(name.bucket, scope.prefix) if scope is not None else None
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
                self._drop_damaged(snapshot, error)
                return None
            if facts is not None:
                return ListedEntry(facts, snapshot.started_at)
        return None

    # State

    @property
    def size(self) -> int:
        """Bytes of all snapshots."""
        return self._namespaces.size

    def states(self) -> list[NamespaceState]:
        """The namespaces, the most recently used last."""
        return [each.state(self._clock()) for each in self._namespaces]
