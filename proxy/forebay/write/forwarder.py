"""Passing on: what is not answered from the cache goes to the origin and back, re-signed and streamed both ways.

    client ──body──> decode, verify ──> re-frame ──> origin          a piece is in memory while it is under way
    client <──────── head and body, as told ──────── origin

The last bytes of an upload leave only when its signature, length and checksums were found right
(protocol.body.payload), so
a bad body never completes at the origin.

Some answers only begin with their status: CompleteMultipartUpload and copies may send 200 early, blanks to keep the
connection alive, and what came of it in the body. The end of such an answer waits until the outcome has been settled.
"""

import asyncio
import re
from base64 import b64encode
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from hashlib import md5, sha256
from typing import Final

from forebay.core.errors import OriginBroken, S3Error
from forebay.core.heads import HeaderPairs
from forebay.core.request_record import RequestRecord
from forebay.origin.origin_client import OriginClient
from forebay.origin.origin_identity import OriginIdentity, secret_key_of
from forebay.origin.origin_request import EMPTY_SHA256, OriginRequest
from forebay.origin.origin_response import OriginResponse
from forebay.protocol.body.declared_checksums import Kind
from forebay.protocol.body.payload import BodyReader, PayloadForm, never_right, payload_form
from forebay.protocol.exchange import Body, Reply, Request
from forebay.protocol.forwarded_headers import forwarded_headers, forwarded_query, passed_headers, signed_extensions
from forebay.protocol.operations import Operation
from forebay.protocol.signatures.verified import Signed
from forebay.protocol.target import Target
from forebay.protocol.xml.s3_documents import with_location
from forebay.storage.spool import SpooledBody
from forebay.write.upload_body import Tee, decode_piece, frame_body, trailer_for

RESULT_LIMIT: Final = 4 << 20
"""Bytes of a result document whose end is held back. A batch delete of 1,000 long keys has about two million."""
_READ_SIZE: Final = 4 << 10
"""Bytes of a document that are read in one stretch."""
BYPASS: Final = ("x-forebay-cache", "bypass")

# What S3 sends to keep a connection alive while it still works: the XML declaration, once, and blanks.
_KEEP_ALIVE: Final = re.compile(rb"\s*(?:<\?xml[^>]*\?>)?\s*")

Settle = Callable[[int, bytes], Awaitable[HeaderPairs]]
"""Told status and result document of an answer before its end is sent; gives what the answer is to say besides."""


@dataclass(frozen=True, slots=True)
class ForwardRequest:
    """A request that is to be passed on: understood, authenticated, authorised."""

    request: Request
    target: Target
    operation: Operation
    signed: Signed | None
    """None in open mode."""
    identity: OriginIdentity | None = None
    """In whose name the origin is asked; None: Forebay's own."""
    spooled: SpooledBody | None = None
    """What the body is held in, to be let go of when the request has been carried out."""

    @property
    def length(self) -> int | None:
        """How long its body was announced to be; None where it is framed otherwise."""
        value = self.request.headers.get("Content-Length", "")
        return int(value) if value.isascii() and value.isdecimal() and len(value) < 19 else None

    @property
    def speaks_oss(self) -> bool:
        return self.request.oss_request is not None


class Forwarder:
    """Passes parcels on. Holds nothing of them."""

    def __init__(self, origin: OriginClient, largest_body: int) -> None:
        self._origin = origin
        self._largest_body = largest_body

    async def read_document(self, forward: ForwardRequest, limit: int, watch: Tee | None = None) -> bytes:
        """The whole body, verified. `watch` is shown it as it arrives, unverified, and may refuse it. Raises S3Error,
        MalformedXML for a body above `limit` bytes: only documents are read."""
        _, reader = self._reader(forward)
        if reader.length > limit:
            raise S3Error("MalformedXML", "The document is too large.")
        body = bytearray()
        async for piece in forward.request.body.pieces():
            view = memoryview(piece)
            for start in range(0, len(view), _READ_SIZE):  # so that no more is hashed than is looked at
                if start:
                    await asyncio.sleep(0)  # others have their turn between two looks
                for decoded in await decode_piece(reader, view[start : start + _READ_SIZE]):
                    body += decoded
                    if watch is not None:
                        watch(decoded)
        for decoded in reader.close().pieces:
            body += decoded
            if watch is not None:
                watch(decoded)
        return bytes(body)

    async def send(
        self, forward: ForwardRequest, *, tee: Tee | None = None, body: bytes | None = None
    ) -> OriginResponse:
        """Send it; returns with the head of the origin's answer. `body`: what `read` has read of it already.

        Raises OriginError, Throttled, and S3Error for a body that is not what was announced: then the origin has not
        got all of it.
        """
        request, target = forward.request, forward.target
        extensions = signed_extensions(request.headers, self._origin.dialect.extensions, forward.signed)
        headers = forwarded_headers(request.headers, extensions)
        length, payload_hash = None, EMPTY_SHA256
        content: bytes | AsyncIterator[bytes] | None = body
        if body is not None:
            payload_hash = sha256(body).hexdigest()
            # It was verified when it was read, and may have been written anew since.
            digest = b64encode(md5(body, usedforsecurity=False).digest()).decode()
            headers = tuple((name, digest if name.lower() == "content-md5" else value) for name, value in headers)
        elif request.has_body or request.method not in {"GET", "HEAD"}:
            form, reader = self._reader(forward)
            if request.has_body:
                secure = self._origin.endpoint.scheme == "https"
                trailer = trailer_for(form, reader.trailer, self._origin.dialect, secure)
                if trailer is None and (reader.length == 0 or never_right(form)):
                    await _drain(request.body, reader)
                else:
                    outgoing = frame_body(request.body, form, reader, headers, trailer, tee)
                    content, length = await _started(outgoing.pieces), outgoing.length
                    payload_hash, headers = outgoing.payload_hash, outgoing.headers
            else:
                reader.close()
        # What a read says of a body that it has not got means nothing, as at S3.
        return await self._origin.send(
            OriginRequest(
                request.method,
                target.bucket,
                target.key,
                query=forwarded_query(target.query),
                headers=headers,
                body=content,
                content_length=length,
                payload_hash=payload_hash,
                operation=forward.operation.name,
                credential=await secret_key_of(forward.identity),
            )
        )

    def _reader(self, forward: ForwardRequest) -> tuple[PayloadForm, BodyReader]:
        headers = forward.request.headers
        form = payload_form(headers, forward.signed)
        kind: Kind = "content"
        if forward.operation.name in {"PutObject", "UploadPart"}:
            if "Content-Length" not in headers and "Transfer-Encoding" not in headers:
                raise S3Error("MissingContentLength")
        elif forward.operation.name == "CompleteMultipartUpload":
            kind = "completion"
        elif forward.request.method == "POST":
            kind = "document"
        reader = BodyReader(form, forward.signed, headers, kind)
        if reader.length > self._largest_body:
            raise S3Error("EntityTooLarge", MaxSizeAllowed=str(self._largest_body), ProposedSize=str(reader.length))
        return form, reader


async def _started(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The same pieces, once the first has come: what is wrong with a body from its start costs the origin nothing, and
    a client that sends none of it holds no place there."""
    first = await anext(pieces, b"")

    async def whole() -> AsyncIterator[bytes]:
        yield first
        async for piece in pieces:
            yield piece

    return whole()


async def _drain(body: Body, reader: BodyReader) -> None:
    """Read a body of which nothing is to be sent: nothing but framing, or what can't be what was said of it. Nothing of
    it can be withheld, as the request's head alone would make it an object; so it is judged before that is sent."""
    async for piece in body.pieces():
        await decode_piece(reader, piece)
    reader.close()


async def relay(
    answer: OriginResponse, reply: Reply, record: RequestRecord, request: Request, extra: HeaderPairs = ()
) -> None:
    """The origin's answer, as it comes, with `extra` where the origin has not said so itself. Raises OriginBroken when
    it ends early: the head has left then."""
    await reply.start(answer.status, (*_response_headers(answer, request, extra), BYPASS), _length(answer))
    if request.method != "HEAD":
        while piece := await answer.next_piece():
            await reply.write(piece)
            record.count_sent("origin", len(piece))
    await reply.finish()


async def relay_result(
    answer: OriginResponse,
    reply: Reply,
    record: RequestRecord,
    request: Request,
    settle: Settle,
    location: str | None = None,
) -> None:
    """An answer whose outcome is in its body. What only keeps the connection alive goes through at once; the document
    itself, and the head if nothing has left yet, when `settle` has returned. `location`: where the document is to say
    that the object is."""
    extra: HeaderPairs = ()
    result = bytearray()

    async def send(buffer: bytes, length: int | None) -> None:
        if not reply.started:
            await reply.start(answer.status, (*_response_headers(answer, request, extra), BYPASS), length)
        await reply.write(buffer)
        record.count_sent("origin", len(buffer))

    while piece := await answer.next_piece():
        result += piece
        if len(result) > RESULT_LIMIT:
            raise OriginBroken("a result document beyond all reason")
        if _KEEP_ALIVE.fullmatch(result):
            await send(bytes(result), _length(answer))
            result.clear()
    extra = await settle(answer.status, bytes(result))
    document, length = bytes(result), _length(answer)
    if location is not None and not (reply.started and length is not None):
        document = with_location(document, location)
        length = len(document)
    await send(document, length)
    await reply.finish()


def _response_headers(answer: OriginResponse, request: Request, extra: HeaderPairs) -> HeaderPairs:
    told = passed_headers(answer.headers, oss=request.oss_request is not None)
    return (*told, *(pair for pair in extra if pair[0] not in answer.headers))


def _length(answer: OriginResponse) -> int | None:
    length = answer.headers.get("Content-Length")
    return int(length) if length is not None and length.isdecimal() else None
