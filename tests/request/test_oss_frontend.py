"""The OSS front end: reads whose range OSS ignores, and writes that S3 has no condition or document for."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Self

import pytest
from multidict import CIMultiDict, CIMultiDictProxy

from forebay.core.errors import S3Error
from forebay.protocol.exchange import BytesBody, Request
from forebay.protocol.operations import classify
from forebay.protocol.oss.oss_request import to_s3_request
from forebay.protocol.target import parse_target
from forebay.request.oss_frontend import OssFrontend
from forebay.write.forward_request import ForwardRequest


@dataclass
class Response:
    """A response of the origin."""

    status: int
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""

    async def read(self, _limit: int) -> bytes:
        return self.body

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        return None


class Origin:
    """Origin and forwarder in one: answers in turn, and keeps what was sent."""

    def region_of(self, _bucket: str | None) -> str:
        return "r"

    def of(self, _bucket: str | None) -> "Origin":
        return self

    def __init__(self, *responses: Response) -> None:
        self.responses, self.sent = list(responses), list[Any]()

    async def send(self, request: Any) -> Response:
        self.sent.append(request)
        return self.responses.pop(0)

    async def read_document(self, forward: ForwardRequest, _limit: int) -> bytes:
        return b"".join([piece async for piece in forward.request.body.pieces()])


def frontend(origin: Any) -> OssFrontend:
    doubles: Any = None
    return OssFrontend(origin, origin, doubles, doubles)


def forward(
    method: str, target: str, headers: Mapping[str, str] = MappingProxyType({}), body: bytes = b""
) -> ForwardRequest:
    """A request in OSS's dialect, translated."""
    oss = to_s3_request(method, parse_target(target, "h", ()), CIMultiDict(headers))
    content = BytesBody(body)
    request = Request(method, target, "h", oss.headers, content, bool(body), time.time(), "", oss_request=oss)
    return ForwardRequest(request, oss.target, classify(method, oss.target, oss.headers), None)


@pytest.mark.parametrize(
    ("response", "again"),
    [
        (Response(206, {"Content-Range": "bytes 5-9/20"}), False),
        (Response(206, {"Content-Range": "bytes 5-7/8"}), True),
        (Response(416), True),
        (Response(200), False),
        (Response(404), False),
    ],
)
async def test_a_range_that_oss_ignores_is_dropped(response: Response, again: bool) -> None:
    origin, whole = Origin(response), Response(200)
    origin.responses.append(whole)
    answer: Any = await frontend(origin).send_read(forward("GET", "/b/k", {"Range": "bytes=5-9"}))
    assert answer is (whole if again else response)
    assert ["Range" in sent.request.headers for sent in origin.sent] == [True, False][: 1 + again]


async def test_a_range_by_the_standard_is_left_to_the_origin() -> None:
    origin, headers = Origin(Response(416)), {"Range": "bytes=5-9", "x-oss-range-behavior": "standard"}
    assert (await frontend(origin).send_read(forward("GET", "/b/k", headers))).status == 416


@pytest.mark.parametrize(("status", "refused"), [(200, True), (404, False)])
async def test_an_upload_may_be_forbidden_to_overwrite(status: int, refused: bool) -> None:
    origin = Origin(Response(status))
    upload = forward("POST", "/b/k?uploads", {"x-oss-forbid-overwrite": "true"})
    if refused:
        with pytest.raises(S3Error, match="PreconditionFailed"):
            await frontend(origin).prepare_write(upload)
    else:
        assert await frontend(origin).prepare_write(upload) is upload
    assert [(sent.method, sent.bucket, sent.key) for sent in origin.sent] == [("HEAD", "b", "k")]


async def test_a_completion_of_all_parts_lists_those_of_the_origin() -> None:
    part = b"<Part><PartNumber>%d</PartNumber><ETag>e%d</ETag></Part>"
    pages = [
        Response(200, {}, b"<ListPartsResult><IsTruncated>true</IsTruncated>%b</ListPartsResult>" % (part % (1, 1))),
        Response(200, {}, b"<ListPartsResult><IsTruncated>false</IsTruncated>%b</ListPartsResult>" % (part % (3, 3))),
    ]
    origin = Origin(*pages)
    complete = forward("POST", "/b/k?uploadId=u", {"x-oss-complete-all": "yes"})
    prepared = await frontend(origin).prepare_write(complete)
    document = b"".join([piece async for piece in prepared.request.body.pieces()])
    assert document.count(b"<PartNumber>") == 2
    assert b"<PartNumber>1</PartNumber>" in document
    assert b"<PartNumber>3</PartNumber>" in document
    assert prepared.request.headers["Content-Length"] == str(len(document))
    assert "Content-MD5" in prepared.request.headers
    assert dict(origin.sent[1].query)["part-number-marker"] == "1"


async def test_a_completion_of_all_parts_lists_none_itself() -> None:
    complete = forward("POST", "/b/k?uploadId=u", {"x-oss-complete-all": "yes"}, b"<CompleteMultipartUpload/>")
    with pytest.raises(S3Error, match="InvalidArgument"):
        await frontend(Origin()).prepare_write(complete)


async def test_other_writes_are_left_as_they_are() -> None:
    write = forward("DELETE", "/b/k")
    assert await frontend(Origin()).prepare_write(write) is write
    plain = Request("PUT", "/b/k", "h", CIMultiDictProxy(CIMultiDict()), BytesBody(b""), False, 0.0, "")
    target = parse_target("/b/k", "h", ())
    spoken_in_s3 = ForwardRequest(plain, target, classify("PUT", target, plain.headers), None)
    assert await frontend(Origin()).prepare_write(spoken_in_s3) is spoken_in_s3
