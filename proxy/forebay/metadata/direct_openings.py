"""Direct openings: small objects that no tier knows, fetched without a task.

    begin ──> lookup shared, request sent ──┬── all of the object has come ──> head stored, block landed   (`opened`)
       └──> None: not a plain case          └── anything else ──> given up: the reader's task goes on      (`given up`)

A miss is plain if no lookup of its object is under way, and no write of it is pending or in doubt. It takes the steps
of the full way, in the same order: the head is stored unless a fence forbids it, the block is kept, and readers that
came meanwhile get the same bytes. The request goes to the origin, or to the worker that owns the object, which does the
same (peers.relayed_openings). Nothing else is decided here: the lookup and the request that was sent are given up to
the task of the reader, which shares the lookup like any other (metadata.shared_lookup).
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any, Final

from forebay.core.buffers import Buffer
from forebay.core.byte_ranges import Span
from forebay.core.heads import Head, head_of
from forebay.core.names import ObjectName
from forebay.core.requester import requester
from forebay.fetch.fetch_request import ObjectView
from forebay.fetch.fetcher import Fetcher
from forebay.fetch.flight import Flight
from forebay.metadata.head_replacement import HeadReplacement
from forebay.metadata.lookup_request import LookupRequest
from forebay.metadata.object_checksums import ObjectChecksums
from forebay.metadata.object_heads import ObjectHeads
from forebay.metadata.own_writes import OwnWrites
from forebay.metadata.resolution import Resolution, ResolvedVersion
from forebay.metadata.shared_lookup import BegunRead, LookupKey, SharedLookup, SharedLookups
from forebay.origin.reads.object_reads import ObjectReads
from forebay.origin.reads.sent_reads import SentRead
from forebay.peers.owners import Peers
from forebay.peers.relayed_openings import RelayedRead
from forebay.policy.rules import Decision
from forebay.protocol.response_headers import checksums_missing
from forebay.storage.slab_allocator import POPULATED_AT_REST, POPULATED_BRIEFLY, allocate_buffer

_OPENING: Final = LookupKey("GET", None)

_log = logging.getLogger(__name__)


class DirectOpenings:
    """Begins openings. Synchronous."""

    def __init__(
        self,
        reads: ObjectReads,
        fetcher: Fetcher,
        heads: ObjectHeads,
        lookups: SharedLookups,
        replacement: HeadReplacement,
        checksums: ObjectChecksums,
        own_writes: OwnWrites,
        peers: Peers,
    ) -> None:
        self.fetcher, self.heads, self.replacement = fetcher, heads, replacement
        self._reads, self._lookups, self._checksums = reads, lookups, checksums
        self._own_writes, self._peers = own_writes, peers

    def begin(
        self,
        name: ObjectName,
        decision: Decision,
        span: Span,
        principal: str,
        on_end: "Callable[[DirectOpening], None]",
        *,
        checksums: bool = False,
        needs_flight: bool = False,
    ) -> "DirectOpening | None":
        """Begins to open an object of which no tier has a head; None: it has to be opened in a task.

        `span`: the first bytes. `principal`: whose turn at the origin it takes. `on_end`: called when
        it has ended, unless it was closed. `checksums`: whether they are wanted as well. `needs_flight`: whether the
        bytes are followed, and not only used in `on_end`.
        """
        if not self.is_plain(name, decision) or (checksums and self._checksums.is_prefetched):
            return None
        lookup = self._lookups.begin(name, _OPENING)
        if lookup is None:
            return None
        opening = DirectOpening(self, name, decision, lookup, on_end, checksums=checksums, needs_flight=needs_flight)
        owner, requested = self._peers.claim(name), self.heads.now()
        sent: BegunRead | None
        if owner is None:
            sent = self._reads.send_read(name, span, principal, requested, opening)
        else:
            sent = owner.peer.openings.send(name, span, requested, opening.answered, opening.make_relay_room)
        if sent is None:
            lookup.end()
            return None
        opening.sent = sent
        self.heads.requests.enter(name)
        return opening

    def is_plain(self, name: ObjectName, decision: Decision) -> bool:
        """Whether no write of an object is pending, in doubt or being installed, and its rule does not validate each
        read."""
        return self._own_writes.are_settled(name) and not self.heads.is_always_checked(name, decision)

    async def open(
        self, request: LookupRequest, go_on: Callable[[BegunRead], Coroutine[Any, Any, Resolution]]
    ) -> Resolution | None:
        """Opens an object for a reader that has a task, which leads the lookup (SharedLookup.lead), and waits only once
        where the case is plain. None: it has to be opened in full. `go_on`: does that with a request under way."""
        if request.span is None or request.span.start or request.identity is not None:
            return None
        ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        opening = self.begin(
            request.name,
            request.decision,
            request.span,
            requester.get(),
            lambda _: None if ended.done() else ended.set_result(None),
            checksums=request.checksums,
            needs_flight=True,
        )
        if opening is None:
            return None
        try:
            await ended
        except BaseException:
            opening.close()
            raise
        return opening.resolved or await opening.lead(go_on)


class DirectOpening:
    """An opening. Implements origin.reads.sent_reads.ReadReceiver."""

    __slots__ = (
        "_charged",
        "_flight",
        "_lookup",
        "_needs_flight",
        "_on_end",
        "_openings",
        "body",
        "checksums",
        "decision",
        "head",
        "name",
        "sent",
        "was_kept",
    )

    def __init__(
        self,
        openings: DirectOpenings,
        name: ObjectName,
        decision: Decision,
        lookup: SharedLookup,
        on_end: "Callable[[DirectOpening], None]",
        *,
        checksums: bool,
        needs_flight: bool,
    ) -> None:
        self._openings, self.name, self.decision, self._lookup = openings, name, decision, lookup
        self._on_end: Callable[[DirectOpening], None] | None = on_end
        """Called when its request has ended; None from then on."""
        self.checksums, self._needs_flight = checksums, needs_flight
        self.sent: BegunRead
        self.head: Head | None = None
        """The head of the opened version. None: the reader's task resolves the version, and takes the lookup over."""
        self.body: Buffer | None = None
        """All bytes of the version, which may be used until `finish` is called. None: there was no buffer for
        them."""
        self.was_kept = False
        """Whether the owner of the object had a fresh copy, so that nothing was fetched."""
        self._flight: Flight | None = None
        """The flight of these bytes, where others share them."""
        self._charged = 0
        """The bytes of the buffer budget that the body takes on its way."""

    def _end_request(self) -> "Callable[[DirectOpening], None] | None":
        """Notes that its request has ended. Returns the callback for that, once."""
        on_end, self._on_end = self._on_end, None
        if on_end is not None:
            self._openings.heads.requests.leave(self.name)
        return on_end

    def make_room(self, size: int, is_beside_demand: bool) -> memoryview | None:
        """Returns a buffer for the whole body, if the object is one block and no reader waits for its first bytes."""
        if size > self.decision.block or self._lookup.is_awaited or not self._openings.fetcher.budget.try_reclaim(size):
            return None
        self._charged = size
        if isinstance(self.sent, SentRead):
            self._lookup.on_wait = self.sent.hurry
        return allocate_buffer(size, populated=POPULATED_BRIEFLY if is_beside_demand else POPULATED_AT_REST)

    def make_relay_room(self, size: int) -> memoryview | None:
        """Returns a buffer for the whole body of an answer of the owner, which has all of it."""
        if size > self.decision.block or not self._openings.fetcher.budget.try_reclaim(size):
            return None
        self._charged = size
        return allocate_buffer(size)

    def _release_room(self) -> None:
        charged, self._charged = self._charged, 0
        if charged:
            self._openings.fetcher.budget.release(charged)

    def answered(self) -> None:
        """Ends the request: the origin or the owner has answered, is late, or can't be reached."""
        try:
            self._store_opened()
        except Exception:
            _log.exception("the opening of %s failed", self.name.path)
            if not self._lookup.is_done:  # a task does it in full
                self.finish()
                self._flight = self.head = self.body = None
        on_end = self._end_request()
        self._release_room()  # unless a flight has it
        if on_end is not None:
            on_end(self)

    @property
    def resolved(self) -> ResolvedVersion | None:
        """The version that was opened; None: the opening was given up."""
        return None if self.head is None else self._resolved(self.head)

    def finish(self) -> None:
        """Ends the use of the bytes."""
        if self._flight is not None:
            self._flight.finish()

    async def lead(self, go_on: Callable[[BegunRead], Coroutine[Any, Any, Resolution]]) -> Resolution:
        """Leads the lookup on in the task of the caller, with the request that was sent."""
        try:
            return await self._lookup.lead(go_on(self.sent))
        finally:
            self.sent.close()

    def give_up(self) -> None:
        """Leaves the lookup to the next reader with a task that shares it. Ends it if the head is known by now."""
        self._lookup.give_up(self.sent)
        if self._openings.heads.current(self.name) is not None:
            self.abandon()

    def close(self) -> None:
        """Ends an opening whose reader is gone."""
        self._end_request()
        self._release_room()
        if self.head is None:
            self.give_up()
            self.abandon()
        else:
            self.finish()

    def abandon(self) -> None:
        """Ends an opening that was given up and not taken over."""
        self._lookup.abandon()

    def _store_opened(self) -> None:
        """Stores the head and keeps the block, unless the response, a fence or a missing buffer calls for a task."""
        openings, name, sent = self._openings, self.name, self.sent
        if openings.heads.current(name) is not None:
            return
        head = self._head_from_origin(sent) if isinstance(sent, SentRead) else sent.head
        if head is None or head.size > head.block_size or (self.checksums and checksums_missing(head.facts)):
            return
        if isinstance(sent, SentRead) and not openings.fetcher.may_land_whole(head):
            return  # an owner has compared its bytes with the CRC-64
        destination = openings.replacement.try_destination_over(None, name, head, sent.requested.tick)
        if destination is None:
            return
        self.head = head
        openings.heads.requests.note_shown(name, head)
        self.was_kept = isinstance(sent, RelayedRead) and sent.was_kept
        fetcher, view = openings.fetcher, ObjectView(name, head, self.decision.rule, None)
        is_from_origin, lookup = isinstance(sent, SentRead), self._lookup
        is_alone = not self._needs_flight and not lookup.is_awaited
        if not is_alone or destination != "tiers":
            openings.heads.put(name, head, destination)
        if is_alone:
            puts_head = destination == "tiers"
            self.body = fetcher.keep_whole(view, sent.take_whole, is_from_origin=is_from_origin, puts_head=puts_head)
            sent.close()  # unless its body was taken
            lookup.end()
            return
        charged, self._charged = self._charged, 0  # the flight's from now on, also where it fails
        flight = self._flight = fetcher.land_whole(
            view, sent.take_whole, is_from_origin=is_from_origin, is_charged=charged > 0
        )
        if flight is None:
            self._charged = charged
        self.body = flight.buffer if flight is not None else None
        if flight is not None and self.was_kept:
            flight.source = "worker"
        sent.close()
        lookup.complete(self._resolved(head))

    def _resolved(self, head: Head) -> ResolvedVersion:
        flight = self._flight
        return ResolvedVersion(head, "fresh" if self.was_kept else "fetched", {0: flight} if flight is not None else {})

    def _head_from_origin(self, sent: SentRead) -> Head | None:
        facts = sent.whole()
        if facts is None:
            return None
        facts = self._openings.heads.merged_facts(self.name, facts, None)
        return head_of(facts, self.decision.block, sent.requested.seconds)
