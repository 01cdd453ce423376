"""Which writes may be acknowledged before the origin has them."""

import pytest
from multidict import CIMultiDict

from forebay.policy.acceptable_writes import has_opaque_etags, key_obstacle, obstacle

PLAIN = {
    "Content-Type": "text/plain",
    "x-amz-meta-step": "7",
    "x-amz-date": "d",
    "x-amz-content-sha256": "h",
    "x-amz-checksum-crc32": "c",
    "x-amz-sdk-checksum-algorithm": "CRC32",
    "x-amz-storage-class": "STANDARD",
}


@pytest.mark.parametrize(
    "operation", ["PutObject", "CopyObject", "DeleteObject", "DeleteObjects", "CreateMultipartUpload"]
)
def test_what_means_the_same_later_is_accepted(operation: str) -> None:
    assert obstacle(operation, ["x-id"], CIMultiDict(PLAIN)) is None


@pytest.mark.parametrize(
    "header",
    [
        "If-None-Match",
        "If-Match",
        "x-amz-acl",
        "x-amz-grant-read",
        "x-amz-tagging",
        "x-amz-object-lock-mode",
        "x-amz-server-side-encryption",
        "x-amz-server-side-encryption-customer-key",
        "x-amz-expected-bucket-owner",
        "x-amz-write-offset-bytes",
        "x-amz-website-redirect-location",
        "x-amz-mfa",
        "x-amz-storage-class",
        "x-amz-of-next-year",
        "x-oss-object-acl",
    ],
)
def test_what_only_the_origin_can_judge_goes_through(header: str) -> None:
    assert obstacle("PutObject", [], CIMultiDict(PLAIN | {header: "v"})) == (
        f"its condition {header}" if header.startswith("If") else f"its header {header}"
    )


def test_a_header_that_this_origin_alone_has_goes_through() -> None:
    headers = CIMultiDict(PLAIN | {"X-Delete-After": "60"})
    assert obstacle("PutObject", [], headers) is None, "others are not sent it"
    assert obstacle("PutObject", [], headers, frozenset({"x-delete-after"})) == "its header X-Delete-After"


@pytest.mark.parametrize("value", ["größe", "\udcff"])
def test_metadata_outside_ascii_goes_through(value: str) -> None:
    headers = CIMultiDict(PLAIN | {"x-amz-meta-name": value})
    assert obstacle("PutObject", [], headers) == "the value of its header x-amz-meta-name"


@pytest.mark.parametrize(
    ("headers", "goes_through"),
    [
        ({}, True),
        ({"x-amz-checksum-mode": "ENABLED"}, True),
        ({"content-md5": "CY9rzUYh03PK3k6DJie09g=="}, False),
        ({"x-amz-checksum-crc32": "AAAAAA=="}, False),
        ({"x-amz-trailer": "x-amz-checksum-crc32"}, False),
    ],
)
def test_a_batch_delete_without_a_checksum_goes_through(headers: dict[str, str], *, goes_through: bool) -> None:
    """S3 and OSS refuse it."""
    reason = obstacle("DeleteObjects", ["delete"], CIMultiDict({"x-amz-date": "d"} | headers))
    assert (reason == "the missing checksum of its list") is goes_through


@pytest.mark.parametrize("name", ["x-amz-meta-step", "Cache-Control", "Content-Language", "Expires"])
def test_a_repeated_header_of_an_object_goes_through(name: str) -> None:
    """Origins keep the first value, the last one, or a list of both."""
    headers = CIMultiDict([("Accept", "a"), ("Accept", "b"), (name.lower(), "a")])
    assert obstacle("PutObject", [], headers) is None
    headers = CIMultiDict([(name.lower(), "a"), (name, "b")])
    assert obstacle("PutObject", [], headers) == f"its repeated header {name.lower()}"


@pytest.mark.parametrize(
    ("coding", "is_framed", "goes_through"),
    [
        ("gzip", False, False),
        ("", False, True),
        ("gzip, AWS-chunked", False, True),
        ("gzip,aws-chunked", True, False),
    ],
)
def test_a_coding_that_an_origin_may_drop_goes_through(coding: str, *, is_framed: bool, goes_through: bool) -> None:
    """Without the framing aws-chunked is metadata to some origins, and to others nothing."""
    headers = CIMultiDict(PLAIN | {"content-encoding": coding})
    if is_framed:
        headers["x-amz-decoded-content-length"] = "1"
    reason = "the value of its header Content-Encoding" if goes_through else None
    assert obstacle("PutObject", [], headers) == reason


@pytest.mark.parametrize(
    ("metadata", "goes_through"),
    [
        ({f"x-amz-meta-{n:02}": "v" * 100 for n in range(20)}, False),
        ({f"x-amz-meta-{n:02}": "v" * 100 for n in range(21)}, True),
        ({f"X-Amz-Meta-{n}": "v" for n in range(90)}, False),
        ({f"X-Amz-Meta-{n}": "v" for n in range(91)}, True),
        ({"x-amz-meta-a": "v" * 256}, False),
        ({"x-amz-meta-a": "v" * 257}, True),
        ({"x-amz-meta-" + "a" * 128: "v"}, False),
        ({"x-amz-meta-" + "a" * 129: "v"}, True),
    ],
)
def test_metadata_that_an_origin_may_refuse_goes_through(metadata: dict[str, str], *, goes_through: bool) -> None:
    """It would be acknowledged, and stuck."""
    assert obstacle("PutObject", [], CIMultiDict(metadata)) == ("its large metadata" if goes_through else None)


def test_other_operations_and_versions_go_through() -> None:
    assert obstacle("DeleteObject", ["versionId"], CIMultiDict()) == "its parameter versionId"
    for operation in ("PutObjectAcl", "PutObjectTagging", "RestoreObject", "UnknownPut"):
        assert obstacle(operation, [], CIMultiDict()) is not None


@pytest.mark.parametrize(
    ("header", "value", "opaque"),
    [
        ("x-amz-server-side-encryption", "aws:kms", True),
        ("x-amz-server-side-encryption", "aws:kms:dsse", True),
        ("x-amz-server-side-encryption", "AES256", False),
        ("x-oss-server-side-encryption", "KMS", True),
        ("x-oss-server-side-encryption", "AES256", False),
        ("ETag", '"aws:kms"', False),
    ],
)
def test_kms_hides_the_md5(header: str, value: str, opaque: bool) -> None:
    assert has_opaque_etags(CIMultiDict({header: value})) is opaque


@pytest.mark.parametrize(
    ("key", "why"),
    [
        ("step 7/é+%2F/\U0001f600\t\n.distcp", None),
        ("a/.b/..c/...", None),
        ("folder/", None),
        (f"{'d' * 255}/{'d' * 255}/{'d' * 255}/{'d' * 255}", None),
        (f"{'d' * 255}/{'d' * 255}/{'d' * 255}/{'d' * 255}/", "its long key"),
        ("é" * 512, "its long key"),
        ("d" * 256, "a segment of its key"),
        (f"a/{'é' * 128}/b", "a segment of its key"),
        ("/a", "a segment of its key"),
        ("a//b", "a segment of its key"),
        ("./a", "a segment of its key"),
        ("a/..", "a segment of its key"),
        ("a/../b", "a segment of its key"),
        (".", "a segment of its key"),
        ("a\x01", "a character of its key"),
        ("a\x00", "a character of its key"),
        ("a\ufffe", "a character of its key"),
        ("a\udc80", "a character of its key"),
    ],
)
def test_a_key_that_some_origins_refuse_goes_through(key: str, why: str | None) -> None:
    assert key_obstacle(key) == why
