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

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from forebay.core.heads import HeaderPairs
from forebay.origin.dialects import Dialect
from forebay.origin.origin_request import UNSIGNED_PAYLOAD
from forebay.protocol.body.aws_chunked_encoder import AwsChunkedEncoder, encoded_length
from forebay.protocol.body.checksums import Piece
from forebay.protocol.body.chunk_signatures import ChunkedMode
from forebay.protocol.body.payload import (
    AwsChunkedPayload,
    HashedPayload,
    PayloadForm,
    PayloadReader,
    join_small_pieces,
)
from forebay.protocol.exchange import Body

Tee: TypeAlias = Callable[[Piece], None]
"""Sees each decoded piece on its way to the origin."""


@dataclass(frozen=True, slots=True)
class UploadBody:
    """The body of an origin request."""

    pieces: AsyncIterator[bytes]
    length: int
    """Bytes of all pieces."""
    payload_hash: str
    """The value of `x-amz-content-sha256`."""
    headers: HeaderPairs
    """The request's, with those of the framing."""


def frame_body(
    body: Body, form: PayloadForm, reader: PayloadReader, headers: HeaderPairs, trailer: str | None, tee: Tee | None
) -> UploadBody:
    """Returns the body as it is sent, once. `trailer`: the checksum header that follows it, from `trailer_for`."""
    pieces = _framed(body, reader, trailer, tee)
    if trailer is None:
        payload_hash = (form.sha256 if isinstance(form, HashedPayload) else None) or UNSIGNED_PAYLOAD
        return UploadBody(pieces, reader.length, payload_hash, headers)
    encodings = [value for name, value in headers if name.lower() == "content-encoding"]
    framed = (
        *(pair for pair in headers if pair[0].lower() != "content-encoding"),
        ("content-encoding", ",".join(["aws-chunked", *encodings])),
        ("x-amz-decoded-content-length", str(reader.length)),
        ("x-amz-trailer", trailer),
    )
    return UploadBody(pieces, encoded_length(reader.length, trailer), ChunkedMode.UNSIGNED_TRAILER.value, framed)


def trailer_for(form: PayloadForm, announced: str | None, dialect: Dialect, secure: bool) -> str | None:
    """Returns the announced checksum header if it can follow the body to this origin, else None."""
    accepted = dialect.has_unsigned_trailer and (secure or dialect.unsigned_payload_over_http)
    return announced if accepted and isinstance(form, AwsChunkedPayload) else None


async def decode_piece(reader: PayloadReader, piece: Piece) -> Sequence[Piece]:
    """Returns the decoded bytes that may be forwarded after this piece. Raises S3Error.

    Other tasks run meanwhile where the piece has so many chunks that decoding takes long.
    """
    decoded: list[Piece] = []
    for number, batch in enumerate(reader.feed_in_steps(piece)):
        if number:
            await asyncio.sleep(0)
        decoded += batch
    return join_small_pieces(decoded)


async def _framed(body: Body, reader: PayloadReader, trailer: str | None, tee: Tee | None) -> AsyncIterator[bytes]:
    encoder = AwsChunkedEncoder(trailer) if trailer is not None else None

    def frame(decoded: Piece) -> bytes:
        if tee is not None:
            tee(decoded)
        if encoder is None:
            return decoded  # type: ignore[return-value] # a socket accepts any buffer; aiohttp's types say bytes
        return b"".join(encoder.encode(decoded))

    async for piece in body.pieces():
        for decoded in await decode_piece(reader, piece):
            yield frame(decoded)
    ended = reader.close()
    for decoded in ended.pieces:
        yield frame(decoded)
    if encoder is not None and trailer is not None:
        yield b"".join(encoder.finish(ended.checksums[trailer]))
