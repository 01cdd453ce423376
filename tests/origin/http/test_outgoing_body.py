"""Request bodies: sent whole or left unfinished, read once, released at once."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from forebay.core.errors import OriginUnreachable, S3Error
from forebay.origin.http.session_transport import CONTINUE_SECONDS
from forebay.origin.origin_client import OriginClient
from forebay.origin.origin_limits import OriginLimits
from forebay.origin.origin_request import OriginRequest
from harness.inspection import run_loop_until
from harness.jumping_loop import JumpingLoop
from harness.manual_timers import ManualTimers
from harness.origin_client import SHORT, client_of, get, pieces, put
from harness.scripted_origin import ScriptedConnection, respond_always, scripted_origin


async def test_uploads_are_sent_whole() -> None:
    arrived: list[bytes] = []

    async def script(line: ScriptedConnection) -> None:
        while True:
            heard = await line.read_request()
            arrived.append(await line.read_body(int(heard.header("content-length") or 0)))
            await line.respond(200)

    big = bytes(range(256)) * 4096
    async with scripted_origin(script) as origin, client_of(origin.url) as client:
        for body, length in ((pieces(b"ab", b"", b"cd"), 4), (big, None), (b"", None), (pieces(), 0)):
            async with await client.send(put(body, length)) as answer:
                assert answer.status == 200
    assert arrived == [b"abcd", big, b"", b""]
    for heard in origin.requests:
        assert heard.header("content-type") is None
        assert heard.header("transfer-encoding") is None


@pytest.mark.parametrize(
    ("parts", "code"), [((b"ab", b"c"), "IncompleteBody"), ((b"ab", b"cd", b"e"), "InvalidRequest")]
)
async def test_an_upload_of_another_length_is_never_finished(parts: tuple[bytes, ...], code: str) -> None:
    arrived: list[bytes] = []

    async def script(line: ScriptedConnection) -> None:
        await line.read_request()
        arrived.append(await line.reader.read(-1))

    async with scripted_origin(script) as origin, client_of(origin.url) as client:
        with pytest.raises(S3Error) as refused:
            await client.send(put(pieces(*parts), 4))
        await origin.all_ended(1)
    assert refused.value.code == code
    assert len(arrived[0]) < 4


async def test_an_upload_found_wrong_at_its_end_is_never_finished() -> None:
    """The announced bytes are all there, and then the trailer's checksum is wrong."""
    arrived: list[bytes] = []

    async def script(line: ScriptedConnection) -> None:
        await line.read_request()
        arrived.append(await line.reader.read(-1))

    async def body() -> AsyncIterator[bytes]:
        yield b"ab"
        yield b"cd"
        raise S3Error("BadDigest")

    async with scripted_origin(script) as origin, client_of(origin.url) as client:
        with pytest.raises(S3Error, match="BadDigest"):
            await client.send(put(body(), 4))
        await origin.all_ended(1)
        assert client.breaker.state.value == "closed"
    assert arrived == [b"ab"]


async def early_hang_up(line: ScriptedConnection) -> None:
    await line.read_request()
    await line.read_body(2)
    line.reset()


async def test_a_half_read_upload_is_never_repeated() -> None:
    async with scripted_origin(early_hang_up) as origin, client_of(origin.url) as client:
        with pytest.raises(OriginUnreachable):
            await client.send(put(pieces(b"ab", b"cd", b"ef"), 6))
    assert len(origin.requests) == 1


async def test_an_early_response_ends_upload_and_connection() -> None:
    reading = asyncio.Event()
    left = asyncio.Event()

    async def body() -> AsyncIterator[bytes]:
        try:
            yield b"ab"
            reading.set()
            await asyncio.Event().wait()
        finally:
            left.set()

    async def script(line: ScriptedConnection) -> None:
        await line.read_request()
        await reading.wait()
        await line.respond(403, "", b"no")
        await line.wait_closed()

    async with scripted_origin(script, respond_always(200)) as origin, client_of(origin.url) as client:
        async with await client.send(put(body(), 4)) as answer:
            assert (answer.status, await answer.read(10)) == (403, b"no")
        assert left.is_set()
        async with await client.send(get()) as answer:
            assert answer.status == 200
    assert origin.connections == 2


async def test_expect_continue_keeps_the_body_until_it_is_wanted() -> None:
    asked_for: list[str] = []

    async def body() -> AsyncIterator[bytes]:
        asked_for.append("body")
        yield b"abcd"

    async def refuses(line: ScriptedConnection) -> None:
        await line.read_request()
        await line.respond(403)
        await line.wait_closed()

    async def wants(line: ScriptedConnection) -> None:
        await line.read_request()
        assert asked_for == []
        await line.send_raw(b"HTTP/1.1 100 Continue\r\n\r\n")
        assert await line.read_body(4) == b"abcd"
        await line.respond(200)

    async with scripted_origin(refuses, wants) as origin, client_of(origin.url) as client:
        for status in (403, 200):
            request = OriginRequest(
                "PUT", "b", "k", headers=(("Expect", "100-continue"),), body=body(), content_length=4
            )
            async with await client.send(request) as answer:
                assert answer.status == status
    assert asked_for == ["body"]


@pytest.mark.parametrize("origin_is", ["silent", "refusing"])
def test_an_origin_that_knows_no_expectation_gets_the_body(origin_is: str) -> None:
    """Behind the head, after a second, or with the request that is sent again after 417."""
    heard = list[str | None]()

    async def script(line: ScriptedConnection) -> None:
        expectation = (await line.read_request()).header("expect")
        heard.append(expectation)
        if expectation is not None and origin_is == "refusing":
            await line.respond(417, "Connection: close")
            return
        assert await line.read_body(4) == b"abcd"
        await line.respond(200)

    async def upload() -> float:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, JumpingLoop)
        async with scripted_origin(script, script) as origin, client_of(origin.url) as client:
            began = loop.time()
            request = put(pieces(b"ab", b"cd"), 4)._replace(headers=(("Expect", "100-continue"),))
            with loop.jumping():
                async with await client.send(request) as answer:
                    assert answer.status == 200
            return loop.time() - began

    with asyncio.Runner(loop_factory=JumpingLoop) as runner:
        took = runner.run(upload())
    if origin_is == "silent":
        assert CONTINUE_SECONDS <= took < CONTINUE_SECONDS + 1
        assert heard == ["100-continue"]
    else:
        assert heard == ["100-continue", None]


async def test_an_upload_the_origin_does_not_read_stalls() -> None:
    async def endless() -> AsyncIterator[bytes]:
        while True:
            yield bytes(1 << 20)

    release = asyncio.Event()

    async def script(line: ScriptedConnection) -> None:
        await line.read_request()
        await release.wait()

    async with scripted_origin(script) as origin, client_of(origin.url, SHORT) as client:
        with pytest.raises(OriginUnreachable, match="no answer in time"):
            await client.send(put(endless(), 1 << 40))
        release.set()


async def test_a_slow_client_is_not_the_origins_fault() -> None:
    """Each of its pauses is longer than the stall timeout."""
    loop = asyncio.get_running_loop()

    async def body() -> AsyncIterator[bytes]:
        for _ in range(2):
            later: asyncio.Future[None] = loop.create_future()
            loop.call_later(0.6, later.set_result, None)
            await later
            yield b"a"

    async def script(line: ScriptedConnection) -> None:
        await line.read_request()
        await line.read_body(2)
        await line.respond(200)

    limits = OriginLimits(connect_timeout=0.5, answer_timeout=0.5, stall_timeout=0.5)
    async with (
        scripted_origin(script) as origin,
        client_of(origin.url, limits) as client,
        await client.send(put(body(), 2)) as answer,
    ):
        assert answer.status == 200


async def test_a_slow_client_loses_its_turn_to_a_waiter() -> None:
    """The fast one keeps its own, however long the origin leaves it waiting."""
    arrived: list[bytes] = []
    timers, limits = ManualTimers(), OriginLimits(writes=4, wait=60.0, min_client_rate=1000)
    dripping: asyncio.Queue[bytes] = asyncio.Queue()

    async def body(first: bytes) -> AsyncIterator[bytes]:
        yield first
        while True:
            yield await dripping.get()

    async def script(line: ScriptedConnection) -> None:
        await line.read_request()
        arrived.append(await line.reader.read(-1))

    async def fast() -> AsyncIterator[bytes]:
        yield b"ab"
        await asyncio.sleep(0)
        yield b"cd"

    async def answers(line: ScriptedConnection) -> None:
        heard = await line.read_request()
        await line.read_body(int(heard.header("content-length") or 0))
        await release.wait()
        await line.respond(200)

    release = asyncio.Event()
    async with (
        scripted_origin(answers, script, answers) as origin,
        client_of(origin.url, limits, timers=timers) as client,
        asyncio.TaskGroup() as group,
    ):
        quick = group.create_task(client.send(put(fast(), 4, paced=True)))
        await run_loop_until(lambda: len(origin.requests) == 1)
        await run_loop_until(lambda: client.writes.paced == 0)  # its body has passed: it is the origin's turn
        slow = group.create_task(refused(client, put(body(b"x"), 100, paced=True)))
        await run_loop_until(lambda: len(origin.requests) == 2)
        other = group.create_task(refused(client, put(body(b"y"), 100, paced=True)))
        await run_loop_until(lambda: client.writes.paced == 2)
        timers.advance(60)
        assert (client.writes.paced, slow.done(), other.done()) == (2, False, False)
        waiting = group.create_task(client.send(put(fast(), 4, paced=True)))
        done, _ = await asyncio.wait({slow, other}, return_when=asyncio.FIRST_COMPLETED)
        assert [task.result() for task in done] == ["RequestTimeout"]
        release.set()
        for task in (quick, waiting):
            async with await task as answer:
                assert answer.status == 200
        (left,) = {slow, other} - done
        left.cancel()
    assert [len(each) < 100 for each in arrived] == [True] * len(arrived)


async def refused(client: OriginClient, request: OriginRequest) -> str:
    """The code that an upload is refused with."""
    with pytest.raises(S3Error) as refusal:
        await client.send(request)
    return refusal.value.code
