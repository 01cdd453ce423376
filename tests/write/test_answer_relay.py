"""Relayed answers, and those with the outcome in their body: blanks pass at once, the document when it is settled."""

import time
from typing import Any

import pytest
from multidict import CIMultiDict

from forebay.core.errors import OriginBroken
from forebay.core.heads import HeaderPairs
from forebay.core.request_record import RequestRecord
from forebay.protocol.exchange import Request
from forebay.write.answer_relay import RESULT_LIMIT, AnswerRelay
from harness.forward_requests import CannedResponse
from harness.memory_exchange import MemoryBody, MemoryReply

DECLARATION = b'<?xml version="1.0" encoding="UTF-8"?>'
RESULT = b"<CopyObjectResult><ETag>x</ETag></CopyObjectResult>"


class Settled:
    """Records its calls, and what the client had by then."""

    def __init__(self, reply: MemoryReply) -> None:
        self.reply = reply
        self.calls: list[tuple[int, bytes]] = []
        self.sent_before = b""

    async def __call__(self, status: int, result: bytes) -> HeaderPairs:
        self.calls.append((status, result))
        self.sent_before = bytes(self.reply.body)
        assert not self.reply.finished
        return ()


def a_request(method: str) -> Request:
    return Request(method, "/b/k", "h", CIMultiDict(), MemoryBody([]), False, 0.0, "")


async def result(*pieces: bytes | Exception, **headers: str) -> tuple[MemoryReply, Settled]:
    reply: MemoryReply = MemoryReply()
    settled = Settled(reply)
    answer: Any = CannedResponse(200, *pieces, **headers)
    await AnswerRelay(answer, a_request("POST"), reply, RequestRecord("POST", time.monotonic(), "")).document(settled)
    return reply, settled


@pytest.mark.parametrize(
    ("pieces", "passed"),
    [
        ((DECLARATION + RESULT,), b""),
        ((RESULT,), b""),
        ((DECLARATION, RESULT), DECLARATION),
        ((DECLARATION, b"\n", b" " * 10, RESULT), DECLARATION + b"\n" + b" " * 10),
        ((b"  ", DECLARATION + b"\n", RESULT), b"  " + DECLARATION + b"\n"),
        ((DECLARATION[:10], DECLARATION[10:], RESULT), DECLARATION),
        ((DECLARATION + b" <Copy", RESULT[5:]), b""),
        ((DECLARATION, b"<", RESULT[1:]), DECLARATION),
        ((), b""),
    ],
)
async def test_keep_alive_blanks_pass_and_the_result_waits(pieces: tuple[bytes, ...], passed: bytes) -> None:
    reply, settled = await result(*pieces)
    whole = b"".join(pieces)
    assert (bytes(reply.body), reply.finished) == (whole, True)
    assert settled.sent_before == passed
    assert settled.calls == [(200, whole[len(passed) :])]


@pytest.mark.parametrize("alive", [True, False])
async def test_the_result_has_the_url_that_the_client_knows(alive: bool) -> None:
    reply: MemoryReply = MemoryReply()
    document = b"<R><Location>http://origin/b/k</Location><Key>k</Key></R>"
    pieces, headers = ((b"  ", document), {}) if alive else ((document,), {"Content_Length": str(len(document))})
    answer: Any = CannedResponse(200, *pieces, **headers)
    record = RequestRecord("POST", time.monotonic(), "")
    await AnswerRelay(answer, a_request("POST"), reply, record).document(Settled(reply), "http://h:1/b/k&amp")
    expected = b"<R><Location>http://h:1/b/k&amp;amp</Location><Key>k</Key></R>"
    assert bytes(reply.body) == (b"  " if alive else b"") + expected
    assert reply.length == (None if alive else len(expected))


async def test_a_truncated_result_is_never_settled() -> None:
    reply: MemoryReply = MemoryReply()
    settled = Settled(reply)
    answer: Any = CannedResponse(200, DECLARATION, RESULT[:10], OriginBroken("cut"))
    with pytest.raises(OriginBroken):
        await AnswerRelay(answer, a_request("POST"), reply, RequestRecord("POST", time.monotonic(), "")).document(
            settled
        )
    assert (settled.calls, reply.finished, bytes(reply.body)) == ([], False, DECLARATION)


async def test_a_result_that_is_too_large_is_refused() -> None:
    with pytest.raises(OriginBroken):
        await result(b"<", b"x" * RESULT_LIMIT)


async def test_the_length_is_the_origins() -> None:
    reply, _ = await result(RESULT, **{"Content-Length": str(len(RESULT))})
    assert reply.length == len(RESULT)
    reply, _ = await result(RESULT, **{"Transfer-Encoding": "chunked"})
    assert (reply.length, "Transfer-Encoding" in reply.headers) == (None, False)


async def test_no_body_is_awaited_in_an_answer_to_head() -> None:
    reply = MemoryReply()
    answer: Any = CannedResponse(200, OriginBroken("there is none"), **{"Content-Length": "100"})
    await AnswerRelay(answer, a_request("HEAD"), reply, RequestRecord("HEAD", time.monotonic(), "")).stream()
    assert (reply.length, reply.finished) == (100, True)


async def test_oss_headers_are_relayed_to_oss_clients_only() -> None:
    reply = MemoryReply()
    answer: Any = CannedResponse(200, **{"x-oss-hash-crc64ecma": "7", "x-amz-version-id": "v"})
    await AnswerRelay(answer, a_request("PUT"), reply, RequestRecord("PUT", time.monotonic(), "")).stream()
    assert ("x-oss-hash-crc64ecma" in reply.headers, reply.headers["x-amz-version-id"]) == (False, "v")
