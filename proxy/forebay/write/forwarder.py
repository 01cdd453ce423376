"""Forwarding: a request that is not answered from the cache goes to the origin, re-signed and streamed.

    client ──body──> decode, verify, read ahead ──> turn ──> re-frame ──> origin      then a piece in memory at a time
    client ──head of a large body, Expect──> turn ──> origin ──100──> client          then the body, likewise
                                                         └──refusal──> client         and no body at all

The last bytes of an upload leave only after its signature, length and checksums were verified (protocol.body.payload),
so a bad body never completes at the origin. The way back is write.answer_relay.
"""

import asyncio
from base64 import b64encode
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from hashlib import md5, sha256
from typing import Final, Literal

from forebay.core.buffers import Piece
from forebay.core.errors import S3Error
from forebay.origin.origin_identity import request_credential
from forebay.origin.origin_request import EMPTY_SHA256, OriginRequest
from forebay.origin.origin_response import OriginResponse
from forebay.origin.origins import Origins
from forebay.protocol.body.declared_checksums import Kind
from forebay.protocol.body.payload import PayloadForm, PayloadReader, can_never_verify, payload_form
from forebay.protocol.exchange import SMALL_BODY, Body, BytesBody, SmallBody
from forebay.protocol.forwarded_headers import forwarded_headers, forwarded_query, signed_extensions
from forebay.storage.spool import Spool
from forebay.write.forward_request import ForwardRequest
from forebay.write.incoming_body import READ_AHEAD, IncomingBody, decode_piece
from forebay.write.upload_body import Tee, frame_body, trailer_for

_SELECT: Final = "SelectObjectContent"  # a POST whose answer is as large as a read's
EXPECTATION: Final = ("Expect", "100-continue")
_READ_SIZE: Final = 4 << 10
"""Bytes of a document that are hashed and parsed at a time."""


class Forwarder:
    """Forwards requests. Keeps no state between them. `largest_body`: bytes."""

    def __init__(self, origins: Origins, spool: Spool, largest_body: int) -> None:
        self._origins = origins
        self._spool = spool
        self._largest_body = largest_body

    async def read_document(
        self, forward: ForwardRequest, limit: int, watch: Callable[[Piece], None] | None = None
    ) -> bytes:
        """Returns the whole body, verified. `watch` sees each piece as it arrives, unverified, and may raise S3Error.
        Raises S3Error, MalformedXML for a body above `limit` bytes."""
        _, reader = self._reader(forward)
        if reader.length > limit:
            raise S3Error("MalformedXML", "The document is too large.")
        body = bytearray()

        def add(pieces: Sequence[Piece]) -> None:
            for decoded in pieces:
                body.extend(decoded)
                if watch is not None:
                    watch(decoded)

        async for piece in forward.request.body.pieces():
            view = memoryview(piece)
            for start in range(0, len(view), _READ_SIZE):  # so that no more is hashed than `watch` has seen
                if start:
                    await asyncio.sleep(0)  # other tasks run between two batches
                add(await decode_piece(reader, view[start : start + _READ_SIZE]))
        add(reader.close().pieces)
        return bytes(body)

    def check_source(self, forward: ForwardRequest) -> None:
        """Raises what `send` would raise for the source of a copy, whatever has to be waited for before."""
        self._origins.check_source(forward.operation.name, forward.target.bucket, forward.request.headers)

    async def open_body(self, forward: ForwardRequest, *, for_origin: bool = False) -> IncomingBody | None:
        """Opens the body of a write and reads its start ahead; None for a request of which no body is sent. The caller
        releases it. `for_origin`: it is sent there as it comes, so the origin says whether a client that waits for 100
        Continue is to send a large one. Raises S3Error for a body that is not what was announced."""
        body = await self._open(forward)
        if body is None:
            return None
        if for_origin and forward.request.expects_continue and body.reader.length > READ_AHEAD:
            body.awaits_continue = not _is_local(forward)
            if body.awaits_continue:
                return body
        try:
            source = forward.request.body
            if isinstance(source, SmallBody):
                await body.verify_whole(await source.receive())
            elif isinstance(source, BytesBody) and len(source.content) <= SMALL_BODY:
                await body.verify_whole(source.content)
            elif isinstance(source, BytesBody):
                await body.start()  # all of it: it is verified before the request takes a turn at the origin
            elif forward.spooled is None:
                await body.read_ahead(self._spool)
        except BaseException:
            body.release()
            raise
        return body

    async def send(
        self,
        forward: ForwardRequest,
        *,
        body: IncomingBody | None = None,
        tee: Tee | None = None,
        document: bytes | None = None,
        before_completion: Callable[[], Awaitable[None]] | None = None,
    ) -> OriginResponse:
        """Sends the request; returns with the head of the origin's answer. `body`: of a write, from `open_body`. `tee`
        sees each decoded piece of the body. `document`: the body, where it was read already. `before_completion`: see
        OriginRequest.

        Raises OriginError, Throttled, and S3Error for a body that is not what was announced: the origin then lacks its
        end.
        """
        request, target = forward.request, forward.target
        origin = self._origins.of(target.bucket)
        is_read = request.method in {"GET", "HEAD"}
        extensions = signed_extensions(request.headers, origin.dialect.extensions, forward.signed)
        headers = forwarded_headers(request.headers, extensions)
        length, payload_hash = None, EMPTY_SHA256
        content: bytes | AsyncIterator[Piece] | None = document
        if is_read and request.has_body and (body := await self._open(forward)) is not None:
            await body.start()
        if document is not None:
            payload_hash = sha256(document).hexdigest()
            # Verified when it was read, and perhaps rewritten since.
            digest = b64encode(md5(document, usedforsecurity=False).digest()).decode()
            headers = tuple((name, digest if name.lower() == "content-md5" else value) for name, value in headers)
        elif body is not None:
            secure = origin.endpoint.scheme == "https"
            trailer = trailer_for(body.form, body.reader.trailer, origin.dialect, secure)
            upload = frame_body(body, headers, trailer, tee)
            content, length = upload.pieces, upload.length
            payload_hash, headers = upload.payload_hash, upload.headers
            if body.awaits_continue:
                headers = (*headers, EXPECTATION)
        return await self._origins.send(
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
                credential=await request_credential(forward.identity),
                listed_origins=forward.identity.origins if forward.identity is not None else (),
                before_completion=before_completion,
                paced_by=_pace_of(forward, body),
            )
        )

    async def _open(self, forward: ForwardRequest) -> IncomingBody | None:
        """Returns the body as it comes; None for one of which nothing is sent."""
        request = forward.request
        if not request.has_body:
            if request.method not in {"GET", "HEAD"}:  # what a read announces of a body it lacks is ignored, as by S3
                _, reader = self._reader(forward)
                reader.close()
            return None
        form, reader = self._reader(forward)
        if reader.length == 0 or can_never_verify(form):
            origin = self._origins.of(forward.target.bucket)
            if trailer_for(form, reader.trailer, origin.dialect, origin.endpoint.scheme == "https") is None:
                await _drain(request.body, reader)
                return None
        return IncomingBody(request.body, form, reader, is_whole=_is_local(forward))

    def _reader(self, forward: ForwardRequest) -> tuple[PayloadForm, PayloadReader]:
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
        reader = PayloadReader(form, forward.signed, headers, kind)
        if reader.length > self._largest_body:
            raise S3Error("EntityTooLarge", MaxSizeAllowed=str(self._largest_body), ProposedSize=str(reader.length))
        return form, reader


def _pace_of(forward: ForwardRequest, body: IncomingBody | None) -> Literal["body", "response"] | None:
    if body is not None and not body.is_whole:
        return "body"
    # What is passed on to a client may be as large as an object.
    return "response" if forward.request.method == "GET" or forward.operation.name == _SELECT else None


def _is_local(forward: ForwardRequest) -> bool:
    """Whether the body is here already."""
    return forward.spooled is not None or isinstance(forward.request.body, BytesBody)


async def _drain(body: Body, reader: PayloadReader) -> None:
    """Reads and verifies a body of which nothing is sent: framing without content, or content that can't be what was
    announced. The request's head alone would make it an object, so it is verified before that is sent."""
    async for piece in body.pieces():
        await decode_piece(reader, piece)
    reader.close()
