"""What the origin is sent, and what it never is."""

from base64 import b64encode
from hashlib import md5, sha256
from typing import Any

import pytest

from forebay.core.errors import S3Error
from forebay.origin.dialects import DIALECTS
from forebay.write.forward_request import ForwardRequest
from forebay.write.forwarder import Forwarder
from harness.forward_requests import CannedOrigin, CannedResponse, make_forward_request


class Origin(CannedOrigin):
    dialect = DIALECTS["aws"]
    endpoint = type("Endpoint", (), {"scheme": "https"})

    def __init__(self) -> None:
        super().__init__(CannedResponse())


def a_forwarder(largest_body: int = 100) -> tuple[Forwarder, Origin]:
    origin = Origin()
    double: Any = origin
    return Forwarder(double, largest_body), origin


async def test_a_body_is_seen_and_sent_in_pieces() -> None:
    forwarder, origin = a_forwarder()
    seen: list[bytes] = []
    forward = make_forward_request("PUT", "/b/k?x-id=PutObject", b"abc", headers={"x-amz-meta-a": "b"})
    await forwarder.send(forward, tee=lambda piece: seen.append(bytes(piece)))
    request = origin.requests[0]
    assert (origin.bodies, b"".join(seen), request.content_length) == ([b"abc"], b"abc", 3)
    assert (request.bucket, request.key, ("x-amz-meta-a", "b") in request.headers) == ("b", "k", True)


async def test_a_document_is_sent_with_its_own_digests() -> None:
    forwarder, origin = a_forwarder()
    forward = make_forward_request("POST", "/b?delete", b"old", headers={"Content-MD5": "of another"})
    await forwarder.send(forward, document=b"new")
    request = origin.requests[0]
    assert (origin.bodies, request.payload_hash) == ([b"new"], sha256(b"new").hexdigest())
    digests = [value for name, value in request.headers if name.lower() == "content-md5"]
    assert digests == [b64encode(md5(b"new", usedforsecurity=False).digest()).decode()]


async def test_a_document_is_read_whole_and_watched() -> None:
    forwarder, _ = a_forwarder(10_000)
    seen: list[bytes] = []
    body = bytes(range(256)) * 20
    forward = make_forward_request("POST", "/b?delete", body, headers={"Content-MD5": md5_of(body)})
    assert await forwarder.read_document(forward, 10_000, lambda piece: seen.append(bytes(piece))) == body
    assert (len(seen) > 1, b"".join(seen)) == (True, body)


def md5_of(body: bytes) -> str:
    return b64encode(md5(body, usedforsecurity=False).digest()).decode()


@pytest.mark.parametrize(
    ("forward", "code"),
    [
        (make_forward_request("PUT", "/b/k", b"x" * 101), "EntityTooLarge"),
        (make_forward_request("PUT", "/b/k", b"abc", headers={"Content-MD5": md5_of(b"abd")}), "BadDigest"),
        (make_forward_request("PUT", "/b/k", headers={"Content-MD5": md5_of(b"a")}), "BadDigest"),
    ],
)
async def test_a_refused_body_is_never_sent_whole(forward: ForwardRequest, code: str) -> None:
    forwarder, origin = a_forwarder()
    with pytest.raises(S3Error, match=code):
        await forwarder.send(forward)
    assert origin.bodies == []


async def test_a_document_above_the_limit_is_refused() -> None:
    forwarder, _ = a_forwarder()
    with pytest.raises(S3Error, match="MalformedXML"):
        await forwarder.read_document(make_forward_request("POST", "/b/k?uploadId=u", b"x" * 11), 10)
