"""Retries, bodies that broke off, and ways that fall back; over HTTP, to an origin that fails on command."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from typing import Any

import pytest

from forebay_client import AccessDenied, BodyCorrupt, ClientError, ObjectNotFound, ServiceUnavailable
from forebay_client.client_settings import resolve_settings
from forebay_client.client_stats import ClientStats
from forebay_client.transport.http_transport import HttpTransport
from forebay_client.transport.object_request import (
    BodyInterrupted,
    ObjectRequest,
    ObjectResponse,
    Transport,
    TransportFallback,
    Unreachable,
)
from forebay_client.transport.request_sender import RequestSender
from forebay_client.transport.retry_policy import patience
from forebay_client.transport.signed_request import ObjectRequestSigner
from harness.fake import actions
from harness.fake_origin import FakeOrigin

CONTENT = random.Random(5).randbytes(300_000)
OTHER = random.Random(6).randbytes(300_000)
GET = ObjectRequest("GET", "b", "k")


class FastWay:
    """A transport that carries reads, and falls back or answers as the test says."""

    name: str = "fast"

    def __init__(self, send: Callable[[ObjectRequest], ObjectResponse]) -> None:
        self._send = send

    def carries(self, request: ObjectRequest) -> bool:
        return request.method == "GET"

    def send(self, request: ObjectRequest) -> ObjectResponse:
        return self._send(request)

    def close(self) -> None:
        pass


class Sending:
    """A sender to an origin, with the delays that it would have waited."""

    def __init__(self, origin: FakeOrigin) -> None:
        self.origin = origin
        self.delays: list[float] = []
        self.stats = ClientStats()
        secret = origin.secret
        self.settings = resolve_settings(
            endpoint=origin.endpoint,
            access_key=secret.access,
            secret_key=secret.secret,
            session_token=None,
            region=None,
            profile=None,
            dialect="s3",
            addressing="path",
            socket=None,
            connections=4,
            timeout=30.0,
            retries=3,
            environ={"AWS_CONFIG_FILE": "/none", "AWS_SHARED_CREDENTIALS_FILE": "/none"},
        )
        self.http = HttpTransport(self.settings, ObjectRequestSigner(self.settings), lambda: sum(self.delays))

    async def send(self, request: ObjectRequest = GET, *faster: Transport) -> ObjectResponse:
        sender = RequestSender(
            (*faster, self.http), self.stats, self.settings.retries, pause=self.delays.append, jitter=lambda: 1.0
        )
        return await asyncio.to_thread(sender.send, request)

    def ranges(self) -> list[tuple[str | None, str | None]]:
        """Range and If-Match of each GET."""
        return [(entry.range, entry.headers.get("If-Match")) for entry in self.origin.log.requests]


@pytest.fixture
async def sending() -> AsyncIterator[Sending]:
    async with FakeOrigin() as origin:
        origin.store.put("b", "k", CONTENT)
        made = Sending(origin)
        yield made
        made.http.close()


@pytest.mark.parametrize("fault", [actions.CloseAfter(100_000), actions.ResetAfter(100_000)])
async def test_a_body_that_broke_off_is_continued(sending: Sending, fault: Any) -> None:
    sending.origin.faults.add(fault, times=2)
    assert (await sending.send()).body == CONTENT
    (whole, first), (second, match), (third, again) = sending.ranges()
    assert (whole, first) == (None, None)
    assert match == again != None  # noqa: E711 # all three of them
    assert second is not None
    assert third is not None
    # Where a connection is reset, bytes that had arrived may be lost.
    assert 0 <= int(second[6:].partition("-")[0]) <= int(third[6:].partition("-")[0]) <= 200_000
    assert (sending.stats.counts().retries, sending.stats.counts().resumed) == (2, 2)


async def test_a_continued_range_begins_in_its_middle(sending: Sending) -> None:
    sending.origin.faults.add(actions.CloseAfter(1000), times=1)
    request = ObjectRequest("GET", "b", "k", span=(5000, 9000))
    assert (await sending.send(request)).body == CONTENT[5000:9000]
    assert [range_ for range_, _ in sending.ranges()] == ["bytes=5000-8999", "bytes=6000-8999"]


async def test_the_callers_buffer_is_filled_from_where_it_broke_off(sending: Sending) -> None:
    sending.origin.faults.add(actions.CloseAfter(100_000), times=1)
    buffer = bytearray(400_000)
    response = await sending.send(ObjectRequest("GET", "b", "k", buffer=memoryview(buffer)))
    assert len(response.body) == 300_000
    assert response.body.obj is buffer
    assert buffer[:300_000] == CONTENT
    assert buffer[300_000:] == bytes(100_000)


async def test_two_versions_are_never_joined(sending: Sending) -> None:
    origin = sending.origin
    origin.faults.add(actions.CloseAfter(100_000), times=1)
    overwrite = sending.delays.append

    def pause(seconds: float) -> None:
        overwrite(seconds)
        origin.store.put("b", "k", OTHER)

    sender = RequestSender((sending.http,), sending.stats, 3, pause=pause, jitter=lambda: 0.0)
    assert (await asyncio.to_thread(sender.send, GET)).body == OTHER
    assert [match is not None for _, match in sending.ranges()] == [False, True, False]


@pytest.mark.parametrize(
    "fault",
    [
        actions.ChangeHeaders(drop=frozenset({"etag", "ETag"})),
        actions.ChangeHeaders(set=(("ETag", 'W/"weak"'),)),
    ],
)
async def test_without_a_strong_etag_all_is_read_again(sending: Sending, fault: Any) -> None:
    sending.origin.faults.add(fault, actions.CloseAfter(100_000), times=1)
    assert (await sending.send()).body == CONTENT
    assert sending.ranges() == [(None, None), (None, None)]


async def test_an_answer_of_another_range_is_not_joined(sending: Sending) -> None:
    sending.origin.faults.add(actions.CloseAfter(100_000), times=1)
    sending.origin.faults.add(actions.AnotherRange("bytes=0-199999"), range=True, times=1)
    assert (await sending.send()).body == CONTENT
    assert [range_ for range_, _ in sending.ranges()][0::2] == [None, None]


async def test_a_longer_range_that_breaks_off_is_not_joined(sending: Sending) -> None:
    """What came of it lies elsewhere than the rest of the body."""
    sending.origin.faults.add(actions.CloseAfter(100), times=1)
    sending.origin.faults.add(actions.AnotherRange("bytes=100-"), actions.CloseAfter(50), skip=1, times=1)
    response = await sending.send(replace(GET, span=(0, 1000)))
    assert bytes(response.body) == CONTENT[:1000]


async def test_failures_of_the_moment_are_repeated_after_a_delay(sending: Sending) -> None:
    sending.origin.faults.add(actions.Respond(503, "SlowDown", "Slow.", (("Retry-After", "7"),)), times=1)
    assert (await sending.send()).body == CONTENT
    sending.origin.faults.add(actions.Respond(500, "InternalError"), times=3)
    assert (await sending.send()).body == CONTENT
    assert sending.delays == [7.0, 0.1, 0.2, 0.4]
    assert sending.stats.counts().retries == 4


async def test_retries_come_to_an_end(sending: Sending) -> None:
    sending.origin.faults.add(actions.Respond(503, "SlowDown", "Slow."))
    with pytest.raises(ServiceUnavailable) as caught:
        await sending.send()
    assert (caught.value.code, caught.value.status, len(sending.delays)) == ("SlowDown", 503, 3)
    sending.origin.faults.clear()
    sending.origin.faults.add(actions.CloseAfter(1000))
    with pytest.raises(ServiceUnavailable, match="broke off"):
        await sending.send()


@pytest.mark.parametrize(("status", "kind"), [(403, AccessDenied), (404, ObjectNotFound), (400, ClientError)])
async def test_a_refusal_is_not_repeated(sending: Sending, status: int, kind: type[ClientError]) -> None:
    sending.origin.faults.add(actions.Respond(status, "Refused", "No."))
    with pytest.raises(kind) as caught:
        await sending.send()
    assert (caught.value.code, sending.delays) == ("Refused", [])


async def test_a_server_that_is_gone_is_waited_for_once(sending: Sending) -> None:
    await sending.origin.refuse()
    with pytest.raises(ServiceUnavailable) as caught:
        await sending.send()
    server = str(sending.settings.server)
    assert str(caught.value) == (
        f"s3://b/k: no connection to {server}: Connection refused, tried for 4 s. "
        "Is the server running, and the endpoint right?"
    )
    assert caught.value.status is None
    waited = list(sending.delays)
    assert waited == [0.1, 0.2, 0.4, 0.8, 1.0, 1.0, 1.0]
    with pytest.raises(ServiceUnavailable, match="tried for"):
        await sending.send()
    assert sending.delays == waited


async def test_a_server_that_is_restarted_is_waited_for(sending: Sending) -> None:
    origin, loop = sending.origin, asyncio.get_running_loop()
    assert (await sending.send()).body == CONTENT
    await origin.refuse()
    origin.disconnect()

    def pause(seconds: float) -> None:
        sending.delays.append(seconds)
        if len(sending.delays) == 6:
            asyncio.run_coroutine_threadsafe(origin.listen(), loop).result()

    sender = RequestSender((sending.http,), sending.stats, 3, pause=pause, jitter=lambda: 0.5)
    assert (await asyncio.to_thread(sender.send, GET)).body == CONTENT
    assert (len(sending.delays), sending.stats.counts().retries) == (6, 6)
    # The next outage is another one.
    await origin.refuse()
    origin.disconnect()
    del sending.delays[:]
    with pytest.raises(ServiceUnavailable, match="tried for 4 s"):
        await sending.send()


async def test_without_retries_nothing_is_waited_for(sending: Sending) -> None:
    sending.settings = replace(sending.settings, retries=0)
    sending.http = HttpTransport(sending.settings, ObjectRequestSigner(sending.settings))
    await sending.origin.refuse()
    with pytest.raises(ServiceUnavailable, match=r"Connection refused\. Is"):
        await sending.send()
    assert sending.delays == []


def test_a_server_that_takes_other_connections_is_given_up() -> None:
    def refuse(_request: ObjectRequest) -> ObjectResponse:
        raise Unreachable("too many open files", may_wait=True)

    delays: list[float] = []
    sender = RequestSender((FastWay(refuse),), ClientStats(), 40, pause=delays.append, jitter=lambda: 0.5)
    with pytest.raises(ServiceUnavailable, match="too many open files"):
        sender.send(GET)
    assert len(delays) > 1_024
    assert patience(40) <= sum(delays) < patience(40) + 1


async def test_an_idle_connection_that_was_closed_is_no_attempt(sending: Sending) -> None:
    await sending.send()
    sending.origin.disconnect()
    assert (await sending.send()).body == CONTENT
    assert (sending.delays, sending.origin.log.connections) == ([], 2)


@pytest.mark.parametrize(
    "fault", [actions.Garbage(), actions.Drop(), actions.LoseAnswer(), actions.AnnounceLength(400_000)]
)
async def test_no_proper_response_is_repeated(sending: Sending, fault: Any) -> None:
    sending.origin.faults.add(fault, times=1)
    assert (await sending.send()).body == CONTENT
    assert len(sending.delays) == 1


async def test_a_longer_body_than_announced_harms_nothing(sending: Sending) -> None:
    sending.origin.faults.add(actions.LongerBody(b"HTTP/1.1 200 OK\r\n\r\n"))
    assert (await sending.send()).body == CONTENT
    sending.origin.faults.clear()
    assert (await sending.send()).body == CONTENT


async def test_a_faster_way_falls_back_and_is_counted(sending: Sending) -> None:
    def unable(_: ObjectRequest) -> ObjectResponse:
        raise TransportFallback("too_large")

    assert (await sending.send(GET, FastWay(unable))).body == CONTENT
    assert sending.stats.counts().fallbacks == {"fast: too_large": 1}
    assert sending.delays == []
    answer = ObjectResponse(200, {}, memoryview(b"fast"))
    assert bytes((await sending.send(GET, FastWay(lambda _: answer))).body) == b"fast"
    head = await sending.send(ObjectRequest("HEAD", "b", "k"), FastWay(unable))
    assert (head.status, sending.stats.counts().fallbacks) == (200, {"fast: too_large": 1})
    assert sending.stats.counts().requests == {"http": 2, "fast": 1}


async def test_a_wrong_checksum_is_an_error_after_retries(sending: Sending) -> None:
    sending.origin.faults.add(actions.ChangeHeaders(set=(("x-amz-checksum-crc32", "AAAAAA=="),)))
    with pytest.raises(BodyCorrupt):
        await sending.send()
    assert len(sending.delays) == 3


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        (actions.CloseAfter(1000), ServiceUnavailable),
        (actions.ChangeHeaders(set=(("x-amz-checksum-crc32", "AAAAAA=="),)), BodyCorrupt),
    ],
)
async def test_an_error_of_a_body_names_its_response(sending: Sending, fault: Any, kind: type[ClientError]) -> None:
    sending.origin.faults.add(fault)
    with pytest.raises(kind) as caught:
        await sending.send(replace(GET, span=(5, 200_000)) if kind is ServiceUnavailable else GET)
    status = 206 if kind is ServiceUnavailable else 200
    assert (caught.value.bucket, caught.value.key) == ("b", "k")
    assert (caught.value.status, caught.value.request_id) == (status, "FAKE")


async def test_checksums_are_asked_for_where_the_environment_says_so(sending: Sending) -> None:
    await sending.send()
    sending.settings = replace(sending.settings, wants_checksums=True)
    sending.http = HttpTransport(sending.settings, ObjectRequestSigner(sending.settings))
    assert (await sending.send()).body == CONTENT
    await sending.send(ObjectRequest("GET", "b", "k", span=(0, 5)))
    modes = [entry.headers.get("x-amz-checksum-mode") for entry in sending.origin.log.requests]
    assert modes == [None, "ENABLED", None]


class Script:
    """A transport that answers as it is told, one answer after the other."""

    name: str = "script"

    def __init__(self, *answers: ObjectResponse | Exception) -> None:
        self._answers = list(answers)

    def carries(self, _request: ObjectRequest) -> bool:
        return True

    def send(self, _request: ObjectRequest) -> ObjectResponse:
        answer = self._answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def close(self) -> None:
        pass


def response(status: int, body: bytes, **headers: str) -> ObjectResponse:
    return ObjectResponse(status, {name.replace("_", "-"): value for name, value in headers.items()}, memoryview(body))


def continued(rest: ObjectResponse) -> bytes:
    """What is returned where `rest` answers the request for the second half of an object."""
    half = BodyInterrupted("reset", response(200, b"", etag='"a"'), memoryview(bytearray(b"01234.....")), 5)
    whole = response(200, b"abcdefghij", etag='"b"')
    sender = RequestSender([Script(half, rest, whole)], ClientStats(), 3, pause=lambda _: None)
    return bytes(sender.send(GET).body)


def test_the_rest_of_a_body_is_put_behind_its_front() -> None:
    rest = response(206, b"56789", etag='"a"', content_range="bytes 5-9/10")
    assert continued(rest) == b"0123456789"


@pytest.mark.parametrize(
    "rest",
    [
        response(206, b"fghij", etag='"b"', content_range="bytes 5-9/10"),
        response(200, b"fghij", etag='"a"', content_range="bytes 5-9/10"),
        response(206, b"fghij", etag='"a"'),
        response(206, b"efghi", etag='"a"', content_range="bytes 4-8/10"),
        response(206, b"fgh", etag='"a"', content_range="bytes 5-7/10"),
        response(412, b"", etag='"b"'),
    ],
    ids=["another version", "no part", "no range", "another range", "less of it", "refused"],
)
def test_what_is_not_the_rest_of_a_body_is_not_joined(rest: ObjectResponse) -> None:
    assert continued(rest) == b"abcdefghij"


def test_an_error_in_place_of_the_rest_is_raised() -> None:
    with pytest.raises(AccessDenied):
        continued(response(403, b""))
