"""The start of a body is read ahead, as far as the spool has memory; the body itself is always the same."""

from base64 import b64encode
from collections.abc import AsyncIterator
from hashlib import md5
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from multidict import CIMultiDict, CIMultiDictProxy

from forebay.core.buffers import Piece
from forebay.core.errors import S3Error
from forebay.core.fair_semaphore import FairSemaphore
from forebay.protocol.body.chunk_signatures import ChunkedMode
from forebay.protocol.body.payload import AwsChunkedPayload, PayloadReader, UnsignedPayload
from forebay.protocol.signatures.signing_key import Scope, signing_key
from forebay.protocol.signatures.verified_signature import SignedV4
from forebay.storage.spool import Spool
from forebay.storage.spooled_body import SPILL_SIZE
from forebay.write.incoming_body import LARGE, IncomingBody
from harness.aws_chunked import Framing
from harness.memory_exchange import MemoryBody
from harness.reference_sigv4 import Secret

_TIME = "20130524T000000Z"
_SCOPE = Scope("20130524", "us-east-1", "s3")
_KEY = signing_key("secret", *_SCOPE)


class CountedBody(MemoryBody):
    """Counts the pieces that were read of it."""

    read = 0

    async def pieces(self) -> AsyncIterator[bytes]:
        async for piece in super().pieces():
            self.read += 1
            yield piece


def incoming(*pieces: bytes, announced: int | None = None, md5: str | None = None) -> tuple[IncomingBody, CountedBody]:
    body, length = CountedBody(pieces), sum(map(len, pieces)) if announced is None else announced
    fields = {"Content-Length": str(length)} | ({"Content-MD5": md5} if md5 is not None else {})
    form = UnsignedPayload()
    return IncomingBody(body, form, PayloadReader(form, None, CIMultiDictProxy(CIMultiDict(fields)))), body


def spool_of(memory: int, *, limit: int = 1 << 30, share: int = 1 << 30, parent: Path | None = None) -> Spool:
    return Spool(limit, FairSemaphore(memory), share=share, wait=0.01, parent=parent)


async def whole(body: IncomingBody) -> bytes:
    return b"".join([bytes(piece) async for piece in body.pieces()])


async def test_a_small_body_is_read_and_verified_whole() -> None:
    spool = spool_of(100)
    body, source = incoming(b"ab", b"cd", b"ef")
    await body.read_ahead(spool)
    assert (body.is_whole, source.read, spool.in_use) == (True, 3, 6)
    assert (await whole(body), spool.in_use, len(spool)) == (b"abcdef", 0, 0)
    bad, _ = incoming(b"ab", b"cd", md5="A" * 22 + "==")
    with pytest.raises(S3Error, match="BadDigest"):
        await bad.read_ahead(spool)
    bad.release()
    bad.release()
    assert (spool.in_use, len(spool)) == (0, 0)


async def test_no_more_of_a_long_body_is_read_than_the_limit() -> None:
    spool = spool_of(100)
    body, source = incoming(*(bytes([number]) * 2 for number in range(20)))
    await body.read_ahead(spool, 6)
    assert (body.is_whole, source.read, spool.in_use) == (False, 4, 6)
    assert await whole(body) == b"".join(bytes([number]) * 2 for number in range(20))
    assert (body.is_whole, spool.in_use) == (True, 0)


@pytest.mark.parametrize("spool", [spool_of(4), spool_of(100, limit=4)])
async def test_less_is_read_where_the_spool_has_no_memory(spool: Spool) -> None:
    body, source = incoming(b"ab", b"cd", b"ef", b"gh")
    await body.read_ahead(spool)
    assert (body.is_whole, source.read) == (False, 3)
    assert await whole(body) == b"abcdefgh"


async def test_a_body_that_came_at_once_is_whole_without_memory() -> None:
    body, _ = incoming(b"abcdef")
    await body.read_ahead(spool_of(1))
    assert (body.is_whole, await whole(body)) == (True, b"abcdef")


async def test_above_the_share_the_start_goes_to_a_file(tmp_path: Path) -> None:
    spool = spool_of(1 << 20, share=0, parent=tmp_path / "held")
    piece = bytes(range(256)) * (SPILL_SIZE // 256)
    body, _ = incoming(b"a", piece, piece, b"b")
    await body.read_ahead(spool)
    assert (spool.in_memory, spool.in_use) == (1, 2 * len(piece) + 2)
    assert await whole(body) == b"a" + piece + piece + b"b"
    assert spool.in_use == 0
    spool.close()


async def test_a_disk_that_fails_ends_only_the_reading_ahead(tmp_path: Path) -> None:
    (tmp_path / "held").write_bytes(b"")
    spool = spool_of(1 << 20, share=0, parent=tmp_path / "held")
    piece = bytes(range(256)) * (SPILL_SIZE // 256)
    body, _ = incoming(piece, piece, piece)
    await body.read_ahead(spool)
    assert not body.is_whole
    assert await whole(body) == piece * 3


@given(
    st.lists(st.binary(max_size=40), max_size=12),
    st.integers(0, 200),
    st.integers(0, 200),
    st.integers(0, 200),
)
async def test_the_body_is_the_same_however_much_is_read(
    pieces: list[bytes], memory: int, limit: int, share: int
) -> None:
    spool = spool_of(memory, share=share)
    body, _ = incoming(*pieces)
    await body.read_ahead(spool, limit)
    assert (await whole(body), spool.in_use) == (b"".join(pieces), 0)
    spool.close()


@pytest.mark.parametrize("is_right", [True, False])
async def test_a_large_body_is_checked_beside_its_way(is_right: bool) -> None:
    content = bytes(range(256)) * (5 * LARGE // 512)
    pieces = [content[at : at + 65_000] for at in range(0, len(content), 65_000)]
    digest = md5(content if is_right else b"another", usedforsecurity=False).digest()
    body, _ = incoming(*pieces, md5=b64encode(digest).decode())
    if is_right:
        assert await whole(body) == content
        assert body.checksums == {"content-md5": b64encode(digest).decode()}
        return
    came: list[Piece] = []
    with pytest.raises(S3Error, match="BadDigest"):
        await _read_into(came, body)
    assert b"".join(came) == b"".join(pieces[:-1])


async def _read_into(came: list[Piece], body: IncomingBody) -> None:
    async for piece in body.pieces():
        came.append(piece)  # noqa: PERF401 # so that it has what came before a failure


@pytest.mark.parametrize("is_right", [True, False])
async def test_large_pieces_of_signed_chunks_are_decoded(is_right: bool) -> None:
    content, mode = bytes(1 << 20), ChunkedMode.SIGNED
    framing = Framing(mode.value, spoil=lambda _index, right: right if is_right else right[::-1])
    form, signed = AwsChunkedPayload(mode), SignedV4("AK", "header", _TIME, _SCOPE, "f" * 64, _KEY, mode.value)
    reader = PayloadReader(form, signed, CIMultiDictProxy(CIMultiDict(framing.headers(content))))
    framed = framing.frame(content, Secret("AK", "secret"), _TIME, "f" * 64)
    body = IncomingBody(CountedBody([framed[: 300 << 10], framed[300 << 10 :]]), form, reader)
    if is_right:
        assert await whole(body) == content
        return
    with pytest.raises(S3Error, match="SignatureDoesNotMatch"):
        await whole(body)
