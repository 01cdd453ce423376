"""Reading: a plain GET or HEAD of an object under a rule that accelerates it.

    freshness    which version is the current one, as far as the rule allows to believe it     (metadata.resolver)
    conditions   304, 412                                                                       (protocol.conditions)
    range        which bytes; 416                                                               (protocol.range_header)
    body         the bytes in order, from wherever they are                                     (fetch.ordered_body)

The head of the answer leaves with the first byte of the body, so that whatever goes wrong until then is told properly.
After that, what can't be finished is aborted. A version that is replaced meanwhile is no longer believed, and read
again from the start, a bounded number of times, while nothing has left; then, and wherever the origin's answer is not
fit for a cache, the request is passed on as if there were no rule.
"""

from collections.abc import Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import Final, assert_never

from multidict import CIMultiDict

from forebay.core.byte_ranges import Span
from forebay.core.errors import OriginRefused, OriginUnfit, S3Error, VersionChanged
from forebay.core.heads import HeaderPairs
from forebay.core.names import ObjectName
from forebay.core.request_record import CacheStatus, RequestRecord
from forebay.fetch.ordered_body import BlockSource, ByteSource, OrderedBody
from forebay.metadata.resolver import Opening, ResolvedVersion, Resolver
from forebay.origin.origin_identity import OriginIdentity
from forebay.origin.read_outcomes import ErrorResponse, Uncacheable
from forebay.policy.access import Permit
from forebay.policy.coalescing import Place
from forebay.policy.freshness import asks_revalidation
from forebay.policy.rules import Decision
from forebay.protocol.conditions import NotModified, PreconditionFailed, Proceed, judge_conditions, range_applies
from forebay.protocol.exchange import Reply, Request
from forebay.protocol.forwarded_headers import passed_headers
from forebay.protocol.range_header import (
    WHOLE,
    FromTo,
    RangeSpec,
    Suffix,
    Unsatisfiable,
    Whole,
    parse_range,
    range_of,
    resolve,
    within,
)
from forebay.protocol.read_variants import PLAIN, ReadVariant
from forebay.protocol.response_headers import (
    asks_checksums,
    not_modified_headers,
    partial_headers,
    whole_headers,
)

MAX_TRIES: Final = 3
"""How often a read starts over because the object was replaced under it."""
_CONDITIONS: Final = ("If-None-Match", "If-Modified-Since", "If-Unmodified-Since")


@dataclass(frozen=True, slots=True)
class Bypass:
    """Nothing was answered: the request is to be passed on as it is."""

    reason: str


class ObjectReader:
    """Answers plain reads."""

    def __init__(self, resolver: Resolver, supply: BlockSource) -> None:
        self._resolver = resolver
        self._supply = supply

    async def answer(
        self,
        permit: Permit,
        name: ObjectName,
        request: Request,
        decision: Decision,
        reply: Reply,
        record: RequestRecord,
        variant: ReadVariant = PLAIN,
        identity: OriginIdentity | None = None,
    ) -> Bypass | None:
        """Answer, or say that the request is to be passed on. `permit` is the proof that `name` may be read;
        `identity`: in whose name the origin is asked.

        Raises S3Error, OriginError and Throttled while nothing has left, and OriginError after that: the caller aborts.
        """
        if not permit.covers(name):
            raise S3Error("AccessDenied")
        spec = parse_range(range_of(request.headers))
        no_cache = asks_revalidation(request.headers)
        for _ in range(MAX_TRIES):
            record.step = "freshness"
            first = _first_span(request, spec, decision.block, self._supply.bounds.edge.max_run)
            opening = Opening(first, checksums=isinstance(spec, Whole) and asks_checksums(request.headers))
            if variant.version_id is None:
                found = await self._resolver.resolve(name, decision, opening, no_cache=no_cache, identity=identity)
            elif identity is not None:
                return Bypass("a version, and a principal with its own origin credential")
            else:
                found = await self._resolver.versions.resolve(
                    name, variant.version_id, decision, opening.span, no_cache=no_cache
                )
            match found:
                case ResolvedVersion():
                    pass
                case ErrorResponse() if request.method == "GET" and not found.body:
                    return Bypass("refused without a document")  # as it was asked by HEAD: the origin may say more
                case ErrorResponse():
                    await self._refuse(found.status, found.headers, found.body, request, reply, record)
                    return None
                case Uncacheable(reason):
                    return Bypass(reason)
                case _:
                    assert_never(found)
            try:
                await self._answer_from(found, name, request, spec, decision, variant, reply, record, identity)
            except VersionChanged:
                await self._resolver.invalidate(name, found.head)
                if reply.started:
                    raise
            except OriginUnfit as unfit:
                if reply.started:
                    raise
                return Bypass(unfit.reason)
            except OriginRefused as refusal:
                if identity is not None:
                    self._resolver.permissions.revoke(identity, name)
                if reply.started:
                    raise
                await self._refuse(refusal.status, refusal.headers, refusal.body, request, reply, record)
                return None
            else:
                return None
        return Bypass("replaced again and again while it was read")

    async def _answer_from(
        self,
        known: ResolvedVersion,
        name: ObjectName,
        request: Request,
        spec: RangeSpec,
        decision: Decision,
        variant: ReadVariant,
        reply: Reply,
        record: RequestRecord,
        identity: OriginIdentity | None,
    ) -> None:
        head, headers = known.head, request.headers
        etag, last_modified = head.version.etag, head.facts.last_modified
        verdict = judge_conditions(headers, etag, last_modified)
        match verdict:
            case NotModified():
                await _start(reply, record, 304, not_modified_headers(head.facts), None, _head_status(known))
                await reply.finish()
                return
            case PreconditionFailed(condition):
                record.cache = _head_status(known)
                raise S3Error("PreconditionFailed", Condition=condition)
            case Proceed():
                pass
            case _:
                assert_never(verdict)
        if not range_applies(headers.get("If-Range"), etag, last_modified):
            spec = WHOLE
        oss = request.oss_request
        if oss is not None and oss.lenient_range:
            spec = within(spec, head.size)
        span = resolve(spec, head.size)
        if isinstance(span, Unsatisfiable):
            record.cache = _head_status(known)
            raise S3Error("InvalidRange", RangeRequested=headers.get("Range", ""), ActualObjectSize=str(head.size))
        whole = isinstance(spec, Whole)
        status = 200 if whole else 206

        async def fields() -> HeaderPairs:
            if not whole:
                return variant.overridden(partial_headers(head.facts, span, oss=oss is not None))
            checksums = asks_checksums(headers)
            told = await self._resolver.checksums.lookup(name, head, identity) if checksums else head
            return variant.overridden(whole_headers(told.facts, checksums=checksums, oss=oss is not None))

        if request.method == "HEAD" or not span.length:
            await _start(reply, record, status, await fields(), span.length, _head_status(known))
            await reply.finish()
            return
        body = OrderedBody(
            self._supply, name, head, span, decision.rule, known.flights, joined=known.joined, identity=identity
        )
        await self._stream(body, known, status, fields, reply, record)

    async def _stream(
        self,
        body: OrderedBody,
        known: ResolvedVersion,
        status: int,
        fields: Callable[[], Awaitable[HeaderPairs]],
        reply: Reply,
        record: RequestRecord,
    ) -> None:
        try:
            record.step = "plan"
            whole = body.single_buffer()
            if whole is None:
                await body.plan()
            pairs = await fields()  # now, as it may take a round trip: what is missing is on its way meanwhile
            cache = _body_status(known, body.locations)
            if whole is not None:
                source, buffer = whole
                await _start(reply, record, status, pairs, body.length, _with_worker_hit(cache, source, known))
                await reply.write(buffer)
                record.count_sent(source, len(buffer))
                await reply.finish()
                return
            record.step = "tiers" if cache.startswith("hit") else "flight"
            async with aclosing(body.pieces()) as pieces:
                async for source, buffer in pieces:
                    if not reply.started:
                        await _start(reply, record, status, pairs, body.length, _with_worker_hit(cache, source, known))
                    await reply.write(buffer)
                    record.count_sent(source, len(buffer))
            await reply.finish()
        finally:
            body.close()

    async def _refuse(
        self, status: int, headers: HeaderPairs, body: bytes, request: Request, reply: Reply, record: RequestRecord
    ) -> None:
        """The origin's own refusal, as it told it."""
        record.cache = "miss"
        fields = (
            *passed_headers(CIMultiDict(headers), oss=request.oss_request is not None),
            ("x-forebay-cache", "miss"),
        )
        await reply.start(status, fields, len(body))
        if body and request.method != "HEAD":
            await reply.write(body)
            record.count_sent("origin", len(body))
        await reply.finish()


async def _start(
    reply: Reply, record: RequestRecord, status: int, fields: HeaderPairs, length: int | None, cache: CacheStatus
) -> None:
    record.step, record.cache = "reply", cache
    await reply.start(status, (*fields, ("x-amz-request-id", record.request_id), ("x-forebay-cache", cache)), length)


def _first_span(request: Request, spec: RangeSpec, block: int, max_run: int) -> Span | None:
    """What to ask for first, should the origin have to be asked: the blocks that are wanted anyway, or only the head
    where they may not be wanted (a condition) or can't be told without the size (a suffix)."""
    if request.method == "HEAD" or any(condition in request.headers for condition in _CONDITIONS):
        return None
    longest = max(block, max_run // block * block)
    match spec:
        case Whole():
            return Span(0, longest)
        case FromTo(start, last):
            first = start // block * block
            stop = first + longest if last is None else min(-(-(last + 1) // block) * block, first + longest)
            return Span(first, stop)
        case Suffix():
            return None
        case _:
            assert_never(spec)


def _head_status(known: ResolvedVersion) -> CacheStatus:
    """For answers that need no block."""
    match known.status:
        case "believed":
            return "hit-memory"
        case "checked":
            return "revalidated"
        case "opened":
            return "miss"


def _with_worker_hit(cache: CacheStatus, source: ByteSource, known: ResolvedVersion) -> CacheStatus:
    """The status, if the first bytes are of this source: what another worker had is no miss."""
    if source == "worker" and cache in {"miss", "partial"}:
        return "hit-worker" if known.status == "believed" else "revalidated"
    return cache


def _body_status(known: ResolvedVersion, places: list[Place]) -> CacheStatus:
    at_hand = sum(place in {Place.MEMORY, Place.SSD} for place in places)
    if at_hand < len(places):
        return "partial" if at_hand else "miss"
    if known.status != "believed":
        return "revalidated"
    return "hit-ssd" if Place.SSD in places else "hit-memory"
