"""Bounds of write-back: what a full journal, and an upload that never ends, do to other writes."""

import asyncio
import os
import time
from collections.abc import Awaitable
from contextlib import suppress
from pathlib import Path

import pytest
from botocore.exceptions import HTTPClientError, ReadTimeoutError

from forebay.core.task_registry import TaskRegistry
from forebay.protocol.exchange import Request
from forebay.write.back.pending.pending_uploads import is_local
from forebay.write.interim_responses import InterimWait
from harness.clients import path_of
from harness.fake.actions import HoldRequest, Respond
from harness.fake.gate import Gate
from harness.fake_origin import FakeOrigin
from harness.oss_client import OssClient
from harness.rig import TRAINER
from harness.write_back_rig import WriteBackRig, at_origin

MIB = 1 << 20


async def _fill(rig: WriteBackRig, origin: FakeOrigin) -> Gate:
    """Has the journal hold 10 MiB, which stay until the gate is opened."""
    gate = Gate()
    origin.faults.add(HoldRequest(gate), method="PUT", key="a/first")
    await rig.put("a/first", b"1" * (10 * MIB))
    await gate.reached()
    return gate


async def test_above_high_water_a_write_goes_through(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, WriteBackRig(origin, tmp_path, journal_size="16MiB") as rig:
        await rig.prove()
        gate, waits = await _fill(rig, origin), asyncio.Event()

        class _Noted(InterimWait):
            async def wait(self, waiting: Awaitable[None], request: Request) -> None:
                waits.set()
                await super().wait(waiting, request)

        rig.write_back.barriers.patience = _Noted()
        write = rig.client().request("PUT", path_of("ckpt", "a/second"), (), b"2" * (5 * MIB))
        through = TaskRegistry().spawn(write, "above high water")
        await rig.put("a/small", b"what fits is acknowledged meanwhile")
        await waits.wait()  # else its last byte may come once there is room again
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


async def test_the_next_upload_of_a_large_object_is_the_origins(tmp_path: Path) -> None:
    """Its size is not known when it is created; then it is, and nothing has to be carried any more."""
    async with FakeOrigin() as origin, WriteBackRig(origin, tmp_path, journal_size="16MiB") as rig:
        await rig.prove()
        oss, target, content = OssClient(rig.endpoint, TRAINER), path_of("ckpt", "a/large"), os.urandom(6 * MIB)
        upload = await oss.initiate(target)
        assert is_local(upload)
        for number in (1, 2, 3):
            assert (await oss.part(target, upload, number, content)).status == 200
        await oss.request("DELETE", f"{target}?uploadId={upload}")
        other = await oss.initiate(path_of("ckpt", "a/other"))
        again = await oss.initiate(target)
        assert (is_local(other), is_local(again)) == (True, False)
        etags = [(await oss.part(target, again, number, content)).headers["ETag"] for number in (1, 2, 3)]
        assert (await oss.complete(target, again, list(enumerate(etags, 1)))).status == 200
        assert at_origin(origin, "a/large") == content * 3
        assert is_local(await oss.initiate(path_of("ckpt", "a/small")))


async def test_a_part_in_a_full_journal_goes_through_at_once(tmp_path: Path) -> None:
    """Nobody sees it, so it waits for nothing; its completion does. The object's next upload is accepted again."""
    async with FakeOrigin() as origin, WriteBackRig(origin, tmp_path, journal_size="16MiB") as rig:
        await rig.prove()
        oss, target = OssClient(rig.endpoint, TRAINER), path_of("ckpt", "a/upload")
        upload = await oss.initiate(target)
        gate = await _fill(rig, origin)
        etag = (await oss.part(target, upload, 1, bytes(6 * MIB))).headers["ETag"]
        completed = TaskRegistry().spawn(oss.complete(target, upload, [(1, etag)]), "complete")
        await rig.put("a/small", b"is acknowledged meanwhile")
        assert (at_origin(origin, "a/upload"), completed.done()) == (None, False)
        gate.open()
        assert (await completed).status == 200
        assert at_origin(origin, "a/upload") == bytes(6 * MIB)
        await rig.settled()
        assert is_local(await oss.initiate(target))


async def test_boto3_waits_above_high_water_without_an_error(tmp_path: Path) -> None:
    """For longer than it waits for a byte, and in one attempt: it is told now and then that the answer is to come."""
    for patience in (0.3, 3.0, 30.0):  # a machine that is busy may need more for a single step of this
        with suppress(ReadTimeoutError):
            (directory := tmp_path / f"{patience}").mkdir()
            await _boto3_waits(directory, patience)
            return
    pytest.fail("boto3 has given up, however long it waits for a byte")


async def _boto3_waits(directory: Path, patience: float) -> None:
    """`patience`: how long boto3 waits for a byte, in seconds. Raises ReadTimeoutError."""
    async with FakeOrigin() as origin, WriteBackRig(origin, directory, journal_size="16MiB") as rig:
        await rig.prove()
        gate = await _fill(rig, origin)
        began, told = time.monotonic(), list[float]()

        class _Told(InterimWait):
            async def wait(self, waiting: Awaitable[None], request: Request) -> None:
                def tell() -> None:
                    request.send_interim()
                    told.append(time.monotonic())
                    if told[-1] - began > patience:
                        gate.open()

                await super().wait(waiting, request._replace(send_interim=tell))

        rig.write_back.barriers.patience = _Told(interval=patience / 3, most=100)
        client = rig.boto3(read_timeout=patience, retries={"total_max_attempts": 1})
        try:
            answer = await asyncio.to_thread(client.put_object, Bucket="ckpt", Key="a/second", Body=b"2" * (5 * MIB))
        finally:
            client.close()
            gate.open()
        assert answer["ResponseMetadata"]["HTTPHeaders"]["x-forebay-durable"] == "origin"
        assert told[-1] - began > patience
        assert at_origin(origin, "a/second") == b"2" * (5 * MIB)


async def test_a_write_above_high_water_whose_client_leaves_is_not_sent(tmp_path: Path) -> None:
    """It must not come after what its client sends next."""
    async with FakeOrigin() as origin, WriteBackRig(origin, tmp_path, journal_size="16MiB") as rig:
        await rig.prove()
        gate = await _fill(rig, origin)
        client = rig.boto3(read_timeout=0.1, retries={"total_max_attempts": 1})
        with pytest.raises(HTTPClientError):  # while it sends, or after
            await asyncio.to_thread(client.put_object, Bucket="ckpt", Key="a/second", Body=b"2" * (5 * MIB))
        client.close()
        gate.open()
        await rig.settled()
        assert at_origin(origin, "a/second") is None, "a request may have begun, and has not got its end"


async def test_small_bodies_beyond_memory_have_files(tmp_path: Path) -> None:
    """They are read, carried out and found by the next start like the others."""
    async with FakeOrigin() as origin, WriteBackRig(origin, tmp_path) as rig:
        await rig.prove()
        down = origin.faults.add(Respond(503, "SlowDown"), method="PUT")
        rig.write_back.writer.bodies.most_in_memory = 2 * len(b"content 0")
        for number in range(3):
            await rig.put(f"a/{number}", b"content %d" % number)
        assert len(list((rig.journal / "bodies").iterdir())) == 1
        await rig.restart()
        for number in range(3):
            read = await rig.client().request("GET", path_of("ckpt", f"a/{number}"))
            assert (read.body, read.headers["x-forebay-durable"]) == (b"content %d" % number, "local")
        origin.faults.remove(down)
        await rig.settled()
        assert [at_origin(origin, f"a/{number}") for number in range(3)] == [b"content %d" % n for n in range(3)]
        assert (list((rig.journal / "bodies").iterdir()), rig.write_back.shown.in_memory) == ([], 0)
