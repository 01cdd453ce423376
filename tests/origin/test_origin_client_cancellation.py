"""A request cancelled at each stage drops its connection and leaves nothing."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from forebay.core.requester import BACKGROUND, requester
from forebay.origin.origin_client import OriginClient
from forebay.origin.origin_limits import OriginLimits
from forebay.origin.origin_request import OriginRequest
from forebay.origin.turns.body_turns import BodyTurns
from harness.manual_timers import ManualTimers
from harness.origin_client import client_of, get, put
from harness.scripted_origin import ScriptedConnection, never_respond, respond_always, scripted_origin, stall_in_body


@asynccontextmanager
async def going(client: OriginClient, request: OriginRequest) -> AsyncIterator[asyncio.Task[object]]:
    """A request under way, which is then cancelled."""

    async def whole() -> None:
        async with await client.send(request) as answer:
            await answer.read(100)

    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(whole())
        yield task
        task.cancel()
    assert task.cancelled()


async def test_cancelled_while_waiting_for_its_turn() -> None:
    limits = OriginLimits(reads=1, wait=5)
    async with scripted_origin(respond_always(200, "", b"x")) as origin, client_of(origin.url, limits) as client:
        first = await client.send(get())
        async with going(client, get()):
            await asyncio.sleep(0)
            assert client.reads.waiting == 1
        first.close()
    assert len(origin.requests) == 1


async def test_cancelled_before_the_response() -> None:
    async def script(line: ScriptedConnection) -> None:
        await line.read_request()
        heard.set()
        await line.wait_closed()

    heard = asyncio.Event()
    async with scripted_origin(script) as origin, client_of(origin.url) as client:
        async with going(client, get()):
            await heard.wait()
        await origin.all_ended(1)


async def test_cancelled_between_a_head_and_what_is_done_with_it() -> None:
    """Beside demand, a response to background work ends a step of the loop."""

    def cancel(_event: object) -> None:
        asyncio.get_running_loop().call_soon(request.cancel)

    body_turns = BodyTurns(ManualTimers())
    body_turns.demand += 1
    requester.set(BACKGROUND)
    async with (
        scripted_origin(stall_in_body) as origin,
        client_of(origin.url, observe=cancel, body_turns=body_turns) as client,
        asyncio.TaskGroup() as tasks,
    ):
        request = tasks.create_task(client.send(get()))
        with suppress(asyncio.CancelledError):
            await request
        assert request.cancelled()
        await origin.all_ended(1)


async def test_cancelled_within_the_body() -> None:
    answered = asyncio.Event()
    async with (
        scripted_origin(stall_in_body) as origin,
        client_of(origin.url, observe=lambda _event: answered.set()) as client,
    ):
        async with going(client, get()):
            await answered.wait()
        await origin.all_ended(1)


async def test_cancelled_within_an_upload() -> None:
    """The client's body is no longer being read when send has ended: the caller may read on in it."""
    reading = asyncio.Event()
    left: list[str] = []

    async def body() -> AsyncIterator[bytes]:
        try:
            yield b"ab"
            reading.set()
            await asyncio.Event().wait()
        finally:
            left.append("body")

    async def upload(client: OriginClient) -> None:
        try:
            await client.send(put(body(), 4))
        finally:
            left.append("send")

    async with scripted_origin(never_respond) as origin, client_of(origin.url) as client:
        async with asyncio.TaskGroup() as tasks:
            task = tasks.create_task(upload(client))
            await reading.wait()
            task.cancel()
        assert left == ["body", "send"]
        await origin.all_ended(1)


async def test_cancelled_while_waiting_for_a_piece() -> None:
    """Also without `async with`: the answer is ended by the cancellation itself."""
    async with scripted_origin(stall_in_body) as origin, client_of(origin.url) as client:
        answer = await client.send(get())
        assert await answer.next_piece() == b"ab"
        async with asyncio.TaskGroup() as tasks:
            task = tasks.create_task(answer.next_piece())
            await asyncio.sleep(0)
            task.cancel()
        assert client.reads.in_use == 0
        await origin.all_ended(1)
