"""A version that another writer replaced, with real processes: once the new one was told, the old one is gone."""

import signal
from pathlib import Path

import pytest

from forebay_demo.free_ports import free_ports
from harness.clients import RawClient, path_of
from harness.fake_origin import FakeOrigin
from harness.forebay_process import forebay_process
from harness.rig import TRAINER, configuration_of
from harness.worker_node import Node

NO_CACHE = (("Cache-Control", "no-cache"),)
LONG = ("immutable", "1h")


def rule(freshness: str) -> str:
    return f'[[rules]]\npath = "**"\nfreshness = "{freshness}"\n'


@pytest.mark.parametrize("freshness", LONG)
async def test_a_killed_process_does_not_bring_it_back(tmp_path: Path, freshness: str) -> None:
    """The first life leaves the old version on the SSD, the second learns of the new one and is killed at once."""
    async with FakeOrigin() as origin:
        (port,) = free_ports(1)
        text = configuration_of(origin.endpoint, origin.secret, tmp_path, ssd="64MiB", rest=rule(freshness))
        file = tmp_path / "forebay.toml"
        file.write_text(text.replace('listen = "127.0.0.1:0"', f'listen = "127.0.0.1:{port}"', 1))
        file.chmod(0o600)
        client = RawClient(f"http://127.0.0.1:{port}", TRAINER)
        lives = (
            (b"old", signal.SIGTERM, ((), NO_CACHE)),
            (b"new", signal.SIGKILL, (NO_CACHE,)),
            (b"new", signal.SIGTERM, ((),)),
        )
        for body, end, reads in lives:
            origin.store.put("bucket", "key", body)
            async with forebay_process("serve", "--config", str(file), directory=tmp_path) as process:
                await process.wait_for_output("serving")
                for headers in reads:
                    assert (await client.request("GET", path_of("bucket", "key"), headers)).body == body
                process.signal(end)
                await process.wait_exit()


async def test_no_worker_brings_it_back(tmp_path: Path) -> None:
    """The other worker has the old version in memory, or finds it on the SSD that they share, where the first life of
    the node has left it."""
    rules = "".join(f'[[rules]]\npath = "*/{each}/**"\nfreshness = "{each}"\n' for each in LONG)
    async with FakeOrigin() as origin:
        cases = [
            (f"{freshness}/{warm}-{gone}-{owner}", owner, warm, gone)
            for freshness in LONG
            for owner in (0, 1)
            for warm in (True, False)
            for gone in (True, False)
        ]
        async with Node(origin, tmp_path, ssd="64MiB", rest=rules) as node:
            for key, owner, _, _ in cases:
                assert node.have_owned(key, owner) == owner
                origin.store.put("bucket", key, b"old")
                assert (await node.client(0).request("GET", path_of("bucket", key))).body == b"old"
        async with Node(origin, tmp_path, ssd="64MiB", rest=rules) as node:
            for key, owner, warm, gone in cases:
                assert node.have_owned(key, owner) == owner
                path = path_of("bucket", key)
                if warm:
                    assert (await node.client(1).request("GET", path)).headers["x-forebay-cache"] == "hit-ssd"
                if gone:
                    origin.store.delete("bucket", key)
                else:
                    origin.store.put("bucket", key, b"new")
                told = await node.client(0).request("GET", path, NO_CACHE)
                after = await node.client(1).request("GET", path)
                assert [told.status, after.status] == [404 if gone else 200] * 2, key
                assert gone or (told.body, after.body) == (b"new", b"new"), key
