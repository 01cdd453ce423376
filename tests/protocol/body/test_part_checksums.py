"""Checksums of parts: what an upload was created for, what its parts have, and what its completion lists."""

from hashlib import md5

import pytest

from forebay.core.cooperative import run_to_completion
from forebay.core.errors import S3Error
from forebay.core.heads import HeaderPairs
from forebay.protocol.body.checksum_headers import with_checksum_type
from forebay.protocol.body.part_checksums import (
    check_listed,
    check_part,
    created_facts,
    listed_checksums,
    multipart_etag,
    object_algorithm,
    object_checksum,
)
from forebay.protocol.xml.s3_documents import UploadedPart
from harness.fake.checksums import composite_of, digest_of

PART: HeaderPairs = (("Content-MD5", "x"), ("X-Amz-Checksum-CRC32", "AAAAAA=="))


def created(algorithm: str, kind: str = "") -> HeaderPairs:
    pairs: HeaderPairs = (("Content-Type", "text/plain"), ("X-Amz-Checksum-Algorithm", algorithm))
    return (*pairs, ("x-amz-checksum-type", kind)) if kind else pairs


@pytest.mark.parametrize(
    ("upload", "refused"),
    [
        ((), False),
        (created("CRC32"), False),
        (created("SHA256"), True),
        (created("sha1", "COMPOSITE"), True),
        (created("CRC32C", "FULL_OBJECT"), False),
        (created("CRC64NVME"), False),
        (created("XXHASH3"), False),
    ],
)
def test_a_part_has_the_checksum_of_its_upload(upload: HeaderPairs, refused: bool) -> None:
    if refused:
        with pytest.raises(S3Error, match="InvalidRequest"):
            check_part(upload, PART)
    else:
        check_part(upload, PART)


def test_a_completion_at_the_origin_lists_that_checksum() -> None:
    assert listed_checksums(created("CRC32"), PART) == (("ChecksumCRC32", "AAAAAA=="),)
    assert listed_checksums(created("SHA256"), PART) == ()
    assert listed_checksums((), PART) == ()


@pytest.mark.parametrize("algorithm", ["crc32", "crc32c", "sha1", "sha256"])
def test_an_object_has_the_checksum_of_its_parts_checksums(algorithm: str) -> None:
    name = f"x-amz-checksum-{algorithm}"
    sums = [digest_of(algorithm, part) for part in (b"first", b"second")]
    headers: list[HeaderPairs] = [(("Content-MD5", "x"), (name.title(), each)) for each in sums]
    parts = [(each, size) for each, size in zip(headers, (5, 6), strict=True)]
    found = run_to_completion(object_checksum(created(algorithm.upper()), parts))
    assert found == ((name, composite_of(algorithm, sums)),)
    assert with_checksum_type(found) == (*found, ("x-amz-checksum-type", "COMPOSITE"))
    assert object_algorithm(found) == algorithm
    for upload in ((), created("XXHASH3")):
        assert run_to_completion(object_checksum(upload, parts)) == ()
    assert run_to_completion(object_checksum(created(algorithm), [*parts, ((), 0)])) == ()


@pytest.mark.parametrize("algorithm", ["crc32", "crc32c", "crc64nvme", "sha256"])
def test_checksums_of_parts_combine_to_that_of_the_whole(algorithm: str) -> None:
    """But for hashes, of which S3 has no such type."""
    contents = [bytes([number % 256]) * (number % 3) for number in range(40)]
    name, upload = f"x-amz-checksum-{algorithm}", created(algorithm, "FULL_OBJECT")
    parts: list[tuple[HeaderPairs, int]] = [
        (((name.title(), digest_of(algorithm, each)),), len(each)) for each in contents
    ]
    found = run_to_completion(object_checksum(upload, parts))
    if algorithm == "sha256":
        assert found == ()
        return
    assert found == ((name, digest_of(algorithm, b"".join(contents))),)
    assert with_checksum_type(found) == (*found, ("x-amz-checksum-type", "FULL_OBJECT"))
    assert run_to_completion(object_checksum(upload, [*parts, ((), 0)])) == ()


def test_an_upload_says_what_checksums_it_was_created_for() -> None:
    assert created_facts(created("crc32")) == (
        ("x-amz-checksum-algorithm", "CRC32"),
        ("x-amz-checksum-type", "COMPOSITE"),
    )
    assert dict(created_facts(created("CRC64NVME")))["x-amz-checksum-type"] == "FULL_OBJECT"
    assert dict(created_facts(created("CRC32", "full_object")))["x-amz-checksum-type"] == "FULL_OBJECT"
    assert (created_facts(()), object_algorithm(())) == ((), None)


def test_a_listed_checksum_is_that_of_the_part() -> None:
    for checksums in ((), (("ChecksumCRC32", "AAAAAA=="),), (("ChecksumSHA1", "of no part"),)):
        check_listed(PART, UploadedPart(1, "etag", checksums))
    with pytest.raises(S3Error, match="InvalidPart"):
        check_listed(PART, UploadedPart(1, "etag", (("ChecksumCRC32", "AAAAAQ=="),)))


def test_the_etag_of_an_object_is_made_of_those_of_its_parts() -> None:
    etags = [md5(content).hexdigest() for content in (b"first", b"second")]
    whole = md5(md5(b"first").digest() + md5(b"second").digest()).hexdigest()
    assert multipart_etag([etags[0], f'"{etags[1].upper()}"']) == f"{whole}-2"
