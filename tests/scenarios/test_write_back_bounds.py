"""Bounds of write-back: what a full journal, and an upload that never ends, do to other writes."""

import asyncio
from pathlib import Path

from forebay.core.task_registry import TaskRegistry
from harness.clients import path_of
from harness.fake.actions import HoldRequest
from harness.fake.gate import Gate
from harness.fake_origin import FakeOrigin
from harness.write_back_rig import WriteBackRig, at_origin

MIB = 1 << 20


async def test_above_high_water_a_write_goes_through(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, WriteBackRig(origin, tmp_path, journal_size="16MiB") as rig:
        await rig.prove()
        gate = Gate()
        origin.faults.add(HoldRequest(gate), method="PUT", key="a/first")
        await rig.put("a/first", b"1" * (10 * MIB))
        await gate.reached()
        write = rig.client().request("PUT", path_of("ckpt", "a/second"), (), b"2" * (5 * MIB))
        through = TaskRegistry().spawn(write, "above high water")
        await rig.put("a/small", b"what fits is acknowledged meanwhile")
        gate.open()
        answer = await through
        assert (answer.status, answer.headers["x-forebay-durable"]) == (200, "origin")
        assert at_origin(origin, "a/second") == b"2" * (5 * MIB)
        await rig.settled()
        await rig.put("a/third", b"3" * (10 * MIB))
        await rig.settled()
        assert at_origin(origin, "a/third") == b"3" * (10 * MIB)


async def test_an_unfinished_upload_holds_up_nobody(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, WriteBackRig(origin, tmp_path) as rig:
        await rig.prove()
        client, upload = rig.boto3(), {"Bucket": "ckpt", "Key": "a/never"}

        def begin() -> None:
            begun = client.create_multipart_upload(**upload)["UploadId"]
            client.upload_part(**upload, UploadId=begun, PartNumber=1, Body=b"x")

        await asyncio.to_thread(begin)
        await rig.put("a/after", b"content")
        await rig.settled()
        assert at_origin(origin, "a/after") == b"content"
        client.close()
