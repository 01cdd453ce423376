"""Forwarded reads: repeated with backoff as long as no byte of a response has been relayed."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from forebay.core.errors import OriginBroken, OriginUnreachable
from forebay.core.request_record import RequestRecord
from forebay.origin.credentials import ANONYMOUS
from forebay.origin.dialects import DIALECTS
from forebay.origin.origin_client import OriginClient
from forebay.origin.origin_limits import OriginLimits
from forebay.origin.origin_server import OriginServer
from forebay.origin.origins import Origins
from forebay.request.forwarded_reads import ForwardedReads
from forebay.request.oss_frontend import OssFrontend
from forebay.write.forwarder import Forwarder
from harness.forward_requests import make_forward_request
from harness.memory_exchange import MemoryReply
from harness.scripted_origin import Script, ScriptedConnection, respond_always, scripted_origin

LIMITS = OriginLimits(attempts=3, backoff_base=1.0, backoff_cap=8.0)
LIST = "/bucket?list-type=2&prefix=a"


class Relayed:
    """A forwarded read's reply and pauses."""

    def __init__(self) -> None:
        self.reply = MemoryReply()
        self.record = RequestRecord("GET", 0.0, "ID")
        self.pauses: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)

    async def relay(self, client: OriginClient, method: str = "GET", target: str = LIST, body: bytes = b"") -> None:
        unused: Any = None
        origins = Origins.single(client)
        front = OssFrontend(origins, Forwarder(origins, unused, 1 << 20), unused, unused)
        reads = ForwardedReads(origins, front, sleep=self.sleep, jitter=lambda: 0.5)
        forward = make_forward_request(method, target, body)
        try:
            await reads.relay(forward, self.reply, self.record)
        finally:
            assert (client.reads.in_use, client.writes.in_use) == (0, 0)


@asynccontextmanager
async def client_of(url: str, limits: OriginLimits = LIMITS) -> AsyncIterator[OriginClient]:
    async with OriginClient(OriginServer(url, "r", DIALECTS["minio"]), ANONYMOUS, limits=limits) as client:
        yield client


def broken_after(sent: bytes, length: int = 10) -> Script:
    async def script(line: ScriptedConnection) -> None:
        await line.read_request()
        await line.respond(200, "", sent, length)

    return script


async def hang_up(line: ScriptedConnection) -> None:
    await line.read_request()
    line.reset()


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504])
@pytest.mark.parametrize("method", ["GET", "HEAD"])
async def test_a_busy_origin_is_tried_again(method: str, status: int) -> None:
    async def script(line: ScriptedConnection) -> None:
        for answer in (status, status, 200):
            await line.read_request()
            await line.respond(answer, "", b"" if method == "HEAD" else b"document", 8)
        await line.wait_closed()

    relayed = Relayed()
    async with scripted_origin(script) as origin, client_of(origin.url) as client:
        await relayed.relay(client, method, LIST if method == "GET" else "/bucket")
    assert (relayed.reply.status, relayed.reply.finished) == (200, True)
    assert relayed.pauses == [0.5, 1.0]
    assert (len(origin.requests), origin.connections) == (3, 1)


async def test_the_last_refusal_is_relayed() -> None:
    relayed = Relayed()
    async with scripted_origin(respond_always(503, "", b"busy")) as origin, client_of(origin.url) as client:
        await relayed.relay(client)
    assert (relayed.reply.status, bytes(relayed.reply.body)) == (503, b"busy")
    assert len(origin.requests) == 3


@pytest.mark.parametrize("status", [400, 403, 404, 405, 501])
async def test_another_refusal_is_relayed_at_once(status: int) -> None:
    relayed = Relayed()
    async with scripted_origin(respond_always(status)) as origin, client_of(origin.url) as client:
        await relayed.relay(client)
    assert (relayed.reply.status, len(origin.requests)) == (status, 1)


@pytest.mark.parametrize("first", [hang_up, broken_after(b"")], ids=["before the head", "before the first byte"])
async def test_a_response_broken_before_its_first_byte_is_repeated(first: Script) -> None:
    relayed = Relayed()
    async with (
        scripted_origin(first, first, respond_always(200, "", b"document")) as origin,
        client_of(origin.url) as client,
    ):
        await relayed.relay(client)
    assert (relayed.reply.status, bytes(relayed.reply.body), len(origin.requests)) == (200, b"document", 3)


async def test_a_response_broken_after_its_first_byte_is_not_repeated() -> None:
    relayed = Relayed()
    async with scripted_origin(broken_after(b"doc")) as origin, client_of(origin.url) as client:
        with pytest.raises(OriginBroken):
            await relayed.relay(client)
    assert (relayed.reply.status, relayed.reply.finished, bytes(relayed.reply.body)) == (200, False, b"doc")
    assert (len(origin.requests), relayed.pauses) == (1, [])


async def test_a_read_with_a_body_is_not_repeated() -> None:
    async def script(line: ScriptedConnection) -> None:
        await line.read_request()
        await line.read_body(4)
        await line.respond(503, "", b"busy")

    relayed = Relayed()
    async with scripted_origin(script) as origin, client_of(origin.url) as client:
        await relayed.relay(client, body=b"body")
    assert (relayed.reply.status, len(origin.requests)) == (503, 1)


async def test_an_open_breaker_ends_the_attempts() -> None:
    async with scripted_origin(respond_always(200)) as origin:
        url = origin.url
    relayed = Relayed()
    async with client_of(url, OriginLimits(breaker_failures=1, breaker_cooldown=1000)) as client:
        assert not await client.probe()
        with pytest.raises(OriginUnreachable, match="connection refused"):
            await relayed.relay(client)
    assert relayed.pauses == []
