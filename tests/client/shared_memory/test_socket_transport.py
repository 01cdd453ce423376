"""The short way with threads, forks and killed processes, against a Forebay of the test's own."""

import asyncio
import gc
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from forebay_client import Client
from harness.fake.actions import HoldHead
from harness.fake.gate import Gate
from harness.fake_origin import FakeOrigin
from harness.forebay_process import PATHS
from harness.forked import FORKS_WITH_THREADS
from harness.inspection import run_loop_until
from harness.rig import READER, TRAINER
from harness.socket_rig import SocketRig

SIZE = 300_000
MIB = 1 << 20
KEYS = [f"open/{number}" for number in range(12)]
IMMUTABLE = '[[rules]]\npath = "**"\nfreshness = "immutable"\n'


def content_of(key: str) -> bytes:
    return key.encode().ljust(10, b".") * (SIZE // 10)


def fill(origin: FakeOrigin) -> None:
    for key in KEYS:
        origin.store.put("b", key, content_of(key))


async def test_threads_share_a_client(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, SocketRig(origin, tmp_path, rest=IMMUTABLE) as rig:
        fill(origin)
        client = rig.library(READER)

        def read(number: int) -> bool:
            key = KEYS[number % len(KEYS)]
            return bool(client.get("b", key) == content_of(key))

        def read_all() -> list[bool]:
            with ThreadPoolExecutor(8) as pool:
                return list(pool.map(read, range(200)))

        assert all(await asyncio.to_thread(read_all))
        assert client.stats.fallbacks == {}
        assert client.stats.requests == {"socket": 200}


async def test_a_hint_that_leads_nowhere_is_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a container that lacks the socket's volume."""
    monkeypatch.delenv("FOREBAY_SOCKET", raising=False)
    async with FakeOrigin() as origin, SocketRig(origin, tmp_path, rest=IMMUTABLE) as rig:
        fill(origin)
        await asyncio.to_thread(Path(rig.socket).unlink)
        client = rig.library(socket=None)

        def dialogue() -> None:
            assert [client.get("b", key) for key in KEYS[:2]] == [content_of(key) for key in KEYS[:2]]
            assert client.stats.fallbacks == {"socket: unreachable": 2}
            assert [bytes(item.content()) for item in client.get_many("b", KEYS)] == [content_of(key) for key in KEYS]
            assert client.stats.fallbacks["socket: unreachable"] > 2
            assert "socket" not in client.stats.requests

        await asyncio.to_thread(dialogue)


async def test_a_refusal_leaves_the_callers_buffer_alone(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, SocketRig(origin, tmp_path, rest=IMMUTABLE) as rig:
        fill(origin)
        client, buffer = rig.library(), bytearray(b"kept" * 1000)
        for start in (SIZE, SIZE + 1):
            assert await asyncio.to_thread(client.get_into, "b", KEYS[0], buffer, start) == 0
        assert buffer == b"kept" * 1000
        assert client.stats.requests == {"socket": 2}


async def test_one_slow_miss_leaves_the_socket_to_all_other_reads(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, SocketRig(origin, tmp_path, rest=IMMUTABLE) as rig:
        fill(origin)
        gate, client = Gate(), rig.library(timeout=1.0)
        for key in KEYS[1:]:
            await asyncio.to_thread(client.get, "b", key)
        origin.faults.add(HoldHead(gate), key=KEYS[0])
        async with asyncio.TaskGroup() as group:
            slow = group.create_task(asyncio.to_thread(client.get, "b", KEYS[0]))
            await run_loop_until(lambda: client.stats.fallbacks == {"socket: timeout": 1})
            gate.open()
        assert slow.result() == content_of(KEYS[0])
        before = client.stats.requests["socket"]
        for key in KEYS:
            assert await asyncio.to_thread(client.get, "b", key) == content_of(key)
        assert client.stats.requests["socket"] - before == len(KEYS)


CHILD = """
import os, sys
from forebay_client import Client
client = Client({endpoint!r}, access_key="reader", secret_key="reader-secret", socket={socket!r}, retries=0)
keys = {keys!r}
views = [client.get("b", key) for key in keys[:4]]
copies = [bytes(view) for view in views]
child = os.fork()
if child:
    del views  # slots of the parent, which the child still looks at
    for _ in range(3):
        for key in keys:
            client.get("b", key)
    os._exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
for _ in range(3):
    for key in keys:
        assert client.get("b", key)[:10] == key.encode().ljust(10, b".")
    assert [bytes(view) for view in views] == copies
assert client.stats.fallbacks == {{}}, client.stats
os._exit(0)
"""


async def test_views_survive_a_fork_whatever_the_parent_drops(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, SocketRig(origin, tmp_path, rest=IMMUTABLE) as rig:
        fill(origin)
        program = CHILD.format(endpoint=rig.endpoint, socket=rig.socket, keys=KEYS)
        process = await asyncio.create_subprocess_exec(
            sys.executable, FORKS_WITH_THREADS, "-c", program, env={"PYTHONPATH": PATHS}, stderr=asyncio.subprocess.PIPE
        )
        _, errors = await process.communicate()
        assert (process.returncode, errors) == (0, b"")
        await rig.channels_are(0)
        rig.worker.client_memory.check()
        assert rig.parts.storage.rings.in_use == 0


HOARDER = """
import os, sys, time
from forebay_client import Client
client = Client({endpoint!r}, access_key={key!r}, secret_key={secret!r}, socket={socket!r}, retries=0)
views = [client.get("b", "open/k") for _ in range({number})]
assert all(len(view) == {size} and view.readonly for view in views), "not by the ring"
print("held", flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize(
    ("held", "size"),
    [(48 * MIB, 3 * MIB), pytest.param(342 * 3 * MIB, 3 * MIB, marks=pytest.mark.long)],
    ids=["48 MiB", "1 GiB"],
)
async def test_nothing_stays_of_a_client_that_is_killed(tmp_path: Path, held: int, size: int) -> None:
    sizes = f'rings = "{held + MIB}B"\nring = "{held + 16 * MIB}B"\n'
    async with FakeOrigin() as origin, SocketRig(origin, tmp_path, memory=f'64MiB"\n{sizes}#"', rest=IMMUTABLE) as rig:
        origin.store.put("b", "open/k", bytes(size))
        program = HOARDER.format(
            endpoint=rig.endpoint,
            socket=rig.socket,
            key=READER.access,
            secret=READER.secret,
            number=held // size,
            size=size,
        )
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", program, env={"PYTHONPATH": PATHS}, stdout=subprocess.PIPE
        )
        assert process.stdout is not None
        assert await process.stdout.readline() == b"held\n"
        assert rig.parts.storage.rings.in_use == held
        before = shared_memory()
        process.send_signal(signal.SIGKILL)
        await process.wait()
        await rig.channels_are(0)
        rig.worker.client_memory.check()
        assert rig.parts.storage.rings.in_use == 0
        assert before - shared_memory() >= held - 8 * MIB


def shared_memory() -> int:
    """Bytes of memory files that this process has mapped and written."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssShmem:"):
            return int(line.split()[1]) << 10
    raise AssertionError


async def test_memory_files_are_let_go_of_when_the_client_is_closed(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, SocketRig(origin, tmp_path, rest=IMMUTABLE) as rig:
        origin.store.put("b", "open/k", bytes(4 * MIB))
        client = rig.library(TRAINER)
        await rig.promote(client, "b", "open/k")
        view = await asyncio.to_thread(client.get, "b", "open/k")
        assert rig.forms()["memory"] == 1
        client.close()
        await rig.channels_are(0)
        memory = rig.worker.client_memory
        memory.check()
        assert memory.files.size == 4 * MIB  # the view is still there
        del view
        gc.collect()
        memory.check()
        assert memory.files.size == 0


async def test_what_the_socket_does_not_carry_goes_by_http(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, SocketRig(origin, tmp_path) as rig:
        fill(origin)
        client: Client = rig.library()

        def use() -> None:
            client.put("b", "open/new", b"new")
            assert client.head("b", "open/new").size == 3
            assert len(list(client.list("b", "open/"))) == len(KEYS) + 1
            assert bytes(client.get("b", "open/new")) == b"new"
            client.delete("b", "open/new")
            plan = client.plan("b", "epoch-0", ["open/1"])
            assert plan.progress()["entries"] == 1
            plan.cancel()

        await asyncio.to_thread(use)
        assert client.stats.requests["socket"] == 1
        assert client.stats.fallbacks == {}


async def test_oss_is_signed_as_oss(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, SocketRig(origin, tmp_path) as rig:
        fill(origin)
        client = rig.library(dialect="oss")
        assert await asyncio.to_thread(client.get, "b", KEYS[0]) == content_of(KEYS[0])
        assert client.stats.requests == {"socket": 1}


def stale(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(path))


ODD_PATHS: dict[str, Callable[[Path], object]] = {
    "a file": lambda path: path.write_bytes(b"no socket"),
    "a directory": lambda path: path.mkdir(),
    "stale": stale,
    "a link to nothing": lambda path: path.symlink_to(path.parent / "none"),
    "a link to itself": lambda path: path.symlink_to(path),
    "missing": lambda path: None,
}
ODD_NAMES = ["relative", "/tmp/" + "x" * 200, "/tmp/a\0b", "/tmp/\udcff\ud800", "\0abstract", " "]


@pytest.mark.parametrize("kind", ODD_PATHS)
async def test_a_path_where_nobody_listens_is_counted(tmp_path: Path, kind: str) -> None:
    ODD_PATHS[kind](tmp_path / "odd")
    async with FakeOrigin() as origin, SocketRig(origin, tmp_path / "rig", rest=IMMUTABLE) as rig:
        fill(origin)
        client = rig.library(socket=str(tmp_path / "odd"))
        assert bytes(await asyncio.to_thread(client.get, "b", KEYS[0])) == content_of(KEYS[0])
        assert client.stats.fallbacks == {"socket: unreachable": 1}


@pytest.mark.parametrize("name", ODD_NAMES)
async def test_what_is_no_path_is_counted(tmp_path: Path, name: str) -> None:
    async with FakeOrigin() as origin, SocketRig(origin, tmp_path / "rig", rest=IMMUTABLE) as rig:
        fill(origin)
        client = rig.library(socket=name)
        assert bytes(await asyncio.to_thread(client.get, "b", KEYS[0])) == content_of(KEYS[0])
        items = await asyncio.to_thread(lambda: list(client.get_many("b", KEYS[:2])))
        assert [bytes(item.content()) for item in items] == [content_of(key) for key in KEYS[:2]]
        assert client.stats.fallbacks.keys() == {"socket: unreachable"}


async def test_a_link_to_the_socket_and_a_path_object_are_paths(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, SocketRig(origin, tmp_path / "rig", rest=IMMUTABLE) as rig:
        fill(origin)
        (tmp_path / "link").symlink_to(rig.socket)
        for path in (str(tmp_path / "link"), Path(rig.socket)):
            client = rig.library(socket=path)
            assert bytes(await asyncio.to_thread(client.get, "b", KEYS[0])) == content_of(KEYS[0])
            assert client.stats.requests == {"socket": 1}
