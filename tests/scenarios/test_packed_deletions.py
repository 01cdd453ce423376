"""DELETE of a member of a pack: hidden from every reader by a tombstone, for good, and nothing comes to light again."""

import asyncio
from collections.abc import Coroutine
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from forebay.core.task_registry import TaskRegistry
from forebay.namespace.packs.pack_catalogue import MERGED_FROM
from forebay_client import BatchKey, Client
from harness.clients import path_of
from harness.fake.actions import FORBIDDEN, SLOW_DOWN, HoldRequest, Rewrite
from harness.fake.gate import Gate
from harness.fake.response_bytes import ResponseBytes
from harness.fake_origin import FakeOrigin
from harness.held_syncs import HeldSyncs
from harness.inspection import run_loop_until
from harness.packed_deletions import KEY, OTHER, TOMBSTONES, delete, is_gone, tombstones
from harness.packed_objects import shard_and_index
from harness.packed_rig import IDENTITY, OBJECTS, PARTNER, PARTNER_THERE, RULE, pack, read, rig_of
from harness.rig import TRAINER, Rig
from harness.worker_node import Node
from harness.write_back_rig import WriteBackRig


@pytest.mark.parametrize("listing", ["", 'listing = "10m"\n'], ids=["pages", "snapshot"])
async def test_a_deleted_member_is_gone_for_good(tmp_path: Path, listing: str) -> None:
    rules = RULE + listing + ('[[rules]]\npath = "**"\nlisting = "10m"\n' if listing else "")
    async with FakeOrigin() as origin, rig_of(origin, tmp_path, rules) as rig:
        pack(origin)
        assert not await is_gone(rig.client())
        assert await delete(rig.client(), KEY) == 204
        assert await is_gone(rig.client())
        assert len(tombstones(origin)) == 1, "at the origin before the acknowledgement"
        assert await delete(rig.client(), KEY) == 204
        assert len(tombstones(origin)) == 1, "there was nothing left to hide"
        rig.advance_clock(61)
        assert await is_gone(rig.client())
        await rig.restart()
        assert await is_gone(rig.client())
        assert not await is_gone(rig.client(), OTHER)


async def test_another_node_sees_it_within_the_freshness(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, rig_of(origin, tmp_path / "a") as one, rig_of(origin, tmp_path / "b") as other:
        pack(origin)
        assert not await is_gone(other.client())
        assert await delete(one.client(), KEY) == 204
        other.advance_clock(61)
        assert await is_gone(other.client())


async def test_a_delete_of_the_object_does_not_show_the_member(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, rig_of(origin, tmp_path) as rig:
        pack(origin)
        origin.store.put("bucket", KEY, b"real")
        assert (await read(rig.client(), KEY)).body == b"real"
        assert await delete(rig.client(), KEY) == 204
        assert await is_gone(rig.client())
        writes = [each.operation for each in origin.log.requests if each.method in {"PUT", "DELETE"}]
        assert writes == ["PutObject", "DeleteObject"], "the tombstone comes first"


async def test_a_delete_does_not_show_the_member_of_another_pack(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, rig_of(origin, tmp_path) as rig:
        pack(origin)
        pack(origin, {KEY: b"packed twice"}, "other")
        assert not await is_gone(rig.client())
        assert await delete(rig.client(), KEY) == 204
        assert await is_gone(rig.client())


async def test_a_delete_hides_nothing_of_another_bucket(tmp_path: Path) -> None:
    """In which the same pack lies under the same keys."""
    async with FakeOrigin() as origin, rig_of(origin, tmp_path, RULE.replace("bucket/", "*/")) as rig:
        pack(origin)
        for key in ("packed/train-0.tar", "packed/train.fbpack"):
            copied = origin.store.get("bucket", key)
            origin.store.put("other", key, b"".join(copied.content.views(0, copied.size)), etag=copied.etag)
        for bucket in ("bucket", "other"):  # a view of each
            assert (await rig.client().request("GET", path_of(bucket, KEY))).status == 200
        assert await delete(rig.client(), KEY) == 204
        assert await is_gone(rig.client())
        assert (await rig.client().request("GET", path_of("other", KEY))).body == OBJECTS[KEY]


async def test_a_later_object_wins_and_can_be_deleted(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, rig_of(origin, tmp_path) as rig:
        pack(origin)
        assert await delete(rig.client(), KEY) == 204
        assert (await rig.client().request("PUT", path_of("bucket", KEY), (), b"mine")).status == 200
        assert (await read(rig.client(), KEY)).body == b"mine"
        assert not await is_gone(rig.client())
        assert await delete(rig.client(), KEY) == 204
        assert await is_gone(rig.client())


async def test_a_batch_delete_hides_what_the_origin_takes(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, rig_of(origin, tmp_path) as rig:
        pack(origin)
        keys, s3 = [*list(OBJECTS)[:20], "train/none"], rig.boto3()
        answer = await asyncio.to_thread(
            s3.delete_objects, Bucket="bucket", Delete={"Objects": [{"Key": key} for key in keys], "Quiet": False}
        )
        s3.close()
        assert [each["Key"] for each in answer["Deleted"]] == keys
        assert len(tombstones(origin)) == 1
        for key in keys:
            assert (await read(rig.client(), key)).status == 404
        assert (await read(rig.client(), list(OBJECTS)[20])).status == 200

        def batch() -> None:
            with Client(
                rig.endpoint, access_key=TRAINER.access, secret_key=TRAINER.secret, region=TRAINER.region
            ) as client:
                items = list(client.get_many("bucket", [keys[0], list(OBJECTS)[20], BatchKey(keys[1], 0, 5)]))
                assert [item.error is None for item in items] == [False, True, False]

        await asyncio.to_thread(batch)


def _refusing(key: str) -> Rewrite:
    """Changes the answer of a batch delete: the origin has not deleted this key."""
    deleted, refused = f"<Key>{key}</Key></Deleted>", f"<Key>{key}</Key><Code>AccessDenied</Code></Error>"

    def change(response: ResponseBytes) -> ResponseBytes:
        body = response.body.decode().replace(f"<Deleted>{deleted}", f"<Error>{refused}").encode()
        return replace(response, body=body).replacing("Content-Length", str(len(body)))

    return Rewrite(change)


async def _delete_batch(rig: Rig, *keys: str) -> dict[str, Any]:
    s3 = rig.boto3()
    try:
        return await asyncio.to_thread(
            s3.delete_objects, Bucket="bucket", Delete={"Objects": [{"Key": key} for key in keys], "Quiet": False}
        )
    finally:
        s3.close()


async def test_a_batch_delete_hides_nothing_that_the_origin_refuses(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, rig_of(origin, tmp_path) as rig:
        pack(origin)
        assert not await is_gone(rig.client())
        origin.faults.add(_refusing(KEY), operation="DeleteObjects")
        answer = await _delete_batch(rig, KEY, OTHER)
        assert [each["Key"] for each in answer["Errors"]] == [KEY]
        assert (await is_gone(rig.client()), await is_gone(rig.client(), OTHER)) == (False, True)


async def test_a_batch_delete_compares_no_member(tmp_path: Path) -> None:
    """One that has a condition for a member is refused as a whole; an object is the origin's to compare."""
    async with FakeOrigin() as origin, rig_of(origin, tmp_path) as rig:
        pack(origin)
        conditional = {"Objects": [{"Key": OTHER}, {"Key": KEY, "ETag": '"another"'}]}
        s3 = rig.boto3()
        with pytest.raises(s3.exceptions.ClientError, match="NotImplemented"):
            await asyncio.to_thread(s3.delete_objects, Bucket="bucket", Delete=conditional)
        assert (await is_gone(rig.client()), await is_gone(rig.client(), OTHER)) == (False, False)
        origin.store.put("bucket", KEY, b"real")
        rig.advance_clock(61)
        answer = await asyncio.to_thread(s3.delete_objects, Bucket="bucket", Delete=conditional)
        assert [each["Key"] for each in answer["Deleted"]] == [OTHER, KEY]
        s3.close()


@pytest.mark.parametrize("is_refused", [False, True], ids=["deleted", "refused"])
async def test_a_delete_hides_the_member_of_a_pack_that_came_meanwhile(tmp_path: Path, is_refused: bool) -> None:
    """The pack was made of the object, which its job had read before."""
    key, immutable = "train/007-late.jpg", RULE.replace("60s", "immutable")
    shard, index = shard_and_index({key: b"late"}, shard_key="packed/late-0.tar", prefix="train/")
    async with FakeOrigin() as origin, rig_of(origin, tmp_path, immutable) as rig:
        pack(origin)
        origin.store.put("bucket", key, b"late")
        origin.store.put("bucket", "packed/late-0.tar", shard)
        assert not await is_gone(rig.client(), key)
        origin.faults.add(HoldRequest(gate := Gate()), operation="DeleteObjects")
        if is_refused:
            origin.faults.add(_refusing(key), operation="DeleteObjects")
        deletion = TaskRegistry().spawn(_delete_batch(rig, key), "deletion")
        await gate.reached()
        published = await rig.client().request("PUT", path_of("bucket", "packed/late.fbpack"), (), index)
        assert published.status == 200
        gate.open()
        await deletion
        origin.store.delete("bucket", key)  # what the job does with the originals of its members
        assert await is_gone(rig.client(), key) is not is_refused


@pytest.mark.parametrize("is_real", [False, True])
async def test_a_refused_delete_changes_nothing(tmp_path: Path, is_real: bool) -> None:  # a parameter
    async with FakeOrigin() as origin, rig_of(origin, tmp_path) as rig:
        pack(origin)
        if is_real:
            origin.store.put("bucket", KEY, b"real")
        shown = b"real" if is_real else OBJECTS[KEY]
        assert (await read(rig.client(), KEY)).body == shown
        failing = origin.faults.add(SLOW_DOWN, where=lambda asked: asked.method == "PUT")
        assert await delete(rig.client(), KEY) == 503, "not acknowledged without its tombstone"
        origin.faults.remove(failing)
        denied = origin.faults.add(FORBIDDEN, where=lambda asked: asked.method == "DELETE")
        assert await delete(rig.client(), KEY) == 403
        assert (await read(rig.client(), KEY)).body == shown
        origin.faults.remove(denied)
        assert await delete(rig.client(), KEY) == 204
        assert await is_gone(rig.client())


async def test_versions_are_deleted_without_a_tombstone(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, rig_of(origin, tmp_path) as rig:
        pack(origin)
        path = f"{path_of('bucket', KEY)}?versionId=null"
        assert (await rig.client().request("DELETE", path)).status < 500
        assert not await is_gone(rig.client())
        origin.store.put("bucket", KEY, b"real")
        rig.advance_clock(61)
        assert (await read(rig.client(), KEY)).body == b"real"
        await rig.client().request("DELETE", path)
        assert len(tombstones(origin)) == 1, "the end of the object would have shown the member"


async def test_tombstones_are_merged(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, rig_of(origin, tmp_path) as rig:
        pack(origin)
        keys = list(OBJECTS)[: MERGED_FROM + 1]
        assert await delete(rig.client(), *keys) == 204
        assert len(tombstones(origin)) == len(keys)
        rig.advance_clock(61)
        assert (await read(rig.client(), keys[0])).status == 404
        await origin.log.wait_for(2 * len(keys), "DELETE")
        await origin.log.wait_idle()
        assert len(tombstones(origin)) == 1
        await rig.restart()
        for key in keys:
            assert (await read(rig.client(), key)).status == 404
        assert (await read(rig.client(), list(OBJECTS)[-1])).status == 200


async def test_damaged_tombstones_show_nothing(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, rig_of(origin, tmp_path) as rig:
        pack(origin)
        assert await delete(rig.client(), KEY) == 204
        origin.store.put("bucket", tombstones(origin)[0], b'{"deleted": [["train/007')
        await rig.restart()
        for key in (KEY, OTHER):
            answer = await read(rig.client(), key)
            assert answer.status == 503
            assert TOMBSTONES.encode() in answer.body


async def test_an_own_credential_writes_its_own_tombstones(tmp_path: Path) -> None:
    grants = IDENTITY.replace('"list"]', '"list", "delete"]')
    async with FakeOrigin() as origin, rig_of(origin, tmp_path, grants + RULE) as rig:
        origin.allow(PARTNER_THERE)
        pack(origin)
        denied = origin.faults.add(
            FORBIDDEN,
            where=lambda asked: asked.method == "PUT" and PARTNER_THERE.access in asked.headers["Authorization"],
        )
        assert await delete(rig.client(PARTNER), KEY) == 403
        assert (await read(rig.client(), KEY)).status == 200
        origin.faults.remove(denied)
        assert await delete(rig.client(PARTNER), KEY) == 204
        assert await is_gone(rig.client())


async def test_a_delete_that_a_journal_takes_hides_the_member_too(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, WriteBackRig(origin, tmp_path, rest=RULE + 'write = "back"\n') as rig:
        pack(origin)
        for method in ("PUT", "DELETE", "PUT"):  # the first of their kinds go through
            assert (await rig.client().request(method, path_of("bucket", "train/proof"))).status in {200, 204}
        await rig.settled()
        held = origin.faults.add(HoldRequest(gate := Gate()), where=lambda asked: asked.method == "DELETE")
        assert await delete(rig.client(), KEY) == 204
        assert await is_gone(rig.client())
        assert len(tombstones(origin)) == 1
        gate.open()
        await rig.settled()
        origin.faults.remove(held)
        assert await is_gone(rig.client())


@pytest.mark.parametrize("is_batch", [False, True], ids=["one", "batch"])
async def test_a_journal_acknowledges_no_delete_without_tombstones(tmp_path: Path, is_batch: bool) -> None:
    """The member is that of a pack which is published while the journal is written."""
    key, immutable = "train/007-late.jpg", RULE.replace("60s", "immutable")
    shard, index = shard_and_index({key: b"late"}, shard_key="packed/late-0.tar", prefix="train/")
    async with FakeOrigin() as origin, WriteBackRig(origin, tmp_path, rest=immutable + 'write = "back"\n') as rig:
        files = rig.journal_files = HeldSyncs()
        await rig.restart()
        pack(origin)
        for method in ("PUT", "DELETE", "PUT"):  # the first of their kinds go through
            assert (await rig.client().request(method, path_of("bucket", "train/proof"))).status in {200, 204}
        await rig.settled()
        origin.store.put("bucket", key, b"late")
        origin.store.put("bucket", "packed/late-0.tar", shard)
        assert not await is_gone(rig.client(), key)

        def deletion() -> Coroutine[Any, Any, Any]:
            return _delete_batch(rig, key) if is_batch else rig.client().request("DELETE", path_of("bucket", key))

        files.hold()
        refusal = origin.faults.add(FORBIDDEN, where=lambda asked: "late.deleted/" in (asked.key or ""))
        deleting = TaskRegistry().spawn(deletion(), "deletion")
        await run_loop_until(lambda: files.held)
        published = await rig.client().request("PUT", path_of("bucket", "packed/late.fbpack"), (), index)
        assert published.status == 200
        files.release()
        with pytest.raises(ClientError) if is_batch else nullcontext():
            assert (await deleting).status == 503, "the member may come back"
        origin.faults.remove(refusal)
        await deletion()
        await rig.settled()
        assert await is_gone(rig.client(), key)


async def test_every_worker_hides_it_before_the_acknowledgement(tmp_path: Path) -> None:
    immutable = RULE.replace("60s", "immutable")
    async with FakeOrigin() as origin, Node(origin, tmp_path, 2, rest=immutable) as node:
        pack(origin)
        clients = [node.client(worker) for worker in range(2)]
        for client in clients:
            assert not await is_gone(client)
        assert await delete(clients[0], KEY) == 204
        assert [await is_gone(client) for client in clients] == [True, True]


async def test_a_delete_of_a_hidden_member_hides_it_in_every_worker(tmp_path: Path) -> None:
    """One worker has found the tombstone at the origin, whose writer has told nobody here."""
    immutable = RULE.replace("60s", "immutable")
    async with (
        FakeOrigin() as origin,
        rig_of(origin, tmp_path / "other") as other,
        Node(origin, tmp_path, 2, rest=immutable) as node,
    ):
        pack(origin)
        first, second = (node.client(worker) for worker in range(2))
        assert not await is_gone(second)
        assert await delete(other.client(), KEY) == 204
        assert await is_gone(first)
        assert await delete(first, KEY) == 204
        assert await is_gone(second)
        assert len(tombstones(origin)) == 1


async def test_a_worker_that_is_reading_the_indexes_hides_it_as_well(tmp_path: Path) -> None:
    """It has listed the tombstones before there was one."""
    immutable = RULE.replace("60s", "immutable")
    async with FakeOrigin() as origin, Node(origin, tmp_path, 2, rest=immutable) as node:
        pack(origin)
        first, second = (node.client(worker) for worker in range(2))
        assert not await is_gone(first)
        gate = Gate()
        origin.faults.add(HoldRequest(gate), where=lambda asked: asked.query.get("prefix") == "train/", times=1)
        waiting = TaskRegistry().spawn(read(second, OTHER), "read")
        await gate.reached()
        assert await delete(first, KEY) == 204
        gate.open()
        assert (await waiting).status == 200
        assert await is_gone(second)
