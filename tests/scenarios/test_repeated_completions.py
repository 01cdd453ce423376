"""A completion whose answer was lost is repeated: its client gets the answer of the first one, as from S3, also if the
origin has forgotten the upload. The fake S3 origin does, as MinIO, and so does the stand-in for OSS."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from signal import SIGKILL
from typing import Final

import pytest

from forebay.core.task_registry import TaskRegistry
from harness.clients import RawClient, path_of
from harness.fake.actions import HoldHead, LoseAnswer, Respond
from harness.fake.gate import Gate
from harness.fake_origin import FakeOrigin
from harness.oss_client import OssClient, told
from harness.oss_origin import OssOrigin
from harness.raw_connection import RawAnswer
from harness.rig import TRAINER
from harness.worker_node import Node
from harness.write_back_rig import JOURNAL, RULE, WriteBackRig, at_origin

PART: Final = b"p" * (100 << 10)
CONDITION: Final = (("If-None-Match", "*"),)


@asynccontextmanager
async def _origin(dialect: str) -> AsyncIterator[FakeOrigin]:
    async with OssOrigin() if dialect == "oss" else FakeOrigin(smallest_part=1) as origin:
        origin.store.create_bucket("through")
        yield origin


async def _upload(client: RawClient, bucket: str) -> tuple[str, bytes]:
    """An upload of one part. Returns its target, and the document of its completion."""
    path = path_of(bucket, "a/file")
    upload = told(await client.request("POST", f"{path}?uploads="), "UploadId")
    etag = (await client.request("PUT", f"{path}?partNumber=1&uploadId={upload}", (), PART)).headers["ETag"]
    listed = f"<Part><PartNumber>1</PartNumber><ETag>{etag}</ETag></Part>"
    return f"{path}?uploadId={upload}", f"<CompleteMultipartUpload>{listed}</CompleteMultipartUpload>".encode()


def _is_completed(answer: RawAnswer, origin: FakeOrigin, bucket: str) -> bool:
    made = origin.store.current(bucket, "a/file")
    etag = told(answer, "ETag").replace("&quot;", '"') if answer.status == 200 else ""
    return made is not None and etag.lower() == made.etag


@pytest.mark.parametrize("dialect", ["swift", "oss"])
@pytest.mark.parametrize("condition", [(), CONDITION], ids=["unconditional", "conditional"])
async def test_a_lost_answer_is_given_again(
    tmp_path: Path, dialect: str, condition: tuple[tuple[str, str], ...]
) -> None:
    async with _origin(dialect) as origin, WriteBackRig(origin, tmp_path, dialect=dialect) as rig:
        await rig.prove()
        target, document = await _upload(rig.client(), "through")
        origin.faults.add(LoseAnswer(), operation="CompleteMultipartUpload", times=1)
        answers = [await rig.client().request("POST", target, condition, document) for _ in range(3)]
        assert [each.status for each in answers] == [503, 200, 200]
        assert all(_is_completed(each, origin, "through") for each in answers[1:])
        assert (await rig.client().request("GET", path_of("through", "a/file"))).body == PART


async def test_an_oss_client_is_answered_again(tmp_path: Path) -> None:
    async with _origin("oss") as origin, WriteBackRig(origin, tmp_path, dialect="oss") as rig:
        await rig.prove()
        oss, path = OssClient(rig.endpoint, TRAINER), path_of("through", "a/file")
        upload = await oss.initiate(path)
        listed = [(1, (await oss.part(path, upload, 1, PART)).headers["ETag"])]
        origin.faults.add(LoseAnswer(), operation="CompleteMultipartUpload", times=1)
        answers = [await oss.complete(path, upload, listed) for _ in range(2)]
        assert [each.status for each in answers] == [503, 200]
        head = await oss.request("HEAD", path)
        assert answers[1].headers["x-oss-hash-crc64ecma"] == head.headers["x-oss-hash-crc64ecma"]


async def _small_parts(endpoint: str, count: int = 3) -> tuple[OssClient, str, list[tuple[int, str]]]:
    """An upload of parts that an S3 origin takes joined only. Returns its client, its id and the list of its parts."""
    oss, path = OssClient(endpoint, TRAINER), path_of("through", "a/file")
    upload = await oss.initiate(path)
    numbers = range(1, 1 + count)
    return oss, upload, [(each, (await oss.part(path, upload, each, PART)).headers["ETag"]) for each in numbers]


@pytest.mark.parametrize("lost", ["CompleteMultipartUpload", "UploadPart", None])
async def test_small_parts_are_answered_again(tmp_path: Path, lost: str | None) -> None:
    """Their client lists other ETags than the origin has. Lost: the answer to the completion, to a joined part, or that
    of Forebay."""
    async with FakeOrigin() as origin, WriteBackRig(origin, tmp_path) as rig:
        await rig.prove()
        origin.store.create_bucket("through")
        oss, upload, listed = await _small_parts(rig.endpoint)
        if lost is not None:
            origin.faults.add(LoseAnswer(), operation=lost, times=1)
        path = path_of("through", "a/file")
        answers = [await oss.complete(path, upload, listed) for _ in range(3)]
        assert [each.status for each in answers] == [200 if lost is None else 503, 200, 200]
        assert (
            answers[1].headers["ETag"]
            == answers[2].headers["ETag"]
            == (await oss.request("HEAD", path)).headers["ETag"]
        )
        assert (await oss.complete(path, upload, listed[:2])).status == 404
        assert at_origin(origin, "a/file", "through") == 3 * PART


async def test_small_parts_of_an_aborted_upload_are_refused(tmp_path: Path) -> None:
    """By the origin, whatever Forebay still holds of them: not by a 503, which is tried again for ever."""
    async with FakeOrigin() as origin, WriteBackRig(origin, tmp_path) as rig:
        await rig.prove()
        origin.store.create_bucket("through")
        oss, upload, listed = await _small_parts(rig.endpoint)
        origin.store.bucket("through").uploads.clear()
        refused = await oss.complete(path_of("through", "a/file"), upload, listed)
        assert (refused.status, told(refused, "Code")) == (404, "NoSuchUpload")


@pytest.mark.parametrize("is_killed", [False, True], ids=["answered", "killed"])
async def test_another_worker_answers_small_parts_again(tmp_path: Path, is_killed: bool) -> None:
    async with FakeOrigin() as origin, Node(origin, tmp_path) as node:
        origin.store.create_bucket("through")
        path, gate = path_of("through", "a/file"), Gate()
        oss, upload, listed = await _small_parts(node.endpoint(0))
        if is_killed:
            origin.faults.add(HoldHead(gate), operation="CompleteMultipartUpload", times=1)
        first = TaskRegistry().spawn(oss.complete(path, upload, listed), "complete")
        if is_killed:
            await gate.reached()
            await node.kill_worker(0, SIGKILL)
        assert (await first).status == (0 if is_killed else 200)
        again = await OssClient(node.endpoint(1), TRAINER).complete(path, upload, listed)
        gate.open()
        assert again.status == 200, again.body
        assert at_origin(origin, "a/file", "through") == 3 * PART


@pytest.mark.parametrize("bucket", ["through", "ckpt"])
async def test_a_completion_without_its_object_is_refused(tmp_path: Path, bucket: str) -> None:
    """The upload was aborted, or the object was replaced since."""
    async with _origin("swift") as origin, WriteBackRig(origin, tmp_path) as rig:
        await rig.prove()
        target, document = await _upload(rig.client(), bucket)
        assert (await rig.client().request("DELETE", target)).status == 204
        for content in (None, b"of another"):
            if content is not None:
                origin.store.put(bucket, "a/file", content)
            answer = await rig.client().request("POST", target, (), document)
            assert (answer.status, told(answer, "Code")) == (404, "NoSuchUpload")


async def test_another_object_is_not_taken_for_it(tmp_path: Path) -> None:
    """Nor one that can't be looked at."""
    async with _origin("swift") as origin, WriteBackRig(origin, tmp_path) as rig:
        await rig.prove()
        target, document = await _upload(rig.client(), "through")
        assert (await rig.client().request("POST", target, (), document)).status == 200
        unreadable = origin.faults.add(Respond(403), method="HEAD")
        assert (await rig.client().request("POST", target, (), document)).status == 404
        origin.faults.remove(unreadable)
        other = document.replace(b"<ETag>", b"<ETag>0").replace(b"</ETag>", b"</ETag>", 1)
        assert (await rig.client().request("POST", target, (), other)).status == 404
        assert (await rig.client().request("POST", target, (), document)).status == 200


@pytest.mark.parametrize("condition", [(), CONDITION], ids=["unconditional", "conditional"])
async def test_a_later_run_answers_again(tmp_path: Path, condition: tuple[tuple[str, str], ...]) -> None:
    """The upload was one of the journal's, which has forgotten it."""
    async with _origin("swift") as origin, WriteBackRig(origin, tmp_path) as rig:
        await rig.prove()
        target, document = await _upload(rig.client(), "ckpt")
        assert (await rig.client().request("POST", target, condition, document)).status == 200
        await rig.settled()
        await rig.restart()
        again = await rig.client().request("POST", target, condition, document)
        assert _is_completed(again, origin, "ckpt")
        assert again.headers["x-forebay-durable"] == "origin"


@pytest.mark.parametrize("is_before", [False, True], ids=["done", "not done"])
async def test_the_origin_is_asked_what_became_of_it(tmp_path: Path, is_before: bool) -> None:
    """A completion that the journal has the origin decide, whose answer is lost: the condition would not hold for a
    second one."""
    async with _origin("swift") as origin, WriteBackRig(origin, tmp_path) as rig:
        await rig.prove()
        target, document = await _upload(rig.client(), "ckpt")
        fault = Respond(503, "SlowDown") if is_before else LoseAnswer()
        origin.faults.add(fault, operation="CompleteMultipartUpload", times=1)
        first = await rig.client().request("POST", target, CONDITION, document)
        assert first.status == (503 if is_before else 200)
        again = await rig.client().request("POST", target, CONDITION, document)
        assert _is_completed(again, origin, "ckpt")
        assert at_origin(origin, "a/file") == PART
        assert origin.store.bucket("ckpt").uploads == {}
        assert origin.log.count("POST", "CompleteMultipartUpload") == (2 if is_before else 1)


async def test_a_killed_workers_completion_is_answered(tmp_path: Path) -> None:
    """The origin has carried it out, and another worker is asked again."""
    rest = JOURNAL.format(path=tmp_path / "journal", size="16MiB") + RULE
    async with _origin("swift") as origin, Node(origin, tmp_path, rest=rest) as node:
        target, document = await _upload(node.client(0), "through")
        gate = Gate()
        origin.faults.add(HoldHead(gate), operation="CompleteMultipartUpload", times=1)
        first = TaskRegistry().spawn(node.client(0).request("POST", target, (), document), "complete")
        await gate.reached()
        await node.kill_worker(0, SIGKILL)
        assert (await first).status == 0
        again = await node.client(1).request("POST", target, (), document)
        gate.open()
        assert _is_completed(again, origin, "through")
