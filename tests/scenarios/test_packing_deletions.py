"""Objects that are deleted while a pack job is at work: they do not come back as members."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from forebay.core.names import ObjectName
from forebay.protocol.packs.tombstones import TOKEN_BYTES, encode_tombstones, merged_key, parse_tombstones
from harness.clients import path_of
from harness.fake.actions import HoldHead, HoldRequest
from harness.fake.gate import Gate
from harness.fake.s3_request import S3Request
from harness.fake_origin import FakeOrigin
from harness.inspection import run_loop_until
from harness.pack_jobs import OBJECTS, RULE, body, fill, held_job, rig_of, run_job, stored
from harness.rig import Rig
from harness.write_back_rig import WriteBackRig

DELETED, ELSEWHERE, LAST = "train/001/a.jpg", "train/002/a.jpg", "train/039/a.jpg"
INDEX, TOMBSTONES = "packed/train/index.fbpack", "packed/train/index.deleted/"


@asynccontextmanager
async def packing(rig: Rig, origin: FakeOrigin, gate: Gate, **fault: Any) -> AsyncIterator[None]:
    """Within: a pack job whose request of this kind is held, behind all other reads. Behind: the job is done."""
    held = origin.faults.add(HoldHead(gate) if fault["method"] == "GET" else HoldRequest(gate), **fault)
    async with held_job(rig, origin, gate, held, shard_size="8MiB"):
        for key in OBJECTS:
            await origin.log.wait_for(1, "GET", key=key)
        await run_loop_until(lambda: origin.log.concurrent == 1)
        yield


async def status(rig: Rig, method: str, key: str) -> int:
    return (await rig.client().request(method, path_of("bucket", key))).status


async def is_left_out(rig: Rig, origin: FakeOrigin, *keys: str) -> bool:
    """Whether these keys, and no others, are gone once there is no object left."""
    for key in OBJECTS:
        origin.store.delete("bucket", key)
    await rig.restart()
    shown = {key: await status(rig, "HEAD", key) for key in OBJECTS}
    assert shown == {key: 404 if key in keys else 200 for key in OBJECTS}
    assert await body(rig.client(), LAST) == OBJECTS[LAST]
    return True


async def test_what_is_deleted_while_shards_are_written_is_left_out(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, rig_of(origin, tmp_path) as rig:
        fill(origin)
        async with packing(rig, origin, Gate(), method="GET", key=LAST):
            assert await status(rig, "DELETE", DELETED) == 204
            origin.store.delete("bucket", ELSEWHERE)
        (references,) = stored(origin, ".refs.json").values()
        assert json.loads(references)["refs"].keys() == OBJECTS.keys() - {DELETED, ELSEWHERE}
        assert await is_left_out(rig, origin, DELETED, ELSEWHERE)


async def test_what_is_deleted_while_the_index_is_written_is_hidden(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, rig_of(origin, tmp_path) as rig:
        fill(origin)
        index = "packed/train/index.fbpack"
        async with packing(rig, origin, Gate(), method="PUT", key=index):
            assert await status(rig, "DELETE", DELETED) == 204
            assert (await rig.client().request("PUT", path_of("bucket", ELSEWHERE), (), b"mine")).status == 200
        assert await status(rig, "HEAD", DELETED) == 404
        assert await body(rig.client(), ELSEWHERE) == b"mine"
        assert await is_left_out(rig, origin, DELETED)


async def test_all_members_are_looked_for_when_fences_name_no_object(tmp_path: Path) -> None:
    """Of so many writes that they are not remembered one by one, any may be a delete."""
    async with FakeOrigin() as origin, rig_of(origin, tmp_path) as rig:
        fill(origin)
        async with packing(rig, origin, Gate(), method="PUT", key="packed/train/index.fbpack"):
            assert await status(rig, "DELETE", DELETED) == 204
            for number in range(70_000):
                rig.parts.context.fences.raise_object(ObjectName("elsewhere", str(number)))
        assert await is_left_out(rig, origin, DELETED)


async def test_a_delete_under_way_at_the_publication_hides_the_member(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, rig_of(origin, tmp_path) as rig:
        fill(origin)
        late = origin.faults.add(HoldRequest(gate := Gate()), method="DELETE", key=DELETED)
        async with asyncio.TaskGroup() as tasks:
            async with packing(rig, origin, Gate(), method="GET", key=LAST):
                deletion = tasks.create_task(status(rig, "DELETE", DELETED))
                await gate.reached()
            gate.open()
        assert deletion.result() == 204
        origin.faults.remove(late)
        assert await is_left_out(rig, origin, DELETED)


async def test_a_delete_that_a_journal_has_is_one(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, WriteBackRig(origin, tmp_path, rest=RULE + 'write = "back"\n') as rig:
        fill(origin)
        for method in ("PUT", "DELETE", "PUT"):  # the first of their kinds go through
            assert await status(rig, method, "other/proof") in {200, 204}
            assert await status(rig, method, "train/proof") in {200, 204}
        await rig.settled()
        late = origin.faults.add(HoldRequest(gate := Gate()), method="DELETE", key=DELETED)
        assert await status(rig, "DELETE", DELETED) == 204
        await gate.reached()
        await run_job(rig)
        gate.open()
        await rig.settled()
        origin.faults.remove(late)
        assert await is_left_out(rig, origin, DELETED)


async def test_a_pack_of_nothing_that_is_left_is_empty(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, rig_of(origin, tmp_path) as rig:
        fill(origin)
        async with packing(rig, origin, Gate(), method="GET", key=LAST):
            for key in OBJECTS:
                origin.store.delete("bucket", key)
        assert await status(rig, "HEAD", DELETED) == 404


async def test_tombstones_merged_during_a_look_are_found(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, rig_of(origin, tmp_path) as rig, asyncio.TaskGroup() as tasks:
        fill(origin)
        await run_job(rig)
        assert [await status(rig, "DELETE", key) for key in (DELETED, ELSEWHERE)] == [204, 204]
        found = {key: content for key, content in stored(origin, ".json").items() if key.startswith(TOMBSTONES)}
        assert len(found) == 2
        held = origin.faults.add(HoldRequest(gate := Gate()), method="GET", key=min(found))
        job = tasks.create_task(run_job(rig, action="delete", only="train/039/"))
        await gate.reached()
        deleted = sorted(tombstone for content in found.values() for tombstone in parse_tombstones(content))
        origin.store.put(
            "bucket", merged_key(INDEX, sorted(found), 2e9, bytes(TOKEN_BYTES)), encode_tombstones(deleted)
        )
        for key in found:
            origin.store.delete("bucket", key)
        gate.open()
        await job
        origin.faults.remove(held)
        (references,) = stored(origin, ".refs.json").values()
        left = {key for key in OBJECTS if key not in {DELETED, ELSEWHERE} and not key.startswith("train/039/")}
        assert json.loads(references)["refs"].keys() == left


async def test_an_index_published_during_a_look_is_the_one(tmp_path: Path) -> None:
    """It has no tombstones any more, as it has not the members that they name."""

    def lists_tombstones(asked: S3Request) -> bool:
        return asked.method == "GET" and asked.query.get("prefix") == TOMBSTONES

    async with FakeOrigin() as origin, rig_of(origin, tmp_path) as rig, asyncio.TaskGroup() as tasks:
        fill(origin)
        await run_job(rig)
        assert await status(rig, "DELETE", DELETED) == 204
        held = origin.faults.add(HoldRequest(gate := Gate()), where=lists_tombstones, times=1)
        job = tasks.create_task(run_job(rig, action="delete", only="train/039/"))
        await gate.reached()
        async with rig_of(origin, tmp_path / "other") as other:
            await run_job(other, action="delete", only="train/003/")
        gate.open()
        await job
        origin.faults.remove(held)
        (references,) = stored(origin, ".refs.json").values()
        assert DELETED not in json.loads(references)["refs"]
