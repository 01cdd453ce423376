"""What a read that no cache answers waits for, and who answers it: the journal, a listing of the namespace, or the
origin."""

import time
from types import SimpleNamespace
from typing import Any, cast

import pytest
from multidict import CIMultiDict

from forebay.core.request_record import RequestRecord
from forebay.origin.origin_identity import OriginIdentity
from forebay.protocol.exchange import EMPTY_BODY, Request
from forebay.protocol.target import parse_target
from forebay.request.admission import Admission, admit
from forebay.request.uncached_read import UncachedReader
from harness.admitted_reads import POLICY
from harness.memory_exchange import MemoryReply

LISTING, OBJECT, PARTS, UPLOADS = "/b?list-type=2", "/b/k?tagging", "/b/k?uploadId=1", "/b?uploads"


class Answering:
    """All that an UncachedReader asks, in one; notes in which order it was asked."""

    def __init__(self, *, lists: bool, document: bytes | None) -> None:
        self.steps: list[str] = []
        self._lists, self._document = lists, document
        self.barriers = self

    async def before_read(self, *_: object) -> None:
        self.steps.append("wait")

    async def answer_listing(self, operation: str, _target: object, _headers: object, *, is_own: bool) -> bytes | None:
        self.steps.append(f"{operation} {'own' if is_own else 'of another credential'}")
        return self._document

    async def answer(self, *_: object) -> bool:
        self.steps.append("list")
        return self._lists

    async def relay(self, *_: object) -> None:
        self.steps.append("relay")


def admitted(method: str, target: str, identity: OriginIdentity | None = None) -> Admission:
    fields = CIMultiDict({"Host": "localhost"})
    found = admit(POLICY, method, parse_target(target, "localhost", ()), fields, time.time())
    return found._replace(identity=identity)


async def steps_of(
    method: str, target: str, *, has_identity: bool, lists: bool, document: bytes | None = None, journal: bool = True
) -> tuple[list[str], MemoryReply]:
    asked, reply = Answering(lists=lists, document=document), MemoryReply()
    identity = cast("OriginIdentity", SimpleNamespace(id="alice")) if has_identity else None
    admission = admitted(method, target, identity)
    reader = UncachedReader(cast("Any", asked), cast("Any", asked), cast("Any", asked) if journal else None)
    request = Request(method, target, "localhost", admission.headers, EMPTY_BODY, False, 0.0, "")
    await reader.answer(admission, request, reply, RequestRecord(method, 0.0, "ID"))
    return asked.steps, reply


@pytest.mark.parametrize(
    ("target", "has_identity", "lists", "expected"),
    [
        (OBJECT, False, False, ["wait", "relay"]),
        (OBJECT, True, False, ["wait", "relay"]),
        (LISTING, False, True, ["list"]),
        (LISTING, True, True, ["wait", "list"]),
        (LISTING, False, False, ["list", "wait", "relay"]),
        (LISTING, True, False, ["wait", "list", "wait", "relay"]),
        ("/b?something-new", True, False, ["wait", "list", "wait", "relay"]),
    ],
)
async def test_a_read_waits_for_what_it_could_miss(
    target: str, has_identity: bool, lists: bool, expected: list[str]
) -> None:
    steps, _ = await steps_of("GET", target, has_identity=has_identity, lists=lists)
    assert steps == expected
    steps, _ = await steps_of("GET", target, has_identity=has_identity, lists=lists, journal=False)
    assert steps == [step for step in expected if step != "wait"]


@pytest.mark.parametrize("has_identity", [False, True])
@pytest.mark.parametrize(("method", "target"), [("HEAD", "/b"), ("GET", "/b?location"), ("GET", "/b?versioning")])
async def test_a_read_of_the_bucket_itself_waits_for_no_write(method: str, target: str, has_identity: bool) -> None:
    steps, _ = await steps_of(method, target, has_identity=has_identity, lists=False)
    assert steps == ["list", "relay"]


@pytest.mark.parametrize(("target", "operation"), [(PARTS, "ListParts"), (UPLOADS, "ListMultipartUploads")])
async def test_an_upload_of_the_journal_is_listed_here(target: str, operation: str) -> None:
    steps, reply = await steps_of("GET", target, has_identity=False, lists=False, document=b"<x/>")
    assert (steps, reply.status, bytes(reply.body), reply.finished) == ([f"{operation} own"], 200, b"<x/>", True)
    steps, reply = await steps_of("GET", target, has_identity=True, lists=False)
    assert steps[0] == f"{operation} of another credential"
    assert (steps[-1], reply.started) == ("relay", False)
    steps, _ = await steps_of("GET", target, has_identity=False, lists=False, journal=False)
    assert steps[-1] == "relay"
