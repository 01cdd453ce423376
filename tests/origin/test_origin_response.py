"""Response bodies: undecoded, with back-pressure, and every way of ending early."""

import asyncio
import gc

import pytest

from forebay.core.errors import OriginBroken, OriginUnreachable
from forebay.core.events import Event, OriginAnswered, OriginFailed
from forebay.origin.origin_limits import OriginLimits
from harness.inspection import run_loop_until
from harness.manual_timers import ManualTimers
from harness.origin_client import SHORT, client_of, get
from harness.scripted_origin import (
    Script,
    ScriptedConnection,
    never_respond,
    respond_always,
    scripted_origin,
    stall_in_body,
)


async def test_bodies_are_not_decoded_and_the_connection_is_kept() -> None:
    observed: list[Event] = []
    script = respond_always(200, "Content-Encoding: gzip\n", b"not gzip at all")
    async with scripted_origin(script) as origin, client_of(origin.url, observe=observed.append) as client:
        for _ in range(3):
            async with await client.send(get()) as answer:
                assert await answer.read(100) == b"not gzip at all"
                assert client.reads.in_use == 0
                assert await answer.next_piece() == b""
    assert origin.connections == 1
    assert [type(event) for event in observed] == [OriginAnswered] * 3


async def ends_early(line: ScriptedConnection) -> None:
    await line.read_request()
    await line.respond(200, "", b"ab", 4)


async def resets_within(line: ScriptedConnection) -> None:
    await ends_early(line)
    line.reset()


async def babbles(line: ScriptedConnection) -> None:
    await line.read_request()
    await line.send_raw(b"SSH-2.0-OpenSSH\r\n\r\n")
    await line.wait_closed()


async def no_end(line: ScriptedConnection) -> None:
    await line.read_request()
    await line.respond(200, "Connection: close\n", b"ab", -1)


async def cut_in_framing(line: ScriptedConnection) -> None:
    await line.read_request()
    await line.respond(200, "Transfer-Encoding: chunked\n", b"2\r\nab\r\n", -1)


@pytest.mark.parametrize(
    ("script", "error", "reason"),
    [
        (never_respond, OriginUnreachable, "no answer in time"),
        (stall_in_body, OriginBroken, "the body stalled"),
        (ends_early, OriginBroken, "the body ended early"),
        (resets_within, OriginBroken, "the body ended early"),
        (cut_in_framing, OriginBroken, "the body ended early"),
        (babbles, OriginBroken, "the answer is not HTTP"),
        (no_end, OriginBroken, "an answer without an end"),
    ],
)
async def test_foreign_errors_are_translated(script: Script, error: type[Exception], reason: str) -> None:
    observed: list[Event] = []
    async with scripted_origin(script) as origin, client_of(origin.url, SHORT, observed.append) as client:
        with pytest.raises(error) as raised:
            async with await client.send(get()) as answer:
                await answer.read(100)
        assert str(raised.value) == reason
        assert raised.value.__cause__ is None
        assert raised.value.__suppress_context__ or raised.value.__context__ is None
        assert [event.reason for event in observed if isinstance(event, OriginFailed)] == [reason]


async def test_refusals_may_end_with_the_connection() -> None:
    async def script(line: ScriptedConnection) -> None:
        await line.read_request()
        await line.respond(503, "Connection: close\n", b"<html>", -1)

    async with scripted_origin(script) as origin, client_of(origin.url) as client, await client.send(get()) as answer:
        assert (answer.status, await answer.read(100)) == (503, b"<html>")


async def test_closed_within_the_body() -> None:
    async with scripted_origin(stall_in_body) as origin, client_of(origin.url) as client:
        answer = await client.send(get())
        assert await answer.next_piece() == b"ab"
        answer.close()
        await origin.all_ended(1)
        assert await answer.next_piece() == b""


async def test_back_pressure_reaches_the_origin() -> None:
    """An origin with endless bytes gives no more than buffers hold to a reader who does not read."""
    sent = 0
    stuck = asyncio.Event()

    async def script(line: ScriptedConnection) -> None:
        nonlocal sent
        await line.read_request()
        await line.respond(200, "", b"", 1 << 40)
        transport = line.writer.transport
        while transport.get_write_buffer_size() < 1 << 21:
            transport.write(bytes(1 << 16))
            sent += 1 << 16
            await asyncio.sleep(0)
        stuck.set()
        await line.wait_closed()

    async with scripted_origin(script) as origin, client_of(origin.url) as client:
        answer = await client.send(get())
        await stuck.wait()
        assert len(await answer.next_piece()) <= 1 << 20
        answer.close()
    assert sent < 1 << 25


async def test_a_read_leaves_no_reference_cycles() -> None:
    """An answer that is dropped, a body half read: no warnings, which the test run makes errors."""
    async with scripted_origin(respond_always(200, "", b"x" * 1000)) as origin, client_of(origin.url) as client:
        for _ in range(3):
            async with await client.send(get()):
                pass
        gc.collect()
    assert origin.connections >= 1


async def test_a_slow_reader_loses_its_turn_to_a_waiter() -> None:
    """What it is sent next says so; the connection to the origin is dropped, and the reader has an unfinished body."""
    timers, limits = ManualTimers(), OriginLimits(reads=1, wait=60.0, min_client_rate=1000)
    paced = get()._replace(paced_by="response")
    async with (
        scripted_origin(stall_in_body, respond_always(200, "", b"x")) as origin,
        client_of(origin.url, limits, timers=timers) as client,
    ):
        slow = await client.send(paced)
        assert await slow.next_piece() == b"ab"
        timers.advance(60)
        assert client.reads.in_use == 1
        async with await client.send(get()) as answer:
            assert answer.status == 200
        with pytest.raises(ConnectionError):
            await slow.next_piece()
        slow.close()


async def test_a_slow_origin_makes_no_reader_slow() -> None:
    timers, limits = ManualTimers(), OriginLimits(reads=1, wait=60.0, min_client_rate=1000)
    async with (
        scripted_origin(stall_in_body) as origin,
        client_of(origin.url, limits, timers=timers) as client,
        await client.send(get()._replace(paced_by="response")) as answer,
        asyncio.TaskGroup() as group,
    ):
        assert await answer.next_piece() == b"ab"
        reading = group.create_task(answer.next_piece())
        await asyncio.sleep(0)
        timers.advance(60)
        waiting = group.create_task(client.send(get()))
        await run_loop_until(lambda: client.reads.waiting == 1)
        assert (client.reads.in_use, reading.done()) == (1, False)
        waiting.cancel()
        reading.cancel()
