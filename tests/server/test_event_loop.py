"""The event loop: due callbacks run in slices, on both kinds of loop, and connected sockets are closed once."""

import asyncio
import contextvars
import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, cast

import pytest
import uvloop

from forebay.server.event_loop import SLICE, loop_factory, sliced_loop
from harness.manual_timers import Clock

KINDS = [asyncio.SelectorEventLoop, uvloop.Loop]


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(params=KINDS, ids=["asyncio", "uvloop"])
def loop(request: pytest.FixtureRequest, clock: Clock) -> Iterator[asyncio.AbstractEventLoop]:
    kind: Callable[[], asyncio.AbstractEventLoop] = sliced_loop(request.param, clock)
    with closing(kind()) as made:
        yield made


def _readable(loop: asyncio.AbstractEventLoop, then: Callable[[], object]) -> list[socket.socket]:
    """Both ends of a connection; `then` is called when the loop sees that the first is readable."""
    ours, theirs = socket.socketpair()
    ours.setblocking(False)

    def look() -> None:
        loop.remove_reader(ours)
        then()

    loop.add_reader(ours, look)
    return [ours, theirs]


@pytest.mark.parametrize(("takes", "in_a_slice"), [(2 * SLICE, 1), (SLICE / 2.5, 3)])
def test_arriving_bytes_wait_for_two_slices_at_most(
    loop: asyncio.AbstractEventLoop, clock: Clock, takes: float, in_a_slice: int
) -> None:
    """Ten callbacks are due, and bytes arrive during the first: they wait for the end of that slice, on asyncio's own
    loop for that of the next."""
    log: list[object] = []
    ends = _readable(loop, lambda: log.append("arrived"))

    def work(number: int) -> None:
        if number == 0:
            ends[1].send(b"x")
        clock.now += takes
        log.append(number)

    async def wait_for_all() -> None:
        for number in range(10):
            loop.call_soon(work, number)
        while len(log) < 11:  # noqa: ASYNC110 # one turn more, each time
            await asyncio.sleep(0)

    loop.run_until_complete(wait_for_all())
    for end in ends:
        end.close()
    assert [entry for entry in log if entry != "arrived"] == list(range(10))
    assert log.index("arrived") <= 2 * in_a_slice


def test_due_callbacks_run_in_order_and_in_their_context(loop: asyncio.AbstractEventLoop) -> None:
    log: list[object] = []
    who = contextvars.ContextVar("who", default="nobody")

    def note(name: str) -> None:
        log.append((name, who.get()))
        if name == "first":
            loop.call_soon(note, "made due by the first")

    loop.call_soon(note, "first")
    who.set("somebody")
    loop.call_soon(note, "second")
    loop.call_soon(note, "cancelled").cancel()
    assert loop.call_soon(note, "third", context=contextvars.Context()).cancelled() is False
    loop.call_soon(loop.call_soon, loop.stop)
    loop.run_forever()
    assert log == [
        ("first", "nobody"),
        ("second", "somebody"),
        ("third", "nobody"),
        ("made due by the first", "nobody"),
    ]


def test_a_failing_callback_is_reported_and_the_others_run(loop: asyncio.AbstractEventLoop) -> None:
    log: list[dict[str, Any]] = []
    loop.set_exception_handler(lambda _, context: log.append(context))

    def fail() -> None:
        raise ValueError("a defect")

    ran: list[int] = []
    loop.call_soon(fail)
    loop.call_soon(ran.append, 1)
    loop.call_soon(loop.stop)
    loop.run_forever()
    assert ran == [1]
    assert [(type(each["exception"]), "fail" in each["message"]) for each in log] == [(ValueError, True)]


def test_an_interrupt_ends_the_loop_and_loses_no_callback(loop: asyncio.AbstractEventLoop) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    ran: list[int] = []
    loop.call_soon(interrupt)
    loop.call_soon(ran.append, 1)
    with pytest.raises(KeyboardInterrupt):
        loop.run_forever()
    loop.call_soon(loop.stop)
    loop.run_forever()
    assert ran == [1]


def test_the_serving_loop_is_a_sliced_uvloop() -> None:
    async def works() -> str:
        async with asyncio.TaskGroup() as group:
            task = group.create_task(asyncio.to_thread(str, 1))
        return await asyncio.wait_for(task, 5)

    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        assert "Sliced" in type(runner.get_loop()).__name__
        assert isinstance(runner.get_loop(), uvloop.Loop)
        assert runner.run(works()) == "1"


# Sockets


@pytest.fixture
def serving_loop() -> Iterator[asyncio.AbstractEventLoop]:
    with closing(loop_factory()()) as made:
        yield made


@pytest.fixture(params=["tcp", "unix"])
def ends(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[socket.socket, socket.socket]]:
    """Both ends of a connection: ours, and the peer's."""
    kind = socket.AF_INET if request.param == "tcp" else socket.AF_UNIX
    with socket.socket(kind, socket.SOCK_STREAM) as listening, socket.socket(kind, socket.SOCK_STREAM) as ours:
        listening.bind(("127.0.0.1", 0) if request.param == "tcp" else str(tmp_path / "socket"))
        listening.listen()
        ours.connect(listening.getsockname())
        ours.setblocking(False)
        other, _ = listening.accept()
        with other:
            yield ours, other


class Ends(asyncio.Protocol):
    """Notes the end of its connection; may end it as soon as it is connected."""

    def __init__(self, *, at_once: bool = False) -> None:
        self._at_once = at_once
        self.ended = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if self._at_once:
            cast("asyncio.WriteTransport", transport).abort()  # uvloop's is no subclass

    def connection_lost(self, exc: Exception | None) -> None:
        self.ended.set()


async def connect(protocol: Ends, ours: socket.socket) -> asyncio.WriteTransport:
    loop = asyncio.get_running_loop()
    if ours.family == socket.AF_UNIX:
        transport, _ = await loop.create_unix_connection(lambda: protocol, sock=ours)
    else:
        transport, _ = await loop.create_connection(lambda: protocol, sock=ours)
    return transport


def is_open(number: int) -> bool:
    return Path(f"/proc/self/fd/{number}").exists()


def test_the_loop_owns_the_descriptor_of_a_live_connection(
    serving_loop: asyncio.AbstractEventLoop, ends: tuple[socket.socket, socket.socket]
) -> None:
    ours, other = ends
    number = ours.fileno()

    async def scene() -> None:
        transport = await connect(ending := Ends(), ours)
        assert (ours.fileno(), is_open(number)) == (-1, True)
        ours.close()
        transport.write(b"still")
        assert await serving_loop.run_in_executor(None, other.recv, 5) == b"still"
        assert transport.get_extra_info("socket").fileno() == number
        transport.close()
        await ending.ended.wait()
        assert not is_open(number)

    serving_loop.run_until_complete(scene())


def test_no_object_keeps_the_descriptor_of_an_aborted_connection(
    serving_loop: asyncio.AbstractEventLoop, ends: tuple[socket.socket, socket.socket]
) -> None:
    ours, _ = ends

    async def scene() -> None:
        await connect(ending := Ends(at_once=True), ours)
        assert ours.fileno() == -1
        await ending.ended.wait()

    serving_loop.run_until_complete(scene())


def test_a_busy_loop_keeps_no_descriptor_of_a_reset_connection(
    serving_loop: asyncio.AbstractEventLoop, ends: tuple[socket.socket, socket.socket]
) -> None:
    """The task that connects runs slices later, behind others; the loop sees the connection's end before that."""
    ours, other = ends
    number, turns = ours.fileno(), 200

    def again() -> None:
        nonlocal turns
        until = serving_loop.time() + 2 * SLICE
        while serving_loop.time() < until:
            pass
        turns -= 1
        if turns > 0:
            serving_loop.call_soon(again)

    async def scene() -> None:
        connecting = serving_loop.create_task(connect(ending := Ends(), ours))
        other.close()
        for _ in range(20):
            again()
        await connecting
        await ending.ended.wait()
        assert (ours.fileno(), is_open(number)) == (-1, False)

    serving_loop.run_until_complete(scene())


@pytest.mark.parametrize("ends", ["tcp"], indirect=True)
def test_a_connection_that_fails_in_the_handshake_is_closed_once(
    serving_loop: asyncio.AbstractEventLoop, ends: tuple[socket.socket, socket.socket]
) -> None:
    ours, other = ends
    number = ours.fileno()
    context = ssl.create_default_context()

    async def scene() -> None:
        attempt = serving_loop.create_connection(asyncio.Protocol, sock=ours, ssl=context, server_hostname="host")
        connecting = serving_loop.create_task(attempt)
        await serving_loop.run_in_executor(None, other.recv, 1)
        other.close()
        with pytest.raises(ConnectionError):
            await connecting
        assert (ours.fileno(), is_open(number)) == (-1, False)

    serving_loop.run_until_complete(scene())


def test_a_cancelled_connect_leaves_the_socket_to_the_caller(
    serving_loop: asyncio.AbstractEventLoop, ends: tuple[socket.socket, socket.socket]
) -> None:
    ours, _ = ends
    number = ours.fileno()

    async def scene() -> None:
        connecting = serving_loop.create_task(connect(Ends(), ours))
        connecting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await connecting
        assert ours.fileno() == number
        assert is_open(number)

    serving_loop.run_until_complete(scene())
