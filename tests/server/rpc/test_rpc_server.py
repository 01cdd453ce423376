"""What the RPC server answers on each kind of connection, and when it ends one. Its methods: test_peer_service."""

import asyncio
import os
import socket
from collections.abc import AsyncIterator
from contextlib import nullcontext, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import pytest

from forebay.core.errors import PeerUnavailable, Throttled
from forebay.core.task_registry import TaskRegistry
from forebay.peers.byte_stream import ByteStream
from forebay.peers.frames import Channel, Document
from forebay.server.event_loop import loop_factory
from forebay.server.rpc.peer_service import PeerService
from forebay.server.rpc.rpc_methods import OpenWrites, ResponseWriter, RpcMethods
from forebay.server.rpc.rpc_server import RpcServer, StreamingCall
from harness.inspection import run_loop_until


@pytest.mark.parametrize("turns", range(8))
def test_a_connection_ends_with_the_server_however_far_it_is(tmp_path: Path, turns: int) -> None:
    """What nobody closes, as its task had not begun, is found by the garbage collector, long after the loop. In a
    worker's own loop: asyncio's leaves a socket open whose transport is not made yet."""

    async def end() -> None:
        server = RpcServer(tmp_path / "socket", {})
        await server.start()
        loop = asyncio.get_running_loop()
        with socket.socket(socket.AF_UNIX) as client:
            client.setblocking(False)
            client.connect(str(tmp_path / "socket"))
            for _ in range(turns):
                await asyncio.sleep(0)
            await server.close()
            async with asyncio.timeout(20):
                with suppress(ConnectionResetError):  # nobody had accepted it
                    assert await loop.sock_recv(client, 1) == b""

    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(end())


@pytest.mark.skipif(os.geteuid() != 0, reason="another user needs root")
@pytest.mark.parametrize("user", [0, 54_321], ids=["own", "another"])
async def test_another_user_is_disconnected(user: int) -> None:
    """Whatever the modes of the socket and its directory are: the kernel is asked."""
    calls: list[Document] = []

    async def control(request: Document) -> Document:
        calls.append(request)
        return {}

    with TemporaryDirectory() as directory:
        path = Path(directory, "socket")
        server = RpcServer(path, {"stop": control})
        await server.start()
        for each, mode in ((path, 0o666), (path.parent, 0o755)):
            await asyncio.to_thread(each.chmod, mode)
        os.seteuid(user)
        try:
            channel = await connected(path)
        finally:
            os.seteuid(0)
        with pytest.raises(PeerUnavailable) if user else nullcontext():
            for number, kind in enumerate(("link", "stop")):
                await channel.send({"kind": kind, "id": number})
                await channel.receive_document()
        assert len(calls) == (0 if user else 1)
        channel.close()
        await server.close()


async def connected(path: Path) -> Channel:
    """A connection to the server at `path`, whoever it is."""
    _, stream = await asyncio.get_running_loop().create_unix_connection(ByteStream, str(path))
    return Channel(stream, 0)


class Service:
    """A peer service of methods that the tests call, and what was called."""

    def __init__(self) -> None:
        self.ended: list[list[object]] = []
        self.released = asyncio.Event()
        self.begun, self.cancelled = asyncio.Event(), asyncio.Event()
        writes: Any = self
        self.methods = RpcMethods(
            streaming={"stream": self.stream, "wait": self.wait, "held": self.held},
            ordered={"begin": self.begin, "nothing": lambda _request, _writes: None},
            unary={"late": self.late, "fail": self.fail},
        )
        self.service = PeerService(writes)

    async def caller_died(self, writes: OpenWrites) -> None:
        self.ended.append(list(writes.remaining()))

    async def stream(self, request: Document, out: ResponseWriter) -> None:
        if request.get("fails"):
            await self.fail(request)
        await out.send({"said": request["say"]})
        await out.send_end()

    async def wait(self, _request: Document, _out: ResponseWriter) -> None:
        self.begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.cancelled.set()

    async def held(self, request: Document, out: ResponseWriter) -> None:
        self.begun.set()
        await self.released.wait()
        await self.stream(request, out)

    def begin(self, request: Document, writes: OpenWrites) -> Document:
        affected: Any = request["affected"]
        writes.add(int(request["write"]), affected)
        return {"begun": request["write"]}

    async def late(self, request: Document) -> Document:
        await self.released.wait()
        return {"late": request["id"]}

    async def fail(self, request: Document) -> Document:
        failures: dict[str, Exception] = {
            "known": Throttled("too many"),
            "defect": KeyError("a defect"),
            "unreadable": PeerUnavailable("does not fit"),
        }
        raise failures[request["fails"]]


class Connection:
    """A connection of another process to the server."""

    def __init__(self, channel: Channel) -> None:
        self.channel = channel

    async def call(self, kind: str, **request: object) -> Document:
        await self.channel.send({"kind": kind, **request})
        return await self.channel.receive_document()

    async def is_ended(self) -> bool:
        """Waits for the server to end the connection."""
        with pytest.raises(PeerUnavailable):
            await self.channel.receive()
        return True


class Served(NamedTuple):
    """A server with a service, which the tests may take away."""

    server: RpcServer
    service: Service
    path: Path
    channels: list[Channel]

    async def connect(self) -> Connection:
        self.channels.append(await connected(self.path))
        return Connection(self.channels[-1])


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Served]:
    service = Service()

    async def control(request: Document) -> Document:
        if request["why"] == "late":
            await service.released.wait()
        return {"stopped": request["why"]}

    server = RpcServer(tmp_path / "socket", {"stop": control})
    await server.start()
    server.service = service.service
    made = Served(server, service, tmp_path / "socket", [])
    yield made
    for channel in made.channels:
        channel.close()
    await server.close()
    for _ in range(2):  # of the loop, in which transports close their sockets
        await asyncio.sleep(0)


async def test_the_socket_is_of_its_user_alone_and_in_one_step(served: Served) -> None:
    assert served.path.stat().st_mode & 0o777 == 0o600
    assert list(served.path.parent.iterdir()) == [served.path]


async def test_a_link_answers_numbered_calls_in_any_order(served: Served) -> None:
    link = await served.connect()
    assert await link.call("link", id=1) == {"process": served.server.instance_id, "id": 1}
    assert await link.call("ping", id=2) == {"id": 2}
    await link.channel.send({"kind": "late", "id": 3})
    assert await link.call("stop", id=4, why="asked") == {"stopped": "asked", "id": 4}
    assert await link.call("begin", id=5, write=7, affected=["a"]) == {"begun": 7, "id": 5}
    await link.channel.send({"kind": "begin", "write": 8, "affected": ["b"]})  # nobody waits for its response
    assert await link.call("nothing", id=6) == {"id": 6}
    served.service.released.set()
    assert await link.channel.receive_document() == {"late": 3, "id": 3}
    link.channel.close()
    await run_loop_until(lambda: served.service.ended == [[["a"], ["b"]]])


@pytest.mark.parametrize(
    ("fails", "failure"),
    [
        ("known", {"failure": "Throttled", "reason": "too many"}),
        ("defect", {"failure": "OriginBroken", "reason": "KeyError in another worker"}),
    ],
)
async def test_a_failure_of_a_call_ends_no_link(
    served: Served, fails: str, failure: Document, caplog: pytest.LogCaptureFixture
) -> None:
    link = await served.connect()
    await link.call("link", id=1)
    assert await link.call("fail", id=2, fails=fails) == {**failure, "id": 2}
    assert await link.call("ping", id=3) == {"id": 3}
    assert [record.message for record in caplog.records] == (["fail failed"] if fails == "defect" else [])
    link.channel.close()


@pytest.mark.parametrize("request_", [{"kind": "fail", "fails": "unreadable"}, {"kind": "unknown"}])
async def test_a_call_that_does_not_fit_ends_the_link(
    served: Served, request_: Document, caplog: pytest.LogCaptureFixture
) -> None:
    link = await served.connect()
    await link.call("link", id=1)
    await link.channel.send({**request_, "id": 2})
    assert await link.is_ended()
    await run_loop_until(lambda: served.service.ended == [[]])
    (record,) = caplog.records
    assert record.message.startswith(f"{request_['kind']} was not understood")


@pytest.mark.parametrize("has_service", [True, False])
async def test_a_slow_call_of_the_supervisor_holds_no_other(served: Served, *, has_service: bool) -> None:
    if not has_service:
        served.server.service = None
    link = await served.connect()
    await link.call("link", id=1)
    await link.channel.send({"kind": "stop", "id": 2, "why": "late"})
    assert await link.call("ping", id=3) == {"id": 3}
    served.service.released.set()
    assert await link.channel.receive_document() == {"stopped": "late", "id": 2}


async def test_a_response_to_a_caller_that_has_left_is_dropped(
    served: Served, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "forebay.core.task_registry")
    link = await served.connect()
    await link.call("link", id=1)
    await link.channel.send({"kind": "late", "id": 2})
    assert await link.call("ping", id=3) == {"id": 3}
    link.channel.close()
    await run_loop_until(lambda: bool(served.service.ended))
    served.service.released.set()
    await run_loop_until(lambda: all(task.get_name() != "call late" for task in asyncio.all_tasks()))
    await asyncio.sleep(0)  # in which the registry logs how the task ended
    assert caplog.records == []


async def test_a_worker_that_has_not_started_knows_nothing(served: Served) -> None:
    served.server.service = None
    link = await served.connect()
    await link.call("link", id=1)
    assert await link.call("begin", id=2) == {"writes": [], "id": 2}
    link.channel.close()
    for kind in ("stream", "openings"):
        other = await served.connect()
        await other.channel.send({"kind": kind, "say": 1})
        assert await other.is_ended()
    assert served.service.ended == []


async def test_a_stream_is_followed_by_another_one(served: Served) -> None:
    connection = await served.connect()
    failures = {
        "known": {"failure": "Throttled", "reason": "too many"},
        "defect": {"failure": "OriginBroken", "reason": "a defect in another worker"},
    }
    for fails, failure in failures.items():
        assert await connection.call("stream", say=1) == {"said": 1}
        assert (await connection.channel.receive()).kind is not None  # its end
        assert await connection.call("stream", fails=fails) == failure
    await connection.channel.send({"kind": "stream", "fails": "unreadable"})
    assert await connection.is_ended()


@pytest.mark.parametrize("kind", ["ping", "begin", "late", "unknown", "openings"])
async def test_what_is_no_stream_has_no_connection_of_its_own(served: Served, kind: str) -> None:
    connection = await served.connect()
    await connection.channel.send({"kind": kind, "id": 1})
    assert await connection.is_ended()


async def test_a_stream_whose_caller_hangs_up_is_interrupted(served: Served) -> None:
    connection = await served.connect()
    await connection.channel.send({"kind": "wait"})
    await served.service.begun.wait()
    connection.channel.close()
    await served.service.cancelled.wait()


async def test_a_call_that_took_long_is_followed_by_another_one(served: Served) -> None:
    """Meanwhile the connection was read, to see whether the caller hangs up."""
    connection = await served.connect()
    await connection.channel.send({"kind": "held", "say": 1})
    await served.service.begun.wait()
    await run_loop_until(lambda: any(task.get_name() == "watch" for task in asyncio.all_tasks()))
    served.service.released.set()
    assert await connection.channel.receive_document() == {"said": 1}
    await connection.channel.receive()  # its end
    await run_loop_until(lambda: all(task.get_name() != "watch" for task in asyncio.all_tasks()))
    assert await connection.call("stream", say=2) == {"said": 2}


class WatchedChannel(Channel):
    """A channel whose other end hangs up when it is told to."""

    def __init__(self) -> None:
        self.hung_up = asyncio.Event()
        self.watches = 0

    async def wait_closed(self) -> bool:
        self.watches += 1
        return await self.hung_up.wait()


async def test_a_call_is_watched_once_when_it_is_due() -> None:
    channel, tasks = WatchedChannel(), TaskRegistry()
    call = StreamingCall(channel, tasks, due=10.0)
    call.examine(9.9)
    call.postpone(5.0)  # the process was suspended, or the loop was late
    call.examine(14.9)
    assert len(tasks) == 0
    for _ in range(2):
        call.examine(15.0)
    assert len(tasks) == 1
    await run_loop_until(lambda: channel.watches == 1)
    await call.end()
    assert len(tasks) == 0, "although the caller is still there"


async def test_a_call_that_was_not_watched_ends_at_once() -> None:
    call = StreamingCall(WatchedChannel(), TaskRegistry(), due=10.0)
    await call.end()


async def test_nothing_is_kept_of_a_connection_that_ended(served: Served) -> None:
    for kind in ("stream", "link", "unknown"):
        connection = await served.connect()
        await connection.channel.send({"kind": kind, "id": 1, "say": 1})
        with suppress(PeerUnavailable):
            await connection.channel.receive()
        connection.channel.close()
    await run_loop_until(lambda: not served.server._channels)  # noqa: SLF001 # what would be kept
