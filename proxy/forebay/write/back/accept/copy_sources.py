"""Copy sources: opens the bytes of a copy that the journal accepts, which are read during the request. The copy is an
UploadPartCopy into an upload of the journal, or a CopyObject of a pending object.

    pending here     the bytes that the journal has: what readers see
    anything else    read from the origin, pinned to the version that the conditions were judged by

The origin is asked with the credential of the principal that copies, as by any read of the source.

https://docs.aws.amazon.com/AmazonS3/latest/API/API_UploadPartCopy.html
"""

import re
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Final

from multidict import CIMultiDict

from forebay.core.buffers import Piece
from forebay.core.byte_ranges import Span
from forebay.core.errors import S3Error, VersionChanged
from forebay.core.heads import Head, ObjectFacts
from forebay.core.names import ObjectName
from forebay.origin.origin_identity import request_credential
from forebay.origin.origin_request import RequestCredential
from forebay.origin.origins import Origins
from forebay.origin.reads.origin_read import OriginRead
from forebay.origin.reads.read_outcomes import ErrorResponse, ObjectOpened, ReadOutcome
from forebay.protocol.conditions import PreconditionFailed, Proceed, evaluate_conditions
from forebay.protocol.copy_source import COPY_SOURCE, CopySource, parse_copy_source
from forebay.protocol.header_map import Headers
from forebay.storage.journal.body_file import BodyDamaged
from forebay.storage.journal.pending_objects import PendingObjects, PendingVersion
from forebay.write.forward_request import ForwardRequest

_RANGE: Final = re.compile("bytes=([0-9]{1,18})-([0-9]{1,18})")
_CONDITION: Final = f"{COPY_SOURCE}-if-"
_PIECE: Final = 1 << 20
_CHANGED: Final = "The source of the copy has changed meanwhile. Please try again."


@dataclass(frozen=True, slots=True)
class SourceBody:
    """The bytes of a copy."""

    size: int
    pieces: Callable[[], AsyncIterator[Piece]]
    """Yields them, once. Raises S3Error, OriginError, Throttled."""


class CopySources:
    """Opens the sources of copies."""

    def __init__(self, origins: Origins, pending: PendingObjects) -> None:
        self._origins = origins
        self._pending = pending

    async def open(self, forward: ForwardRequest) -> SourceBody:
        """Returns the source of an UploadPartCopy. Raises S3Error as the origin would, OriginError, Throttled."""
        source, headers = parse_copy_source(forward.request.headers), forward.request.headers
        if source is None:
            raise S3Error("InvalidArgument", "A copied part has a source.", ArgumentName=COPY_SOURCE)
        version = self._pending.current(source.name) if source.version_id is None else None
        if version is not None:
            return self.pending_body(source.name, version, _judge(headers, _head_of(version).facts))
        credential = await request_credential(forward.identity)
        facts = await self._facts_of(source, credential)
        span = _judge(headers, facts)
        return SourceBody(span.length, lambda: self._origin_pieces(source, facts, span, credential))

    def pending_body(self, name: ObjectName, version: PendingVersion, span: Span) -> SourceBody:
        """Returns bytes of a version that is pending."""
        return SourceBody(span.length, lambda: self._pending_pieces(name, version, span))

    async def _facts_of(self, source: CopySource, credential: RequestCredential | None) -> ObjectFacts:
        outcome = await self._origins.open_read(
            source.name, OriginRead("HEAD", version_id=source.version_id), credential=credential
        )
        return _opened(outcome).facts

    async def _origin_pieces(
        self, source: CopySource, facts: ObjectFacts, span: Span, credential: RequestCredential | None
    ) -> AsyncIterator[Piece]:
        if not span.length:
            return
        pin = facts.version if source.version_id is None else None  # a version never changes
        try:
            opened = _opened(
                await self._origins.open_read(
                    source.name, OriginRead(span=span, pin=pin, version_id=source.version_id), credential=credential
                )
            )
            try:
                while True:
                    room = memoryview(bytearray(_PIECE))
                    received = await opened.body.read_into(room)
                    if not received:
                        return
                    yield room[:received]
            finally:
                opened.body.close()
        except VersionChanged:
            raise S3Error("SlowDown", _CHANGED) from None

    async def _pending_pieces(self, name: ObjectName, version: PendingVersion, span: Span) -> AsyncIterator[Piece]:
        for start in range(span.start, span.stop, _PIECE):
            try:
                within = Span(start, min(start + _PIECE, span.stop))
                piece = await self._pending.read_version(name, version, within)
            except (OSError, BodyDamaged):
                if (damage := self._pending.damage_of(name)) is not None:
                    raise source_damaged(damage) from None
                raise S3Error("SlowDown", _CHANGED) from None  # it has arrived at the origin, and is gone here
            yield memoryview(piece)


def source_damaged(reason: str) -> S3Error:
    """Returns the refusal of a copy whose source is damaged in the journal and not at the origin: a retry does not
    help."""
    message = f"The source of the copy is not at the origin yet, and its bytes in the journal can't be read: {reason}."
    return S3Error("ServiceUnavailable", message)


def _head_of(version: PendingVersion) -> Head:
    if version.head is None:
        raise S3Error("NoSuchKey")
    return version.head


def _opened(outcome: ReadOutcome) -> ObjectOpened:
    """Returns the object. Raises S3Error in place of the origin's refusal, which has no document for a HEAD."""
    match outcome:
        case ObjectOpened():
            return outcome
        case ErrorResponse(status=404):
            raise S3Error("NoSuchKey")
        case ErrorResponse(status=401 | 403):
            raise S3Error("AccessDenied")
        case _:
            raise S3Error("ServiceUnavailable", "The source of the copy can't be read from the origin.")


def _judge(headers: Headers, facts: ObjectFacts) -> Span:
    """Returns the range that is copied. Raises S3Error for a false condition, and for a range that is not there."""
    stripped = [
        (name.lower().removeprefix(f"{COPY_SOURCE}-"), value)
        for name, value in headers.items()
        if name.lower().startswith(_CONDITION)
    ]
    result = evaluate_conditions(CIMultiDict(stripped), facts.version.etag, facts.last_modified)
    if not isinstance(result, Proceed):
        failed = result.condition if isinstance(result, PreconditionFailed) else "If-None-Match"
        raise S3Error("PreconditionFailed", Condition=f"{COPY_SOURCE}-{failed}")
    text = headers.get(f"{COPY_SOURCE}-range")
    if text is None:
        return Span(0, facts.size)
    found = _RANGE.fullmatch(text.strip())
    if found is None or not int(found[1]) <= int(found[2]) < facts.size:
        raise S3Error(
            "InvalidArgument",
            "The range is bytes=first-last, within the source.",
            ArgumentName=f"{COPY_SOURCE}-range",
            ArgumentValue=text,
        )
    return Span(int(found[1]), int(found[2]) + 1)
