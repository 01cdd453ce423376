"""Byte streams: every byte in order, into the reader's buffer, and no faster than it reads."""

import asyncio
import random
import socket
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, TypeAlias

import pytest

from forebay.core.task_registry import TaskRegistry
from forebay.peers.byte_stream import ByteStream
from harness.both_loops import BOTH_LOOPS, run_on
from harness.inspection import run_loop_until

LoopFactory: TypeAlias = Callable[[], asyncio.AbstractEventLoop]
CONTENT = random.Random(7).randbytes(3_000_000)


@asynccontextmanager
async def connected() -> AsyncIterator[tuple[ByteStream, ByteStream]]:
    """Both ends of a connection."""
    loop = asyncio.get_running_loop()
    ends = [(await loop.create_connection(ByteStream, sock=sock))[1] for sock in socket.socketpair()]
    try:
        yield ends[0], ends[1]
    finally:
        for end in ends:
            end.transport.abort()


async def send(end: ByteStream, content: bytes, piece: int) -> None:
    for start in range(0, len(content), piece):
        end.write(memoryview(content)[start : start + piece])
        await end.drain()


@BOTH_LOOPS
@pytest.mark.parametrize("piece", [1_000, 262_144, 3_000_000])
def test_bytes_are_read_in_order_however_they_are_sent(loop: LoopFactory, piece: int) -> None:
    async def scenario() -> None:
        chance, received = random.Random(piece), bytearray()
        async with connected() as (ours, theirs), asyncio.timeout(60):
            sending = TaskRegistry().spawn(send(theirs, CONTENT, piece), "waits")
            while left := len(CONTENT) - len(received):
                wanted = min(left, chance.choice((1, 5, 300, 16_384, 16_385, 200_000)))
                if chance.random() < 0.5:
                    received += await ours.read_exactly(wanted)
                    continue
                target = memoryview(bytearray(wanted))
                count = await ours.read_into(target)
                assert 0 < count <= wanted
                received += target[:count]
            await sending
            assert received == CONTENT

    run_on(loop, scenario())


@BOTH_LOOPS
def test_a_writer_waits_for_the_reader(loop: LoopFactory) -> None:
    async def scenario() -> None:
        async with connected() as (ours, theirs), asyncio.timeout(60):
            sending = TaskRegistry().spawn(send(theirs, CONTENT, 100_000), "waits")
            await run_loop_until(lambda: theirs.transport.get_write_buffer_size() > 500_000)
            assert not sending.done()
            assert await ours.read_exactly(len(CONTENT)) == CONTENT
            await sending

    run_on(loop, scenario())


@BOTH_LOOPS
def test_what_has_come_is_read_behind_the_end(loop: LoopFactory) -> None:
    async def scenario() -> None:
        async with connected() as (ours, theirs), asyncio.timeout(60):
            theirs.write(b"head", b"rest")
            theirs.transport.close()
            await run_loop_until(lambda: ours.has_ended)
            assert await ours.read_exactly(4) == b"head"
            target = memoryview(bytearray(9))
            assert (await ours.read_into(target), bytes(target[:4])) == (4, b"rest")
            assert not await ours.wait_readable()
            for read in (ours.read_exactly(1), ours.read_into(target)):
                with pytest.raises(ConnectionResetError):
                    await read

    run_on(loop, scenario())


ENDED: list[Callable[[ByteStream], Coroutine[Any, Any, object]]] = [
    lambda stream: stream.read_exactly(9),
    lambda stream: stream.read_exactly(1_000_000),
    lambda stream: stream.read_into(memoryview(bytearray(9))),
    lambda stream: send(stream, CONTENT, 1_000_000),
]


@BOTH_LOOPS
@pytest.mark.parametrize("wait", ENDED, ids=["head", "document", "body", "drain"])
def test_the_end_ends_every_wait(loop: LoopFactory, wait: Callable[[ByteStream], Coroutine[Any, Any, object]]) -> None:
    async def scenario() -> None:
        async with connected() as (ours, theirs), asyncio.timeout(60):
            theirs.transport.pause_reading()
            waiting = TaskRegistry().spawn(wait(ours), "waits")
            await asyncio.sleep(0)
            theirs.transport.abort()
            with pytest.raises(ConnectionResetError):
                await waiting
            await run_loop_until(lambda: ours.has_ended)
            with pytest.raises(ConnectionResetError):
                await wait(ours)

    run_on(loop, scenario())


@BOTH_LOOPS
def test_a_wait_for_bytes_takes_none(loop: LoopFactory) -> None:
    async def scenario() -> None:
        async with connected() as (ours, theirs), asyncio.timeout(60):
            waiting = TaskRegistry().spawn(ours.wait_readable(), "waits")
            await asyncio.sleep(0)
            waiting.cancel()
            await asyncio.wait([waiting])
            theirs.write(b"bytes")
            assert await ours.wait_readable()
            assert await ours.wait_readable()
            assert await ours.read_exactly(5) == b"bytes"

    run_on(loop, scenario())
