"""Checksums of whole objects, for clients that ask for them (x-amz-checksum-mode, which SDKs send by default).

Heads come from responses to ranges, which have no checksums at most origins. So an object may need one more request, a
HEAD, once per version. Where the origin is known to be of that kind, the HEAD is sent while the object is being opened,
so that its first reader does not wait for one response after the other.

Checksums that do not come in time are left out: cached bytes are not delayed for them.
"""

import asyncio
import logging
from dataclasses import replace
from typing import Final

from forebay.core.errors import ForebayError
from forebay.core.fences import Tick
from forebay.core.heads import Head
from forebay.core.names import ObjectName
from forebay.metadata.negative_cache import NegativeCache
from forebay.metadata.object_heads import ObjectHeads
from forebay.metadata.resolution import Resolution, ResolvedVersion
from forebay.metadata.shared_lookup import LookupKey, SharedLookups
from forebay.origin.origin_identity import OriginIdentity, request_credential
from forebay.origin.reads.object_reads import ObjectReads
from forebay.origin.reads.origin_read import OriginRead
from forebay.origin.reads.read_outcomes import ObjectOpened, Uncacheable
from forebay.protocol.response_headers import checksums_missing

CHECKSUM_TIMEOUT: Final = 2.0
"""Seconds that a response, whose bytes are here, waits for checksums."""
CHECKSUM_PAUSE: Final = 10.0
"""Seconds without a request after a failure (forebay.metadata.negative_cache)."""

_log = logging.getLogger(__name__)


class ObjectChecksums:
    """Looks checksums up, once for all readers that want them."""

    def __init__(self, reads: ObjectReads, heads: ObjectHeads, lookups: SharedLookups) -> None:
        self._reads = reads
        self._heads = heads
        self._lookups = lookups
        self._negative = NegativeCache(CHECKSUM_PAUSE)
        self.timeout = CHECKSUM_TIMEOUT
        self._needs_head = False
        """Whether the last opening by a reader that wanted checksums came without them."""

    async def lookup(self, name: ObjectName, head: Head, identity: OriginIdentity | None = None) -> Head:
        """Returns `head` with the object's checksums, if they arrive in time."""
        known = self._heads.current(name)
        if not head.by_id and known is not None and known.generation == head.generation:
            head = known
        if head.by_id or not checksums_missing(head.facts):
            return head
        if self._negative.is_paused(name, identity, self._heads.clock()):
            return head
        self._needs_head = True
        try:
            async with asyncio.timeout(self.timeout):
                found, _ = await self._lookups.share(
                    name, LookupKey("checksums", identity), lambda _: self._fetch(name, head, identity)
                )
            self._negative.clear_timeouts()
            if isinstance(found, ResolvedVersion) and found.head.generation == head.generation:
                return found.head
        except TimeoutError:
            self._negative.add_timeout(name, identity, self._heads.clock())
            return head
        except ForebayError as error:
            _log.info("the checksums of %s could not be fetched: %s", name.path, error)
        self._negative.add_failure(name, identity, self._heads.clock())
        return head

    @property
    def is_prefetched(self) -> bool:
        """Whether openings by readers that want checksums have a HEAD beside them."""
        return self._needs_head

    def prefetch(self, name: ObjectName, identity: OriginIdentity | None) -> None:
        """Sends the HEAD beside an opening by a reader that wants checksums, where the origin is known to need it."""
        if self._needs_head:
            self._start(name, identity)

    def complete(self, name: ObjectName, head: Head, identity: OriginIdentity | None) -> None:
        """Sends the HEAD behind an opening for a reader that is still to come, if it came without checksums."""
        if checksums_missing(head.facts):
            self._start(name, identity)

    def _start(self, name: ObjectName, identity: OriginIdentity | None) -> None:
        key = LookupKey("checksums", identity)
        if self._lookups.find(name, key) is None and not self._negative.is_paused(name, identity, self._heads.clock()):
            self._lookups.start(name, key, self._fetch_beside_opening(name, identity))

    async def _fetch(self, name: ObjectName, head: Head, identity: OriginIdentity | None) -> Resolution:
        since = self._heads.now().tick
        answer = await self._send_head(name, identity)
        return Uncacheable("no facts") if answer is None else self._store(name, head, answer, since)

    async def _fetch_beside_opening(self, name: ObjectName, identity: OriginIdentity | None) -> Resolution:
        """A failure is a result here, as nobody may be waiting for this look-up."""
        since = self._heads.now().tick
        try:
            answer = await self._send_head(name, identity)
            opening = self._lookups.find(name, LookupKey("GET", identity))
            if opening is not None:
                await opening.wait()
        except ForebayError as error:
            return Uncacheable(f"no facts: {error}")
        head = self._heads.current(name)
        if answer is None or head is None:
            return Uncacheable("no facts")
        self._needs_head = checksums_missing(head.facts)
        return self._store(name, head, answer, since)

    async def _send_head(self, name: ObjectName, identity: OriginIdentity | None) -> ObjectOpened | None:
        answer = await self._reads.open_read(name, OriginRead("HEAD"), credential=await request_credential(identity))
        return answer if isinstance(answer, ObjectOpened) else None

    def _store(self, name: ObjectName, head: Head, answer: ObjectOpened, since: Tick) -> Resolution:
        """Stores and returns `head` with the facts of a HEAD that was sent at `since`."""
        if answer.facts.version != head.version or answer.facts.size != head.size:
            return Uncacheable("another version")
        head = replace(head, facts=self._heads.with_known_facts(name, answer.facts))
        self._heads.store(name, head, since)
        return ResolvedVersion(head, "revalidated")
