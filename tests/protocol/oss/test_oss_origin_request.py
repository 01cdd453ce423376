"""S3's requests in the form of an OSS origin."""

from base64 import b64encode
from hashlib import md5

import pytest

from forebay.core.cooperative import run_to_completion
from forebay.core.errors import S3Error
from forebay.core.heads import HeaderPairs
from forebay.protocol.oss.oss_operation_table import CARRIED
from forebay.protocol.oss.oss_origin_request import OssOriginRequest, is_empty_page, to_oss_request


def translate(
    operation: str,
    method: str = "GET",
    query: HeaderPairs = (),
    headers: HeaderPairs = (),
    body: bytes = b"",
    *,
    on_bucket: bool = False,
) -> OssOriginRequest:
    return run_to_completion(
        to_oss_request(operation, method, query, headers, body, "cn-hangzhou", on_bucket=on_bucket)
    )


@pytest.mark.parametrize(
    ("operation", "source", "sent"),
    [
        ("PutObject", ("x-amz-meta-Colour", "Blue "), ("x-oss-meta-colour", "Blue")),
        ("PutObject", ("x-amz-storage-class", "STANDARD_IA"), ("x-oss-storage-class", "IA")),
        ("PutObject", ("x-amz-storage-class", "DeepColdArchive"), ("x-oss-storage-class", "DeepColdArchive")),
        ("PutObject", ("x-amz-acl", "public-read"), ("x-oss-object-acl", "public-read")),
        ("PutObject", ("If-None-Match", "*"), ("x-oss-forbid-overwrite", "true")),
        ("PutObject", ("x-amz-tagging", "a=b"), ("x-oss-tagging", "a=b")),
        ("PutObject", ("x-amz-server-side-encryption", "aws:kms"), ("x-oss-server-side-encryption", "KMS")),
        (
            "PutObject",
            ("x-amz-server-side-encryption-aws-kms-key-id", "k"),
            ("x-oss-server-side-encryption-key-id", "k"),
        ),
        ("PutObject", ("Content-MD5", "x"), ("Content-MD5", "x")),
        ("PutObject", ("Cache-Control", "no-store"), ("Cache-Control", "no-store")),
        ("PutObject", ("x-amz-checksum-crc32", "AAAAAA=="), None),
        ("PutObject", ("x-amz-sdk-checksum-algorithm", "CRC32"), None),
        ("PutObject", ("If-Unmodified-Since", "Thu, 01 Jan 1970 00:00:00 GMT"), None),
        ("CopyObject", ("x-amz-copy-source", "b/a%20b?versionId=1"), ("x-oss-copy-source", "/b/a%20b?versionId=1")),
        ("CopyObject", ("x-amz-copy-source-if-match", '"A"'), ("x-oss-copy-source-if-match", '"A"')),
        ("CopyObject", ("x-amz-metadata-directive", "REPLACE"), ("x-oss-metadata-directive", "REPLACE")),
        ("CopyObject", ("x-amz-tagging-directive", "REPLACE"), ("x-oss-tagging-directive", "Replace")),
        ("GetObject", ("If-Match", '"A"'), ("if-match", '"A"')),
        ("GetObject", ("x-amz-checksum-mode", "ENABLED"), None),
        ("GetObject", ("x-amz-request-payer", "requester"), ("x-oss-request-payer", "requester")),
    ],
)
def test_headers(operation: str, source: tuple[str, str], sent: tuple[str, str] | None) -> None:
    assert translate(operation, "PUT", (), (source,)).headers == (() if sent is None else (sent,))


@pytest.mark.parametrize(
    ("operation", "header", "value"),
    [
        ("PutObject", "If-Match", '"A"'),
        ("PutObject", "If-None-Match", '"A"'),
        ("DeleteObject", "If-Match", '"A"'),
        ("CreateMultipartUpload", "If-None-Match", "*"),
        ("PutObject", "x-amz-storage-class", "GLACIER_IR"),
        ("PutObject", "x-amz-acl", "authenticated-read"),
        ("PutObject", "x-amz-grant-read", "id=1"),
        ("PutObject", "x-amz-server-side-encryption", "aws:kms:dsse"),
        ("PutObject", "x-amz-server-side-encryption-customer-key", "k"),
        ("PutObject", "x-amz-object-lock-mode", "GOVERNANCE"),
        ("PutObject", "x-amz-write-offset-bytes", "0"),
        ("PutObject", "x-amz-expected-bucket-owner", "1"),
        ("GetObject", "x-amz-server-side-encryption-customer-key", "k"),
        ("DeleteObject", "x-amz-bypass-governance-retention", "true"),
        ("CompleteMultipartUpload", "x-amz-mp-object-size", "1"),
        ("PutObject", "x-amz-never-heard-of", "1"),
    ],
)
def test_headers_that_oss_lacks_are_refused(operation: str, header: str, value: str) -> None:
    with pytest.raises(S3Error) as refused:
        translate(operation, "PUT", (), ((header, value),))
    assert refused.value.code == "NotImplemented"


@pytest.mark.parametrize(
    ("headers", "ranged"),
    [
        ((("Range", "bytes=0-9"),), "bytes=0-9"),
        ((("range", " bytes=-9 "),), "bytes=-9"),
        ((("Range", "bytes=9-"),), "bytes=9-"),
        ((("Range", "bytes= 0-9"),), "bytes=0-9"),
        ((("Range", "bytes=9-8"),), None),
        ((("Range", "bytes=0-1,3-4"),), None),
        ((("Range", "lines=0-1"),), None),
        ((("Range", "bytes=0-9"), ("If-Range", '"A"')), None),
        ((), None),
    ],
)
def test_ranges_are_strict_or_none(headers: HeaderPairs, ranged: str | None) -> None:
    request = translate("GetObject", "GET", (), headers)
    expected = () if ranged is None else (("Range", ranged), ("x-oss-range-behavior", "standard"))
    assert (request.headers, request.has_range) == (expected, ranged is not None)


@pytest.mark.parametrize(
    ("operation", "source", "sent"),
    [
        ("GetObject", {"versionId": "1", "response-expires": "0", "x-id": "GetObject"}, "versionId response-expires"),
        ("ListObjectsV2", {"list-type": "2", "max-keys": "5000", "prefix": ""}, "list-type max-keys encoding-type"),
        ("ListObjects", {"prefix": "a", "encoding-type": "url"}, "prefix encoding-type max-keys"),
        ("ListMultipartUploads", {"uploads": "", "key-marker": ""}, "uploads encoding-type"),
        ("ListBuckets", {"continuation-token": "x", "max-buckets": "9"}, "marker max-keys"),
        ("DeleteObjects", {"delete": ""}, "delete encoding-type"),
    ],
)  # fmt: skip
def test_queries(operation: str, source: dict[str, str], sent: str) -> None:
    body = b"<Delete><Object><Key>k</Key></Object></Delete>" if operation == "DeleteObjects" else b""
    request = translate(operation, "GET", tuple(source.items()), (), body, on_bucket=True)
    assert [name for name, _ in request.query] == sent.split()
    assert dict(request.query).get("max-keys", "1000") in {"1000", "9"}


@pytest.mark.parametrize(("operation", "name"), [("ListObjectsV2", "max-keys"), ("ListParts", "max-parts")])
@pytest.mark.parametrize(
    ("sent", "translated"),
    [
        ("0", "1"),
        ("00", "1"),
        ("1", "1"),
        ("1001", "1000"),
        ("9" * 5000, "9" * 5000),
        ("\u0663", "\u0663"),
        ("-1", "-1"),
    ],
)
def test_page_sizes(operation: str, name: str, sent: str, translated: str) -> None:
    query = ((name, sent),)
    assert dict(translate(operation, "GET", query, (), on_bucket=True).query)[name] == translated
    assert is_empty_page(query) == (sent in {"0", "00"})


def test_a_read_by_part_number_is_refused() -> None:
    with pytest.raises(S3Error, match="NotImplemented"):
        translate("HeadObject", "HEAD", (("partNumber", "1"),))


@pytest.mark.parametrize(
    ("operation", "source", "sent"),
    [
        (
            "DeleteObjects",
            "<Delete xmlns='x'><Object><Key>a&lt;b</Key><VersionId>1</VersionId></Object><Quiet>true</Quiet></Delete>",
            "<Delete><Quiet>true</Quiet><Object><Key>a&lt;b</Key><VersionId>1</VersionId></Object></Delete>",
        ),
        (
            "CompleteMultipartUpload",
            "<CompleteMultipartUpload><Part><ETag>ABC</ETag><PartNumber>1</PartNumber></Part></CompleteMultipartUpload>",
            '<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>"ABC"</ETag></Part></CompleteMultipartUpload>',
        ),
        (
            "PutObjectTagging",
            "<Tagging xmlns='x'><TagSet><Tag><Key>a</Key><Value>b</Value></Tag></TagSet></Tagging>",
            "<Tagging><TagSet><Tag><Key>a</Key><Value>b</Value></Tag></TagSet></Tagging>",
        ),
        (
            "PutBucketVersioning",
            "<VersioningConfiguration xmlns='x'><Status>Enabled</Status></VersioningConfiguration>",
            "<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>",
        ),
        (
            "RestoreObject",
            "<RestoreRequest><Days>2</Days><GlacierJobParameters><Tier>Bulk</Tier></GlacierJobParameters></RestoreRequest>",
            "<RestoreRequest><Days>2</Days><JobParameters><Tier>Bulk</Tier></JobParameters></RestoreRequest>",
        ),
        (
            "CreateBucket",
            "<CreateBucketConfiguration><LocationConstraint>cn-hangzhou</LocationConstraint></CreateBucketConfiguration>",
            "",
        ),
    ],
)
def test_documents(operation: str, source: str, sent: str) -> None:
    request = translate(operation, "POST", (), (("Content-MD5", "of the other"),), source.encode(), on_bucket=True)
    body = request.body or b""
    assert body.partition(b"?>\n")[2].decode().replace("&quot;", '"') == sent
    digest = b64encode(md5(body, usedforsecurity=False).digest()).decode()
    assert dict(request.headers).get("Content-MD5") == (digest if sent else None)


@pytest.mark.parametrize(
    ("operation", "body", "code"),
    [
        ("DeleteObjects", "<Delete><Object><Key>a</Key><ETag>x</ETag></Object></Delete>", "NotImplemented"),
        ("DeleteObjects", "<Delete>", "MalformedXML"),
        ("PutObjectTagging", "<Other/>", "MalformedXML"),
        ("PutObjectTagging", "<!DOCTYPE a><Tagging/>", "MalformedXML"),
        (
            "PutBucketVersioning",
            "<VersioningConfiguration><Status>Enabled</Status><MfaDelete>Enabled</MfaDelete></VersioningConfiguration>",
            "NotImplemented",
        ),
        ("PutObjectAcl", "<AccessControlPolicy/>", "NotImplemented"),
        ("RestoreObject", "<RestoreRequest><Type>SELECT</Type></RestoreRequest>", "NotImplemented"),
        (
            "CreateBucket",
            "<CreateBucketConfiguration><LocationConstraint>eu</LocationConstraint></CreateBucketConfiguration>",
            "InvalidArgument",
        ),
    ],
)
def test_documents_that_oss_lacks_are_refused(operation: str, body: str, code: str) -> None:
    with pytest.raises(S3Error) as refused:
        translate(operation, "POST", (), (), body.encode())
    assert refused.value.code == code


def test_head_bucket_becomes_a_listing() -> None:
    request = translate("HeadBucket", "HEAD", on_bucket=True)
    assert (request.method, request.query) == ("GET", (("list-type", "2"), ("max-keys", "1")))


@pytest.mark.parametrize("operation", ["UnknownGet", "GetBucketPolicy", "SelectObjectContent", "GetObjectAttributes"])
def test_operations_that_oss_lacks_are_refused(operation: str) -> None:
    assert operation not in CARRIED
    with pytest.raises(S3Error, match="NotImplemented"):
        translate(operation)
