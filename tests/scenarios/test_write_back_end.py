"""The end of a process with pending writes: they have some time, new ones go through, and what is left is said."""

import asyncio
import re
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from forebay.core.task_registry import TaskRegistry
from harness.clients import RawClient, path_of
from harness.fake.actions import HoldRequest
from harness.fake.gate import Gate
from harness.fake_origin import FakeOrigin
from harness.forebay_process import ForebayProcess, forebay_process
from harness.oss_client import OssClient
from harness.rig import TRAINER, configuration_of
from harness.write_back_rig import JOURNAL, RULE, WriteBackRig, at_origin

PART = 5 << 20


async def test_while_it_ends_pending_writes_arrive_and_new_ones_go_through(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, WriteBackRig(origin, tmp_path) as rig:
        await rig.prove()
        gate, tasks = Gate(), TaskRegistry()
        origin.faults.add(HoldRequest(gate), method="PUT", key="a/pending")
        await rig.put("a/pending", b"acknowledged")
        await gate.reached()
        ending = tasks.spawn(rig.write_back.watch.stop(60.0), "end")
        through = tasks.spawn(rig.client().request("PUT", path_of("ckpt", "a/new"), (), b"new"), "write")
        read = await rig.client().request("GET", path_of("ckpt", "a/pending"))
        assert (read.body, ending.done(), through.done()) == (b"acknowledged", False, False)
        gate.open()
        answer = await through
        assert (answer.status, answer.headers["x-forebay-durable"], await ending) == (200, "origin", 0)
        assert (at_origin(origin, "a/pending"), at_origin(origin, "a/new")) == (b"acknowledged", b"new")


async def test_what_is_left_at_the_end_stays_and_is_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with FakeOrigin() as origin, WriteBackRig(origin, tmp_path) as rig:
        await rig.prove()
        gate = Gate()
        origin.faults.add(HoldRequest(gate), method="PUT", key="a/pending")
        await rig.put("a/pending", b"acknowledged")
        await gate.reached()
        assert await rig.write_back.watch.stop(0.0) == 1
        assert "1 writes stay in the journal: the next start carries them out" in caplog.text
        gate.open()
        await rig.restart()
        await rig.settled()
        assert at_origin(origin, "a/pending") == b"acknowledged"


@asynccontextmanager
async def _serving(
    origin: FakeOrigin, directory: Path, workers: int, seconds: str, server: str = ""
) -> AsyncIterator[ForebayProcess]:
    """A process of so many workers, with a journal, and so long to end."""
    rest = JOURNAL.format(path=directory / "journal", size="256MiB") + RULE
    server += f"workers = {workers}\n"
    text = configuration_of(origin.endpoint, origin.secret, directory, server=server, rest=rest)
    file = directory / "forebay.toml"
    await asyncio.to_thread(file.write_text, text.replace('drain_timeout = "5s"', f'drain_timeout = "{seconds}"'))
    await asyncio.to_thread(file.chmod, 0o600)
    async with forebay_process("serve", "--config", str(file), directory=directory) as process:
        await process.wait_for_output("metrics and control on")
        yield process


def _endpoint(process: ForebayProcess) -> str:
    [endpoint] = re.findall(r"serving \S+ on (http://127\.0\.0\.1:[0-9]+)", process.output)
    return str(endpoint)


async def _put(process: ForebayProcess, key: str, durable: str = "local") -> None:
    """Writes an object, which is acknowledged from the journal, or by the origin."""
    answer = await RawClient(_endpoint(process), TRAINER).request("PUT", path_of("ckpt", key), (), key.encode())
    assert (answer.status, answer.headers["x-forebay-durable"]) == (200, durable)


@pytest.mark.parametrize("workers", [1, 2])
async def test_after_sigterm_new_writes_go_through_at_once(tmp_path: Path, workers: int) -> None:
    """For as long as server.shutdown_delay, in every worker, and uploads that were begun here go on at the origin."""
    async with FakeOrigin() as origin:
        origin.store.create_bucket("ckpt")
        async with _serving(origin, tmp_path, workers, "60s", 'shutdown_delay = "1h"\n') as process:
            await _put(process, "a/before")
            oss, targets = OssClient(_endpoint(process), TRAINER), [path_of("ckpt", key) for key in ("a/one", "a/two")]
            uploads = [await oss.initiate(target) for target in targets]
            parts = [
                [(await oss.part(*each, 1, b"1" * PART)).headers["ETag"]] for each in zip(targets, uploads, strict=True)
            ]
            process.signal(signal.SIGTERM)
            await process.wait_for_output("ending: not ready any more")
            for number in range(4 * workers):  # on a connection of its own each, so by any worker
                await _put(process, f"a/after-{number}", "origin")
            parts[1].append((await oss.part(targets[1], uploads[1], 2, b"2")).headers["ETag"])
            for target, upload, etags in zip(targets, uploads, parts, strict=True):
                completed = await oss.complete(target, upload, list(enumerate(etags, 1)))
                assert (completed.status, completed.headers["x-forebay-durable"]) == (200, "origin")
            assert at_origin(origin, "a/one") == b"1" * PART
            assert at_origin(origin, "a/two") == b"1" * PART + b"2"
            process.signal(signal.SIGTERM)
            assert await process.wait_exit() == 0
        assert "Traceback" not in process.output


async def test_sigterm_gives_pending_writes_their_time(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, _serving(origin, tmp_path, 2, "60s") as process:
        origin.store.create_bucket("ckpt")
        gate = Gate()
        origin.faults.add(HoldRequest(gate), method="PUT", key="a/pending")
        for key in ("a/pending", "a/behind"):
            await _put(process, key)
        await gate.reached()
        process.signal(signal.SIGTERM)
        await process.wait_for_output("ending: requests under way have 60 s", times=2)
        assert at_origin(origin, "a/behind") is None
        gate.open()
        assert await process.wait_exit() == 0
        assert [at_origin(origin, key) for key in ("a/pending", "a/behind")] == [b"a/pending", b"a/behind"]
        assert "stay in the journal" not in process.output


@pytest.mark.parametrize("ended_by", ["its time", "a second signal"])
async def test_sigterm_says_what_is_left_for_the_next_start(tmp_path: Path, ended_by: str) -> None:
    async with FakeOrigin() as origin:
        origin.store.create_bucket("ckpt")
        gate = Gate()
        holding = origin.faults.add(HoldRequest(gate), method="PUT", key="a/pending")
        async with _serving(origin, tmp_path, 1, "200ms" if ended_by == "its time" else "60s") as process:
            for key in ("a/pending", "a/behind"):
                await _put(process, key)
            await gate.reached()
            process.signal(signal.SIGTERM)
            await process.wait_for_output("ending: requests under way have")
            if ended_by == "a second signal":
                process.signal(signal.SIGTERM)
            assert await process.wait_exit() == 0
            assert "2 writes stay in the journal: the next start carries them out" in process.output
        origin.faults.remove(holding)
        gate.open()
        async with _serving(origin, tmp_path, 1, "60s") as process:
            await process.wait_for_output("writes in the journal and not yet at the origin: 2")
            process.signal(signal.SIGTERM)
            assert await process.wait_exit() == 0
        assert [at_origin(origin, key) for key in ("a/pending", "a/behind")] == [b"a/pending", b"a/behind"]
