"""The body sender: answers a read with the bytes that were selected, the head of the response before the first of them.

    whole with its head, as a miss of a small object ──> written at once
                  └── the client does not take all ──┐
    anything else ───────────────────────────────────┴──> an ordered body, piece by piece     (fetch.ordered_body)

While a client accepts nothing, its body is paused, and holds no piece.
"""

from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final, TypeAlias

from forebay.core.byte_ranges import Span
from forebay.core.events import ObjectRead
from forebay.core.heads import HeaderPairs
from forebay.core.read_stream import ReadStream
from forebay.core.request_record import CacheStatus
from forebay.fetch.block_source import BlockSource
from forebay.fetch.flight import Flight
from forebay.fetch.ordered_body import ByteSource, OrderedBody
from forebay.metadata.resolution import ResolvedVersion
from forebay.policy.coalescing import BlockState
from forebay.protocol.exchange import ObjectReply
from forebay.request.read_context import ReadContext, Selection

MAX_WRITTEN_SIZE: Final = 8 << 10
"""Bytes of a body that is copied for a client that does not accept it at once."""

MakeHeaders: TypeAlias = Callable[[ReadContext, Selection], Coroutine[Any, Any, HeaderPairs]]
"""Makes the headers of the object. May take a round trip to the origin."""


class BodySender:
    """See the module. `reads`: of this worker, see request.object_read."""

    def __init__(self, source: BlockSource, reads: ReadStream, make_headers: MakeHeaders) -> None:
        self._source = source
        self._reads = reads
        self._make_headers = make_headers

    async def send(self, read: ReadContext, selected: Selection) -> None:
        """Sends the head and the selected bytes. Raises the errors of reading them, also in the middle."""
        known = selected.known
        located = known.located(selected.span)
        landed = known.landed(located)
        if landed is None:
            body = self._body(read, known, located, known.flights)
            try:
                await self._send_ordered(read, selected, body)
            finally:
                body.close()
        else:
            await self._send_landed(read, selected, *landed)
        await read.reply.finish()

    def _body(
        self, read: ReadContext, known: ResolvedVersion, located: Span, flights: Mapping[int, Flight]
    ) -> OrderedBody:
        view = known.view(read.name, read.decision.rule, read.admission.identity)
        return OrderedBody(self._source, view, located, flights, joined=known.joined)

    async def _send_landed(self, read: ReadContext, selected: Selection, number: int, flight: Flight) -> None:
        """Sends bytes that are in one flight, which has landed: at once, as far as the client accepts them."""
        known, record, reply = selected.known, read.record, read.reply
        record.step = "flight"
        located, rest = known.located(selected.span), None
        flight.follow()
        try:
            headers = await self._make_headers(read, selected)
            source: ByteSource = "joined" if known.joined else flight.source
            await self._start(read, selected, headers, _with_worker_hit("miss", source, known), 0.0)
            first = number * known.block_size
            buffer, count = flight.buffer[located.start - first : located.stop - first], located.length
            if count <= MAX_WRITTEN_SIZE:
                await reply.write(buffer)
            else:
                count = reply.accept(buffer)
            record.count_sent(source, count)
            if count < located.length or reply.is_blocked:
                rest = self._body(read, known, located, {number: flight})
        finally:
            flight.leave()
        del flight, buffer  # a client that accepts nothing for hours must not keep them
        if rest is not None:
            try:
                rest.advance(count)
                if reply.is_blocked:
                    await _wait_for_client(reply, rest)
                await self._send_pieces(read, rest)
            finally:
                rest.close()

    async def _send_ordered(self, read: ReadContext, selected: Selection, body: OrderedBody) -> None:
        known, record, reply = selected.known, read.record, read.reply
        record.step = "plan"
        whole = body.single_buffer()
        if whole is None:
            await body.plan()
        headers = await self._make_headers(read, selected)  # after `plan`: missing blocks are under way meanwhile
        cached = _cached_share(body.locations)
        cache = _body_status(known, body.locations, cached)
        record.step = "tiers" if cache.startswith("hit") else "flight"
        # What is whole needs no plan, unless the client does not take it at once.
        source, piece = whole if whole is not None else await body.next_piece()
        await self._start(read, selected, headers, _with_worker_hit(cache, source, known), cached)
        if whole is not None and len(piece) <= MAX_WRITTEN_SIZE:
            await reply.write(piece)
            record.count_sent(source, len(piece))
            return
        count = reply.accept(piece)
        del piece, whole
        body.advance(count)
        record.count_sent(source, count)
        if reply.is_blocked:
            await _wait_for_client(reply, body)
        await self._send_pieces(read, body)

    async def _send_pieces(self, read: ReadContext, body: OrderedBody) -> None:
        """Sends the rest of a body."""
        reply = read.reply
        while not body.is_complete:
            source, piece = await body.next_piece()
            count = reply.accept(piece)
            body.advance(count)
            read.record.count_sent(source, count)
            if reply.is_blocked:
                del piece  # a client that accepts nothing for hours must not keep it
                await _wait_for_client(reply, body)

    async def _start(
        self, read: ReadContext, selected: Selection, headers: HeaderPairs, cache: CacheStatus, cached: float
    ) -> None:
        """Sends the head of a response with bytes."""
        await read.start(selected.status, headers, selected.span.length, cache)
        if self._reads.is_open and read.admission.operation.is_plain_read:
            size, principal, decision = selected.known.head.size, read.admission.principal.id, read.decision
            share = 1.0 if cache == "hit-worker" else cached
            rule, track = decision.rule, decision.track
            self._reads.add(ObjectRead(read.name, selected.span, size, principal, rule, cache, share, track))


async def _wait_for_client(reply: ObjectReply, body: OrderedBody) -> None:
    """Waits while the client accepts nothing. The body is paused meanwhile."""
    body.pause()
    try:
        await reply.drain()
    finally:
        body.resume()


def _with_worker_hit(cache: CacheStatus, source: ByteSource, known: ResolvedVersion) -> CacheStatus:
    """The status given the source of the first bytes: a block that another worker had is no miss."""
    if source == "worker" and cache in {"miss", "partial"}:
        return "hit-worker" if known.status == "fresh" else "revalidated"
    return cache


def _cached_share(states: list[BlockState]) -> float:
    """The share of the blocks of a response's first window that were in a tier."""
    return sum(state in {BlockState.MEMORY, BlockState.SSD} for state in states) / len(states)


def _body_status(known: ResolvedVersion, states: list[BlockState], cached: float) -> CacheStatus:
    """The cache status of a response with bytes, by where the blocks of its first window were, of which the share
    `cached` was in a tier."""
    if cached < 1.0:
        return "partial" if cached else "miss"
    if known.status != "fresh":
        return "revalidated"
    return "hit-ssd" if BlockState.SSD in states else "hit-memory"
