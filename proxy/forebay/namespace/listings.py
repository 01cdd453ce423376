"""Listings: answers pages and entries from snapshots of namespaces.

    query ──> scope (policy.listing_scopes) ──> snapshot (namespace.snapshots) ──> page      the origin is not asked
                                                  └── its keys are being listed ── waits ──> page
              no scope, a walk that failed, a write in doubt ──> None: the origin answers

A page is built from a snapshot and its overlay, the set of keys that were written since (namespace.write_overlay). So
writes through Forebay are visible however old the snapshot is. Entries that the overlay lacks are looked up at the
origin (namespace.entry_lookup).

One worker of a node has the snapshots of a namespace, its owner (policy.ownership, by the bucket and the scope's
prefix); the others ask it for pages and entries.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from forebay.core.errors import OriginError, S3Error, StorageError, Throttled
from forebay.core.events import ListingAnswered, Observe
from forebay.core.names import ObjectName
from forebay.core.request_record import CacheStatus
from forebay.namespace.entry_lookup import EntryLookup
from forebay.namespace.listing_answer import ListingAnswer
from forebay.namespace.origin_pages import OriginPages
from forebay.namespace.page_builder import UnknownKeys, build_page
from forebay.namespace.snapshot import Snapshot, Unlisted
from forebay.namespace.snapshots import ListedEntry, Snapshots
from forebay.policy.listing_scopes import ListingScope, ListingScopes
from forebay.protocol.listing_query import MAX_KEYS, ListingQuery
from forebay.protocol.xml.listing_document import PageEntries, PageForm, is_writable, listing_document

WAIT: Final = 10.0
"""Seconds that a client waits for a walk to come to its page, then the origin answers it."""
_ATTEMPTS: Final = 4
"""Attempts to build a page: written keys have to be looked up between two."""


class Listings:
    """Pages and entries of one worker's snapshots."""

    def __init__(
        self,
        pages: OriginPages,
        snapshots: Snapshots,
        lookup: EntryLookup,
        scopes: Callable[[], ListingScopes],
        observe: Observe,
        wait: float = WAIT,
    ) -> None:
        """`lookup`: of keys that were written. `scopes`: by the rules in force. `wait`: see WAIT."""
        self._pages = pages
        self.snapshots = snapshots
        self._lookup = lookup
        self._scopes = scopes
        self._observe = observe
        self._wait = wait

    def scope(self, bucket: str, prefix: str) -> ListingScope | None:
        """The scope of a listing by the rules in force; None: the origin answers it."""
        return self._scopes().scope(bucket, prefix)

    async def answer(self, query: ListingQuery) -> ListingAnswer | None:
        """Returns the page; None: the origin answers. Raises only errors that the origin would return as well."""
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
            fresh = self.snapshots.fresh(query.bucket, scope)
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
                self.snapshots.drop_damaged(snapshot, error)
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
                    walk = self.snapshots.walk_of(snapshot)
                    if walk is None or (query.delimiter and snapshot.keys):
                        return None  # a common prefix may hide any number of keys
                    walk.request_position(position)
                    try:
                        async with asyncio.timeout_at(deadline):
                            await walk.wait_changed()
                    except TimeoutError:
                        return None

    async def entry(self, name: ObjectName) -> ListedEntry | None:
        """Returns the entry of an object in the latest snapshot, if it is still proven; None otherwise."""
        scope = self.scope(*name)
        return await self.snapshots.entry(name, scope.prefix) if scope is not None else None

    def drop_unruled(self) -> None:
        """Drops the namespaces that the rules in force do not list."""
        for namespace in self.snapshots.namespaces:
            scope = self.scope(namespace.bucket, namespace.prefix)
            if scope is None or scope.prefix != namespace.prefix:
                self.snapshots.namespaces.drop(namespace)
