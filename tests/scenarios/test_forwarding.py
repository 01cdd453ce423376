"""Forwarding: an operation that Forebay does not answer itself gets the origin's response unchanged.

Every operation is sent twice, to the origin and through Forebay, each to a bucket of its own with the same content;
what differs by nature (times, ids) is blanked out, and the rest must be the same.
"""

import base64
import hashlib
import re
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import quote
from xml.sax.saxutils import escape

import pytest

from harness.clients import RawClient, path_of, query_of
from harness.fake import actions
from harness.fake.checksums import digest_of
from harness.fake_origin import FakeOrigin
from harness.raw_connection import RawAnswer
from harness.rig import Rig

ODD_KEYS = (
    "plain",
    "/lead//and//more/",
    "dot/./../x/..",
    "per%2Fcent%252F%",
    "plus+and blank & = ? # ; : @",
    "ключ/日本語/ñ/\N{GRINNING FACE}",
    "quote'\"<tag>&amp;",
    "back\\slash~*()!$,|^`{}[]",
    "new\nline\ttab",
)
_MOMENT = re.compile(rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
_NAME = re.compile(rb"\b[0-9a-f]{32}(?!-|\"|&quot;)\b")
_OF_THE_MOMENT = {"date", "x-amz-id-2", "x-amz-request-id", "x-forebay-cache", "connection", "server"}
_PLACE = re.compile(rb"<Location>[^<]*</Location>")
NOT_ACCELERATED = '[[rules]]\npath = "**"\naccelerate = false\n'


def comparable(answer: RawAnswer, bucket: str) -> tuple[int, list[tuple[str, str]], bytes, bool]:
    """What must not differ. A hit has no server but Forebay, its 304 no Last-Modified but ranges; nor has the 404 of a
    HEAD the length of a document that was never sent. A completed upload is told where it is: here, not at the
    origin."""
    blank = _OF_THE_MOMENT | {304: {"last-modified", "accept-ranges"}, 404: {"content-length"}}.get(
        answer.status, set()
    )
    if _PLACE.search(answer.body):
        blank |= {"content-length"}
    pairs = sorted(
        (name.lower(), "a moment" if name.lower() == "last-modified" else value.replace(bucket, "BUCKET"))
        for name, value in answer.pairs
        if name.lower() not in blank
    )
    body = answer.body.replace(bucket.encode(), b"BUCKET")
    body = _PLACE.sub(b"<Location/>", body)
    return answer.status, pairs, _NAME.sub(b"NAME", _MOMENT.sub(b"TIME", body)), answer.aborted


async def every_operation(client: RawClient, bucket: str, key: str) -> AsyncIterator[tuple[str, RawAnswer]]:
    """The operations in an order in which each finds what it needs."""
    home, name, copy = path_of(bucket), path_of(bucket, key), path_of(bucket, key + ".copy")

    async def call(
        label: str, method: str, target: str, *headers: tuple[str, str], body: bytes = b""
    ) -> tuple[str, RawAnswer]:
        return label, await client.request(method, target, headers, body)

    yield await call("create bucket", "PUT", home)
    meta = (("Content-Type", "text/plain"), ("x-amz-meta-colour", "blue"), ("x-amz-tagging", "a=1"))
    yield await call("put", "PUT", name, *meta, body=b"0123456789" * 10)
    yield await call("put, checked", "PUT", name, ("x-amz-checksum-crc32", digest_of("crc32", b"abc")), body=b"abc")
    yield await call("put, denied", "PUT", name, ("If-None-Match", "*"), body=b"abc")
    yield await call("put nothing", "PUT", path_of(bucket, key + "/empty"))
    for label, query, header in (
        ("get", "", ()),
        ("get a range", "", (("Range", "bytes=1-1"),)),
        ("get, not modified", "", (("If-None-Match", '"900150983cd24fb0d6963f7d28e17f72"'),)),
        ("get a version", "?versionId=null", ()),
        ("get a part", "?partNumber=1", ()),
        ("get, overridden", "?response-content-type=text%2Fhtml", ()),
        ("get, checksum", "?versionId=null", (("x-amz-checksum-mode", "ENABLED"),)),
        ("get tags", "?tagging", ()),
        ("get acl", "?acl=", ()),
        ("get what nobody knows", "?frobnicate=1", ()),
    ):
        yield await call(label, "GET", name + query, *header)
        if query not in {"?tagging", "?acl="}:  # S3 has no HEAD of these, and Forebay lets none through
            yield await call(f"{label}: head", "HEAD", name + query, *header)
    tags = b"<Tagging><TagSet><Tag><Key>k</Key><Value>v</Value></Tag></TagSet></Tagging>"
    yield await call("put tags", "PUT", name + "?tagging", body=tags)
    yield await call("delete tags", "DELETE", name + "?tagging")
    yield await call("put acl", "PUT", name + "?acl", ("x-amz-acl", "private"))
    yield await call("put what nobody knows", "PUT", name + "?frobnicate=1", body=b"abc")
    source = quote(f"{bucket}/{key}", safe="/")
    yield await call("copy", "PUT", copy, ("x-amz-copy-source", source))
    yield await call("copy nothing", "PUT", copy, ("x-amz-copy-source", f"{bucket}/nothing"))

    label, created = await call("create upload", "POST", name + "?uploads")
    yield label, created
    upload = re.search(rb"<UploadId>(.*)</UploadId>", created.body)
    assert upload is not None
    parts = "?" + query_of({"uploadId": upload[1].decode()})
    listed = b""
    for number in (1, 2):
        label, part = await call(f"part {number}", "PUT", f"{name}{parts}&partNumber={number}", body=b"p" * number)
        yield label, part
        listed += b"<Part><PartNumber>%d</PartNumber><ETag>%b</ETag></Part>" % (number, part.headers["ETag"].encode())
    yield await call("part copy", "PUT", f"{name}{parts}&partNumber=3", ("x-amz-copy-source", source))
    yield await call("list parts", "GET", name + parts)
    yield await call("list uploads", "GET", home + "?uploads")
    document = b"<CompleteMultipartUpload>%b</CompleteMultipartUpload>"
    yield await call("complete, wrongly", "POST", name + parts, body=document % listed.replace(b">2<", b">9<"))
    yield await call("complete", "POST", name + parts, body=document % listed)
    first = listed[: listed.index(b"</Part>") + len(b"</Part>")]
    yield await call("complete what has ended, other parts", "POST", name + parts, body=document % first)
    yield await call("abort", "DELETE", name + parts)
    yield await call("get the whole", "GET", name)

    for query in ("", "?list-type=2", "?list-type=2&prefix=p&delimiter=%2F", "?versions", "?encoding-type=url"):
        yield await call(f"list {query}", "GET", home + query)
    for query in ("location", "acl", "versioning", "tagging", "policy", "cors", "frobnicate"):
        yield await call(f"get bucket {query}", "GET", f"{home}?{query}")
    yield await call("head bucket", "HEAD", home)
    yield await call("put bucket tags", "PUT", home + "?tagging", body=tags)
    yield await call("delete bucket, not empty", "DELETE", home)
    yield await call("get nothing", "GET", path_of(bucket, "nothing"))
    yield await call("head nothing", "HEAD", path_of(bucket, "nothing"))
    yield await call("no such bucket", "GET", "/no-such-bucket/key")
    keys = "".join(f"<Object><Key>{escape(each)}</Key></Object>" for each in (key, key + ".copy", "never there"))
    batch = f"<Delete>{keys}</Delete>".encode()
    yield await call("delete", "DELETE", name)
    yield await call("delete many", "POST", home + "?delete", ("Content-MD5", _md5(batch)), body=batch)
    yield await call("delete what is left", "DELETE", path_of(bucket, key + "/empty"))
    yield await call("delete bucket", "DELETE", home)


def _md5(body: bytes) -> str:
    return base64.b64encode(hashlib.md5(body, usedforsecurity=False).digest()).decode()


@pytest.mark.parametrize("rest", [NOT_ACCELERATED, ""], ids=["passed on", "accelerated"])
@pytest.mark.parametrize("key", ODD_KEYS)
async def test_every_operation_is_answered_as_by_the_origin(tmp_path: Path, key: str, rest: str) -> None:
    async with (
        FakeOrigin(smallest_part=0) as origin,
        Rig(origin.endpoint, origin.secret, tmp_path, rest=rest) as rig,
    ):
        direct = RawClient(origin.endpoint, origin.secret)
        expected = [
            (label, comparable(answer, "direct-bucket"))
            async for label, answer in every_operation(direct, "direct-bucket", key)
        ]
        found = [
            (label, comparable(answer, "second-bucket"))
            async for label, answer in every_operation(rig.client(), "second-bucket", key)
        ]
        assert [pair for pair in zip(expected, found, strict=True) if pair[0] != pair[1]] == []
        assert not origin.store.buckets


async def test_a_listing_survives_a_busy_origin(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path) as rig:
        origin.store.put("bucket", "key", b"content")
        for fault in (actions.SLOW_DOWN, actions.INTERNAL_ERROR, actions.Drop(reset=True), actions.CloseAfter(0)):
            rule = origin.faults.add(fault, operation="ListObjectsV2", times=1)
            answer = await rig.client().request("GET", "/bucket?list-type=2")
            assert (answer.status, answer.body.count(b"<Key>"), rule.applied) == (200, 1, 1)
            origin.faults.remove(rule)
        origin.faults.add(actions.SLOW_DOWN, operation="PutObject")
        assert (await rig.client().request("PUT", path_of("bucket", "key"), (), b"x")).status == 503
        assert origin.log.count("PUT") == 1
