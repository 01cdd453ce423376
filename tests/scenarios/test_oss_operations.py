"""What an OSS client asks, in front of an origin of S3 (a real one) and of OSS (the stand-in): answered in OSS's terms
under both, errors of every kind included."""

import asyncio
import base64
import logging
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from forebay.protocol.body.crc64 import crc64
from harness.fake.actions import HoldRequest
from harness.fake.gate import Gate
from harness.fake_origin import FakeOrigin
from harness.oss_client import OssClient, told
from harness.oss_origin import OSS_SECRET, OssOrigin
from harness.raw_connection import RawAnswer
from harness.reference_sigv4 import Secret
from harness.rig import TRAINER, Rig
from harness.swift import SwiftOrigin
from security.oss_signers import OSS_SIGNERS

KIB = 1 << 10
MD5 = "B1946AC92492D2347C6235B4D2611184"  # of b"hello\n"


@dataclass
class Place:
    """A client, and a bucket of its own."""

    rig: Rig
    client: OssClient
    bucket: str

    def at(self, key: str) -> str:
        return f"/{self.bucket}/{key}"

    async def put(self, key: str, body: bytes = b"hello\n", *headers: tuple[str, str]) -> RawAnswer:
        answer = await self.client.request("PUT", self.at(key), headers, body)
        assert answer.status == 200, answer.body
        return answer


@pytest.fixture(params=["s3", "oss"])
async def place(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Place]:
    async with AsyncExitStack() as stack:
        if request.param == "s3":
            swift: SwiftOrigin = request.getfixturevalue("swift")
            rig, bucket = Rig(swift.endpoint, swift.secret, tmp_path), swift.fresh_bucket()
        else:
            origin = await stack.enter_async_context(OssOrigin())
            origin.store.create_bucket("bucket")
            rig, bucket = Rig(origin.endpoint, OSS_SECRET, tmp_path, dialect="oss"), "bucket"
        await stack.enter_async_context(rig)
        yield Place(rig, OssClient(rig.endpoint, TRAINER), bucket)


async def test_an_object(place: Place) -> None:
    put = await place.put("a%20b", b"hello\n", ("x-oss-meta-colour", "red"), ("Content-Type", "text/plain"))
    crc = str(crc64(b"hello\n"))
    assert (put.headers["ETag"], put.headers["x-oss-hash-crc64ecma"]) == (f'"{MD5}"', crc)
    for _ in range(2):
        read = await place.client.request("GET", place.at("a%20b"))
        assert (read.status, read.body, read.headers["ETag"]) == (200, b"hello\n", f'"{MD5}"')
        assert read.headers["x-oss-meta-colour"] == "red"
        assert (read.headers["x-oss-object-type"], read.headers["x-oss-storage-class"]) == ("Normal", "Standard")
        assert (read.headers["x-oss-hash-crc64ecma"], read.headers["Content-Type"]) == (crc, "text/plain")
    meta = await place.client.request("HEAD", f"{place.at('a%20b')}?objectMeta")
    assert {name.lower() for name, _ in meta.pairs} >= {"etag", "last-modified", "content-length", "date"}
    assert "x-oss-meta-colour" not in meta.headers
    for tag in (MD5, MD5.lower(), f'"{MD5}"'):
        assert (await place.client.request("GET", place.at("a%20b"), [("If-Match", tag)])).status == 200
    unchanged = await place.client.request("GET", place.at("a%20b"), [("If-None-Match", f'"{MD5}"')])
    assert (unchanged.status, unchanged.body) == (304, b"")
    assert (await place.client.request("DELETE", place.at("a%20b"))).status == 204
    assert (await place.client.request("GET", place.at("a%20b"))).status == 404


async def test_ranges_outside_are_ignored_without_standard_behaviour(place: Place) -> None:
    await place.put("key", b"0123456789")
    standard = ("x-oss-range-behavior", "standard")
    await place.put("cold", b"0123456789")
    cold = await place.client.request("GET", place.at("cold"), [("Range", "bytes=9000000-")])
    assert (cold.status, cold.body) == (200, b"0123456789")
    for rule in ("cached", "passed on"):  # a versionId that is not known is passed on
        target = place.at("key") if rule == "cached" else f"{place.at('key')}?versionId=null"
        for given, status, body in (
            ("bytes=2-3", 206, b"23"),
            ("bytes=2-", 206, b"23456789"),
            ("bytes=-3", 206, b"789"),
            ("bytes=2-10", 200, b"0123456789"),
            ("bytes=10-", 200, b"0123456789"),
            ("bytes=-11", 200, b"0123456789"),
            ("bytes=3-2", 200, b"0123456789"),
        ):
            answer = await place.client.request("GET", target, [("Range", given)])
            assert (answer.status, answer.body) == (status, body), (rule, given)
    clipped = await place.client.request("GET", place.at("key"), [("Range", "bytes=2-99"), standard])
    assert (clipped.status, clipped.body) == (206, b"23456789")
    beyond = await place.client.request("GET", place.at("key"), [("Range", "bytes=10-"), standard])
    assert (beyond.status, told(beyond, "Code"), beyond.headers["Content-Range"]) == (416, "InvalidRange", "bytes */10")


async def test_listings_go_on_where_they_stopped(place: Place) -> None:
    keys = ["a b", "d/1", "d/2", "e+f", "z"]
    for key in keys:
        await place.put(key.replace(" ", "%20").replace("+", "%2B"))
    for query, marker, answer_marker in (
        ("", "marker", "NextMarker"),
        ("list-type=2&", "continuation-token", "NextContinuationToken"),
    ):
        found, after = [], ""
        for _ in range(5):
            page = await place.client.request(
                "GET", f"/{place.bucket}?{query}max-keys=2&delimiter=%2F&encoding-type=url&{marker}={after}"
            )
            assert "xmlns" not in page.body.decode()
            assert page.headers["Content-Length"] == str(len(page.body))
            found += [part.split(b"<")[0].decode() for part in page.body.split(b"<Key>")[1:]]
            found += [part.split(b"<")[0].decode() for part in page.body.split(b"<CommonPrefixes><Prefix>")[1:]]
            if told(page, "IsTruncated") == "false":
                break
            after = told(page, answer_marker)
        assert sorted(found) == ["a%20b", "d%2F", "e%2Bf", "z"]
    plain = await place.client.request("GET", f"/{place.bucket}?prefix=a")
    assert (told(plain, "Key"), told(plain, "Type"), told(plain, "ETag")) == ("a b", "Normal", f'"{MD5}"')
    assert told(plain, "LastModified").endswith(".000Z")


async def test_copies_and_refusals_to_overwrite(place: Place) -> None:
    await place.put("source", b"hello\n", ("x-oss-meta-colour", "red"))
    source = ("x-oss-copy-source", f"/{place.bucket}/source")
    copied = await place.client.request("PUT", place.at("copy"), [source])
    assert (copied.status, copied.headers["ETag"], told(copied, "ETag")) == (200, f'"{MD5}"', f'"{MD5}"')
    assert (await place.client.request("HEAD", place.at("copy"))).headers["x-oss-meta-colour"] == "red"
    forbid = ("x-oss-forbid-overwrite", "true")
    upload = await place.client.initiate(place.at("copy"))
    part = await place.client.part(place.at("copy"), upload, 1, b"other")
    listed = f"<Part><PartNumber>1</PartNumber><ETag>{part.headers['ETag']}</ETag></Part>"
    body = f"<CompleteMultipartUpload>{listed}</CompleteMultipartUpload>".encode()
    for refused in (
        await place.client.request("PUT", place.at("copy"), [forbid], b"other"),
        await place.client.request("PUT", place.at("copy"), [forbid, source]),
        await place.client.document("POST", f"{place.at('copy')}?uploadId={upload}", body, [forbid]),
        await place.client.request("POST", f"{place.at('copy')}?uploads", [forbid]),
    ):
        assert (refused.status, told(refused, "Code")) == (409, "FileAlreadyExists")
    assert (await place.client.request("GET", place.at("copy"))).body == b"hello\n"
    assert (await place.client.request("PUT", place.at("new"), [forbid], b"first")).status == 200


async def test_a_batch_delete_tells_of_every_key(place: Place) -> None:
    await place.put("a%26b")
    body = b"<Delete><Quiet>false</Quiet><Object><Key>a&amp;b</Key></Object><Object><Key>never</Key></Object></Delete>"
    answer = await place.client.document("POST", f"/{place.bucket}?delete&encoding-type=url", body)
    assert answer.status == 200
    assert answer.body.count(b"<Deleted>") == 2
    assert b"<Key>a%26b</Key>" in answer.body
    assert (await place.client.request("HEAD", place.at("a%26b"))).status == 404


async def test_a_quiet_batch_delete_answers_nothing(place: Place) -> None:
    await place.put("a")
    body = b"<Delete><Quiet>true</Quiet><Object><Key>a</Key></Object></Delete>"
    answer = await place.client.document("POST", f"/{place.bucket}?delete", body)
    assert (answer.status, answer.body, answer.headers["Content-Length"]) == (200, b"", "0")
    assert (await place.client.request("HEAD", place.at("a"))).status == 404


async def test_a_copy_of_what_has_not_changed_is_304(place: Place) -> None:
    etag = (await place.put("a")).headers["ETag"]
    upload = await place.client.initiate(place.at("b"))
    later = ("x-oss-copy-source-if-modified-since", "Wed, 18 Nov 2037 10:00:00 GMT")
    same, other = ("x-oss-copy-source-if-none-match", etag), ("x-oss-copy-source-if-match", f'"{"0" * 32}"')
    for target in (place.at("b"), f"{place.at('b')}?partNumber=1&uploadId={upload}"):
        nothing = ("x-oss-copy-source-if-unmodified-since", "whenever")
        for conditions, expected in (((same,), 304), ((later,), 304), ((later, nothing), 304), ((other,), 412)):
            source = ("x-oss-copy-source", place.at("a"))
            answer = await place.client.request("PUT", target, [source, *conditions])
            assert (answer.status, bool(answer.body)) == (expected, expected != 304), (target, conditions)
    assert (await place.client.request("HEAD", place.at("b"))).status == 404


@pytest.mark.parametrize("version", ["V1", "V2", "V4"])
async def test_a_signed_url_of_a_long_key_is_refused_as_oss_does(place: Place, version: str) -> None:
    target = place.at("k" * 1025)
    signed = OSS_SIGNERS[f"SignedOss{version}", "query"](TRAINER, "GET", target, (), b"", time.time(), None)
    refused = await place.client.raw.send(signed)
    assert (refused.status, told(refused, "Code")) == (400, "InvalidObjectName")
    assert "x-oss-request-id" in refused.headers


async def test_a_page_has_1_to_1000_keys(place: Place) -> None:
    for query in ("list-type=2&max-keys=1001", "max-keys=0", "uploads&max-uploads=x", "versions&max-keys=-1"):
        refused = await place.client.request("GET", f"/{place.bucket}?{query}")
        assert (refused.status, told(refused, "Code")) == (400, "InvalidArgument"), query


async def test_bucket_and_upload_documents(place: Place) -> None:
    info = await place.client.request("GET", f"/{place.bucket}?bucketInfo")
    assert (info.status, told(info, "Name"), told(info, "Grant")) == (200, place.bucket, "private")
    assert told(info, "ExtranetEndpoint") == told(info, "IntranetEndpoint")
    assert (await place.client.request("GET", f"/{place.bucket}?location")).body.startswith(b"<?xml")
    assert told(await place.client.request("GET", f"/{place.bucket}?acl"), "Grant") == "private"
    assert place.bucket in (await place.client.request("GET", "/?max-keys=1000")).body.decode()
    upload = await place.client.initiate(place.at("key"))
    await place.client.part(place.at("key"), upload, 3, b"x" * 100 * KIB)
    uploads = await place.client.request("GET", f"/{place.bucket}?uploads&encoding-type=url")
    assert (told(uploads, "UploadId"), told(uploads, "IsTruncated")) == (upload, "false")
    parts = await place.client.request("GET", f"{place.at('key')}?uploadId={upload}&part-number-marker=&max-parts=")
    assert (told(parts, "PartNumber"), told(parts, "NextPartNumberMarker")) == ("3", "3")
    assert (await place.client.request("DELETE", f"{place.at('key')}?uploadId={upload}")).status == 204
    assert len(place.rig.parts.storage.spool) == 0


async def test_errors_of_every_kind(place: Place) -> None:
    head = await place.client.request("HEAD", place.at("none"))
    assert head.status == 404
    assert b"<Code>NoSuchKey</Code>" in base64.b64decode(head.headers["x-oss-err"])
    head = await place.client.request("HEAD", "/no-such-bucket-here/none")
    assert b"<Code>NoSuchBucket</Code>" in base64.b64decode(head.headers["x-oss-err"])
    for method, target, status, code in (
        ("GET", place.at("none"), 404, "NoSuchKey"),
        ("GET", "/no-such-bucket-here", 404, "NoSuchBucket"),
        ("POST", f"{place.at('none')}?append&position=0", 501, "NotImplemented"),
        ("PUT", f"{place.at('none')}?symlink", 501, "NotImplemented"),
        ("GET", f"{place.at('none')}?x-oss-process=image/info", 501, "NotImplemented"),
        ("GET", f"/{place.bucket}?lifecycle", 501, "NotImplemented"),
        ("DELETE", f"{place.at('none')}?uploadId=none", 404, "NoSuchUpload"),
        ("GET", "/%zz", 400, "InvalidURI"),
    ):
        answer = await place.client.request(method, target)
        assert (answer.status, told(answer, "Code")) == (status, code), target
        assert told(answer, "RequestId") == answer.headers["x-oss-request-id"]
        assert answer.headers["Content-Length"] == str(len(answer.body))
        assert not [name for name, _ in answer.pairs if name.lower().startswith("x-amz-")]
        assert b"<HostId>" in answer.body
        assert "Date" in answer.headers
    for secret, code in (
        (Secret("trainer", "wrong"), "SignatureDoesNotMatch"),
        (Secret("nobody", "wrong"), "InvalidAccessKeyId"),
    ):
        answer = await OssClient(place.rig.endpoint, secret).request("GET", place.at("none"))
        assert (answer.status, told(answer, "Code")) == (403, code)


async def test_an_upload_may_come_without_a_length(place: Place) -> None:
    pieces = [bytes([number]) * 10_000 for number in range(50)]
    answer = await place.client.chunked("PUT", place.at("key"), pieces)
    whole = b"".join(pieces)
    assert (answer.status, answer.headers["x-oss-hash-crc64ecma"]) == (200, str(crc64(whole)))
    assert (await place.client.request("GET", place.at("key"))).body == whole
    empty = await place.client.chunked("PUT", place.at("empty"), [])
    assert empty.status == 200, empty.body
    upload = await place.client.initiate(place.at("key"))
    part = await place.client.chunked("PUT", f"{place.at('key')}?partNumber=1&uploadId={upload}", [b"x", b"yz"])
    assert part.status == 200, part.body
    assert (await place.client.complete(place.at("key"), upload, [(1, part.headers["ETag"])])).status == 200
    assert (await place.client.request("GET", place.at("key"))).body == b"xyz"
    assert (place.rig.parts.storage.spool.in_use, place.rig.parts.storage.budget.in_use) == (0, 0)


async def test_a_body_without_a_length_has_a_limit(tmp_path: Path) -> None:
    limits = '[limits]\nheld = "1MiB"\n'
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, rest=limits) as rig:
        origin.store.create_bucket("bucket")
        client = OssClient(rig.endpoint, TRAINER)
        refused = await client.chunked("PUT", "/bucket/key", [b"x" * 100_000] * 11)
        assert refused.aborted or (refused.status, told(refused, "Code")) == (503, "SlowDown")
        assert not origin.store.bucket("bucket").keys_from("")
        assert (len(rig.parts.storage.spool), rig.parts.storage.spool.in_use, rig.parts.storage.budget.in_use) == (
            0,
            0,
            0,
        )


async def test_requests_that_are_not_looked_into_are_refused_in_oss_s_terms(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    limits = "[limits]\nrequests = 1\n"
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, rest=limits) as rig:
        client = OssClient(rig.endpoint, TRAINER)
        large = await client.request("GET", "/bucket/key", [(f"x-padding-{number}", "x" * 4000) for number in range(5)])
        assert (large.status, told(large, "Code")) == (400, "RequestHeaderSectionTooLarge")
        assert told(large, "RequestId") == large.headers["x-oss-request-id"]
        origin.faults.add(HoldRequest(gate := Gate()), method="GET")
        async with asyncio.TaskGroup() as group:
            first = group.create_task(client.request("GET", "/bucket/key"))
            await gate.reached()
            busy = await client.request("GET", "/bucket/key")
            gate.open()
        assert (busy.status, told(busy, "Code"), busy.headers["Retry-After"]) == (503, "SlowDown", "1")
        assert f"{busy.headers['x-oss-request-id']}: SlowDown: limits.requests are under way" in caplog.messages
        assert told(first.result(), "Code") == "NoSuchBucket"


async def test_origin_failures_become_oss_errors(tmp_path: Path) -> None:
    async with FakeOrigin() as origin:
        endpoint, secret = origin.endpoint, origin.secret
    async with Rig(endpoint, secret, tmp_path) as rig:  # nobody is there any more
        client = OssClient(rig.endpoint, TRAINER)
        answer = await client.request("GET", "/bucket/key")
        assert (answer.status, told(answer, "Code")) == (503, "ServiceUnavailable")
        assert answer.headers["Retry-After"] == "1"
        head = await client.request("HEAD", "/bucket/key")
        assert b"<Code>ServiceUnavailable</Code>" in base64.b64decode(head.headers["x-oss-err"])
