"""What the origin is sent, and what it never is."""

from base64 import b64encode
from hashlib import md5, sha256
from typing import Any

import pytest

from forebay.core.buffers import Piece
from forebay.core.errors import S3Error
from forebay.core.fair_semaphore import FairSemaphore
from forebay.storage.spool import Spool
from forebay.write.forward_request import ForwardRequest
from forebay.write.forwarder import Forwarder
from forebay.write.upload_body import Tee
from harness.forward_requests import CannedOrigin, CannedResponse, make_forward_request
from harness.memory_exchange import MemoryBody


class Origin(CannedOrigin):
    endpoint = type("Endpoint", (), {"scheme": "https"})

    def __init__(self) -> None:
        super().__init__(CannedResponse())


def a_forwarder(largest_body: int = 100, memory: int = 1000) -> tuple[Forwarder, Origin]:
    origin = Origin()
    double: Any = origin
    spool = Spool(memory, FairSemaphore(memory), share=memory, wait=0.01)
    return Forwarder(double, spool, largest_body), origin


async def upload(forwarder: Forwarder, forward: ForwardRequest, tee: Tee | None = None) -> None:
    body = await forwarder.open_body(forward)
    try:
        await forwarder.send(forward, body=body, tee=tee)
    finally:
        if body is not None:
            body.release()


async def test_a_body_is_seen_and_sent_in_pieces() -> None:
    forwarder, origin = a_forwarder()
    seen: list[bytes] = []

    async def tee(piece: Piece) -> None:
        seen.append(bytes(piece))

    forward = make_forward_request("PUT", "/b/k?x-id=PutObject", b"abc", headers={"x-amz-meta-a": "b"})
    await upload(forwarder, forward, tee)
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
        await upload(forwarder, forward)
    assert origin.requests == []


async def test_a_document_above_the_limit_is_refused() -> None:
    forwarder, _ = a_forwarder()
    with pytest.raises(S3Error, match="MalformedXML"):
        await forwarder.read_document(make_forward_request("POST", "/b/k?uploadId=u", b"x" * 11), 10)


@pytest.mark.parametrize(
    ("forward", "memory", "paced_by"),
    [
        (make_forward_request("GET", "/b/k?acl"), 1000, "response"),
        (make_forward_request("HEAD", "/b/k"), 1000, None),
        (make_forward_request("DELETE", "/b/k"), 1000, None),
        (make_forward_request("POST", "/b/k?select&select-type=2", b"<S/>"), 1000, "response"),
        (make_forward_request("PUT", "/b/k", b"x" * 50), 1000, None),
        (make_forward_request("PUT", "/b/k", b"x" * 50), 1, None),  # it came in a piece
    ],
)
async def test_a_request_that_waits_for_a_client_is_paced(
    forward: ForwardRequest, memory: int, paced_by: str | None
) -> None:
    forwarder, origin = a_forwarder(memory=memory)
    await upload(forwarder, forward)
    assert origin.requests[0].paced_by == paced_by


async def test_a_body_that_is_still_coming_is_paced() -> None:
    forwarder, origin = a_forwarder(memory=3)
    forward = make_forward_request("PUT", "/b/k", b"abcdef")
    await upload(forwarder, forward._replace(request=forward.request._replace(body=MemoryBody([b"abc", b"d", b"ef"]))))
    assert (origin.bodies, origin.requests[0].paced_by) == ([b"abcdef"], "body")
