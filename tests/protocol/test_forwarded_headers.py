"""What the next hop gets, and what it must not."""

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


def test_requests_go_by_an_allow_list() -> None:
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
    ("given_", "kept"),
    [
        ("aws-chunked", None),
        ("AWS-Chunked", None),
        ("gzip", "gzip"),
        ("gzip,aws-chunked", "gzip"),
        ("aws-chunked, gzip , br", "gzip, br"),
        ("aws-chunked,", None),
    ],
)
def test_the_framing_of_an_upload_is_not_its_encoding(given_: str, kept: str | None) -> None:
    framed = CIMultiDict({"Content-Encoding": given_, "x-amz-decoded-content-length": "5"})
    assert forwarded_headers(framed) == ((("Content-Encoding", kept),) if kept else ())
    plain = CIMultiDict({"Content-Encoding": given_})
    assert forwarded_headers(plain) == (("Content-Encoding", given_),)


def test_the_copy_source_is_written_anew() -> None:
    headers = CIMultiDict({"X-Amz-Copy-Source": "/b/a+b%2Bc?versionId=1", "x-amz-copy-source-range": "bytes=0-1"})
    assert forwarded_headers(headers) == (
        ("x-amz-copy-source-range", "bytes=0-1"),
        ("x-amz-copy-source", "b/a%20b%2Bc?versionId=1"),
    )
    with pytest.raises(S3Error):
        forwarded_headers(CIMultiDict({"x-amz-copy-source": "b/%ff"}))


def test_what_connection_names_stays_on_the_connection() -> None:
    answer = CIMultiDict([("Connection", "X-Hop"), ("X-Hop", "1"), ("x-hop", "2"), ("ETag", '"a"')])
    assert relayed_headers(answer) == (("ETag", '"a"'),)


def test_connection_takes_nothing_away_from_a_request() -> None:
    """It is signed by nobody, and what it names was signed, and authorised by."""
    request = CIMultiDict([("Connection", "close, X-Amz-Acl"), ("Connection", "Range"), *KEPT])
    assert {name for name, _ in forwarded_headers(request)} == {name for name, _ in KEPT}


def test_answers_lose_only_what_is_not_the_clients() -> None:
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
    )
    assert relayed_headers(CIMultiDict((*kept, *dropped))) == kept


def test_the_signature_of_a_url_stays_here() -> None:
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
