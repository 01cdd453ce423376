"""A flush waits for what was acknowledged under a prefix, in whichever worker it is begun."""

import asyncio
from pathlib import Path

import pytest

from forebay.core.errors import BucketMissing
from forebay.core.task_registry import TaskRegistry
from harness.clients import path_of
from harness.fake.actions import HoldRequest, Respond
from harness.fake.gate import Gate
from harness.fake_origin import FakeOrigin
from harness.write_back_rig import WriteBackRig, at_origin


async def test_a_flush_waits_for_what_is_under_its_prefix(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, WriteBackRig(origin, tmp_path) as rig:
        await rig.prove()
        gate = Gate()
        origin.faults.add(HoldRequest(gate), method="PUT")
        await rig.put("a/one", b"1")
        await gate.reached()
        assert await rig.flush("ckpt", "b/", 0.0) == 0
        with pytest.raises(BucketMissing):
            await rig.flush("other")
        flush = TaskRegistry().spawn(rig.flush("ckpt", "a/"), "flush")
        await rig.put("a/later", b"2")
        assert not flush.done()
        gate.open()
        assert await flush == 0
        assert at_origin(origin, "a/one") == b"1"


async def test_a_flush_says_how_much_is_left(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, WriteBackRig(origin, tmp_path) as rig:
        await rig.prove()
        origin.faults.add(Respond(503, "SlowDown"))
        await asyncio.gather(*(rig.put(f"a/{nth}", b"") for nth in range(3)))
        assert (await rig.client().request("DELETE", path_of("ckpt", "a/0"))).status == 204
        assert await rig.flush("ckpt", "a/", 0.0) == 4
        assert await rig.flush("ckpt", "a/0", 0.0) == 2
