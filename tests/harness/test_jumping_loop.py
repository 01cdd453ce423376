"""The loop whose clock jumps: only where nothing else happens, and only when it is told to."""

import asyncio
import hashlib
import threading
import time
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from harness.jumping_loop import QUIET, JumpingLoop

T = TypeVar("T")


def run(work: Coroutine[Any, Any, T]) -> T:
    with asyncio.Runner(loop_factory=JumpingLoop) as runner:
        return runner.run(work)


def loop() -> JumpingLoop:
    found = asyncio.get_running_loop()
    assert isinstance(found, JumpingLoop)
    return found


async def seconds_of(delay: float) -> tuple[float, float]:
    """How long a sleep takes, by the loop's clock and really."""
    before, began = loop().time(), time.monotonic()
    await asyncio.sleep(delay)
    return loop().time() - before, time.monotonic() - began


def test_a_sleep_is_skipped() -> None:
    async def work() -> tuple[float, float]:
        with loop().jumping():
            return await seconds_of(3600)

    clock, real = run(work())
    assert clock >= 3600
    assert real < 60


def test_timers_fire_in_their_order() -> None:
    async def work() -> list[int]:
        fired: list[int] = []
        for delay in (30, 10, 20):
            loop().call_later(delay, fired.append, delay)
        with loop().jumping():
            await asyncio.sleep(60)
        return fired

    assert run(work()) == [10, 20, 30]


def test_what_comes_over_a_socket_is_not_overtaken_by_a_timeout() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(await reader.readexactly(1))
        writer.close()

    async def work() -> bytes:
        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        async with server:
            reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
            writer.write(b"a")
            with loop().jumping():
                async with asyncio.timeout(3600):
                    received = await reader.read(1)
            writer.close()
        return received

    assert run(work()) == b"a"


def is_waited_for(work: Callable[[], None]) -> bool:
    """Whether the clock lets a thread that no executor has come to its end."""

    async def wait() -> bool:
        ended, this_loop = asyncio.Event(), loop()

        def run_thread() -> None:
            work()
            this_loop.call_soon_threadsafe(ended.set)

        thread = threading.Thread(target=run_thread)
        thread.start()
        with this_loop.jumping():
            async with asyncio.timeout(60):
                await ended.wait()
        thread.join()
        return True

    return run(wait())


def test_a_thread_at_work_is_waited_for_that_no_executor_has() -> None:
    """As the SSD tier's writer, and the journal's commits."""

    def work() -> None:
        for _ in range(200):
            hashlib.sha256(bytes(1 << 20)).digest()  # without the interpreter's lock

    assert is_waited_for(work)


def test_a_thread_that_waits_for_the_interpreter_lock_is_waited_for() -> None:
    def work() -> None:
        data = bytes(4 << 10)
        for _ in range(50_000):  # each releases the lock, and waits for it behind the loop
            hashlib.sha256(data).digest()

    assert is_waited_for(work)


def test_a_thread_is_waited_for() -> None:
    async def work() -> int:
        with loop().jumping():
            async with asyncio.timeout(60):
                return await asyncio.to_thread(lambda: threading.Event().wait(QUIET * 20) or 7)

    assert run(work()) == 7


def test_the_clock_is_real_otherwise() -> None:
    clock, real = run(seconds_of(QUIET * 3))
    assert clock <= real + QUIET


def test_the_clock_can_be_advanced() -> None:
    async def work() -> bool:
        fired = asyncio.Event()
        loop().call_later(100, fired.set)
        loop().advance(100)
        await fired.wait()
        return True

    assert run(work())
