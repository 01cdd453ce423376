"""The way of a body to the origin: what leaves is decoded, framed as the origin takes it, and not whole before it was
found right."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from multidict import CIMultiDict, CIMultiDictProxy

from forebay.core.errors import S3Error
from forebay.origin.dialects import DIALECTS
from forebay.protocol.body.checksums import Piece
from forebay.protocol.body.chunk_signatures import Mode
from forebay.protocol.body.payload import AwsChunked, BodyReader, Hashed, PayloadForm, Unsigned
from forebay.write.upload_body import UploadBody, frame_body, trailer_for
from harness.aws_chunked import Framing
from harness.exchange import MemoryBody
from harness.reference_sigv4 import UNSIGNED_CHUNKS_TRAILER, Secret

FRAMED = AwsChunked(Mode.UNSIGNED_TRAILER)
CRC = "x-amz-checksum-crc32"


def framed_upload(
    body: bytes, framing: Framing, trailer: str | None, size: int = 1000, taken: list[Piece] | None = None
) -> UploadBody:
    wire = framing.frame(body, Secret("a", "s"), "20260101T000000Z", "0" * 64)
    headers = CIMultiDictProxy(CIMultiDict(framing.headers(body)))
    pieces = MemoryBody(wire[at : at + size] for at in range(0, len(wire), size))
    reader = BodyReader(FRAMED, None, headers)
    tee = taken.append if taken is not None else None
    return frame_body(pieces, FRAMED, reader, (("content-encoding", "gzip"), ("x-amz-meta-a", "b")), trailer, tee)


async def sent(outgoing: UploadBody) -> bytes:
    return b"".join([bytes(piece) async for piece in outgoing.pieces])


@pytest.mark.parametrize("trailer", [CRC, None])
@pytest.mark.parametrize("length", [0, 1, 8192, 200_000])
async def test_what_is_announced_is_what_is_sent(length: int, trailer: str | None) -> None:
    body, taken = bytes(range(256)) * (length // 256) + b"x" * (length % 256), list[Piece]()
    outgoing = framed_upload(body, Framing(UNSIGNED_CHUNKS_TRAILER), trailer, taken=taken)
    wire = await sent(outgoing)
    assert len(wire) == outgoing.length
    assert b"".join(bytes(piece) for piece in taken) == body
    headers = dict(outgoing.headers)
    assert headers["x-amz-meta-a"] == "b"
    if trailer is None:
        assert (wire, headers["content-encoding"], outgoing.payload_hash) == (body, "gzip", "UNSIGNED-PAYLOAD")
    else:
        assert headers["content-encoding"] == "aws-chunked,gzip"
        assert (headers["x-amz-decoded-content-length"], headers["x-amz-trailer"]) == (str(length), CRC)
        assert outgoing.payload_hash == UNSIGNED_CHUNKS_TRAILER
        assert wire.endswith(b"\r\n\r\n")
        assert f"\r\n{CRC}:".encode() in b"\r\n" + wire


@given(st.binary(min_size=1, max_size=300), st.integers(1, 40), st.booleans())
async def test_a_body_that_is_wrong_at_its_end_never_leaves_whole(body: bytes, size: int, framed: bool) -> None:
    wrong = Framing(UNSIGNED_CHUNKS_TRAILER, checksum="AAAAAQ==")
    taken = list[Piece]()
    outgoing = framed_upload(body, wrong, CRC if framed else None, size, taken)
    left = 0

    async def send() -> None:
        nonlocal left
        async for piece in outgoing.pieces:
            left += len(piece)

    with pytest.raises(S3Error, match="BadDigest"):
        await send()
    assert left < outgoing.length
    assert sum(len(piece) for piece in taken) < len(body)


@pytest.mark.parametrize(
    ("form", "announced", "dialect", "secure", "expected"),
    [
        (FRAMED, CRC, "swift", False, CRC),
        (FRAMED, CRC, "aws", True, CRC),
        (FRAMED, CRC, "aws", False, None),
        (FRAMED, CRC, "ceph", True, None),
        (FRAMED, None, "aws", True, None),
        (Unsigned(), CRC, "aws", True, None),
        (Hashed("0" * 64), CRC, "aws", True, None),
    ],
)
def test_a_trailer_goes_where_it_is_taken(
    form: PayloadForm, announced: str | None, dialect: str, secure: bool, expected: str | None
) -> None:
    assert trailer_for(form, announced, DIALECTS[dialect], secure) == expected
