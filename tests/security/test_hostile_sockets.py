"""Clients of the Unix socket that do whatever they can, many at once: others read on meanwhile, and nothing is left."""

import array
import asyncio
import contextlib
import gc
import os
import random
import socket
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event

import pytest

from forebay.protocol.channel_frames import MAX_BODY, MAX_HEAD, MAX_RELEASES, MESSAGE, SWITCHED, UPGRADE, message
from forebay.protocol.signatures.signing_key import SecretKey
from forebay_client import Client
from forebay_client.shared_memory.read_signing import ReadSigner
from harness.fake_origin import FakeOrigin
from harness.inspection import run_loop_until
from harness.rig import READER
from harness.socket_rig import SocketRig

MIB = 1 << 20
BODIES = {f"open/{size}": random.Random(size).randbytes(size) for size in (0, 100, 20_000, 300_000, 3 * MIB)}
ATTACKS = 25
"""Connections of one attacker, one after another; the socket is polite to those that come within its share."""
ATTACKERS = 4


class Attacker:
    """A client that was given a seed."""

    def __init__(self, path: str, signer: ReadSigner, seed: int) -> None:
        self._path, self._signer, self._draw = path, signer, random.Random(seed)

    def run(self) -> None:
        moves = [self.garbage, self.lengths, self.pipeline, self.releases, self.rights, self.batch, self.descriptors]
        for _ in range(ATTACKS):
            with contextlib.suppress(OSError), self.connected() as connection:
                self._draw.choice(moves)(connection)

    @contextlib.contextmanager
    def connected(self) -> Iterator[socket.socket]:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(0.05)
            connection.connect(self._path)
            start = self._draw.choice([b"", UPGRADE[: self._draw.randrange(len(UPGRADE))], UPGRADE, UPGRADE, UPGRADE])
            connection.sendall(start)
            if start == UPGRADE:
                connection.recv(len(SWITCHED), socket.MSG_WAITALL)
            yield connection

    def heads(self, count: int) -> bytes:
        return b"".join(message(self._signer.head("b", self._draw.choice(list(BODIES)), None)) for _ in range(count))

    def cut(self, data: bytes) -> bytes:
        return data[: self._draw.randrange(len(data)) + 1]

    def garbage(self, connection: socket.socket) -> None:
        connection.sendall(self._draw.randbytes(self._draw.randrange(1, 2000)))

    def lengths(self, connection: socket.socket) -> None:
        most = (0, 1, MAX_RELEASES, MAX_HEAD, 0xFFFF)
        body = (0, 1, MAX_BODY, 0xFFFFFFFF)
        connection.sendall(MESSAGE.pack(self._draw.choice(most), self._draw.choice(most), self._draw.choice(body)))
        connection.sendall(self.cut(self.heads(5)))

    def pipeline(self, connection: socket.socket) -> None:
        """More than is read of the answers, and half a message at the end."""
        connection.sendall(self.cut(self.heads(300)))
        connection.recv(self._draw.randrange(1, 100_000))

    def releases(self, connection: socket.socket) -> None:
        connection.sendall(self.heads(3) + message(b"", [self._draw.randrange(100) for _ in range(3)]) + self.heads(3))
        connection.recv(1000)

    def rights(self, connection: socket.socket) -> None:
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [connection.fileno()] * 200))]
        for _ in range(5):
            connection.sendmsg([self.heads(1)], rights)

    def batch(self, connection: socket.socket) -> None:
        head = self._signer.head("b", ".forebay/batch", None).replace(b"GET", b"POST", 1)
        document = self._draw.choice([b"{", b'{"keys": []}', b"\xff" * MAX_BODY, b'{"keys": ["open/100"]}' * 2000])
        connection.sendall(message(head, (), document[:MAX_BODY]) * 3)
        connection.recv(1000)

    def descriptors(self, connection: socket.socket) -> None:
        """Those of rings and files, kept beyond the connection."""
        connection.sendall(self.heads(5))
        kept: list[int] = []
        with contextlib.suppress(TimeoutError):
            for _ in range(20):
                data, rights, _, _ = connection.recvmsg(4096, socket.CMSG_SPACE(4 * 64), socket.MSG_CMSG_CLOEXEC)
                kept += [number for _, _, raw in rights for (number,) in struct.iter_unpack("i", raw)]
                if not data:
                    break
        connection.close()
        for each in kept:
            os.close(each)


@pytest.mark.parametrize("seed", [1, 2])
async def test_hostile_clients_harm_nobody_and_leave_nothing(tmp_path: Path, seed: int) -> None:
    settings = {"rest": '[[rules]]\npath = "**"\nfreshness = "immutable"\n[limits]\nconnections = 400\n'}
    async with FakeOrigin() as origin, SocketRig(origin, tmp_path, **settings) as rig:
        for key, content in BODIES.items():
            origin.store.put("b", key, content)
        honest, ended = rig.library(READER), Event()
        reads = await asyncio.to_thread(read_all, honest)
        before = descriptors()
        secret = SecretKey(READER.access, READER.secret)
        signer = ReadSigner(rig.endpoint.removeprefix("http://"), READER.region, lambda: secret)
        attackers = [Attacker(rig.socket, signer, seed * ATTACKERS + number) for number in range(ATTACKERS)]
        async with asyncio.TaskGroup() as group:
            reading = group.create_task(asyncio.to_thread(read_until, honest, ended.is_set))
            try:
                await asyncio.gather(*(asyncio.to_thread(each.run) for each in attackers))
            finally:
                ended.set()
        reads += reading.result()
        assert honest.stats.fallbacks == {}
        assert honest.stats.requests == {"socket": reads}
        await rig.channels_are(1)
        memory = rig.worker.client_memory
        await run_loop_until(lambda: rig.worker.listener.requests.in_flight == memory.plain_connections == 0)
        gc.collect()
        memory.check()
        assert descriptors() < before + 20, "of memory files; the attackers sent and kept hundreds"
        honest.close()
        await rig.channels_are(0)
        memory.check()
        assert (rig.parts.storage.rings.in_use, memory.files.size, rig.parts.storage.budget.in_use) == (0, 0, 0)


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def read_all(client: Client) -> int:
    for key, content in BODIES.items():
        assert client.get("b", key) == content
    return len(BODIES)


def read_until(client: Client, is_over: Callable[[], bool]) -> int:
    """Returns the number of reads, all of the right bytes."""
    reads = 0
    while not is_over():
        reads += read_all(client)
    return reads
