"""Which lane a request takes on a connection, by what is under way there; without a socket."""

import asyncio
import gc
from pathlib import Path
from typing import Any

from harness.clients import path_of
from harness.fake.actions import HoldAfter
from harness.fake.gate import Gate
from harness.fake_origin import FakeOrigin
from harness.rig import Rig

HOT, COLD = path_of("b", "hot"), path_of("b", "cold")


class Written(asyncio.Transport):
    """A transport that remembers what was written, and tells of it."""

    def __init__(self) -> None:
        super().__init__({"peername": ("127.0.0.1", 1)})
        self.content = b""
        self.more = asyncio.Event()

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.content += data
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

    def abort(self) -> None: ...

    async def until(self, text: bytes, times: int) -> None:
        while self.content.count(text) < times:
            await self.more.wait()
            self.more.clear()


async def test_by_what_is_under_way(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path) as rig:
        origin.store.put("b", "hot", b"hot")
        origin.store.put("b", "cold", b"cold")
        client = rig.client()
        assert (await client.request("GET", HOT)).body == b"hot"
        hot, cold = (client.sign("GET", target).wire for target in (HOT, COLD))
        connection, transport = rig.worker.listener.server(), Written()
        connection.connection_made(transport)

        # A new one: aiohttp's task has had no turn yet, but there is nothing that it could be at.
        connection.data_received(hot)
        assert transport.content.endswith(b"\r\n\r\nhot")

        # The full lane is at it: what comes meanwhile waits, and is answered behind.
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

        # aiohttp has answered the only one: the next is not for it again, whether its task has come round or not.
        origin.store.put("b", "new", b"new")
        seen = transport.content.count(b"HTTP/1.1 200")
        connection.data_received(client.sign("GET", path_of("b", "new")).wire)
        await transport.until(b"\r\n\r\nnew", 1)
        while not connection.rests:  # noqa: ASYNC110 # the handler's own turns are waited for, not time
            await asyncio.sleep(0)
        connection.data_received(hot)
        assert transport.content.endswith(b"\r\n\r\nhot")
        assert transport.content.count(b"HTTP/1.1 200") == seen + 2
        connection.connection_lost(None)


async def test_a_client_that_comes_and_goes_at_once_is_no_error(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path) as rig:
        failures: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, failure: failures.append(failure))
        connection = rig.worker.listener.server()
        connection.connection_made(Written())
        connection.connection_lost(ConnectionResetError())
        del connection
        for _ in range(3):
            await asyncio.sleep(0)  # its task has its turn
        gc.collect()
        assert not failures
