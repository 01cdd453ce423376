"""The OSS reply: what passes, what is buffered, and what an error looks like in OSS's terms."""

from base64 import b64decode
from xml.etree import ElementTree

import pytest
from multidict import CIMultiDict

from forebay.core.errors import OriginBroken, S3Error
from forebay.core.request_record import RequestRecord
from forebay.protocol.oss.oss_documents import MAX_SIZE, OssLocation
from forebay.protocol.oss.oss_request import to_s3_request
from forebay.protocol.target import parse_target
from forebay.request.oss_reply import OssReply
from harness.memory_exchange import MemoryReply

ERROR = b"<Error><Code>NoSuchKey</Code><Message>m</Message></Error>"


def reply_to(method: str = "GET", target: str = "/b/k", **headers: str) -> tuple[OssReply, MemoryReply]:
    """The reply to an admitted request, and the one that it writes to."""
    inner = MemoryReply()
    reply = OssReply(inner, method, RequestRecord(method, 0.0, "ID"), OssLocation("r", "host"))
    reply.request = to_s3_request(method, parse_target(target, "host", ()), CIMultiDict(headers))
    return reply, inner


async def send(reply: OssReply, status: int, headers: tuple[tuple[str, str], ...] = (), body: bytes = b"") -> None:
    await reply.start(status, headers, len(body))
    if body:
        await reply.write(body)
    await reply.finish()


def code(document: bytes | bytearray) -> str | None:
    return ElementTree.fromstring(bytes(document)).findtext("Code")


async def test_object_bytes_pass_with_headers_of_oss() -> None:
    reply, inner = reply_to()
    await send(reply, 200, (("x-amz-meta-a", "1"), ("ETag", '"e"')), b"bytes")
    assert (inner.status, bytes(inner.body), inner.length, inner.finished) == (200, b"bytes", 5, True)
    assert (inner.headers["x-oss-meta-a"], inner.headers["x-oss-request-id"]) == ("1", "ID")
    assert not any(name.lower().startswith("x-amz-") for name in inner.headers)


async def test_an_error_is_translated_when_it_is_whole() -> None:
    reply, inner = reply_to()
    await reply.start(404, (), len(ERROR))
    await reply.write(ERROR)
    assert not reply.started
    await reply.finish()
    assert (inner.status, code(inner.body), inner.length) == (404, "NoSuchKey", len(inner.body))


@pytest.mark.parametrize(("exists", "expected"), [(True, "NoSuchKey"), (False, "NoSuchBucket")])
async def test_a_bare_404_names_the_bucket_or_the_object(exists: bool, expected: str) -> None:
    reply, inner = reply_to()

    async def bucket_exists() -> bool:
        return exists

    reply.bucket_exists = bucket_exists
    await send(reply, 404)
    assert code(inner.body) == expected


async def test_an_error_of_a_head_is_in_a_header() -> None:
    reply, inner = reply_to("HEAD")
    await send(reply, 404)
    assert (bytes(inner.body), code(b64decode(inner.headers["x-oss-err"]))) == (b"", "NoSuchKey")


async def test_an_error_inside_a_200_becomes_an_error() -> None:
    reply, inner = reply_to("POST", "/b/k?uploadId=u")
    await send(reply, 200, (), b"<Error><Code>InvalidPart</Code><Message>m</Message></Error>")
    assert (inner.status, code(inner.body)) == (400, "InvalidPart")


async def test_a_second_start_replaces_a_buffered_response() -> None:
    reply, inner = reply_to()
    await reply.start(404, (), len(ERROR))
    await reply.write(ERROR)
    await reply.refuse(S3Error("SlowDown"), (("Retry-After", "1"),))
    assert (inner.status, code(inner.body), inner.headers["Retry-After"]) == (503, "SlowDown", "1")


async def test_a_forbidden_overwrite_is_an_object_that_exists() -> None:
    reply, inner = reply_to("PUT", **{"x-oss-forbid-overwrite": "true"})
    await reply.refuse(S3Error("PreconditionFailed", Condition="If-None-Match"), ())
    assert (inner.status, code(inner.body)) == (409, "FileAlreadyExists")


async def test_a_document_too_large_or_malformed_is_the_origins_fault() -> None:
    reply, _ = reply_to("GET", "/b?location")
    await reply.start(200, (), None)
    with pytest.raises(OriginBroken):
        await reply.write(bytes(MAX_SIZE + 1))
    reply, _ = reply_to("GET", "/b?location")
    with pytest.raises(OriginBroken, match="parsed"):
        await send(reply, 200, (), b"<not xml")
