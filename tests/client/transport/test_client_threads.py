"""The client's threads, and what is done without them while the interpreter ends."""

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from forebay_client.transport.client_threads import ClientThreads
from harness.fake_origin import FakeOrigin

_AT_EXIT = """\
import atexit, sys
import forebay_client
from forebay_client import Client
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

atexit.register(save)
"""


def test_without_threads_work_is_done_before_submit_returns() -> None:
    threads = ClientThreads(1)
    threads.shutdown()
    assert threads.submit(int, "7").result() == 7
    failed = threads.submit(int, "x")
    with pytest.raises(ValueError, match="invalid literal"):
        failed.result()


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
    assert run.stdout.splitlines() == ["[b'1', b'2', b'1']", str(12 << 20), "True", str(11 << 20)]
