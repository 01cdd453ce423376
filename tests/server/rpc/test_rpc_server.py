"""The RPC server's connections end with it, however far they have come. Its methods: test_peer_service, workers."""

import asyncio
import os
import socket
from contextlib import nullcontext, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from forebay.core.errors import PeerUnavailable
from forebay.peers.frames import Channel, Document
from forebay.server.event_loop import loop_factory
from forebay.server.rpc.rpc_server import RpcServer


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
            channel = Channel(*await asyncio.open_unix_connection(path), 0)
        finally:
            os.seteuid(0)
        with pytest.raises(PeerUnavailable) if user else nullcontext():
            for number, kind in enumerate(("link", "stop")):
                await channel.send({"kind": kind, "id": number})
                await channel.receive_document()
        assert len(calls) == (0 if user else 1)
        channel.close()
        await server.close()
