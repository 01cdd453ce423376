"""The aws-chunked decoder: bodies at once, byte by byte and with bytes after the end; then every error."""

from base64 import b64encode
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.core.buffers import Piece
from forebay.core.errors import S3Error
from forebay.protocol.body.aws_chunked_decoder import MAX_LINE, SMALLEST_CHUNK, AwsChunkedDecoder
from forebay.protocol.body.aws_chunked_encoder import AwsChunkedEncoder
from forebay.protocol.body.checksums import hasher
from forebay.protocol.body.chunk_signatures import ChunkedMode, ChunkSignatureChain
from forebay.protocol.signatures.signing_key import Scope, signing_key
from harness.aws_chunked import Framing
from harness.reference_sigv4 import Secret

SCOPE = Scope("20130524", "us-east-1", "s3")
KEY = signing_key("wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", *SCOPE)
SEED = "4f232c4386841ef735655705268965c44a0e4690baa4adea153f7db9fa80a0a9"
TRAILER_SEED = "106e2a8a18243abcf37539882f36619c00e2dfc72633413f02d3b74544bfeb8e"
CRC32C = "x-amz-checksum-crc32c"


def chain(seed: str = SEED) -> ChunkSignatureChain:
    return ChunkSignatureChain(KEY, "20130524T000000Z", SCOPE, seed)


# Amazon's example of 66560 times "a", sigv4-streaming.html.
AMAZONS = (
    b"10000;chunk-signature=ad80c730a21e5b8d04586a2213dd63b9a0e99e0e2307b0ade35a65485a288648\r\n"
    + b"a" * 65536
    + b"\r\n400;chunk-signature=0055627c9e194cb4542bae2aa5492e3c1575bbb81b612b7d234b86a503ef5497\r\n"
    + b"a" * 1024
    + b"\r\n0;chunk-signature=b6c6ea8a5354eaf15b3cb7646744f4275b71ea724fed81ceb9323e279d449df9\r\n\r\n"
)
# The same with a signed trailer, sigv4-streaming-trailers.html.
AMAZONS_TRAILER = (
    b"10000;chunk-signature=b474d8862b1487a5145d686f57f013e54db672cee1c953b3010fb58501ef5aa2\r\n"
    + b"a" * 65536
    + b"\r\n400;chunk-signature=1c1344b170168f8e65b41376b44b20fe354e373826ccbbe2c1d40a8cae51e5c7\r\n"
    + b"a" * 1024
    + b"\r\n0;chunk-signature=2ca2aba2005185cf7159c6277faf83795951dd77a3a99e6e65d5c9f85863f992\r\n"
    + b"x-amz-checksum-crc32c:sOO8/Q==\r\n"
    + b"x-amz-trailer-signature:d81f82fc3505edab99d459891051a732e8730629a2e4a59689829ca17fe2e435\r\n\r\n"
)
UNSIGNED = b"5\r\nhello\r\n6\r\n world\r\n0\r\nx-amz-checksum-crc32c:yZRlqg==\r\n\r\n"


def signed() -> AwsChunkedDecoder:
    return AwsChunkedDecoder(ChunkedMode.SIGNED, 66560, None, chain())


def signed_trailer() -> AwsChunkedDecoder:
    return AwsChunkedDecoder(ChunkedMode.SIGNED_TRAILER, 66560, CRC32C, chain(TRAILER_SEED))


def unsigned(length: int = 11, trailer: str | None = CRC32C) -> AwsChunkedDecoder:
    return AwsChunkedDecoder(ChunkedMode.UNSIGNED_TRAILER, length, trailer, None)


@pytest.mark.parametrize(
    ("mode", "has_chain", "hashes"),
    [
        (ChunkedMode.SIGNED, True, True),
        (ChunkedMode.SIGNED_TRAILER, True, True),
        (ChunkedMode.UNSIGNED_TRAILER, True, False),  # a signed request whose chunks are not
        (ChunkedMode.SIGNED, False, False),
    ],
)
def test_payload_is_hashed_for_chunk_signatures_alone(mode: ChunkedMode, has_chain: bool, hashes: bool) -> None:
    decoder = AwsChunkedDecoder(mode, 11, CRC32C if mode.has_trailer else None, chain() if has_chain else None)
    assert decoder.hashes is hashes


BODIES = {
    "signed": (signed, AMAZONS, b"a" * 66560, {}),
    "signed trailer": (signed_trailer, AMAZONS_TRAILER, b"a" * 66560, {CRC32C: "sOO8/Q=="}),
    "unsigned trailer": (unsigned, UNSIGNED, b"hello world", {CRC32C: "yZRlqg=="}),
}
each = pytest.mark.parametrize("name", list(BODIES))


def read(decoder: AwsChunkedDecoder, pieces: Iterable[Piece]) -> bytes:
    return b"".join(bytes(run) for piece in pieces for run in decoder.feed(piece))


def one_by_one(body: bytes) -> Iterable[bytes]:
    return (body[at : at + 1] for at in range(len(body)))


def refusal(decoder: AwsChunkedDecoder, *pieces: bytes) -> S3Error:
    """The first error, from `feed` or `close`; every later call raises too."""

    def whole() -> None:
        read(decoder, pieces)
        decoder.close()

    with pytest.raises(S3Error) as refused:
        whole()
    with pytest.raises(S3Error):
        decoder.feed(b"0\r\n\r\n")
    with pytest.raises(S3Error):
        decoder.close()
    return refused.value


@each
def test_a_body_fed_at_once_is_decoded(name: str) -> None:
    make, body, content, trailers = BODIES[name]
    decoder = make()
    assert read(decoder, [body]) == content
    assert decoder.close() == trailers


@each
def test_a_body_fed_byte_by_byte_is_decoded(name: str) -> None:
    make, body, content, trailers = BODIES[name]
    decoder = make()
    assert read(decoder, one_by_one(body)) == content
    assert decoder.close() == trailers


@each
def test_bytes_after_the_end_are_dropped(name: str) -> None:
    make, body, content, trailers = BODIES[name]
    for behind in (b"\xff", b"\r\n", b"5\r\nhello\r\n", b"x-amz-checksum-crc32c:AAAAAA==\r\n"):
        for pieces in ([body + behind], [body, behind]):
            decoder = make()
            assert read(decoder, pieces) == content
            assert decoder.close() == trailers


@each
def test_every_truncation_is_refused(name: str) -> None:
    make, body, _, _ = BODIES[name]
    ends = [*range(90), *range(len(body) - 300, len(body))] if len(body) > 300 else range(len(body))
    for end in ends:
        if end == len(body) - 2:
            continue  # the one leniency, below
        assert refusal(make(), body[:end]).code in {"IncompleteBody", "MalformedTrailerError"}


@each
def test_the_last_empty_line_may_be_missing(name: str) -> None:
    make, body, content, trailers = BODIES[name]
    decoder = make()
    assert read(decoder, [body[:-2]]) == content
    assert decoder.close() == trailers


@pytest.mark.parametrize("name", ["signed", "signed trailer"])
def test_any_changed_byte_of_a_signed_body_is_refused(name: str) -> None:
    make, body, _, _ = BODIES[name]
    for at in [*range(90), 40000, *range(65536 + 88, 65536 + 190), *range(len(body) - 300, len(body))]:
        changed = bytearray(body)
        changed[at] ^= 1
        error = refusal(make(), bytes(changed))
        assert error.code in {
            "SignatureDoesNotMatch",
            "IncompleteBody",
            "MalformedTrailerError",
            "InvalidChunkSizeError",
        }


def test_large_pieces_are_not_copied() -> None:
    body = bytearray(AMAZONS)
    (first, second) = signed().feed(memoryview(bytes(body)))
    assert (len(first), len(second)) == (65536, 1024)
    assert first.obj is second.obj


def test_bytes_are_returned_before_their_chunk_is_complete() -> None:
    decoder = signed()
    assert read(decoder, [AMAZONS[:1000]]) == b"a" * (1000 - 88)


def test_a_changed_chunk_is_refused_at_its_last_byte() -> None:
    changed = bytearray(AMAZONS)
    changed[100] = ord("b")
    decoder = signed()
    decoder.feed(bytes(changed[: 88 + 65535]))
    with pytest.raises(S3Error) as refused:
        decoder.feed(bytes(changed[88 + 65535 : 88 + 65536]))
    assert refused.value.code == "SignatureDoesNotMatch"


def test_without_a_chain_signatures_are_ignored() -> None:
    decoder = AwsChunkedDecoder(ChunkedMode.SIGNED, 66560, None, None)
    assert read(decoder, [AMAZONS.replace(b"ad80c730", b"00000000")]) == b"a" * 66560
    assert decoder.close() == {}


@pytest.mark.parametrize("end", [b"\r\n\r\n", b"\n\r\n", b"\n\n", b" \r\n\r\n"])
def test_trailer_line_ends_are_lenient(end: bytes) -> None:
    decoder = unsigned()
    assert read(decoder, one_by_one(UNSIGNED[:-4] + end)) == b"hello world"
    assert decoder.close() == {CRC32C: "yZRlqg=="}


def test_a_signed_trailer_as_on_amazons_page_is_accepted() -> None:
    decoder = signed_trailer()
    assert len(read(decoder, [AMAZONS_TRAILER.replace(b"==\r\nx", b"==\n\r\nx")])) == 66560
    assert decoder.close() == {CRC32C: "sOO8/Q=="}


def test_a_body_without_an_announced_trailer_has_none() -> None:
    decoder = unsigned(5, None)
    assert read(decoder, [b"5\r\nhello\r\n0\r\n\r\n"]) == b"hello"
    assert decoder.close() == {}


@pytest.mark.parametrize(
    "body",
    [
        b"0x5\r\nhello\r\n0\r\n\r\n",
        b"+5\r\nhello\r\n0\r\n\r\n",
        b" 5\r\nhello\r\n0\r\n\r\n",
        b"5 \r\nhello\r\n0\r\n\r\n",
        b"0_5\r\nhello\r\n0\r\n\r\n",
        b"\r\n",
        b"5\nhello\r\n0\r\n\r\n",
        b"5\r\nhello\n0\r\n\r\n",
        b"5\r\nhelloXX0\r\n\r\n",
        b"5;x=y\r\nhello\r\n0\r\n\r\n",
        b"5;chunk-signature=00\r\nhello\r\n0\r\n\r\n",
        b"00000000000000005\r\nhello\r\n0\r\n\r\n",
        b"\xb55\r\nhello\r\n0\r\n\r\n",
        b"4\r\nhell\r\n0\r\n\r\n",
        b"5\r\nhello\r\n1\r\n!\r\n0\r\n\r\n",
        b"ffffffffffffffff\r\nhello\r\n0\r\n\r\n",
    ],
)
def test_framing_is_strict(body: bytes) -> None:
    assert refusal(unsigned(5, None), body).code == "IncompleteBody"
    assert refusal(unsigned(5, None), *one_by_one(body)).code == "IncompleteBody"


def test_too_long_a_chunk_is_refused_at_its_header() -> None:
    with pytest.raises(S3Error):
        unsigned(5, None).feed(b"6\r\n")


@pytest.mark.parametrize(
    ("trailers", "code"),
    [
        (b"\r\n", "MalformedTrailerError"),
        (b"x-amz-checksum-crc32:AAAAAA==\r\n\r\n", "MalformedTrailerError"),
        (b"\r\nx-amz-checksum-crc32c:AAAAAA==\r\n\r\n", "MalformedTrailerError"),
        (b"", "MalformedTrailerError"),
        (b"x-amz-checksum-crc32c:AAAAAA==\n", "IncompleteBody"),
        (b"x-amz-checksum-crc32c:AAAAAA==\r", "IncompleteBody"),
        (b"x-amz-checksum-crc32c:AAAAAA==", "IncompleteBody"),
        (b"x-amz-checksum-crc32c:AAAAAA==\r\nx-amz-meta-a:b\r\n\r\n", "MalformedTrailerError"),
        (b"x-amz-checksum-crc32c:AAAAAA==\r\nx-amz-trailer-signature:00\r\n\r\n", "MalformedTrailerError"),
    ],
)
def test_only_the_announced_trailer_is_accepted(trailers: bytes, code: str) -> None:
    assert refusal(unsigned(5), b"5\r\nhello\r\n0\r\n" + trailers).code == code


def test_the_last_of_repeated_trailers_counts() -> None:
    decoder = unsigned(5)
    read(decoder, [b"5\r\nhello\r\n0\r\nx-amz-checksum-crc32c:first\r\nx-amz-checksum-crc32c:last\r\n"])
    assert decoder.close() == {CRC32C: "last"}


@pytest.mark.parametrize(
    ("chunks", "provided"),
    [(b"4\r\nhell\r\n0\r\n\r\n1\r\no\r\n0\r\n\r\n", 4), (b"6\r\n", 6), (b"4\r\nhell\r\n3\r\n", 7)],
)
def test_a_wrong_length_is_reported_with_both_lengths(chunks: bytes, provided: int) -> None:
    details = refusal(unsigned(5, None), chunks).details
    assert details == {"NumberBytesExpected": "5", "NumberBytesProvided": str(provided)}


@pytest.mark.parametrize(
    "end",
    [
        b"x-amz-checksum-crc32c:sOO8/Q==\r\n\r\n\r\n",
        b"\r\n",
        b"\r\nx-amz-trailer-signature:d81f82fc3505edab99d459891051a732e8730629a2e4a59689829ca17fe2e435\r\n\r\n",
        b"x-amz-trailer-signature:d81f82fc3505edab99d459891051a732e8730629a2e4a59689829ca17fe2e435\r\n\r\n",
        b"x-amz-checksum-crc32c:sOO8/Q==\r\n",
        b"x-amz-checksum-crc32c:sOO8/Q==\r\n\r\n",
        b"x-amz-checksum-crc32c:sOO8/Q==\r\nx-amz-trailer-signature:\xe9\r\n\r\n",
    ],
)
def test_a_signed_trailer_needs_its_signature(end: bytes) -> None:
    cut = AMAZONS_TRAILER.index(b"x-amz-checksum")
    assert refusal(signed_trailer(), AMAZONS_TRAILER[:cut] + end).code in {
        "IncompleteBody",
        "MalformedTrailerError",
        "SignatureDoesNotMatch",
    }


SIGNATURE_LINE = b"x-amz-trailer-signature:d81f82fc3505edab99d459891051a732e8730629a2e4a59689829ca17fe2e435\r\n"
TRAILER_LINE = b"x-amz-checksum-crc32c:sOO8/Q==\r\n"


@pytest.mark.parametrize(
    "end",
    [
        SIGNATURE_LINE + TRAILER_LINE + b"\r\n",
        TRAILER_LINE + SIGNATURE_LINE + SIGNATURE_LINE + b"\r\n",
        TRAILER_LINE + b"\r\n\r\n" + SIGNATURE_LINE + b"\r\n",
    ],
)
@pytest.mark.parametrize("checked", [True, False])
def test_a_trailer_signature_is_unique_and_follows_its_trailer(end: bytes, checked: bool) -> None:
    body = AMAZONS_TRAILER[: AMAZONS_TRAILER.index(b"x-amz-checksum")] + end
    decoder = AwsChunkedDecoder(ChunkedMode.SIGNED_TRAILER, 66560, CRC32C, chain(TRAILER_SEED) if checked else None)
    assert refusal(decoder, body).code in {"IncompleteBody", "MalformedTrailerError"}


@pytest.mark.parametrize(
    ("header", "code"),
    [
        (b"400\r\n", "IncompleteBody"),
        (b"400;chunk-signature=\xe9\r\n", "IncompleteBody"),
        (b"400;chunk-signature=\r\n", "IncompleteBody"),
        (b"400;chunk-signature=0;extra=1\r\n", "IncompleteBody"),
        (b"400;chunk_signature=0\r\n", "SignatureDoesNotMatch"),
        (b"400;extra=1;chunk-signature=0\r\n", "SignatureDoesNotMatch"),
    ],
)
@pytest.mark.parametrize("checked", [True, False])
def test_a_signed_chunk_header_has_only_an_ascii_signature(header: bytes, code: str, checked: bool) -> None:
    decoder = AwsChunkedDecoder(ChunkedMode.SIGNED, 1024, None, chain() if checked else None)
    assert refusal(decoder, header).code == code


def test_blanks_around_a_signature_are_ignored() -> None:
    body = AMAZONS.replace(b";chunk-signature=", b" ; chunk-signature = ")
    assert read(signed(), [body]) == b"a" * 66560


def test_a_signature_error_has_the_expected_string_to_sign() -> None:
    links = ChunkSignatureChain(
        KEY, "20130524T000000Z", SCOPE, SEED, "AK", "PUT\n/\n\nhost:h\nx-amz-security-token:t0ken\n"
    )
    details = refusal(AwsChunkedDecoder(ChunkedMode.SIGNED, 1, None, links), b"1;chunk-signature=00\r\na\r\n").details
    assert (details["AWSAccessKeyId"], details["SignatureProvided"]) == ("AK", "00")
    assert details["StringToSign"].startswith("AWS4-HMAC-SHA256-PAYLOAD\n20130524T000000Z\n")
    assert bytes.fromhex(details["StringToSignBytes"]).decode() == details["StringToSign"]
    assert details["CanonicalRequest"] == "PUT\n/\n\nhost:h\nx-amz-security-token:...\n"
    assert b"t0ken".hex(" ") not in details["CanonicalRequestBytes"]


def test_an_unannounced_trailer_signature_is_refused() -> None:
    body = AMAZONS_TRAILER[: AMAZONS_TRAILER.index(b"x-amz-checksum")] + SIGNATURE_LINE
    assert (
        refusal(AwsChunkedDecoder(ChunkedMode.SIGNED_TRAILER, 66560, None, chain(TRAILER_SEED)), body).code
        == "IncompleteBody"
    )


def test_a_signature_is_required_even_if_it_is_ignored() -> None:
    body = b"400\r\n" + bytes(1024) + b"\r\n0\r\n\r\n"
    assert refusal(AwsChunkedDecoder(ChunkedMode.SIGNED, 1024, None, None), body).code == "IncompleteBody"


def test_lines_are_bounded() -> None:
    decoder = unsigned(5, None)
    decoder.feed(b"0" * (MAX_LINE - 1))
    assert refusal(decoder, b"0").code == "IncompleteBody"
    decoder = unsigned()
    decoder.feed(UNSIGNED[: UNSIGNED.index(b"x-amz")])
    assert refusal(decoder, b"x" * MAX_LINE).code == "IncompleteBody"


def frame(mode: ChunkedMode, sizes: list[int]) -> bytes:
    """A body of zeros in chunks of these sizes, otherwise valid."""
    links = chain() if mode.is_signed else None
    framed = b""
    for size in [*sizes, 0]:
        digest = hasher("sha256")
        digest.update(bytes(size))
        mark = f";chunk-signature={links.chunk_signature(digest.digest().hex())}" if links else ""
        framed += f"{size:x}{mark}\r\n".encode() + (bytes(size) + b"\r\n" if size else b"")
    return framed + b"\r\n"


def test_only_the_last_signed_chunk_may_be_small() -> None:
    for sizes, allowed in (
        ([SMALLEST_CHUNK, 1], True),
        ([SMALLEST_CHUNK - 1], True),
        ([SMALLEST_CHUNK - 1, 1], False),
        ([SMALLEST_CHUNK, SMALLEST_CHUNK - 1, SMALLEST_CHUNK], False),
    ):
        decoder = AwsChunkedDecoder(ChunkedMode.SIGNED, sum(sizes), None, chain())
        if allowed:
            assert len(read(decoder, [frame(ChunkedMode.SIGNED, sizes)])) == sum(sizes)
            decoder.close()
        else:
            assert refusal(decoder, frame(ChunkedMode.SIGNED, sizes)).code == "InvalidChunkSizeError"


def test_small_unsigned_chunks_are_accepted_up_to_a_bound() -> None:
    some = [100] * 60
    assert len(read(unsigned(6000, None), [frame(ChunkedMode.UNSIGNED_TRAILER, some)])) == 6000
    flood = [1] * 10_000
    assert refusal(unsigned(10_000, None), frame(ChunkedMode.UNSIGNED_TRAILER, flood)).code == "InvalidChunkSizeError"


def test_the_announced_trailer_must_fit_the_mode() -> None:
    with pytest.raises(ValueError, match="mode"):
        AwsChunkedDecoder(ChunkedMode.SIGNED, 1, CRC32C, chain())


@given(st.integers(0, 40_000), st.lists(st.integers(1, 20_000)), st.lists(st.integers(1, 9_000)))
def test_the_decoder_reads_what_the_encoder_writes(size: int, fed_in: list[int], received_in: list[int]) -> None:
    content = bytes(index % 251 for index in range(size))
    digest = hasher("crc32c")
    digest.update(content)
    checksum = b64encode(digest.digest()).decode()
    encoder = AwsChunkedEncoder(CRC32C, SMALLEST_CHUNK)
    sent = [run for piece in cut(content, fed_in) for run in encoder.encode(piece)] + encoder.finish(checksum)
    decoder = unsigned(size)
    assert read(decoder, cut(b"".join(sent), received_in)) == content
    assert decoder.close() == {CRC32C: checksum}


@given(st.sampled_from(ChunkedMode), st.integers(0, 40_000), st.lists(st.integers(1, 9_000)))
def test_the_decoder_reads_what_a_client_writes(mode: ChunkedMode, size: int, received_in: list[int]) -> None:
    content = bytes(index % 251 for index in range(size))
    framing = Framing(mode.value, SMALLEST_CHUNK, "crc32c")
    sent = framing.frame(content, Secret("a", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"), "20130524T000000Z", SEED)
    decoder = AwsChunkedDecoder(mode, size, CRC32C if mode.has_trailer else None, chain() if mode.is_signed else None)
    assert read(decoder, cut(sent, received_in)) == content
    assert list(decoder.close()) == ([CRC32C] if mode.has_trailer else [])


def cut(content: bytes, sizes: list[int]) -> list[bytes]:
    pieces = []
    for size in sizes:
        pieces.append(content[:size])
        content = content[size:]
    return [*pieces, content]
