"""OSS clients' requests in S3's terms."""

from collections.abc import Mapping

import pytest
from multidict import CIMultiDict

from forebay.core.errors import S3Error
from forebay.protocol.operation_table import OPERATIONS
from forebay.protocol.operations import classify
from forebay.protocol.oss.oss_operation_table import OSS_CATALOGUE, OssOperation, find_operation
from forebay.protocol.oss.oss_request import OssRequest, to_s3_request
from forebay.protocol.target import parse_target

PATHS = {"service": "/", "bucket": "/b", "object": "/b/k"}


def translate(verb: str, headers: Mapping[str, str] = {}, **more: bool) -> OssRequest:
    method, _, raw = verb.partition(" ")
    return to_s3_request(method, parse_target(raw, "h", ()), CIMultiDict(headers), **more)


def of_row(row: OssOperation) -> tuple[str, dict[str, str]]:
    """A request of this operation."""
    query = "&".join(sorted(f"{name}=1" for name in row.required))
    headers = {"x-oss-copy-source": "/b/other"} if row.copies else {}
    return f"{row.method} {PATHS[row.level]}{'?' if query else ''}{query}", headers


@pytest.mark.parametrize("row", [row for row in OSS_CATALOGUE if row.s3], ids=lambda row: str(row.name))
def test_each_operation_becomes_that_of_its_row(row: OssOperation) -> None:
    verb, headers = of_row(row)
    request = translate(verb, headers)
    method = verb.partition(" ")[0]
    assert row.s3 in {known.name for known in OPERATIONS}
    assert classify(method, request.target, request.headers).name == row.s3


@pytest.mark.parametrize("row", [row for row in OSS_CATALOGUE if not row.s3], ids=lambda row: f"{row.name}")
def test_operations_that_s3_lacks_are_refused_with_a_reason(row: OssOperation) -> None:
    with pytest.raises(S3Error) as refused:
        translate(*of_row(row))
    assert refused.value.code == "NotImplemented"
    assert row.note in refused.value.message


@pytest.mark.parametrize(
    ("verb", "name"),
    [("POST", "ProcessObject or SelectObject"), ("GET", "GetObject with x-oss-process")],
)
def test_a_processed_object_is_refused_by_what_oss_calls_it(verb: str, name: str) -> None:
    with pytest.raises(S3Error, match=f"{name} is not supported"):
        translate(f"{verb} /b/k?x-oss-process", {})


def test_no_two_rows_are_the_same_request() -> None:
    for row in OSS_CATALOGUE:
        assert find_operation(row.level, row.method, row.required, row.copies) is row


def test_a_plain_read_stays_plain_however_it_is_signed() -> None:
    signature = "OSSAccessKeyId=a&Expires=1&Signature=s&security-token=t&x-oss-traffic-limit=819200"
    headers = {"x-oss-date": "d", "x-oss-content-sha256": "UNSIGNED-PAYLOAD", "x-oss-range-behavior": "standard"}
    for verb in (f"GET /b/k?{signature}", "GET /b/k", "HEAD /b/k?objectMeta", "HEAD /b/k?objectMeta="):
        request = translate(verb, {**headers, "Range": "bytes=0-1"})
        assert classify(verb[: verb.index(" ")], request.target, request.headers).is_plain_read, verb


def test_a_copy_has_no_content_md5() -> None:
    source = {"x-oss-copy-source": "/b/other"}
    for verb in ("PUT /b/k", "PUT /b/k?uploadId=u&partNumber=1"):
        request = translate(verb, {**source, "Content-MD5": "1B2M2Y8AsgTpgAmY7PhCfg=="})
        assert "Content-MD5" not in request.headers
        with pytest.raises(S3Error, match="BadDigest"):
            translate(verb, {**source, "Content-MD5": "CY9rzUYh03PK3k6DJie09g=="})


def test_headers_are_renamed_and_their_values_translated() -> None:
    request = translate(
        "PUT /b/k",
        {
            "x-oss-meta-Colour": "red",
            "x-oss-object-acl": "public-read",
            "x-oss-storage-class": "IA",
            "x-oss-server-side-encryption": "KMS",
            "x-oss-server-side-encryption-key-id": "key",
            "x-oss-tagging": "a=b",
            "x-oss-forbid-overwrite": "true",
            "Content-MD5": "m",
            "Authorization": "OSS a:b",
        },
    )
    assert sorted(request.headers.items()) == [
        ("Content-MD5", "m"),
        ("If-None-Match", "*"),
        ("x-amz-acl", "public-read"),
        ("x-amz-meta-colour", "red"),
        ("x-amz-server-side-encryption", "aws:kms"),
        ("x-amz-server-side-encryption-aws-kms-key-id", "key"),
        ("x-amz-storage-class", "STANDARD_IA"),
        ("x-amz-tagging", "a=b"),
    ]
    assert request.forbids_overwrite


def test_nothing_of_s3_comes_through() -> None:
    """It was covered by no signature of OSS."""
    request = translate("PUT /b/k", {"x-amz-acl": "public-read", "x-amz-copy-source": "/b/secret", "x-amz-meta-a": "b"})
    assert not list(request.headers)
    with pytest.raises(S3Error, match="both"):
        translate("GET /b/k?x-amz-acl=public-read")


@pytest.mark.parametrize(
    ("verb", "headers"),
    [
        ("PUT /b/k", {"x-oss-callback": "e30="}),
        ("PUT /b/k?callback=e30=", {}),
        ("GET /b/k?x-oss-process=image/resize,w_10", {}),
        ("GET /b/k?x-oss-ac-source-ip=1.2.3.4", {}),
        ("PUT /b/k", {"x-oss-storage-class": "Glass"}),
        ("PUT /b/k", {"x-oss-server-side-encryption": "SM4"}),
        ("PUT /b/k", {"x-oss-new-thing": "1"}),
        ("PUT /b/k?newer", {}),
        ("GET /b/k?newer", {}),
        ("POST /b/k?append&position=0", {}),
        ("PUT /b/k?symlink", {"x-oss-symlink-target": "t"}),
    ],
)
def test_parameters_that_s3_lacks_are_refused(verb: str, headers: dict[str, str]) -> None:
    with pytest.raises(S3Error) as refused:
        translate(verb, headers)
    assert refused.value.status == 501


@pytest.mark.parametrize(
    ("source", "code"),
    [
        ("PUT /b/k?acl&tagging", "MethodNotAllowed"),
        ("PATCH /b/k", "MethodNotAllowed"),
        ("GET /b/k?acl&acl", "InvalidArgument"),
    ],
)
def test_unknown_requests_are_refused(source: str, code: str) -> None:
    with pytest.raises(S3Error) as refused:
        translate(source)
    assert refused.value.code == code


def test_a_listing_has_the_defaults_of_oss() -> None:
    request = translate("GET /b?prefix=&delimiter=&marker=&encoding-type=url")
    assert request.target.query == (("max-keys", "100"), ("encoding-type", "url"))
    assert request.encodes_names
    request = translate("GET /b?list-type=2&max-keys=7&continuation-token=&start-after=a&fetch-owner=true")
    assert dict(request.target.query) == {
        "list-type": "2",
        "max-keys": "7",
        "start-after": "a",
        "fetch-owner": "true",
        "encoding-type": "url",
    }
    assert not request.encodes_names


def test_etags_are_in_s3s_form_unless_the_origin_is_oss() -> None:
    tag = "D41D8CD98F00B204E9800998ECF8427E"
    source = {"If-Match": tag, "If-None-Match": f'"{tag}-2", *'}
    assert translate("GET /b/k", source).headers["If-Match"] == f'"{tag.lower()}"'
    assert translate("GET /b/k", source).headers["If-None-Match"] == f'"{tag.lower()}-2", "*"'
    assert translate("GET /b/k", {"If-None-Match": "*"}).headers["If-None-Match"] == "*"
    assert translate("GET /b/k", source, origin_is_oss=True).headers["If-Match"] == tag


def test_only_a_get_without_range_behavior_is_lenient() -> None:
    assert translate("GET /b/k", {"Range": "bytes=0-1"}).lenient_range
    assert not translate("GET /b/k", {"Range": "bytes=0-1", "x-oss-range-behavior": "standard"}).lenient_range
    assert not translate("GET /b/k").lenient_range
    assert not translate("HEAD /b/k", {"Range": "bytes=0-1"}).lenient_range
