"""Uploads that outgrow the journal: they go on at the origin in their middle, and their clients notice nothing."""

import asyncio
import errno
import hashlib
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from boto3.s3.transfer import TransferConfig
from botocore.exceptions import ClientError

from forebay.core.names import ObjectName
from forebay.core.task_registry import TaskRegistry
from forebay.policy.drain_order import WriteInterval
from forebay.storage.journal.log_writer import RecordId
from forebay.write.back.accept.record_writer import facts_of
from forebay.write.back.pending.accepted_write import (
    AcceptedPart,
    AcceptedUpload,
    AcceptedWrite,
    CompletedPart,
    JournalEntry,
    MovedUpload,
)
from forebay.write.back.pending.pending_uploads import is_local
from harness.clients import path_of
from harness.fake.actions import HoldRequest, LoseAnswer, Respond
from harness.fake.gate import Gate
from harness.fake.s3_request import S3Request
from harness.fake_origin import FakeOrigin
from harness.journal_points import FailAt, PointedFiles
from harness.oss_client import OssClient, told
from harness.rig import TRAINER
from harness.worker_node import Node
from harness.write_back_rig import RULE, AheadFiles, WriteBackRig, at_origin

MIB = 1 << 20
PART = 5 * MIB
FILLERS = 10_000
"""Parts that a start shows between a move and a completion."""
CONFIG = TransferConfig(multipart_threshold=PART, multipart_chunksize=PART, max_concurrency=3)


def _rig(origin: FakeOrigin, directory: Path, **settings: Any) -> WriteBackRig:
    """Its journal takes two parts."""
    return WriteBackRig(origin, directory, journal_size="16MiB", **settings)


def _is_part(*numbers: int) -> Callable[[S3Request], bool]:
    return lambda each: each.query.get("partNumber") in {str(number) for number in numbers}


async def test_boto3_uploads_more_than_the_journal_takes(tmp_path: Path) -> None:
    content = os.urandom(20 * MIB + 7)
    (tmp_path / "file").write_bytes(content)
    async with FakeOrigin() as origin, _rig(origin, tmp_path) as rig:
        await rig.prove()
        client = rig.boto3(retries={"max_attempts": 1, "mode": "standard"})

        def dialogue() -> str:
            extra = {"Metadata": {"a": "b"}}
            client.upload_file(str(tmp_path / "file"), "ckpt", "a/file", Config=CONFIG, ExtraArgs=extra)
            found = client.get_object(Bucket="ckpt", Key="a/file")
            assert (found["Body"].read() == content, found["Metadata"]) == (True, {"a": "b"})
            etag: str = found["ETag"]
            return etag

        etag = await asyncio.to_thread(dialogue)
        client.close()
        assert etag.endswith('-5"')
        assert (at_origin(origin, "a/file") == content, origin.store.get("ckpt", "a/file").etag) == (True, etag)
        await rig.settled()
        assert (rig.write_back.uploads.by_id, rig.write_back.uploads.parts) == ({}, {})
        assert list((rig.journal / "bodies").iterdir()) == []
        assert origin.store.bucket("ckpt").uploads == {}
        assert rig.parts.context.metrics.total("forebay_journal_moved_uploads_total") == 1
        await rig.restart()
        assert rig.write_back.uploads.by_id == {}


async def test_parts_that_are_on_their_way_to_the_origin_are_waited_for(tmp_path: Path) -> None:
    """By the same part sent again, a list of parts and a completion; not by a part of another number."""
    first, again = os.urandom(PART), os.urandom(PART)
    async with FakeOrigin() as origin, _rig(origin, tmp_path) as rig:
        await rig.prove()
        oss, target, tasks = OssClient(rig.endpoint, TRAINER), path_of("ckpt", "a/file"), TaskRegistry()
        upload, gates = await oss.initiate(target), (Gate(), Gate())
        for number, gate in enumerate(gates, 1):
            origin.faults.add(HoldRequest(gate), where=_is_part(number))
        etags = [(await oss.part(target, upload, number, first)).headers["ETag"] for number in (1, 2, 3)]
        for gate in gates:
            await gate.reached()
        resent = tasks.spawn(oss.part(target, upload, 1, again), "again")
        listed = tasks.spawn(oss.request("GET", f"{target}?uploadId={upload}"), "list")
        await oss.part(target, upload, 4, b"another number")
        assert (resent.done(), listed.done()) == (False, False)
        gates[0].open()
        etags[0] = (await resent).headers["ETag"]
        completed = tasks.spawn(oss.complete(target, upload, list(enumerate(etags, 1))), "complete")
        await oss.part(target, upload, 5, b"another number")
        assert (listed.done(), completed.done()) == (False, False)
        origin.faults.add(HoldRequest(completing := Gate()), operation="CompleteMultipartUpload")
        gates[1].open()
        assert told(await listed, "UploadId") == upload
        completing.open()
        done = await completed
        assert done.status == 200
        assert at_origin(origin, "a/file") == again + first + first
        repeated = [await oss.complete(target, upload, list(enumerate(named, 1))) for named in (etags, etags[:2])]
        assert [each.status for each in repeated] == [200, 404], "its answer was missed; another list"
        assert (told(repeated[0], "ETag"), repeated[0].headers["x-forebay-durable"]) == (told(done, "ETag"), "origin")
        await rig.settled()
        assert rig.write_back.uploads.by_id == {}


async def test_a_part_of_any_worker_moves_its_upload(tmp_path: Path) -> None:
    """Of the one that carries, and of the other one; what comes then goes to the other of both."""
    rest = f'[journal]\npath = "{tmp_path / "journal"}"\nsize = "16MiB"\n\n{RULE}'
    contents = [os.urandom(PART) for _ in range(3)]
    async with FakeOrigin() as origin, Node(origin, tmp_path, rest=rest) as node:
        origin.store.create_bucket("ckpt")
        for key, first in (("a/file", 0), ("a/other", 1)):
            clients = [OssClient(node.endpoint(number), TRAINER) for number in (first, 1 - first)]
            target = path_of("ckpt", key)
            upload = await clients[0].initiate(target)
            assert is_local(upload)
            listed = []
            for number, content in enumerate(contents, 1):
                answer = await clients[0].part(target, upload, number, content)
                listed.append((number, answer.headers["ETag"]))
            shown = await clients[1].request("GET", f"{target}?uploadId={upload}")
            assert shown.body.count(b"<PartNumber>") == 3
            assert (await clients[1].complete(target, upload, listed)).status == 200
            assert at_origin(origin, key) == b"".join(contents)
        assert origin.store.bucket("ckpt").uploads == {}


async def _begun(
    rig: WriteBackRig, oss: OssClient, target: str, contents: list[bytes]
) -> tuple[str, list[tuple[int, str]]]:
    """Begins an upload, and sends its parts. Returns its id, and what its completion lists."""
    upload = await oss.initiate(target)
    return upload, [
        (number, (await oss.part(target, upload, number, content)).headers["ETag"])
        for number, content in enumerate(contents, 1)
    ]


async def test_a_moved_upload_goes_on_after_a_restart(tmp_path: Path) -> None:
    """With parts that are not at the origin yet; those that failed there are tried again."""
    contents = [os.urandom(PART) for _ in range(4)]
    async with FakeOrigin() as origin, _rig(origin, tmp_path) as rig:
        await rig.prove()
        oss, target = OssClient(rig.endpoint, TRAINER), path_of("ckpt", "a/file")
        failing = origin.faults.add(Respond(503, "SlowDown"), where=_is_part(1, 2))
        upload, listed = await _begun(rig, oss, target, contents[:3])
        await rig.restart()
        assert len(rig.write_back.uploads.by_id[upload].parts) == 2
        origin.faults.remove(failing)
        origin.faults.add(LoseAnswer(), where=_is_part(1, 2), times=1)
        oss = OssClient(rig.endpoint, TRAINER)
        listed.append((4, (await oss.part(target, upload, 4, contents[3])).headers["ETag"]))
        assert (await oss.complete(target, upload, listed)).status == 200
        assert at_origin(origin, "a/file") == b"".join(contents)
        await rig.settled()
        assert list((rig.journal / "bodies").iterdir()) == []
        again = await oss.request("PUT", f"{target}?partNumber=5&uploadId={upload}", (), b"late")
        assert (again.status, told(again, "Code")) == (404, "NoSuchUpload")


async def _carried(rig: WriteBackRig, upload: str, gate: Gate) -> None:
    """Opens the gate, and waits until all parts of an upload are at the origin."""
    gate.open()
    await rig.write_back.uploads.wait_for(lambda: not rig.write_back.uploads.by_id[upload].parts)


@pytest.mark.parametrize("how", ["by its client", "at the origin", "at the origin, and completed", "as it was left"])
async def test_a_moved_upload_that_is_aborted_leaves_nothing(tmp_path: Path, how: str) -> None:
    async with FakeOrigin() as origin, _rig(origin, tmp_path) as rig:
        rig.journal_files = files = AheadFiles()
        await rig.restart()
        await rig.prove()
        oss, target, gate = OssClient(rig.endpoint, TRAINER), path_of("ckpt", "a/file"), Gate()
        origin.faults.add(HoldRequest(gate), where=_is_part(1))
        upload, listed = await _begun(rig, oss, target, [bytes(PART)] * 3)
        await gate.reached()
        match how:
            case "by its client":
                assert (await oss.request("DELETE", f"{target}?uploadId={upload}")).status == 204
                gate.open()
            case "at the origin":
                origin.store.bucket("ckpt").uploads.clear()
                gate.open()
            case "at the origin, and completed":
                await _carried(rig, upload, gate)
                origin.store.bucket("ckpt").uploads.clear()
                refused = await oss.complete(target, upload, listed)
                assert (refused.status, told(refused, "Code")) == (404, "NoSuchUpload")
            case _:
                await _carried(rig, upload, gate)
                files.seconds += 23 * 3600
                await oss.part(target, upload, 4, b"a part that the journal does not see")
                files.seconds += 23 * 3600
                await rig.write_back.expiry.expire()
                assert list(rig.write_back.uploads.by_id) == [upload]
                files.seconds += 3600
                await rig.write_back.expiry.expire()
        await rig.parts.context.tasks.wait_idle()
        assert (rig.write_back.uploads.by_id, rig.write_back.uploads.parts) == ({}, {})
        assert origin.store.bucket("ckpt").uploads == {}
        assert list((rig.journal / "bodies").iterdir()) == []
        refused = await oss.request("PUT", f"{target}?partNumber=5&uploadId={upload}", (), b"")
        assert told(refused, "Code") == "NoSuchUpload"


async def test_a_moved_upload_is_listed_once_and_takes_copies(tmp_path: Path) -> None:
    source = os.urandom(PART)
    async with FakeOrigin() as origin, _rig(origin, tmp_path) as rig:
        await rig.prove()
        origin.store.put("ckpt", "a/source", source)
        client, names = rig.boto3(retries={"max_attempts": 1, "mode": "standard"}), {"Bucket": "ckpt", "Key": "a/file"}

        def dialogue() -> None:
            upload = client.create_multipart_upload(**names)["UploadId"]
            for number in (1, 2, 3, 4):
                copied = {"CopySource": "ckpt/a/source", "PartNumber": number}
                client.upload_part_copy(**names, UploadId=upload, **copied)  # the third moves the upload
            assert [each["UploadId"] for each in client.list_multipart_uploads(Bucket="ckpt")["Uploads"]] == [upload]
            pages = client.get_paginator("list_parts").paginate(
                **names, UploadId=upload, PaginationConfig={"PageSize": 3}
            )
            parts = [part for page in pages for part in page["Parts"]]
            assert [part["PartNumber"] for part in parts] == [1, 2, 3, 4]
            listed = {"Parts": [{name: part[name] for name in ("PartNumber", "ETag")} for part in parts]}
            wrong = {"Parts": [{**listed["Parts"][0], "ETag": "0" * 32}]}
            with pytest.raises(ClientError, match="InvalidPart"):
                client.complete_multipart_upload(**names, UploadId=upload, MultipartUpload=wrong)
            answer = client.complete_multipart_upload(**names, UploadId=upload, MultipartUpload=listed)
            assert answer["ResponseMetadata"]["HTTPHeaders"]["x-forebay-durable"] == "origin"
            assert "Uploads" not in client.list_multipart_uploads(Bucket="ckpt")

        await asyncio.to_thread(dialogue)
        client.close()
        assert at_origin(origin, "a/file") == source * 4


async def test_a_copied_part_without_room_waits_for_its_pending_source(tmp_path: Path) -> None:
    """The upload moves, and the part is copied by the origin, once it has what is copied."""
    source = os.urandom(PART)
    async with FakeOrigin() as origin, _rig(origin, tmp_path) as rig:
        await rig.prove()
        oss, target, gate = OssClient(rig.endpoint, TRAINER), path_of("ckpt", "a/file"), Gate()
        upload, listed = await _begun(rig, oss, target, [source])
        origin.faults.add(HoldRequest(gate), method="PUT", key="a/source")
        await rig.put("a/source", source)
        await gate.reached()
        copying = TaskRegistry().spawn(
            oss.request("PUT", f"{target}?partNumber=2&uploadId={upload}", (("x-oss-copy-source", "/ckpt/a/source"),)),
            "copy",
        )
        await rig.write_back.uploads.wait_for(lambda: bool(rig.write_back.uploads.by_id[upload].origin_id))
        assert (copying.done(), origin.log.count(operation="UploadPartCopy")) == (False, 0)
        gate.open()
        copied = await copying
        assert (copied.status, origin.log.count(operation="UploadPartCopy")) == (200, 1)
        assert (await oss.complete(target, upload, [*listed, (2, told(copied, "ETag"))])).status == 200
        assert at_origin(origin, "a/file") == source * 2


async def test_an_upload_that_can_not_move_stays(tmp_path: Path) -> None:
    """The origin refuses it, or the journal can't record it: the part is refused, and may be sent again."""
    points = FailAt()
    async with FakeOrigin() as origin:
        rig = _rig(origin, tmp_path)
        rig.journal_files = PointedFiles(points)
        async with rig:
            await rig.prove()
            oss, target, content = OssClient(rig.endpoint, TRAINER), path_of("ckpt", "a/file"), os.urandom(PART)
            upload, listed = await _begun(rig, oss, target, [content] * 2)
            third = f"{target}?partNumber=3&uploadId={upload}"
            origin.faults.add(Respond(403, "AccessDenied"), operation="CreateMultipartUpload", times=1)
            assert (await oss.request("PUT", third, (), content)).status == 503
            await rig.wait_idle()
            points.arm(0, errno.ENOSPC)
            assert (await oss.request("PUT", third, (), content)).status == 503
            assert points.failed is not None
            points.arm(None)
            await rig.wait_idle()
            assert origin.store.bucket("ckpt").uploads == {}
            listed.append((3, (await oss.part(target, upload, 3, content)).headers["ETag"]))
            assert (await oss.complete(target, upload, listed)).status == 200
            assert at_origin(origin, "a/file") == content * 3


async def test_a_start_shows_all_before_it_carries_parts(tmp_path: Path) -> None:
    """Killed between the record of a move and its settlement, beside a completion: the parts are its bytes."""
    async with FakeOrigin() as origin, WriteBackRig(origin, tmp_path) as rig:
        await rig.prove()
        journal, named = rig.write_back.journal, rig.write_back.record_origins.named("ckpt")

        async def append(entry: JournalEntry, payload: bytes = b"") -> RecordId:
            return await journal.append({**entry.document(), **named}, payload)

        content, name, other = b"content of a part", ObjectName("ckpt", "a/key"), ObjectName("ckpt", "a/other")
        digest = hashlib.md5(content, usedforsecurity=False)
        etag = f'"{hashlib.md5(digest.digest(), usedforsecurity=False).hexdigest()}-1"'
        origin_id = await rig.write_back.moves._at_origin.create(name, ())  # noqa: SLF001 # not moved yet
        written = journal.stamp()
        await append(AcceptedUpload(name, "upload", (), 0.0))
        part = AcceptedPart(name, "upload", 1, f'"{digest.hexdigest()}"', len(content), (), None, (), 0.0, 0, 0)
        completed = CompletedPart(1, part.etag, await append(part, content))
        facts = facts_of(etag, len(content), 0.0, ())
        interval = WriteInterval(written, written)
        completion = AcceptedWrite(
            "complete", name, interval, facts=facts, block_size=1 << 20, upload_id="upload", parts=(completed,)
        )
        await append(completion)
        await append(MovedUpload(name, "upload", origin_id, journal.stamp()))
        await append(AcceptedUpload(other, "other", (), 0.0))
        for start in range(1, FILLERS, 500):
            later = replace(part, name=other, upload_id="other", accepted_at=5.0)
            await asyncio.gather(*(append(replace(later, number=start + each), content) for each in range(500)))
        await rig.stop()
        await rig.start()
        await rig.settled()
        assert at_origin(origin, name.key) == content
