"""The way of a body to the origin: it is decoded, framed as the origin accepts it, and not sent whole before it
was verified."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from multidict import CIMultiDict, CIMultiDictProxy

from forebay.core.buffers import Piece
from forebay.core.errors import S3Error
from forebay.origin.dialects import DIALECTS
from forebay.protocol.body.chunk_signatures import ChunkedMode
from forebay.protocol.body.payload import AwsChunkedPayload, HashedPayload, PayloadForm, PayloadReader, UnsignedPayload
from forebay.write.incoming_body import IncomingBody
from forebay.write.upload_body import UploadBody, frame_body, trailer_for
from harness.aws_chunked import Framing
from harness.memory_exchange import MemoryBody
from harness.reference_sigv4 import UNSIGNED_CHUNKS_TRAILER, Secret

FRAMED = AwsChunkedPayload(ChunkedMode.UNSIGNED_TRAILER)
CRC = "x-amz-checksum-crc32"


def framed_upload(
    body: bytes, framing: Framing, trailer: str | None, size: int = 1000, seen: list[Piece] | None = None
) -> UploadBody:
    encoded = framing.frame(body, Secret("a", "s"), "20260101T000000Z", "0" * 64)
    headers = CIMultiDictProxy(CIMultiDict(framing.headers(body)))
    pieces = MemoryBody(encoded[at : at + size] for at in range(0, len(encoded), size))
    reader = PayloadReader(FRAMED, None, headers)

    async def tee(piece: Piece) -> None:
        if seen is not None:
            seen.append(piece)

    incoming = IncomingBody(pieces, FRAMED, reader)
    return frame_body(incoming, (("content-encoding", "gzip"), ("x-amz-meta-a", "b")), trailer, tee)


async def sent(outgoing: UploadBody) -> bytes:
    return b"".join([bytes(piece) async for piece in outgoing.pieces])


@pytest.mark.parametrize("trailer", [CRC, None])
@pytest.mark.parametrize("length", [0, 1, 8192, 200_000])
async def test_the_announced_body_is_sent(length: int, trailer: str | None) -> None:
    body, seen = bytes(range(256)) * (length // 256) + b"x" * (length % 256), list[Piece]()
    outgoing = framed_upload(body, Framing(UNSIGNED_CHUNKS_TRAILER), trailer, seen=seen)
    encoded = await sent(outgoing)
    assert len(encoded) == outgoing.length
    assert b"".join(bytes(piece) for piece in seen) == body
    headers = dict(outgoing.headers)
    assert headers["x-amz-meta-a"] == "b"
    if trailer is None:
        assert (encoded, headers["content-encoding"], outgoing.payload_hash) == (body, "gzip", "UNSIGNED-PAYLOAD")
    else:
        assert headers["content-encoding"] == "aws-chunked,gzip"
        assert (headers["x-amz-decoded-content-length"], headers["x-amz-trailer"]) == (str(length), CRC)
        assert outgoing.payload_hash == UNSIGNED_CHUNKS_TRAILER
        assert encoded.endswith(b"\r\n\r\n")
        assert f"\r\n{CRC}:".encode() in b"\r\n" + encoded


@given(st.binary(min_size=1, max_size=300), st.integers(1, 40), st.booleans())
async def test_a_body_that_is_wrong_at_its_end_is_never_sent_whole(body: bytes, size: int, framed: bool) -> None:
    wrong = Framing(UNSIGNED_CHUNKS_TRAILER, checksum="AAAAAQ==")
    seen = list[Piece]()
    outgoing = framed_upload(body, wrong, CRC if framed else None, size, seen)
    left = 0

    async def send() -> None:
        nonlocal left
        async for piece in outgoing.pieces:
            left += len(piece)

    with pytest.raises(S3Error, match="BadDigest"):
        await send()
    assert left < outgoing.length
    assert sum(len(piece) for piece in seen) < len(body)


@pytest.mark.parametrize(
    ("form", "announced", "dialect", "secure", "expected"),
    [
        (FRAMED, CRC, "swift", False, CRC),
        (FRAMED, CRC, "aws", True, CRC),
        (FRAMED, CRC, "aws", False, None),
        (FRAMED, CRC, "ceph", True, None),
        (FRAMED, None, "aws", True, None),
        (UnsignedPayload(), CRC, "aws", True, None),
        (HashedPayload("0" * 64), CRC, "aws", True, None),
    ],
)
def test_a_trailer_is_sent_where_it_is_accepted(
    form: PayloadForm, announced: str | None, dialect: str, secure: bool, expected: str | None
) -> None:
    assert trailer_for(form, announced, DIALECTS[dialect], secure) == expected
