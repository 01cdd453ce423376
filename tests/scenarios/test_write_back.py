"""Writes under a `back` rule: acknowledged from the journal, seen at once, and at the origin in the end."""

import asyncio
import os
import shutil
from base64 import b64encode
from hashlib import md5
from pathlib import Path

import pytest

from forebay.core.names import ObjectName
from forebay.core.task_registry import TaskRegistry
from forebay.storage.journal.upload_notes import UploadNotes
from harness.aws_chunked import Framing
from harness.clients import RawClient, chunked, path_of
from harness.fake.actions import HoldRequest, Respond
from harness.fake.gate import Gate
from harness.fake_origin import FakeOrigin
from harness.inspection import error_code, run_loop_until
from harness.oss_client import OssClient
from harness.reference_sigv4 import SIGNED_CHUNKS, UNSIGNED_CHUNKS_TRAILER
from harness.rig import TRAINER
from harness.write_back_rig import WriteBackRig, at_origin


@pytest.mark.parametrize("size", [0, 10, 300_000, 3 << 20])
async def test_a_write_is_acknowledged_before_the_origin_has_it(tmp_path: Path, size: int) -> None:
    content = os.urandom(size)
    async with FakeOrigin() as origin, WriteBackRig(origin, tmp_path) as rig:
        await rig.prove()
        client, path, gate = rig.client(), path_of("ckpt", "a/object"), Gate()
        origin.faults.add(HoldRequest(gate), method="PUT")
        sent = await client.request("PUT", path, (("x-amz-meta-step", "7"),), content)
        assert (sent.status, sent.headers["x-forebay-durable"]) == (200, "local"), sent.body
        for _ in range(2):
            read = await client.request("GET", path)
            assert (read.status, read.body, read.headers["ETag"]) == (200, content, sent.headers["ETag"])
            assert read.headers["x-amz-meta-step"] == "7"
            assert at_origin(origin, "a/object") is None
            await gate.reached()
        head = await client.request("HEAD", path)
        assert (head.status, head.headers["Content-Length"]) == (200, str(size))
        gate.open()
        await rig.settled()
        assert at_origin(origin, "a/object") == content
        reads = origin.log.count("GET", key="a/object")
        assert (await client.request("GET", path)).body == content
        assert origin.log.count("GET", key="a/object") == reads == 0


async def test_a_delete_hides_the_object_at_once(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, WriteBackRig(origin, tmp_path) as rig:
        await rig.prove()
        client, path, gate = rig.client(), path_of("ckpt", "a/object"), Gate()
        origin.store.put("ckpt", "a/object", b"old")
        assert (await client.request("GET", path)).body == b"old"
        origin.faults.add(HoldRequest(gate), method="DELETE")
        deleted = await client.request("DELETE", path)
        assert (deleted.status, deleted.headers["x-forebay-durable"]) == (204, "local")
        assert (await client.request("GET", path)).status == 404
        assert (await client.request("HEAD", path)).status == 404
        assert at_origin(origin, "a/object") == b"old"
        gate.open()
        await rig.settled()
        assert at_origin(origin, "a/object") is None
        assert (await client.request("GET", path)).status == 404


async def test_a_marker_waits_for_what_was_acknowledged_before(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, WriteBackRig(origin, tmp_path) as rig:
        await rig.prove()
        client, gate = rig.client(), Gate()
        origin.faults.add(HoldRequest(gate), method="PUT", key="a/shard")
        for key in ("a/shard", "a/marker"):
            assert (await client.request("PUT", path_of("ckpt", key), (), b"x")).status == 200
        await gate.reached()
        assert at_origin(origin, "a/marker") is None
        assert origin.log.count("PUT", key="a/marker") == 0
        gate.open()
        await rig.settled()
        assert (at_origin(origin, "a/shard"), at_origin(origin, "a/marker")) == (b"x", b"x")


async def test_pending_writes_survive_a_restart(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, WriteBackRig(origin, tmp_path) as rig:
        await rig.prove()
        refusal = origin.faults.add(Respond(503, "SlowDown"), method="PUT")
        client = rig.client()
        for key in ("a/one", "a/two", "a/one"):
            content = key.encode() * 100_000
            assert (await client.request("PUT", path_of("ckpt", key), (), content)).status == 200
        await rig.restart()
        client = rig.client()
        assert (await client.request("GET", path_of("ckpt", "a/two"))).body == b"a/two" * 100_000
        assert at_origin(origin, "a/two") is None
        origin.faults.remove(refusal)
        await rig.settled()
        assert at_origin(origin, "a/one") == b"a/one" * 100_000
        assert at_origin(origin, "a/two") == b"a/two" * 100_000
        assert list((rig.journal / "bodies").iterdir()) == []


async def test_the_sequence_of_a_distributed_checkpoint(tmp_path: Path) -> None:
    """torch's DCP over fsspec: shards, then PUT .metadata.tmp, DELETE .metadata, COPY, DELETE."""
    async with FakeOrigin() as origin, WriteBackRig(origin, tmp_path) as rig:
        await rig.prove()
        refusal = origin.faults.add(Respond(503, "SlowDown"))
        client = rig.boto3()

        def dialogue() -> None:
            for rank in range(3):
                client.put_object(Bucket="ckpt", Key=f"a/__{rank}_0.distcp", Body=b"shard" * 100_000)
            client.put_object(Bucket="ckpt", Key="a/.metadata.tmp", Body=b"metadata", Metadata={"m": "1"})
            client.delete_object(Bucket="ckpt", Key="a/.metadata")
            source = {"Bucket": "ckpt", "Key": "a/.metadata.tmp"}
            copied = client.copy_object(Bucket="ckpt", Key="a/.metadata", CopySource=source)
            client.delete_object(Bucket="ckpt", Key="a/.metadata.tmp")
            found = client.get_object(Bucket="ckpt", Key="a/.metadata")
            assert (found["Body"].read(), found["Metadata"]) == (b"metadata", {"m": "1"})
            assert found["ETag"] == copied["CopyObjectResult"]["ETag"]
            with pytest.raises(client.exceptions.NoSuchKey):
                client.get_object(Bucket="ckpt", Key="a/.metadata.tmp")

        await asyncio.to_thread(dialogue)
        assert origin.store.bucket("ckpt").versions == {}
        origin.faults.remove(refusal)
        await rig.settled()
        client.close()
        assert at_origin(origin, "a/.metadata") == b"metadata"
        assert at_origin(origin, "a/.metadata.tmp") is None
        assert sorted(origin.store.bucket("ckpt").versions) == ["a/.metadata", *(f"a/__{n}_0.distcp" for n in range(3))]


async def test_a_batch_delete_hides_all_at_once(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, WriteBackRig(origin, tmp_path) as rig:
        await rig.prove()
        keys = [f"a/{nth}" for nth in range(20)]
        for key in keys:
            origin.store.put("ckpt", key, b"old")
        refusal = origin.faults.add(Respond(503, "SlowDown"), method="DELETE")
        client = rig.boto3()
        listed = {"Objects": [{"Key": key} for key in keys]}
        deleted = await asyncio.to_thread(lambda: client.delete_objects(Bucket="ckpt", Delete=listed))
        assert [each["Key"] for each in deleted["Deleted"]] == keys
        quiet = await asyncio.to_thread(lambda: client.delete_objects(Bucket="ckpt", Delete=listed | {"Quiet": True}))
        assert "Deleted" not in quiet
        assert (await rig.client().request("GET", path_of("ckpt", keys[7]))).status == 404
        assert len(origin.store.bucket("ckpt").versions) == 20
        origin.faults.remove(refusal)
        await rig.settled()
        client.close()
        assert origin.store.bucket("ckpt").versions == {}


async def test_a_condition_comes_after_what_is_pending(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, WriteBackRig(origin, tmp_path) as rig:
        await rig.prove()
        gate = Gate()
        origin.faults.add(HoldRequest(gate), method="PUT", key="a/object", times=1)
        await rig.put("a/object", b"x")
        await gate.reached()
        absent = (("If-None-Match", "*"),)
        second = rig.client().request("PUT", path_of("ckpt", "a/object"), absent, b"y")
        condition = TaskRegistry().spawn(second, "write")
        await run_loop_until(lambda: condition.done() or rig.write_back.pending.waiting > 0)
        assert (condition.done(), origin.log.count("PUT", key="a/object")) == (False, 1)
        gate.open()
        assert (await condition).status == 412


async def test_what_happens_to_the_cache_leaves_the_journal_alone(tmp_path: Path) -> None:
    """Purge, eviction, a tier that is switched off, and the deletion of the cache's directory."""
    async with FakeOrigin() as origin, WriteBackRig(origin, tmp_path, ssd="64MiB", memory="2MiB") as rig:
        await rig.prove()
        refusal = origin.faults.add(Respond(503, "SlowDown"), method="PUT")
        contents = {f"a/{number}": os.urandom(1 << 20) for number in range(4)} | {"a/small": b"small"}
        for key, content in contents.items():
            await rig.put(key, content)

        async def read_all() -> None:
            for key, content in contents.items():
                assert (await rig.client().request("GET", path_of("ckpt", key))).body == content

        await read_all()
        await rig.worker.control.purge("ckpt")
        await rig.worker.control.resize("memory", "0")
        await rig.worker.control.resize("ssd", "16MiB")
        await read_all()
        await rig.stop()
        shutil.rmtree(tmp_path / "rig" / "ssd")
        assert "no cache" in (rig.journal / "README").read_text()
        await rig.start()
        await read_all()
        assert rig.write_back.backlog.writes == len(contents)
        origin.faults.remove(refusal)
        await rig.settled()
        assert {key: at_origin(origin, key) for key in contents} == contents


async def test_one_key_too_long_refuses_a_whole_batch(tmp_path: Path) -> None:
    """As at S3 (https://github.com/aws/aws-sdk-net/issues/3828). OSS's answer has no place for the error of one key."""
    async with FakeOrigin() as origin, WriteBackRig(origin, tmp_path) as rig:
        await rig.prove()
        await rig.put("a/kept", b"kept")
        keys = "".join(f"<Object><Key>{key}</Key></Object>" for key in ("a/kept", "k" * 1025))
        for client in (rig.client(), OssClient(rig.endpoint, TRAINER)):
            body = f"<Delete>{keys}</Delete>".encode()
            checksum = ("Content-MD5", b64encode(md5(body, usedforsecurity=False).digest()).decode())
            refused = await client.request("POST", "/ckpt?delete", (checksum,), body)
            code = "KeyTooLongError" if isinstance(client, RawClient) else "InvalidObjectName"
            assert (refused.status, error_code(refused)) == (400, code)
            assert (await rig.client().request("GET", path_of("ckpt", "a/kept"))).body == b"kept"
        await rig.settled()
        assert at_origin(origin, "a/kept") == b"kept"


async def test_an_upload_left_by_a_stop_is_aborted(tmp_path: Path) -> None:
    """No listing shows it meanwhile: its client has completed an upload of the journal."""
    async with FakeOrigin() as origin, WriteBackRig(origin, tmp_path) as rig, asyncio.timeout(60):
        await rig.prove()
        gate, path = Gate(), path_of("ckpt", "a/upload")
        held = origin.faults.add(HoldRequest(gate), operation="UploadPart")
        oss = OssClient(rig.endpoint, TRAINER)
        upload = await oss.initiate(path)
        part = await oss.part(path, upload, 1, b"content")
        assert (await oss.complete(path, upload, [(1, part.headers["ETag"])])).status == 200
        await gate.reached()
        left = set(origin.store.bucket("ckpt").uploads)
        assert len(left) == 1
        await rig.stop()
        gate.open()
        origin.faults.remove(held)
        notes = str(rig.journal / "own-uploads")
        UploadNotes(notes, 1).add(ObjectName("ckpt", "a/gone"), "which the origin has not")
        down = origin.faults.add(Respond(503, "SlowDown"), operation="AbortMultipartUpload")
        await rig.start()
        await origin.log.wait_for(1, operation="AbortMultipartUpload")
        await rig.settled()
        await rig.stop()
        assert len(UploadNotes(notes, 9).take_left()) == 2, "what has carried it out was completed"
        origin.faults.remove(down)
        aborting = Gate()
        origin.faults.add(HoldRequest(aborting), operation="AbortMultipartUpload")
        await rig.start()
        await aborting.reached()
        assert set(origin.store.bucket("ckpt").uploads) == left
        listing = await rig.client().request("GET", "/ckpt?uploads=")
        assert (listing.status, b"<Upload>" in listing.body) == (200, False)
        aborting.open()
        await run_loop_until(lambda: not rig.write_back.own_uploads.has_left)
        assert (origin.store.bucket("ckpt").uploads, at_origin(origin, "a/upload")) == ({}, b"content")
    assert UploadNotes(notes, 9).take_left() == []


@pytest.mark.parametrize("is_aborted", [True, False])
async def test_an_upload_that_fails_is_noted_until_it_is_gone(tmp_path: Path, *, is_aborted: bool) -> None:
    async with FakeOrigin() as origin, WriteBackRig(origin, tmp_path) as rig, asyncio.timeout(60):
        await rig.prove()
        origin.faults.add(Respond(403, "AccessDenied"), operation="UploadPart")
        if not is_aborted:
            origin.faults.add(Respond(403, "AccessDenied"), operation="AbortMultipartUpload")
        oss, path = OssClient(rig.endpoint, TRAINER), path_of("ckpt", "a/upload")
        upload = await oss.initiate(path)
        part = await oss.part(path, upload, 1, b"content")
        assert (await oss.complete(path, upload, [(1, part.headers["ETag"])])).status == 200
        await run_loop_until(lambda: list(rig.write_back.drainer.stopped))
    assert bool(UploadNotes(str(rig.journal / "own-uploads"), 9).take_left()) is not is_aborted


@pytest.mark.parametrize("kind", [SIGNED_CHUNKS, UNSIGNED_CHUNKS_TRAILER])
async def test_a_body_in_chunks_of_chunks_is_acknowledged_here(tmp_path: Path, kind: str) -> None:
    """As botocore sends each body over TLS: without Content-Length, and with its decoded length."""
    async with FakeOrigin() as origin, WriteBackRig(origin, tmp_path) as rig:
        await rig.prove()
        content, client = bytes(range(256)) * 1000, rig.client()
        signed = client.sign("PUT", path_of("ckpt", "a/one"), (), content, framing=Framing(kind))
        answer = await client.send(chunked(signed))
        assert (answer.status, answer.headers.get("x-forebay-durable")) == (200, "local")
        assert (await client.request("GET", path_of("ckpt", "a/one"))).body == content
        await rig.settled()
        assert at_origin(origin, "a/one") == content
