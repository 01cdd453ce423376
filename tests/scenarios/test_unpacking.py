"""Members become objects again while clients write and delete: what a client did last is what there is."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from forebay.jobs.packing.shard_writer import PIECE
from forebay.protocol.packs.pack_index import INDEX_SUFFIX
from harness.clients import path_of
from harness.fake.actions import HoldHead, HoldRequest, Respond
from harness.fake.gate import Gate
from harness.fake.s3_request import S3Request
from harness.fake_origin import FakeOrigin
from harness.inspection import cache_status
from harness.oss_origin import OssOrigin
from harness.pack_jobs import body, held_job, rig_of, run_job, stored
from harness.rig import Rig

FIRST, LARGE, LAST = "train/1", "train/2", "train/3"
OBJECTS = {FIRST: b"first" * 1000, LARGE: b"l" * (2 * PIECE + 1), LAST: b"last" * 1000}


@asynccontextmanager
async def packed(directory: Path, kind: str = "s3") -> AsyncIterator[tuple[Rig, FakeOrigin]]:
    """A pack whose originals are gone."""
    settings = {"dialect": "oss"} if kind == "oss" else {}
    async with (OssOrigin if kind == "oss" else FakeOrigin)() as origin, rig_of(origin, directory, **settings) as rig:
        for key, content in OBJECTS.items():
            origin.store.put("bucket", key, content)
        await run_job(rig, shard_size="64MiB")
        for key in OBJECTS:
            origin.store.delete("bucket", key)
        await rig.restart()
        yield rig, origin


def unpacking(
    rig: Rig, origin: FakeOrigin, action: Any, gate: Gate, **request: Any
) -> AbstractAsyncContextManager[None]:
    """Within: a job that writes all members, whose first request of this kind is held. Behind: the job is done."""
    held = origin.faults.add(action(gate), times=1, **request)
    return held_job(rig, origin, gate, held, action="unpack", only="train/")


async def is_deleted(rig: Rig, key: str) -> bool:
    return (await rig.client().request("DELETE", path_of("bucket", key))).status == 204


async def is_written(rig: Rig, key: str) -> bool:
    return (await rig.client().request("PUT", path_of("bucket", key), (), b"mine")).status == 200


async def test_a_member_that_is_deleted_before_its_turn_stays_deleted(tmp_path: Path) -> None:
    async with packed(tmp_path) as (rig, origin):
        async with unpacking(rig, origin, HoldHead, Gate(), method="HEAD", key=FIRST):
            assert await is_deleted(rig, LAST)
        assert (await rig.client().request("GET", path_of("bucket", LAST))).status == 404
        assert {key: await body(rig.client(), key) for key in (FIRST, LARGE)} == {
            key: OBJECTS[key] for key in (FIRST, LARGE)
        }
        assert origin.store.current("bucket", LAST) is None


@pytest.mark.parametrize("key", [FIRST, LARGE])
async def test_a_member_that_is_deleted_while_it_is_read_stays_deleted(tmp_path: Path, key: str) -> None:
    async with packed(tmp_path) as (rig, origin):
        (shard,) = stored(origin, ".tar")
        skip = [FIRST, LARGE].index(key)
        async with unpacking(rig, origin, HoldHead, Gate(), method="GET", key=shard, skip=skip):
            assert await is_deleted(rig, key)
        assert (await rig.client().request("GET", path_of("bucket", key))).status == 404
        assert origin.store.current("bucket", key) is None
        assert await body(rig.client(), LAST) == OBJECTS[LAST]


@pytest.mark.parametrize("key", [FIRST, LARGE])
async def test_an_object_that_is_written_while_its_member_is_read_stays(tmp_path: Path, key: str) -> None:
    async with packed(tmp_path) as (rig, origin):
        (shard,) = stored(origin, ".tar")
        skip = [FIRST, LARGE].index(key)
        async with unpacking(rig, origin, HoldHead, Gate(), method="GET", key=shard, skip=skip):
            assert await is_written(rig, key)
        assert await body(rig.client(), key) == b"mine"
        assert await body(rig.client(), LAST) == OBJECTS[LAST]


async def test_an_object_that_is_written_during_the_upload_stays(tmp_path: Path) -> None:
    async with packed(tmp_path) as (rig, origin):
        async with unpacking(rig, origin, HoldRequest, Gate(), operation="UploadPart", key=LARGE):
            assert await is_written(rig, LARGE)
        assert await body(rig.client(), LARGE) == b"mine"
        assert await body(rig.client(), LAST) == OBJECTS[LAST]
        assert not origin.store.buckets["bucket"].uploads


STEPS = pytest.mark.parametrize(("operation", "key"), [("PutObject", FIRST), ("CompleteMultipartUpload", LARGE)])


def content(origin: FakeOrigin, key: str) -> bytes:
    return stored(origin, key)[key]


@STEPS
@pytest.mark.parametrize("kind", ["s3", "oss"])
async def test_an_object_written_during_the_visible_step_stays(
    tmp_path: Path, operation: str, key: str, kind: str
) -> None:
    """Around this node, too."""
    async with packed(tmp_path, kind) as (rig, origin):
        async with unpacking(rig, origin, HoldRequest, Gate(), operation=operation, key=key):
            origin.store.put("bucket", key, b"mine")
        assert content(origin, key) == b"mine"
        assert content(origin, LAST) == OBJECTS[LAST]
        assert not origin.store.buckets["bucket"].uploads


@STEPS
async def test_a_delete_during_the_visible_step_is_to_be_repeated(tmp_path: Path, operation: str, key: str) -> None:
    """As docs/cli/packing.md says: the origin can't know."""
    async with packed(tmp_path) as (rig, origin):
        async with unpacking(rig, origin, HoldRequest, Gate(), operation=operation, key=key):
            assert await is_deleted(rig, key)
        assert await body(rig.client(), key) == OBJECTS[key]
        assert await is_deleted(rig, key)
        await rig.restart()
        assert (await rig.client().request("GET", path_of("bucket", key))).status == 404
        assert origin.store.current("bucket", key) is None


async def test_an_object_is_shown_though_a_view_is_younger(tmp_path: Path) -> None:
    """One that is taken within the visible step knows of no object, and would show the member's ETag until the job
    ends."""
    async with packed(tmp_path) as (rig, origin):
        client, path, first, last = rig.client(), path_of("bucket", LARGE), Gate(), Gate()
        async with unpacking(rig, origin, HoldRequest, first, operation="CompleteMultipartUpload", key=LARGE):
            rig.advance_clock(601)
            member = await client.request("HEAD", path)
            origin.faults.add(HoldRequest(last), operation="PutObject", key=LAST, times=1)
            first.open()
            await last.reached()
            shown, written = await client.request("HEAD", path), origin.store.get("bucket", LARGE).etag
            last.open()
        assert shown.headers["ETag"] == written != member.headers["ETag"]


async def test_an_origin_without_conditions_gets_members(tmp_path: Path) -> None:
    def demands_absence(asked: S3Request) -> bool:
        return "If-None-Match" in asked.headers and asked.method in {"PUT", "POST"}

    async with packed(tmp_path) as (rig, origin):
        refused = origin.faults.add(Respond(501, "NotImplemented"), where=demands_absence)
        assert (await run_job(rig, action="unpack", only="train/"))["done"] == len(OBJECTS)
        assert {key: content(origin, key) for key in OBJECTS} == OBJECTS
        assert refused.applied == 2, "each operation is tried once"


@pytest.mark.parametrize("key", [FIRST, LARGE])
async def test_a_damaged_member_becomes_no_object(tmp_path: Path, key: str) -> None:
    async with packed(tmp_path) as (rig, origin):
        ((shard, written),) = stored(origin, ".tar").items()
        damaged = bytearray(written)
        damaged[written.index(OBJECTS[key])] ^= 1
        etag = origin.store.get("bucket", shard).etag
        origin.store.put("bucket", shard, bytes(damaged), etag=etag)
        job = await run_job(rig, "failed", action="unpack", only="train/")
        failures = [(each["key"], each["reason"]) for each in job["failures"]]
        assert failures == [(key, "its bytes do not match its digest")]
        assert origin.store.current("bucket", key) is None
        assert content(origin, LAST) == OBJECTS[LAST]
        assert not origin.store.buckets["bucket"].uploads


@pytest.mark.parametrize(
    ("operation", "reason"),
    [("GetObject", "can't be read"), ("PutObject", "is not the one that the index names")],
    ids=["refused", "replaced"],
)
async def test_a_shard_that_is_not_the_one_becomes_no_object(tmp_path: Path, operation: str, reason: str) -> None:
    async with packed(tmp_path) as (rig, origin):
        ((shard, written),) = stored(origin, ".tar").items()
        if operation == "PutObject":
            origin.store.put("bucket", shard, written)
        else:
            origin.faults.add(Respond(403, "AccessDenied"), method="GET", key=shard)
        job = await run_job(rig, "failed", action="unpack", only="train/")
        assert [each["key"] for each in job["failures"]] == list(OBJECTS)
        assert all(reason in each["reason"] for each in job["failures"])
        assert [origin.store.current("bucket", key) for key in OBJECTS] == [None] * len(OBJECTS)


async def test_a_key_that_the_origin_does_not_show_is_not_free(tmp_path: Path) -> None:
    async with packed(tmp_path) as (rig, origin):
        origin.faults.add(Respond(403, "AccessDenied"), method="HEAD", key=FIRST)
        job = await run_job(rig, "failed", action="unpack", only="train/")
        failures = [(each["key"], each["reason"]) for each in job["failures"]]
        assert failures == [(FIRST, "it is not known whether there is an object")]
        assert origin.store.current("bucket", FIRST) is None


async def test_an_object_written_before_the_step_without_conditions_stays(tmp_path: Path) -> None:
    """Around this node, while the origin refuses the step with a condition."""
    async with packed(tmp_path) as (rig, origin):

        def writes(asked: S3Request) -> bool:
            if "If-None-Match" not in asked.headers or asked.key not in OBJECTS:
                return False
            origin.store.put("bucket", asked.key, b"mine")
            return True

        origin.faults.add(Respond(501, "NotImplemented"), where=writes)
        await run_job(rig, action="unpack", only="train/")
        assert {key: content(origin, key) for key in OBJECTS} == dict.fromkeys(OBJECTS, b"mine")
        assert not origin.store.buckets["bucket"].uploads


async def test_an_index_is_forgotten_before_another_takes_its_name(tmp_path: Path) -> None:
    """A process that is killed between the two has nothing of the old one."""
    async with packed(tmp_path) as (rig, origin):
        (index,) = stored(origin, INDEX_SUFFIX)
        path, client = path_of("bucket", index), rig.client()
        before = [cache_status(await client.request("GET", path))[1] for _ in range(2)]
        async with unpacking(rig, origin, HoldRequest, Gate(), operation="CompleteMultipartUpload", key=index):
            during = [cache_status(await client.request("GET", path))[1]]
        assert (before, during) == (["miss", "hit-memory"], ["miss"])
        assert stored(origin, INDEX_SUFFIX)[index] == (await client.request("GET", path)).body


@STEPS
async def test_a_conflict_without_an_object_is_a_failure(tmp_path: Path, operation: str, key: str) -> None:
    async with packed(tmp_path) as (rig, origin):
        origin.faults.add(Respond(409, "ConditionalRequestConflict"), operation=operation, key=key, times=1)
        job = await run_job(rig, "failed", action="unpack", only="train/")
        assert [each["key"] for each in job["failures"]] == [key]
        assert "ConditionalRequestConflict" in job["failures"][0]["reason"]
        assert await body(rig.client(), key) == OBJECTS[key], "it is still a member"
