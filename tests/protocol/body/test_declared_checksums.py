"""The checksums that a request head declares, and S3's errors for contradictory headers."""

from base64 import b64encode
from hashlib import md5

import pytest
from multidict import CIMultiDict

from forebay.core.errors import S3Error
from forebay.protocol.body.checksums import encode, hasher
from forebay.protocol.body.declared_checksums import Kind, declared_checksums

CRC32, CRC32C = "x-amz-checksum-crc32", "x-amz-checksum-crc32c"
ZERO = b64encode(bytes(4)).decode()
MD5 = b64encode(bytes(16)).decode()
ALGORITHM = "x-amz-sdk-checksum-algorithm"
SINGLE = "Expecting a single x-amz-checksum- header"
MULTIPLE = f"{SINGLE}. Multiple checksum Types are not allowed."
UNSUPPORTED = "The value specified in the x-amz-trailer header is not supported"


@pytest.mark.parametrize(
    ("pairs", "checks", "trailer"),
    [
        ([], [], None),
        ([("Content-MD5", MD5), ("X-Amz-Checksum-CRC32", ZERO)], ["content-md5", CRC32], None),
        ([(CRC32, ZERO), (ALGORITHM, "CRC32")], [CRC32], None),
        ([("x-amz-trailer", "X-Amz-Checksum-CRC32"), (ALGORITHM, "crc32")], [CRC32], CRC32),
        # As in S3: commas at the end are ignored, elsewhere they are not.
        ([("x-amz-trailer", f"{CRC32},")], [CRC32], CRC32),
        ([("x-amz-trailer", f"{CRC32},,")], [CRC32], CRC32),
        ([("x-amz-trailer", f"{CRC32}, ")], [CRC32], CRC32),
        # These headers are no checksums.
        (
            [("x-amz-checksum-mode", "ENABLED"), ("x-amz-checksum-algorithm", "x"), ("x-amz-checksum-type", "x")],
            [],
            None,
        ),
        # An empty body needs no checksum.
        ([("content-length", "0"), (ALGORITHM, "crc32")], [], None),
    ],
)
def test_declared_checksums_and_trailer_are_found(
    pairs: list[tuple[str, str]], checks: list[str], trailer: str | None
) -> None:
    found = declared_checksums(CIMultiDict(pairs), "content", trailing=True)
    assert ([check.header for check in found.checks], found.trailer) == (checks, trailer)


@pytest.mark.parametrize(
    ("pairs", "code", "message"),
    [
        ([("content-md5", "x")], "InvalidDigest", "The Content-MD5 you specified was invalid."),
        ([(CRC32, "x")], "InvalidRequest", f"Value for {CRC32} header is invalid."),
        ([(CRC32, ZERO), (CRC32C, ZERO)], "InvalidRequest", MULTIPLE),
        ([(CRC32, ZERO), (CRC32, ZERO)], "InvalidRequest", MULTIPLE),
        ([("x-amz-trailer", f"{CRC32}, {CRC32C}")], "InvalidRequest", MULTIPLE),
        ([("x-amz-trailer", f"{CRC32}, {CRC32}")], "InvalidRequest", MULTIPLE),
        ([(CRC32, ZERO), ("x-amz-trailer", f"{CRC32}, {CRC32C}"), (ALGORITHM, "x")], "InvalidRequest", MULTIPLE),
        ([(CRC32, ZERO), ("x-amz-trailer", CRC32)], "InvalidRequest", SINGLE),
        (
            [("x-amz-checksum-bad", ZERO)],
            "InvalidRequest",
            "The algorithm type you specified in x-amz-checksum- header is invalid.",
        ),
        ([("x-amz-checksum-xxhash3", ZERO)], "NotImplemented", None),
        ([("x-amz-trailer", "x-amz-checksum-xxhash128")], "NotImplemented", None),
        *(
            ([("x-amz-trailer", names)], "InvalidRequest", UNSUPPORTED)
            for names in ("foo", "content-md5", "x-amz-checksum-bad", f",{CRC32}", f"{CRC32}, ,", f"{CRC32}, x-amz-foo")
        ),
        ([(CRC32, ZERO), (ALGORITHM, "sha256")], "InvalidRequest", f"Value for {ALGORITHM} header is invalid."),
        (
            [(ALGORITHM, "sha256")],
            "InvalidRequest",
            f"{ALGORITHM} specified, but no corresponding x-amz-checksum-* or x-amz-trailer headers were found.",
        ),
    ],
)
def test_contradictory_headers_are_refused(pairs: list[tuple[str, str]], code: str, message: str | None) -> None:
    with pytest.raises(S3Error) as refused:
        declared_checksums(CIMultiDict(pairs), "content", trailing=True)
    assert refused.value.code == code
    assert message in {None, refused.value.message}


def test_a_trailer_needs_a_form_that_allows_one() -> None:
    with pytest.raises(S3Error) as refused:
        declared_checksums(CIMultiDict({"x-amz-trailer": CRC32}), "content", trailing=False)
    assert refused.value.code == "MalformedTrailerError"


@pytest.mark.parametrize(("kind", "in_hex"), [("content", True), ("document", False), ("completion", False)])
def test_a_wrong_md5_is_reported_in_the_form_of_s3(kind: Kind, in_hex: bool) -> None:
    (check,) = declared_checksums(CIMultiDict({"content-md5": MD5}), kind, trailing=False).checks
    check.update(b"x")
    with pytest.raises(S3Error) as refused:
        check.finish({})
    assert refused.value.message == "The Content-MD5 you specified did not match what we received."
    calculated = b64encode(md5(b"x", usedforsecurity=False).digest()).decode()
    assert refused.value.details == {
        "ExpectedDigest": "0" * 32 if in_hex else MD5,
        "CalculatedDigest": calculated,
    }


@pytest.mark.parametrize("algorithm", ["crc32", "crc32c", "crc64nvme", "sha1", "sha256"])
def test_a_wrong_checksum_is_reported_by_name_only(algorithm: str) -> None:
    header = f"x-amz-checksum-{algorithm}"
    (check,) = declared_checksums(
        CIMultiDict({header: encode(hasher(algorithm).digest())}), "content", trailing=False
    ).checks
    check.update(b"x")
    with pytest.raises(S3Error) as refused:
        check.finish({})
    expected = f"The {algorithm.upper()} you specified did not match the calculated checksum."
    assert (refused.value.code, refused.value.message, refused.value.details) == ("BadDigest", expected, {})


def test_checksums_of_a_completion_are_those_of_the_object() -> None:
    assert declared_checksums(CIMultiDict({CRC32: ZERO}), "completion", trailing=False).checks == []
