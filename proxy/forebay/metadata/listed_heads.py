"""Listed heads: stale heads are validated by entries of a listing, in place of a conditional request.

    stale head ──> entry of the latest snapshot: same ETag, size and time? ──> validated when that listing began
                                                 anything else ──────────────> a conditional request, as ever

An entry proves that the version which the head describes was the current one when the listing began. It says nothing of
headers. They change only by a new write, which changes the time of the object; but that has whole seconds. So a head
counts only if it was validated MARGIN seconds after its object was last modified: a write after that has another time
(RFC 9110, 8.8.2.2, has the same rule, and the same minute for clocks that differ).

Not for principals with their own origin credential: a listing for Forebay does not prove what they may read.
"""

import re
from datetime import datetime
from typing import Final, Protocol

from forebay.core.events import HeadVouched, Observe
from forebay.core.heads import Head
from forebay.core.names import ObjectName
from forebay.metadata.head_replacement import HeadReplacement
from forebay.metadata.object_heads import ObjectHeads
from forebay.namespace.snapshots import ListedEntry
from forebay.policy.rules import Decision
from forebay.protocol.dates import parse_http_date
from forebay.protocol.xml.listed_page import EntryFacts

MARGIN: Final = 60
_SECONDS: Final = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.\d+)?(?:Z|\+00:00)")


class EntrySource(Protocol):
    """The source of entries, implemented by namespace.namespace_owners."""

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
        """Renews a head by its entry in the latest listing, and stores it. Returns None if it is not fresh then."""
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


def describes(entry: EntryFacts, head: Head) -> bool:
    """Whether an entry proves that the head's version is the current one."""
    modified = parse_http_date(head.facts.last_modified)
    return modified is not None and head.validated_at >= modified + MARGIN and is_same(entry, head)


def is_same(entry: EntryFacts, head: Head) -> bool:
    """Whether an entry has the head's ETag, size and second."""
    facts = head.facts
    listed = _SECONDS.fullmatch(entry.last_modified)
    if listed is None or (entry.etag, entry.size) != (facts.version.etag, facts.size):
        return False
    return int(datetime.fromisoformat(f"{listed[1]}+00:00").timestamp()) == parse_http_date(facts.last_modified)
