"""Object reads: a GET or HEAD of an object under a rule that accelerates it.

    freshness    the current version, as far as the rule trusts what is cached        (forebay.metadata.resolver)
    conditions   304, 412                                                             (forebay.protocol.conditions)
    range        the span to send; 416                                                (forebay.protocol.range_header)
    body         the bytes in order, from tiers, flights and other workers            (forebay.fetch.ordered_body)

The response head leaves with the first byte of the body, so a failure before it is still an error response; after it,
the connection is aborted. An object that is replaced during the read is read again from the start, MAX_TRIES times at
most, as long as nothing has left. After that, and where the origin's response is not fit for a cache, the read is
bypassed to the origin as if there were no rule.

RFC 9110 sections 13 and 14, https://docs.aws.amazon.com/AmazonS3/latest/API/API_GetObject.html
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, assert_never

from multidict import CIMultiDict

from forebay.core.byte_ranges import Span
from forebay.core.errors import OriginError, OriginRefused, OriginUnfit, S3Error, VersionChanged
from forebay.core.heads import HeaderPairs
from forebay.core.names import ObjectName
from forebay.core.read_stream import ReadStream
from forebay.core.request_record import CacheStatus, RequestRecord
from forebay.fetch.block_source import BlockSource
from forebay.metadata.lookup_request import LookupRequest
from forebay.metadata.packed_objects import PackedObjects
from forebay.metadata.resolution import Resolution, ResolvedVersion
from forebay.metadata.resolver import Resolver
from forebay.origin.reads.read_outcomes import ErrorResponse, Uncacheable
from forebay.policy.freshness import requests_revalidation
from forebay.policy.rules import Decision
from forebay.protocol.conditions import NotModified, PreconditionFailed, Proceed, evaluate_conditions, range_applies
from forebay.protocol.exchange import ObjectReply, Request
from forebay.protocol.forwarded_headers import relayed_headers
from forebay.protocol.range_header import (
    WHOLE,
    ByteRange,
    SuffixRange,
    Unsatisfiable,
    WholeRange,
    parse_range,
    range_header,
    resolve,
    whole_unless_inside,
)
from forebay.protocol.response_headers import (
    not_modified_headers,
    partial_headers,
    requests_checksums,
    whole_headers,
)
from forebay.request.admission import Admission
from forebay.request.body_sender import BodySender
from forebay.request.read_context import ReadContext, Selection
from forebay.write.interim_responses import READ_INTERVAL, read_interims

MAX_TRIES: Final = 3
"""Reads of an object from its start, at most: it may be replaced during each."""
_FIRST_BYTE: Final = ByteRange(0, 0)


@dataclass(frozen=True, slots=True)
class Bypass:
    """The read was not answered, and the origin has to answer it."""

    reason: str


class ObjectReader:
    """Answers reads of objects from the cache."""

    def __init__(
        self, resolver: Resolver, source: BlockSource, reads: ReadStream, packed: PackedObjects | None = None
    ) -> None:
        """`reads`: gets each plain read that is answered with bytes, when its response head leaves. `packed`: resolves
        objects under rules with `packed`; None: there are no such rules."""
        self._resolver = resolver
        self._packed = packed or resolver
        self._source = source
        self._sender = BodySender(source, reads, self._headers)
        self.reads = reads
        self.interim_interval = READ_INTERVAL
        self.on_head_hint: Callable[[ObjectName], None] = lambda _name: None
        """The callback for a head hint: a HEAD with `Range: bytes=0-0` under a rule with `warm_on_head`."""

    async def answer(
        self, admission: Admission, request: Request, reply: ObjectReply, record: RequestRecord
    ) -> Bypass | None:
        """Answers a read; a Bypass means that nothing was sent and the origin is to answer. `request` in S3's terms.

        Raises S3Error, OriginError and Throttled while nothing has left, and OriginError after that.
        """
        name, decision, variant = admission.target.name, admission.decision, admission.variant
        if not admission.permit.covers(name):
            raise S3Error("AccessDenied")
        if decision is None or variant is None:
            return Bypass("not a read that a cache may answer")
        spec = parse_range(range_header(request.headers))
        read = ReadContext(admission, name, variant, decision, spec, request, reply, record)
        for _ in range(MAX_TRIES):
            record.step = "freshness"
            found = await self._resolve(read)
            match found:
                case ResolvedVersion():
                    pass
                case Bypass():
                    return found
                case ErrorResponse() if request.method == "GET" and not found.body:
                    return Bypass("refused without a document")  # a HEAD was refused: a GET may be told more
                case ErrorResponse():
                    await _relay_refusal(read, found.status, found.headers, found.body)
                    return None
                case Uncacheable(reason):
                    return Bypass(reason)
                case _:
                    assert_never(found)
            try:
                await self._answer_or_name_damage(found, read)
            except VersionChanged:
                view = found.view(name, decision.rule)
                await self._resolver.invalidate(view.name, view.head)
                if reply.started:
                    raise
            except OriginUnfit as unfit:
                if reply.started:
                    raise
                return Bypass(unfit.reason)
            except OriginRefused as refusal:
                if admission.identity is not None:
                    self._resolver.permissions.revoke(admission.identity, found.view(name, decision.rule).name)
                if reply.started:
                    raise
                await _relay_refusal(read, refusal.status, refusal.headers, refusal.body)
                return None
            else:
                return None
            finally:
                found.release_flights()
        return Bypass("replaced again and again while it was read")

    def first_span(self, decision: Decision) -> Span:
        """Returns the span to request first of an object that is read whole."""
        return _whole_span(decision.block, self._source.first_bytes())

    async def _resolve(self, read: ReadContext) -> Resolution | Bypass:
        """Returns the version to answer with."""
        identity, version_id, headers = read.admission.identity, read.variant.version_id, read.request.headers
        if version_id is not None and identity is not None:
            return Bypass("a version, and a principal with its own origin credential")
        resolver = self._resolver if read.decision.packed is None else self._packed
        lookup = LookupRequest(
            read.name,
            read.decision,
            _first_span(read, self._source.first_bytes()),
            checksums=isinstance(read.spec, WholeRange) and requests_checksums(headers),
            no_cache=requests_revalidation(headers),
            identity=identity,
            version_id=version_id,
        )
        if identity is None or not self._resolver.is_unsettled(read.name):
            return await resolver.resolve(lookup, leads=True)
        with read_interims(read.request, self.interim_interval):  # it waits until its credential can read the write
            return await resolver.resolve(lookup, leads=True)

    async def _answer_or_name_damage(self, known: ResolvedVersion, read: ReadContext) -> None:
        """Answers from `known`. Raises S3Error with the reason if the journal's bytes of a pending write are damaged:
        the origin does not have them yet."""
        try:
            await self._answer_from(known, read)
        except OriginError:
            damage = self._source.tiers.damage(read.name, known.head.generation)
            if damage is None or read.reply.started:
                raise
            message = f"The object is not at the origin yet, and its bytes in the journal can't be read: {damage}."
            raise S3Error("ServiceUnavailable", message) from None

    async def _answer_from(self, known: ResolvedVersion, read: ReadContext) -> None:
        head, headers, spec = known.head, read.request.headers, read.spec
        etag, last_modified = head.version.etag, head.facts.last_modified
        verdict = evaluate_conditions(headers, etag, last_modified)
        match verdict:
            case NotModified():
                await read.start(304, not_modified_headers(head.facts), None, _head_status(known))
                await read.reply.finish()
                return
            case PreconditionFailed(condition):
                read.record.cache = _head_status(known)
                raise S3Error("PreconditionFailed", Condition=condition)
            case Proceed():
                pass
            case _:
                assert_never(verdict)
        if not range_applies(headers.get("If-Range"), etag, last_modified):
            spec = WHOLE
        oss_request = read.request.oss_request
        if oss_request is not None and oss_request.lenient_range:
            spec = whole_unless_inside(spec, head.size)
        span = resolve(spec, head.size)
        if isinstance(span, Unsatisfiable):
            read.record.cache = _head_status(known)
            raise S3Error("InvalidRange", RangeRequested=headers.get("Range", ""), ActualObjectSize=str(head.size))
        selected = Selection(known, span, is_whole=isinstance(spec, WholeRange))
        if read.request.method == "HEAD" or not span.length:
            pairs = await self._headers(read, selected)
            await read.start(selected.status, pairs, span.length, _head_status(known))
            await read.reply.finish()
            if read.decision.warm_on_head and read.request.method == "HEAD" and spec == _FIRST_BYTE:
                self._hint(read)
        else:
            await self._sender.send(read, selected)

    def _hint(self, read: ReadContext) -> None:
        # The warm-up reads the current version with Forebay's credential.
        if read.admission.identity is None and read.admission.operation.is_plain_read:
            self.on_head_hint(read.name)

    async def _headers(self, read: ReadContext, selected: Selection) -> HeaderPairs:
        """The headers of the object. May take a round trip to the origin, for checksums."""
        head, oss = selected.known.head, read.request.oss_request is not None
        if not selected.is_whole:
            return read.variant.overridden(partial_headers(head.facts, selected.span, oss=oss))
        checksums = requests_checksums(read.request.headers)
        if checksums:
            head = await self._resolver.checksums.lookup(read.name, head, read.admission.identity)
        return read.variant.overridden(whole_headers(head.facts, checksums=checksums, oss=oss))


async def _relay_refusal(read: ReadContext, status: int, headers: HeaderPairs, body: bytes) -> None:
    """Answers with the origin's own refusal."""
    request, reply = read.request, read.reply
    read.record.cache = "miss"
    passed = relayed_headers(CIMultiDict(headers), oss=request.oss_request is not None)
    await reply.start(status, (*passed, ("x-forebay-cache", "miss")), len(body))
    if body and request.method != "HEAD":
        await reply.write(body)
        read.record.count_sent("origin", len(body))
    await reply.finish()


def _first_span(read: ReadContext, max_run: int) -> Span | None:
    """The span to request first if the origin has to be asked: whole blocks that are wanted anyway, at most `max_run`
    bytes. None for the head alone, where no block may be wanted (a condition) or the span depends on the size (a
    suffix)."""
    headers, block = read.request.headers, read.decision.block
    if read.request.method == "HEAD" or "If-None-Match" in headers:
        return None
    if "If-Modified-Since" in headers or "If-Unmodified-Since" in headers:
        return None
    longest = _whole_span(block, max_run).stop
    match read.spec:
        case WholeRange():
            return Span(0, longest)
        case ByteRange(start, last):
            first = start // block * block
            stop = first + longest if last is None else min(-(-(last + 1) // block) * block, first + longest)
            return Span(first, stop)
        case SuffixRange():
            return None
        case _:
            assert_never(read.spec)


@lru_cache(maxsize=64)  # the same for nearly all reads
def _whole_span(block: int, max_run: int) -> Span:
    return Span(0, max(block, max_run // block * block))


def _head_status(known: ResolvedVersion) -> CacheStatus:
    """The cache status of a response without bytes."""
    match known.status:
        case "fresh":
            return "hit-memory"
        case "revalidated":
            return "revalidated"
        case "fetched":
            return "miss"
