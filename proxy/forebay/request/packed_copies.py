"""Copies of members of packs: the origin has no object of the source's name, so it is sent the bytes.

    CopyObject, UploadPartCopy ──source is an object──> as it is                          copied by the origin
                               ──source is a member──> PutObject, UploadPart, with its bytes as the body

The conditions and the range are evaluated here; the answer is a copy's. What is copied with the bytes are the headers
of the member, or with `x-amz-metadata-directive: REPLACE` those of the request. In all else the write is a PUT:
permission, rule, journal, invalidation. The admission has checked that the principal may read the source.

https://docs.aws.amazon.com/AmazonS3/latest/API/API_CopyObject.html, API_UploadPartCopy.html
"""

import re
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import Final

from multidict import CIMultiDict, CIMultiDictProxy

from forebay.core.byte_ranges import Span
from forebay.core.errors import S3Error
from forebay.core.heads import Head, HeaderPairs
from forebay.fetch.block_source import BlockSource
from forebay.fetch.fetch_request import ObjectView
from forebay.fetch.ordered_body import OrderedBody
from forebay.metadata.lookup_request import LookupRequest
from forebay.metadata.packed_objects import PackedObjects
from forebay.metadata.resolution import ResolvedVersion
from forebay.origin.origin_checks import NULL_VERSION, SOURCE_OWNER, OriginChecks
from forebay.policy.rules import Rules
from forebay.protocol.conditions import Proceed, evaluate_conditions
from forebay.protocol.copy_source import COPY_SOURCE, parse_copy_source
from forebay.protocol.dates import format_document_time
from forebay.protocol.exchange import EMPTY_BODY
from forebay.protocol.header_map import Headers
from forebay.protocol.operations import classify
from forebay.protocol.xml.s3_documents import copied_document, copied_part_document
from forebay.request.document_reply import DocumentReply
from forebay.write.forward_request import WriteContext

COPIES: Final = frozenset({"CopyObject", "UploadPartCopy"})
_DIRECTIVE: Final = "x-amz-metadata-directive"
_TAGGING: Final = "x-amz-tagging"
_RANGE: Final = re.compile(r"bytes=([0-9]{1,18})-([0-9]{1,18})")
_METADATA: Final = re.compile(
    r"content-(type|encoding|language|disposition)|cache-control|expires|x-amz-meta-.*", re.IGNORECASE
)
"""Headers that a copy takes from its source; also those that a request which replaces them sets."""
_STORED_AS: Final = ("x-amz-storage-class", "x-amz-server-side-encryption", "x-amz-website-redirect-location")
"""Prefixes of the headers about the storage of an object."""
_OF_COPIES: Final = (
    *(COPY_SOURCE, _DIRECTIVE, "x-amz-tagging-directive", "content-", "x-amz-content-sha256", "x-amz-checksum-"),
    *("x-amz-sdk-checksum-", "x-amz-trailer", "x-amz-decoded-content-length", SOURCE_OWNER),
)
"""Prefixes of the headers of a copy that a PUT of the bytes does not have: it has another body."""
_REPLACED: Final = ("etag", "content-length", "content-type", "x-amz-checksum-")


class PackedCopies:
    """Finds copies of members. Keeps no state. `clock`: seconds since the epoch."""

    def __init__(
        self,
        packed: PackedObjects,
        source: BlockSource,
        rules: Callable[[], Rules],
        clock: Callable[[], float],
        checks: OriginChecks,
    ) -> None:
        self._packed = packed
        self._source = source
        self._rules = rules
        self._clock = clock
        self._checks = checks

    async def as_write(self, context: WriteContext) -> WriteContext:
        """The write of the bytes that a copy of a member stands for; any other copy as it is. `context`: of one of
        COPIES. Raises S3Error, OriginError, Throttled."""
        forward = context.forward
        source = parse_copy_source(forward.request.headers)
        if source is None or source.version_id not in {None, NULL_VERSION}:
            return context
        decision = self._rules().decide(source.name)
        if decision.packed is None:
            return context
        resolution = await self._packed.resolve(LookupRequest(source.name, decision, None, identity=forward.identity))
        if not isinstance(resolution, ResolvedVersion) or resolution.stored is None:
            return context
        head, sent = resolution.head, forward.request.headers
        shard, identity = resolution.stored.name, forward.identity
        if source.version_id is not None and not await self._checks.is_null_version(source.name, shard, identity):
            return context
        await self._checks.check_owner(*shard, sent, identity, header=SOURCE_OWNER)
        _check_conditions(sent, head)
        is_part = forward.operation.name == "UploadPartCopy"
        if not is_part and sent.get(_DIRECTIVE, "COPY") not in {"COPY", "REPLACE"}:
            argument = {"ArgumentName": _DIRECTIVE, "ArgumentValue": sent[_DIRECTIVE]}
            raise S3Error("InvalidArgument", "Unknown metadata directive.", **argument)
        if not is_part and source.name == forward.target.name and not _changes_something(sent):
            raise S3Error("InvalidRequest", "An object is copied to itself only with other metadata or storage.")
        span = _span_of(sent, head.size) if is_part else Span(0, head.size)
        view = resolution.view(source.name, decision.rule, forward.identity)
        headers = CIMultiDictProxy(CIMultiDict((*_put_headers(sent, head), ("Content-Length", str(span.length)))))
        body = _MemberBody(self._source, view, resolution.located(span)) if span.length else EMPTY_BODY
        request = forward.request._replace(method="PUT", headers=headers, body=body, has_body=span.length > 0)
        put = forward._replace(
            request=request, operation=classify("PUT", forward.target, headers), signed=None, spooled=None
        )
        document = copied_part_document if is_part else copied_document

        def answer_copy(etag: str) -> tuple[int, HeaderPairs, bytes]:
            return 200, (("Content-Type", "application/xml"),), document(etag, format_document_time(self._clock()))

        return context._replace(forward=put, reply=DocumentReply(context.reply, answer_copy, _REPLACED))


@dataclass(frozen=True, slots=True)
class _MemberBody:
    """The bytes of a member. Implements forebay.protocol.exchange.Body."""

    source: BlockSource
    view: ObjectView
    span: Span

    async def pieces(self) -> AsyncIterator[bytes]:
        """The bytes, from the tiers or the origin."""
        body = OrderedBody(self.source, self.view, self.span)
        try:
            await body.plan()
            async with aclosing(body.pieces()) as pieces:
                async for _, buffer in pieces:
                    yield bytes(buffer)
        finally:
            body.close()


def _check_conditions(sent: Headers, head: Head) -> None:
    conditions = CIMultiDict(
        (name[len(COPY_SOURCE) + 1 :], value)
        for name, value in sent.items()
        if name.lower().startswith(f"{COPY_SOURCE}-if-")
    )
    verdict = evaluate_conditions(CIMultiDictProxy(conditions), head.version.etag, head.facts.last_modified)
    if not isinstance(verdict, Proceed):
        raise S3Error("PreconditionFailed", Condition=f"{COPY_SOURCE}-{min(conditions)}")


def _changes_something(sent: Headers) -> bool:
    """Whether a copy to its own source is none of the same."""
    return _is_replaced(sent) or any(name.lower().startswith(_STORED_AS) for name in sent)


def _is_replaced(sent: Headers) -> bool:
    return sent.get(_DIRECTIVE, "COPY") == "REPLACE"


def _span_of(sent: Headers, size: int) -> Span:
    """The bytes that an UploadPartCopy copies."""
    value = sent.get(f"{COPY_SOURCE}-range")
    if value is None:
        return Span(0, size)
    found = _RANGE.fullmatch(value)
    span = Span(int(found[1]), int(found[2]) + 1) if found is not None and int(found[1]) <= int(found[2]) else None
    if span is None:
        raise _range_error("must be bytes=first-last", value)
    if span.stop > size:
        raise _range_error(f"is not inside the source, which has {size} bytes", value)
    return span


def _range_error(problem: str, value: str) -> S3Error:
    name = f"{COPY_SOURCE}-range"
    return S3Error("InvalidArgument", f"{name} {problem}.", ArgumentName=name, ArgumentValue=value)


def _put_headers(sent: Headers, head: Head) -> HeaderPairs:
    """The headers of the PUT, but for its length."""
    metadata = sent.items() if _is_replaced(sent) else head.facts.headers
    kept = [pair for pair in metadata if _METADATA.fullmatch(pair[0])]
    has_tags = sent.get("x-amz-tagging-directive", "COPY").upper() == "REPLACE"
    others = [
        pair
        for pair in sent.items()
        if not _METADATA.fullmatch(pair[0])
        and not pair[0].lower().startswith(_OF_COPIES)
        and (has_tags or pair[0].lower() != _TAGGING)
    ]
    return (*others, *kept)
