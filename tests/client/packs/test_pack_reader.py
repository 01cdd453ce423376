"""Packs read over plain S3 and OSS, and through Forebay: the same bytes in all three."""

import asyncio
import pickle
import re
from collections.abc import AsyncIterator, Callable
from hashlib import md5
from pathlib import Path
from typing import Any, TypeVar

import pytest

from forebay.protocol.packs.tombstones import Tombstone, encode_tombstones, tombstones_key
from forebay_client import BodyCorrupt, Client, ObjectNotFound, RangeNotSatisfiable
from forebay_client.packs import PackReader
from harness.clients import library_client
from harness.fake_origin import FakeOrigin
from harness.oss_origin import OssOrigin
from harness.packed_objects import shard_and_index
from harness.rig import TRAINER, Rig

T = TypeVar("T")
OBJECTS = {f"train/{number:04}.jpg": bytes([number % 251]) * (100 + number) for number in range(600)} | {
    "train/empty": b""
}
INDEX = "packed/train.fbpack"


def fill(origin: FakeOrigin) -> None:
    headers = (("Content-Type", "image/jpeg"), ("x-amz-meta-label", "cat"))
    shard, index = shard_and_index(OBJECTS, prefix="train/", headers=headers)
    origin.store.put("data", "packed/0.tar", shard)
    origin.store.put("data", INDEX, index)


@pytest.fixture(params=["s3", "oss", "forebay"])
async def client(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Client]:
    kind: str = request.param
    if kind == "oss":
        async with OssOrigin() as oss:
            fill(oss)
            with library_client(oss.endpoint, oss.secret, dialect="oss", addressing="virtual") as client:
                yield client
        return
    async with FakeOrigin() as origin:
        fill(origin)
        if kind == "s3":
            with library_client(origin.endpoint, origin.secret) as client:
                yield client
        else:
            async with Rig(origin.endpoint, origin.secret, tmp_path) as rig:
                with library_client(rig.endpoint, TRAINER) as client:
                    yield client


async def run(call: Callable[..., T], *arguments: Any) -> T:
    return await asyncio.to_thread(call, *arguments)


async def test_members_are_read_without_a_rule(client: Client) -> None:
    def dialogue() -> None:
        reader = PackReader(client, "data", INDEX)
        assert len(reader) == len(OBJECTS)
        assert list(reader.keys()) == sorted(OBJECTS)
        assert list(reader.keys("train/01")) == [f"train/{number:04}.jpg" for number in range(100, 200)]
        assert bytes(reader.get("train/0007.jpg")) == OBJECTS["train/0007.jpg"]
        assert bytes(reader.get("train/empty")) == b""
        assert bytes(reader.get_range("train/0007.jpg", 5, 9)) == OBJECTS["train/0007.jpg"][5:9]
        assert bytes(reader.get_range("train/0007.jpg", 100, 1000)) == OBJECTS["train/0007.jpg"][100:]
        for start, end in ((107, 200), (1000, None)):  # as Client.get_range has it
            with pytest.raises(RangeNotSatisfiable, match=re.escape("train/0007.jpg")):
                reader.get_range("train/0007.jpg", start, end)
        assert bytes(reader.get_range("train/0007.jpg", 500, 500)) == b""
        with pytest.raises(TypeError, match="keys are a list"):
            list(reader.get_many("train/0007.jpg"))
        info = reader.head("train/0007.jpg")
        assert (info.size, info.content_type, info.metadata) == (107, "image/jpeg", {"label": "cat"})
        assert "train/0007.jpg" in reader
        assert "train/none" not in reader
        with pytest.raises(ObjectNotFound) as caught:
            reader.get("train/none")
        assert (caught.value.bucket, caught.value.key) == ("data", "train/none")

    await run(dialogue)


@pytest.mark.parametrize("ordered", [True, False])
async def test_many_members_take_few_requests(client: Client, ordered: bool) -> None:  # a parameter
    keys = [*reversed(OBJECTS), "train/none", "train/0001.jpg"]

    def dialogue() -> None:
        reader = PackReader(client, "data", INDEX)
        before = client.stats.requests
        items = list(reader.get_many(keys, ordered=ordered))
        assert sum(client.stats.requests.values()) - sum(before.values()) <= 2
        if ordered:
            assert [item.key for item in items] == keys
        assert sorted(item.index for item in items) == list(range(len(keys)))
        for item in items:
            assert item.key == keys[item.index]
            if item.key == "train/none":
                assert isinstance(item.error, ObjectNotFound)
            else:
                assert bytes(item.content()) == OBJECTS[item.key]

    await run(dialogue)


async def test_a_reader_pickles_as_its_arguments(client: Client) -> None:
    def dialogue() -> None:
        copy = pickle.loads(pickle.dumps(PackReader(client, "data", INDEX)))
        assert bytes(copy.get("train/0001.jpg")) == OBJECTS["train/0001.jpg"]
        copy.client.close()

    await run(dialogue)


async def test_damage_is_found() -> None:
    async with FakeOrigin() as origin:
        fill(origin)
        shard, index = shard_and_index(OBJECTS, prefix="train/")
        origin.store.put("data", "packed/cut.fbpack", index[:-1])
        damaged = shard.replace(OBJECTS["train/0007.jpg"], bytes(107))
        etag = f'"{md5(shard, usedforsecurity=False).hexdigest()}"'
        origin.store.put("data", "packed/0.tar", damaged, etag=etag)

        def dialogue() -> None:
            with library_client(origin.endpoint, origin.secret) as client:
                with pytest.raises(BodyCorrupt, match="cut short"):
                    PackReader(client, "data", "packed/cut.fbpack")
                reader = PackReader(client, "data", INDEX)
                with pytest.raises(BodyCorrupt, match="not those of the index"):
                    reader.get("train/0007.jpg")
                [item] = reader.get_many(["train/0007.jpg"])
                assert isinstance(item.error, BodyCorrupt)
                assert bytes(PackReader(client, "data", INDEX, verify=False).get("train/0007.jpg")) == bytes(107)
                origin.store.put("data", "packed/0.tar", damaged)
                with pytest.raises(BodyCorrupt, match="another shard than the index names"):
                    reader.get("train/0008.jpg")

        await run(dialogue)


async def test_a_digest_is_compared_once_where_the_version_vouches() -> None:
    async with FakeOrigin() as origin:
        fill(origin)
        shard, _ = shard_and_index(OBJECTS, prefix="train/")
        damaged = shard.replace(OBJECTS["train/0007.jpg"], bytes(107))
        etag = f'"{md5(shard, usedforsecurity=False).hexdigest()}"'

        def dialogue() -> None:
            with library_client(origin.endpoint, origin.secret) as client:
                reader = PackReader(client, "data", INDEX)
                assert all(item.error is None for item in reader.get_many(OBJECTS))
                origin.store.put("data", "packed/0.tar", damaged, etag=etag)
                found = {item.key: item for item in reader.get_many(OBJECTS)}
                assert bytes(found["train/0007.jpg"].content()) == bytes(107), "the origin lied about its version"
                [item] = reader.get_many(["train/0007.jpg"])
                assert isinstance(item.error, BodyCorrupt), "a batch names no version"

        await run(dialogue)


async def test_deleted_members_are_not_read(client: Client) -> None:
    def dialogue() -> None:
        offset = PackReader(client, "data", INDEX)._member("train/0007.jpg").offset  # noqa: SLF001 # for a tombstone
        stale = Tombstone("train/0008.jpg", "packed/0.tar", 512 << 20)
        content = encode_tombstones([Tombstone("train/0007.jpg", "packed/0.tar", offset), stale])
        client.put("data", tombstones_key(INDEX, 1.8e9, bytes(4)), content)
        reader = PackReader(client, "data", INDEX)
        assert "train/0007.jpg" not in reader
        assert list(reader.keys("train/000")) == [f"train/{number:04}.jpg" for number in range(10) if number != 7]
        assert len(reader) == len(OBJECTS) - 1
        with pytest.raises(ObjectNotFound):
            reader.get("train/0007.jpg")
        assert [item.error is None for item in reader.get_many(["train/0007.jpg", "train/0008.jpg"])] == [False, True]

    await run(dialogue)
