"""The gateway: which part answers a request, and what becomes of a failure: an error response, or an aborted
connection."""

import logging
import time
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree

import pytest
from multidict import CIMultiDict, CIMultiDictProxy

from forebay.core.errors import (
    OriginBroken,
    OriginCredentialFault,
    OriginError,
    OriginUnreachable,
    S3Error,
    SpoolFailed,
    SpoolFull,
    Throttled,
    WritesPending,
    access_denied,
)
from forebay.core.request_record import CacheStatus, RequestRecord
from forebay.policy.grants import Grant, Principal
from forebay.policy.path_patterns import Pattern
from forebay.policy.rules import Rule, Rules
from forebay.protocol.exchange import Request
from forebay.protocol.operations import Access
from forebay.protocol.oss.oss_documents import OssLocation
from forebay.protocol.target import parse_target
from forebay.request.admission import GatewayPolicy, admit
from forebay.request.authentication import Keyring
from forebay.request.gateway import Gateway
from forebay.request.oss_reply import OssReply
from harness.memory_exchange import DisconnectedReply, MemoryBody, MemoryReply

EVERYBODY = Principal("everybody", (Grant(Pattern("**"), frozenset(Access)),))
OPEN = Keyring({}, {}, EVERYBODY)
CLOSED = Keyring({}, {})


class Failing:
    """In place of whatever answers: fails, `late` after the response head has left."""

    def __init__(self, failure: Exception, *, late: bool = False, cache: CacheStatus | None = None) -> None:
        self.failure, self.late, self.cache, self.calls = failure, late, cache, 0

    async def answer(self, _admission: object, _request: object, reply: Any, record: RequestRecord) -> None:
        self.calls += 1
        record.cache = self.cache
        if self.late:
            await reply.start(200, (), 10)
        raise self.failure


class NoMembers:
    """In place of the subresources of packs: no request is about a member."""

    async def answer(self, *_request: object) -> bool:
        return False


async def handle(failing: Failing, method: str = "GET", keyring: Keyring = OPEN) -> tuple[MemoryReply, RequestRecord]:
    policy = GatewayPolicy(keyring, Rules(()), (), {})
    failing_parts: list[Any] = [failing] * 8
    gateway = Gateway(policy, *failing_parts, NoMembers())  # type: ignore[call-arg] # mypy does not count a list
    reply, record = MemoryReply(), RequestRecord(method, time.monotonic(), "ID")
    headers = CIMultiDictProxy(CIMultiDict({"Host": "localhost"}))
    await gateway.handle(
        Request(method, "/bucket/k%C3%A9y?", "x", headers, MemoryBody([]), False, 0.0, ""), reply, record
    )
    return reply, record


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT"])
@pytest.mark.parametrize(
    ("failure", "status", "code"),
    [
        (S3Error("PreconditionFailed", Condition="If-Match"), 412, "PreconditionFailed"),
        (Throttled("full"), 503, "SlowDown"),
        (WritesPending("older"), 503, "SlowDown"),
        (SpoolFull("no room"), 503, "SlowDown"),
        (SpoolFailed("/a/secret/path: No space left on device"), 503, "SlowDown"),
        (OriginUnreachable("a secret reason"), 503, "ServiceUnavailable"),
        (OriginBroken("a secret reason"), 503, "ServiceUnavailable"),
        (RuntimeError("a secret reason"), 500, "InternalError"),
    ],
)
async def test_each_failure_is_an_error_document(method: str, failure: Exception, status: int, code: str) -> None:
    reply, record = await handle(Failing(failure), method)
    assert (reply.status, reply.finished, record.error) == (status, True, code)
    assert ("Retry-After" in reply.headers) == (status == 503)
    if method == "HEAD":
        assert reply.body == b""
        return
    assert reply.length == len(reply.body)
    document = ElementTree.fromstring(bytes(reply.body))
    assert (document.findtext("Code"), document.findtext("RequestId")) == (code, "ID")
    # What is wrong with the origin is for the client to know, and what is wrong with Forebay is not.
    assert (b"secret" in reply.body) == isinstance(failure, OriginError)


@pytest.mark.parametrize("failure", [S3Error("BadDigest"), OriginBroken("cut"), RuntimeError("x"), ConnectionError()])
async def test_a_failure_after_the_response_head_aborts(failure: Exception) -> None:
    reply, _ = await handle(Failing(failure, late=True))
    assert (reply.status, reply.aborted, reply.finished) == (200, True, False)


async def test_a_client_learns_that_it_waits_for_pending_writes() -> None:
    for failure, shown in (
        (WritesPending("older"), b"Pending writes come first"),
        (Throttled("full"), b"reduce the rate"),
    ):
        reply, _ = await handle(Failing(failure), "PUT")
        assert shown in bytes(reply.body)


async def test_a_client_that_has_left_is_only_recorded() -> None:
    reply, record = await handle(Failing(ConnectionResetError()))
    assert (reply.aborted, reply.started, record.aborted) == (True, False, True)


async def test_a_defect_is_logged_with_its_step(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR):
        await handle(Failing(RuntimeError("why")))
    assert "ID: unhandled in step rule" in caplog.text
    assert "why" in caplog.text


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "DELETE", "POST", "TRACE", "ANY"])
async def test_a_request_without_proof_reaches_no_reader_or_writer(method: str) -> None:
    failing = Failing(RuntimeError("asked"))
    reply, record = await handle(failing, method, CLOSED)
    assert (reply.status, failing.calls, record.principal) == (403, 0, "")


@pytest.mark.parametrize(
    ("failure", "level", "line"),
    [
        (Throttled("full"), logging.INFO, "ID: full"),
        (SpoolFull("no room"), logging.INFO, "ID: no room"),
        (SpoolFailed("/held: full"), logging.WARNING, "ID: a body can't be kept: /held: full (limits.held_path)"),
        (OriginUnreachable("no route"), logging.WARNING, "ID: the origin could not answer GetObject: no route"),
        (OriginCredentialFault("no key", ""), logging.INFO, "ID: the origin could not answer GetObject: no key"),
        (S3Error("SlowDown", "It is full."), logging.INFO, "ID: SlowDown: It is full."),
        (access_denied("no grant"), logging.INFO, "ID: AccessDenied: no grant"),
    ],
)
async def test_a_failure_is_logged_at_its_level(
    caplog: pytest.LogCaptureFixture, failure: Exception, level: int, line: str
) -> None:
    with caplog.at_level(logging.INFO):
        await handle(Failing(failure))
    assert [(record.levelno, record.message) for record in caplog.records] == [(level, line)]


async def test_a_refusal_without_a_reason_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        await handle(Failing(S3Error("NoSuchKey")))
    assert caplog.records == []


async def test_a_refusal_says_what_the_cache_did_and_how_long_the_object_is() -> None:
    failing = Failing(S3Error("InvalidRange", ActualObjectSize="10"), cache="hit-ssd")
    reply, _ = await handle(failing)
    assert (reply.headers["Content-Range"], reply.headers["x-forebay-cache"]) == ("bytes */10", "hit-ssd")
    reply, _ = await handle(Failing(S3Error("NoSuchKey")))
    assert {"Content-Range", "x-forebay-cache"} & {*reply.headers} == set()


async def test_a_client_that_leaves_before_its_refusal_is_recorded() -> None:
    parts, reply = Parts(), DisconnectedReply()
    record = RequestRecord("GET", time.monotonic(), "ID")
    await parts.gateway.handle(request_of("GET", "/bucket/%zz"), reply, record)
    assert (reply.aborted, record.aborted, record.error) == (True, True, "InvalidURI")


async def test_a_refusal_in_oss_is_a_document_of_oss() -> None:
    parts = Parts()
    reply, _ = await parts.send("GET", "/bucket/%zz", **{"x-oss-date": "now"})
    assert (reply.headers["x-oss-request-id"], reply.finished) == ("ID", True)
    assert "x-amz-request-id" not in reply.headers


class Parts:
    """In place of all that answers: notes which one was asked, and says what the test wants it to."""

    NAMES = ("reader", "uncached", "writer", "form", "oss", "cors", "resources", "batches", "subresources")

    def __init__(self, policy: GatewayPolicy | None = None, **results: object) -> None:
        self.asked: list[str] = []
        self.admission: Any = None
        self.request: Any = None
        self.reply: Any = None
        """What the part was asked with that was asked last."""
        self.results: dict[str, object] = {"subresources": False, **results}
        self.gateway = Gateway(
            policy or GatewayPolicy(OPEN, Rules(()), (), {}),
            *(Part(name, self) for name in self.NAMES),  # type: ignore[arg-type] # fakes
        )

    async def send(self, method: str, target: str, **headers: str) -> tuple[MemoryReply, RequestRecord]:
        reply, record = MemoryReply(), RequestRecord(method, time.monotonic(), "ID")
        await self.gateway.handle(request_of(method, target, **headers), reply, record)
        return reply, record


class Part:
    """One of them."""

    def __init__(self, name: str, parts: Parts) -> None:
        self.name, self.parts = name, parts

    async def answer(self, *arguments: Any) -> object:
        self.parts.asked.append(self.name)
        self.parts.admission, self.parts.request, self.parts.reply = arguments[:3]
        return self.parts.results.get(self.name)

    async def answer_preflight(self, *_arguments: object, answers_pages: bool) -> None:
        self.parts.asked.append(f"preflight{' of pages' if answers_pages else ''}")

    def wrap_reply(self, reply: MemoryReply, request: Request, _target: object, record: RequestRecord) -> OssReply:
        self.parts.asked.append("wrap")
        return OssReply(reply, request.method, record, OssLocation("r", "host"))

    def allow_lookups(self, _reply: OssReply, bucket: str, _identity: object) -> None:
        self.parts.asked.append(f"lookups in {bucket}")


def request_of(method: str, target: str, **headers: str) -> Request:
    fields = CIMultiDictProxy(CIMultiDict({"Host": "localhost", **headers}))
    return Request(method, target, "x", fields, MemoryBody([]), False, 0.0, "")


@pytest.mark.parametrize(
    ("method", "target", "asked"),
    [
        ("GET", "/bucket/key", ["reader"]),
        ("HEAD", "/bucket/key", ["reader"]),
        ("GET", "/bucket/key?acl", ["subresources", "uncached"]),
        ("GET", "/bucket?list-type=2", ["subresources", "uncached"]),
        ("PUT", "/bucket/key", ["subresources", "writer"]),
        ("DELETE", "/bucket/key", ["subresources", "writer"]),
        ("POST", "/bucket?delete", ["subresources", "writer"]),
        ("POST", "/bucket/.forebay/batch", ["batches"]),
        ("GET", "/bucket/.forebay/plans/name", ["resources"]),
        ("OPTIONS", "/bucket/key", ["preflight"]),
        ("PUT", "/bucket/.forebay/plans/name", ["resources"]),
    ],
)
async def test_each_request_has_one_way(method: str, target: str, asked: list[str]) -> None:
    parts = Parts()
    _, record = await parts.send(method, target)
    assert (parts.asked, record.error) == (asked, "")


async def test_a_form_is_no_other_write() -> None:
    parts = Parts()
    await parts.send("POST", "/bucket", **{"Content-Type": "multipart/form-data; boundary=b"})
    assert parts.asked == ["form"]


async def test_a_request_in_oss_is_answered_in_oss() -> None:
    parts = Parts()
    await parts.send("GET", "/bucket/key", **{"x-oss-date": "now", "x-oss-range-behavior": "standard"})
    assert parts.asked == ["wrap", "lookups in bucket", "reader"]
    assert parts.request.headers is parts.admission.headers
    assert parts.request.oss_request is parts.reply.request is parts.admission.oss_request is not None


async def test_a_request_in_s3_is_as_it_was_received() -> None:
    parts = Parts()
    await parts.send("GET", "/bucket/key")
    assert parts.request.oss_request is None
    assert parts.request.headers is parts.admission.headers


class Known:
    """The head of a connection: proves nothing, and notes what it learns."""

    def __init__(self) -> None:
        self.learned: list[str | None] = []

    def prove(self, *_arguments: object) -> None:
        return None

    def learn(self, target: Any, admission: Any) -> None:
        assert admission.target == target
        self.learned.append(target.key)


async def test_a_head_learns_what_it_could_not_prove() -> None:
    parts, known, record = Parts(), Known(), RequestRecord("GET", time.monotonic(), "ID")
    head: Any = known
    await parts.gateway.handle(request_of("GET", "/bucket/key"), MemoryReply(), record, head)
    assert (parts.asked, known.learned) == (["reader"], ["key"])


async def test_a_read_that_is_bypassed_goes_to_the_origin(caplog: pytest.LogCaptureFixture) -> None:
    parts = Parts(reader=SimpleNamespace(reason="too large"))
    with caplog.at_level(logging.INFO):
        await parts.send("GET", "/bucket/key")
    assert parts.asked == ["reader", "subresources", "uncached"]
    assert "ID: bypassed to the origin: too large" in caplog.text


async def test_a_read_that_no_rule_accelerates_is_no_cache_s() -> None:
    rules = Rules((Rule("bucket/**", accelerate=False),))
    parts = Parts(policy=GatewayPolicy(OPEN, rules, (), {}))
    await parts.send("GET", "/bucket/key")
    assert parts.asked == ["subresources", "uncached"]


async def test_a_subresource_of_a_member_is_answered_once() -> None:
    parts = Parts(subresources=True)
    await parts.send("GET", "/bucket/key?acl")
    await parts.send("PUT", "/bucket/key?acl")
    assert parts.asked == ["subresources", "subresources"]


@pytest.mark.parametrize(
    ("target", "headers", "asked"),
    [
        ("/bucket/%zz", {}, []),
        ("/bucket/%zz", {"x-oss-date": "now"}, ["wrap"]),
        ("/bucket/%zz?x-oss-signature-version=OSS4-HMAC-SHA256", {}, ["wrap"]),
        ("/bucket/\xe9?%zz", {}, []),
    ],
)
async def test_a_target_that_cannot_be_parsed_is_refused(
    target: str, headers: dict[str, str], asked: list[str]
) -> None:
    parts = Parts()
    reply, record = await parts.send("GET", target, **headers)
    assert (reply.status, reply.finished, record.error) == (400, True, "InvalidURI")
    assert parts.asked == asked


async def test_a_read_of_the_fast_lane_is_recorded_as_any_other() -> None:
    parts = Parts()
    _, handled = await parts.send("GET", "/bucket/key")
    request, reply = request_of("GET", "/bucket/key"), MemoryReply()
    policy = parts.gateway.policy
    target = parse_target(request.raw_target, request.host, policy.domains, policy.cnames)
    admission = admit(policy, "GET", target, request.headers, request.received_at)
    read = RequestRecord("GET", time.monotonic(), "ID")
    await parts.gateway.read(admission, request, reply, read)
    assert parts.asked == ["reader", "reader"]
    for name in ("bucket", "key", "principal", "operation", "rule"):
        assert getattr(read, name) == getattr(handled, name), name
    assert (read.bucket, read.key, read.principal, read.operation) == ("bucket", "key", "everybody", "GetObject")
