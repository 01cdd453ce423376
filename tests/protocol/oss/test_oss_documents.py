"""S3's documents, errors and headers in the form of OSS."""

import base64
from xml.etree import ElementTree

import pytest
from multidict import CIMultiDict

from forebay.core.errors import MalformedXml, S3Error
from forebay.protocol.oss.oss_documents import (
    OssLocation,
    creation_date_of,
    failed_batch_delete,
    read_origin_document,
    to_oss_document,
)
from forebay.protocol.oss.oss_errors import (
    OssFailure,
    error_response,
    failure_of_error,
    file_already_exists,
    to_oss_failure,
)
from forebay.protocol.oss.oss_origin_documents import s3_document
from forebay.protocol.oss.oss_request import OssRequest, to_s3_request
from forebay.protocol.oss.oss_response_headers import oss_response_headers
from forebay.protocol.target import parse_target

NS = 'xmlns="http://s3.amazonaws.com/doc/2006-03-01/"'
LOCATION = OssLocation("eu-west-1", "forebay.internal:9000")
MD5 = "d41d8cd98f00b204e9800998ecf8427e"


def request_of(verb: str) -> OssRequest:
    method, _, raw = verb.partition(" ")
    return to_s3_request(method, parse_target(raw, "h", ()), CIMultiDict())


def parsed(document: bytes) -> ElementTree.Element:
    """As the SDKs read it."""
    return ElementTree.fromstring(document)


def translate(verb: str, body: str) -> ElementTree.Element:
    return parsed(to_oss_document(request_of(verb), read_origin_document(body.encode()), LOCATION))


def contents(key: str, etag: str = MD5) -> str:
    return (
        f"<Contents><Key>{key}</Key><LastModified>2026-11-20T12:00:00.123Z</LastModified><ETag>&quot;{etag}&quot;</ETag>"
        "<ChecksumAlgorithm>CRC32</ChecksumAlgorithm><Size>3</Size><StorageClass>STANDARD_IA</StorageClass>"
        "<Owner><ID>i</ID><DisplayName>d</DisplayName></Owner></Contents>"
    )


def test_a_listing() -> None:
    body = (
        f"<ListBucketResult {NS}><Name>b</Name><Prefix>p+q/</Prefix><IsTruncated>true</IsTruncated>"
        f"<EncodingType>url</EncodingType>{contents('p+q/a%2Bb')}{contents('p+q/c', MD5 + '-2')}"
        "<CommonPrefixes><Prefix>p+q/d%2F</Prefix></CommonPrefixes></ListBucketResult>"
    )
    root = translate("GET /b?prefix=p&encoding-type=url", body)
    assert root.tag == "ListBucketResult"
    assert [each.findtext("Key") for each in root.findall("Contents")] == ["p%20q%2Fa%2Bb", "p%20q%2Fc"]
    assert [each.findtext("Type") for each in root.findall("Contents")] == ["Normal", "Multipart"]
    first = root.find("Contents")
    assert first is not None
    assert first.findtext("LastModified") == "2026-11-20T12:00:00.000Z"
    assert first.findtext("ETag") == f'"{MD5.upper()}"'
    assert first.findtext("StorageClass") == "IA"
    assert first.findtext("Owner/DisplayName") == "d"
    assert root.find(".//ChecksumAlgorithm") is None
    assert root.findtext("NextMarker") == "p%20q%2Fd%2F"  # S3 leaves it out where there is no delimiter
    assert root.findtext("EncodingType") == "url"
    plain = translate("GET /b?prefix=p", body)
    assert plain.findtext("Contents/Key") == "p q/a+b"
    assert plain.findtext("NextMarker") == "p q/d/"
    assert plain.find("EncodingType") is None


def test_an_unencoded_listing_is_not_decoded() -> None:
    body = f"<ListBucketResult {NS}><IsTruncated>false</IsTruncated>{contents('a%2Bb+c')}</ListBucketResult>"
    assert translate("GET /b", body).findtext("Contents/Key") == "a%2Bb+c"
    assert translate("GET /b?encoding-type=url", body).findtext("Contents/Key") == "a%252Bb%2Bc"


def test_a_listing_v2() -> None:
    body = (
        f"<ListBucketResult {NS}><IsTruncated>true</IsTruncated><NextContinuationToken>a+/=</NextContinuationToken>"
        f"<KeyCount>1</KeyCount>{contents('a')}</ListBucketResult>"
    )
    root = translate("GET /b?list-type=2&encoding-type=url", body)
    assert root.findtext("NextContinuationToken") == "a%2B%2F%3D"
    assert root.find("NextMarker") is None


def test_markers_are_present_even_if_empty() -> None:
    uploads = translate("GET /b?uploads", f"<ListMultipartUploadsResult {NS}></ListMultipartUploadsResult>")
    assert (uploads.findtext("IsTruncated"), uploads.findtext("NextKeyMarker")) == ("false", "")
    assert uploads.findtext("NextUploadIdMarker") == ""
    part = f"<Part><PartNumber>7</PartNumber><ETag>{MD5}</ETag><Size>1</Size></Part>"
    body = f"<ListPartsResult {NS}>{part}</ListPartsResult>"
    parts = translate("GET /b/k?uploadId=u", body)
    assert parts.findtext("NextPartNumberMarker") == "7"
    assert parts.findtext("Part/ETag") == f'"{MD5.upper()}"'


def test_a_list_of_versions_has_all_markers() -> None:
    names = ["Prefix", "KeyMarker", "VersionIdMarker", "Delimiter"]
    tree = translate(
        "GET /b?versions", "<ListVersionsResult><Name>b</Name><IsTruncated>false</IsTruncated></ListVersionsResult>"
    )
    assert [tree.findtext(name) for name in names] == [""] * 4
    assert tree.find("NextVersionIdMarker") is None
    more = "<ListVersionsResult><IsTruncated>true</IsTruncated><NextKeyMarker>k</NextKeyMarker></ListVersionsResult>"
    tree = translate("GET /b?versions", more)
    assert [tree.findtext(name) for name in ("NextKeyMarker", "NextVersionIdMarker")] == ["k", ""]


def test_a_list_of_parts_has_the_known_crcs() -> None:
    part = "<Part><PartNumber>{}</PartNumber><ETag>{}</ETag><Size>1</Size></Part>"
    body = f"<ListPartsResult {NS}>{part.format(1, MD5)}{part.format(2, MD5)}</ListPartsResult>"
    request = request_of("GET /b/k?uploadId=u")
    document = to_oss_document(
        request,
        read_origin_document(body.encode()),
        LOCATION,
        crc_of_part=lambda number, etag: 77 if (number, etag) == (2, f'"{MD5.upper()}"') else None,
    )
    assert [each.findtext("HashCrc64ecma") for each in parsed(document).findall("Part")] == [None, "77"]


def test_a_batch_delete_lists_the_deleted_keys() -> None:
    failure = "<Error><Key>c</Key><Code>AccessDenied</Code></Error>"
    body = f"<DeleteResult><Deleted><Key>a b</Key></Deleted>{failure}</DeleteResult>"
    root = translate("POST /b?delete&encoding-type=url", body)
    assert [each.findtext("Key") for each in root.findall("Deleted")] == ["a%20b"]
    assert failed_batch_delete(read_origin_document(body.encode())) is None
    failed = "<DeleteResult><Error><Key>c</Key><Code>AccessDenied</Code><Message>m</Message></Error></DeleteResult>"
    assert failed_batch_delete(read_origin_document(failed.encode())) == OssFailure(
        403, "AccessDenied", "m", (("Key", "c"),)
    )
    assert failed_batch_delete(read_origin_document(b"<DeleteResult/>")) is None


def acl(*grants: tuple[str, str]) -> str:
    inner = "".join(
        f"<Grant><Grantee><URI>{uri}</URI></Grantee><Permission>{permission}</Permission></Grant>"
        for uri, permission in grants
    )
    return (
        f"<AccessControlPolicy {NS}><Owner><ID>i</ID></Owner><AccessControlList>{inner}"
        "</AccessControlList></AccessControlPolicy>"
    )


@pytest.mark.parametrize(
    ("grants", "canned"),
    [
        ([], "private"),
        ([("http://acs.amazonaws.com/groups/global/AuthenticatedUsers", "READ")], "private"),
        ([("http://acs.amazonaws.com/groups/global/AllUsers", "READ")], "public-read"),
        (
            [("http://acs.amazonaws.com/groups/global/AllUsers", right) for right in ("READ", "WRITE")],
            "public-read-write",
        ),
    ],
)
def test_grants_become_the_nearest_canned_acl(grants: list[tuple[str, str]], canned: str) -> None:
    root = translate("GET /b?acl", acl(*grants))
    assert root.findtext("AccessControlList/Grant") == canned
    assert root.findtext("Owner/DisplayName") == "i"


@pytest.mark.parametrize("grant", ["default", "private", "public-read", "public-read-write"])
def test_an_oss_origins_acl_survives_both_translations(grant: str) -> None:
    source = (
        "<AccessControlPolicy><Owner><ID>1</ID><DisplayName>o</DisplayName></Owner>"
        f"<AccessControlList><Grant>{grant}</Grant></AccessControlList></AccessControlPolicy>"
    )
    between = s3_document("GetObjectAcl", source.encode(), encoded=False).decode()
    assert translate("GET /b/k?acl", between).findtext("AccessControlList/Grant") == grant


def test_bucket_info() -> None:
    root = translate("GET /b?bucketInfo", acl())
    assert {child.tag: child.text for child in root[0] if not len(child)} == {
        "Name": "b",
        "Location": "oss-eu-west-1",
        "CreationDate": "1970-01-01T00:00:00.000Z",
        "ExtranetEndpoint": "forebay.internal:9000",
        "IntranetEndpoint": "forebay.internal:9000",
        "StorageClass": "Standard",
    }
    assert translate("GET /b?location", f"<LocationConstraint {NS}/>").text == "oss-eu-west-1"
    assert translate("GET /b?location", f"<LocationConstraint {NS}>eu-1</LocationConstraint>").text == "oss-eu-1"


def test_the_list_of_buckets_is_paged() -> None:
    names = "".join(
        f"<Bucket><Name>{name}</Name><CreationDate>2026-01-02T03:04:05Z</CreationDate></Bucket>" for name in "cab"
    )
    body = f"<ListAllMyBucketsResult {NS}><Owner><ID>i</ID></Owner><Buckets>{names}</Buckets></ListAllMyBucketsResult>"
    root = translate("GET /", body)
    assert [each.findtext("Name") for each in root.findall("Buckets/Bucket")] == ["a", "b", "c"]
    assert root.findtext("Buckets/Bucket/CreationDate") == "2026-01-02T03:04:05.000Z"
    root = translate("GET /?max-keys=1&marker=a", body)
    assert [each.findtext("Name") for each in root.findall("Buckets/Bucket")] == ["b"]
    assert (root.findtext("IsTruncated"), root.findtext("NextMarker")) == ("true", "b")
    assert creation_date_of(read_origin_document(body.encode()), "b") == "2026-01-02T03:04:05.000Z"
    assert creation_date_of(read_origin_document(body.encode()), "d") is None


@pytest.mark.parametrize(
    "body",
    [
        b'<!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>',
        b"<a><?php ?></a>",
        b"",
        b"<a>",
        b"<a>" * 20 + b"</a>" * 20,
        b'<?xml version="1.0" encoding="utf-16"?><a/>',
    ],
)
def test_malformed_documents_are_refused(body: bytes) -> None:
    with pytest.raises(MalformedXml):
        read_origin_document(body)


def test_an_error_in_oss_form() -> None:
    body = b"<Error><Code>NoSuchKey</Code><Message>gone</Message><Key>k&lt;</Key><RequestId>theirs</RequestId></Error>"
    failure = to_oss_failure(404, body)
    headers, document = error_response(failure, request_id="ours", host="h", is_head=False)
    root = parsed(document)
    assert [(child.tag, child.text) for child in root] == [
        ("Code", "NoSuchKey"),
        ("Message", "gone"),
        ("RequestId", "ours"),
        ("HostId", "h"),
        ("Key", "k<"),
        ("EC", "0026-00000001"),
    ]
    assert dict(headers) == {"Content-Type": "application/xml", "x-oss-ec": "0026-00000001"}
    headers, document = error_response(failure, request_id="ours", host="h", is_head=True)
    assert base64.b64decode(dict(headers)["x-oss-err"]) == document


@pytest.mark.parametrize(
    ("status", "body", "expected"),
    [
        (404, b"", (404, "NoSuchKey")),
        (403, b"", (403, "AccessDenied")),
        (502, b"<html>", (502, "InternalError")),
        (200, b"<Error><Code>InternalError</Code></Error>", (500, "InternalError")),
        (200, b"<Error><Code>EntityTooSmall</Code></Error>", (400, "EntityTooSmall")),
        (200, b"<Error><Code>SomethingNew</Code></Error>", (500, "SomethingNew")),
        (400, b"<Error><Code>KeyTooLongError</Code></Error>", (400, "InvalidObjectName")),
        (412, b"<Error><Code>PreconditionFailed</Code></Error>", (412, "PreconditionFailed")),
    ],
)
def test_statuses_and_codes(status: int, body: bytes, expected: tuple[int, str]) -> None:
    failure = to_oss_failure(status, body)
    assert (failure.status, failure.code) == expected


def test_a_missing_bucket_and_a_forbidden_overwrite() -> None:
    assert to_oss_failure(404, b"", bucket_is_there=False).code == "NoSuchBucket"
    assert to_oss_failure(412, b"", forbids_overwrite=True) == file_already_exists()
    assert file_already_exists().status == 409


def test_a_condition_on_a_source_is_the_one_that_is_named() -> None:
    prefix = "x-amz-copy-source-"
    both = {f"{prefix}if-match", f"{prefix}if-none-match"}
    cases = (
        (f"{prefix}If-None-Match", both, 304),
        (f"{prefix}If-Match", both, 412),
        ("", both, 412),
        ("", {f"{prefix}if-modified-since"}, 304),
        ("If-None-Match", {f"{prefix}if-none-match"}, 304),
        ("", set[str](), 412),
    )
    for condition, conditions, status in cases:
        document = f"<Error><Code>PreconditionFailed</Code><Condition>{condition}</Condition></Error>".encode()
        assert to_oss_failure(412, document, conditions=conditions).status == status, condition
        error = S3Error("PreconditionFailed", Condition=condition)
        assert failure_of_error(error, conditions=conditions).status == status, condition


def test_headers_of_an_object() -> None:
    source = (
        ("ETag", f'"{MD5}-3"'),
        ("x-amz-meta-colour", "red"),
        ("x-amz-storage-class", "GLACIER"),
        ("x-amz-version-id", "v"),
        ("x-amz-id-2", "theirs"),
        ("x-amz-request-id", "theirs"),
        ("x-oss-hash-crc64ecma", "7"),
        ("x-forebay-cache", "miss"),
        ("Content-Length", "3"),
    )
    assert oss_response_headers(request_of("GET /b/k"), 200, source, "ours") == (
        ("x-oss-object-type", "Multipart"),
        ("ETag", f'"{MD5.upper()}-3"'),
        ("x-oss-meta-colour", "red"),
        ("x-oss-storage-class", "Archive"),
        ("x-oss-version-id", "v"),
        ("x-oss-hash-crc64ecma", "7"),
        ("Content-Length", "3"),
        ("x-oss-request-id", "ours"),
        ("x-forebay-cache", "miss"),
    )
    assert {name for name, _ in oss_response_headers(request_of("HEAD /b/k?objectMeta"), 200, source, "ours")} == {
        "ETag",
        "x-oss-version-id",
        "x-oss-hash-crc64ecma",
        "Content-Length",
        "x-oss-request-id",
        "x-forebay-cache",
    }
    assert oss_response_headers(request_of("PUT /b/k"), 200, (("ETag", '"odd"'),), "r") == (
        ("ETag", '"odd"'),
        ("x-oss-request-id", "r"),
    )
