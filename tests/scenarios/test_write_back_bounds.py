"""Bounds of write-back: what a full journal, and an upload that never ends, do to other writes."""

import asyncio
import os
from pathlib import Path

from forebay.core.task_registry import TaskRegistry
from forebay.write.back.pending_uploads import is_local
from harness.clients import path_of
from harness.fake.actions import HoldRequest
from harness.fake.gate import Gate
from harness.fake_origin import FakeOrigin
from harness.oss_client import OssClient
from harness.rig import TRAINER
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


async def test_a_body_larger_than_the_journal_goes_through(tmp_path: Path) -> None:
    content = os.urandom(20 * MIB)
    async with FakeOrigin() as origin, WriteBackRig(origin, tmp_path, journal_size="16MiB") as rig:
        await rig.prove()
        answer = await rig.client().request("PUT", path_of("ckpt", "a/large"), (), content)
        assert (answer.status, answer.headers["x-forebay-durable"]) == (200, "origin")
        assert at_origin(origin, "a/large") == content
        assert list((rig.journal / "bodies").iterdir()) == []


async def test_an_upload_larger_than_the_journal_goes_through_when_retried(tmp_path: Path) -> None:
    """Its size is not known when it is created: a part is refused, and the client's next upload is the origin's."""
    async with FakeOrigin() as origin, WriteBackRig(origin, tmp_path, journal_size="16MiB") as rig:
        await rig.prove()
        oss, target, content = OssClient(rig.endpoint, TRAINER), path_of("ckpt", "a/large"), os.urandom(6 * MIB)
        upload = await oss.initiate(target)
        assert is_local(upload)
        for number in (1, 2):
            assert (await oss.part(target, upload, number, content)).status == 200
        refused = await oss.request("PUT", f"{target}?partNumber=3&uploadId={upload}", (), content)
        assert (refused.status, refused.headers["Retry-After"]) == (503, "1")
        await oss.request("DELETE", f"{target}?uploadId={upload}")
        other = await oss.initiate(path_of("ckpt", "a/other"))
        again = await oss.initiate(target)
        assert (is_local(other), is_local(again)) == (True, False)
        etags = [(await oss.part(target, again, number, content)).headers["ETag"] for number in (1, 2, 3)]
        assert (await oss.complete(target, again, list(enumerate(etags, 1)))).status == 200
        assert at_origin(origin, "a/large") == content * 3
        assert is_local(await oss.initiate(path_of("ckpt", "a/small")))


async def test_a_part_that_waits_for_room_forgets_nothing(tmp_path: Path) -> None:
    """What is refused as the journal is full at the moment may be accepted later: the next upload is accepted too."""
    async with FakeOrigin() as origin, WriteBackRig(origin, tmp_path, journal_size="16MiB") as rig:
        await rig.prove()
        gate, oss, target = Gate(), OssClient(rig.endpoint, TRAINER), path_of("ckpt", "a/upload")
        origin.faults.add(HoldRequest(gate), method="PUT", key="a/first")
        await rig.put("a/first", b"1" * (10 * MIB))
        await gate.reached()
        upload = await oss.initiate(target)
        refused = await oss.request("PUT", f"{target}?partNumber=1&uploadId={upload}", (), bytes(6 * MIB))
        assert refused.status == 503
        gate.open()
        await rig.settled()
        assert (await oss.part(target, upload, 1, bytes(6 * MIB))).status == 200
        assert is_local(await oss.initiate(target))
