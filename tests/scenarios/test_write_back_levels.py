"""A Forebay behind another one that acknowledges from its journal: what the upper is asked for holds at the bucket."""

from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from forebay.core.names import ObjectName
from forebay.core.task_registry import TaskRegistry
from harness.clients import path_of
from harness.fake.actions import HoldRequest
from harness.fake.gate import Gate
from harness.fake_origin import FakeOrigin
from harness.rig import TRAINER, Rig
from harness.write_back_rig import JOURNAL, RULE, WriteBackRig, at_origin

MIB = 1 << 20
DEMANDED = ("x-forebay-durability", "origin")


def _directory(parent: Path, name: str) -> Path:
    (parent / name).mkdir()
    return parent / name


@pytest.mark.parametrize("is_back", [False, True], ids=["through", "back"])
async def test_a_demand_for_the_bucket_reaches_the_lower_one(tmp_path: Path, *, is_back: bool) -> None:
    rest = JOURNAL.format(path=tmp_path / "upper-journal", size="256MiB") + RULE if is_back else ""
    async with AsyncExitStack() as stack:
        origin = await stack.enter_async_context(FakeOrigin())
        lower = await stack.enter_async_context(WriteBackRig(origin, _directory(tmp_path, "lower")))
        await lower.prove()
        upper = await stack.enter_async_context(Rig(lower.endpoint, TRAINER, _directory(tmp_path, "upper"), rest=rest))
        client, tasks, gate = upper.client(), TaskRegistry(), Gate()
        assert (await client.request("PUT", path_of("ckpt", "a/proof"), (), b"proof")).status == 200
        await lower.settled()
        origin.faults.add(HoldRequest(gate), key="a/marker")
        answer = await client.request("PUT", path_of("ckpt", "a/shard"), (), b"shard")
        assert answer.headers["x-forebay-durable"] == "local"
        writing = tasks.spawn(client.request("PUT", path_of("ckpt", "a/marker"), (DEMANDED,), b"marker"), "marker")
        await gate.reached()
        assert at_origin(origin, "a/shard") == b"shard"
        assert lower.write_back.pending.current(ObjectName("ckpt", "a/marker")) is None
        gate.open()
        assert (await writing).headers["x-forebay-durable"] == "origin"
        assert at_origin(origin, "a/marker") == b"marker"


async def test_a_completion_s_demand_reaches_the_lower_one(tmp_path: Path) -> None:
    rest = JOURNAL.format(path=tmp_path / "upper-journal", size="256MiB") + RULE
    async with AsyncExitStack() as stack:
        origin = await stack.enter_async_context(FakeOrigin())
        lower = await stack.enter_async_context(WriteBackRig(origin, _directory(tmp_path, "lower")))
        await lower.prove()
        upper = await stack.enter_async_context(Rig(lower.endpoint, TRAINER, _directory(tmp_path, "upper"), rest=rest))
        client, target = upper.client(), path_of("ckpt", "a/upload")
        assert (await client.request("PUT", path_of("ckpt", "a/proof"), (), b"proof")).status == 200
        created = await client.request("POST", f"{target}?uploads=")
        upload = created.body.split(b"<UploadId>")[1].split(b"<")[0].decode()
        part = await client.request("PUT", f"{target}?partNumber=1&uploadId={upload}", (), bytes(MIB))
        etag = part.headers["ETag"]
        listed = f"<Part><PartNumber>1</PartNumber><ETag>{etag}</ETag></Part>"
        body = f"<CompleteMultipartUpload>{listed}</CompleteMultipartUpload>"
        origin.faults.add(HoldRequest(gate := Gate()), key="a/upload")
        request = client.request("POST", f"{target}?uploadId={upload}", (DEMANDED,), body.encode())
        completing = TaskRegistry().spawn(request, "complete")
        await gate.reached()
        assert lower.write_back.pending.current(ObjectName("ckpt", "a/upload")) is None
        gate.open()
        answer = await completing
        assert (answer.status, answer.headers["x-forebay-durable"]) == (200, "origin")
        assert at_origin(origin, "a/upload") == bytes(MIB)
