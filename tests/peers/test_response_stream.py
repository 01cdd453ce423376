"""A whole response: one frame, whose bytes are there at once, over a connection that is free again."""

from pathlib import Path

import pytest

from forebay.core.errors import OriginBroken
from forebay.core.task_registry import TaskRegistry
from forebay.origin.reads.read_outcomes import ReadBody
from forebay.peers.frames import WHOLE_PAYLOAD, Document
from forebay.peers.peer_client import Peer
from forebay.server.rpc.rpc_methods import ResponseWriter
from forebay.server.rpc.rpc_server import RpcServer
from harness.rpc_service import streaming_service


class Sized:
    """Streams bodies of the size that each request names, whole. `channels`: where each went."""

    def __init__(self) -> None:
        self.channels = list[ResponseWriter]()

    async def read(self, request: Document, out: ResponseWriter) -> None:
        self.channels.append(out)
        await out.send_whole({"size": request["size"]}, memoryview(bytes(range(256)) * (request["size"] // 256)))


async def read_to_end(body: ReadBody, target: memoryview) -> None:
    while await body.read_into(target):
        pass


async def test_a_whole_response_needs_no_further_frame(tmp_path: Path) -> None:
    sized, tasks = Sized(), TaskRegistry()
    server = RpcServer(tmp_path / "socket", {})
    server.service = streaming_service(read=sized.read)
    await server.start()
    peer = Peer(1, tmp_path / "socket", 0, tasks.spawn)
    try:
        for size in (0, 256, 20_480, WHOLE_PAYLOAD):
            sent = bytes(range(256)) * (size // 256)
            for read_size in (size, size + 1):
                document, stream = await peer.stream({"kind": "read", "size": size})
                body, target = stream.body(size), memoryview(bytearray(read_size))
                assert document == {"size": size}
                whole = body.take_whole() if read_size == size else None
                assert (whole is not None) is (read_size == size)
                if whole is None:
                    assert await body.read_into(target) == size
                assert (target[:size] if whole is None else whole) == sent
                assert await body.read_into(target) == 0
                body.close()
            _, stream = await peer.stream({"kind": "read", "size": size})
            assert await stream.receive_document() is None
            stream.close()  # unread
        assert all(channel is sized.channels[0] for channel in sized.channels)
        for length in (255, 257):
            _, stream = await peer.stream({"kind": "read", "size": 256})
            body, target = stream.body(length), memoryview(bytearray(length))
            assert body.take_whole() is None
            with pytest.raises(OriginBroken):
                await read_to_end(body, target)
            body.close()
    finally:
        peer.close()
        await server.close()
        await tasks.close()
