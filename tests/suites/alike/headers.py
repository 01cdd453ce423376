"""Odd, missing and wrong headers: lengths, digests, dates, Expect, content types, what is not signed."""

import base64
import hashlib

from suites.alike.cases import case
from suites.alike.recording_client import Asking, crc32, md5


@case
def content_md5(s3: Asking) -> None:
    for digest in (md5(b"bar"), md5(b"other"), "YWJj", "not base64 at all", "", " "):
        s3.ask("PUT", "foo", headers={"Content-MD5": digest}, body=b"bar")
        s3.ask("GET", "foo")


@case
def content_length(s3: Asking) -> None:
    for length in ("-1", "x", "+3", "3 ", "0x3", "3, 3", "03"):
        s3.ask("PUT", "foo", body=b"bar", unsigned={"Content-Length": length})
    s3.ask("PUT", "foo", unsigned={"Content-Length": ""})
    s3.ask("PUT", "foo", body=b"bar", unsigned={"Content-Length": "2"})
    s3.ask("GET", "foo")
    s3.ask("PUT", unsigned={"Content-Length": ""}, bucket="alike-second-bucket")
    s3.ask("DELETE", "nothing", unsigned={"Content-Length": ""})
    s3.ask("POST", "foo", {"uploads": ""}, unsigned={"Content-Length": ""})


@case
def expect(s3: Asking) -> None:
    for expectation in ("200", "", "100-Continue", "100-continue, other"):
        s3.ask("PUT", "foo", body=b"bar", unsigned={"Expect": expectation})
    s3.ask("GET", "foo", unsigned={"Expect": "100-continue"})


@case
def content_type(s3: Asking) -> None:
    for kind in (
        "text/plain",
        "",
        "text",
        "text/plain; charset=UTF-8",
        "Text/HTML;a=b",
        "a b",
        "application/x-directory",
    ):
        s3.ask("PUT", "foo", headers={"Content-Type": kind}, body=b"bar")
        s3.ask("HEAD", "foo")
        s3.ask("GET", "foo")
    s3.ask("PUT", "foo", body=b"bar")
    s3.ask("HEAD", "foo")


@case
def standard_headers(s3: Asking) -> None:
    kept = {
        "Cache-Control": "max-age=60, public",
        "Content-Disposition": 'attachment; filename="a b.txt"',
        "Content-Encoding": "gzip",
        "Content-Language": "en, de",
        "Expires": "Thu, 01 Dec 2050 16:00:00 GMT",
    }
    s3.ask("PUT", "foo", headers=kept, body=b"bar")
    s3.ask("HEAD", "foo")
    s3.ask("GET", "foo")
    s3.ask("GET", "foo", headers={"Range": "bytes=0-0"})
    for name in kept:
        s3.ask("PUT", name, headers={name: ""}, body=b"bar")
        s3.ask("HEAD", name)
    s3.ask("PUT", "odd", headers={"Expires": "never", "Content-Encoding": "aws-chunked"}, body=b"bar")
    s3.ask("GET", "odd")
    for codings in ("gzip,aws-chunked", "aws-chunked, gzip", "aws-chunked, aws-chunked", "deflate, gzip", "gzip, gzip"):
        s3.ask("PUT", "two", headers={"Content-Encoding": codings}, body=b"bar")
        s3.ask("HEAD", "two")


@case
def user_metadata(s3: Asking) -> None:
    values = (
        "mine",
        "",
        "  padded  ",
        "a,b",
        "=?UTF-8?Q?h=C3=A9?=",
        "x" * 1000,
        'quo"ted',
        "semi;colon",
        "tab\tinside",
        "hé 日",
    )
    for number, value in enumerate(values):
        s3.ask("PUT", f"foo{number}", headers={"x-amz-meta-One": value, "X-AMZ-META-two_2": "2"}, body=b"bar")
        s3.ask("HEAD", f"foo{number}")
        s3.ask("GET", f"foo{number}")
    s3.ask("PUT", "foo0", body=b"bar")
    s3.ask("HEAD", "foo0")


@case
def signatures(s3: Asking) -> None:
    s3.ask("PUT", "foo", body=b"bar")
    s3.ask("GET", "foo")
    for value in (
        "AWS4-HMAC-SHA256 nonsense",
        "AWS HAHAHA",
        "Bearer x",
        "AWS4-HMAC-SHA256 Credential=a/b, Signature=x",
    ):
        s3.ask("GET", "foo", unsigned={"Authorization": value})
    s3.ask("GET", "foo", unsigned={"X-Amz-Date": "20200101T000000Z"})
    s3.ask("GET", "foo", unsigned={"X-Amz-Date": "nonsense"})
    s3.ask("GET", "foo", unsigned={"X-Amz-Date": "29990101T000000Z"})
    s3.ask("GET", "foo", unsigned={"X-Amz-Content-SHA256": "0" * 64})
    s3.ask("GET", "foo", unsigned={"User-Agent": "changed"})
    for name in ("Authorization", "User-Agent", "X-Amz-Date", "Date", "X-Amz-Content-SHA256"):
        s3.ask("PUT", "foo", unsigned={name: ""}, body=b"bar")
        s3.ask("GET", "foo", unsigned={name: ""})
    for date in ("Bad Date", "Tue, 07 Jul 2010 21:53:04 GMT", "Tue, 07 Jul 2030 21:53:04 GMT", "19500707T215304Z"):
        s3.ask("PUT", "foo", unsigned={"Date": date}, body=b"bar")
        s3.ask("PUT", "foo", headers={"Date": date}, body=b"bar")
        s3.ask("PUT", "foo", unsigned={"X-Amz-Date": date}, body=b"bar")
        s3.ask("PUT", bucket=s3.bucket + "-2", unsigned={"X-Amz-Date": date})
    s3.ask("PUT", bucket=s3.bucket + "-2", unsigned={"Authorization": "AWS HAHAHA"})
    s3.ask("PUT", bucket=s3.bucket + "-2", signed=False)
    s3.ask("GET", bucket="", signed=False)
    wrong = Asking(s3.port, s3.access_key, "wrong")
    wrong.bucket = s3.bucket
    wrong.ask("GET", "foo")
    wrong.ask("PUT", "foo", body=b"bar")
    wrong.ask("HEAD", "foo")
    s3.told += wrong.told
    s3.ask("GET", "foo")


@case
def payload_hashes(s3: Asking) -> None:
    for value in (
        "UNSIGNED-PAYLOAD",
        "",
        "nonsense",
        "E3B0C44298FC1C149AFBF4C8996FB92427AE41E4649B934CA495991B7852B855",
    ):
        s3.ask("PUT", "foo", headers={"X-Amz-Content-SHA256": value}, body=b"bar")
    s3.ask("PUT", "foo", headers={"X-Amz-Content-SHA256": "0" * 64}, body=b"bar")
    s3.ask("GET", "foo")
    s3.ask("GET", "foo", headers={"X-Amz-Content-SHA256": "UNSIGNED-PAYLOAD"})
    s3.ask("GET", "foo", headers={"X-Amz-Content-SHA256": "0" * 64})


@case
def checksums(s3: Asking) -> None:
    digests = {"crc32": crc32(b"bar"), "sha1": hashlib.sha1(b"bar").digest(), "sha256": hashlib.sha256(b"bar").digest()}  # noqa: S324 # S3's
    right = {kind: base64.b64encode(digest).decode() for kind, digest in digests.items()}
    for kind, value in right.items():
        s3.ask("PUT", kind, headers={f"x-amz-checksum-{kind}": value}, body=b"bar")
        s3.ask("HEAD", kind, headers={"x-amz-checksum-mode": "ENABLED"})
        s3.ask("GET", kind, headers={"x-amz-checksum-mode": "ENABLED"})
        s3.ask("GET", kind)
        s3.ask("PUT", kind, headers={f"x-amz-checksum-{kind}": value}, body=b"baz")
        s3.ask("PUT", kind, headers={f"x-amz-checksum-{kind}": "AAAA"}, body=b"bar")
    s3.ask(
        "PUT",
        "two",
        headers={"x-amz-checksum-crc32": right["crc32"], "x-amz-checksum-sha1": right["sha1"]},
        body=b"bar",
    )
    s3.ask("PUT", "no", headers={"x-amz-checksum-algorithm": "CRC32"}, body=b"bar")
    s3.ask("PUT", "no", headers={"x-amz-sdk-checksum-algorithm": "CRC32"}, body=b"bar")
    s3.ask("PUT", "no", headers={"x-amz-sdk-checksum-algorithm": "nonsense"}, body=b"bar")
    s3.ask("GET", "no")


@case
def methods(s3: Asking) -> None:
    s3.ask("PUT", "foo", body=b"bar")
    for method in ("PATCH", "TRACE", "PROPFIND", "get"):
        s3.ask(method, "foo")
    s3.ask("POST", "foo")
    s3.ask("POST")
    s3.ask("GET", "foo")
