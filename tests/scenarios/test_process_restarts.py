"""Restarts of real processes, of one worker and of two: what the SSD says is trusted only after an ordinary one."""

import asyncio
import fcntl
import os
import re
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import pytest

from harness.clients import RawClient, path_of
from harness.fake_origin import FakeOrigin
from harness.forebay_process import ForebayProcess, forebay_process
from harness.inspection import cache_status
from harness.rig import TRAINER, configuration_of
from harness.worker_node import Node

OBJECT = path_of("bucket", "key")
IMMUTABLE = '[[rules]]\npath = "**"\nfreshness = "immutable"\n'
WITHOUT_HOME = {"HOME": "", "XDG_STATE_HOME": "", "STATE_DIRECTORY": ""}


class Serving:
    """A Forebay that serves, and its client."""

    def __init__(self, process: ForebayProcess) -> None:
        self.process = process
        endpoint = process.endpoint
        self._client = RawClient(endpoint, TRAINER)

    async def write(self, body: bytes) -> None:
        assert (await self._client.request("PUT", OBJECT, body=body)).status == 200

    async def read(self) -> tuple[bytes, str | None]:
        answer = await self._client.request("GET", OBJECT)
        status, cache = cache_status(answer)
        assert status == 200
        return answer.body, cache

    async def is_answered(self) -> bool:
        """Reads the object. Returns whether there was an answer."""
        return (await self._client.request("GET", OBJECT)).status != 0

    async def stop(self) -> None:
        self.process.signal(signal.SIGTERM)
        assert await self.process.wait_exit() == 0


class Restarting:
    """Starts Forebays of one directory, one after the other or at once."""

    def __init__(self, origin: FakeOrigin, directory: Path, workers: int) -> None:
        self._origin = origin
        self._directory = directory
        self._workers = f"workers = {workers}\n"
        origin.store.create_bucket("bucket")

    @asynccontextmanager
    async def serving(self, ssd: str | None = "64MiB", environ: dict[str, str] | None = None) -> AsyncIterator[Serving]:
        """A Forebay. `environ`: replaces the state directory of the configuration."""
        text = configuration_of(
            self._origin.endpoint, self._origin.secret, self._directory, ssd=ssd, server=self._workers, rest=IMMUTABLE
        )
        if environ is not None:
            text = re.sub(r"^state_dir = .*$", "", text, flags=re.MULTILINE)
        file = self._directory / "forebay.toml"
        await asyncio.to_thread(file.write_text, text)
        await asyncio.to_thread(file.chmod, 0o600)
        arguments = ("serve", "--config", str(file))
        async with forebay_process(*arguments, directory=self._directory, environ=environ) as process:
            await process.wait_for_output("metrics and control on")
            yield Serving(process)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """The directory is in use by another Forebay."""
        with (self._directory / "ssd" / "forebay.lock").open() as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    async def wait_released(self) -> None:
        """Until no process has the directory."""
        await asyncio.to_thread(self._wait_released)

    def _wait_released(self) -> None:
        with self.locked():
            pass


@pytest.fixture(params=[pytest.param(1, marks=pytest.mark.long), 2], ids=["one worker", "two workers"])
async def restarting(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Restarting]:
    async with FakeOrigin() as origin:
        yield Restarting(origin, tmp_path, request.param)


async def test_a_write_of_a_run_without_the_ssd_is_seen(restarting: Restarting) -> None:
    async with restarting.serving() as first:
        await first.write(b"one")
        assert (await first.read())[0] == b"one"
        await first.stop()
    async with restarting.serving(ssd=None) as second:
        await second.write(b"two")
        assert (await second.read())[0] == b"two"
        await second.stop()
    async with restarting.serving() as third:
        assert await third.read() == (b"two", "miss")
        assert "another run of a Forebay was the last to serve" in third.process.output
        await third.stop()
    async with restarting.serving() as fourth:
        assert await fourth.read() == (b"two", "hit-ssd"), "an ordinary restart needs no request"
        assert "revalidated" not in fourth.process.output
        await fourth.stop()


async def test_a_write_while_the_directory_is_in_use_is_seen(restarting: Restarting) -> None:
    async with restarting.serving() as first:
        await first.write(b"one")
        assert (await first.read())[0] == b"one"
        await first.stop()
    with restarting.locked():
        async with restarting.serving() as second:
            assert "serving without the SSD tier" in second.process.output
            await second.write(b"two")
            assert (await second.read())[0] == b"two"
            await second.stop()
    async with restarting.serving() as third:
        assert await third.read() == (b"two", "miss")
        await third.stop()


async def test_after_a_kill_heads_are_revalidated_once(restarting: Restarting) -> None:
    async with restarting.serving() as first:
        await first.write(b"one")
        assert (await first.read())[0] == b"one"
        await first.stop()
    async with restarting.serving() as second:
        assert await second.read() == (b"one", "hit-ssd")
        await second.process.kill()
    await restarting.wait_released()
    async with restarting.serving() as third:
        assert await third.read() == (b"one", "revalidated")
        assert third.process.output.count("is revalidated once: it was not closed in order") == 1
        await third.stop()
    async with restarting.serving() as fourth:
        assert await fourth.read() == (b"one", "hit-ssd")
        await fourth.stop()


async def test_an_overlapping_restart_gets_the_directory(restarting: Restarting) -> None:
    async with restarting.serving() as old:
        await old.write(b"one")
        assert (await old.read())[0] == b"one"
        async with restarting.serving() as new:
            assert "serving without the SSD tier" in new.process.output
            await new.write(b"two")
            assert (await new.read())[0] == b"two"
            await old.stop()
            await new.process.wait_for_output("the SSD tier is in use from here on")
            assert (await new.read())[0] == b"two"
            await new.write(b"three")
            assert (await new.read())[0] == b"three"
            await new.stop()
    async with restarting.serving() as next_one:
        assert (await next_one.read())[0] == b"three"
        await next_one.stop()


async def test_only_a_state_directory_makes_a_restart_warm(tmp_path: Path) -> None:
    async with FakeOrigin() as origin:
        restarting = Restarting(origin, tmp_path, workers=1)
        for name, cache in ("", "revalidated"), (str(tmp_path), "hit-ssd"):
            environ = WITHOUT_HOME | {"HOME": name}
            async with restarting.serving(environ=environ) as first:
                await first.write(b"one")
                assert (await first.read())[0] == b"one"
                await first.stop()
            async with restarting.serving(environ=environ) as second:
                assert await second.read() == (b"one", cache)
                assert ("there is no state directory (server.state_dir)" in second.process.output) == (not name)
                await second.stop()
        records = await asyncio.to_thread(lambda: list((tmp_path / ".local" / "state" / "forebay").glob("run-*")))
        assert len(records) == 1


async def test_damage_of_the_index_ends_one_process_and_no_start(tmp_path: Path) -> None:
    """A page that is not there under LMDB's memory map is a SIGBUS."""
    async with FakeOrigin() as origin:
        restarting = Restarting(origin, tmp_path, 1)
        async with restarting.serving() as first:
            await first.write(b"one")
            assert (await first.read())[0] == b"one"
            await first.stop()
        async with restarting.serving() as second:
            await asyncio.to_thread(os.truncate, tmp_path / "ssd" / "index" / "data.mdb", 8192)
            assert not await second.is_answered(), "the process ends in the middle of it"
            assert await second.process.wait_exit() == -signal.SIGBUS
        async with restarting.serving() as third:
            assert "rebuilt with" in third.process.output
            body, cache = await third.read()
            assert body == b"one"
            assert cache in {"miss", "revalidated"}, "the origin is asked, as the head was lost"
            await third.stop()
        async with restarting.serving() as fourth:
            assert await fourth.read() == (b"one", "hit-ssd")
            await fourth.stop()


async def test_a_write_of_a_worker_without_the_ssd_is_seen(tmp_path: Path) -> None:
    """Another worker of the node has the directory: the write removes the object there."""
    async with FakeOrigin() as origin, Node(origin, tmp_path, ssd="64MiB", rest=IMMUTABLE) as node:
        origin.store.put("bucket", key := node.key_owned_by(0), b"one")
        target = path_of("bucket", key)
        assert (await node.client(0).request("GET", target)).body == b"one"
        hidden = await asyncio.to_thread((tmp_path / "ssd" / "FORMAT").rename, tmp_path / "FORMAT")
        killed = await node.kill_worker(1)
        await node.wait_restarted(1, killed)
        _, tier = (await node.request_admin("GET", "/v1/stats"))[1]["tiers"]
        assert tier["state"] == "failing", "of one worker"
        assert (await node.client(1).request("PUT", target, body=b"two")).status == 200
        answer = await node.client(0).request("GET", target)
        assert (answer.body, cache_status(answer)) == (b"two", (200, "miss"))
        await asyncio.to_thread(hidden.rename, tmp_path / "ssd" / "FORMAT")
