"""Reads through their attempts, against a scripted origin."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from forebay.core.byte_ranges import Span
from forebay.core.errors import OriginBroken, OriginUnreachable, VersionChanged
from forebay.core.events import Event, OriginRetried
from forebay.core.names import ObjectName, Version
from forebay.origin.credentials import ANONYMOUS
from forebay.origin.dialects import DIALECTS
from forebay.origin.origin_client import OriginClient
from forebay.origin.origin_limits import OriginLimits
from forebay.origin.origin_server import OriginServer
from forebay.origin.reads.object_reads import REFUSAL_LIMIT, OriginReads
from forebay.origin.reads.origin_read import OriginRead
from forebay.origin.reads.read_outcomes import ErrorResponse, ObjectOpened, Revalidated, Uncacheable
from harness.origin_client import some_of
from harness.scripted_origin import Script, ScriptedConnection, respond_always, scripted_origin

NAME = ObjectName("bucket", "k")
V1 = Version('"v1"')
ETAG = 'ETag: "v1"\n'
LIMITS = OriginLimits(attempts=3, backoff_base=1.0, backoff_cap=8.0, retry_deadline=100.0)


class Times:
    """A clock that only the pauses move."""

    def __init__(self) -> None:
        self.now = 0.0
        self.pauses: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds


@asynccontextmanager
async def reading(
    url: str, limits: OriginLimits = LIMITS, times: Times | None = None, observed: list[Event] | None = None
) -> AsyncIterator[OriginReads]:
    times = times if times is not None else Times()
    observe = (lambda _event: None) if observed is None else observed.append
    async with OriginClient(
        OriginServer(url, "r", DIALECTS["minio"]),
        ANONYMOUS,
        limits=limits,
        observe=observe,
        monotonic=lambda: times.now,
    ) as client:
        yield OriginReads(client, sleep=times.sleep, jitter=lambda: 0.5)
        assert (client.reads.in_use, client.writes.in_use) == (0, 0)


async def whole(outcome: object) -> bytes:
    assert isinstance(outcome, ObjectOpened), outcome
    body = b""
    while piece := await some_of(outcome.body):
        body += piece
    assert await some_of(outcome.body) == b""
    outcome.body.close()
    return body


def answers(*responses: tuple[int, str, bytes]) -> Script:
    """One answer after the other on one connection."""

    async def script(line: ScriptedConnection) -> None:
        for status, headers, body in responses:
            heard = await line.read_request()
            await line.respond(status, headers, b"" if heard.method == "HEAD" else body, len(body))
        await line.wait_closed()

    return script


async def test_a_pinned_range_is_opened() -> None:
    script = answers((206, f"{ETAG}Content-Range: bytes 10-19/15000\nLast-Modified: then\n", b"0123456789"))
    async with scripted_origin(script) as origin, reading(origin.url) as reads:
        outcome = await reads.open_read(NAME, OriginRead(span=Span(10, 20), pin=V1))
        assert isinstance(outcome, ObjectOpened)
        assert (outcome.facts.size, outcome.facts.version.etag, outcome.span) == (15000, '"v1"', Span(10, 20))
        assert await whole(outcome) == b"0123456789"
    heard = origin.requests[0]
    assert (heard.method, heard.target) == ("GET", "/bucket/k")
    assert (heard.header("range"), heard.header("if-match")) == ("bytes=10-19", '"v1"')


async def test_a_head_opens_without_bytes() -> None:
    async with scripted_origin(respond_always(200, ETAG, b"x" * 9)) as origin, reading(origin.url) as reads:
        outcome = await reads.open_read(NAME, OriginRead("HEAD"))
        assert isinstance(outcome, ObjectOpened)
        assert (outcome.facts.size, outcome.span) == (9, Span(0, 0))
        assert reads.client.reads.in_use == 0  # it has ended, so nobody has to close it
        assert await whole(outcome) == b""


async def test_a_known_version_is_revalidated() -> None:
    script = answers((304, f"{ETAG}Last-Modified: then\n", b""))
    async with scripted_origin(script) as origin, reading(origin.url) as reads:
        assert await reads.open_read(NAME, OriginRead("HEAD", if_none_match=V1)) == Revalidated('"v1"', "then")
    assert origin.requests[0].header("if-none-match") == '"v1"'


async def test_another_version_raises_and_its_body_is_dropped() -> None:
    async def script(line: ScriptedConnection) -> None:
        await line.read_request()
        await line.respond(412, "Connection: close\n", b"<Error/>")

    async def other(line: ScriptedConnection) -> None:
        await line.read_request()
        await line.respond(206, 'ETag: "v2"\nContent-Range: bytes 0-1/2\n', b"a", 2)
        await line.wait_closed()

    async with scripted_origin(script, other) as origin, reading(origin.url) as reads:
        for _ in range(2):
            with pytest.raises(VersionChanged):
                await reads.open_read(NAME, OriginRead(span=Span(0, 2), pin=V1))
        await origin.all_ended(2)


async def test_an_uncacheable_response_leaves_nothing_open() -> None:
    async def script(line: ScriptedConnection) -> None:
        await line.read_request()
        await line.respond(200, ETAG, b"x" * 50, 100)
        await line.wait_closed()

    async with scripted_origin(script) as origin, reading(origin.url) as reads:
        assert await reads.open_read(NAME, OriginRead(span=Span(10, 20))) == Uncacheable("200 to a range")
        await origin.all_ended(1)


async def test_a_refusal_is_returned_unchanged() -> None:
    script = answers((404, "x-amz-request-id: 7\n", b"<Error><Code>NoSuchKey</Code></Error>"))
    async with scripted_origin(script) as origin, reading(origin.url) as reads:
        outcome = await reads.open_read(NAME, OriginRead())
        assert isinstance(outcome, ErrorResponse)
        assert (outcome.status, outcome.body) == (404, b"<Error><Code>NoSuchKey</Code></Error>")
        assert ("x-amz-request-id", "7") in outcome.headers
    assert len(origin.requests) == 1


async def test_a_refusals_body_is_bounded() -> None:
    script = answers((403, "", b"x" * (REFUSAL_LIMIT + 1)))
    async with scripted_origin(script) as origin, reading(origin.url) as reads:
        outcome = await reads.open_read(NAME, OriginRead())
        assert isinstance(outcome, ErrorResponse)
        assert (outcome.status, outcome.body) == (403, b"")


async def test_a_range_of_an_empty_object_has_facts() -> None:
    script = answers((416, "Content-Range: bytes */0\n", b"<Error/>"), (200, ETAG, b""), (200, ETAG, b""))
    async with scripted_origin(script) as origin, reading(origin.url) as reads:
        outcome = await reads.open_read(NAME, OriginRead(span=Span(0, 100), pin=V1))
        assert isinstance(outcome, ObjectOpened)
        assert (outcome.facts.size, outcome.span) == (0, Span(0, 0))
        assert await whole(outcome) == b""
    assert [(heard.method, heard.header("range"), heard.header("if-match")) for heard in origin.requests] == [
        ("GET", "bytes=0-99", '"v1"'),
        ("HEAD", None, '"v1"'),
        ("GET", None, '"v1"'),  # such an ETag does not prove it
    ]


@pytest.mark.parametrize("etag", ['"d41d8cd98f00b204e9800998ecf8427e"', '"D41D8CD98F00B204E9800998ECF8427E"'])
async def test_the_md5_of_nothing_proves_an_empty_object(etag: str) -> None:
    async with scripted_origin(answers((200, f"ETag: {etag}\n", b""))) as origin, reading(origin.url) as reads:
        outcome = await reads.open_read(NAME, OriginRead("HEAD"))
        assert isinstance(outcome, ObjectOpened)
        assert outcome.facts.size == 0
    assert [heard.method for heard in origin.requests] == ["HEAD"]


async def test_a_get_contradicts_a_head_without_a_length() -> None:
    script = answers((200, ETAG, b""), (200, ETAG, b"content"))
    async with scripted_origin(script) as origin, reading(origin.url) as reads:
        outcome = await reads.open_read(NAME, OriginRead("HEAD"))
        assert isinstance(outcome, ObjectOpened)
        assert (outcome.facts.size, outcome.span) == (7, Span(0, 0))
    assert [heard.method for heard in origin.requests] == ["HEAD", "GET"]


async def test_an_impossible_response_is_tried_again() -> None:
    script = answers((304, "", b""), (206, f"{ETAG}Content-Range: bytes 0-9/10\n", b"0123456789"))
    async with scripted_origin(script) as origin, reading(origin.url) as reads:
        outcome = await reads.open_read(NAME, OriginRead(span=Span(0, 100)))
        assert isinstance(outcome, ObjectOpened)
        assert await whole(outcome) == b"0123456789"
    assert len(origin.requests) == 2


async def test_416_to_a_valid_range_is_uncacheable() -> None:
    refusals = (416, "Content-Range: bytes */0\n", b""), (200, ETAG, b"x")
    async with scripted_origin(answers(*refusals, *refusals)) as origin, reading(origin.url) as reads:
        assert isinstance(await reads.open_read(NAME, OriginRead(span=Span(0, 100))), Uncacheable)
    # Asked again within what a HEAD says there is, it says once more that there is nothing.
    assert [(heard.method, heard.header("Range")) for heard in origin.requests] == [
        ("GET", "bytes=0-99"), ("HEAD", None), ("GET", "bytes=0-0"), ("HEAD", None),
    ]  # fmt: skip


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504])
async def test_a_busy_origin_is_tried_again(status: int) -> None:
    times, observed = Times(), list[Event]()
    script = answers((status, "", b"busy"), (status, "", b"busy"), (200, ETAG, b"ab"))
    async with scripted_origin(script) as origin, reading(origin.url, times=times, observed=observed) as reads:
        assert await whole(await reads.open_read(NAME, OriginRead())) == b"ab"
    assert times.pauses == [0.5, 1.0]
    assert sum(isinstance(event, OriginRetried) for event in observed) == 2
    assert origin.connections == 1


async def test_the_last_refusal_is_the_origins_own() -> None:
    times = Times()
    script = answers((503, "", b"1"), (500, "", b"2"), (503, "", b"three"))
    async with scripted_origin(script) as origin, reading(origin.url, times=times) as reads:
        outcome = await reads.open_read(NAME, OriginRead())
        assert isinstance(outcome, ErrorResponse)
        assert (outcome.status, outcome.body) == (503, b"three")
    assert len(times.pauses) == 2


async def test_other_refusals_are_not_repeated() -> None:
    for status in (400, 403, 404, 405, 501):
        async with scripted_origin(respond_always(status)) as origin, reading(origin.url) as reads:
            assert isinstance(await reads.open_read(NAME, OriginRead()), ErrorResponse)
        assert len(origin.requests) == 1


async def test_no_attempt_after_the_deadline() -> None:
    times = Times()
    limits = OriginLimits(attempts=9, backoff_base=1.0, backoff_cap=100.0, retry_deadline=2.0)
    async with scripted_origin(respond_always(503)) as origin, reading(origin.url, limits, times) as reads:
        assert isinstance(await reads.open_read(NAME, OriginRead()), ErrorResponse)
    assert times.pauses == [0.5, 1.0]


async def test_an_unreachable_origin_is_tried_until_the_breaker_opens() -> None:
    async with scripted_origin(respond_always(200)) as origin:
        url = origin.url
    for failures, pauses in ((100, 2), (2, 1)):
        times = Times()
        limits = OriginLimits(attempts=3, breaker_failures=failures, breaker_cooldown=1000)
        async with reading(url, limits, times) as reads:
            assert not await reads.client.probe()
            with pytest.raises(OriginUnreachable):
                await reads.open_read(NAME, OriginRead())
        assert len(times.pauses) == pauses


def broken_off(headers: str, body: bytes, length: int) -> Script:
    async def script(line: ScriptedConnection) -> None:
        await line.read_request()
        await line.respond(206, headers, body, length)

    return script


RANGE = f"{ETAG}Content-Range: bytes 0-3/10\n"


async def test_a_body_broken_before_its_first_byte_is_reopened() -> None:
    times = Times()
    async with (
        scripted_origin(broken_off(RANGE, b"", 4), answers((206, RANGE, b"abcd"))) as origin,
        reading(origin.url, times=times) as reads,
    ):
        assert await whole(await reads.open_read(NAME, OriginRead(span=Span(0, 4)))) == b"abcd"
    assert [heard.header("if-match") for heard in origin.requests] == [None, '"v1"']
    assert times.pauses == [0.5]


async def test_a_reopened_body_is_of_the_same_version() -> None:
    other = 'ETag: "v2"\nContent-Range: bytes 0-3/10\n'
    for again in ((206, other, b"abcd"), (412, "", b"")):
        async with (
            scripted_origin(broken_off(RANGE, b"", 4), answers(again)) as origin,
            reading(origin.url) as reads,
        ):
            outcome = await reads.open_read(NAME, OriginRead(span=Span(0, 4)))
            with pytest.raises(VersionChanged):
                await whole(outcome)


async def test_a_reopened_body_has_the_same_bytes() -> None:
    shorter = f"{ETAG}Content-Range: bytes 0-2/3\n"
    async with (
        scripted_origin(broken_off(RANGE, b"", 4), answers((206, shorter, b"abc"))) as origin,
        reading(origin.url) as reads,
    ):
        outcome = await reads.open_read(NAME, OriginRead(span=Span(0, 4)))
        with pytest.raises(OriginBroken, match="ended early"):
            await whole(outcome)


async def test_attempts_are_counted_over_heads_and_bodies() -> None:
    times = Times()
    script = broken_off(RANGE, b"", 4)
    async with (
        scripted_origin(answers((503, "Connection: close\n", b"")), script) as origin,
        reading(origin.url, times=times) as reads,
    ):
        outcome = await reads.open_read(NAME, OriginRead(span=Span(0, 4)))
        with pytest.raises(OriginBroken):
            await whole(outcome)
    assert len(times.pauses) == 2


async def test_a_body_broken_later_is_not_reopened() -> None:
    times = Times()
    async with scripted_origin(broken_off(RANGE, b"ab", 4)) as origin, reading(origin.url, times=times) as reads:
        outcome = await reads.open_read(NAME, OriginRead(span=Span(0, 4)))
        with pytest.raises(OriginBroken):
            await whole(outcome)
    assert (len(origin.requests), times.pauses) == (1, [])


async def test_an_abandoned_body_drops_its_connection() -> None:
    async def script(line: ScriptedConnection) -> None:
        await line.read_request()
        await line.respond(206, RANGE, b"ab", 4)
        await line.wait_closed()

    async with scripted_origin(script) as origin, reading(origin.url) as reads:
        outcome = await reads.open_read(NAME, OriginRead(span=Span(0, 4)))
        assert isinstance(outcome, ObjectOpened)
        assert await some_of(outcome.body) == b"ab"
        outcome.body.close()
        outcome.body.close()
        await origin.all_ended(1)


async def test_contradictory_reads_are_not_sent() -> None:
    async with scripted_origin(respond_always(200)) as origin, reading(origin.url) as reads:
        for read in (
            OriginRead(pin=V1, if_none_match=V1),
            OriginRead("HEAD", Span(0, 1)),
            OriginRead(span=Span(1, 1)),
        ):
            with pytest.raises(ValueError):
                await reads.open_read(NAME, read)
    assert origin.requests == []
