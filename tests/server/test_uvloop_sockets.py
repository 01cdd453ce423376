"""Sockets that the loop is given: whatever becomes of the connection, nobody closes a number that is not theirs."""

import asyncio
import socket
import ssl
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import cast

import pytest

from forebay.server.event_loop import SLICE, loop_factory


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    with closing(loop_factory()()) as made:
        yield made


@pytest.fixture(params=["tcp", "unix"])
def ends(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[socket.socket, socket.socket]]:
    """Of one connection: ours, and the other."""
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
    """Tells of its end; may cause it as soon as it is connected."""

    def __init__(self, *, at_once: bool = False) -> None:
        self._at_once = at_once
        self.ended = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if self._at_once:
            cast("asyncio.WriteTransport", transport).abort()  # uvloop's is no subclass

    def connection_lost(self, exc: Exception | None) -> None:
        self.ended.set()


async def give(protocol: Ends, ours: socket.socket) -> asyncio.WriteTransport:
    loop = asyncio.get_running_loop()
    if ours.family == socket.AF_UNIX:
        transport, _ = await loop.create_unix_connection(lambda: protocol, sock=ours)
    else:
        transport, _ = await loop.create_connection(lambda: protocol, sock=ours)
    return transport


def is_open(number: int) -> bool:
    return Path(f"/proc/self/fd/{number}").exists()


def test_a_connection_that_lives_is_the_loops(
    loop: asyncio.AbstractEventLoop, ends: tuple[socket.socket, socket.socket]
) -> None:
    ours, other = ends
    number = ours.fileno()

    async def scene() -> None:
        transport = await give(ending := Ends(), ours)
        assert (ours.fileno(), is_open(number)) == (-1, True)
        ours.close()
        transport.write(b"still")
        assert await loop.run_in_executor(None, other.recv, 5) == b"still"
        assert transport.get_extra_info("socket").fileno() == number
        transport.close()
        await ending.ended.wait()
        assert not is_open(number)

    loop.run_until_complete(scene())


def test_one_that_ends_as_it_begins_leaves_nobody_with_its_number(
    loop: asyncio.AbstractEventLoop, ends: tuple[socket.socket, socket.socket]
) -> None:
    ours, _ = ends

    async def scene() -> None:
        await give(ending := Ends(at_once=True), ours)
        assert ours.fileno() == -1
        await ending.ended.wait()

    loop.run_until_complete(scene())


def test_one_that_the_other_end_ends_while_the_loop_is_busy_leaves_nobody_with_its_number(
    loop: asyncio.AbstractEventLoop, ends: tuple[socket.socket, socket.socket]
) -> None:
    """The turn of who waits for the connection comes behind others', slices later: its end is seen before that."""
    ours, other = ends
    number, turns = ours.fileno(), 200

    def again() -> None:
        nonlocal turns
        until = loop.time() + 2 * SLICE
        while loop.time() < until:
            pass
        turns -= 1
        if turns > 0:
            loop.call_soon(again)

    async def scene() -> None:
        giving = loop.create_task(give(ending := Ends(), ours))
        other.close()
        for _ in range(20):
            again()
        await giving
        await ending.ended.wait()
        assert (ours.fileno(), is_open(number)) == (-1, False)

    loop.run_until_complete(scene())


@pytest.mark.parametrize("ends", ["tcp"], indirect=True)
def test_one_that_breaks_in_the_handshake_is_closed_once(
    loop: asyncio.AbstractEventLoop, ends: tuple[socket.socket, socket.socket]
) -> None:
    ours, other = ends
    number = ours.fileno()
    context = ssl.create_default_context()

    async def scene() -> None:
        asked = loop.create_connection(asyncio.Protocol, sock=ours, ssl=context, server_hostname="host")
        connecting = loop.create_task(asked)
        await loop.run_in_executor(None, other.recv, 1)
        other.close()
        with pytest.raises(ConnectionError):
            await connecting
        assert (ours.fileno(), is_open(number)) == (-1, False)

    loop.run_until_complete(scene())


def test_one_that_is_given_up_before_it_was_given_stays_the_callers(
    loop: asyncio.AbstractEventLoop, ends: tuple[socket.socket, socket.socket]
) -> None:
    ours, _ = ends
    number = ours.fileno()

    async def scene() -> None:
        giving = loop.create_task(give(Ends(), ours))
        giving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await giving
        assert ours.fileno() == number
        assert is_open(number)

    loop.run_until_complete(scene())
