"""Listed heads: stale heads are validated by entries of a listing, and heads that a newer listing contradicts are
dropped.

    stale head ──> entry of the latest snapshot: same ETag, size and time? ──> validated when that listing began
                                                 anything else ──────────────> a conditional request, as ever
    new snapshot, another entry than before, or none ──> the cached head is forgotten

An entry proves that the version which the head describes was the current one when the listing began. It says nothing of
headers. They change only by a new write, which changes the time of the object; but that has whole seconds. So a head
counts only if it was validated MARGIN seconds after its object was last modified: a write after that has another time
(RFC 9110, 8.8.2.2, has the same rule, and the same minute for clocks that differ).

Not for principals with their own origin credential: a listing for Forebay does not prove what they may read.
"""

import asyncio
import re
from collections.abc import AsyncIterator
from datetime import datetime
from typing import Final, Protocol

from forebay.core.errors import StorageError
from forebay.core.events import HeadsCompared, HeadVouched, Observe
from forebay.core.heads import Head
from forebay.core.names import ObjectName
from forebay.metadata.head_replacement import HeadReplacement
from forebay.metadata.object_heads import ObjectHeads
from forebay.namespace.snapshot import Snapshot, Unlisted
from forebay.namespace.snapshots import ListedEntry
from forebay.policy.rules import Decision
from forebay.protocol.dates import parse_http_date
from forebay.protocol.xml.listed_page import EntryFacts, entry_facts

MARGIN: Final = 60
_SECONDS: Final = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.\d+)?(?:Z|\+00:00)")


class EntrySource(Protocol):
    """Where entries come from: namespace.namespace_owners."""

    def is_listed(self, name: ObjectName) -> bool:
        """Whether there may be entries of this object."""

    async def entry(self, name: ObjectName) -> ListedEntry | None:
        """The entry of the latest listing; None: it proves nothing."""


class ListedHeads:
    """See the module."""

    def __init__(self, source: EntrySource, heads: ObjectHeads, replacement: HeadReplacement, observe: Observe) -> None:
        self._source = source
        self._heads = heads
        self._replacement = replacement
        self._observe = observe

    async def renewed(self, name: ObjectName, head: Head, decision: Decision) -> Head | None:
        """The same head as fresh as the latest listing makes it, stored; None: it is not fresh by that."""
        if head.by_id or not self._source.is_listed(name):
            return None
        since = self._heads.now().tick
        entry = await self._source.entry(name)
        if entry is None or not describes(entry.facts, head) or entry.listed_at <= head.validated_at:
            return None
        renewed = head.with_validation(entry.listed_at)
        if not self._heads.is_fresh(name, renewed, decision, no_cache=False):
            return None
        if self._heads.current(name) is not head or not self._replacement.try_store(name, renewed, since):
            return None
        self._observe(HeadVouched())
        return renewed

    async def compare(self, old: Snapshot, new: Snapshot) -> None:
        """Forgets the cached heads of objects that `new` has with another entry than `old`, or lacks. Raises nothing:
        what can't be compared is revalidated as ever."""
        dropped = 0
        try:
            async for key, facts in _differences(old, new):
                name = ObjectName(new.bucket, key)
                head = self._heads.current(name)
                # A write through Forebay has forgotten its head already, and what was read since is newer.
                if head is None or new.overlay.is_written(key) or head.validated_at >= new.started_at:
                    continue
                found = entry_facts(facts) if facts is not None else None
                if found is None or not _is_same(found, head):
                    await self._replacement.remove(name, head)
                    dropped += 1
        except StorageError:
            pass
        self._observe(HeadsCompared(dropped))


def describes(entry: EntryFacts, head: Head) -> bool:
    """Whether an entry proves that the head's version is the current one."""
    modified = parse_http_date(head.facts.last_modified)
    return modified is not None and head.validated_at >= modified + MARGIN and _is_same(entry, head)


def _is_same(entry: EntryFacts, head: Head) -> bool:
    facts = head.facts
    listed = _SECONDS.fullmatch(entry.last_modified)
    if listed is None or (entry.etag, entry.size) != (facts.version.etag, facts.size):
        return False
    return int(datetime.fromisoformat(f"{listed[1]}+00:00").timestamp()) == parse_http_date(facts.last_modified)


async def _differences(old: Snapshot, new: Snapshot) -> AsyncIterator[tuple[str, str | None]]:
    """Keys of `old` with their entries in `new` (None: it has none) where that differs."""
    position, inclusive = "", True
    while True:
        block = await old.block_behind(position, inclusive=inclusive)
        if block is None or isinstance(block, Unlisted):
            return
        listed = await _entries(new, block.keys[0], block.keys[-1])
        for number, key in enumerate(block.keys):
            if listed.get(key) != block.facts(number):
                yield key, listed.get(key)
        position, inclusive = block.keys[-1], False
        await asyncio.sleep(0)


async def _entries(snapshot: Snapshot, first: str, last: str) -> dict[str, str]:
    """The entries of a snapshot from `first` to `last`."""
    entries: dict[str, str] = {}
    position, inclusive = first, True
    while True:
        block = await snapshot.block_behind(position, inclusive=inclusive)
        if block is None or isinstance(block, Unlisted):
            return entries
        entries |= {key: block.facts(number) for number, key in enumerate(block.keys)}
        await asyncio.sleep(0)
        if block.keys[-1] >= last:
            return entries
        position, inclusive = block.keys[-1], False
