"""The Unix socket and other users of the machine: who may open it, and whose is believed. With real users."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from harness.fake_origin import FakeOrigin
from harness.forebay_process import PATHS
from harness.rig import READER
from harness.socket_rig import SocketRig

STRANGER = 54_321
pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="another user needs root")

READS = f"""
import os, sys
from forebay_client import Client
def read(socket):
    client = Client(
        sys.argv[1], access_key={READER.access!r}, secret_key={READER.secret!r}, retries=0, socket=socket
    )
    assert bytes(client.get("b", "open/k")) == b"content"
    return client.stats
read(None), read("")  # imports everything: the interpreter's files may be root's alone
os.setgroups([])
os.setgid({STRANGER})
os.setuid({STRANGER})
stats = read(None)
print(stats.requests, stats.fallbacks)
"""

IMPOSTOR = f"""
import os, socket, sys
from forebay.protocol.channel_frames import SWITCHED, UPGRADE
listening = socket.socket(socket.AF_UNIX)
os.unlink(sys.argv[1])
listening.bind(sys.argv[1])
os.setuid({STRANGER})
listening.listen()
print("listening", flush=True)
while True:
    connection, _ = listening.accept()
    connection.recv(len(UPGRADE), socket.MSG_WAITALL)
    connection.sendall(SWITCHED)
    print(connection.recv(65536), flush=True)
    connection.close()
"""


def environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name != "FOREBAY_SOCKET"} | {"PYTHONPATH": PATHS}


@pytest.mark.parametrize(
    ("mode", "expected"),
    [("0600", "{'http': 1} {'socket: denied': 1}"), ("0666", "{'socket': 1} {}")],
    ids=["nobody else", "everybody"],
)
async def test_a_user_who_may_not_open_it_reads_by_http(mode: str, expected: str) -> None:
    with TemporaryDirectory() as directory:
        await asyncio.to_thread(Path(directory).chmod, 0o755)
        setting = f'socket_mode = "{mode}"'
        async with FakeOrigin() as origin, SocketRig(origin, Path(directory), server=setting) as rig:
            origin.store.put("b", "open/k", b"content")
            arguments = (sys.executable, "-c", READS, rig.endpoint)
            pipe = asyncio.subprocess.PIPE
            process = await asyncio.create_subprocess_exec(*arguments, env=environment(), stdout=pipe, stderr=pipe)
            output, errors = await process.communicate()
            assert (output.decode().strip(), errors.decode()) == (expected, "")


@asynccontextmanager
async def impostor(path: str) -> AsyncIterator[asyncio.StreamReader]:
    """Another user listens at the path in Forebay's place. Yields what it prints: what each connection sent."""
    arguments = (sys.executable, "-c", IMPOSTOR, path)
    process = await asyncio.create_subprocess_exec(*arguments, env=environment(), stdout=asyncio.subprocess.PIPE)
    assert process.stdout is not None
    try:
        assert await process.stdout.readline() == b"listening\n"
        yield process.stdout
    finally:
        process.kill()
        await process.wait()


@pytest.mark.parametrize("when", ["before the first read", "once it was believed"])
async def test_a_strangers_socket_gets_no_signed_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    monkeypatch.delenv("FOREBAY_SOCKET", raising=False)
    async with FakeOrigin() as origin, SocketRig(origin, tmp_path) as rig:
        origin.store.put("b", "open/k", b"content")
        client = rig.library(READER, socket=None)
        if when == "once it was believed":
            await asyncio.to_thread(client.get, "b", "open/k")
            assert client.stats.requests == {"socket": 1}
            client.close()  # its channel; the next read opens another
        async with impostor(rig.socket) as received:
            assert bytes(await asyncio.to_thread(client.get, "b", "open/k")) == b"content"
            assert client.stats.requests["http"] == 1
            assert await received.readline() == b"b''\n"
            assert client.stats.fallbacks == {"socket: not believed": 1}
