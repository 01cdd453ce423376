"""The client's threads, and what is done without them while the interpreter ends."""

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from forebay_client.transport.client_threads import ClientThreads
from harness.fake_origin import FakeOrigin

_AT_EXIT = """\
import asyncio, atexit, sys
import forebay_client
from forebay_client import AsyncClient, Client
endpoint, access, secret, file = sys.argv[1:]
client = Client(endpoint, access_key=access, secret_key=secret, socket="", retries=0)

def save():
    print([bytes(item.content()) for item in client.get_many("data", ["a", "b", "a"])])
    print(client.put_file("data", "parts", file, part_size=5 << 20).size)
    with client.open("data", "parts") as parts, forebay_client.path("s3://data/parts", client=client) as path:
        print(parts.read() == open(path, "rb").read() == open(file, "rb").read())
    with client.create("data", "written", 5 << 20) as written:
        written.write(bytes(11 << 20))
    print(client.head("data", "written").size)

async def read():
    async with AsyncClient(endpoint, access_key=access, secret_key=secret, socket="", retries=0) as twin:
        return bytes(await twin.get("data", "a"))

atexit.register(lambda: print(asyncio.run(read())))
atexit.register(save)
"""


def test_without_threads_work_is_done_before_submit_returns() -> None:
    threads = ClientThreads(1)
    threads.shutdown()
    assert threads.submit(int, "7").result() == 7
    failed = threads.submit(int, "x")
    with pytest.raises(ValueError, match="invalid literal"):
        failed.result()


class ExhaustedThreads(ClientThreads):
    """The system has one thread for it."""

    def _adjust_thread_count(self) -> None:  # which CPython's submit calls when it has queued the work
        if self._threads:
            raise RuntimeError("can't start new thread")
        super()._adjust_thread_count()


def test_queued_work_is_not_done_twice() -> None:
    done: list[int] = []
    with ExhaustedThreads(2) as threads:
        threads.submit(done.append, 1).result()
        with pytest.raises(RuntimeError, match="can't start new thread"):
            threads.submit(done.append, 2)
    assert done == [1, 2]


async def test_a_handler_at_exit_reads_and_writes(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(bytes(range(256)) * (12 << 12))
    async with FakeOrigin() as origin:
        origin.store.put("data", "a", b"1")
        origin.store.put("data", "b", b"2")
        secret = origin.secret
        command = (sys.executable, "-c", _AT_EXIT, origin.endpoint, secret.access, secret.secret, str(file))
        run = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, check=False)
    assert run.stderr == ""
    assert run.stdout.splitlines() == ["[b'1', b'2', b'1']", str(12 << 20), "True", str(11 << 20), "b'1'"]
