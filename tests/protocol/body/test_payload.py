"""Request bodies: form and expected length; nothing completes before it is verified."""

from base64 import b64encode
from hashlib import md5, sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st
from multidict import CIMultiDict

from forebay.core.errors import S3Error
from forebay.protocol.body.checksums import algorithm_of, encode, hasher
from forebay.protocol.body.chunk_signatures import ChunkedMode
from forebay.protocol.body.payload import (
    MAX_BODY,
    AwsChunkedPayload,
    HashedPayload,
    PayloadForm,
    PayloadReader,
    UnsignedPayload,
    can_never_verify,
    payload_form,
)
from forebay.protocol.signatures.signing_key import Scope, signing_key
from forebay.protocol.signatures.sigv4_claim import SIGV4A_STREAMING, Form
from forebay.protocol.signatures.verified_signature import SignedV4
from harness.aws_chunked import Framing
from harness.reference_sigv4 import Secret

SCOPE = Scope("20130524", "us-east-1", "s3")
KEY = signing_key("secret", *SCOPE)
BODY = b"The quick brown fox jumps over the lazy dog"
CRC32 = "x-amz-checksum-crc32"


def signed(payload: str, form: Form = "header") -> SignedV4:
    return SignedV4("AK", form, "20130524T000000Z", SCOPE, "f" * 64, KEY, payload)


def headers(**request_headers: object) -> CIMultiDict[str]:
    return CIMultiDict({name.replace("_", "-"): str(value) for name, value in request_headers.items()})


def value_of(header: str, content: bytes) -> str:
    digest = hasher(algorithm_of(header))
    digest.update(content)
    return encode(digest.digest())


def framed(content: bytes, mode: ChunkedMode, checksum: str | None = None) -> bytes:
    """The framed content. `checksum`: replaces the right one in the trailer."""
    return Framing(mode.value, checksum=checksum).frame(content, Secret("AK", "secret"), "20130524T000000Z", "f" * 64)


def code_of(error: pytest.ExceptionInfo[S3Error]) -> str:
    return error.value.code


@pytest.mark.parametrize(
    ("value", "form"),
    [
        ("a" * 64, HashedPayload("a" * 64)),
        ("A" * 64, HashedPayload("A" * 64)),
        ("UNSIGNED-PAYLOAD", UnsignedPayload()),
        *((mode.value, AwsChunkedPayload(mode)) for mode in ChunkedMode),
    ],
)
def test_each_declared_value_selects_its_form(value: str, form: PayloadForm) -> None:
    assert payload_form(headers(), signed(value)) == form
    assert payload_form(headers(x_amz_content_sha256=value), None) == form


@pytest.mark.parametrize("value", SIGV4A_STREAMING)
def test_version_4a_is_refused(value: str) -> None:
    with pytest.raises(S3Error) as refused:
        payload_form(headers(), signed(value))
    assert code_of(refused) == "NotImplemented"


@pytest.mark.parametrize("value", ["STREAMING-UNSIGNED-PAYLOAD", "unsigned-payload", "g" * 64, "a" * 63])
def test_no_body_matches_a_value_that_is_no_hash(value: str) -> None:
    form = payload_form(headers(), signed(value, "query"))
    assert can_never_verify(form)
    reader = PayloadReader(form, None, headers(content_length=5))
    reader.feed(b"hello")
    with pytest.raises(S3Error) as refused:
        reader.close()
    assert code_of(refused) == "XAmzContentSHA256Mismatch"
    assert refused.value.details["ClientComputedContentSHA256"] == value
    assert refused.value.details["S3ComputedContentSHA256"] == sha256(b"hello").hexdigest()


def test_the_signed_value_decides_not_the_header() -> None:
    assert payload_form(headers(x_amz_content_sha256="UNSIGNED-PAYLOAD"), signed("a" * 64)) == HashedPayload("a" * 64)


def test_framing_never_becomes_content() -> None:
    declared = headers(content_encoding="gzip, AWS-chunked", x_amz_decoded_content_length=5)
    assert payload_form(declared, None) == AwsChunkedPayload(ChunkedMode.UNSIGNED_TRAILER)
    for value in ("UNSIGNED-PAYLOAD", "a" * 64):
        with pytest.raises(S3Error) as refused:
            payload_form(declared, signed(value))
        assert code_of(refused) == "InvalidArgument"
    assert payload_form(headers(content_encoding="gzip"), signed("UNSIGNED-PAYLOAD")) == UnsignedPayload()


@pytest.mark.parametrize("mode", list(ChunkedMode))
def test_a_presigned_url_has_no_chunks(mode: ChunkedMode) -> None:
    form = payload_form(headers(), signed(mode.value, "query"))
    assert form == HashedPayload(mode.value)
    with pytest.raises(S3Error) as refused:
        PayloadReader(form, None, headers(content_length=5))
    assert code_of(refused) == "MissingContentLength"
    reader = PayloadReader(form, None, headers(content_length=5, x_amz_decoded_content_length=3))
    with pytest.raises(S3Error) as refused:
        reader.feed(b"hello")
    assert refused.value.details == {"NumberBytesExpected": "3", "NumberBytesProvided": "5"}
    assert payload_form(headers(), signed("UNSIGNED-PAYLOAD", "query")) == UnsignedPayload()


@pytest.mark.parametrize(
    ("form", "request_headers", "length"),
    [
        (UnsignedPayload(), headers(), 0),
        (UnsignedPayload(), headers(content_length=7), 7),
        (UnsignedPayload(), headers(content_length=MAX_BODY), MAX_BODY),
        (AwsChunkedPayload(ChunkedMode.SIGNED), headers(content_length=200, x_amz_decoded_content_length=7), 7),
        (
            AwsChunkedPayload(ChunkedMode.SIGNED),
            headers(transfer_encoding="chunked", x_amz_decoded_content_length=7),
            7,
        ),
    ],
)
def test_the_expected_length_is_the_decoded_length(
    form: PayloadForm, request_headers: CIMultiDict[str], length: int
) -> None:
    assert PayloadReader(form, None, request_headers).length == length


@pytest.mark.parametrize(
    ("form", "request_headers", "code"),
    [
        (UnsignedPayload(), headers(transfer_encoding="chunked"), "MissingContentLength"),
        (AwsChunkedPayload(ChunkedMode.SIGNED), headers(content_length=7), "MissingContentLength"),
        (UnsignedPayload(), headers(content_length="-1"), "InvalidArgument"),
        (UnsignedPayload(), headers(content_length="٣"), "InvalidArgument"),
        (UnsignedPayload(), CIMultiDict([("content-length", "7"), ("content-length", "8")]), "InvalidRequest"),
        (UnsignedPayload(), headers(content_length=MAX_BODY + 1), "EntityTooLarge"),
        (AwsChunkedPayload(ChunkedMode.SIGNED), headers(x_amz_decoded_content_length=MAX_BODY + 1), "EntityTooLarge"),
        (UnsignedPayload(), headers(content_length=7, content_md5="x"), "InvalidDigest"),
        (UnsignedPayload(), headers(content_length=7, x_amz_checksum_crc32="x"), "InvalidRequest"),
        (UnsignedPayload(), headers(content_length=7, x_amz_checksum_xxhash3="AAAAAAAAAAA="), "NotImplemented"),
    ],
)
def test_an_unreadable_body_is_refused_by_its_head(
    form: PayloadForm, request_headers: CIMultiDict[str], code: str
) -> None:
    with pytest.raises(S3Error) as refused:
        PayloadReader(form, None, request_headers)
    assert code_of(refused) == code


@pytest.mark.parametrize(
    ("mode", "trailer", "code"),
    [
        (ChunkedMode.SIGNED, CRC32, "MalformedTrailerError"),
        (ChunkedMode.UNSIGNED_TRAILER, "x-amz-meta-a", "InvalidRequest"),
        (ChunkedMode.UNSIGNED_TRAILER, "content-md5", "InvalidRequest"),
        (ChunkedMode.UNSIGNED_TRAILER, f"{CRC32},x-amz-checksum-sha1", "InvalidRequest"),
        (ChunkedMode.UNSIGNED_TRAILER, "x-amz-checksum-xxhash3", "NotImplemented"),
    ],
)
def test_the_announced_trailer_must_be_one_checksum(mode: ChunkedMode, trailer: str, code: str) -> None:
    with pytest.raises(S3Error) as refused:
        PayloadReader(AwsChunkedPayload(mode), None, headers(x_amz_decoded_content_length=1, x_amz_trailer=trailer))
    assert code_of(refused) == code


CHECKED = headers(
    content_length=len(BODY),
    content_md5=b64encode(md5(BODY).digest()).decode(),
    x_amz_checksum_crc32=value_of(CRC32, BODY),
)


@given(st.lists(st.integers(1, 20)))
def test_the_last_piece_is_withheld_until_close(sizes: list[int]) -> None:
    reader = PayloadReader(HashedPayload(sha256(BODY).hexdigest()), None, CHECKED)
    forwarded, rest = b"", BODY
    for size in [*sizes, len(BODY)]:
        forwarded += b"".join(reader.feed(rest[:size]))
        rest = rest[size:]
    assert len(forwarded) < len(BODY)
    ended = reader.close()
    assert forwarded + b"".join(ended.pieces) == BODY
    assert ended.trailers == {}
    assert ended.checksums == {name: CHECKED[name] for name in CHECKED if name != "content-length"}


@pytest.mark.parametrize(
    ("name", "value", "code"),
    [
        ("content-md5", b64encode(bytes(16)).decode(), "BadDigest"),
        (CRC32, "AAAAAA==", "BadDigest"),
        ("content-length", str(len(BODY) + 1), "IncompleteBody"),
    ],
)
def test_a_wrong_body_never_completes(name: str, value: str, code: str) -> None:
    wrong = CHECKED.copy()
    wrong[name] = value
    reader = PayloadReader(UnsignedPayload(), None, wrong)
    forwarded = b"".join([*reader.feed(BODY[:-1]), *reader.feed(BODY[-1:])])
    assert len(forwarded) < reader.length
    with pytest.raises(S3Error) as refused:
        reader.close()
    assert code_of(refused) == code


def test_a_wrong_hash_never_completes() -> None:
    reader = PayloadReader(HashedPayload("0" * 64), None, CHECKED)
    assert reader.feed(BODY) == []
    with pytest.raises(S3Error) as refused:
        reader.close()
    assert code_of(refused) == "XAmzContentSHA256Mismatch"
    assert refused.value.details["S3ComputedContentSHA256"] == sha256(BODY).hexdigest()


@pytest.mark.parametrize("declared", [sha256(BODY).hexdigest(), "0" * 64, "no hash"])
@pytest.mark.parametrize("content", [BODY, BODY[:-1], BODY + b"x", b"x" * len(BODY), b""])
def test_a_whole_body_is_verified_as_in_pieces(declared: str, content: bytes) -> None:
    def outcome(*, at_once: bool) -> object:
        reader = PayloadReader(HashedPayload(declared), None, CHECKED)
        try:
            if at_once:
                return reader.verify_content(content)
            reader.feed_content(content)
            return reader.close()
        except S3Error as error:
            return error.code, error.details

    assert outcome(at_once=True) == outcome(at_once=False)


def test_a_whole_empty_body_is_verified() -> None:
    right = PayloadReader(HashedPayload(sha256(b"").hexdigest()), None, headers())
    assert right.verify_content(b"") == ([], {}, {})
    with pytest.raises(S3Error):
        PayloadReader(HashedPayload("0" * 64), None, headers()).verify_content(b"")


def test_a_body_is_checked_elsewhere() -> None:
    reader = PayloadReader(HashedPayload(sha256(BODY).hexdigest()), None, CHECKED)
    elsewhere: list[bytes] = []
    reader.check_by(lambda pieces: elsewhere.extend(map(bytes, pieces)))
    assert reader.feed(BODY[:3]) == [BODY[:3]]
    assert reader.feed(BODY[3:]) == []
    reader.checks.update(elsewhere)
    assert b"".join(reader.close().pieces) == BODY[3:]


def test_an_empty_body_is_verified() -> None:
    reader = PayloadReader(HashedPayload(sha256(b"").hexdigest()), None, headers())
    assert reader.close() == ([], {}, {})
    with pytest.raises(S3Error):
        PayloadReader(HashedPayload("0" * 64), None, headers()).close()


def test_a_body_longer_than_announced_is_refused() -> None:
    reader = PayloadReader(UnsignedPayload(), None, headers(content_length=2))
    with pytest.raises(S3Error) as refused:
        reader.feed(b"abc")
    assert code_of(refused) == "IncompleteBody"


def test_a_completion_is_not_checked_by_the_objects_checksum() -> None:
    declared = headers(content_length=5, x_amz_checksum_crc32="AAAAAA==", content_md5="XUFAKrxLKna5cZ2REBfFkg==")
    reader = PayloadReader(UnsignedPayload(), None, declared, kind="completion")
    reader.feed(b"hello")
    assert reader.close().checksums == {"content-md5": "XUFAKrxLKna5cZ2REBfFkg=="}


@pytest.mark.parametrize("mode", list(ChunkedMode))
def test_a_framed_body_is_decoded_and_verified(mode: ChunkedMode) -> None:
    declared = headers(x_amz_decoded_content_length=len(BODY), content_md5=value_of("content-md5", BODY))
    trailers = {CRC32: value_of(CRC32, BODY)} if mode.has_trailer else {}
    if trailers:
        declared["x-amz-trailer"] = CRC32.title()
    wire = framed(BODY, mode)
    reader = PayloadReader(AwsChunkedPayload(mode), signed(mode.value), declared)
    forwarded = b"".join(bytes(run) for at in range(len(wire)) for run in reader.feed(wire[at : at + 1]))
    assert forwarded == BODY[:-1]
    ended = reader.close()
    assert b"".join(ended.pieces) == BODY[-1:]
    assert ended.trailers == trailers
    assert ended.checksums == {"content-md5": value_of("content-md5", BODY), **trailers}


@pytest.mark.parametrize("mode", [ChunkedMode.SIGNED_TRAILER, ChunkedMode.UNSIGNED_TRAILER])
def test_a_wrong_trailer_never_completes(mode: ChunkedMode) -> None:
    declared = headers(x_amz_decoded_content_length=len(BODY), x_amz_trailer=CRC32)
    reader = PayloadReader(AwsChunkedPayload(mode), signed(mode.value), declared)
    assert reader.feed(framed(BODY, mode, "AAAAAA==")) == []
    with pytest.raises(S3Error) as refused:
        reader.close()
    assert code_of(refused) == "BadDigest"


def test_a_body_signed_with_another_seed_never_completes() -> None:
    declared = headers(x_amz_decoded_content_length=len(BODY))
    reader = PayloadReader(
        AwsChunkedPayload(ChunkedMode.SIGNED), signed(ChunkedMode.SIGNED.value)._replace(signature="e" * 64), declared
    )
    with pytest.raises(S3Error) as refused:
        reader.feed(framed(BODY, ChunkedMode.SIGNED))
    assert code_of(refused) == "SignatureDoesNotMatch"


def test_a_framed_body_that_ends_early_is_refused() -> None:
    declared = headers(x_amz_decoded_content_length=len(BODY), x_amz_trailer=CRC32)
    reader = PayloadReader(AwsChunkedPayload(ChunkedMode.UNSIGNED_TRAILER), None, declared)
    reader.feed(framed(BODY, ChunkedMode.UNSIGNED_TRAILER)[:-1])
    with pytest.raises(S3Error) as refused:
        reader.close()
    assert code_of(refused) == "IncompleteBody"
