"""Body turns: between two looks of the loop at its sockets one body of background work goes on."""

import asyncio
import socket
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, cast
from urllib.parse import urlsplit

import pytest
import uvloop

from forebay.core.requester import BACKGROUND, requester
from forebay.origin.endpoint import ServerAddress
from forebay.origin.http.connection_pool import ConnectionPool
from forebay.origin.http.outgoing_body import outgoing_body
from forebay.origin.http.receive_buffer import RECEIVED_BESIDE_DEMAND
from forebay.origin.http.transport_response import PooledResponse
from forebay.origin.origin_limits import OriginLimits
from forebay.origin.origin_request import OriginRequest
from forebay.origin.turns.body_turns import DEMAND_SECONDS, PIECE, BodyTurns
from forebay.origin.turns.request_turns import Turn
from forebay.protocol.response_templates import ResponseTemplates
from forebay.server.event_loop import sliced_loop
from harness.manual_timers import ManualTimers
from harness.scripted_origin import ScriptedConnection, scripted_origin

BURST = 16
HEAD = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"


class Demand:
    """A client that asks again as soon as it is answered: the loop finds it at every look at its sockets."""

    def __init__(self, body_turns: BodyTurns) -> None:
        self._body_turns = body_turns
        self.answers = 0
        self._ours, self._theirs = socket.socketpair()

    def __enter__(self) -> "Demand":
        self._theirs.send(b"?")
        asyncio.get_running_loop().add_reader(self._ours, self._answer)
        return self

    def _answer(self) -> None:
        self._body_turns.demand += 1
        self._ours.recv(1)
        self.answers += 1
        self._theirs.send(b"?")

    def __exit__(self, *_exc: object) -> None:
        asyncio.get_running_loop().remove_reader(self._ours)
        self._ours.close()
        self._theirs.close()


async def burst_beside_demand() -> Counter[int]:
    """How many of a burst received between two answers."""
    body_turns, received = BodyTurns(ManualTimers()), Counter[int]()

    async def receive() -> None:
        await body_turns.wait()
        received[demand.answers] += 1

    with Demand(body_turns) as demand:
        body_turns.demand += 1
        async with asyncio.TaskGroup() as tasks:
            for _ in range(BURST):
                tasks.create_task(receive())
    assert "0 waiting" in repr(body_turns)
    return received


@pytest.mark.parametrize("kind", [asyncio.SelectorEventLoop, uvloop.Loop], ids=["asyncio", "uvloop"])
def test_one_receives_between_two_answers_to_demand(kind: type[asyncio.AbstractEventLoop]) -> None:
    """And one does, however much demand there is."""
    factory = cast("Callable[[], asyncio.AbstractEventLoop]", sliced_loop(kind))
    with asyncio.Runner(loop_factory=factory) as runner:
        received = runner.run(burst_beside_demand())
    assert max(received.values()) == 1
    assert received.total() == BURST
    assert max(received) - min(received) <= 2 * BURST


def test_without_demand_nothing_waits() -> None:
    timers = ManualTimers()
    body_turns = BodyTurns(timers)

    def waits() -> bool:
        try:
            body_turns.wait().send(None)
        except StopIteration:
            return False
        return True

    assert not waits()
    body_turns.demand += 1
    found = [body_turns.is_beside_demand]
    timers.advance(DEMAND_SECONDS)
    found.append(body_turns.is_beside_demand)
    assert (found, waits()) == ([True, False], False)


async def test_a_step_ends_beside_demand_only() -> None:
    body_turns, order = BodyTurns(ManualTimers()), list[str]()

    async def step() -> None:
        asyncio.get_running_loop().call_soon(order.append, "due")
        await body_turns.end_step()
        order.append("next step")

    await step()
    await asyncio.sleep(0)
    assert order == ["next step", "due"]
    order.clear()
    body_turns.demand += 1
    await step()
    assert order == ["due", "next step"]


async def test_one_takes_a_piece_between_two_looks() -> None:
    body_turns = BodyTurns(ManualTimers())
    for _ in range(3):
        assert [body_turns.take_piece() for _ in range(3)] == [True, False, False]
        await asyncio.sleep(0)


async def test_a_cancelled_wait_leaves_nothing_behind() -> None:
    body_turns, received = BodyTurns(ManualTimers()), list[int]()

    async def receive(number: int) -> None:
        await body_turns.wait()
        received.append(number)

    body_turns.demand += 1
    async with asyncio.TaskGroup() as tasks:
        waiting = [tasks.create_task(receive(number)) for number in range(4)]
        await asyncio.sleep(0)
        for task in waiting[:3]:
            task.cancel()
    assert (received, body_turns.waiting) == ([0, 3], 0)


# Requests to an origin


async def _large_pieces(body: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(body), 1 << 20):
        yield body[start : start + (1 << 20)]


@pytest.mark.parametrize("principal", [BACKGROUND, "trainer"])
async def test_bodies_that_are_sent_together(principal: str) -> None:
    """Those of background work, a drain, go out in slices and turns, whatever pieces they are read in."""
    body_turns, sent, sizes = BodyTurns(ManualTimers()), Counter[int](), Counter[int]()
    content = bytes(range(256)) * 5000

    async def send() -> None:
        requester.set(principal)
        request = OriginRequest("PUT", "bucket", "key", body=_large_pieces(content), content_length=len(content))
        body, arrived = outgoing_body(request, cast("Turn", None), OriginLimits(), body_turns), b""
        assert body is not None
        async for piece in body:
            arrived += piece
            sent[demand.answers] += 1
            sizes[len(piece)] += 1
        assert arrived == content

    with Demand(body_turns) as demand:
        body_turns.demand += 1
        async with asyncio.TaskGroup() as tasks:
            for _ in range(BURST):
                tasks.create_task(send())
    if principal == BACKGROUND:
        assert max(sizes) == PIECE
        assert body_turns.granted == sent.total()
        assert max(sent.values()) <= 2  # the last one, that was held back, and the one of this turn
    else:
        assert (max(sizes), body_turns.granted) == (1 << 20, 0)


async def test_small_bodies_wait_for_nobody() -> None:
    body_turns = BodyTurns(ManualTimers())
    body_turns.demand += 1
    requester.set(BACKGROUND)
    body = outgoing_body(OriginRequest("PUT", body=bytes(PIECE)), cast("Turn", None), OriginLimits(), body_turns)
    assert body is not None
    assert (b"".join([piece async for piece in body]), body_turns.granted) == (bytes(PIECE), 0)


# Responses of an origin


@asynccontextmanager
async def pooled(
    body_turns: BodyTurns, body: bytes
) -> AsyncIterator[Callable[[], Coroutine[Any, Any, PooledResponse]]]:
    """What sends a request over a connection of a pool. All responses leave when all requests have come."""
    came, arrived = 0, asyncio.Event()

    async def respond(line: ScriptedConnection) -> None:
        nonlocal came
        await line.read_request()
        came += 1
        if came == BURST:
            arrived.set()
        await arrived.wait()
        await line.respond(200, "", body)
        await line.wait_closed()

    async with scripted_origin(*[respond] * BURST) as origin:
        parts = urlsplit(origin.url)
        pool = ConnectionPool(OriginLimits(), None, body_turns)
        address = ServerAddress(parts.hostname or "", parts.port or 0, False)
        yield lambda: pool.send("GET", address, HEAD)
        await pool.close()


@pytest.mark.parametrize("principal", [BACKGROUND, "trainer"])
async def test_bodies_that_arrive_together(principal: str) -> None:
    """Those of background work are received in turns. A reader's own do not wait for that."""
    body_turns, received = BodyTurns(ManualTimers()), Counter[int]()
    body = bytes(range(256)) * 1600
    async with pooled(body_turns, body) as send:

        async def read() -> None:
            requester.set(principal)
            response, buffer, filled = await send(), memoryview(bytearray(len(body))), 0
            while not response.ended:
                filled += await response.read_into(buffer[filled:])
                received[demand.answers] += 1
            assert buffer == body

        with Demand(body_turns) as demand:
            async with asyncio.TaskGroup() as tasks:
                for _ in range(BURST):
                    tasks.create_task(read())
    assert body_turns.waiting == 0
    if principal == BACKGROUND:
        assert body_turns.granted == received.total()
        assert max(received.values()) <= 2  # what arrived in this turn, and what came along with a head
    else:
        assert body_turns.granted == 0


async def test_a_body_beside_demand_is_received_piece_by_piece() -> None:
    """In each turn one piece, of a bounded size."""
    body = bytes(range(256)) * 4096

    async def respond(line: ScriptedConnection) -> None:
        await line.read_request()
        await line.respond(200, "", body)

    body_turns, buffer = BodyTurns(ManualTimers()), memoryview(bytearray(len(body)))
    requester.set(BACKGROUND)
    async with scripted_origin(respond) as origin:
        parts = urlsplit(origin.url)
        pool = ConnectionPool(OriginLimits(), None, body_turns)
        body_turns.demand += 1
        response = await pool.send("GET", ServerAddress(parts.hostname or "", parts.port or 0, False), HEAD)
        pieces, filled = list[int](), 0
        while not response.ended:
            pieces.append(await response.read_into(buffer[filled:]))
            filled += pieces[-1]
        await pool.close()
    assert buffer == body
    assert max(pieces) <= PIECE
    assert pieces[0] < RECEIVED_BESIDE_DEMAND, "what comes along with the head waits for no turn"
    assert body_turns.granted == len(pieces)


async def test_a_small_body_beside_demand_comes_whole() -> None:
    """Whoever waits for all of it is called once it is here, though it is larger than what is received at once."""
    body = bytes(range(256)) * 400

    async def respond(line: ScriptedConnection) -> None:
        for content in (b"first", body):
            await line.read_request()
            await line.respond(200, "", content)

    requester.set(BACKGROUND)
    async with scripted_origin(respond) as origin:
        parts = urlsplit(origin.url)
        body_turns, address = BodyTurns(ManualTimers()), ServerAddress(parts.hostname or "", parts.port or 0, False)
        pool = ConnectionPool(OriginLimits(), None, body_turns)
        first = await pool.send("GET", address, HEAD)
        assert bytes(first.take_whole(5) or b"") == b"first"
        body_turns.demand += 1
        connection, ready = pool.take_idle(address), asyncio.Event()
        assert connection is not None
        assert len(connection.shared.received) == RECEIVED_BESIDE_DEMAND < len(body)
        connection.write_request(HEAD, "GET")
        connection.call_when_ready(ready.set, 30.0, ResponseTemplates())
        await ready.wait()
        assert connection.whole_head is not None
        assert bytes((await pool.receive(connection, 30.0)).take_whole(len(body)) or b"") == body
        await pool.close()


async def test_a_body_that_demand_waits_for_takes_no_turns_any_more() -> None:
    """It is the first to be whole, though it waits for its turn behind all others."""
    body_turns, finished = BodyTurns(ManualTimers()), list[int]()
    body = bytes(range(256)) * 1600
    async with pooled(body_turns, body) as send:
        responses = dict[int, PooledResponse]()

        async def read(number: int) -> None:
            requester.set(BACKGROUND)
            response, buffer, filled = await send(), memoryview(bytearray(len(body))), 0
            responses[number] = response
            if len(responses) == BURST:
                asyncio.get_running_loop().call_soon(responses[BURST - 1].skip_turns)
            while not response.ended:
                filled += await response.read_into(buffer[filled:])
            assert buffer == body
            finished.append(number)

        with Demand(body_turns):
            async with asyncio.TaskGroup() as tasks:
                for number in range(BURST):
                    tasks.create_task(read(number))
    assert finished[0] == BURST - 1
    assert body_turns.waiting == 0
