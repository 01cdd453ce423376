"""The way of a body to the origin: decoded and verified on one side, framed for the origin on the other.

    x-amz-content-sha256 of the client         to the origin
    a SHA-256                                  as it is, with that hash
    UNSIGNED-PAYLOAD                           as it is, unsigned
    STREAMING-..., no trailer                  decoded, unsigned
    STREAMING-...-TRAILER                      aws-chunked again with the verified trailer, where the dialect takes
                                               that form; else decoded, unsigned

What the client's framing proved is proved here and ends here: its chunk signatures mean nothing to the origin.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass

from forebay.core.heads import HeaderPairs
from forebay.origin.dialects import Dialect
from forebay.origin.origin_request import UNSIGNED_PAYLOAD
from forebay.protocol.body.aws_chunked_encoder import Encoder, encoded_length
from forebay.protocol.body.checksums import Piece
from forebay.protocol.body.chunk_signatures import Mode
from forebay.protocol.body.payload import AwsChunked, BodyReader, Hashed, PayloadForm, joined
from forebay.protocol.exchange import Body

Tee = Callable[[Piece], None]
"""Shown each decoded piece on its way up."""


@dataclass(frozen=True, slots=True)
class UploadBody:
    """What an origin request needs to know of its body."""

    pieces: AsyncIterator[bytes]
    length: int
    """Bytes that `pieces` come to."""
    payload_hash: str
    headers: HeaderPairs
    """With the framing's own."""


def frame_body(
    body: Body, form: PayloadForm, reader: BodyReader, headers: HeaderPairs, trailer: str | None, tee: Tee | None
) -> UploadBody:
    """The upload of `body`, to be sent once. `trailer`: the checksum to send behind it, from `trailer_for`."""
    if trailer is None:
        payload_hash = (form.sha256 if isinstance(form, Hashed) else None) or UNSIGNED_PAYLOAD
        return UploadBody(_decoded(body, reader, tee), reader.length, payload_hash, headers)
    encodings = [value for name, value in headers if name.lower() == "content-encoding"]
    framed = (
        *(pair for pair in headers if pair[0].lower() != "content-encoding"),
        ("content-encoding", ",".join(["aws-chunked", *encodings])),
        ("x-amz-decoded-content-length", str(reader.length)),
        ("x-amz-trailer", trailer),
    )
    length = encoded_length(reader.length, trailer)
    return UploadBody(_framed(body, reader, trailer, tee), length, Mode.UNSIGNED_TRAILER.value, framed)


def trailer_for(form: PayloadForm, announced: str | None, dialect: Dialect, secure: bool) -> str | None:
    """The checksum header that can follow the body to this origin; None: it goes without."""
    takes = dialect.has_unsigned_trailer and (secure or dialect.unsigned_payload_over_http)
    if announced is None or not takes or not isinstance(form, AwsChunked):
        return None
    return announced


async def decode_piece(reader: BodyReader, piece: Piece) -> Sequence[Piece]:
    """What may be forwarded of this piece of the body, when all of it was looked at. Raises S3Error.

    Others have their turn meanwhile, where it comes in so many chunks that it takes long.
    """
    runs: list[Piece] = []
    for number, stretch in enumerate(reader.stretches(piece)):
        if number:
            await asyncio.sleep(0)
        runs += stretch
    return joined(runs)


async def _decoded(body: Body, reader: BodyReader, tee: Tee | None) -> AsyncIterator[bytes]:
    async for piece in body.pieces():
        for decoded in await decode_piece(reader, piece):
            if tee is not None:
                tee(decoded)
            yield decoded  # type: ignore[misc] # any buffer will do for a socket; aiohttp's types say bytes
    for decoded in reader.close().pieces:
        if tee is not None:
            tee(decoded)
        yield decoded  # type: ignore[misc] # as above


async def _framed(body: Body, reader: BodyReader, trailer: str, tee: Tee | None) -> AsyncIterator[bytes]:
    encoder = Encoder(trailer)
    async for piece in body.pieces():
        for decoded in await decode_piece(reader, piece):
            if tee is not None:
                tee(decoded)
            yield b"".join(encoder.encode(decoded))
    ended = reader.close()
    for decoded in ended.pieces:
        if tee is not None:
            tee(decoded)
        yield b"".join(encoder.encode(decoded))
    yield b"".join(encoder.finish(ended.checksums[trailer]))
