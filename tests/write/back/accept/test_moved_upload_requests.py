"""Requests of moved uploads: to the origin under its id, once what they need of the journal was carried there."""

import asyncio
from collections.abc import Awaitable, Sequence
from typing import Any, cast

import pytest
from multidict import CIMultiDict

from forebay.core.errors import OriginBroken, S3Error, Throttled
from forebay.core.names import ObjectName
from forebay.core.task_registry import TaskRegistry
from forebay.origin.origin_request import OriginRequest
from forebay.protocol.target import Target, parse_target
from forebay.storage.journal.log_writer import RecordId
from forebay.write.back.accept.moved_upload_requests import MovedUploadRequests
from forebay.write.back.pending.accepted_write import AcceptedPart, AcceptedUpload, MovedUpload, OriginCompletion
from forebay.write.back.pending.pending_uploads import PendingPart, PendingUpload, PendingUploads
from forebay.write.forward_request import ForwardRequest, WriteContext
from forebay.write.repeated_completion import completion_digest
from harness.forward_requests import CannedResponse, make_forward_request
from harness.jumping_loop import JumpingLoop

NAME = ObjectName("b", "k")
LISTED = (
    b'<ListPartsResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><UploadId>there</UploadId>'
    b"<Part><PartNumber>1</PartNumber></Part></ListPartsResult>"
)
RESULT = b"<CompleteMultipartUploadResult><ETag>&quot;made-1&quot;</ETag></CompleteMultipartUploadResult>"


class _Response(CannedResponse):
    """An origin's answer that is read whole."""

    async def read(self, limit: int) -> bytes:
        return (await self.next_piece())[:limit]


class _Rig:
    """The upload `moved` with parts 1 and 2 in the journal, and the upload `here`. Stands for its neighbours."""

    def __init__(self, *answers: CannedResponse) -> None:
        self.uploads = PendingUploads()
        for number, upload in enumerate(("moved", "here")):
            self.uploads.create(RecordId("l", number), AcceptedUpload(NAME, upload, (), 0.0))
        for number in (1, 2):
            part = AcceptedPart(NAME, "moved", number, '"e"', 1, (), None, (), 0.0, 0, 0)
            self.uploads.add(PendingPart(self.part(number), part, ()))
        self.uploads.move(RecordId("l", 9), MovedUpload(NAME, "moved", "there", 1))
        self.touched, self.waits = list[str](), 0
        self.noted: list[tuple[str, str, int, OriginCompletion | None]] = []
        self.sent: list[OriginRequest] = []
        self._answers = list(answers)
        double: Any = self
        self.requests = MovedUploadRequests(self.uploads, double, double, double, self._wait)

    def part(self, number: int) -> RecordId:
        return RecordId("l", 10 + number)

    def touch(self, upload_id: str) -> None:
        self.touched.append(upload_id)

    async def note(self, upload: PendingUpload, operation: str, status: int, made: OriginCompletion | None) -> None:
        self.noted.append((upload.upload.upload_id, operation, status, made))

    async def send(self, request: OriginRequest) -> CannedResponse:
        self.sent.append(request)
        return self._answers.pop(0)

    async def _wait(self, bucket: str, waiting: Awaitable[None], _request: object) -> None:
        assert bucket == "b"
        self.waits += 1
        await waiting

    async def redirect(self, method: str, query: str, path: str = "/b/k") -> str:
        """The query that goes to the origin."""
        context = _write(make_forward_request(method, f"{path}?{query}"))
        redirected = await self.requests.redirect(context)
        return "&".join(f"{name}={value}" for name, value in redirected.forward.target.query)


def _write(forward: ForwardRequest) -> WriteContext:
    return WriteContext(forward, cast("Any", None), None, cast("Any", None), cast("Any", None))


@pytest.mark.parametrize(
    ("method", "path", "query"),
    [
        ("PUT", "/b", "acl="),
        ("PUT", "/b/k", "tagging="),
        ("PUT", "/b/k", "partNumber=1&uploadId=here"),
        ("POST", "/b/k", "uploadId=unknown"),
        ("DELETE", "/b/another", "uploadId=moved"),
    ],
)
async def test_other_requests_stay_as_they_are(method: str, path: str, query: str) -> None:
    """Those of uploads that are in the journal alone, or of another object, as well."""
    rig = _Rig()
    assert await rig.redirect(method, query, path) == query
    assert (rig.touched, rig.waits) == ([], 0)


@pytest.mark.parametrize(
    ("method", "query", "needs"),
    [
        ("PUT", "partNumber=1&uploadId={}", [1]),
        ("PUT", "partNumber=3&uploadId={}", []),
        ("POST", "uploadId={}", [1, 2]),
        ("DELETE", "uploadId={}", []),
    ],
)
async def test_requests_wait_for_the_parts_that_they_need(method: str, query: str, needs: Sequence[int]) -> None:
    rig, tasks = _Rig(), TaskRegistry()
    redirecting = tasks.spawn(rig.redirect(method, query.format("moved")), "redirect")
    for number in needs:
        for _ in range(3):
            await asyncio.sleep(0)
        assert not redirecting.done()
        rig.uploads.settle(rig.part(number))
    assert await redirecting == query.format("there")
    assert (rig.touched, rig.waits) == (["moved"], 1 if needs else 0)


async def test_the_origins_answers_are_noted() -> None:
    rig, document = _Rig(), b"document"
    condition = {"If-None-Match": "*"}
    forward = make_forward_request("POST", "/b/k?uploadId=there", headers=condition)
    crc = CIMultiDict({"x-oss-hash-crc64ecma": "7"})
    await rig.requests.learn(_write(forward), 200, crc, document, RESULT)
    sums = (("x-oss-hash-crc64ecma", "7"),)
    made = OriginCompletion('"made-1"', sums, completion_digest(document, tuple(condition.items())))
    assert rig.noted == [("moved", "CompleteMultipartUpload", 200, made)]
    unknown = make_forward_request("POST", "/b/k?uploadId=there", headers={"If-Modified-Since": "then"})
    await rig.requests.learn(_write(unknown), 200, CIMultiDict(), document, RESULT)
    await rig.requests.learn(
        _write(make_forward_request("DELETE", "/b/k?uploadId=there")), 204, CIMultiDict(), b"", b""
    )
    for query in ("uploadId=moved", "uploadId=", "acl="):
        other = make_forward_request("DELETE" if "upload" in query else "PUT", f"/b/k?{query}")
        await rig.requests.learn(_write(other), 404, CIMultiDict(), b"", b"")
    assert rig.noted[1:] == [
        ("moved", "CompleteMultipartUpload", 200, None),
        ("moved", "AbortMultipartUpload", 204, None),
    ]


def _listing(query: str) -> Target:
    return parse_target(f"/b/k?{query}", "h", ())


def _moved(rig: _Rig) -> PendingUpload:
    return rig.uploads.by_id["moved"]


async def test_the_parts_are_listed_under_the_clients_id() -> None:
    rig, tasks = _Rig(_Response(200, LISTED)), TaskRegistry()
    target = _listing("uploadId=moved&max-parts=5&part-number-marker=&encoding-type=url")
    listing = tasks.spawn(rig.requests.parts_document(_moved(rig), target), "list")
    for number in (1, 2):
        for _ in range(3):
            await asyncio.sleep(0)
        assert rig.sent == []
        rig.uploads.settle(rig.part(number))
    document = await listing
    assert (b"<UploadId>moved<" in document, b"there" in document, b"<PartNumber>1<" in document) == (True, False, True)
    [request] = rig.sent
    assert (request.method, request.bucket, request.key, request.operation) == ("GET", "b", "k", "ListParts")
    assert request.query == (("uploadId", "there"), ("max-parts", "5"), ("encoding-type", "url"))


def test_a_listing_of_parts_waits_no_longer_than_a_read() -> None:
    async def scenario() -> None:
        rig, loop = _Rig(), asyncio.get_running_loop()
        assert isinstance(loop, JumpingLoop)
        with loop.jumping(), pytest.raises(Throttled, match="not at the origin yet"):
            await rig.requests.parts_document(_moved(rig), _listing("uploadId=moved"))
        assert rig.sent == []

    with asyncio.Runner(loop_factory=JumpingLoop) as runner:
        runner.run(scenario())


@pytest.mark.parametrize(
    ("status", "document", "code"),
    [
        (404, b"<Error><Code>NoSuchUpload</Code></Error>", "NoSuchUpload"),
        (400, b"<Error><Code>Unheard</Code></Error>", "ServiceUnavailable"),
        (503, b"", "ServiceUnavailable"),
        (200, b"no document", None),
    ],
)
async def test_a_refused_listing_of_parts_is_refused(status: int, document: bytes, code: str | None) -> None:
    rig = _Rig(_Response(status, document))
    for number in (1, 2):
        rig.uploads.settle(rig.part(number))
    with pytest.raises(OriginBroken if code is None else S3Error) as refused:
        await rig.requests.parts_document(_moved(rig), _listing("uploadId=moved"))
    assert code is None or cast("S3Error", refused.value).code == code
