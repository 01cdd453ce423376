"""Batch deletes that list Forebay's own resources, alone and among objects, in both dialects."""

import asyncio
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from harness.clients import path_of
from harness.fake.actions import Respond
from harness.fake_origin import FakeOrigin
from harness.oss_client import OssClient
from harness.oss_origin import OSS_SECRET, OssOrigin
from harness.rig import READER, TRAINER, Rig
from harness.write_back_rig import WriteBackRig, at_origin

PLANS = ".forebay/plans/"


@asynccontextmanager
async def rig_with_plans(tmp_path: Path, secret: Any = TRAINER) -> AsyncIterator[tuple[FakeOrigin, Rig]]:
    """Two objects, and two plans; the origin has an object with the name of one."""
    async with FakeOrigin() as origin:
        for key in ("open/a", "open/b", PLANS + "x"):
            origin.store.put("b", key, b"content")
        async with Rig(origin.endpoint, origin.secret, tmp_path) as rig:
            await send_plans(rig, secret)
            yield origin, rig


async def send_plans(rig: Rig, secret: Any = TRAINER, bucket: str = "b") -> None:
    for name in ("x", "y/z"):
        answer = await rig.client(secret).request("PUT", path_of(bucket, PLANS + name), (), b"open/a\n")
        assert answer.status == 200


async def plans(rig: Rig, secret: Any = TRAINER) -> list[str]:
    """The names of the plans of one key."""
    client = rig.boto3(secret)
    answer = await asyncio.to_thread(client.list_objects_v2, Bucket="b", Prefix=PLANS)
    client.close()
    return [each["Key"].removeprefix(PLANS) for each in answer.get("Contents", ())]


async def delete(rig: Rig, keys: Sequence[str | dict[str, str]], secret: Any = TRAINER, **more: Any) -> dict[str, Any]:
    """A batch delete of boto3's: its answer."""
    client = rig.boto3(secret)
    objects = [{"Key": each} if isinstance(each, str) else each for each in keys]
    try:
        return dict(
            await asyncio.to_thread(client.delete_objects, Bucket="b", Delete={"Objects": objects, **more}),
        )
    finally:
        client.close()


def is_untouched(origin: FakeOrigin, bucket: str = "b") -> bool:
    """Whether the origin was sent no resource: neither as a target, nor in a document."""
    targets = [each.target for each in origin.log.requests if "forebay" in each.target]
    return not targets and origin.store.current(bucket, PLANS + "x") is not None


def listed(*keys: str, more: str = "") -> bytes:
    """The document of a batch delete."""
    objects = "".join(f"<Object><Key>{key}</Key></Object>" for key in keys)
    return f"<Delete>{more}{objects}</Delete>".encode()


def outcome(answer: dict[str, Any]) -> tuple[list[str], list[tuple[str, str]]]:
    deleted = [each["Key"] for each in answer.get("Deleted", ())]
    return deleted, [(each["Key"], each["Code"]) for each in answer.get("Errors", ())]


@pytest.mark.parametrize("secret", [TRAINER, READER], ids=["trainer", "reader"])
async def test_boto3_deletes_all_plans_of_a_prefix(tmp_path: Path, secret: Any) -> None:
    """Also with a key that may delete no object: it may delete its own plans one by one."""
    async with rig_with_plans(tmp_path, secret) as (origin, rig):
        assert await plans(rig, secret) == ["x", "y/z"]
        answer = await delete(rig, [PLANS + "x", PLANS + "y/z", PLANS + "none"], secret)
        assert outcome(answer) == ([PLANS + "x", PLANS + "y/z", PLANS + "none"], [])
        assert await plans(rig, secret) == []
        assert is_untouched(origin)
        assert origin.log.count("POST") == 0


async def test_a_mixed_batch_deletes_both(tmp_path: Path) -> None:
    async with rig_with_plans(tmp_path) as (origin, rig):
        assert (await rig.client().request("GET", path_of("b", "open/b"))).status == 200
        answer = await delete(rig, ["open/a", PLANS + "x", "open/b", ".forebay/datasets/k", ".forebay/none/k"])
        assert outcome(answer) == (
            ["open/a", "open/b", PLANS + "x", ".forebay/none/k"],
            [(".forebay/datasets/k", "MethodNotAllowed")],
        )
        assert await plans(rig) == ["y/z"]
        assert is_untouched(origin)
        assert [(await rig.client().request("GET", path_of("b", f"open/{key}"))).status for key in "ab"] == [404, 404]


async def test_a_quiet_batch_names_failures_only(tmp_path: Path) -> None:
    async with rig_with_plans(tmp_path) as (_, rig):
        for keys in ([], ["open/a"]):
            answer = await delete(rig, [*keys, PLANS + "x", ".forebay/batch"], Quiet=True)
            assert outcome(answer) == ([], [(".forebay/batch", "MethodNotAllowed")])
        assert await plans(rig) == ["y/z"]


async def test_versions_and_conditions_of_a_resource_are_refused(tmp_path: Path) -> None:
    async with rig_with_plans(tmp_path) as (_, rig):
        objects = [{"Key": PLANS + "x", "VersionId": "null"}, {"Key": PLANS + "y/z", "ETag": '"0"'}]
        deleted, errors = outcome(await delete(rig, [*objects, "open/a"]))
        assert (deleted, [code for _, code in errors]) == (["open/a"], ["NotImplemented", "NotImplemented"])
        assert await plans(rig) == ["x", "y/z"]


async def test_an_object_that_may_not_be_deleted_keeps_all(tmp_path: Path) -> None:
    async with rig_with_plans(tmp_path, READER) as (origin, rig):
        client = rig.boto3(READER)
        with pytest.raises(client.exceptions.ClientError, match="AccessDenied"):
            await delete(rig, [PLANS + "x", "open/a"], READER)
        client.close()
        assert await plans(rig, READER) == ["x", "y/z"]
        assert origin.store.current("b", "open/a") is not None


async def test_another_key_deletes_nothing_of_ones_own(tmp_path: Path) -> None:
    async with rig_with_plans(tmp_path) as (_, rig):
        assert outcome(await delete(rig, [PLANS + "x"], READER)) == ([PLANS + "x"], [])
        assert await plans(rig) == ["x", "y/z"]


async def test_nobody_deletes_no_resource(tmp_path: Path) -> None:
    anonymous = '[auth.anonymous]\ngrants = [{ path = "b/**", allow = ["read", "write", "list", "delete"] }]\n'
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, rest=anonymous) as rig:
        origin.store.create_bucket("b")
        answer = await rig.client().unsigned("POST", "/b?delete", (), listed(PLANS + "x"))
        assert (answer.status, answer.body.count(b"<Code>AccessDenied</Code>")) == (200, 1), answer.body


async def test_where_the_origin_fails_no_resource_is_deleted(tmp_path: Path) -> None:
    async with rig_with_plans(tmp_path) as (origin, rig):
        origin.faults.add(Respond(403, "AccessDenied"), method="POST")
        client = rig.boto3()
        with pytest.raises(client.exceptions.ClientError, match="AccessDenied"):
            await delete(rig, ["open/a", PLANS + "x"])
        client.close()
        assert await plans(rig) == ["x", "y/z"]


async def test_a_batch_that_the_journal_accepts(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, WriteBackRig(origin, tmp_path) as rig:
        await rig.prove()
        await send_plans(rig, bucket="ckpt")
        origin.store.put("ckpt", PLANS + "x", b"content")
        assert (await rig.client().request("PUT", path_of("ckpt", "a/object"), (), b"content")).status == 200
        client = rig.boto3()
        answer = await asyncio.to_thread(
            client.delete_objects,
            Bucket="ckpt",
            Delete={"Objects": [{"Key": each} for each in (PLANS + "x", "a/object", PLANS + "y/z")]},
        )
        client.close()
        assert outcome(answer) == (["a/object", PLANS + "x", PLANS + "y/z"], [])
        assert answer["ResponseMetadata"]["HTTPHeaders"]["x-forebay-durable"] == "local"
        await rig.settled()
        assert at_origin(origin, "a/object") is None
        assert at_origin(origin, PLANS + "x") == b"content"
        assert (await rig.client().request("GET", path_of("ckpt", PLANS + "x"))).status == 404


async def test_a_client_of_oss_deletes_resources_and_objects(tmp_path: Path) -> None:
    async with rig_with_plans(tmp_path) as (origin, rig):
        client, target = OssClient(rig.endpoint, TRAINER), "/b?delete&encoding-type=url"
        quiet = await client.document("POST", target, listed("open/a", PLANS + "x", more="<Quiet>true</Quiet>"))
        assert (quiet.status, b"<Key>" in quiet.body) == (200, False), quiet.body
        answer = await client.document("POST", target, listed("open/b", PLANS + "y/z"))
        assert answer.status == 200, answer.body
        assert re.findall(rb"<Key>([^<]*)", answer.body) == [b"open%2Fb", b".forebay%2Fplans%2Fy%2Fz"]
        assert await plans(rig) == []
        assert is_untouched(origin)
        refused = await client.document("POST", target, listed(".forebay/datasets/k"))
        assert (refused.status, b"MethodNotAllowed" in refused.body) == (405, True)


async def test_an_origin_of_oss_hears_of_objects_alone(tmp_path: Path) -> None:
    async with OssOrigin() as origin:
        for key in ("open/a b", PLANS + "x"):
            origin.store.put("bucket", key, b"content")
        async with Rig(origin.endpoint, OSS_SECRET, tmp_path, dialect="oss") as rig:
            await send_plans(rig, bucket="bucket")
            client = rig.boto3()
            objects = [{"Key": each} for each in ("open/a b", PLANS + "x", ".forebay/datasets/k")]
            answer = await asyncio.to_thread(client.delete_objects, Bucket="bucket", Delete={"Objects": objects})
            client.close()
            assert outcome(answer) == (["open/a b", PLANS + "x"], [(".forebay/datasets/k", "MethodNotAllowed")])
            assert origin.store.current("bucket", "open/a b") is None
            assert is_untouched(origin, "bucket")
