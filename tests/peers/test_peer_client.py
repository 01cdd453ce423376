"""The peer client: calls, calls until acknowledged and streams, over real sockets."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from weakref import WeakSet

import pytest

from forebay.core.errors import ForebayError, OriginBroken, PeerNotListening, PeerUnavailable, Throttled, VersionChanged
from forebay.core.task_registry import TaskRegistry
from forebay.peers.frames import MAX_PAYLOAD, WHOLE_PAYLOAD, Channel, Document
from forebay.peers.peer_client import Peer
from forebay.peers.unix_socket import connect
from forebay.server.rpc.rpc_methods import ResponseWriter
from forebay.server.rpc.rpc_server import WATCHED_AFTER, RpcServer
from harness.inspection import run_loop_until
from harness.rpc_service import streaming_service


@asynccontextmanager
async def serving(path: Path, methods: dict[str, Any]) -> AsyncIterator[Peer]:
    server, tasks = RpcServer(path, methods), TaskRegistry()
    await server.start()
    peer = Peer(1, path, 0, tasks.spawn)
    try:
        yield peer
    finally:
        peer.close()
        await server.close()
        await tasks.close()


async def test_responses_come_in_any_order_and_failures_with_their_type(tmp_path: Path) -> None:
    first = asyncio.Event()

    async def slow(_: Document) -> Document:
        await first.wait()
        return {"slow": True}

    async def quick(request: Document) -> Document:
        first.set()
        return {"value": request["value"]}

    async def fails(_: Document) -> Document:
        raise Throttled("not now")

    async with serving(tmp_path / "socket", {"slow": slow, "quick": quick, "fails": fails}) as peer:
        assert (tmp_path / "socket").stat().st_mode & 0o777 == 0o600
        async with asyncio.TaskGroup() as group:
            slowly = group.create_task(peer.call({"kind": "slow"}))
            assert await peer.call({"kind": "quick", "value": 7}) == {"value": 7}
        assert slowly.result() == {"slow": True}
        with pytest.raises(Throttled, match="not now"):
            await peer.call({"kind": "fails"})
        assert await peer.call_until_acked({"kind": "fence", "names": []}, 5.0), "acknowledged without a service"
        assert await peer.answer_until_acked({"kind": "quick", "value": 8}, 5.0) == {"value": 8}


async def test_a_call_without_a_listener_raises_peer_unavailable(tmp_path: Path) -> None:
    tasks = TaskRegistry()
    peer = Peer(1, tmp_path / "socket", 0, tasks.spawn)
    with pytest.raises(PeerUnavailable) as gone:
        await connect(tmp_path / "socket")
    assert not isinstance(gone.value, PeerNotListening), "a live process may have had its socket removed"
    (tmp_path / "socket").touch()
    with pytest.raises(PeerNotListening):
        await connect(tmp_path / "socket")
    with pytest.raises(PeerUnavailable):
        await peer.call({"kind": "fence"})
    assert await peer.call_until_acked({"kind": "fence"}, 5.0) is None
    assert await peer.answer_until_acked({"kind": "is_being_deleted"}, 5.0) is None
    peer.notify({"kind": "write_ended"})
    await tasks.wait_idle()


_MUTE = """
import socket, sys
listening = socket.socket(socket.AF_UNIX)
listening.bind(sys.argv[1])
listening.listen()
print("listening", flush=True)
taken = [listening.accept() for _ in range(1000)]
"""


async def test_a_worker_that_never_answers_is_killed(tmp_path: Path) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", _MUTE, str(tmp_path / "socket"), stdout=asyncio.subprocess.PIPE
    )
    tasks = TaskRegistry()
    try:
        assert process.stdout is not None
        await process.stdout.readline()
        peer = Peer(1, tmp_path / "socket", 0, tasks.spawn)
        assert await peer.call_until_acked({"kind": "fence"}, 0.2) is None
        assert await process.wait() == -signal.SIGKILL
        peer.close()
        await tasks.wait_idle()
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def test_a_stream_is_framed_and_ends_with_its_failure(tmp_path: Path) -> None:
    """Over a real socket, larger than any buffer on the way."""
    body = os.urandom(3 * MAX_PAYLOAD + 17)

    async def read(request: Document, out: ResponseWriter) -> None:
        await out.send({"kind": request["kind"]})
        await out.send_bytes(memoryview(body))
        if request.get("fails"):
            raise VersionChanged("gone meanwhile")
        await out.send_end()

    server, tasks = RpcServer(tmp_path / "socket", {}), TaskRegistry()
    server.service = streaming_service(read=read)
    await server.start()
    peer = Peer(1, tmp_path / "socket", 0, tasks.spawn)

    async def received(request: Document, length: int) -> bytes:
        _, stream = await peer.stream(request)
        counted, target, came = stream.body(length), memoryview(bytearray(WHOLE_PAYLOAD - 1000)), b""
        try:
            while read := await counted.read_into(target):
                came += target[:read]
        finally:
            counted.close()
        return came

    try:
        assert await received({"kind": "read"}, len(body)) == body
        failures: list[tuple[Document, int, type[ForebayError]]] = [
            ({"kind": "read", "fails": True}, len(body), VersionChanged),
            ({"kind": "read"}, len(body) + 1, OriginBroken),
            ({"kind": "read"}, len(body) - 1, OriginBroken),
        ]
        for request, length, failure in failures:
            with pytest.raises(failure):
                await received(request, length)
        with pytest.raises(PeerUnavailable):
            await peer.stream({"kind": "nonsense"})
    finally:
        await server.close()
        await tasks.close()


@pytest.mark.parametrize("reads_end", [False, True])
async def test_a_connection_carries_one_stream_after_the_other(tmp_path: Path, reads_end: bool) -> None:
    channels = list[Channel]()

    async def read(request: Document, out: ResponseWriter) -> None:
        assert isinstance(out, Channel)
        channels.append(out)
        await out.send({"number": request["number"]})
        await out.send_bytes(memoryview(b"%d" % request["number"]))
        if request["number"] == 2:
            raise VersionChanged("after the last byte")
        await out.send_end()

    server, tasks = RpcServer(tmp_path / "socket", {}), TaskRegistry()
    server.service = streaming_service(read=read)
    await server.start()
    peer = Peer(1, tmp_path / "socket", 0, tasks.spawn)
    try:
        for number in range(6):
            response, stream = await peer.stream({"kind": "read", "number": number})
            body, target = stream.body(1), memoryview(bytearray(10))
            assert (response["number"], await body.read_into(target), target[0]) == (number, 1, ord("0") + number)
            if reads_end and number != 2:
                assert await body.read_into(target) == 0
            body.close()
            if number == 4:
                channels[-1].abort()  # the worker closes it
        assert len(channels) == 7, "the call behind the late failure is made again"
        assert channels[0] is channels[1] is channels[2] is channels[3]
        assert channels[3] is not channels[4] is channels[5]
        assert channels[5] is not channels[6]
    finally:
        peer.close()
        await server.close()
        await tasks.close()


async def test_a_method_ends_when_its_caller_hangs_up(tmp_path: Path) -> None:
    ended = asyncio.Event()

    async def read(_: Document, out: ResponseWriter) -> None:
        await out.send({})
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    server, tasks = RpcServer(tmp_path / "socket", {}), TaskRegistry()
    server.service = streaming_service(read=read)
    await server.start()
    peer = Peer(1, tmp_path / "socket", 0, tasks.spawn)
    try:
        _, stream = await peer.stream({"kind": "read"})
        stream.close()
        async with asyncio.timeout(5):
            await ended.wait()
    finally:
        peer.close()
        await server.close()
        await tasks.close()


async def test_a_watched_connection_carries_the_next_call(tmp_path: Path) -> None:
    """Its method takes so long that its caller is watched, and ends after the caller has sent its next call."""
    sent_next = asyncio.Event()
    watched = list[Channel]()

    async def read(request: Document, out: ResponseWriter) -> None:
        assert isinstance(out, Channel)
        watched.append(out)
        await out.send({"number": request["number"]})
        await out.send_bytes(memoryview(b"a"))
        if request["number"] == 0:
            await sent_next.wait()
        await out.send_end()

    server, tasks = RpcServer(tmp_path / "socket", {}), TaskRegistry()
    server.service = streaming_service(read=read)
    await server.start()
    peer = Peer(1, tmp_path / "socket", 0, tasks.spawn)
    try:
        _, stream = await peer.stream({"kind": "read", "number": 0})
        body = stream.body(1)
        assert await body.read_into(memoryview(bytearray(1))) == 1
        body.close()
        later = tasks.spawn(peer.stream({"kind": "read", "number": 1}), "next call")
        asyncio.get_running_loop().call_later(2.5 * WATCHED_AFTER, sent_next.set)
        response, stream = await later
        assert response["number"] == 1
        assert watched[0] is watched[1]
        stream.close()
    finally:
        peer.close()
        await server.close()
        await tasks.close()


async def test_a_watched_connection_is_free_after_its_method(tmp_path: Path) -> None:
    """Its method takes so long that its caller is watched, and ends before the caller sends its next call."""
    watched = list[Channel]()

    async def read(request: Document, out: ResponseWriter) -> None:
        assert isinstance(out, Channel)
        watched.append(out)
        await out.send({"number": request["number"]})
        if request["number"] == 0:
            is_watched = asyncio.Event()
            asyncio.get_running_loop().call_later(2.5 * WATCHED_AFTER, is_watched.set)
            await is_watched.wait()
        await out.send_end()

    server, tasks = RpcServer(tmp_path / "socket", {}), TaskRegistry()
    server.service = streaming_service(read=read)
    await server.start()
    peer = Peer(1, tmp_path / "socket", 0, tasks.spawn)
    try:
        for number in range(2):
            response, stream = await peer.stream({"kind": "read", "number": number})
            assert response["number"] == number
            assert await stream.receive_document() is None
            stream.close()
        assert watched[0] is watched[1]
    finally:
        peer.close()
        await server.close()
        await tasks.close()


async def test_nothing_is_kept_of_a_call_that_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    channels, initialise = WeakSet[Channel](), Channel.__init__

    def count(channel: Channel, *arguments: Any) -> None:
        channels.add(channel)
        initialise(channel, *arguments)

    async def read(_: Document, out: ResponseWriter) -> None:
        await out.send({})
        await asyncio.Event().wait()

    monkeypatch.setattr(Channel, "__init__", count)
    server, tasks = RpcServer(tmp_path / "socket", {}), TaskRegistry()
    server.service = streaming_service(read=read)
    await server.start()
    peer = Peer(1, tmp_path / "socket", 0, tasks.spawn)
    try:
        for _ in range(20):
            _, stream = await peer.stream({"kind": "read"})
            stream.close()
        assert len(channels) >= 2
        del stream
        await run_loop_until(lambda: len(channels) <= 2)
    finally:
        peer.close()
        await server.close()
        await tasks.close()
