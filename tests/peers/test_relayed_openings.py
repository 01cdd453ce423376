"""Relayed openings: each ends, once, whatever becomes of the owner. The owner is a connection that a test answers."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pytest

from forebay.core.byte_ranges import Span
from forebay.core.fences import Fences, RequestTime
from forebay.core.heads import ObjectFacts, head_of
from forebay.core.names import ObjectName, Version
from forebay.core.task_registry import TaskRegistry
from forebay.peers.liveness import MAX_MISSED, Heartbeat
from forebay.peers.opening_frames import OpeningConnection, decode_request, encode_answer, encode_refusal
from forebay.peers.relayed_openings import RelayedOpenings, RelayedRead
from forebay.peers.unix_socket import connect
from forebay.server.rpc.peer_service import PeerService
from forebay.server.rpc.rpc_server import RpcServer
from harness.both_loops import NEEDS_PAUSES
from harness.inspection import run_loop_until
from harness.rpc_service import streaming_service


class OwnerEnd(OpeningConnection):
    """Notes the numbers of requests, and answers none by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.numbers: list[int] = []

    def frame_received(self, received: bytes, start: int, stop: int, body: memoryview | None) -> None:
        self.numbers.append(decode_request(received, start, stop).number)


class OtherConnection:
    """A connection to the same owner on which something else is waited for."""

    def __init__(self) -> None:
        self.frames_received = 0
        self.broken = asyncio.Event()

    def abort(self) -> None:
        self.broken.set()


@dataclass
class Owner:
    """An owner of which `openings` wants something."""

    directory: Path
    tasks: TaskRegistry
    ends: list[OwnerEnd] = field(default_factory=list)
    """Of each connection."""
    pings: int = 0
    answers_pings: bool = False

    def __post_init__(self) -> None:
        path = self.directory / "socket"
        self.heartbeat = Heartbeat(self.ping, self.tasks.spawn, "worker 1", interval=0.0, timeout=0.001)
        self.openings = RelayedOpenings(partial(connect, path), self.heartbeat, self.tasks.spawn)
        self.server = RpcServer(path, {})
        self.server.service = PeerService(streaming_service().writes, answer_openings=self.answer)

    def answer(self) -> OwnerEnd:
        self.ends.append(OwnerEnd())
        return self.ends[-1]

    async def ping(self) -> None:
        self.pings += 1
        if not self.answers_pings:
            await asyncio.Event().wait()

    async def connect(self) -> OwnerEnd:
        """Makes the connection that carries openings."""
        known = len(self.ends)
        assert self.begin() is None
        await self.tasks.wait_idle()
        assert len(self.ends) == known + 1
        return self.ends[-1]

    def begin(
        self,
        on_ready: Callable[[], None] = lambda: None,
        key: str = "key",
        make_room: Callable[[int], memoryview | None] = lambda _: None,
    ) -> RelayedRead | None:
        requested = RequestTime(Fences().now(), 0.0)
        return self.openings.send(ObjectName("bucket", key), Span(0, 100), requested, on_ready, make_room)

    def wanted(self, on_ready: Callable[[], None] = lambda: None) -> RelayedRead:
        read = self.begin(on_ready)
        assert read is not None
        return read


@asynccontextmanager
async def owner(directory: Path) -> AsyncIterator[Owner]:
    node, problems = Owner(directory, TaskRegistry()), list[dict[str, object]]()
    asyncio.get_running_loop().set_exception_handler(lambda _, problem: problems.append(problem))
    await node.server.start()
    try:
        async with asyncio.timeout(20):
            yield node
    finally:
        node.openings.close()
        await node.server.close()
        await node.tasks.close()
    assert problems == []


async def test_a_silent_owner_ends_its_openings(tmp_path: Path) -> None:
    async with owner(tmp_path) as node:
        await node.connect()
        ended = asyncio.Event()
        read = node.wanted(ended.set)
        await ended.wait()
        assert read.answer is None
        assert node.pings >= MAX_MISSED
        node.answers_pings = True
        await node.tasks.wait_idle()
        await node.connect()


async def test_nothing_is_wanted_of_a_silent_owner(tmp_path: Path) -> None:
    async with owner(tmp_path) as node:
        end = await node.connect()
        node.heartbeat.watch(other := OtherConnection())
        await other.broken.wait()
        assert node.begin() is None
        assert end.numbers == []
        node.answers_pings = True
        await node.tasks.wait_idle()
        node.wanted().close()


@pytest.mark.parametrize("end_of_it", ["answered", "closed", "lost"])
async def test_an_idle_connection_is_not_watched(tmp_path: Path, end_of_it: str) -> None:
    """The pings stop: nobody waits for the owner."""
    async with owner(tmp_path) as node:
        node.answers_pings = True
        end = await node.connect()
        ended = asyncio.Event()
        read = node.wanted(ended.set)
        await run_loop_until(lambda: bool(end.numbers))
        match end_of_it:
            case "answered":
                end.write(encode_refusal(end.numbers[0]))
                await ended.wait()
            case "closed":
                read.close()
            case _:
                end.abort()
                await ended.wait()
        await node.tasks.wait_idle()


async def test_an_owner_that_answers_openings_is_not_silent(tmp_path: Path) -> None:
    async with owner(tmp_path) as node:
        end = await node.connect()
        ended = asyncio.Event()
        node.wanted(ended.set)
        while node.pings < 5 * MAX_MISSED:
            before = node.pings
            end.write(encode_refusal(1000))  # of an opening that was closed
            await run_loop_until(lambda before=before: node.pings > before)  # type: ignore[misc] # a lambda's argument
        assert not node.heartbeat.is_silent
        assert not ended.is_set()


async def test_an_answer_that_does_not_fit_ends_its_opening(tmp_path: Path) -> None:
    async with owner(tmp_path) as node:
        end = await node.connect()
        ended = asyncio.Event()
        read = node.wanted(ended.set)
        await run_loop_until(lambda: bool(end.numbers))
        refusal = encode_refusal(end.numbers[0])
        end.write((len(refusal) - 3).to_bytes(4, "big") + refusal[4:] + b"?")
        await ended.wait()
        assert read.answer is None
        await end.ended


async def test_an_owner_that_ends_within_a_large_body_has_not_answered(tmp_path: Path) -> None:
    async with owner(tmp_path) as node:
        end, ended, rooms = await node.connect(), asyncio.Event(), list[memoryview]()

        def make_room(size: int) -> memoryview:
            rooms.append(memoryview(bytearray(size)))
            return rooms[-1]

        read = node.begin(ended.set, make_room=make_room)
        assert read is not None
        await run_loop_until(lambda: bool(end.numbers))
        size = 1 << 20
        facts = ObjectFacts(Version('"etag"'), size, "Tue, 24 Nov 2026 12:00:00 GMT", ())
        head = encode_answer(end.numbers[0], head_of(facts, size, 0.0))
        assert head is not None
        end.write(head, memoryview(b"x" * (size // 2)))
        await run_loop_until(lambda: bool(rooms) and rooms[0][size // 2 - 1] == ord("x"))
        assert not ended.is_set()
        end.abort()
        await ended.wait()
        assert (read.answer, len(rooms)) == (None, 1)


@NEEDS_PAUSES
async def test_an_owner_that_reads_nothing_is_not_sent_more(tmp_path: Path) -> None:
    async with owner(tmp_path) as node:
        node.answers_pings = True
        end = await node.connect()
        assert end.transport is not None
        end.transport.pause_reading()
        sent = 0
        while sent < 2000 and (read := node.begin(key="k" * 50_000)) is not None:
            sent += 1
            read.close()
            await asyncio.sleep(0)
        assert 1 < sent < 2000


async def test_openings_closed_meanwhile_hear_nothing(tmp_path: Path) -> None:
    async with owner(tmp_path) as node:
        node.answers_pings = True
        end = await node.connect()
        heard: list[str] = []

        def first_ended() -> None:
            heard.append("first")
            second.close()
            ended.set()

        ended = asyncio.Event()
        node.wanted(first_ended)
        second = node.wanted(lambda: heard.append("second"))
        await run_loop_until(lambda: len(end.numbers) == 2)
        end.abort()
        await ended.wait()
        await node.tasks.wait_idle()
        assert heard == ["first"]


async def test_an_owner_is_connected_to_again(tmp_path: Path) -> None:
    async with owner(tmp_path) as node:
        service, node.server.service = node.server.service, None
        assert node.begin() is None
        assert node.begin() is None  # the connection is being made
        assert len(node.tasks) == 1
        await node.tasks.wait_idle()
        assert node.ends == []
        node.server.service = service
        await node.connect()
        node.wanted().close()


async def test_the_connection_closes_with_its_worker(tmp_path: Path) -> None:
    async with owner(tmp_path) as node:
        end = await node.connect()
        node.openings.close()
        await end.ended
