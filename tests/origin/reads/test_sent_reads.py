"""Reads that are sent without a task: what is whole is taken, and everything else goes on in one."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from forebay.core.byte_ranges import Span
from forebay.core.fences import RequestTime, Tick
from forebay.core.names import ObjectName
from forebay.core.requester import BACKGROUND
from forebay.core.task_registry import TaskRegistry
from forebay.origin.origin_client import OriginClient
from forebay.origin.reads.hedging import Hedging
from forebay.origin.reads.object_reads import OriginReads
from forebay.origin.reads.origin_read import OriginRead
from forebay.origin.reads.read_outcomes import ErrorResponse, ObjectOpened
from forebay.origin.reads.sent_reads import SentRead, SentReads
from harness.inspection import run_loop_until
from harness.manual_timers import ManualTimers
from harness.origin_client import client_of, some_of
from harness.scripted_origin import Script, ScriptedConnection, ScriptedOrigin, scripted_origin

NAME, SPAN = ObjectName("bucket", "k"), Span(0, 64)
FACTS = 'ETag: "v1"\nLast-Modified: then\n'
WHOLE = f"{FACTS}Content-Range: bytes 0-3/4\n"


class Sender:
    """Sends reads over a connection that is idle."""

    def __init__(self, client: OriginClient, origin: ScriptedOrigin) -> None:
        self.client, self.origin = client, origin
        self.timers = ManualTimers()
        self.hedging = Hedging(client, TaskRegistry(), 2.0, self.timers)
        self.reads = OriginReads(client)
        self._plain, self._hedged = SentReads(client), SentReads(client, self.hedging)
        self.ready = asyncio.Event()
        self.calls = 0
        self.rooms: list[int] = []

    def send(self, span: Span = SPAN, *, hedged: bool = False, principal: str = "reader") -> SentRead | None:
        reads = self._hedged if hedged else self._plain
        return reads.send(NAME, span, principal, RequestTime(Tick(1), 2.0), self)

    async def sent(self) -> SentRead:
        """A read that has its response, or failed."""
        sent = self.send()
        assert sent is not None
        await self.ready.wait()
        return sent

    def answered(self) -> None:
        self.calls += 1
        self.ready.set()

    def make_room(self, size: int, _is_beside_demand: bool) -> memoryview:
        self.rooms.append(size)
        return memoryview(bytearray(size))


@asynccontextmanager
async def sender(*scripts: Script) -> AsyncIterator[Sender]:
    async with scripted_origin(*scripts) as origin, client_of(origin.url) as client:
        made = Sender(client, origin)
        opened = await made.reads.open_read(NAME, OriginRead(span=SPAN))
        assert isinstance(opened, ObjectOpened)
        assert await some_of(opened.body) == b"body"
        yield made


def then(*rest: tuple[int, str, bytes]) -> Script:
    """Answers a first read, and then as told; hangs up behind that."""

    async def script(line: ScriptedConnection) -> None:
        for status, headers, body in ((206, WHOLE, b"body"), *rest):
            await line.read_request()
            await line.respond(status, headers, body)
        await line.read_request()

    return script


async def test_a_whole_object_is_taken_and_its_connection_is_idle_again() -> None:
    async with sender(then((206, WHOLE, b"next"), (206, WHOLE, b"last"))) as on:
        for expected in (b"next", b"last"):
            sent = await on.sent()
            facts = sent.whole()
            assert facts is not None
            assert (facts.size, facts.version.etag) == (4, '"v1"')
            body = sent.take_whole()
            assert body is not None
            assert bytes(body) == expected
            assert (sent.adopt(), on.client.reads.in_use) == (None, 0)
            on.ready.clear()
        assert (on.origin.connections, on.calls) == (1, 2)
        assert {each.header("range") for each in on.origin.requests} == {"bytes=0-63"}
        assert len({each.header("authorization") is None for each in on.origin.requests}) == 1


@pytest.mark.parametrize(
    ("status", "headers", "body"),
    [
        pytest.param(404, "", b"<Error/>", id="refused"),
        pytest.param(206, f"{FACTS}Content-Range: bytes 0-3/9\n", b"part", id="a part"),
        pytest.param(200, FACTS, b"whole", id="200"),
        pytest.param(206, 'ETag: W/"weak"\nContent-Range: bytes 0-3/4\n', b"body", id="no facts"),
        pytest.param(206, f"{FACTS}Content-Range: bytes 4-7/8\n", b"body", id="another range"),
        pytest.param(206, f"{FACTS}Content-Range: bytes 0-4/5\n", b"body", id="lengths that differ"),
        pytest.param(503, "", b"", id="busy"),
    ],
)
async def test_anything_else_is_not_whole(status: int, headers: str, body: bytes) -> None:
    async with sender(then((status, headers, body))) as on:
        sent = await on.sent()
        assert sent.whole() is None
        sent.close()
        assert on.client.reads.in_use == 0


async def in_pieces(line: ScriptedConnection) -> None:
    """Answers a first read at once, the others in pieces, each on its way before the next one."""
    await line.read_request()
    await line.respond(206, WHOLE, b"body")
    while True:
        await line.read_request()
        for piece in (
            b"HTTP/1.1 206 Partial\r\nContent-Length: 4\r\nETag: ",
            b'"v1"\r\nContent-Range: bytes 0-3/4\r\n',
        ):
            await line.send_raw(piece)
            await turns()
        for piece in (b"\r\n", b"b", b"od", b"y"):
            await line.send_raw(piece)
            await turns()


async def turns() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_a_body_is_waited_for_to_its_end() -> None:
    async with sender(in_pieces) as on:
        for _ in range(2):
            sent = await on.sent()
            assert sent.whole() is not None
            body = sent.take_whole()
            assert body is not None
            assert bytes(body) == b"body"
            on.ready.clear()
        assert on.origin.connections == 1


@pytest.mark.parametrize("learnt", [pytest.param(False, id="parsed"), pytest.param(True, id="by a template")])
@pytest.mark.parametrize("size", [1_000, 20_000, 131_072, 131_073])
async def test_a_task_goes_on_in_the_middle_of_a_body(size: int, learnt: bool) -> None:
    content, gate = bytes(range(251)) * (size // 251 + 1), asyncio.Event()
    content = content[:size]

    async def halved(line: ScriptedConnection) -> None:
        await line.read_request()
        await line.respond(206, WHOLE, b"body")
        await line.read_request()
        if learnt:
            await line.respond(206, WHOLE, b"body")
            await line.read_request()
        headers = f"{FACTS}Content-Range: bytes 0-{size - 1}/{size}\n"
        await line.respond(206, headers, content[: size // 2], size)
        await gate.wait()
        await line.send_raw(content[size // 2 :])
        await line.wait_closed()

    async with sender(halved) as on:
        if learnt:
            whole = await on.sent()
            assert whole.whole() is not None
            whole.take_whole()
        requests = len(on.origin.requests) + 1
        sent = on.send(Span(0, 1 << 20))
        assert sent is not None
        await run_loop_until(lambda: len(on.origin.requests) >= requests)
        for _ in range(5):
            await turns()
        opened = await on.reads.open_read(NAME, OriginRead(span=Span(0, 1 << 20)), sent=sent)
        assert isinstance(opened, ObjectOpened)
        assert (opened.facts.last_modified, opened.facts.size) == ("then", size)
        gate.set()
        received = b""
        while some := await some_of(opened.body):
            received += some
        assert received == content


async def test_more_than_was_asked_for_is_not_whole() -> None:
    longer = 'ETag: "v2"\nLast-Modified: later\nContent-Range: bytes 0-64/65\n'  # matches the template of the first
    async with sender(then((206, WHOLE, b"next"), (206, longer, bytes(65))), then()) as on:
        learnt = await on.sent()
        assert learnt.whole() is not None
        learnt.take_whole()
        on.ready.clear()
        sent = await on.sent()
        assert sent.whole() is None
        opened = await on.reads.open_read(NAME, OriginRead(span=SPAN), sent=sent)
        assert isinstance(opened, ObjectOpened)
        assert await some_of(opened.body) == b"body"
        assert on.origin.connections == 2, "it was asked for anew"


async def test_a_task_gets_the_response_that_has_come() -> None:
    async with sender(then((404, "", b"<Error/>"))) as on:
        refused = await on.reads.open_read(NAME, OriginRead(span=SPAN), sent=await on.sent())
        assert isinstance(refused, ErrorResponse)
        assert (refused.status, refused.body, len(on.origin.requests)) == (404, b"<Error/>", 2)


async def test_a_task_waits_for_the_response_to_come() -> None:
    async with sender(then((206, WHOLE, b"next"))) as on:
        opened = await on.reads.open_read(NAME, OriginRead(span=SPAN), sent=on.send())
        assert isinstance(opened, ObjectOpened)
        assert await some_of(opened.body) == b"next"
        assert (on.calls, len(on.origin.requests)) == (0, 2)


async def test_a_task_sends_anew_what_was_lost() -> None:
    async with sender(then(), then()) as on:
        opened = await on.reads.open_read(NAME, OriginRead(span=SPAN), sent=await on.sent())
        assert isinstance(opened, ObjectOpened)
        assert await some_of(opened.body) == b"body"
        assert (on.origin.connections, len(on.origin.requests)) == (2, 3)


async def test_nothing_is_sent_without_an_idle_connection_or_a_turn() -> None:
    async with sender(then((206, WHOLE, b"next"))) as on:
        turns = [on.client.reads.try_acquire("other") for _ in range(2)]
        assert on.send() is None
        for turn in turns:
            assert turn is not None
            turn.release()
        first = on.send()
        assert first is not None
        assert on.send() is None
        first.close()
        assert on.send() is None


async def test_a_late_read_is_reported_once_and_counts_as_waited_for() -> None:
    async with sender(then()) as on:
        sent = on.send(hedged=True)
        assert sent is not None
        on.timers.advance(0.9)
        assert on.calls == 0
        on.timers.advance(0.2)
        assert on.calls == 1
        assert sent.waited == pytest.approx(1.1)
        assert sent.whole() is None
        on.timers.advance(2.0)
        assert on.calls == 1
        sent.close()


async def test_no_large_body_is_waited_for_that_is_never_late() -> None:
    """It might come a byte at a time; a task drops a response that is too slow."""
    size = 200_000
    large = f"{FACTS}Content-Range: bytes 0-{size - 1}/{size}\n"
    for hedged, principal, rooms in ((False, BACKGROUND, []), (True, BACKGROUND, [size]), (True, "reader", [])):
        async with sender(then((206, large, bytes(size)))) as on:
            sent = on.send(Span(0, 1 << 20), hedged=hedged, principal=principal)
            assert sent is not None
            await on.ready.wait()
            assert on.rooms == rooms
            sent.close()
