"""Members of packs are objects like any others: reads, conditions, listings, writes, and who may read them."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from forebay_client import Client, ObjectInfo
from harness.clients import path_of
from harness.conformance import texts
from harness.fake.actions import FORBIDDEN
from harness.fake_origin import FakeOrigin
from harness.packed_objects import shard_and_index
from harness.packed_rig import IDENTITY, OBJECTS, PARTNER, PARTNER_THERE, RULE, pack, read, rig_of
from harness.rig import READER, TRAINER
from harness.worker_node import Node

MODIFIED = "Tue, 14 Nov 2023 22:13:20 GMT"


async def test_a_member_is_read_as_an_object(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, rig_of(origin, tmp_path) as rig:
        pack(origin, headers=(("Content-Type", "image/jpeg"), ("x-amz-meta-label", "cat")))
        client = rig.client()
        for key, content in list(OBJECTS.items())[:20]:
            answer = await read(client, key)
            assert (answer.status, answer.body) == (200, content)
        assert answer.headers["Content-Type"] == "image/jpeg"
        assert answer.headers["x-amz-meta-label"] == "cat"
        assert answer.headers["Last-Modified"] == MODIFIED
        assert answer.headers["x-forebay-cache"] == "hit-memory"
        head = await read(client, key, method="HEAD")
        assert {name: head.headers[name] for name in ("ETag", "Content-Length")} == {
            "ETag": answer.headers["ETag"],
            "Content-Length": str(len(content)),
        }
        part = await read(client, key, ("Range", "bytes=10-19"))
        assert (part.status, part.body, part.headers["Content-Range"]) == (
            206,
            content[10:20],
            f"bytes 10-19/{len(content)}",
        )
        assert (await read(client, key, ("Range", "bytes=5000-"))).status == 416
        assert (await read(client, key, ("If-None-Match", answer.headers["ETag"]))).status == 304
        assert (await read(client, key, ("If-Match", '"other"'))).status == 412
        assert origin.log.count(operation="GetObject") == 2, "the index, and a block of the shard"


async def test_a_key_in_no_pack_is_the_origins(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, rig_of(origin, tmp_path) as rig:
        pack(origin)
        origin.store.put("bucket", "train/loose.jpg", b"loose")
        assert (await read(rig.client(), "train/loose.jpg")).body == b"loose"
        assert (await read(rig.client(), "train/none.jpg")).status == 404
        assert (await read(rig.client(), "other/000.jpg")).status == 404


async def test_a_real_object_wins_within_the_freshness(tmp_path: Path) -> None:
    key = "train/007.jpg"
    async with FakeOrigin() as origin, rig_of(origin, tmp_path) as rig:
        pack(origin)
        assert (await read(rig.client(), key)).body == OBJECTS[key]
        origin.store.put("bucket", key, b"written around Forebay")
        assert (await read(rig.client(), key)).body == OBJECTS[key]
        assert (await read(rig.client(), key, ("Cache-Control", "no-cache"))).body == b"written around Forebay"
        rig.advance_clock(61)
        assert (await read(rig.client(), key)).body == b"written around Forebay"
        origin.store.delete("bucket", key)
        rig.advance_clock(61)
        assert (await read(rig.client(), key)).body == OBJECTS[key]


async def test_a_write_is_seen_at_once_and_stays(tmp_path: Path) -> None:
    key = "train/007.jpg"
    immutable = RULE.replace("60s", "immutable")
    async with FakeOrigin() as origin, rig_of(origin, tmp_path, immutable) as rig:
        pack(origin)
        assert (await read(rig.client(), key)).body == OBJECTS[key]
        assert (await rig.client().request("PUT", path_of("bucket", key), (), b"mine")).status == 200
        assert (await read(rig.client(), key)).body == b"mine"
        await rig.restart()
        assert (await read(rig.client(), key)).body == b"mine"


def listed_by(s3: Any, **query: Any) -> list[str]:
    """Keys and common prefixes, in order."""
    names: list[str] = []
    for page in s3.get_paginator("list_objects_v2").paginate(Bucket="bucket", **query):
        names += sorted(
            [each["Key"] for each in page.get("Contents", ())]
            + [each["Prefix"] for each in page.get("CommonPrefixes", ())]
        )
    return names


@pytest.mark.parametrize("listing", ["", 'listing = "10m"\n'], ids=["pages", "snapshot"])
async def test_listings_have_members_and_objects(tmp_path: Path, listing: str) -> None:
    rules = RULE + listing + ('[[rules]]\npath = "**"\nlisting = "10m"\n' if listing else "")
    async with FakeOrigin() as origin, rig_of(origin, tmp_path, rules) as rig:
        pack(origin, OBJECTS | {"train/sub/a": b"a", "train/sub/b": b"b"})
        for key in ("a", "train/0070.jpg", "train/zz", "z", "train/sub/c"):
            origin.store.put("bucket", key, b"real")
        origin.store.put("bucket", "train/007.jpg", b"newer")
        everything = sorted(
            {
                *OBJECTS,
                "train/sub/a",
                "train/sub/b",
                "train/sub/c",
                "a",
                "z",
                "train/0070.jpg",
                "train/zz",
                "packed/train-0.tar",
                "packed/train.fbpack",
            }
        )
        s3 = rig.boto3()

        def compare() -> None:
            for size in (1000, 60):
                paging = {"PaginationConfig": {"PageSize": size}}
                assert listed_by(s3, **paging) == everything
                assert listed_by(s3, Prefix="train/00", **paging) == [k for k in everything if k.startswith("train/00")]
                assert listed_by(s3, Delimiter="/", **paging) == ["a", "packed/", "train/", "z"]
                rolled = listed_by(s3, Prefix="train/", Delimiter="/", **paging)
                assert rolled == sorted(
                    [k for k in everything if k.startswith("train/") and "sub" not in k] + ["train/sub/"]
                )
                assert listed_by(s3, StartAfter="train/2", **paging) == [k for k in everything if k > "train/2"]
            v1 = s3.list_objects(Bucket="bucket", Prefix="train/", MaxKeys=5)
            assert [each["Key"] for each in v1["Contents"]] == [f"train/{n:03}.jpg" for n in range(5)]
            found = {each["Key"]: each for each in s3.list_objects_v2(Bucket="bucket", Prefix="train/00")["Contents"]}
            assert found["train/007.jpg"]["Size"] == 5
            assert found["train/008.jpg"]["Size"] == len(OBJECTS["train/008.jpg"])
            head = s3.head_object(Bucket="bucket", Key="train/008.jpg")
            assert found["train/008.jpg"]["ETag"] == head["ETag"]
            assert found["train/008.jpg"]["LastModified"] == head["LastModified"]

        await asyncio.to_thread(compare)
        s3.close()


async def test_a_new_index_takes_over_at_once(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, rig_of(origin, tmp_path) as rig:
        index = pack(origin)
        assert (await read(rig.client(), "train/000.jpg")).status == 200
        pack(origin, {"train/new": b"new"}, "newer")
        rig.advance_clock(61)
        assert (await read(rig.client(), "train/new")).body == b"new"
        assert (await read(rig.client(), "train/000.jpg")).status == 200
        # Through Forebay there is nothing to wait for.
        other = shard_and_index({"train/000.jpg": b"other"}, shard_key="packed/other-0.tar", prefix="train/")
        for key, content in (("packed/other-0.tar", other[0]), ("packed/train.fbpack", other[1])):
            assert (await rig.client().request("PUT", path_of("bucket", key), (), content)).status == 200
        assert (await read(rig.client(), "train/000.jpg")).body == b"other"
        assert (await read(rig.client(), "train/001.jpg")).status == 404
        assert index != other[1]


@pytest.mark.parametrize("position", [20, -100, -3])
async def test_a_damaged_index_is_refused_with_its_reason(tmp_path: Path, position: int) -> None:
    async with FakeOrigin() as origin, rig_of(origin, tmp_path) as rig:
        index = bytearray(pack(origin))
        index[position] ^= 1
        origin.store.put("bucket", "packed/train.fbpack", bytes(index))
        origin.store.put("bucket", "train/loose", b"loose")
        answer = await read(rig.client(), "train/000.jpg")
        assert answer.status == 503
        assert b"packed/train.fbpack" in answer.body
        # Of a key that a whole block would have it is known that no pack has it.
        assert (await read(rig.client(), "train/none")).status == (404 if position == 20 else 503)
        assert (await read(rig.client(), "train/loose")).body == b"loose"
        assert (await rig.client().request("GET", "/bucket?list-type=2&prefix=train%2F")).status == 503


async def test_a_shard_that_was_written_again_is_refused(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, rig_of(origin, tmp_path) as rig:
        pack(origin)
        origin.store.put("bucket", "packed/train-0.tar", bytes(400_000))
        answer = await read(rig.client(), "train/000.jpg")
        assert answer.status == 503
        assert b"is not the shard" in answer.body


async def test_who_may_read_the_key_may_read_the_member(tmp_path: Path) -> None:
    rule = '[[rules]]\npath = "bucket/**"\npacked = "packed/**"\n'
    async with FakeOrigin() as origin, rig_of(origin, tmp_path, rule) as rig:
        objects = {"open/a": b"open", "closed/a": b"closed"}
        shard, index = shard_and_index(objects, shard_key="packed/0.tar")
        origin.store.put("bucket", "packed/0.tar", shard)
        origin.store.put("bucket", "packed/all.fbpack", index)
        assert (await read(rig.client(READER), "open/a")).body == b"open"
        for key in ("closed/a", "packed/0.tar", "packed/all.fbpack"):
            for method in ("GET", "HEAD"):
                assert (await read(rig.client(READER), key, method=method)).status == 403
        listed = await rig.client(READER).request("GET", "/bucket?list-type=2&prefix=open%2F")
        assert texts(listed, "Contents/Key") == ["open/a"]
        assert (await rig.client(READER).request("GET", "/bucket?list-type=2")).status == 403


async def test_an_always_rule_looks_for_the_object_each_time(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, rig_of(origin, tmp_path, RULE.replace("60s", "always")) as rig:
        pack(origin)
        assert (await read(rig.client(), "train/007.jpg")).body == OBJECTS["train/007.jpg"]
        origin.store.put("bucket", "train/007.jpg", b"real")
        assert (await read(rig.client(), "train/007.jpg")).body == b"real"


async def test_an_own_credential_needs_the_shard_at_the_origin(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, rig_of(origin, tmp_path, IDENTITY + RULE) as rig:
        origin.allow(PARTNER_THERE)
        pack(origin)
        denied = origin.faults.add(
            FORBIDDEN, where=lambda asked: PARTNER_THERE.access in asked.headers.get("Authorization", "")
        )
        assert (await read(rig.client(), "train/001.jpg")).status == 200
        for method in ("GET", "HEAD"):
            assert (await read(rig.client(PARTNER), "train/001.jpg", method=method)).status == 403
        listing = "/bucket?list-type=2&prefix=train%2F"
        assert (await rig.client(PARTNER).request("GET", listing)).status == 403
        origin.faults.remove(denied)
        assert (await read(rig.client(PARTNER), "train/001.jpg")).body == OBJECTS["train/001.jpg"]
        assert texts(await rig.client(PARTNER).request("GET", listing), "Contents/Key") == list(OBJECTS)


async def test_a_batch_and_a_plan_have_members(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, rig_of(origin, tmp_path) as rig:
        pack(origin)
        keys = [*list(OBJECTS)[:50], "train/none"]

        def dialogue() -> None:
            with Client(
                rig.endpoint, access_key=TRAINER.access, secret_key=TRAINER.secret, region=TRAINER.region
            ) as client:
                client.plan("bucket", "epoch", keys)
                items = list(client.get_many("bucket", keys))
                assert [bytes(item.content()) for item in items[:-1]] == [OBJECTS[key] for key in keys[:-1]]
                assert items[-1].error is not None

        await asyncio.to_thread(dialogue)
        await rig.client().request("DELETE", "/bucket/.forebay/plans/epoch")


async def test_oss_clients_read_and_list_members(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, rig_of(origin, tmp_path) as rig:
        pack(origin)

        def dialogue() -> None:
            secret: dict[str, Any] = {
                "access_key": TRAINER.access,
                "secret_key": TRAINER.secret,
                "region": TRAINER.region,
            }
            with Client(rig.endpoint, dialect="oss", **secret) as client:
                assert bytes(client.get("bucket", "train/007.jpg")) == OBJECTS["train/007.jpg"]
                assert bytes(client.get_range("bucket", "train/007.jpg", 3, 9)) == OBJECTS["train/007.jpg"][3:9]
                assert client.head("bucket", "train/007.jpg").size == len(OBJECTS["train/007.jpg"])
                names = [each.key for each in client.list("bucket", "train/") if isinstance(each, ObjectInfo)]
                assert names == list(OBJECTS)

        await asyncio.to_thread(dialogue)


@pytest.mark.long
async def test_every_worker_shows_members_and_own_writes(tmp_path: Path) -> None:
    async with (
        FakeOrigin() as origin,
        Node(origin, tmp_path, 4, rest=RULE.replace("60s", "immutable"), ssd="64MiB") as node,
    ):
        pack(origin)
        clients = [node.client(worker) for worker in range(4)]
        for key in list(OBJECTS)[:8]:
            for client in clients:
                assert (await read(client, key)).body == OBJECTS[key]
            assert (await clients[len(key) % 4].request("PUT", path_of("bucket", key), (), b"mine")).status == 200
            for client in clients:
                assert (await read(client, key)).body == b"mine"
                assert (
                    len(texts(await client.request("GET", "/bucket?list-type=2&prefix=train%2F"), "Contents/Key"))
                    == 300
                )


async def test_a_listing_with_members_is_never_one_without(tmp_path: Path) -> None:
    """Parameters that an origin might pass over would have it answer without them."""
    async with FakeOrigin() as origin, rig_of(origin, tmp_path) as rig:
        pack(origin)
        for odd in ("encoding-type=other", "continuation-token=b3JpZ2lu", "fetch-owner=perhaps"):
            refused = await rig.client().request("GET", f"/bucket?list-type=2&prefix=train%2F&{odd}")
            assert (refused.status, texts(refused, "Code")) == (400, ["InvalidArgument"]), odd
        page = await rig.client().request("GET", "/bucket?list-type=2&prefix=train%2F&max-keys=2000")
        assert (texts(page, "MaxKeys"), len(texts(page, "Contents/Key"))) == (["1000"], len(OBJECTS))
