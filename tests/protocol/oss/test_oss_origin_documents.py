"""An OSS origin's documents, errors and headers in S3's terms."""

from contextlib import suppress
from urllib.parse import quote, unquote_plus
from xml.etree import ElementTree as Tree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.core.errors import MalformedOssDocument
from forebay.protocol.oss.oss_errors import s3_error
from forebay.protocol.oss.oss_origin_documents import s3_document
from forebay.protocol.oss.oss_response_headers import s3_response_headers

NAMESPACE = "{http://s3.amazonaws.com/doc/2006-03-01/}"
NAMES = st.text(
    st.characters(codec="utf-8", exclude_categories=("Cs", "Cc"), exclude_characters="\ufffe\uffff"), min_size=1
)


def tree_of(document: bytes) -> Tree.Element:
    return Tree.fromstring(document)


def texts(document: bytes, path: str) -> list[str | None]:
    steps = "/".join(f"{NAMESPACE}{step}" for step in path.split("/"))
    return [each.text for each in tree_of(document).iterfind(steps)]


def test_headers() -> None:
    translated = s3_response_headers(
        [
            ("ETag", '"A"'),
            ("Server", "AliyunOSS"),
            ("x-oss-meta-colour", "blue"),
            ("x-oss-storage-class", "IA"),
            ("x-oss-hash-crc64ecma", "1"),
            ("x-oss-object-type", "Normal"),
            ("x-oss-version-id", "v"),
            ("x-oss-server-side-encryption", "KMS"),
            ("x-oss-server-side-encryption-key-id", "k"),
            ("x-oss-request-id", "R"),
            ("x-oss-server-time", "3"),
            ("x-oss-ec", "0"),
        ]
    )
    assert translated == (
        ("ETag", '"A"'),
        ("x-amz-meta-colour", "blue"),
        ("x-amz-storage-class", "STANDARD_IA"),
        ("x-oss-hash-crc64ecma", "1"),
        ("x-oss-object-type", "Normal"),
        ("x-amz-version-id", "v"),
        ("x-amz-server-side-encryption", "aws:kms"),
        ("x-amz-server-side-encryption-aws-kms-key-id", "k"),
        ("x-amz-request-id", "R"),
    )


def test_default_storage_class_is_not_said() -> None:
    """S3 says it of no object, and an answer from the journal doesn't."""
    assert s3_response_headers([("x-oss-storage-class", "Standard"), ("ETag", '"A"')]) == (("ETag", '"A"'),)


@given(st.lists(NAMES, min_size=1, max_size=4), st.booleans())
def test_names_are_encoded_as_requested(names: list[str], encoded: bool) -> None:
    contents = "".join(f"<Contents><Key>{quote(name, safe='')}</Key><Size>1</Size></Contents>" for name in names)
    source = (
        f"<ListBucketResult><Name>b</Name><Prefix>{quote(names[0], safe='')}</Prefix><Marker></Marker>"
        f"<EncodingType>url</EncodingType><IsTruncated>true</IsTruncated><NextMarker>{quote(names[-1], safe='')}"
        f"</NextMarker>{contents}</ListBucketResult>"
    )
    translated = s3_document("ListObjects", source.encode(), encoded=encoded)
    read = unquote_plus if encoded else str  # as botocore reads them
    assert [read(each or "") for each in texts(translated, "Contents/Key")] == names
    assert [read(each or "") for each in texts(translated, "NextMarker")] == names[-1:]
    assert texts(translated, "EncodingType") == (["url"] if encoded else [])


def test_a_listing_v2() -> None:
    source = (
        b"<ListBucketResult><Name>b</Name><EncodingType>url</EncodingType><IsTruncated>true</IsTruncated>"
        b"<NextContinuationToken>CgJiYhAA%2F</NextContinuationToken><StartAfter></StartAfter>"
        b"<Contents><Key>a%2Fb</Key><Type>Normal</Type><StorageClass>Archive</StorageClass></Contents>"
        b"<CommonPrefixes><Prefix>c%2F</Prefix></CommonPrefixes></ListBucketResult>"
    )
    translated = s3_document("ListObjectsV2", source, encoded=True)
    assert texts(translated, "NextContinuationToken") == ["CgJiYhAA/"]
    assert (texts(translated, "StartAfter"), texts(translated, "KeyCount")) == ([], ["2"])
    assert (texts(translated, "Contents/StorageClass"), texts(translated, "Contents/Type")) == (["GLACIER"], ["Normal"])
    assert texts(translated, "CommonPrefixes/Prefix") == ["c/"]


def test_a_quiet_batch_delete_has_a_document() -> None:
    assert tree_of(s3_document("DeleteObjects", b"", encoded=False)).tag == f"{NAMESPACE}DeleteResult"


@pytest.mark.parametrize(
    ("grant", "permissions"),
    [
        ("private", ["FULL_CONTROL"]),
        ("default", ["FULL_CONTROL"]),
        ("public-read", ["FULL_CONTROL", "READ"]),
        ("public-read-write", ["FULL_CONTROL", "READ", "WRITE"]),
    ],
)
def test_an_access_list(grant: str, permissions: list[str]) -> None:
    source = (
        "<AccessControlPolicy><Owner><ID>1</ID><DisplayName>o</DisplayName></Owner>"
        f"<AccessControlList><Grant>{grant}</Grant></AccessControlList></AccessControlPolicy>"
    )
    translated = s3_document("GetObjectAcl", source.encode(), encoded=False)
    assert texts(translated, "AccessControlList/Grant/Permission") == permissions
    assert texts(translated, "Owner/ID") == ["1"]


@pytest.mark.parametrize(
    ("status", "code", "expected"),
    [
        (404, "NoSuchKey", (404, "NoSuchKey")),
        (409, "FileAlreadyExists", (412, "PreconditionFailed")),
        (503, "ServerBusy", (503, "SlowDown")),
        (403, "SecurityTokenExpired", (400, "ExpiredToken")),
        (400, "NeverHeardOf", (400, "NeverHeardOf")),
    ],
)
def test_errors(status: int, code: str, expected: tuple[int, str]) -> None:
    source = f"<Error><Code>{code}</Code><Message>m</Message><HostId>h</HostId><EC>0001</EC></Error>"
    translated_status, document = s3_error(status, source.encode(), copies=False)
    tree = tree_of(document)
    assert (translated_status, tree.findtext("Code")) == expected
    assert (tree.findtext("EC"), tree.findtext("HostId")) == ("0001", None)


def test_a_copy_whose_condition_fails() -> None:
    status, document = s3_error(304, b"", copies=True)
    assert (status, tree_of(document).findtext("Code")) == (412, "PreconditionFailed")


@given(st.integers(300, 599), st.binary(max_size=200))
def test_an_unreadable_error_keeps_its_status(status: int, body: bytes) -> None:
    assert s3_error(status, body, copies=False) == (status, b"")


@given(st.one_of(st.binary(max_size=100), st.text(max_size=60).map(lambda text: f"<A>{text}</A>".encode())))
def test_random_bodies_raise_or_translate(body: bytes) -> None:
    with suppress(MalformedOssDocument):
        tree_of(s3_document("ListObjects", body, encoded=False))


@pytest.mark.parametrize("body", [b"", b"<A>", b"<!DOCTYPE a><A/>", b"\xff<A/>", b"{}"])
def test_a_body_that_is_no_document_raises(body: bytes) -> None:
    with pytest.raises(MalformedOssDocument):
        s3_document("ListObjects", body, encoded=False)


def test_an_empty_page_is_the_last_one() -> None:
    part = "<Part><PartNumber>1</PartNumber><ETag>A</ETag></Part>"
    fields = "<UploadId>u</UploadId><NextPartNumberMarker>1</NextPartNumberMarker><MaxParts>1</MaxParts>"
    source = f"<ListPartsResult>{fields}<IsTruncated>true</IsTruncated>{part}</ListPartsResult>"
    document = s3_document("ListParts", source.encode(), encoded=False, is_empty=True)
    assert [(child.tag.removeprefix(NAMESPACE), child.text) for child in tree_of(document)] == [
        ("UploadId", "u"),
        ("NextPartNumberMarker", "0"),
        ("MaxParts", "0"),
        ("IsTruncated", "false"),
    ]
    keys = "<Contents><Key>a</Key></Contents><CommonPrefixes><Prefix>b/</Prefix></CommonPrefixes>"
    source = f"<ListBucketResult><IsTruncated>true</IsTruncated><NextContinuationToken>t</NextContinuationToken>{keys}"
    document = s3_document("ListObjectsV2", f"{source}</ListBucketResult>".encode(), encoded=False, is_empty=True)
    assert [(child.tag.removeprefix(NAMESPACE), child.text) for child in tree_of(document)] == [
        ("IsTruncated", "false"),
        ("KeyCount", "0"),
    ]
