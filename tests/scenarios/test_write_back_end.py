"""The end of a process with pending writes: they have some time, new ones go through, and what is left is said."""

from pathlib import Path

import pytest

from forebay.core.task_registry import TaskRegistry
from harness.clients import path_of
from harness.fake.actions import HoldRequest
from harness.fake.gate import Gate
from harness.fake_origin import FakeOrigin
from harness.write_back_rig import WriteBackRig, at_origin


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
