"""The checksums of whole objects, for those who ask for them (x-amz-checksum-mode, which SDKs do by themselves).

Heads are learnt from answers to ranges, and these have no checksums at most origins: so an object may have to be asked
about once more, by HEAD, once a version. Where the origin is known to be of that kind, it is asked while the object is
being opened, lest its first reader wait for one answer after the other.

What can't be told soon is left out: what is at hand is not held up for it.
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from forebay.core.errors import ForebayError
from forebay.core.fences import Fences, Tick
from forebay.core.heads import Head, ObjectFacts
from forebay.core.names import ObjectName
from forebay.metadata.negative_cache import NegativeCache
from forebay.metadata.shared_lookup import LookupKey, Resolution, ResolvedVersion, SharedLookups
from forebay.origin.object_reads import OriginReads
from forebay.origin.origin_identity import OriginIdentity, secret_key_of
from forebay.origin.read_outcomes import ObjectOpened, Uncacheable
from forebay.protocol.response_headers import checksums_missing
from forebay.storage.tiers import Tiers

CHECKSUM_TIMEOUT: Final = 2.0
"""Seconds that an answer waits for the checksums of an object whose bytes it has."""
CHECKSUM_PAUSE: Final = 10.0
"""Seconds for which nobody asks again after that was in vain (forebay.metadata.negative_cache)."""

_log = logging.getLogger(__name__)


class ObjectChecksums:
    """Shares the questions about them. `clock`: seconds since the epoch."""

    def __init__(
        self,
        reads: OriginReads,
        tiers: Tiers,
        questions: SharedLookups,
        fences: Fences,
        clock: Callable[[], float],
        known_facts: Callable[[ObjectName, ObjectFacts], ObjectFacts],
        store: Callable[[ObjectName, Head, Tick], None],
    ) -> None:
        """`known_facts`, `store`: the resolver's, for what the origin has told."""
        self._reads, self._tiers = reads, tiers
        self._questions, self._fences, self._clock = questions, fences, clock
        self._known_facts, self._store = known_facts, store
        self._vain = NegativeCache(CHECKSUM_PAUSE)
        self.timeout = CHECKSUM_TIMEOUT
        self._apart = False
        """Whether the origin left out those of the object that somebody opened last who wanted them."""

    async def lookup(self, name: ObjectName, head: Head, identity: OriginIdentity | None = None) -> Head:
        """The head with the object's checksums, as far as they can be had."""
        known = self._tiers.head(name)
        if not head.by_id and known is not None and known.generation == head.generation:
            head = known
        if head.by_id or not checksums_missing(head.facts) or self._vain.is_paused(name, identity, self._clock()):
            return head
        self._apart = True
        try:
            async with asyncio.timeout(self.timeout):
                found, _ = await self._questions.share(
                    name, ("checksums", identity), lambda: self._ask(name, head, identity)
                )
            self._vain.clear_timeouts()
            if isinstance(found, ResolvedVersion) and found.head.generation == head.generation:
                return found.head
        except TimeoutError:
            self._vain.add_timeout(name, identity, self._clock())
            return head
        except ForebayError as error:
            _log.info("the checksums of %s could not be asked for: %s", name.path, error)
        self._vain.add_failure(name, identity, self._clock())
        return head

    def prefetch(self, name: ObjectName, identity: OriginIdentity | None) -> None:
        """The object is about to be opened by somebody who wants them: ask, if it has to be asked apart."""
        question: LookupKey = ("checksums", identity)
        if not self._apart or self._vain.is_paused(name, identity, self._clock()):
            return
        if self._questions.find(name, question) is None:
            self._questions.start(name, question, self._ask_beside(name, identity))

    async def _ask(self, name: ObjectName, head: Head, identity: OriginIdentity | None) -> Resolution:
        since = self._fences.now()
        answer = await self._facts(name, identity)
        return Uncacheable("no facts") if answer is None else self._with_facts(name, head, answer, since)

    async def _ask_beside(self, name: ObjectName, identity: OriginIdentity | None) -> Resolution:
        """Nobody may be waiting for this, so it fails with an answer."""
        since = self._fences.now()
        try:
            answer = await self._facts(name, identity)
            opening = self._questions.find(name, ("GET", identity))
            if opening is not None:
                await opening.wait()
        except ForebayError as error:
            return Uncacheable(f"no facts: {error}")
        head = self._tiers.head(name)
        if answer is None or head is None:
            return Uncacheable("no facts")
        self._apart = checksums_missing(head.facts)
        return self._with_facts(name, head, answer, since)

    async def _facts(self, name: ObjectName, identity: OriginIdentity | None) -> ObjectOpened | None:
        answer = await self._reads.open_read(name, None, method="HEAD", credential=await secret_key_of(identity))
        if not isinstance(answer, ObjectOpened):
            return None
        answer.body.close()
        return answer

    def _with_facts(self, name: ObjectName, head: Head, answer: ObjectOpened, since: Tick) -> Resolution:
        """The head with what a HEAD, sent at `since`, has told of it."""
        if answer.facts.version != head.version or answer.facts.size != head.size:
            return Uncacheable("another version")
        told = replace(head, facts=self._known_facts(name, answer.facts))
        self._store(name, told, since)
        return ResolvedVersion(told, "checked")
