"""The lane that a request takes, by what is under way on its connection, and how responses are written; without a
socket."""

import asyncio
import gc
from pathlib import Path
from typing import Any
from unittest.mock import create_autospec

from forebay.server.fastpath.client_state import ClientState
from forebay.server.fastpath.lane_answer import HitResponse
from forebay.server.http.client_connection import ClientConnection
from forebay.server.http.sendfile_writer import SendfileWriter
from harness.clients import path_of
from harness.fake.actions import HoldAfter
from harness.fake.gate import Gate
from harness.fake_origin import FakeOrigin
from harness.inspection import run_loop_until
from harness.manual_timers import ManualTimers
from harness.rig import Rig

HOT, COLD = path_of("b", "hot"), path_of("b", "cold")


class Written(asyncio.Transport):
    """A transport that keeps what was written, and can be waited for."""

    def __init__(self) -> None:
        super().__init__({"peername": ("127.0.0.1", 1)})
        self.content = b""
        self.pieces: list[bytes] = []
        """The bytes of each write."""
        self.more = asyncio.Event()
        self.aborted = asyncio.Event()

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.content += data
        self.pieces.append(bytes(data))
        self.more.set()

    def writelines(self, pieces: Any) -> None:
        self.write(b"".join(pieces))

    def is_closing(self) -> bool:
        return False

    def get_write_buffer_size(self) -> int:
        return 0

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def close(self) -> None: ...

    def abort(self) -> None:
        self.aborted.set()

    async def until(self, text: bytes, times: int) -> None:
        while self.content.count(text) < times:
            await self.more.wait()
            self.more.clear()


async def test_the_lane_depends_on_the_work_under_way(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path) as rig:
        origin.store.put("b", "hot", b"hot")
        origin.store.put("b", "cold", b"cold")
        client = rig.client()
        assert (await client.request("GET", HOT)).body == b"hot"
        hot, cold = (client.sign("GET", target).wire for target in (HOT, COLD))
        connection, transport = rig.worker.listener.server(), Written()
        connection.connection_made(transport)

        # A new connection: aiohttp's task has not run yet, but has nothing to do.
        connection.data_received(hot)
        assert transport.content.endswith(b"\r\n\r\nhot")

        # The full lane answers a request: later ones wait and are answered behind it.
        gate = Gate()
        origin.faults.add(HoldAfter(1, gate), key="cold", method="GET")
        connection.data_received(cold)
        before = transport.content
        connection.data_received(hot)
        assert transport.content == before
        gate.open()
        await transport.until(b"HTTP/1.1 200", 3)
        await transport.until(b"hot", 2)
        assert transport.content.index(b"\r\n\r\ncold") < transport.content.rindex(b"\r\n\r\nhot")

        # aiohttp has answered its only request: the next is for the fast lane, even before aiohttp's task runs again.
        origin.store.put("b", "new", b"new")
        seen = transport.content.count(b"HTTP/1.1 200")
        connection.data_received(client.sign("GET", path_of("b", "new")).wire)
        await transport.until(b"\r\n\r\nnew", 1)
        await run_loop_until(lambda: connection.is_idle)
        connection.data_received(hot)
        assert transport.content.endswith(b"\r\n\r\nhot")
        assert transport.content.count(b"HTTP/1.1 200") == seen + 2
        connection.connection_lost(None)


async def test_a_client_that_leaves_after_its_request_is_no_error(tmp_path: Path) -> None:
    errors: list[dict[str, object]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: errors.append(context))
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path) as rig:
        connection, transport = rig.worker.listener.server(), Written()
        connection.connection_made(transport)
        await asyncio.sleep(0)  # aiohttp's task waits for a request
        connection.data_received(rig.client().sign("DELETE", HOT).wire)
        connection.connection_lost(None)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    del connection
    gc.collect()
    assert errors == []
    assert transport.content == b""
    assert origin.log.count("DELETE") == 0


class Stuck(Written):
    """A transport whose client reads nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.connection: ClientConnection | None = None

    def write(self, _: bytes | bytearray | memoryview) -> None:
        assert self.connection is not None
        self.connection.pause_writing()


class Numbers:
    """In place of the fast lane: answers every head with its number, and `bodies` with a body of their own."""

    def __init__(self, bodies: frozenset[int] = frozenset()) -> None:
        self._bodies = bodies
        self._count = 0
        self.waited: list[bool] = []
        """For each, whether earlier responses had not been written."""

    def answer(self, _: bytes, caller: ClientState) -> HitResponse:
        self.waited.append(caller.has_unsent)
        self._count += 1
        head = b"%d;" % self._count
        if self._count in self._bodies:
            return head, (memoryview(b"body;"),), (), 5
        return head, (), (), 0


async def test_small_responses_to_pipelined_requests_share_a_write(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path) as rig:
        rig.worker.listener.reads.fast_lane = numbers = Numbers(frozenset({4}))  # type: ignore[assignment] # stands in
        connection, transport = rig.worker.listener.server(), Written()
        connection.connection_made(transport)
        connection.data_received(b"GET / HTTP/1.1\r\n\r\n" * 24)
        # No response overtakes an earlier one or waits for more than a bounded number of later ones.
        sixteen = b"".join(b"%d;" % number for number in range(5, 21))
        assert transport.pieces == [b"1;2;3;", b"4;body;", sixteen, b"21;22;23;24;"]
        assert [number for number, waited in enumerate(numbers.waited, 1) if not waited] == [1, 5, 21]
        connection.connection_lost(None)


def test_no_body_bypasses_the_transport_before_earlier_responses() -> None:
    sender = create_autospec(SendfileWriter, instance=True)
    sender.is_free = True
    caller = ClientState("127.0.0.1", lambda: sender)
    assert caller.sender is sender
    caller.has_unsent = True
    assert caller.sender is None


async def test_a_client_that_reads_no_small_response_is_broken_off(tmp_path: Path) -> None:
    rest, timers = '[limits]\nbody_timeout = "1s"\n', ManualTimers()
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, timers, rest=rest) as rig:
        rig.worker.listener.reads.fast_lane = Numbers()  # type: ignore[assignment] # stands in
        connection, transport = rig.worker.listener.server(), Stuck()
        transport.connection = connection
        connection.connection_made(transport)
        connection.data_received(b"GET / HTTP/1.1\r\n\r\n")
        timers.advance(0.9)
        assert not transport.aborted.is_set()
        timers.advance(0.1)
        assert transport.aborted.is_set()
        connection.connection_lost(None)


async def test_a_client_that_leaves_at_once_is_no_error(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path) as rig:
        failures: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, failure: failures.append(failure))
        connection = rig.worker.listener.server()
        connection.connection_made(Written())
        connection.connection_lost(ConnectionResetError())
        del connection
        for _ in range(3):
            await asyncio.sleep(0)  # aiohttp's task runs
        gc.collect()
        assert not failures


async def test_unsigned_reads_of_a_connection_are_admitted_each(tmp_path: Path) -> None:
    grants = '[auth.anonymous]\ngrants = [{ path = "*/open/**", allow = ["read"] }]\n'
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, rest=grants) as rig:
        origin.is_public = lambda _: True
        for key in ("open/1", "open/2", "closed/3"):
            origin.store.put("b", key, key.encode())
        connection, transport = rig.worker.listener.server(), Written()
        connection.connection_made(transport)
        for number, key in enumerate(("open/1", "open/2", "closed/3", "open/1"), 1):
            connection.data_received(f"GET {path_of('b', key)} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
            await transport.until(b"HTTP/1.1 ", number)
        await transport.until(b"open/1", 2)
        statuses = [piece[:3] for piece in transport.content.split(b"HTTP/1.1 ")[1:]]
        assert statuses == [b"200", b"200", b"403", b"200"]
        assert transport.content.count(b"\r\n\r\nopen/2") == 1
        assert b"\r\n\r\nclosed/3" not in transport.content
        connection.connection_lost(None)
