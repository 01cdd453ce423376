"""The body of a request as it is sent to the origin: decoded and verified, then framed as the origin accepts it.

    x-amz-content-sha256 of the client         to the origin
    a SHA-256                                  as it is, with that hash
    UNSIGNED-PAYLOAD                           as it is, unsigned
    STREAMING-..., no trailer                  decoded, unsigned
    STREAMING-...-TRAILER                      aws-chunked again with the verified trailer, where the dialect accepts
                                               that form; else decoded, unsigned

The client's chunk signatures are verified here and end here: they mean nothing to the origin.

https://docs.aws.amazon.com/AmazonS3/latest/API/sigv4-streaming.html
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import TypeAlias

from forebay.core.buffers import Piece
from forebay.core.heads import HeaderPairs
from forebay.origin.dialects import Dialect
from forebay.origin.origin_request import UNSIGNED_PAYLOAD
from forebay.protocol.body.aws_chunked_encoder import AwsChunkedEncoder, encoded_length
from forebay.protocol.body.chunk_signatures import ChunkedMode
from forebay.protocol.body.payload import AwsChunkedPayload, HashedPayload, PayloadForm
from forebay.write.incoming_body import IncomingBody

Tee: TypeAlias = Callable[[Piece], Awaitable[None]]
"""Sees each decoded piece on its way to the origin."""


@dataclass(frozen=True, slots=True)
class UploadBody:
    """The body of an origin request."""

    pieces: AsyncIterator[Piece]
    length: int
    """Bytes of all pieces."""
    payload_hash: str
    """The value of `x-amz-content-sha256`."""
    headers: HeaderPairs
    """The request's, with those of the framing."""


def frame_body(body: IncomingBody, headers: HeaderPairs, trailer: str | None, tee: Tee | None) -> UploadBody:
    """Returns the body as it is sent, once. `trailer`: the checksum header that follows it, from `trailer_for`."""
    pieces, length = _framed(body, trailer, tee), body.reader.length
    if trailer is None:
        payload_hash = (body.form.sha256 if isinstance(body.form, HashedPayload) else None) or UNSIGNED_PAYLOAD
        return UploadBody(pieces, length, payload_hash, headers)
    encodings = [value for name, value in headers if name.lower() == "content-encoding"]
    framed = (
        *(pair for pair in headers if pair[0].lower() != "content-encoding"),
        ("content-encoding", ",".join(["aws-chunked", *encodings])),
        ("x-amz-decoded-content-length", str(length)),
        ("x-amz-trailer", trailer),
    )
    return UploadBody(pieces, encoded_length(length, trailer), ChunkedMode.UNSIGNED_TRAILER.value, framed)


def trailer_for(form: PayloadForm, announced: str | None, dialect: Dialect, secure: bool) -> str | None:
    """Returns the announced checksum header if it can follow the body to this origin, else None."""
    accepted = dialect.has_unsigned_trailer and (secure or dialect.unsigned_payload_over_http)
    return announced if accepted and isinstance(form, AwsChunkedPayload) else None


async def _framed(body: IncomingBody, trailer: str | None, tee: Tee | None) -> AsyncIterator[Piece]:
    encoder = AwsChunkedEncoder(trailer) if trailer is not None else None
    async for decoded in body.pieces():
        if tee is not None:
            await tee(decoded)
        if encoder is None:
            yield decoded
        else:
            yield b"".join(encoder.encode(decoded))
    if encoder is not None and trailer is not None:
        yield b"".join(encoder.finish(body.checksums[trailer]))
