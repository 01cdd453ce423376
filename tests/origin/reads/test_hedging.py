"""Hedged reads: a late response is no longer waited for, and nothing else changes."""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from forebay.core.byte_ranges import Span
from forebay.core.errors import OriginBroken
from forebay.core.events import HedgeEnded
from forebay.core.names import ObjectName, Version
from forebay.core.task_registry import TaskRegistry
from forebay.origin.credentials import ANONYMOUS
from forebay.origin.dialects import DIALECTS
from forebay.origin.origin_client import OriginClient
from forebay.origin.origin_limits import OriginLimits
from forebay.origin.origin_server import OriginServer
from forebay.origin.reads.hedging import HEDGES, Hedging
from forebay.origin.reads.object_reads import OriginReads
from forebay.origin.reads.origin_read import OriginRead
from forebay.origin.reads.read_outcomes import ObjectOpened, ReadOutcome, Revalidated
from harness.certificates import TestAuthority
from harness.inspection import run_loop_until
from harness.manual_timers import ManualTimers
from harness.origin_client import some_of
from harness.scripted_origin import (
    Script,
    ScriptedConnection,
    ScriptedOrigin,
    never_respond,
    respond_always,
    scripted_origin,
)
from harness.ssd_rig import RecordedEvents

NAME, ETAG = ObjectName("bucket", "k"), 'ETag: "v1"\n'
FOUND = respond_always(206, f"{ETAG}Content-Range: bytes 0-3/4\nLast-Modified: then\n", b"body")
UNAVAILABLE = respond_always(503)
LIMITS = OriginLimits(reads=8, wait=5.0, attempts=1)


async def drip_refusal(line: ScriptedConnection) -> None:
    await line.read_request()
    await line.respond(404, "", b"<E", 100)
    await line.wait_closed()


class HedgedClient:
    """An origin client whose reads are late after 2 s by a clock that the test moves."""

    def __init__(self, client: OriginClient, heard: RecordedEvents) -> None:
        self.client, self.heard = client, heard
        self.timers, self.tasks = ManualTimers(), TaskRegistry()
        self.hedging = Hedging(client, self.tasks, 2.0, self.timers)
        self.reads = OriginReads(client, self.hedging)

    @property
    def results(self) -> list[str]:
        return [event.result for event in self.heard.of(HedgeEnded)]

    async def open(self) -> ReadOutcome:
        return await self.reads.open_read(NAME, OriginRead(span=Span(0, 4)))

    async def late(self, reading: Awaitable[ReadOutcome], origin: ScriptedOrigin) -> ReadOutcome:
        """Moves the clock once the request has arrived, so that it is hedged; returns its outcome."""
        async with asyncio.TaskGroup() as group:
            outcome = group.create_task(_awaited(reading))
            await run_loop_until(lambda: origin.requests)
            self.timers.advance(2.5)
            return await outcome


async def _failure(reading: Awaitable[ReadOutcome]) -> object:
    try:
        return await reading
    except ExceptionGroup as failures:
        return failures.exceptions[0]


async def _awaited(reading: Awaitable[ReadOutcome]) -> ReadOutcome:
    return await reading


@asynccontextmanager
async def hedged_client(
    url: str, limits: OriginLimits = LIMITS, ca_file: Path | None = None
) -> AsyncIterator[HedgedClient]:
    heard = RecordedEvents()
    async with OriginClient(
        OriginServer(url, "r", DIALECTS["minio"], ca_file=None if ca_file is None else str(ca_file)),
        ANONYMOUS,
        limits=limits,
        observe=heard,
    ) as client:
        hedged = HedgedClient(client, heard)
        yield hedged
        await hedged.tasks.wait_idle()
        assert (client.reads.in_use, client.reads.waiting) == (0, 0)
        assert (hedged.hedging.under_way, len(hedged.hedging.sweep)) == (0, 0)


async def opened(outcome: ReadOutcome) -> bytes:
    assert isinstance(outcome, ObjectOpened), outcome
    body = await some_of(outcome.body)
    assert await some_of(outcome.body) == b""
    outcome.body.close()
    return body


@pytest.mark.parametrize("first", [never_respond, drip_refusal], ids=["before the head", "within a refusal"])
async def test_a_hedge_answers_a_read_that_hangs(first: Script) -> None:
    async with scripted_origin(first, FOUND) as origin, hedged_client(origin.url) as hedged:
        assert await opened(await hedged.late(hedged.open(), origin)) == b"body"
        assert (len(origin.requests), origin.connections, hedged.results) == (2, 2, ["won"])


async def test_a_hedge_answers_a_read_whose_connection_hangs(tmp_path: Path) -> None:
    """The first connection is accepted, and its TLS handshake never answered."""
    authority = TestAuthority(tmp_path)
    certificate, key = authority.issue("localhost")
    (tmp_path / "pair.pem").write_bytes(certificate + key)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(tmp_path / "pair.pem")
    loop, accepted = asyncio.get_running_loop(), asyncio.Event()

    async def serve() -> None:
        silent, _ = await loop.sock_accept(listener)
        with silent:
            accepted.set()
            answering, _ = await loop.sock_accept(listener)
            reader = asyncio.StreamReader()
            protocol = asyncio.StreamReaderProtocol(reader)
            transport, _ = await loop.connect_accepted_socket(lambda: protocol, answering, ssl=context)
            writer = asyncio.StreamWriter(transport, protocol, reader, loop)
            await FOUND(ScriptedConnection(reader, writer, []))

    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        url = f"https://127.0.0.1:{listener.getsockname()[1]}"
        async with asyncio.TaskGroup() as group:
            server = group.create_task(serve())
            async with hedged_client(url, ca_file=authority.file) as hedged:
                reading = group.create_task(hedged.open())
                await accepted.wait()
                hedged.timers.advance(2.5)
                assert await opened(await reading) == b"body"
                assert hedged.results == ["won"]
            server.cancel()


async def test_a_response_that_comes_before_the_hedge_s_is_used() -> None:
    answer, hedge_sent = asyncio.Event(), asyncio.Event()

    async def late(line: ScriptedConnection) -> None:
        await line.read_request()
        await answer.wait()
        await line.respond(206, f"{ETAG}Content-Range: bytes 0-3/4\n", b"late")

    async def silent(line: ScriptedConnection) -> None:
        await line.read_request()
        hedge_sent.set()
        await line.wait_closed()

    async with scripted_origin(late, silent) as origin, hedged_client(origin.url) as hedged:
        async with asyncio.TaskGroup() as group:
            reading = group.create_task(hedged.late(hedged.open(), origin))
            await hedge_sent.wait()
            answer.set()
        assert await opened(reading.result()) == b"late"
        await hedged.tasks.wait_idle()
        assert hedged.results == ["lost"]


async def test_an_unusable_hedge_leaves_the_first_request_alone() -> None:
    answer = asyncio.Event()

    async def late(line: ScriptedConnection) -> None:
        await line.read_request()
        await answer.wait()
        await line.respond(206, f"{ETAG}Content-Range: bytes 0-3/4\n", b"late")

    async with scripted_origin(late, UNAVAILABLE) as origin, hedged_client(origin.url) as hedged:
        async with asyncio.TaskGroup() as group:
            reading = group.create_task(hedged.late(hedged.open(), origin))
            await run_loop_until(lambda: hedged.results)
            assert not reading.done()
            answer.set()
        assert (await opened(reading.result()), hedged.results) == (b"late", ["failed"])


@pytest.mark.parametrize("status", [0, 503], ids=["broken", "unavailable"])
async def test_a_hedge_is_waited_for_when_the_first_request_fails(status: int) -> None:
    hedge_sent, failed = asyncio.Event(), asyncio.Event()

    async def fails(line: ScriptedConnection) -> None:
        await line.read_request()
        await hedge_sent.wait()
        if status:
            await line.respond(status)
        else:
            await line.send_raw(b"no HTTP\r\n\r\n")
        failed.set()
        await line.wait_closed()

    async def answers(line: ScriptedConnection) -> None:
        await line.read_request()
        hedge_sent.set()
        await failed.wait()
        await line.respond(206, f"{ETAG}Content-Range: bytes 0-3/4\n", b"good")

    async with scripted_origin(fails, answers) as origin, hedged_client(origin.url) as hedged:
        assert await opened(await hedged.late(hedged.open(), origin)) == b"good"
        assert (hedged.results, len(origin.requests)) == (["won"], 2)


async def test_hedges_follow_at_doubling_intervals_and_are_bounded() -> None:
    times: list[float] = []
    async with hedged_origin_that_hangs(times) as (hedged, hang):
        async with asyncio.TaskGroup() as group:
            reading = group.create_task(hedged.open())
            await hang.wait_for(1)
            for seconds, requests in ((2, 2), (4, 3), (8, 4), (1000, 4)):
                hedged.timers.advance(seconds - 0.5)
                assert len(times) == requests - (seconds < 1000)
                hedged.timers.advance(0.5)
                await hang.wait_for(requests)
            reading.cancel()
        await hedged.tasks.wait_idle()
        assert (len(times), hedged.results) == (1 + HEDGES, ["lost"] * HEDGES)


class Arrivals:
    def __init__(self, times: list[float]) -> None:
        self._times, self._changed = times, asyncio.Condition()

    async def add(self, time: float) -> None:
        async with self._changed:
            self._times.append(time)
            self._changed.notify_all()

    async def wait_for(self, count: int) -> None:
        async with self._changed:
            await self._changed.wait_for(lambda: len(self._times) >= count)


@asynccontextmanager
async def hedged_origin_that_hangs(
    times: list[float], limits: OriginLimits = LIMITS
) -> AsyncIterator[tuple[HedgedClient, Arrivals]]:
    hang = Arrivals(times)
    client: HedgedClient

    async def script(line: ScriptedConnection) -> None:
        await line.read_request()
        await hang.add(client.timers.time())
        await line.wait_closed()

    async with scripted_origin(script) as origin, hedged_client(origin.url, limits) as client:
        yield client, hang


async def test_a_read_cancelled_beside_its_hedge_leaves_nothing() -> None:
    """What is left is checked by `hedged_client`, and that both connections end by the origin."""
    times: list[float] = []
    async with hedged_origin_that_hangs(times) as (hedged, hang):
        async with asyncio.TaskGroup() as group:
            reading = group.create_task(hedged.open())
            await hang.wait_for(1)
            hedged.timers.advance(2.5)
            await hang.wait_for(2)
            reading.cancel()
        await hedged.tasks.wait_idle()
        assert hedged.results == ["lost"]


async def test_the_two_responses_of_one_turn_leave_nothing() -> None:
    """Both are sent at once; whichever wins, the other is closed."""
    both = asyncio.Event()

    async def script(line: ScriptedConnection) -> None:
        await line.read_request()
        if origin.connections == 2:
            both.set()
        await both.wait()
        await line.respond(206, f"{ETAG}Content-Range: bytes 0-3/4\n", b"body")

    async with scripted_origin(script) as origin, hedged_client(origin.url) as hedged:
        assert await opened(await hedged.late(hedged.open(), origin)) == b"body"
        await hedged.tasks.wait_idle()
        assert len(hedged.results) == 1


@pytest.mark.parametrize("seconds", [0.02, 0.3, 1.9])
async def test_a_response_in_time_is_never_hedged(seconds: float) -> None:
    arrived, answer = asyncio.Event(), asyncio.Event()

    async def script(line: ScriptedConnection) -> None:
        while True:
            await line.read_request()
            arrived.set()
            await answer.wait()
            answer.clear()
            await line.respond(206, f"{ETAG}Content-Range: bytes 0-3/4\n", b"body")

    async with scripted_origin(script) as origin, hedged_client(origin.url) as hedged:
        for _ in range(20):
            async with asyncio.TaskGroup() as group:
                reading = group.create_task(hedged.open())
                await arrived.wait()
                arrived.clear()
                hedged.timers.advance(seconds)
                answer.set()
            assert await opened(reading.result()) == b"body"
        assert (hedged.results, len(origin.requests), origin.connections) == ([], 20, 1)


async def test_time_in_which_the_loop_stood_still_hedges_nothing() -> None:
    times: list[float] = []
    async with hedged_origin_that_hangs(times) as (hedged, hang):
        async with asyncio.TaskGroup() as group:
            reading = group.create_task(hedged.open())
            await hang.wait_for(1)
            hedged.timers.stall(30.0)
            hedged.timers.advance(1.0)
            assert hedged.hedging.under_way == 0
            hedged.timers.advance(0.5)
            assert hedged.hedging.under_way == 1
            reading.cancel()
        await hedged.tasks.wait_idle()


async def test_a_read_that_waits_for_its_turn_is_not_hedged() -> None:
    times: list[float] = []
    async with hedged_origin_that_hangs(times, OriginLimits(reads=2, wait=60.0)) as (hedged, hang):
        async with asyncio.TaskGroup() as group:
            first, second, third = [group.create_task(hedged.open()) for _ in range(3)]
            await hang.wait_for(2)
            hedged.timers.advance(30.0)  # no turn is free
            first.cancel()
            await hang.wait_for(3)
            second.cancel()
            await asyncio.wait([second])
            hedged.timers.advance(1.5)  # a turn is free, but the third has just been sent
            assert hedged.hedging.under_way == 0
            hedged.timers.advance(0.5)
            await hang.wait_for(4)
            third.cancel()
        await hedged.tasks.wait_idle()


async def test_hedges_use_an_eighth_of_the_turns() -> None:
    times: list[float] = []
    async with hedged_origin_that_hangs(times, OriginLimits(reads=32, wait=0.0)) as (hedged, hang):
        async with asyncio.TaskGroup() as group:
            readings = [group.create_task(hedged.open()) for _ in range(20)]
            await hang.wait_for(20)
            hedged.timers.advance(3.0)
            await hang.wait_for(24)
            assert hedged.hedging.under_way == 4
            for reading in readings:
                reading.cancel()
        await hedged.tasks.wait_idle()
        assert len(times) == 24


async def test_nothing_is_hedged_while_the_breaker_is_open() -> None:
    times: list[float] = []
    async with hedged_origin_that_hangs(times) as (hedged, hang):
        async with asyncio.TaskGroup() as group:
            reading = group.create_task(hedged.open())
            await hang.wait_for(1)
            for _ in range(hedged.client.limits.breaker_failures):
                hedged.client.breaker.failed()
            hedged.client.breaker.probe_failed("silence", hedged.client.breaker.answers, 0.0)
            hedged.timers.advance(30.0)
            assert hedged.hedging.under_way == 0
            reading.cancel()
        assert len(times) == 1


async def test_a_failed_read_fails_with_its_own_reason() -> None:
    hedge_failed = asyncio.Event()

    async def garbled(line: ScriptedConnection) -> None:
        await line.read_request()
        await hedge_failed.wait()
        await line.send_raw(b"no HTTP\r\n\r\n")

    async with scripted_origin(garbled, UNAVAILABLE) as origin, hedged_client(origin.url) as hedged:
        async with asyncio.TaskGroup() as group:
            reading = group.create_task(_failure(hedged.late(hedged.open(), origin)))
            await run_loop_until(lambda: hedged.results)
            hedge_failed.set()
        assert (type(reading.result()), hedged.results) == (OriginBroken, ["failed"])


async def test_a_conditional_request_that_hangs_is_hedged() -> None:
    not_modified = respond_always(304, ETAG)
    async with scripted_origin(never_respond, not_modified) as origin, hedged_client(origin.url) as hedged:
        reading = hedged.reads.open_read(NAME, OriginRead(span=Span(0, 4), if_none_match=Version('"v1"')))
        assert isinstance(await hedged.late(reading, origin), Revalidated)
        assert [request.header("If-None-Match") for request in origin.requests] == ['"v1"', '"v1"']
