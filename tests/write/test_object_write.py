"""A write is sent between two invalidations, and answered after the second."""

import time
from typing import Any

import pytest

from forebay.core.errors import OriginBroken, OriginError, OriginUnreachable, S3Error, Throttled
from forebay.core.heads import HeaderPairs
from forebay.core.names import ObjectName
from forebay.core.request_record import RequestRecord
from forebay.core.task_registry import TaskRegistry
from forebay.policy.grants import Grant, Principal
from forebay.policy.path_patterns import Pattern
from forebay.protocol.operations import Access
from forebay.write.forward_request import ForwardRequest, WriteContext
from forebay.write.invalidation import WholeBucket
from forebay.write.object_write import ObjectWriter
from harness.forward_requests import CannedResponse, make_forward_request
from harness.memory_exchange import MemoryReply

NAME = ObjectName("b", "k")
DELETE = b"<Delete><Object><Key>one</Key></Object><Object><Key>two</Key></Object></Delete>"
ERROR = b"<Error><Code>InternalError</Code></Error>"


class Script:
    """In place of forwarder, invalidator and tracker: records their calls, and answers as the origin."""

    generation, document, refused = None, None, False

    def __init__(self, outcome: CannedResponse | Exception, *, completed: bool = True) -> None:
        """`completed`: whether the bytes that complete the request leave."""
        self.outcome, self.completed = outcome, completed
        self.calls: list[object] = []
        self.reply = MemoryReply()

    async def read_document(self, forward: ForwardRequest, _limit: int, watch: Any = None) -> bytes:
        body = b"".join([piece async for piece in forward.request.body.pieces()])
        if watch is not None:
            watch(body)
        return body

    async def open_body(self, _forward: object, *, for_origin: bool) -> "Script":
        assert for_origin
        self.calls.append("open")
        if self.refused:
            raise S3Error("BadDigest")
        return self

    def release(self) -> None:
        self.calls.append("release")

    async def send(
        self, _forward: object, *, body: Any, tee: Any, document: bytes | None, before_completion: Any
    ) -> CannedResponse:
        if self.completed:
            await before_completion()
            self.calls.append("send")
        assert tee == self.update
        if isinstance(self.outcome, Exception):
            raise self.outcome
        return self.outcome

    etag = ""

    def begin_write(self) -> int:
        return 7

    def end_write(self, write: int) -> None:
        self.calls.append(("end", write))

    async def invalidate(self, affected: Any, _keep: object = None, *, write: int | None = None) -> None:
        assert not self.reply.finished
        self.calls.append(("invalidate", affected))

    def mark_in_doubt(self, _affected: object) -> None:
        self.calls.append("in doubt")

    async def track(self, *_: object) -> "Script":
        return self

    def update(self, piece: object) -> None:
        raise AssertionError(piece)

    async def confirm(self, _answer: object, _result: bytes) -> HeaderPairs:
        self.calls.append("confirm")
        return (("x-added", "1"),)

    def refuse(self) -> None:
        self.calls.append("refuse")

    def discard(self) -> None:
        pass

    async def close(self) -> None:
        self.calls.append("close")


async def carry_out(
    outcome: CannedResponse | Exception,
    forward: ForwardRequest | None = None,
    access: frozenset[Access] = frozenset(Access),
    *,
    completed: bool = True,
    refused: bool = False,
) -> Script:
    script, tasks = Script(outcome, completed=completed), TaskRegistry()
    script.refused = refused
    doubles: Any = script
    principal = Principal("p", (Grant(Pattern("**"), access),))
    record = RequestRecord("PUT", time.monotonic(), "ID")
    context = WriteContext(forward or make_forward_request("PUT", "/b/k", b"x"), principal, None, script.reply, record)
    try:
        await ObjectWriter(doubles, doubles, doubles, tasks).write(context)
    except (S3Error, OriginError, Throttled, ConnectionError) as failure:
        script.calls.append(type(failure))
    await tasks.close()
    return script


def between(*calls: object, affected: object = (NAME,)) -> list[object]:
    """The calls of a write with these between the two invalidations, or after them."""
    second = calls.index("second")
    steps = [*calls[:second], ("invalidate", affected), *calls[second + 1 :]]
    return ["open", ("invalidate", affected), *steps]


async def test_a_success_is_recorded_before_it_is_answered() -> None:
    script = await carry_out(CannedResponse(200))
    assert script.calls == between("send", "second", "confirm", ("end", 7), "close", "release")
    assert (script.reply.finished, script.reply.headers["x-added"]) == (True, "1")


@pytest.mark.parametrize(
    ("outcome", "calls"),
    [
        (CannedResponse(403), ("send", "second", "refuse", ("end", 7), "close", "release")),
        (CannedResponse(503), ("send", "in doubt", "second", ("end", 7), "close", "release")),
        (S3Error("BadDigest"), ("send", "second", ("end", 7), "close", "release", S3Error)),
        (OriginBroken("lost"), ("send", "in doubt", "second", ("end", 7), "close", "release", OriginBroken)),
        (ConnectionResetError(), ("send", "in doubt", "second", ("end", 7), "close", "release", ConnectionResetError)),
    ],
)
async def test_each_outcome_is_invalidated(outcome: Any, calls: tuple[object, ...]) -> None:
    assert (await carry_out(outcome)).calls == between(*calls)


@pytest.mark.parametrize(
    "failure", [OriginUnreachable("connection refused"), Throttled("no turn"), S3Error("BadDigest")]
)
async def test_a_request_that_was_not_completed_affects_nothing(failure: Exception) -> None:
    script = await carry_out(failure, completed=False)
    assert script.calls == ["open", "refuse", ("end", 7), "close", "release", type(failure)]


async def test_an_answer_before_the_end_of_the_body_counts() -> None:
    script = await carry_out(CannedResponse(200), completed=False)
    calls = ["open", ("invalidate", (NAME,)), "confirm", "refuse", ("end", 7), "close", "release"]
    assert script.calls == calls


async def test_an_error_in_the_body_leaves_the_keys_in_doubt() -> None:
    copy = make_forward_request("PUT", "/b/k", headers={"x-amz-copy-source": "/b/other"})
    script = await carry_out(CannedResponse(200, b" ", ERROR), copy)
    assert script.calls == between("send", "in doubt", "second", "refuse", ("end", 7), "close", "release")
    lost = await carry_out(CannedResponse(200, b" ", OriginBroken("cut")), copy)
    assert lost.calls == between("send", "in doubt", "second", ("end", 7), "close", "release", OriginBroken)


async def test_the_operation_says_which_keys_are_affected() -> None:
    keys = (ObjectName("b", "one"), ObjectName("b", "two"))
    batch = make_forward_request("POST", "/b?delete", DELETE)
    answer = CannedResponse(200, b"<DeleteResult/>")
    assert (await carry_out(answer, batch)).calls[0] == ("invalidate", keys)
    bucket = make_forward_request("DELETE", "/b")
    assert (await carry_out(CannedResponse(204), bucket)).calls[1] == ("invalidate", WholeBucket("b"))


async def test_listed_keys_are_authorised_before_anything_is_sent() -> None:
    batch = make_forward_request("POST", "/b?delete", DELETE)
    script = await carry_out(CannedResponse(200), batch, frozenset({Access.READ}))
    assert script.calls == [S3Error]


async def test_a_body_that_is_refused_before_it_is_sent_changes_nothing() -> None:
    assert (await carry_out(CannedResponse(200), refused=True)).calls == ["open", S3Error]
