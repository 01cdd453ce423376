"""Direct fetches: versions of one block, fetched for background work without a task.

    begin ──> request sent ──all of the version has come──> landed
       │            └── anything else ──> a task reads the run, with the request that was sent   (fetch.run_reader)
       └──> False: not a plain case, a task reads the run

The request is that of an opening (metadata.direct_openings): it has no `If-Match`, as a condition of its own would make
its signature anew for each object. The response names the version of its bytes, and only those of the flight's version
land; the task judges any other response as one to a pinned read.

A reader that joins the flight of a large body wants its first bytes as they come: the task takes it over at once.
"""

from typing import Final, Protocol

from forebay.core.byte_ranges import Span
from forebay.core.fences import RequestTime, Tick
from forebay.core.requester import BACKGROUND
from forebay.fetch.fetch_request import FetchRequest
from forebay.fetch.flight import Flight
from forebay.origin.reads.object_reads import ObjectReads
from forebay.origin.reads.sent_reads import SentRead
from forebay.storage.slab_allocator import POPULATED_AT_REST, POPULATED_BRIEFLY, allocate_buffer

_NOT_STORED: Final = RequestTime(Tick(0), 0.0)
"""Facts of the response are compared, and not stored."""


class DirectFetchOwner(Protocol):
    """The side of the fetcher."""

    def land_fetched(self, fetch: FetchRequest, flight: Flight, whole: memoryview) -> None:
        """Lands all bytes of the version."""

    def go_on(self, fetch: FetchRequest, flight: Flight, sent: SentRead) -> None:
        """Reads the run in a task, with the request that was sent."""


class DirectFetch:
    """One fetch. Implements origin.reads.sent_reads.ReadReceiver."""

    __slots__ = ("_fetch", "_flight", "_owner", "_sent")

    def __init__(self, owner: DirectFetchOwner, fetch: FetchRequest, flight: Flight) -> None:
        """`flight`: of the one block of the version, and of `fetch`."""
        self._owner, self._fetch, self._flight = owner, fetch, flight
        self._sent: SentRead | None = None

    def begin(self, reads: ObjectReads) -> bool:
        """Sends the request. Returns False where something would have to be waited for."""
        view = self._fetch.view
        span = Span(0, view.head.block_size)
        self._sent = reads.send_read(view.name, span, BACKGROUND, _NOT_STORED, self)
        return self._sent is not None

    def make_room(self, size: int, is_beside_demand: bool) -> memoryview | None:
        """Returns a buffer for the whole body, if it may be the version's and no reader waits for its first bytes."""
        flight, sent = self._flight, self._sent
        if sent is None or size != flight.length or flight.is_demanded or not flight.is_wanted:
            return None
        flight.on_demand(sent.hurry)
        return allocate_buffer(size, populated=POPULATED_BRIEFLY if is_beside_demand else POPULATED_AT_REST)

    def answered(self) -> None:
        """Ends the request: the origin has answered, is late, or can't be reached."""
        sent, flight = self._sent, self._flight
        if sent is None:
            return
        self._sent = None
        facts, known = sent.whole(), self._fetch.view.head
        is_version = facts is not None and (facts.size, facts.version.etag) == (known.size, known.version.etag)
        whole = sent.take_whole() if is_version else None
        if whole is None:
            self._owner.go_on(self._fetch, flight, sent)
        else:
            self._owner.land_fetched(self._fetch, flight, whole)
