"""Looks up at the origin the entries of keys that were written after a snapshot began.

A few keys are requested one by one: a listing whose prefix is the key begins with the key. Many keys are requested in
pages that begin right before them. So a listing shows the same time, ETag and owner of a written object as the origin's
own listing.

The entry of a key with a pending write comes from the journal (namespace.pending_entries).

An answer is kept in the overlay unless a fence was raised since its request, or a write of the key is in doubt: the
origin may still carry that out.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from forebay.core.errors import OriginBroken
from forebay.core.fences import Fences, InDoubtWrites, Tick
from forebay.core.names import ObjectName
from forebay.namespace.origin_pages import PageRequest
from forebay.namespace.pending_entries import NOTHING_PENDING, PendingEntries
from forebay.namespace.snapshot import Snapshot
from forebay.namespace.snapshot_walk import PageSource
from forebay.namespace.write_overlay import KnownEntry
from forebay.policy.key_order import predecessor

_FEW: Final = 8
_PAGE: Final = 1000
_MAX_REQUESTS: Final = 64
"""Requests for one page of a client."""


class KnownKeys:
    """The known entries of one snapshot's overlay, while one page is built. Implements merged_block.KnownFacts."""

    def __init__(
        self, snapshot: Snapshot, is_in_doubt: Callable[[ObjectName], bool], pending: PendingEntries = NOTHING_PENDING
    ) -> None:
        self._snapshot = snapshot
        self._pending = pending
        self._is_in_doubt = is_in_doubt
        self._learnt: dict[str, str | None] = {}

    def __contains__(self, key: str) -> bool:
        return (
            ObjectName(self._snapshot.bucket, key) in self._pending
            or key in self._learnt
            or self._known(key) is not None
        )

    def facts(self, key: str) -> str | None:
        """Returns the entry of a known key; None: there is no object."""
        name = ObjectName(self._snapshot.bucket, key)
        if name in self._pending:
            return self._pending.facts(name, self._snapshot.form.owners)
        if key in self._learnt:
            return self._learnt[key]
        known = self._known(key)
        return known.facts if known is not None else None

    def learn(self, key: str, facts: str | None) -> None:
        """Adds the origin's entries that the page needed."""
        self._learnt[key] = facts

    def _known(self, key: str) -> KnownEntry | None:
        known = self._snapshot.overlay.known(key)
        return None if known is None or self._is_in_doubt(ObjectName(self._snapshot.bucket, key)) else known


class EntryLookup:
    """See the module. `clock`: seconds since the epoch."""

    def __init__(
        self,
        pages: PageSource,
        fences: Fences,
        in_doubt_writes: InDoubtWrites,
        clock: Callable[[], float],
        pending: PendingEntries = NOTHING_PENDING,
    ) -> None:
        self._pages = pages
        self._fences = fences
        self._in_doubt_writes = in_doubt_writes
        self._clock = clock
        self._pending = pending

    def known_keys(self, snapshot: Snapshot) -> KnownKeys:
        """Returns the known entries of a snapshot's overlay, for one page."""
        return KnownKeys(snapshot, lambda name: self._in_doubt_writes.covers(name, self._clock()), self._pending)

    async def learn(self, snapshot: Snapshot, keys: Sequence[str], known: KnownKeys) -> None:
        """Requests the entries of `keys`, a sorted list, and adds them to `known`. Raises OriginError, Throttled,
        S3Error."""
        if len(keys) <= _FEW:
            await asyncio.gather(*(self._learn_single(snapshot, key, known) for key in keys))
            return
        position = 0
        for _ in range(_MAX_REQUESTS):
            since = self._fences.now()
            wanted = PageRequest(snapshot.bucket, snapshot.prefix, predecessor(keys[position]), _PAGE)
            page = await self._pages.fetch(wanted, snapshot.form)
            listed = dict(zip(page.keys, page.facts, strict=True))
            while position < len(keys) and (not page.is_truncated or keys[position] <= page.keys[-1]):
                self._add(snapshot, keys[position], listed.get(keys[position]), since, known)
                position += 1
            if position == len(keys):
                return
        raise OriginBroken("listing: too many written keys far from each other")

    async def _learn_single(self, snapshot: Snapshot, key: str, known: KnownKeys) -> None:
        since = self._fences.now()
        page = await self._pages.fetch(PageRequest(snapshot.bucket, key, "", 1), snapshot.form)
        self._add(snapshot, key, page.facts[0] if page.keys[:1] == [key] else None, since, known)

    def _add(self, snapshot: Snapshot, key: str, facts: str | None, since: Tick, known: KnownKeys) -> None:
        known.learn(key, facts)
        name = ObjectName(snapshot.bucket, key)
        if self._fences.allows(name, since) and not self._in_doubt_writes.covers(name, self._clock()):
            snapshot.overlay.learn(key, KnownEntry(facts, since))
