"""What the head of a request says of its body's integrity: S3's answers to what contradicts itself."""

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
        # As S3 has it: commas at the end are nothing, elsewhere they are.
        ([("x-amz-trailer", f"{CRC32},")], [CRC32], CRC32),
        ([("x-amz-trailer", f"{CRC32},,")], [CRC32], CRC32),
        ([("x-amz-trailer", f"{CRC32}, ")], [CRC32], CRC32),
        # These only speak of checksums.
        (
            [("x-amz-checksum-mode", "ENABLED"), ("x-amz-checksum-algorithm", "x"), ("x-amz-checksum-type", "x")],
            [],
            None,
        ),
        # Of nothing, nothing need be said.
        ([("content-length", "0"), (ALGORITHM, "crc32")], [], None),
    ],
)
def test_what_is_announced(pairs: list[tuple[str, str]], checks: list[str], trailer: str | None) -> None:
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
def test_what_contradicts_itself_is_refused(pairs: list[tuple[str, str]], code: str, message: str | None) -> None:
    with pytest.raises(S3Error) as refused:
        declared_checksums(CIMultiDict(pairs), "content", trailing=True)
    assert refused.value.code == code
    assert message in {None, refused.value.message}


def test_only_a_body_that_can_have_a_trailer_has_one() -> None:
    with pytest.raises(S3Error) as refused:
        declared_checksums(CIMultiDict({"x-amz-trailer": CRC32}), "content", trailing=False)
    assert refused.value.code == "MalformedTrailerError"


@pytest.mark.parametrize(("kind", "in_hex"), [("content", True), ("document", False), ("completion", False)])
def test_a_wrong_md5_is_told_as_s3_tells_it(kind: Kind, in_hex: bool) -> None:
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
def test_a_wrong_checksum_is_told_by_its_name_alone(algorithm: str) -> None:
    header = f"x-amz-checksum-{algorithm}"
    (check,) = declared_checksums(
        CIMultiDict({header: encode(hasher(algorithm).digest())}), "content", trailing=False
    ).checks
    check.update(b"x")
    with pytest.raises(S3Error) as refused:
        check.finish({})
    expected = f"The {algorithm.upper()} you specified did not match the calculated checksum."
    assert (refused.value.code, refused.value.message, refused.value.details) == ("BadDigest", expected, {})


def test_beside_a_completion_checksums_speak_of_the_object() -> None:
    assert declared_checksums(CIMultiDict({CRC32: ZERO}), "completion", trailing=False).checks == []
