"""Headers and query that are forwarded to the origin, and headers that are relayed to the client."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from multidict import CIMultiDict

from forebay.core.errors import S3Error
from forebay.protocol.forwarded_headers import forwarded_headers, forwarded_query, relayed_headers
from forebay.protocol.target import parse_target

KEPT = (
    ("Content-Type", "text/plain"),
    ("Content-MD5", "1B2M2Y8AsgTpgAmY7PhCfg=="),
    ("Cache-Control", "no-cache"),
    ("If-None-Match", "*"),
    ("Range", "bytes=0-1"),
    ("x-forebay-durability", "origin"),
    ("x-amz-acl", "private"),
    ("x-amz-meta-Colour", "blue"),
    ("X-Amz-Checksum-Crc32", "AAAAAA=="),
    ("x-amz-checksum-mode", "ENABLED"),
    ("x-amz-expected-bucket-owner", "1"),
    ("x-amz-server-side-encryption-customer-key", "k"),
)
DROPPED = (
    ("Host", "forebay"),
    ("Authorization", "AWS4-HMAC-SHA256 ..."),
    ("Expect", "100-continue"),
    ("Content-Length", "5"),
    ("Date", "d"),
    ("Connection", "keep-alive"),
    ("Keep-Alive", "5"),
    ("Transfer-Encoding", "chunked"),
    ("TE", "trailers"),
    ("Trailer", "x-amz-checksum-crc32"),
    ("Upgrade", "h2c"),
    ("Proxy-Authorization", "Basic x"),
    ("Cookie", "a=b"),
    ("User-Agent", "Boto3"),
    ("Accept-Encoding", "gzip"),
    ("X-Amz-Date", "20260101T000000Z"),
    ("x-amz-content-sha256", "UNSIGNED-PAYLOAD"),
    ("x-amz-security-token", "t"),
    ("x-amz-s3session-token", "t"),
    ("x-amz-decoded-content-length", "5"),
    ("x-amz-trailer", "x-amz-checksum-crc32"),
    ("X-Amz-Sdk-Checksum-Algorithm", "CRC32"),
    ("X-Copy-From", "/secret/k"),
    ("X-Object-Manifest", "secret/"),
    ("X-Symlink-Target", "secret/k"),
    ("X-HTTP-Method-Override", "DELETE"),
    ("X-Forwarded-For", "10.0.0.1"),
    ("x-oss-copy-source", "/secret/k"),
)


def test_request_headers_are_filtered_by_an_allow_list() -> None:
    assert forwarded_headers(CIMultiDict((*KEPT, *DROPPED))) == KEPT


@given(st.from_regex(r"[A-Za-z][A-Za-z0-9-]{0,20}", fullmatch=True))
def test_no_unknown_header_reaches_the_origin(name: str) -> None:
    known = {name.lower() for name, _ in KEPT} | {
        "content-encoding",
        "content-language",
        "content-disposition",
        "expires",
    }
    known |= {"if-match", "if-modified-since", "if-unmodified-since", "if-range"}
    if not name.lower().startswith("x-amz-"):
        assert bool(forwarded_headers(CIMultiDict({name: "1"}))) == (name.lower() in known)


@pytest.mark.parametrize(
    ("encoding", "kept"),
    [
        ("aws-chunked", None),
        ("AWS-Chunked", None),
        ("gzip", "gzip"),
        ("gzip,aws-chunked", "gzip"),
        ("aws-chunked, gzip , br", "gzip, br"),
        ("aws-chunked,", None),
    ],
)
def test_aws_chunked_is_removed_from_content_encoding(encoding: str, kept: str | None) -> None:
    framed = CIMultiDict({"Content-Encoding": encoding, "x-amz-decoded-content-length": "5"})
    assert forwarded_headers(framed) == ((("Content-Encoding", kept),) if kept else ())
    plain = CIMultiDict({"Content-Encoding": encoding})
    assert forwarded_headers(plain) == (("Content-Encoding", encoding),)


def test_copy_source_is_encoded_anew() -> None:
    headers = CIMultiDict({"X-Amz-Copy-Source": "/b/a+b%2Bc?versionId=1", "x-amz-copy-source-range": "bytes=0-1"})
    assert forwarded_headers(headers) == (
        ("x-amz-copy-source-range", "bytes=0-1"),
        ("x-amz-copy-source", "b/a%20b%2Bc?versionId=1"),
    )
    with pytest.raises(S3Error):
        forwarded_headers(CIMultiDict({"x-amz-copy-source": "b/%ff"}))


def test_headers_named_in_connection_are_not_relayed() -> None:
    answer = CIMultiDict([("Connection", "X-Hop"), ("X-Hop", "1"), ("x-hop", "2"), ("ETag", '"a"')])
    assert relayed_headers(answer) == (("ETag", '"a"'),)


def test_connection_removes_no_header_of_a_request() -> None:
    """Connection is not signed; the headers that it names were signed and authorised."""
    request = CIMultiDict([("Connection", "close, X-Amz-Acl"), ("Connection", "Range"), *KEPT])
    assert {name for name, _ in forwarded_headers(request)} == {name for name, _ in KEPT}


def test_responses_lose_only_hop_by_hop_and_host_headers() -> None:
    kept = (
        ("Content-Type", "application/xml"),
        ("Content-Length", "5"),
        ("Date", "d"),
        ("Server", "s"),
        ("ETag", '"a"'),
        ("x-amz-request-id", "1"),
        ("x-amz-checksum-crc32", "AAAAAA=="),
        ("Anything-New", "1"),
        ("anything-new", "2"),
        ("x-forebay-durable", "local"),
    )
    dropped = (
        ("Connection", "close"),
        ("Keep-Alive", "timeout=5"),
        ("Transfer-Encoding", "chunked"),
        ("Trailer", "x"),
        ("Upgrade", "h2"),
        ("Proxy-Authenticate", "Basic"),
        ("Set-Cookie", "a=b"),
        ("Alt-Svc", 'h3=":443"'),
        ("Strict-Transport-Security", "max-age=1"),
        ("X-Forebay-Cache", "hit-ssd"),
        ("x-forebay-resources", "plans"),
    )
    assert relayed_headers(CIMultiDict((*kept, *dropped))) == kept


def test_signature_of_a_presigned_url_is_not_forwarded() -> None:
    raw = (
        "versionId=a%2Bb&acl&X-Amz-Algorithm=x&X-Amz-Credential=x&X-Amz-Date=x&X-Amz-Expires=1&X-Amz-SignedHeaders=host"
        "&X-Amz-Signature=x&X-Amz-Security-Token=x&X-Amz-Content-Sha256=x&x-amz-acl=private&x-id=GetObject"
    )
    query = parse_target(f"/b/k?{raw}", "", ()).query
    assert forwarded_query(query) == (
        ("versionId", "a+b"),
        ("acl", ""),
        ("x-amz-acl", "private"),
        ("x-id", "GetObject"),
    )
