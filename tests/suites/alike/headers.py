"""Odd, missing and wrong headers: lengths, digests, dates, Expect, content types, what is not signed."""

import base64
import hashlib

from suites.alike.cases import case
from suites.alike.recording_client import RecordingClient, crc32, md5


@case
def content_md5(s3: RecordingClient) -> None:
    for digest in (md5(b"bar"), md5(b"other"), "YWJj", "not base64 at all", "", " "):
        s3.send("PUT", "foo", headers={"Content-MD5": digest}, body=b"bar")
        s3.send("GET", "foo")


@case
def content_length(s3: RecordingClient) -> None:
    for length in ("-1", "x", "+3", "3 ", "0x3", "3, 3", "03"):
        s3.send("PUT", "foo", body=b"bar", unsigned={"Content-Length": length})
    s3.send("PUT", "foo", unsigned={"Content-Length": ""})
    s3.send("PUT", "foo", body=b"bar", unsigned={"Content-Length": "2"})
    s3.send("GET", "foo")
    s3.send("PUT", unsigned={"Content-Length": ""}, bucket="alike-second-bucket")
    s3.send("DELETE", "nothing", unsigned={"Content-Length": ""})
    s3.send("POST", "foo", {"uploads": ""}, unsigned={"Content-Length": ""})


@case
def expect(s3: RecordingClient) -> None:
    for expectation in ("200", "", "100-Continue", "100-continue, other"):
        s3.send("PUT", "foo", body=b"bar", unsigned={"Expect": expectation})
    s3.send("GET", "foo", unsigned={"Expect": "100-continue"})


@case
def content_type(s3: RecordingClient) -> None:
    for kind in (
        "text/plain",
        "",
        "text",
        "text/plain; charset=UTF-8",
        "Text/HTML;a=b",
        "a b",
        "application/x-directory",
    ):
        s3.send("PUT", "foo", headers={"Content-Type": kind}, body=b"bar")
        s3.send("HEAD", "foo")
        s3.send("GET", "foo")
    s3.send("PUT", "foo", body=b"bar")
    s3.send("HEAD", "foo")


@case
def standard_headers(s3: RecordingClient) -> None:
    kept = {
        "Cache-Control": "max-age=60, public",
        "Content-Disposition": 'attachment; filename="a b.txt"',
        "Content-Encoding": "gzip",
        "Content-Language": "en, de",
        "Expires": "Thu, 01 Dec 2050 16:00:00 GMT",
    }
    s3.send("PUT", "foo", headers=kept, body=b"bar")
    s3.send("HEAD", "foo")
    s3.send("GET", "foo")
    s3.send("GET", "foo", headers={"Range": "bytes=0-0"})
    for name in kept:
        s3.send("PUT", name, headers={name: ""}, body=b"bar")
        s3.send("HEAD", name)
    s3.send("PUT", "odd", headers={"Expires": "never", "Content-Encoding": "aws-chunked"}, body=b"bar")
    s3.send("GET", "odd")
    for codings in ("gzip,aws-chunked", "aws-chunked, gzip", "aws-chunked, aws-chunked", "deflate, gzip", "gzip, gzip"):
        s3.send("PUT", "two", headers={"Content-Encoding": codings}, body=b"bar")
        s3.send("HEAD", "two")


@case
def user_metadata(s3: RecordingClient) -> None:
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
        s3.send("PUT", f"foo{number}", headers={"x-amz-meta-One": value, "X-AMZ-META-two_2": "2"}, body=b"bar")
        s3.send("HEAD", f"foo{number}")
        s3.send("GET", f"foo{number}")
    s3.send("PUT", "foo0", body=b"bar")
    s3.send("HEAD", "foo0")


@case
def signatures(s3: RecordingClient) -> None:
    s3.send("PUT", "foo", body=b"bar")
    s3.send("GET", "foo")
    for value in (
        "AWS4-HMAC-SHA256 nonsense",
        "AWS HAHAHA",
        "Bearer x",
        "AWS4-HMAC-SHA256 Credential=a/b, Signature=x",
    ):
        s3.send("GET", "foo", unsigned={"Authorization": value})
    s3.send("GET", "foo", unsigned={"X-Amz-Date": "20200101T000000Z"})
    s3.send("GET", "foo", unsigned={"X-Amz-Date": "nonsense"})
    s3.send("GET", "foo", unsigned={"X-Amz-Date": "29990101T000000Z"})
    s3.send("GET", "foo", unsigned={"X-Amz-Content-SHA256": "0" * 64})
    s3.send("GET", "foo", unsigned={"User-Agent": "changed"})
    for name in ("Authorization", "User-Agent", "X-Amz-Date", "Date", "X-Amz-Content-SHA256"):
        s3.send("PUT", "foo", unsigned={name: ""}, body=b"bar")
        s3.send("GET", "foo", unsigned={name: ""})
    for date in ("Bad Date", "Tue, 07 Jul 2010 21:53:04 GMT", "Tue, 07 Jul 2030 21:53:04 GMT", "19500707T215304Z"):
        s3.send("PUT", "foo", unsigned={"Date": date}, body=b"bar")
        s3.send("PUT", "foo", headers={"Date": date}, body=b"bar")
        s3.send("PUT", "foo", unsigned={"X-Amz-Date": date}, body=b"bar")
        s3.send("PUT", bucket=s3.bucket + "-2", unsigned={"X-Amz-Date": date})
    s3.send("PUT", bucket=s3.bucket + "-2", unsigned={"Authorization": "AWS HAHAHA"})
    s3.send("PUT", bucket=s3.bucket + "-2", signed=False)
    s3.send("GET", bucket="", signed=False)
    wrong = RecordingClient(s3.port, s3.access_key, "wrong")
    wrong.bucket = s3.bucket
    wrong.send("GET", "foo")
    wrong.send("PUT", "foo", body=b"bar")
    wrong.send("HEAD", "foo")
    s3.transcript += wrong.transcript
    s3.send("GET", "foo")


@case
def payload_hashes(s3: RecordingClient) -> None:
    for value in (
        "UNSIGNED-PAYLOAD",
        "",
        "nonsense",
        "E3B0C44298FC1C149AFBF4C8996FB92427AE41E4649B934CA495991B7852B855",
    ):
        s3.send("PUT", "foo", headers={"X-Amz-Content-SHA256": value}, body=b"bar")
    s3.send("PUT", "foo", headers={"X-Amz-Content-SHA256": "0" * 64}, body=b"bar")
    s3.send("GET", "foo")
    s3.send("GET", "foo", headers={"X-Amz-Content-SHA256": "UNSIGNED-PAYLOAD"})
    s3.send("GET", "foo", headers={"X-Amz-Content-SHA256": "0" * 64})


@case
def checksums(s3: RecordingClient) -> None:
    digests = {"crc32": crc32(b"bar"), "sha1": hashlib.sha1(b"bar").digest(), "sha256": hashlib.sha256(b"bar").digest()}
    right = {kind: base64.b64encode(digest).decode() for kind, digest in digests.items()}
    for kind, value in right.items():
        s3.send("PUT", kind, headers={f"x-amz-checksum-{kind}": value}, body=b"bar")
        s3.send("HEAD", kind, headers={"x-amz-checksum-mode": "ENABLED"})
        s3.send("GET", kind, headers={"x-amz-checksum-mode": "ENABLED"})
        s3.send("GET", kind)
        s3.send("PUT", kind, headers={f"x-amz-checksum-{kind}": value}, body=b"baz")
        s3.send("PUT", kind, headers={f"x-amz-checksum-{kind}": "AAAA"}, body=b"bar")
    s3.send(
        "PUT",
        "two",
        headers={"x-amz-checksum-crc32": right["crc32"], "x-amz-checksum-sha1": right["sha1"]},
        body=b"bar",
    )
    s3.send("PUT", "no", headers={"x-amz-checksum-algorithm": "CRC32"}, body=b"bar")
    s3.send("PUT", "no", headers={"x-amz-sdk-checksum-algorithm": "CRC32"}, body=b"bar")
    s3.send("PUT", "no", headers={"x-amz-sdk-checksum-algorithm": "nonsense"}, body=b"bar")
    s3.send("GET", "no")


@case
def methods(s3: RecordingClient) -> None:
    s3.send("PUT", "foo", body=b"bar")
    for method in ("PATCH", "TRACE", "PROPFIND", "get"):
        s3.send(method, "foo")
    s3.send("POST", "foo")
    s3.send("POST")
    s3.send("GET", "foo")
