"""Warm-up jobs of real processes, by the command line: a job goes on after the end of whatever ran it."""

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from forebay_demo.free_ports import free_ports
from harness.fake import actions
from harness.fake.gate import Gate
from harness.fake_origin import FakeOrigin
from harness.forebay_process import ForebayProcess, forebay_process, run_forebay
from harness.rig import configuration_of

KEYS = [f"train/{number:03}" for number in range(60)]


class Launcher:
    """Starts Forebays of one directory, one after the other, all with the same admin port."""

    def __init__(self, origin: FakeOrigin, directory: Path, workers: int) -> None:
        self.directory = directory
        server = f"workers = {workers}\n"
        text = configuration_of(origin.endpoint, origin.secret, directory, ssd="64MiB", server=server)
        self.admin = f"127.0.0.1:{free_ports(1)[0]}"
        self._text = text.replace('admin = "127.0.0.1:0"', f'admin = "{self.admin}"')

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[ForebayProcess]:
        file = self.directory / "forebay.toml"
        await asyncio.to_thread(file.write_text, self._text)
        await asyncio.to_thread(file.chmod, 0o600)
        async with forebay_process("serve", "--config", str(file), directory=self.directory) as process:
            await process.wait_for_output("metrics and control on")
            yield process

    async def type(self, *arguments: str) -> tuple[int, str]:
        return await run_forebay(*arguments, directory=self.directory, environ={"FOREBAY_ADMIN": self.admin})

    async def job(self) -> Any:
        """The only job."""
        async with aiohttp.ClientSession() as session, session.get(f"http://{self.admin}/v1/jobs") as answer:
            [job] = (await answer.json())["jobs"]
            return job


@pytest.fixture
async def origin() -> AsyncIterator[FakeOrigin]:
    async with FakeOrigin() as origin:
        for key in KEYS:
            origin.store.put("bucket", key, key.encode() * 1000)
        yield origin


@pytest.mark.parametrize(("workers", "ending"), [(1, signal.SIGTERM), (2, signal.SIGKILL)], ids=["stopped", "killed"])
async def test_a_followed_job_goes_on_after_a_restart(
    origin: FakeOrigin, tmp_path: Path, workers: int, ending: signal.Signals
) -> None:
    gate = Gate()
    origin.faults.add(actions.FORBIDDEN, key=KEYS[3])
    origin.faults.add(actions.HoldHead(gate), key=KEYS[40])
    launcher, report = Launcher(origin, tmp_path, workers), tmp_path / "failures.jsonl"
    async with asyncio.TaskGroup() as group:
        async with launcher.serving() as first:
            order = ("warm", "s3://bucket/train/*", "--wait", "--report", str(report), "--concurrency", "1", "--json")
            typed = group.create_task(launcher.type(*order))
            await gate.reached()
            if ending == signal.SIGKILL:
                await first.kill()
            else:
                first.signal(ending)
                await first.wait_exit()
        gate.open()
        async with launcher.serving() as second:
            code, output = await typed
            job = json.loads(output)
            assert (code, job["state"], job["done"], job["failed"], job["kept"]) == (3, "failed", 59, 1, 59), job
            assert job["resumed"] == 1
            if ending == signal.SIGTERM:
                fetched = [origin.log.count("GET", "GetObject", key) for key in KEYS if key != KEYS[40]]
                assert sum(fetched) <= 60, "only what was not there yet, and one that was cut off"
            assert [json.loads(line)["key"] for line in report.read_text().splitlines()] == [KEYS[3]]
            second.signal(signal.SIGTERM)
            assert await second.wait_exit() == 0


async def test_another_worker_goes_on_with_the_job_of_a_killed_one(origin: FakeOrigin, tmp_path: Path) -> None:
    gate = Gate()
    origin.faults.add(actions.HoldHead(gate), key=KEYS[40])
    launcher = Launcher(origin, tmp_path, 2)
    async with launcher.serving() as process:
        assert (await launcher.type("warm", "s3://bucket/train/", "--concurrency", "1"))[0] == 0
        await gate.reached()
        [children] = [Path(f"/proc/{process.pid}/task/{process.pid}/children")]
        [worker, *_] = sorted(int(pid) for pid in (await asyncio.to_thread(children.read_text)).split())
        os.kill(worker, signal.SIGKILL)
        gate.open()
        code, output = await launcher.type("jobs", "wait", (await launcher.job())["id"])
        job = await launcher.job()
        assert (code, job["state"], job["done"], job["kept"], job["resumed"]) == (0, "done", 60, 60, 1), output


async def test_bounds_of_a_job_are_kept_by_the_server(origin: FakeOrigin, tmp_path: Path) -> None:
    launcher = Launcher(origin, tmp_path, 1)
    async with launcher.serving():
        code, output = await launcher.type("warm", "s3://bucket/train/", "--until", "90000B", "--wait", "--json")
        job = json.loads(output)
        assert (code, job["state"], job["done"], job["left_out"]) == (0, "done", 10, 50), job
        assert origin.log.count("GET", "GetObject") == 10
        code, output = await launcher.type("warm", "s3://bucket/train/", "--newer-than", "2099-01-01", "--wait")
        assert (code, "none of 60 objects is new enough" in output) == (1, True), output
        code, output = await launcher.type("warm", "s3://bucket/train/", "--newer-than", "1d", "--wait", "--json")
        assert (code, json.loads(output)["kept"]) == (0, 60), output


async def test_lists_in_every_format_are_warmed(origin: FakeOrigin, tmp_path: Path) -> None:
    launcher = Launcher(origin, tmp_path, 2)
    async with launcher.serving():
        for name, text, code in (
            ("keys.txt", f"{KEYS[0]}\ns3://bucket/{KEYS[1]}\t0-99\n", 0),
            ("list.jsonl", json.dumps({"Key": KEYS[2]}) + "\n", 0),
            ("list.csv", f"url\ns3://bucket/{KEYS[3]}\n", 0),
            ("missing.csv", "key\nmissing\n", 3),
            ("bad.csv", "key,size\na,1\nb,x\n", 2),
        ):
            (tmp_path / name).write_text(text)
            option = "--keys" if name.endswith("txt") else "--manifest"
            assert (await launcher.type("warm", "s3://bucket", option, name, "--wait"))[0] == code, name
        assert (await launcher.type("warm", "s3://bucket/train/00[0-3]", "--check", "--literal"))[0] == 1
        code, output = await launcher.type("warm", "s3://bucket/train/00?", "--check")
        assert (code, output.partition(" are cached")[0]) == (4, "4 of 10 objects of 88 KiB")
        code, output = await launcher.type("warm", "--keys", "bad.csv", "s3://bucket", "--wait")
        assert code == 3
