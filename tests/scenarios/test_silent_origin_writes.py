"""Writes that wait for an origin without an answer: their clients are told in time, and go on waiting until then."""

import asyncio
from pathlib import Path

import pytest

from harness.clients import path_of
from harness.fake.actions import HoldRequest
from harness.fake.gate import Gate
from harness.fake_origin import FakeOrigin
from harness.jumping_loop import JumpingLoop
from harness.oss_client import OssClient
from harness.rig import TRAINER
from harness.write_back_rig import WriteBackRig, at_origin

DURABLE = ("x-forebay-durability", "origin")
AGENT = ("User-Agent", "a client with a name")
"""A client without one gets no interim response (forebay.write.interim_responses)."""


@pytest.mark.parametrize("key", ["ckpt/a/latest", "ckpt/a/durable", "plain/object"])
def test_a_client_waits_for_the_refusal_behind_a_silent_origin(tmp_path: Path, key: str) -> None:
    """boto3 gives up after 60 seconds without a byte, as many as the origin has for its answer."""

    async def scenario() -> None:
        async with FakeOrigin() as origin, WriteBackRig(origin, tmp_path, 'fence = ["**/latest*"]\n') as rig:
            await rig.prove()
            origin.store.create_bucket("plain")
            loop, gate = asyncio.get_running_loop(), Gate()
            assert isinstance(loop, JumpingLoop)
            origin.faults.add(HoldRequest(gate), method="PUT")
            headers = (DURABLE, AGENT) if key.endswith("durable") else (AGENT,)
            request = rig.client().sign("PUT", path_of(*key.split("/", 1)), headers, b"content")
            async with await rig.client().open() as connection:
                began = loop.time()
                with loop.jumping():
                    await connection.send(request.wire)
                    assert (await connection.read_head("100-continue")).status == 100
                    assert 39 < loop.time() - began < 45
                    answer = await connection.answer("PUT")
                    assert 59 < loop.time() - began < 65
            assert (answer.status, answer.headers["Retry-After"]) == (503, "1")
            assert b"no answer in time" in answer.body
            gate.open()

    with asyncio.Runner(loop_factory=JumpingLoop) as runner:
        runner.run(scenario())


def test_a_completion_at_a_silent_origin_is_told_and_can_be_repeated(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with FakeOrigin() as origin, WriteBackRig(origin, tmp_path) as rig:
            await rig.prove()
            loop, gate = asyncio.get_running_loop(), Gate()
            assert isinstance(loop, JumpingLoop)
            origin.faults.add(HoldRequest(gate), operation="CompleteMultipartUpload", times=1)
            oss, target = OssClient(rig.endpoint, TRAINER), path_of("ckpt", "a/file")
            upload = await oss.initiate(target)
            etag = (await oss.part(target, upload, 1, b"part")).headers["ETag"]
            listed = f"<Part><PartNumber>1</PartNumber><ETag>{etag}</ETag></Part>"
            document = f"<CompleteMultipartUpload>{listed}</CompleteMultipartUpload>".encode()
            request = rig.client().sign("POST", f"{target}?uploadId={upload}", (DURABLE, AGENT), document)
            async with await rig.client().open() as connection:
                with loop.jumping():
                    await connection.send(request.wire)
                    assert (await connection.read_head("100-continue")).status == 100
                    answer = await connection.answer("POST")
            assert (answer.status, answer.headers["Retry-After"]) == (503, "1")
            gate.open()
            again = await oss.document("POST", f"{target}?uploadId={upload}", document, (DURABLE,))
            assert (again.status, again.headers["x-forebay-durable"]) == (200, "origin")
            assert at_origin(origin, "a/file") == b"part"

    with asyncio.Runner(loop_factory=JumpingLoop) as runner:
        runner.run(scenario())
