"""A large body that is waited for comes whole into the memory made for it, and what breaks it loses no byte."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from forebay.origin.http.http_connection import HttpConnection
from forebay.origin.http.large_body import AT_ONCE, WHOLE_LIMIT, LargeBody
from forebay.origin.http.receive_buffer import ReceiveBuffer
from forebay.origin.http.response_head import ResponseHead
from forebay.origin.http.transport_errors import ConnectionFault
from forebay.origin.turns.body_turns import PIECE, PROBE, BodyTurns
from forebay.protocol.response_templates import ResponseTemplates
from harness.manual_timers import ManualTimers

ASK = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
BODY = bytes(range(251)) * 3000
RAW = b"HTTP/1.1 206 Partial Content\r\nContent-Length: %d\r\n\r\n" % len(BODY) + BODY


class Wire(asyncio.Transport):
    """A transport that hands over what it is fed, as long as its connection reads; as uvloop's does, it goes on while
    buffers get full."""

    def __init__(self, connection: HttpConnection) -> None:
        super().__init__()
        self.connection, self.reads, self.closed = connection, True, False
        self.parts: list[int] = []
        connection.connection_made(self)

    def write(self, data: object) -> None: ...

    def pause_reading(self) -> None:
        self.reads = False

    def resume_reading(self) -> None:
        self.reads = True

    def abort(self) -> None:
        self.closed = True

    def feed(self, data: memoryview) -> int:
        """Returns how much was received."""
        taken = 0
        while self.reads and taken < len(data):
            buffer = self.connection.get_buffer(-1)
            size = min(len(buffer), len(data) - taken)
            buffer[:size] = data[taken : taken + size]
            self.parts.append(size)
            self.connection.buffer_updated(size)
            taken += size
            if size < len(buffer):
                break
        return taken


class Wait:
    """A request whose body is waited for."""

    def __init__(self, *, has_room: bool = True, turns: BodyTurns | None = None) -> None:
        self.turns, self.rooms, self.has_room = turns or BodyTurns(ManualTimers()), list[memoryview](), has_room
        self.connection = HttpConnection(lambda _: None, lambda _: None, ReceiveBuffer())
        self.wire = Wire(self.connection)
        self.calls = 0
        self.connection.write_request(ASK, "GET")
        large = LargeBody(self._make_room, self.turns)
        self.connection.call_when_ready(self._ready, 5.0, ResponseTemplates(), large)

    def _ready(self) -> None:
        self.calls += 1

    def _make_room(self, head: ResponseHead) -> memoryview | None:
        assert head.body_length == len(BODY)
        if not self.has_room:
            return None
        self.rooms.append(memoryview(bytearray(len(BODY))))
        return self.rooms[0]

    async def feed(self, data: bytes) -> None:
        """All of it, as turns of the loop come."""
        left = memoryview(data)
        while left:
            left = left[self.wire.feed(left) :]
            await asyncio.sleep(0)

    async def read(self) -> bytes:
        """The rest of the body, as a reader does that has taken the request over."""
        received, buffer = bytearray(), memoryview(bytearray(len(BODY)))
        await self.connection.response_head(5.0)
        while count := await self.connection.read_into(buffer, 5.0):
            received += buffer[:count]
        return bytes(received)


@asynccontextmanager
async def waiting(*, has_room: bool = True) -> AsyncIterator[Wait]:
    wait = Wait(has_room=has_room)
    yield wait
    wait.connection.close()


async def test_it_comes_whole_into_its_room() -> None:
    async with waiting() as wait:
        await wait.feed(RAW)
        assert (wait.calls, len(wait.rooms)) == (1, 1)
        assert wait.connection.whole_head is not None
        body = wait.connection.buffered_body()
        assert body is not None
        assert body == BODY
        assert body.obj is wait.rooms[0].obj, "it is not copied"
        assert max(wait.wire.parts) <= AT_ONCE
        assert wait.turns.granted == 0
        assert "idle" in repr(wait.connection)


async def test_byte_by_byte_around_the_end_of_the_head() -> None:
    async with waiting() as wait:
        start = len(RAW) - len(BODY)
        for position in range(start + 3):
            await wait.feed(RAW[position : position + 1])
        assert wait.calls == 0
        await wait.feed(RAW[start + 3 :])
        assert (wait.connection.buffered_body() or b"") == BODY


async def test_a_turn_of_the_loop_receives_so_much_of_it() -> None:
    async with waiting() as wait:
        raw = memoryview(RAW)
        taken = wait.wire.feed(raw)
        assert taken <= WHOLE_LIMIT + AT_ONCE
        assert (wait.wire.reads, wait.rooms) == (False, [])
        for _ in range(2):  # the head's step, and the next part's
            await asyncio.sleep(0)
        assert wait.wire.feed(raw[taken:]) == AT_ONCE


async def test_beside_demand_each_part_takes_its_turn() -> None:
    async with waiting() as wait:
        wait.turns.demand += 1
        await wait.feed(RAW)
        assert wait.calls == 1
        assert (wait.connection.buffered_body() or b"") == BODY
        assert max(wait.wire.parts) <= PIECE
        assert wait.turns.granted == len(wait.wire.parts) - 1, "but for what comes along with the head"


async def test_of_bodies_whose_bytes_come_together_one_receives_a_piece() -> None:
    """Each has had its turn before any bytes came."""
    turns, head = BodyTurns(ManualTimers()), len(RAW) - len(BODY) + 1
    turns.demand += 1
    waits = [Wait(turns=turns) for _ in range(8)]
    for wait in waits:
        await wait.feed(RAW[:head])
    for _ in waits:
        await asyncio.sleep(0)
    assert all(wait.wire.reads for wait in waits)
    left, looks = {wait: memoryview(RAW)[head:] for wait in waits}, list[list[int]]()
    while any(left.values()):
        looks.append([wait.wire.feed(left[wait]) for wait in waits])
        left = {wait: left[wait][taken:] for wait, taken in zip(waits, looks[-1], strict=True)}
        await asyncio.sleep(0)
    assert looks[0] == [PIECE] + [PROBE] * 7
    assert all(sum(taken > PROBE for taken in look) <= 1 for look in looks)
    assert [bytes(wait.connection.buffered_body() or b"") for wait in waits] == [BODY] * 8
    for wait in waits:
        wait.connection.close()


@pytest.mark.parametrize("demand", [0, 1])
async def test_heads_that_come_together_take_turns_of_their_own(demand: int) -> None:
    turns = BodyTurns(ManualTimers())
    turns.demand += demand
    waits = [Wait(turns=turns) for _ in range(4)]
    come = [wait.wire.feed(memoryview(RAW)) for wait in waits]
    assert [len(wait.rooms) for wait in waits] == [0] * 4
    await asyncio.sleep(0)
    assert [len(wait.rooms) for wait in waits] == [1] * 4
    for wait, taken in zip(waits, come, strict=True):
        await wait.feed(RAW[taken:])
        assert (wait.connection.buffered_body() or b"") == BODY
        wait.connection.close()


async def test_who_takes_it_over_before_its_head_had_a_turn() -> None:
    async with waiting() as wait:
        wait.turns.demand += 1
        come = wait.wire.feed(memoryview(RAW))
        async with asyncio.TaskGroup() as tasks:
            reader = tasks.create_task(wait.read())
            await asyncio.sleep(0)
            await wait.feed(RAW[come:])
        assert reader.result() == BODY


@pytest.mark.parametrize("is_lost", [True, False])
async def test_a_connection_ends_before_its_head_had_a_turn(is_lost: bool) -> None:
    async with waiting() as wait:
        wait.turns.demand += 1
        wait.wire.feed(memoryview(RAW))
        if is_lost:
            wait.connection.connection_lost(None)
        else:
            wait.connection.close()
        await asyncio.sleep(0)
        assert wait.calls == is_lost
        assert len(wait.rooms) == is_lost


async def test_what_is_no_head_fails_in_its_turn() -> None:
    async with waiting() as wait:
        wait.turns.demand += 1
        wait.wire.feed(memoryview(b"HTTP/1.1 206 Fine\r\nNo colon\r\n\r\n" + BODY))
        await asyncio.sleep(0)
        assert wait.wire.closed
        with pytest.raises(ConnectionFault):
            await wait.connection.response_head(5.0)


async def test_without_room_its_reader_gets_it_piece_by_piece() -> None:
    async with waiting(has_room=False) as wait:
        head = wait.wire.feed(memoryview(RAW))
        for _ in range(2):  # the head's step, and its reader's
            await asyncio.sleep(0)
        assert wait.calls == 1
        assert wait.connection.whole_head is None
        async with asyncio.TaskGroup() as tasks:
            reader = tasks.create_task(wait.read())
            await asyncio.sleep(0)
            await wait.feed(RAW[head:])
        assert reader.result() == BODY


@pytest.mark.parametrize("come", [1, 100_000, 300_000, len(BODY) - 1])
async def test_who_wants_the_first_bytes_gets_them_and_the_rest(come: int) -> None:
    """Somebody comes to wait for a body of which some bytes have come."""
    async with waiting() as wait:
        come += len(RAW) - len(BODY)
        await wait.feed(RAW[:come])
        assert wait.calls == 0
        async with asyncio.TaskGroup() as tasks:
            reader = tasks.create_task(wait.read())
            await asyncio.sleep(0)
            await wait.feed(RAW[come:])
        assert reader.result() == BODY


async def test_a_lost_connection_gives_what_has_come() -> None:
    async with waiting() as wait:
        await wait.feed(RAW[:300_000])
        wait.connection.connection_lost(None)
        await asyncio.sleep(0)
        assert wait.calls == 1
        assert wait.connection.whole_head is None
        await wait.connection.response_head(5.0)
        come = len(RAW[:300_000]) - (len(RAW) - len(BODY))
        received, buffer = bytearray(), memoryview(bytearray(len(BODY)))
        while len(received) < come:
            received += buffer[: await wait.connection.read_into(buffer, 5.0)]
        assert received == BODY[:come]
        with pytest.raises(ConnectionFault):
            await wait.connection.read_into(buffer, 5.0)


async def test_bytes_behind_it_end_the_connection() -> None:
    async with waiting() as wait:
        await wait.feed(RAW[:-1])
        wait.wire.feed(memoryview(RAW[-1:]))
        wait.wire.feed(memoryview(b"x"))
        await asyncio.sleep(0)
        assert wait.calls == 1
        assert await wait.read() == BODY
        assert wait.wire.closed
