"""Data sets as objects below `.forebay/datasets/`: read with an SDK, by those alone who may read all of them."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from harness.background_work import wait_settled
from harness.clients import path_of
from harness.fake_origin import FakeOrigin
from harness.inspection import run_loop_until
from harness.oss_client import OssClient
from harness.reference_sigv4 import Secret
from harness.rig import READER, TRAINER, Rig
from harness.worker_node import Node

KEYS = [f"open/{number}" for number in range(20)]
SIZE = 1000
RULES = """\
[[rules]]
path = "b/open/**"
name = "train"
freshness = "immutable"

[[rules]]
path = "b/closed/**"
name = "secret"
freshness = "immutable"

[[rules]]
path = "other/**"
name = "elsewhere"
freshness = "immutable"

[[auth.keys]]
id = "owner"
secret = "owner-secret"
origin_access_key = "owner"
origin_secret_key = "owner"
grants = [{ path = "**", allow = ["read", "list"] }]
"""
OWNER = Secret("owner", "owner-secret")
LISTING = "/b?list-type=2&prefix=.forebay%2Fdatasets%2F"


@asynccontextmanager
async def read_data_sets(tmp_path: Path) -> AsyncIterator[Rig]:
    """Twenty objects of one data set were read, one of each other."""
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, rest=RULES) as rig:
        for bucket, key in [*(("b", key) for key in KEYS), ("b", "closed/1"), ("other", "1")]:
            origin.store.put_synthetic(bucket, key, SIZE)
            assert (await rig.client().request("GET", path_of(bucket, key))).status == 200
        await wait_settled(rig, origin)
        await run_loop_until(lambda: len(rig.parts.jobs.data_sets.states()) == 3)
        yield rig


def data_set(name: str) -> str:
    return path_of("b", f".forebay/datasets/{name}")


async def test_boto3_and_an_oss_client_list_and_read_them(tmp_path: Path) -> None:
    async with read_data_sets(tmp_path) as rig:
        client = rig.boto3()

        def dialogue() -> None:
            listed = client.list_objects_v2(Bucket="b", Prefix=".forebay/datasets/")
            assert [each["Key"] for each in listed["Contents"]] == [
                ".forebay/datasets/secret",
                ".forebay/datasets/train",
            ]
            row = json.loads(client.get_object(Bucket="b", Key=".forebay/datasets/train")["Body"].read())
            assert (row["name"], row["objects"], row["size"], row["reads"]) == ("train", 20, 20 * SIZE, 20)
            named = {"Bucket": "b", "Key": ".forebay/datasets/train"}
            refused: list[Callable[[], object]] = [
                lambda: client.put_object(**named),
                lambda: client.put_object(**named, Body=b"a body"),
                lambda: client.create_multipart_upload(**named),
                lambda: client.delete_object(**named),
            ]
            for change in refused:
                with pytest.raises(ClientError, match="MethodNotAllowed"):
                    change()

        await asyncio.to_thread(dialogue)
        client.close()
        oss = OssClient(rig.endpoint, TRAINER)
        assert json.loads((await oss.request("GET", data_set("train"))).body)["objects"] == 20
        assert b".forebay/datasets/train" in (await oss.request("GET", "/b?prefix=.forebay%2Fdatasets%2F")).body
        assert (await rig.client().request("GET", data_set("elsewhere"))).status == 404, "of another bucket"


@pytest.mark.parametrize(("secret", "names"), [(READER, ["train"]), (OWNER, [])], ids=["few grants", "own credential"])
async def test_nobody_sees_what_may_be_anothers(tmp_path: Path, secret: Secret, names: list[str]) -> None:
    async with read_data_sets(tmp_path) as rig:
        listed = await rig.client(secret).request("GET", LISTING)
        assert (listed.status, listed.body.count(b"<Key>")) == (200, len(names))
        unknown = await rig.client(secret).request("GET", data_set("nothing"))
        for name in ("train", "secret", "elsewhere"):
            answer = await rig.client(secret).request("GET", data_set(name))
            assert answer.status == (200 if name in names else 404)
            if answer.status == 404:
                assert answer.body.count(b"NoSuchKey") == unknown.body.count(b"NoSuchKey") == 1


async def test_what_a_plan_has_ahead_is_shown(tmp_path: Path) -> None:
    async with read_data_sets(tmp_path) as rig:
        origin_keys = [f"open/{number}" for number in range(5)]
        rig.parts.storage.tiers.memory.purge("b", "")
        await rig.client().request("PUT", path_of("b", ".forebay/plans/order"), (), "\n".join(origin_keys).encode())
        await run_loop_until(
            lambda: sum(each.lead_bytes for each in rig.parts.jobs.plans.coordinator.plans()) == 5 * SIZE
        )
        row: dict[str, Any] = json.loads((await rig.client().request("GET", data_set("train"))).body)
        assert row["plan_lead"] == 5 * SIZE
        plan = json.loads((await rig.client().request("GET", path_of("b", ".forebay/plans/order"))).body)
        assert plan["data_set"] == "train"
        await rig.client().request("DELETE", path_of("b", ".forebay/plans/order"))
        assert json.loads((await rig.client().request("GET", data_set("train"))).body)["plan_lead"] == 0


async def test_each_worker_has_the_rows_of_all(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Node(origin, tmp_path, rest=RULES) as node:
        for number, key in enumerate(KEYS):
            origin.store.put_synthetic("b", key, SIZE)
            assert (await node.client(number % 2).request("GET", path_of("b", key))).status == 200
        for worker in (0, 1):
            async with asyncio.timeout(60):  # another process reports its reads, and tells nobody when
                while True:
                    answer = await node.client(worker).request("GET", data_set("train"))
                    if answer.status == 200 and json.loads(answer.body)["reads"] == len(KEYS):
                        break
                    await asyncio.sleep(0.02)
