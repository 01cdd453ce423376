"""The body of a small PUT by itself. Over a connection: tests/scenarios/test_arriving_uploads.py."""

import asyncio

import pytest

from forebay.core.errors import S3Error
from forebay.core.request_record import RequestRecord
from forebay.server.http.arriving_body import ArrivingBody
from harness.manual_timers import ManualTimers

STALL = 60.0


class Arrival:
    """A body of ten bytes, three of which came with the head."""

    def __init__(self, front: bytes = b"012") -> None:
        self.timers = ManualTimers()
        self.record = RequestRecord("PUT", 0.0, "id")
        self.continues = 0
        left = 10 - len(front)
        self.body = ArrivingBody(front, left, self.timers, STALL, self.record, self._continue)

    def _continue(self) -> None:
        self.continues += 1


async def test_a_body_that_is_here_is_not_waited_for() -> None:
    arrival = Arrival(b"0123456789")
    assert arrival.body.is_eof()
    assert await arrival.body.receive() == b"0123456789"
    assert (arrival.record.received, arrival.continues, arrival.timers.pending) == (10, 1, 0)


async def test_what_is_behind_it_is_returned() -> None:
    arrival = Arrival()
    assert arrival.body.feed(b"345") == b""
    assert not arrival.body.is_eof()
    assert arrival.body.feed(b"6789GET /") == b"GET /"
    assert arrival.body.is_eof()
    assert arrival.continues == 0
    assert await arrival.body.receive() == b"0123456789"
    assert arrival.record.received == 10


async def test_each_piece_has_its_time() -> None:
    arrival = Arrival()
    async with asyncio.TaskGroup() as group:
        receiving = group.create_task(arrival.body.receive())
        for byte in b"3456789":
            await arrival.timers.armed(STALL)
            assert arrival.continues == 1
            arrival.timers.advance(STALL - 1)
            arrival.body.feed(bytes([byte]))
            await asyncio.sleep(0)
            await asyncio.sleep(0)
    assert receiving.result() == b"0123456789"
    assert arrival.timers.pending == 0


async def test_a_body_that_stalls_is_given_up() -> None:
    arrival = Arrival()
    async with asyncio.TaskGroup() as group:
        receiving = group.create_task(_refusal(arrival.body))
        await arrival.timers.armed(STALL)
        arrival.timers.advance(STALL - 1)
        await asyncio.sleep(0)
        assert not receiving.done()
        arrival.timers.advance(1)
    assert (receiving.result(), arrival.record.received) == ("RequestTimeout", 3)


@pytest.mark.parametrize("waits", [False, True])
async def test_a_body_that_breaks_off_is_incomplete(waits: bool) -> None:
    arrival = Arrival()
    arrival.body.feed(b"3")
    asyncio.get_running_loop().call_soon(arrival.body.break_off) if waits else arrival.body.break_off()
    assert (await _refusal(arrival.body), arrival.record.received) == ("IncompleteBody", 4)
    with pytest.raises(ConnectionResetError):
        await arrival.body.readany()


async def _refusal(body: ArrivingBody) -> str:
    with pytest.raises(S3Error) as refusal:
        await body.receive()
    return refusal.value.code


async def test_a_body_that_came_whole_survives_the_connection() -> None:
    arrival = Arrival()
    async with asyncio.TaskGroup() as group:
        receiving = group.create_task(arrival.body.receive())
        await arrival.timers.armed(STALL)
        arrival.body.feed(b"3456789")
        arrival.body.break_off()
    assert receiving.result() == b"0123456789"
