"""Who sees what is pending: every form of a write is seen by both dialects, in both lanes, through every worker."""

import asyncio
import base64
import hashlib
import os
import re
from pathlib import Path

import pytest
from fastcrc.crc64 import xz

from forebay.core.names import BlockId, ObjectName
from forebay.metadata.staged_objects import StagedBody, encode_staged
from forebay.peers.peer_codec import encode_name
from forebay.server.rpc.rpc_methods import OpenWrites
from harness.aws_chunked import Framing
from harness.clients import RawClient, chunked, path_of
from harness.fake.actions import HoldRequest, LoseAnswer, Respond
from harness.fake.gate import Gate
from harness.fake_origin import FakeOrigin
from harness.inspection import run_loop_until
from harness.oss_client import OssClient, told
from harness.reference_sigv4 import SIGNED_CHUNKS, SIGNED_CHUNKS_TRAILER, UNSIGNED, UNSIGNED_CHUNKS_TRAILER
from harness.rig import TRAINER
from harness.worker_node import Node
from harness.write_back_rig import RULE, WriteBackRig, at_origin

CONTENT = os.urandom(100_000)
_FORMS = ["signed", "unsigned", "md5", SIGNED_CHUNKS, SIGNED_CHUNKS_TRAILER, UNSIGNED_CHUNKS_TRAILER]


@pytest.mark.parametrize("form", _FORMS)
async def test_every_form_of_a_body_is_accepted(tmp_path: Path, form: str) -> None:
    """Decoded, with the checksums that came with it."""
    async with FakeOrigin() as origin, WriteBackRig(origin, tmp_path) as rig:
        await rig.prove()
        client, path, gate = rig.client(), path_of("ckpt", "a/object"), Gate()
        origin.faults.add(HoldRequest(gate), method="PUT")
        digest = base64.b64encode(hashlib.md5(CONTENT, usedforsecurity=False).digest()).decode()
        match form:
            case "signed":
                request = client.sign("PUT", path, (), CONTENT)
            case "unsigned":
                request = client.sign("PUT", path, (), CONTENT, payload=UNSIGNED)
            case "md5":
                request = client.sign("PUT", path, (("Content-MD5", digest),), CONTENT)
            case _:
                request = client.sign("PUT", path, (), CONTENT, framing=Framing(form))
        sent = await client.send(request)
        assert (sent.status, sent.headers["x-forebay-durable"]) == (200, "local"), sent.body
        assert sent.headers["ETag"] == f'"{hashlib.md5(CONTENT, usedforsecurity=False).hexdigest()}"'
        assert (await client.request("GET", path)).body == CONTENT
        gate.open()
        await rig.settled()
        assert at_origin(origin, "a/object") == CONTENT
        [put] = [each for each in origin.log.requests if (each.method, each.key) == ("PUT", "a/object")]
        assert put.headers["Content-MD5"] == digest
        assert ("x-amz-checksum-crc32" in put.headers) == form.endswith("TRAILER")
        assert "aws-chunked" not in put.headers.get("Content-Encoding", "")


async def test_a_body_of_unknown_length_is_accepted_once_it_is_known(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, WriteBackRig(origin, tmp_path) as rig:
        await rig.prove()
        client, path, gate = rig.client(), path_of("ckpt", "a/object"), Gate()
        origin.faults.add(HoldRequest(gate), method="PUT")
        sent = await client.send(chunked(client.sign("PUT", path, (), CONTENT, payload=UNSIGNED)))
        assert (sent.status, sent.headers["x-forebay-durable"]) == (200, "local")
        assert (await client.request("GET", path)).body == CONTENT
        gate.open()
        await rig.settled()
        assert at_origin(origin, "a/object") == CONTENT


async def test_clients_of_oss_are_acknowledged_from_the_journal(tmp_path: Path) -> None:
    """PutObject, CopyObject, DeleteObject, DeleteMultipleObjects; with their headers, and CRC-64."""
    async with FakeOrigin() as origin, WriteBackRig(origin, tmp_path) as rig:
        await rig.prove()
        oss, path, refusal = OssClient(rig.endpoint, TRAINER), path_of("ckpt", "a/object"), Respond(503, "SlowDown")
        down = origin.faults.add(refusal, where=lambda each: each.method in {"PUT", "DELETE", "POST"})
        sent = await oss.request("PUT", path, (("x-oss-meta-step", "7"),), CONTENT)
        assert (sent.status, sent.headers["x-forebay-durable"]) == (200, "local")
        assert sent.headers["x-oss-hash-crc64ecma"].isdecimal()
        copied = await oss.request("PUT", path_of("ckpt", "a/copy"), (("x-oss-copy-source", "/ckpt/a/object"),))
        assert (copied.status, copied.headers["x-forebay-durable"]) == (200, "local")
        assert copied.headers["x-oss-hash-crc64ecma"] == sent.headers["x-oss-hash-crc64ecma"]
        for each in ("a/object", "a/copy"):
            read = await oss.request("GET", path_of("ckpt", each))
            assert (read.body, read.headers["x-oss-meta-step"], read.headers["x-forebay-durable"]) == (
                CONTENT,
                "7",
                "local",
            )
        deleted = await oss.request("DELETE", path)
        assert (deleted.status, deleted.headers["x-forebay-durable"]) == (204, "local")
        document = b"<Delete><Object><Key>a/copy</Key></Object></Delete>"
        deleted = await oss.document("POST", "/ckpt?delete", document)
        assert (told(deleted, "Key"), deleted.headers["x-forebay-durable"]) == ("a/copy", "local")
        for each in ("a/object", "a/copy"):
            assert (await oss.request("GET", path_of("ckpt", each))).status == 404
        origin.faults.remove(down)
        await rig.settled()
        assert (at_origin(origin, "a/object"), at_origin(origin, "a/copy")) == (None, None)


async def test_both_lanes_see_what_is_pending(tmp_path: Path) -> None:
    """By both dialects. What is deleted is seen by none."""
    async with FakeOrigin() as origin, WriteBackRig(origin, tmp_path) as rig:
        await rig.prove()
        path, client, oss, gate = path_of("ckpt", "a/object"), rig.client(), OssClient(rig.endpoint, TRAINER), Gate()
        origin.faults.add(HoldRequest(gate), where=lambda each: each.method in {"PUT", "DELETE"})
        for content in (CONTENT, CONTENT[::-1]):
            await rig.put("a/object", content)
            for _ in range(3):
                for reader in (client, oss):
                    assert (await reader.request("GET", path)).body == content
                    ranged = await reader.request("GET", path, (("Range", "bytes=5-9"),))
                    assert (ranged.status, ranged.body) == (206, content[5:10])
                    head = await reader.request("HEAD", path)
                    assert (head.status, head.headers.get("x-forebay-durable")) == (200, "local")
                    crc = str(xz(content)) if reader is oss else None
                    assert head.headers.get("x-oss-hash-crc64ecma") == crc
        assert (await client.request("DELETE", path)).headers["x-forebay-durable"] == "local"
        for reader in (client, oss):
            assert (await reader.request("GET", path)).status == 404
        gate.open()
        await rig.settled()
        await rig.stop()
        lanes = {
            lane for line in rig.access_lines() if "a/object" in line for lane in re.findall(r'"lane": ?"(\w+)"', line)
        }
        assert lanes == {"fast", "full"}
        await rig.start()


@pytest.mark.parametrize("is_answer_lost", [False, True])
async def test_a_late_installation_hides_no_later_deletion(tmp_path: Path, is_answer_lost: bool) -> None:
    """The owner of an object may hear late that the origin has a write: when its deletion was acknowledged, and long
    before that is carried out, as the worker that did it was killed."""
    async with FakeOrigin() as origin, WriteBackRig(origin, tmp_path) as rig:
        await rig.prove()
        path, name, client, gate = path_of("ckpt", "a/object"), ObjectName("ckpt", "a/object"), rig.client(), Gate()
        await rig.put("a/object", CONTENT)
        await rig.settled()
        tiers, head = rig.parts.storage.tiers, rig.parts.storage.tiers.head(name)
        assert head is not None
        staged = encode_staged(StagedBody(head.generation, head.block_size, head.size, head.version.etag))
        actions = (HoldRequest(gate), LoseAnswer()) if is_answer_lost else (HoldRequest(gate),)
        origin.faults.add(*actions, method="DELETE", times=1)
        assert (await client.request("DELETE", path)).headers["x-forebay-durable"] == "local"
        await gate.reached()
        install = {"name": encode_name(name), "staged": staged, "identity": None}
        tiers.stage(BlockId(name, head.generation, 0), memoryview(CONTENT))
        rig.parts.peer_service.ordered["install"](install, OpenWrites())
        async with asyncio.timeout(30):
            await run_loop_until(lambda: tiers.memory.head(name) is not None)
        for method in ("GET", "HEAD"):
            assert (await client.request(method, path)).status == 404
        gate.open()
        await rig.settled()
        assert (await client.request("GET", path)).status == 404


async def test_every_worker_sees_what_another_has_accepted(tmp_path: Path) -> None:
    rest = f'[journal]\npath = "{tmp_path / "journal"}"\nsize = "64MiB"\n\n{RULE}'
    async with FakeOrigin() as origin, Node(origin, tmp_path, rest=rest) as node:
        origin.store.create_bucket("ckpt")
        gate = Gate()
        first, second = node.client(0), node.client(1)
        for client in (first, second):  # each has its proofs
            assert (await client.request("PUT", path_of("ckpt", "a/proof"), (), b"")).status == 200
            assert (await client.request("DELETE", path_of("ckpt", "a/proof"))).status == 204
        origin.faults.add(
            HoldRequest(gate), where=lambda each: each.method in {"PUT", "DELETE"} and each.key != "a/proof"
        )
        for number, (writer, reader) in enumerate(((first, second), (second, first))):
            key = f"a/{number}"
            path = path_of("ckpt", key)
            sent = await writer.request("PUT", path, (), CONTENT)
            assert (sent.status, sent.headers["x-forebay-durable"]) == (200, "local")
            for _ in range(2):
                assert (await reader.request("GET", path)).body == CONTENT
            ranged = await reader.request("GET", path, (("Range", "bytes=5-9"),))
            assert (ranged.status, ranged.body) == (206, CONTENT[5:10])
            assert (await reader.request("HEAD", path)).headers["ETag"] == sent.headers["ETag"]
            assert await _keys(reader) == [key]
            copied = await reader.request("PUT", path_of("ckpt", "a/copy"), (("x-amz-copy-source", f"ckpt/{key}"),))
            assert (copied.status, copied.headers["x-forebay-durable"]) == (200, "local")
            assert (await writer.request("GET", path_of("ckpt", "a/copy"))).body == CONTENT
            for deleted in (key, "a/copy"):
                assert (await reader.request("DELETE", path_of("ckpt", deleted))).status == 204
                assert (await writer.request("GET", path_of("ckpt", deleted))).status == 404
            assert await _keys(writer) == []
        gate.open()


async def test_every_worker_forgets_what_is_settled(tmp_path: Path) -> None:
    """What is pending hides what the origin has: a later write by somebody else, too."""
    rest = f'[journal]\npath = "{tmp_path / "journal"}"\nsize = "64MiB"\n\n{RULE}'
    async with FakeOrigin() as origin, Node(origin, tmp_path, rest=rest) as node:
        origin.store.create_bucket("ckpt")
        path, clients = path_of("ckpt", "a/object"), [node.client(worker) for worker in range(2)]
        await clients[0].request("PUT", path, (), b"")  # the proof
        await node.request_admin("POST", "/v1/flush", {"bucket": "ckpt", "wait": 30})
        for writer in clients:
            gate = Gate()
            origin.faults.add(HoldRequest(gate), method="PUT", times=1)
            assert (await writer.request("PUT", path, (), CONTENT)).headers["x-forebay-durable"] == "local"
            await gate.reached()
            for client in clients:
                assert (await client.request("HEAD", path)).headers["x-forebay-durable"] == "local"
            gate.open()
            async with asyncio.timeout(30):
                for client in clients:
                    while (await client.request("HEAD", path)).headers.get("x-forebay-durable") == "local":
                        pass


async def _keys(client: RawClient) -> list[str]:
    answer = await client.request("GET", "/ckpt?list-type=2&prefix=a%2F")
    return [key.decode() for key in re.findall(rb"<Key>([^<]*)</Key>", answer.body) if key != b"a/proof"]
