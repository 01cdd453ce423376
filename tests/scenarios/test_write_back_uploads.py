"""Multipart uploads under a `back` rule: by boto3, whose parts and checksums the origin gets as they were sent."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from hashlib import md5
from pathlib import Path
from typing import Any

import pytest
from boto3.s3.transfer import TransferConfig
from botocore.exceptions import ClientError

from forebay.core.task_registry import TaskRegistry
from harness.clients import path_of
from harness.fake.actions import HoldRequest, LoseAnswer, Respond
from harness.fake.checksums import composite_of, digest_of
from harness.fake.gate import Gate
from harness.fake.store import Upload
from harness.fake_origin import FakeOrigin
from harness.held_syncs import HeldSyncs
from harness.inspection import run_loop_until
from harness.origin_history import RecordingStore
from harness.oss_client import OssClient, told
from harness.raw_connection import RawAnswer
from harness.rig import TRAINER
from harness.worker_node import Node
from harness.write_back_rig import JOURNAL, RULE, WriteBackRig, at_origin

MIB = 1 << 20
CONFIG = TransferConfig(multipart_threshold=5 * MIB, multipart_chunksize=5 * MIB, max_concurrency=3)


async def test_boto3_uploads_in_parts_at_once(tmp_path: Path) -> None:
    content = os.urandom(12 * MIB + 5)
    (tmp_path / "file").write_bytes(content)
    async with FakeOrigin() as origin, WriteBackRig(origin, tmp_path) as rig:
        await rig.prove()
        gate = Gate()
        origin.faults.add(HoldRequest(gate), operation="CompleteMultipartUpload")
        client = rig.boto3()

        def dialogue() -> str:
            extra = {"Metadata": {"step": "7"}, "ContentType": "text/x"}
            client.upload_file(str(tmp_path / "file"), "ckpt", "a/file", Config=CONFIG, ExtraArgs=extra)
            found = client.get_object(Bucket="ckpt", Key="a/file")
            assert found["Body"].read() == content
            assert (found["Metadata"], found["ContentType"]) == ({"step": "7"}, "text/x")
            ranged = client.get_object(Bucket="ckpt", Key="a/file", Range=f"bytes={5 * MIB - 3}-{5 * MIB + 2}")
            assert ranged["Body"].read() == content[5 * MIB - 3 : 5 * MIB + 3]
            etag: str = found["ETag"]
            return etag

        etag = await asyncio.to_thread(dialogue)
        assert etag.endswith('-3"')
        assert origin.store.current("ckpt", "a/file") is None
        await gate.reached()
        assert len(origin.store.bucket("ckpt").uploads) == 1
        listed = await asyncio.to_thread(lambda: client.list_multipart_uploads(Bucket="ckpt"))
        assert "Uploads" not in listed, "it is completed, as far as its client knows"
        gate.open()
        await rig.settled()
        stored = origin.store.get("ckpt", "a/file")
        assert (stored.etag, stored.content.size) == (etag, len(content))
        head = await asyncio.to_thread(lambda: client.head_object(Bucket="ckpt", Key="a/file"))
        assert (head["ETag"], head["Metadata"]) == (etag, {"step": "7"})
        client.close()
        assert list((rig.journal / "bodies").iterdir()) == []
        assert origin.store.bucket("ckpt").uploads == {}


async def test_a_completed_upload_survives_a_restart(tmp_path: Path) -> None:
    content = os.urandom(11 * MIB)
    (tmp_path / "file").write_bytes(content)
    async with FakeOrigin() as origin, WriteBackRig(origin, tmp_path) as rig:
        await rig.prove()
        refusal = origin.faults.add(Respond(503, "SlowDown"), method="POST")
        client = rig.boto3()
        await asyncio.to_thread(lambda: client.upload_file(str(tmp_path / "file"), "ckpt", "a/file", Config=CONFIG))
        client.close()
        await rig.restart()
        assert (await rig.client().request("GET", path_of("ckpt", "a/file"))).body == content
        origin.faults.remove(refusal)
        await rig.settled()
        assert origin.store.get("ckpt", "a/file").content.size == len(content)
        assert list((rig.journal / "bodies").iterdir()) == []


async def test_the_parts_of_an_upload_are_listed(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, WriteBackRig(origin, tmp_path) as rig:
        await rig.prove()
        client, names = rig.boto3(), {"Bucket": "ckpt", "Key": "a/file"}

        def dialogue() -> None:
            upload = client.create_multipart_upload(**names)["UploadId"]
            sent = {}
            for number in (3, 1, 7, 2):
                part = client.upload_part(**names, UploadId=upload, PartNumber=number, Body=b"x" * number)
                sent[number] = part["ETag"]
            pages = client.get_paginator("list_parts").paginate(
                **names, UploadId=upload, PaginationConfig={"PageSize": 3}
            )
            listed = [(each["PartNumber"], each["ETag"], each["Size"]) for page in pages for each in page["Parts"]]
            assert listed == [(number, sent[number], number) for number in (1, 2, 3, 7)]
            with pytest.raises(ClientError, match="NoSuchUpload"):
                client.list_parts(Bucket="ckpt", Key="a/other", UploadId=upload)

        await asyncio.to_thread(dialogue)
        client.close()
        # x-amz-checksum-mode is about reads, and some SDKs send it with every request: it is no checksum of the part.
        sent, mode = rig.client(), (("x-amz-checksum-mode", "ENABLED"),)
        upload = told(await sent.request("POST", "/ckpt/a/file?uploads"), "UploadId")
        part = await sent.request("PUT", f"/ckpt/a/file?partNumber=1&uploadId={upload}", mode, b"x")
        listed = await sent.request("GET", f"/ckpt/a/file?uploadId={upload}")
        assert (part.status, listed.status, b"Checksum" in listed.body) == (200, 200, False)
        assert "x-amz-checksum-mode" not in part.headers
        assert origin.log.count(operation="ListParts") == 0


async def test_unfinished_uploads_are_listed_in_both_dialects(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, WriteBackRig(origin, tmp_path) as rig:
        await rig.prove()
        client, oss = rig.boto3(), OssClient(rig.endpoint, TRAINER)
        origin.store.bucket("ckpt").uploads["1" * 32] = Upload("a/b", (), (), 0.0)
        local = {key: await oss.initiate(path_of("ckpt", key)) for key in ("a/b", "a/c", "a/d/e")}

        def dialogue() -> None:
            pages = client.get_paginator("list_multipart_uploads").paginate(
                Bucket="ckpt", Prefix="a/", Delimiter="/", PaginationConfig={"PageSize": 1}
            )
            found = [
                [(each["Key"], each["UploadId"]) for each in page.get("Uploads", ())]
                + [each["Prefix"] for each in page.get("CommonPrefixes", ())]
                for page in pages
            ]
            assert found == [[("a/b", "1" * 32)], [("a/b", local["a/b"])], [("a/c", local["a/c"])], ["a/d/"]]

        await asyncio.to_thread(dialogue)
        listed = await oss.request("GET", "/ckpt?uploads&prefix=a/d/")
        assert (told(listed, "Key"), told(listed, "UploadId")) == ("a/d/e", local["a/d/e"])
        for key, upload in local.items():
            await oss.request("DELETE", f"{path_of('ckpt', key)}?uploadId={upload}")
        await rig.parts.context.tasks.wait_idle()
        listed = await oss.request("GET", "/ckpt?uploads")
        assert told(listed, "UploadId") == "1" * 32
        client.close()


async def test_parts_are_copied_from_the_origin_and_from_the_journal(tmp_path: Path) -> None:
    stored, pending = os.urandom(5 * MIB), os.urandom(6 * MIB)
    async with FakeOrigin() as origin, WriteBackRig(origin, tmp_path) as rig:
        await rig.prove()
        origin.store.put("ckpt", "a/stored", stored)
        gate = Gate()
        origin.faults.add(HoldRequest(gate), method="PUT", key="a/pending")
        await rig.put("a/pending", pending)
        client, names = rig.boto3(), {"Bucket": "ckpt", "Key": "a/joined"}
        oss = OssClient(rig.endpoint, TRAINER)

        def dialogue() -> str:
            upload: str = client.create_multipart_upload(**names)["UploadId"]
            source = {"Bucket": "ckpt", "Key": "a/pending"}
            ranges = {"CopySourceRange": f"bytes={MIB}-{6 * MIB - 1}"}
            for number, copied in ((1, {"CopySource": "ckpt/a/stored"}), (2, {"CopySource": source, **ranges})):
                client.upload_part_copy(**names, UploadId=upload, PartNumber=number, **copied)
            with pytest.raises(ClientError, match="NoSuchKey"):
                client.upload_part_copy(**names, UploadId=upload, PartNumber=3, CopySource="ckpt/a/missing")
            with pytest.raises(ClientError, match="InvalidRequest"):
                client.upload_part(
                    **names, UploadId=upload, PartNumber=3, Body=b"", SSECustomerAlgorithm="AES256", SSECustomerKey="k"
                )
            return upload

        upload = await asyncio.to_thread(dialogue)
        target = path_of("ckpt", "a/joined")
        copied = await oss.request(
            "PUT", f"{target}?partNumber=3&uploadId={upload}", [("x-oss-copy-source", "/ckpt/a/stored")]
        )
        assert told(copied, "ETag").strip('"').lower() == md5(stored, usedforsecurity=False).hexdigest()

        def complete() -> None:
            parts = client.list_parts(**names, UploadId=upload)["Parts"]
            listed = [{"PartNumber": part["PartNumber"], "ETag": part["ETag"]} for part in parts]
            client.complete_multipart_upload(**names, UploadId=upload, MultipartUpload={"Parts": listed})
            assert client.get_object(**names)["Body"].read() == stored + pending[MIB:] + stored

        await asyncio.to_thread(complete)
        client.close()
        gate.open()
        await rig.settled()
        assert at_origin(origin, "a/joined") == stored + pending[MIB:] + stored
        assert origin.log.count(operation="UploadPartCopy") == 0


async def test_the_origin_decides_the_condition_of_a_completion(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, WriteBackRig(origin, tmp_path) as rig:
        await rig.prove()
        client, names = rig.boto3(), {"Bucket": "ckpt", "Key": "a/file"}
        before = await rig.put("a/before", b"acknowledged before")

        def upload() -> dict[str, Any]:
            created: str = client.create_multipart_upload(**names)["UploadId"]
            part = client.upload_part(**names, UploadId=created, PartNumber=1, Body=b"content")
            return {"UploadId": created, "MultipartUpload": {"Parts": [{"PartNumber": 1, "ETag": part["ETag"]}]}}

        def dialogue() -> None:
            first = upload()
            made = client.complete_multipart_upload(**names, **first, IfNoneMatch="*")
            assert made["ResponseMetadata"]["HTTPHeaders"]["x-forebay-durable"] == "origin"
            assert at_origin(origin, "a/before") == b"acknowledged before"
            assert (at_origin(origin, "a/file"), made["ETag"]) == (b"content", origin.store.get("ckpt", "a/file").etag)
            second = upload()
            for condition in ({"IfNoneMatch": "*"}, {"IfMatch": before}):
                with pytest.raises(ClientError, match="PreconditionFailed"):
                    client.complete_multipart_upload(**names, **second, **condition)
            listed = client.list_multipart_uploads(Bucket="ckpt")["Uploads"]
            assert [each["UploadId"] for each in listed] == [second["UploadId"]]
            replaced = client.complete_multipart_upload(**names, **second, IfMatch=made["ETag"])
            with pytest.raises(ClientError, match="NoSuchUpload"):
                client.complete_multipart_upload(**names, **second)
            answered = [(first, {"IfNoneMatch": "*"}, made), (second, {"IfMatch": made["ETag"]}, replaced)]
            for completed, condition, answer in answered:  # its client has missed the answer
                again = client.complete_multipart_upload(**names, **completed, **condition)
                headers = again["ResponseMetadata"]["HTTPHeaders"]
                assert (again["ETag"], headers["x-forebay-durable"]) == (answer["ETag"], "origin")

        await asyncio.to_thread(dialogue)
        client.close()
        await rig.settled()
        assert origin.store.bucket("ckpt").uploads == {}
        assert list((rig.journal / "bodies").iterdir()) == []


@pytest.mark.parametrize("header", [("If-None-Match", "*"), ("x-forebay-durability", "origin")])
async def test_a_completion_at_the_origin_has_its_checksum(tmp_path: Path, header: tuple[str, str]) -> None:
    """S3 computes one of an upload that was created without an algorithm. A repeated completion is answered alike."""
    async with FakeOrigin() as origin, WriteBackRig(origin, tmp_path) as rig:
        await rig.prove()
        oss, target = OssClient(rig.endpoint, TRAINER), path_of("ckpt", "a/file")
        upload = await oss.initiate(target)
        part = await oss.part(target, upload, 1, b"content")
        listed = f"<Part><PartNumber>1</PartNumber><ETag>{part.headers['ETag']}</ETag></Part>"
        document = f"<CompleteMultipartUpload>{listed}</CompleteMultipartUpload>".encode()
        for _ in range(2):
            answer = await rig.client().request("POST", f"{target}?uploadId={upload}", (header,), document)
            assert (answer.status, answer.headers["x-forebay-durable"]) == (200, "origin")
            assert told(answer, "ChecksumCRC64NVME") == digest_of("crc64nvme", b"content")
            assert told(answer, "ChecksumType") == "FULL_OBJECT"


async def test_a_conditional_completion_whose_answer_is_lost_is_in_doubt(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, WriteBackRig(origin, tmp_path) as rig:
        await rig.prove()
        oss, target = OssClient(rig.endpoint, TRAINER), path_of("ckpt", "a/file")
        origin.store.put("ckpt", "a/file", b"before")
        assert (await rig.client().request("GET", target)).body == b"before"
        upload = await oss.initiate(target)
        part = await oss.part(target, upload, 1, b"content")
        origin.faults.add(LoseAnswer(), operation="CompleteMultipartUpload")
        origin.faults.add(Respond(503, "SlowDown"), operation="ListParts")  # what became of it can't be found out
        listed = f"<Part><PartNumber>1</PartNumber><ETag>{part.headers['ETag']}</ETag></Part>"
        document = f"<CompleteMultipartUpload>{listed}</CompleteMultipartUpload>".encode()
        durable = ("x-forebay-durability", "origin")
        answer = await rig.client().request("POST", f"{target}?uploadId={upload}", (durable,), document)
        assert (answer.status, answer.headers["Retry-After"]) == (503, "1")
        assert (await rig.client().request("GET", target)).body == b"content"
        again = await oss.request("GET", f"{target}?uploadId={upload}")
        assert told(again, "PartNumber") == "1"


async def test_a_completion_of_a_killed_worker_is_in_doubt_for_the_others(tmp_path: Path) -> None:
    """One that the origin decides, and is in no journal, so that nobody takes it over."""
    rest = JOURNAL.format(path=tmp_path / "journal", size="64MiB") + RULE + 'freshness = "immutable"\n'
    async with FakeOrigin() as origin, Node(origin, tmp_path, rest=rest) as node:
        origin.store.create_bucket("ckpt")
        origin.store.put("ckpt", "a/file", b"before")
        oss, target, reader = OssClient(node.endpoint(0), TRAINER), path_of("ckpt", "a/file"), node.client(1)
        for method in ("PUT", "DELETE"):
            assert (await node.client(0).request(method, path_of("ckpt", "a/proof"))).status in {200, 204}
        upload = await oss.initiate(target)
        part = await oss.part(target, upload, 1, b"content")
        assert part.headers["x-forebay-durable"] == "local"
        assert (await reader.request("GET", target)).body == b"before"
        origin.faults.add(HoldRequest(gate := Gate()), operation="CompleteMultipartUpload")
        listed = f"<Part><PartNumber>1</PartNumber><ETag>{part.headers['ETag']}</ETag></Part>"
        document = f"<CompleteMultipartUpload>{listed}</CompleteMultipartUpload>".encode()
        durable = (("x-forebay-durability", "origin"),)
        completion = node.client(0).request("POST", f"{target}?uploadId={upload}", durable, document)
        completing = TaskRegistry().spawn(completion, "completion")
        await gate.reached()
        assert (await reader.request("GET", target)).body == b"before"
        killed = await node.kill_worker(0)
        assert (await completing).aborted
        await node.wait_restarted(0, killed)
        assert (await reader.request("GET", target)).body == b"before"
        gate.open()
        await origin.log.wait_idle()
        assert (await reader.request("GET", target)).body == b"content"


async def test_parts_are_judged_as_the_origin_would(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, WriteBackRig(origin, tmp_path) as rig:
        await rig.prove()
        client = rig.boto3()

        def dialogue() -> None:
            names = {"Bucket": "ckpt", "Key": "a/file"}
            upload = client.create_multipart_upload(**names)["UploadId"]
            first = client.upload_part(**names, UploadId=upload, PartNumber=1, Body=b"stale")
            again = client.upload_part(**names, UploadId=upload, PartNumber=1, Body=b"small")
            last = client.upload_part(**names, UploadId=upload, PartNumber=2, Body=b"last")

            def complete(*parts: tuple[int, str]) -> str:
                listed = [{"PartNumber": number, "ETag": etag} for number, etag in parts]
                completed = client.complete_multipart_upload(
                    **names, UploadId=upload, MultipartUpload={"Parts": listed}
                )
                etag: str = completed["ETag"]
                return etag

            with pytest.raises(ClientError, match="InvalidPart"):
                complete((1, first["ETag"]))
            with pytest.raises(ClientError, match="InvalidPartOrder"):
                complete((2, last["ETag"]), (1, again["ETag"]))
            with pytest.raises(ClientError, match="EntityTooSmall"):
                complete((1, again["ETag"]), (2, last["ETag"]))
            assert complete((2, last["ETag"])).endswith('-1"')
            assert client.get_object(**names)["Body"].read() == b"last"
            assert complete((2, last["ETag"])).endswith('-1"'), "once more"
            with pytest.raises(ClientError, match="NoSuchUpload"):
                complete((1, again["ETag"]))
            aborted = client.create_multipart_upload(**names)["UploadId"]
            client.upload_part(**names, UploadId=aborted, PartNumber=1, Body=bytes(MIB))
            client.abort_multipart_upload(**names, UploadId=aborted)
            with pytest.raises(ClientError, match="NoSuchUpload"):
                client.upload_part(**names, UploadId=aborted, PartNumber=1, Body=b"")

        await asyncio.to_thread(dialogue)
        client.close()
        await rig.settled()
        assert list((rig.journal / "bodies").iterdir()) == []
        await rig.restart()
        assert rig.parts.writes.write_back is not None
        assert rig.parts.writes.write_back.uploads.by_id == {}


_COMPLETED, _GONE = (200, True), (404, False)
"""The answer to a completion, and whether there is the object."""


@pytest.mark.parametrize(
    ("first", "second", "ending"),
    [
        ("abort", "complete", _GONE),
        ("complete", "abort", _COMPLETED),
        ("part", "complete", _COMPLETED),
        ("complete", "part", _COMPLETED),
    ],
)
async def test_requests_at_once_leave_all_or_nothing(
    tmp_path: Path, first: str, second: str, ending: tuple[int, bool]
) -> None:
    """The record of the second one is written before that of the first one is acted upon. The part is sent again, by
    a client that has given the first try up; what the completion lists counts."""
    content, files, store = os.urandom(MIB), HeldSyncs(), RecordingStore()
    async with FakeOrigin() as origin:
        origin.store = store
        rig = WriteBackRig(origin, tmp_path)
        rig.journal_files = files
        async with rig:
            await rig.prove()
            store.history.clear()
            oss, target, tasks = OssClient(rig.endpoint, TRAINER), path_of("ckpt", "a/file"), TaskRegistry()
            upload = await oss.initiate(target)
            etag = (await oss.part(target, upload, 1, content)).headers["ETag"]
            requests = {
                "complete": lambda: oss.complete(target, upload, [(1, etag)]),
                "abort": lambda: oss.request("DELETE", f"{target}?uploadId={upload}"),
                "part": lambda: oss.request("PUT", f"{target}?partNumber=1&uploadId={upload}", (), b"loser"),
            }
            files.hold()
            earlier = tasks.spawn(requests[first](), first)
            await run_loop_until(lambda: files.held == 1)
            later = tasks.spawn(requests[second](), second)
            await run_loop_until(lambda: rig.write_back.journal.waiting == 1)
            files.release()
            answers = {first: await earlier, second: await later}
            other = next(name for name in answers if name != "complete")
            assert answers[other].status in ({404} if (first, second) == ("complete", "abort") else {200, 204})
            found = await oss.request("GET", target)
            is_there = found.status == 200 and found.body == content
            assert (answers["complete"].status, is_there) == ending
            await rig.settled()
            await run_loop_until(lambda: not list((rig.journal / "bodies").iterdir()))
            assert store.history == ([("a/file", content)] if is_there else [])
            await rig.restart()
            assert (rig.write_back.uploads.by_id, rig.write_back.backlog.writes) == ({}, 0)


@pytest.mark.parametrize(
    ("algorithm", "kind"), [("CRC32", "COMPOSITE"), ("CRC32", "FULL_OBJECT"), ("SHA256", "COMPOSITE")]
)
async def test_pending_checksums_are_shown_as_at_the_origin(tmp_path: Path, algorithm: str, kind: str) -> None:
    """ListParts, the completion, HEAD, GET, a listing and a copy: while it is pending, and afterwards."""
    content, named = os.urandom(5 * MIB), f"Checksum{algorithm}"
    sums = [digest_of(algorithm.lower(), each) for each in (content, b"end")]
    is_full = kind == "FULL_OBJECT"
    whole = digest_of("crc32", content + b"end") if is_full else composite_of(algorithm.lower(), sums)
    async with FakeOrigin() as origin, WriteBackRig(origin, tmp_path) as rig:
        await rig.prove()
        gate, client, at = Gate(), rig.boto3(), {"Bucket": "ckpt", "Key": "a/file"}
        origin.faults.add(HoldRequest(gate), operation="CompleteMultipartUpload")

        def upload() -> None:
            created = client.create_multipart_upload(**at, ChecksumAlgorithm=algorithm, ChecksumType=kind)
            assert (created["ChecksumAlgorithm"], created["ChecksumType"]) == (algorithm, kind)
            part = {**at, "UploadId": created["UploadId"]}
            if not is_full:
                with pytest.raises(ClientError, match="InvalidRequest"):  # boto3 sends a checksum of another algorithm
                    client.upload_part(**part, PartNumber=1, Body=b"x", ChecksumAlgorithm="SHA1")
            sent = [
                client.upload_part(**part, PartNumber=number, Body=body, ChecksumAlgorithm=algorithm)
                for number, body in enumerate((content, b"end"), 1)
            ]
            listed, (pending,) = client.list_parts(**part), client.list_multipart_uploads(Bucket="ckpt")["Uploads"]
            for each in (listed, pending):
                assert (each["ChecksumAlgorithm"], each["ChecksumType"]) == (algorithm, kind)
            assert [each[named] for each in listed["Parts"]] == [each[named] for each in sent] == sums
            parts = [
                {"PartNumber": each["PartNumber"], "ETag": each["ETag"], named: each[named]} for each in listed["Parts"]
            ]
            for _ in range(2):  # also if it is repeated
                done = client.complete_multipart_upload(**part, MultipartUpload={"Parts": parts})
                assert (done[named], done["ChecksumType"]) == (whole, kind)

        def look() -> list[Any]:
            head = client.head_object(**at, ChecksumMode="ENABLED")
            got = client.get_object(**at, ChecksumMode="ENABLED")
            assert got["Body"].read() == content + b"end"
            listed = client.list_objects_v2(Bucket="ckpt", Prefix="a/file")["Contents"][0]
            facts = [(each[named], each["ChecksumType"]) for each in (head, got)]
            return [*facts, listed["ChecksumAlgorithm"], listed["ChecksumType"]]

        await asyncio.to_thread(upload)
        shown = await asyncio.to_thread(look)
        assert shown == [(whole, kind), (whole, kind), [algorithm], kind]
        copied = await asyncio.to_thread(client.copy_object, Bucket="ckpt", Key="a/copy", CopySource="ckpt/a/file")
        expected = digest_of(algorithm.lower(), content + b"end")
        assert (copied["CopyObjectResult"][named], copied["CopyObjectResult"]["ChecksumType"]) == (
            expected,
            "FULL_OBJECT",
        )
        gate.open()
        await rig.settled()
        assert await asyncio.to_thread(look) == shown
        assert origin.store.get("ckpt", "a/copy").checksums == ((algorithm.lower(), expected),)
        client.close()


@pytest.mark.parametrize("algorithm", ["CRC32", "CRC32C", "CRC64NVME", "SHA1", "SHA256"])
async def test_checksums_of_parts_reach_the_completion(tmp_path: Path, algorithm: str) -> None:
    """S3 completes no upload of such an algorithm whose list of parts is without: it would be stuck here."""
    content = os.urandom(5 * MIB)
    async with FakeOrigin() as origin, WriteBackRig(origin, tmp_path) as rig:
        await rig.prove()
        await rig.put("a/source", b"source")
        client, at = rig.boto3(), {"Bucket": "ckpt", "Key": "a/file"}

        def upload() -> None:
            upload_id = client.create_multipart_upload(**at, ChecksumAlgorithm=algorithm)["UploadId"]
            part = {**at, "UploadId": upload_id}
            named = f"Checksum{algorithm}"
            sent = client.upload_part(**part, PartNumber=1, Body=content, ChecksumAlgorithm=algorithm)
            copied = client.upload_part_copy(**part, PartNumber=2, CopySource="ckpt/a/source")["CopyPartResult"]
            second = {"PartNumber": 2, "ETag": copied["ETag"], named: digest_of(algorithm.lower(), b"source")}
            first = {"PartNumber": 1, "ETag": sent["ETag"]}
            wrong = {**first, named: digest_of(algorithm.lower(), b"other")}
            with pytest.raises(ClientError, match="InvalidPart"):
                client.complete_multipart_upload(**part, MultipartUpload={"Parts": [wrong, second]})
            right = {**first, named: sent[named]}
            client.complete_multipart_upload(**part, MultipartUpload={"Parts": [right, second]})

        await asyncio.to_thread(upload)
        await rig.settled()
        client.close()
        assert at_origin(origin, "a/file") == content + b"source"


@asynccontextmanager
async def _uploaded(directory: Path) -> AsyncIterator[tuple[WriteBackRig, RecordingStore, str, list[tuple[int, str]]]]:
    """A worker, what its origin has recorded, and an upload of `a/file` with two parts."""
    store = RecordingStore()
    async with FakeOrigin() as origin:
        origin.store = store
        rig = WriteBackRig(origin, directory)
        rig.journal_files = HeldSyncs()
        async with rig:
            await rig.prove()
            store.history.clear()
            oss, target = OssClient(rig.endpoint, TRAINER), path_of("ckpt", "a/file")
            upload = await oss.initiate(target)
            parts = [await oss.part(target, upload, number, bytes([number]) * MIB) for number in (1, 2)]
            yield rig, store, upload, [(number, part.headers["ETag"]) for number, part in enumerate(parts, 1)]


async def _completed_at_once(rig: WriteBackRig, upload: str, *lists: list[tuple[int, str]]) -> list[tuple[int, bytes]]:
    """The answers to completions of which each is recorded before the first one is acted upon."""
    files, oss, tasks = rig.journal_files, OssClient(rig.endpoint, TRAINER), TaskRegistry()
    assert isinstance(files, HeldSyncs)
    files.hold()
    requests: list[asyncio.Task[RawAnswer]] = []
    for listed in lists:
        requests.append(tasks.spawn(oss.complete(path_of("ckpt", "a/file"), upload, listed), "complete"))
        await run_loop_until(lambda: files.held + rig.write_back.journal.waiting == len(requests))
    files.release()
    return [(answer.status, answer.body) for answer in await asyncio.gather(*requests)]


async def test_a_completion_that_is_repeated_at_once_counts_once(tmp_path: Path) -> None:
    """Its client has given the first try up."""
    async with _uploaded(tmp_path) as (rig, store, upload, parts):
        first, again = await _completed_at_once(rig, upload, parts[:1], parts[:1])
        assert (first[0], again) == (200, first)
        await rig.settled()
        assert store.history == [("a/file", b"\1" * MIB)]
        await run_loop_until(lambda: not list((rig.journal / "bodies").iterdir()))


async def test_of_two_completions_at_once_one_counts(tmp_path: Path) -> None:
    """The parts of the other one are settled with the object that it makes."""
    async with _uploaded(tmp_path) as (rig, store, upload, parts):
        first, other = await _completed_at_once(rig, upload, parts[:1], parts[1:])
        assert (first[0], other[0], b"<Code>NoSuchUpload<" in other[1]) == (200, 404, True)
        await rig.settled()
        assert store.history == [("a/file", b"\1" * MIB)]
        await run_loop_until(lambda: not list((rig.journal / "bodies").iterdir()))


async def test_a_completion_that_is_repeated_is_answered_again(tmp_path: Path) -> None:
    """Its client has missed the answer, before the object is at the origin and afterwards."""
    async with _uploaded(tmp_path) as (rig, store, upload, parts):
        oss, target, gate = OssClient(rig.endpoint, TRAINER), path_of("ckpt", "a/file"), Gate()
        rig.origin.faults.add(HoldRequest(gate), operation="CompleteMultipartUpload")
        answers = [await oss.complete(target, upload, parts[:1]) for _ in range(2)]
        other = await oss.complete(target, upload, parts[1:])
        gate.open()
        await rig.settled()
        answers.append(await oss.complete(target, upload, parts[:1]))
        assert [each.status for each in (*answers, other)] == [200, 200, 200, 404]
        assert [each.headers["x-forebay-durable"] for each in answers] == ["local", "local", "origin"]
        assert len({each.body for each in answers}) == len(store.history) == 1
