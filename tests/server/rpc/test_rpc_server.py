"""The RPC server's connections end with it, however far they have come. Its methods: test_peer_service, workers."""

import asyncio
import socket
from contextlib import suppress
from pathlib import Path

import pytest

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
