"""The origin client: targets, headers, retries, the breaker, the semaphores."""

from collections.abc import AsyncIterator

import pytest

from forebay.core.errors import OriginBroken, OriginUnreachable, S3Error, Throttled
from forebay.core.events import Event, OriginAnswered, OriginFailed, OriginRetried
from forebay.origin.breaker import BreakerState
from forebay.origin.credentials import ANONYMOUS
from forebay.origin.origin_client import OriginClient
from forebay.origin.origin_identity import OriginIdentity, request_credential
from forebay.origin.origin_limits import OriginLimits
from forebay.origin.origin_request import OriginRequest
from forebay.protocol.signatures.signing_key import SecretKey
from harness.origin_client import client_of, get, put
from harness.reference_sigv4 import Secret, request_signature
from harness.scripted_origin import (
    ReceivedRequest,
    ScriptedConnection,
    never_respond,
    respond_always,
    scripted_origin,
)


def assert_signed(heard: ReceivedRequest) -> None:
    """By botocore's word, over the very bytes that came."""
    authorization = heard.header("authorization")
    assert authorization is not None
    _, names, signature = (part.partition("=")[2] for part in authorization.split(", "))
    path, _, query = heard.target.partition("?")
    timestamp = heard.header("x-amz-date")
    assert timestamp is not None
    secret = Secret("AKID", "hush", "eu-west-1")
    signed = names.split(";")
    assert signature == request_signature(
        secret,
        timestamp,
        method=heard.method,
        raw_path=path,
        raw_query=query,
        headers=heard.headers,
        signed=signed,
    )


AWKWARD = {
    "a//b": "/bucket/a//b",
    "/lead": "/bucket//lead",
    "../../etc/passwd": "/bucket/../../etc/passwd",
    "a/./b/../c": "/bucket/a/./b/../c",
    "..": "/bucket/..",
    ".": "/bucket/.",
    "a%2Fb": "/bucket/a%252Fb",
    "a+b c": "/bucket/a%2Bb%20c",
    "grün/日本": "/bucket/gr%C3%BCn/%E6%97%A5%E6%9C%AC",
    "what?now#then": "/bucket/what%3Fnow%23then",
    "a;b=c&d@e:f!$'()*,": "/bucket/a%3Bb%3Dc%26d%40e%3Af%21%24%27%28%29%2A%2C",
    '[x]{y}|^`\\"<>': "/bucket/%5Bx%5D%7By%7D%7C%5E%60%5C%22%3C%3E",
    "new\nline\ttab\x7f\x01": "/bucket/new%0Aline%09tab%7F%01",
    "~-_.": "/bucket/~-_.",
    "dir/": "/bucket/dir/",
    "k" * 1024: "/bucket/" + "k" * 1024,
    "ü" * 512: "/bucket/" + "%C3%BC" * 512,
}


async def test_awkward_keys_arrive_as_they_were_signed() -> None:
    async with scripted_origin(respond_always(200)) as origin, client_of(origin.url) as client:
        for key in AWKWARD:
            async with await client.send(get(key)):
                pass
    assert [heard.target for heard in origin.requests] == list(AWKWARD.values())
    for heard in origin.requests:
        assert_signed(heard)


async def test_queries_arrive_as_they_were_signed() -> None:
    query = (("versionId", "a/b+c=="), ("acl", ""), ("prefix", "x y&z"), ("ü", "%41"))
    request = OriginRequest("GET", "bucket", "k", query, operation="GetObject")
    async with (
        scripted_origin(respond_always(200)) as origin,
        client_of(origin.url) as client,
        await client.send(request),
    ):
        pass
    assert origin.requests[0].target == "/bucket/k?%C3%BC=%2541&acl=&prefix=x%20y%26z&versionId=a%2Fb%2Bc%3D%3D"
    assert_signed(origin.requests[0])


async def test_headers_of_caller_and_client_are_signed_once() -> None:
    headers = (
        ("Range", "bytes=0-1"),
        ("If-Match", '"e"'),
        ("x-amz-meta-a", "1"),
        ("x-amz-meta-a", "2"),
        ("Content-MD5", "abc"),
        ("Accept-Encoding", "gzip"),
        ("User-Agent", "other"),
        ("Authorization", "theirs"),
        ("Host", "elsewhere"),
        ("Cookie", "a=b"),
    )
    request = OriginRequest("GET", "bucket", "k", headers=headers, operation="GetObject")
    script = respond_always(200, "Set-Cookie: theirs=1\n")
    async with scripted_origin(script) as origin, client_of(origin.url) as client:
        for _ in range(2):
            async with await client.send(request):
                pass
    heard = origin.requests[1]
    assert_signed(heard)
    assert heard.header("host") == origin.url.removeprefix("http://")
    assert heard.header("accept-encoding") == "identity"
    assert heard.header("user-agent") == "forebay"
    assert heard.header("x-amz-security-token") == "session"
    names = heard.names()
    assert len(names) == len(set(names)) + 1  # the metadata, as given
    assert heard.header("cookie") == "a=b"
    assert "content-type" not in names
    signed = (heard.header("authorization") or "").partition("SignedHeaders=")[2].partition(",")[0].split(";")
    assert signed == [
        "content-md5",
        "host",
        "if-match",
        "range",
        "x-amz-content-sha256",
        "x-amz-date",
        "x-amz-meta-a",
        "x-amz-security-token",
    ]


async def test_anonymous_requests_are_not_signed() -> None:
    async with (
        scripted_origin(respond_always(200)) as origin,
        client_of(origin.url, anonymous=True) as client,
        await client.send(get()),
    ):
        pass
    assert not [name for name in origin.requests[0].names() if name.startswith("x-amz") or name == "authorization"]


async def test_a_principals_own_credential_signs() -> None:
    request = OriginRequest("GET", "bucket", "k", credential=SecretKey("THEIRS", "x"))
    async with (
        scripted_origin(respond_always(200)) as origin,
        client_of(origin.url) as client,
        await client.send(request),
    ):
        pass
    assert "Credential=THEIRS/" in (origin.requests[0].header("authorization") or "")
    assert origin.requests[0].header("x-amz-security-token") is None


async def test_a_request_that_must_not_be_signed_is_not_signed_as_our_own() -> None:
    identity = OriginIdentity("anonymous", ANONYMOUS)
    request = OriginRequest("GET", "bucket", "k", credential=await request_credential(identity))
    async with (
        scripted_origin(respond_always(200)) as origin,
        client_of(origin.url) as client,
        await client.send(request),
    ):
        pass
    assert not [name for name in origin.requests[0].names() if name.startswith("x-amz") or name == "authorization"]
    assert await request_credential(None) is None


@pytest.mark.parametrize("value", ["not UTF-8: \udcff", "a\r\nx-amz-acl: public-read", "a\0b"])
async def test_a_header_that_cannot_be_sent_is_invalid_request(value: str) -> None:
    request = OriginRequest("GET", "bucket", "k", headers=(("x-amz-meta-a", value),))
    async with scripted_origin(respond_always(200)) as origin, client_of(origin.url) as client:
        with pytest.raises(S3Error, match="InvalidRequest"):
            await client.send(request)


async def test_redirects_are_returned_and_not_followed() -> None:
    script = respond_always(307, "Location: http://169.254.169.254/\n")
    async with scripted_origin(script) as origin, client_of(origin.url) as client, await client.send(get()) as answer:
        assert (answer.status, answer.headers["location"]) == (307, "http://169.254.169.254/")
    assert len(origin.requests) == 1


async def hang_up_after_hearing(line: ScriptedConnection) -> None:
    await line.read_request()
    line.reset()


async def test_a_read_on_a_lost_connection_is_repeated_once() -> None:
    observed: list[Event] = []
    async with (
        scripted_origin(hang_up_after_hearing, respond_always(200)) as origin,
        client_of(origin.url, observe=observed.append) as client,
        await client.send(get()) as answer,
    ):
        assert answer.status == 200
    assert len(origin.requests) == 2
    assert [type(event) for event in observed] == [OriginFailed, OriginRetried, OriginAnswered]


async def test_a_read_is_repeated_only_once() -> None:
    async with scripted_origin(hang_up_after_hearing) as origin, client_of(origin.url) as client:
        with pytest.raises(OriginUnreachable):
            await client.send(get())
    assert len(origin.requests) == 2


@pytest.mark.parametrize("method", ["PUT", "DELETE", "POST"])
async def test_a_write_is_never_repeated(method: str) -> None:
    """aiohttp by itself repeats a PUT and a DELETE."""
    async with scripted_origin(hang_up_after_hearing) as origin, client_of(origin.url) as client:
        for body in (None, b"abcd"):
            with pytest.raises(OriginUnreachable):
                await client.send(OriginRequest(method, "bucket", "k", body=body))
    assert len(origin.requests) == 2


async def test_connection_failures_open_the_breaker() -> None:
    async with scripted_origin(respond_always(200)) as origin:
        url = origin.url
    limits = OriginLimits(breaker_failures=2, breaker_cooldown=1000)
    observed: list[Event] = []
    async with client_of(url, limits, observed.append) as client:
        for _ in range(2):
            with pytest.raises(OriginUnreachable, match="connection refused"):
                await client.send(get())
        assert not await client.probe()  # the one that the second failure began
        with pytest.raises(OriginUnreachable, match="breaker"):
            await client.send(get())
        assert client.breaker.outage is not None
        assert client.breaker.outage.cause == "connection refused"
    assert len(observed) == 2


@pytest.mark.parametrize("request_", [get(), put(b"ab", 2)], ids=["read", "write"])
@pytest.mark.parametrize("status", [101, 600, 999])
async def test_a_status_that_ends_no_response_is_not_relayed(request_: OriginRequest, status: int) -> None:
    async def script(line: ScriptedConnection) -> None:
        await line.read_request()
        if request_.method == "PUT":
            await line.read_body(2)
        head = f"HTTP/1.1 {status} Said\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n"
        await line.send_raw(head.encode())
        await line.wait_closed()

    async with scripted_origin(script) as origin, client_of(origin.url) as client:
        with pytest.raises(OriginBroken, match="the answer is not HTTP"):
            await client.send(request_)
        await origin.all_ended(1)
        assert (client.reads.in_use, client.writes.in_use) == (0, 0)


@pytest.mark.parametrize("request_", [get(), put(b"ab", 2)], ids=["read", "write"])
async def test_interim_responses_are_not_relayed(request_: OriginRequest) -> None:
    async def script(line: ScriptedConnection) -> None:
        await line.read_request()
        if request_.method == "PUT":
            await line.read_body(2)
        await line.send_raw(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 102 Processing\r\n\r\n")
        await line.send_raw(b"HTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\nHTTP/1.1 199 Whatever\r\n\r\n")
        await line.respond(200, "", b"last")

    async with (
        scripted_origin(script) as origin,
        client_of(origin.url) as client,
        await client.send(request_) as answer,
    ):
        assert (answer.status, answer.headers.get("Link")) == (200, None)
        assert await answer.read(10) == b"last"


DELETE = OriginRequest("DELETE", "bucket", "k", operation="DeleteObject")


class Completion:
    """Counts the calls before a request is complete."""

    def __init__(self) -> None:
        self.calls = 0

    async def __call__(self) -> None:
        self.calls += 1


@pytest.mark.parametrize("write", [DELETE, put(b"abcd", 4)], ids=["DELETE", "PUT"])
async def test_a_write_without_a_connection_is_never_completed(write: OriginRequest) -> None:
    completion = Completion()
    write = write._replace(before_completion=completion)
    async with scripted_origin(respond_always(200)) as origin:
        url = origin.url
    async with client_of(url, OriginLimits(wait=0.0, writes=1, breaker_failures=1)) as client:
        with pytest.raises(OriginUnreachable, match="connection refused"):
            await client.send(write)
        assert not await client.probe()
        with pytest.raises(OriginUnreachable, match="breaker"):
            await client.send(write)
        client.breaker.succeeded()
        turn = await client.writes.acquire("p", 0.0)
        with pytest.raises(Throttled):
            await client.send(write)
        turn.release()
    assert completion.calls == 0


@pytest.mark.parametrize("write", [DELETE, put(b"abcd", 4)], ids=["DELETE", "PUT"])
async def test_a_write_is_completed_after_the_call(write: OriginRequest) -> None:
    completion = Completion()

    async def script(line: ScriptedConnection) -> None:
        await line.read_request()
        assert completion.calls == 1
        if write.method == "PUT":
            assert await line.read_body(4) == b"abcd"
        line.reset()

    async with scripted_origin(script) as origin, client_of(origin.url) as client:
        with pytest.raises(OriginUnreachable):
            await client.send(write._replace(before_completion=completion))
    assert completion.calls == 1


async def test_a_body_without_its_end_is_never_completed() -> None:
    async def refused() -> AsyncIterator[bytes]:
        yield b"ab"
        yield b"cd"
        raise S3Error("BadDigest")

    completion = Completion()
    async with scripted_origin(never_respond) as origin, client_of(origin.url) as client:
        with pytest.raises(S3Error, match="BadDigest"):
            await client.send(put(refused(), 4)._replace(before_completion=completion))
    assert completion.calls == 0


def breaker_state(client: OriginClient) -> BreakerState:
    return client.breaker.state


async def test_failures_of_one_object_open_nothing() -> None:
    """Neither do those of many, while a probe is answered: here the first ten connections break."""
    limits = OriginLimits(breaker_failures=2, breaker_cooldown=1000)
    async with (
        scripted_origin(*[hang_up_after_hearing] * 12, respond_always(200)) as origin,
        client_of(origin.url, limits) as client,
    ):
        for _ in range(5):
            with pytest.raises(OriginUnreachable):
                await client.send(get("poison"))
        assert breaker_state(client) is BreakerState.CLOSED
        with pytest.raises(OriginUnreachable):
            await client.send(get("another"))
        assert breaker_state(client) is BreakerState.SUSPECTED
        assert await client.probe()
        assert breaker_state(client) is BreakerState.CLOSED
    assert [heard.method for heard in origin.requests] == ["GET"] * 12 + ["HEAD"]


async def test_a_hung_origin_opens_the_breaker() -> None:
    """It accepts connections and answers nothing, the probe neither."""
    limits = OriginLimits(answer_timeout=0.01, connect_timeout=0.01, breaker_failures=2, breaker_cooldown=1000)
    async with scripted_origin(never_respond) as origin, client_of(origin.url, limits) as client:
        for key in ("a", "b"):
            with pytest.raises(OriginUnreachable, match=r"no (answer|connection) in time"):  # on a busy machine
                await client.send(get(key))
        assert not await client.probe()
        with pytest.raises(OriginUnreachable, match="breaker"):
            await client.send(get())


async def test_any_http_response_satisfies_the_probe() -> None:
    async with scripted_origin(respond_always(403)) as origin, client_of(origin.url) as client:
        client.breaker.probe_failed("connection refused", 0, 0)
        assert await client.probe()
        assert client.breaker.reachable
    assert (origin.requests[0].method, origin.requests[0].target) == ("HEAD", "/")
    assert origin.requests[0].header("authorization") is None


async def test_reads_and_writes_do_not_starve_each_other() -> None:
    async with scripted_origin(respond_always(200, "", b"x")) as origin, client_of(origin.url) as client:
        held = [await client.send(get()), await client.send(get())]
        with pytest.raises(Throttled):
            await client.send(get())
        async with await client.send(OriginRequest("DELETE", "bucket", "k")) as answer:
            assert answer.status == 200
        for answer in held:
            answer.close()
        async with await client.send(get()):
            pass
