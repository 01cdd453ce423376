"""Direct misses: plain reads of small objects that no tier knows, answered without a task.

    AdmittedRead ──plain──> opening (metadata.direct_openings) ──opened──> response written in the same turn of the loop
         └── else           └── given up, or the response is not plain ──> a task (`Fallback`)
          task

The fast lane has admitted the read, as it does any. Only the simplest reads are answered here instead of by the gateway
and the object reader: of a whole object, without a condition, with Forebay's own key. The headers are those of the full
way, by the same functions.
"""

import time
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Final, Protocol, TypeAlias

from forebay.core.buffers import Buffer
from forebay.core.byte_ranges import Span
from forebay.core.events import ObjectRead
from forebay.core.fair_semaphore import SemaphoreShare
from forebay.core.heads import Head, HeaderPairs
from forebay.core.request_record import CacheStatus, RequestRecord, new_request_id
from forebay.metadata.direct_openings import DirectOpening, DirectOpenings
from forebay.protocol.response_headers import requests_checksums, whole_headers
from forebay.request.object_read import ObjectReader
from forebay.server.fastpath.direct_reply import MAX_JOINED_SIZE, DirectReply, ReplyConnection, plain_head
from forebay.server.fastpath.lane_answer import AdmittedRead
from forebay.server.request_service import RequestService

_SELECTING: Final = frozenset(
    {
        "cache-control",
        "if-match",
        "if-modified-since",
        "if-none-match",
        "if-range",
        "if-unmodified-since",
        "pragma",
        "range",
    }
)
"""Headers that may ask for another response than the whole object, or for a fresh one."""


class MissConnection(ReplyConnection, Protocol):
    """The connection of a miss."""

    peer: str

    def make_reply(
        self, record: RequestRecord, is_last: Callable[[], bool], isolation: HeaderPairs, *, is_head: bool
    ) -> DirectReply:
        """The reply to a read that this connection began, for a task that answers it."""
        ...

    def write_response(self, head: bytes, body: Buffer) -> None:
        """Writes a complete response."""

    def read_answered(self, *, keep_alive: bool) -> None:
        """The read that this connection began has been answered; `keep_alive`: another request may follow."""


Fallback: TypeAlias = Callable[[AdmittedRead, MissConnection, DirectOpening], None]
"""Answers a read in a task, which takes over the opening, or finds the opened object in the tiers."""


class DirectMisses:
    """Answers misses of one worker."""

    def __init__(
        self, openings: DirectOpenings, reader: ObjectReader, unsent: SemaphoreShare, requests: RequestService
    ) -> None:
        """`unsent`: bytes that may wait for slow clients."""
        self._openings, self._reader, self._reads, self._unsent = openings, reader, reader.reads, unsent
        self._requests = requests
        self._under_way: dict[DirectOpening, tuple[AdmittedRead, MissConnection]] = {}

    def __len__(self) -> int:
        """The number of misses under way."""
        return len(self._under_way)

    def begin(self, read: AdmittedRead, connection: MissConnection, fall_back: Fallback) -> bool:
        """Begins to answer a read, which is counted already. False: it is for a task, and nothing was done."""
        admission = read.admission
        decision, name = admission.decision, admission.name
        if (
            not read.is_unknown
            or read.method != "GET"
            or admission.identity is not None
            or admission.oss_request is not None
            or decision is None
            or name is None
            or decision.packed is not None
            or not _asks_for_whole(tuple(admission.headers))
        ):
            return False
        opening = self._openings.begin(
            name,
            decision,
            self._reader.first_span(decision),
            admission.principal.id,
            partial(self._end, read, connection, fall_back),
            checksums=requests_checksums(admission.headers),
        )
        if opening is None:
            return False
        self._under_way[opening] = read, connection
        return True

    def _end(self, read: AdmittedRead, connection: MissConnection, fall_back: Fallback, opening: DirectOpening) -> None:
        del self._under_way[opening]
        head, body = opening.head, opening.body
        if head is None:
            opening.give_up()
        if head is None or body is None or not self._answer(read, connection, opening, head, body):
            fall_back(read, connection, opening)
        opening.finish()

    def _answer(
        self, read: AdmittedRead, connection: MissConnection, opening: DirectOpening, head: Head, body: Buffer
    ) -> bool:
        """Writes the response. False: a task has to, and nothing was done."""
        admission, size, facts = read.admission, head.facts.size, head.facts
        cache: CacheStatus = "hit-worker" if opening.was_kept else "miss"
        if size > MAX_JOINED_SIZE and not self._unsent.has(size):
            return False
        record = _record(read, connection.peer, cache)
        headers = whole_headers(facts, checksums=opening.checksums)
        own = (("x-amz-request-id", record.request_id), ("x-forebay-cache", cache))
        try:
            start = plain_head(200, (*headers, *own), size, admission.policy.isolation_headers)
        except ValueError:
            return False
        if start is None or self._requests.is_draining:
            return False
        record.status, record.first_byte = 200, time.monotonic()
        transport = connection.transport
        if transport is None or transport.is_closing():
            record.aborted = True
        else:
            connection.write_response(start.encode("utf-8", "ignore"), body)
            record.count_sent("worker" if opening.was_kept else "flight", size)
            if self._reads.is_open and admission.decision is not None and admission.name is not None:
                name, rule, track = admission.name, admission.decision.rule, admission.decision.track
                span, share = Span(0, size), 1.0 if opening.was_kept else 0.0
                self._reads.add(ObjectRead(name, span, size, admission.principal.id, rule, cache, share, track))
        self._requests.finish(record)
        connection.read_answered(keep_alive=not record.aborted)
        return True

    def close(self) -> None:
        """Ends the misses under way."""
        under_way, self._under_way = self._under_way, {}
        for opening, (read, connection) in under_way.items():
            opening.close()
            record = _record(read, connection.peer)
            record.aborted = True
            self._requests.finish(record)
            if connection.transport is not None:
                connection.transport.abort()
            connection.read_answered(keep_alive=False)


def _record(read: AdmittedRead, peer: str, cache: CacheStatus = "miss") -> RequestRecord:
    admission, decision = read.admission, read.admission.decision
    bucket, key = admission.target.bucket or "", admission.target.key or ""
    return RequestRecord(
        read.method,
        read.started,
        new_request_id(),
        peer,
        admission.operation.name,
        admission.principal.id,
        bucket,
        key,
        decision.rule if decision is not None else "",
        cache,
        step="reply",
    )


@lru_cache(maxsize=256)  # the requests of a client have the same headers each time
def _asks_for_whole(names: tuple[str, ...]) -> bool:
    return _SELECTING.isdisjoint(name.lower() for name in names)
