"""Pack jobs: objects become members, verified, in one step for readers; and objects again."""

import io
import json
import tarfile
from dataclasses import replace
from pathlib import Path

import aiohttp
import fsspec
import pytest

from forebay.jobs.packing.packed_shards import BROKEN_SHARDS
from harness.clients import path_of
from harness.conformance import texts
from harness.fake.actions import HoldHead, Respond, Rewrite
from harness.fake.gate import Gate
from harness.fake.response_bytes import ResponseBytes
from harness.fake_origin import FakeOrigin
from harness.oss_origin import OssOrigin
from harness.pack_jobs import OBJECTS, RULE, body, fill, rig_of, run_job, stored
from harness.rig import Rig


async def test_objects_become_members(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, rig_of(origin, tmp_path) as rig:
        fill(origin)
        before = {key: await rig.client().request("HEAD", path_of("bucket", key)) for key in OBJECTS}
        job = await run_job(rig)
        assert (job["action"], job["done"], job["bytes_done"]) == (
            "pack",
            len(OBJECTS),
            sum(map(len, OBJECTS.values())),
        )
        for key in OBJECTS:
            origin.store.delete("bucket", key)
        await rig.restart()
        for key, content in OBJECTS.items():
            answer = await rig.client().request("GET", path_of("bucket", key))
            assert answer.body == content
            for header in ("ETag", "Last-Modified", "Content-Type", "x-amz-meta-label"):
                assert answer.headers[header] == before[key].headers[header]
        listed = await rig.client().request("GET", "/bucket?list-type=2&prefix=train%2F")
        assert texts(listed, "Contents/Key") == sorted(OBJECTS)
        shards = stored(origin, ".tar")
        assert len(shards) == 2
        found: dict[str, bytes] = {}
        for content in shards.values():
            with tarfile.open(fileobj=io.BytesIO(content)) as archive:
                names = [member.name for member in archive]
                assert len(names) % 2 == 0, "a sample is not divided"
                found |= {member.name: archive.extractfile(member).read() for member in archive}  # type: ignore[union-attr] # a file
        assert found == OBJECTS
        assert not stored(origin, ".part")


async def test_a_pack_that_no_rule_reads_is_warned_of(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, rig_of(origin, tmp_path) as rig:
        fill(origin)
        assert (await run_job(rig))["warning"] is None
        warning = (await run_job(rig, into="packs/"))["warning"]
        assert "matches packs/train/index.fbpack, in a rule for s3://bucket/train/" in warning
        assert (await run_job(rig, into="packs/", action="check"))["warning"] is None


async def test_references_are_read_by_fsspec(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, rig_of(origin, tmp_path) as rig:
        fill(origin)
        await run_job(rig)
        (references,) = stored(origin, ".refs.json").values()
        for key, content in stored(origin, ".tar").items():
            (tmp_path / "bucket" / key).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / "bucket" / key).write_bytes(content)
        document = json.loads(references.decode().replace("s3://bucket/", f"{tmp_path}/bucket/"))
        files = fsspec.filesystem("reference", fo=document, remote_protocol="file")
        assert sorted(files.find("train")) == sorted(OBJECTS)
        assert {key: files.cat(key) for key in OBJECTS} == OBJECTS
        assert files.cat_file("train/007/a.jpg", start=3, end=9) == OBJECTS["train/007/a.jpg"][3:9]


async def test_packing_again_adds_and_replaces(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, rig_of(origin, tmp_path) as rig:
        fill(origin)
        await run_job(rig)
        shards = stored(origin, ".tar").keys()
        assert (await run_job(rig))["done"] == 0
        assert stored(origin, ".tar").keys() == shards
        origin.store.put("bucket", "train/001/a.jpg", b"replaced")
        origin.store.put("bucket", "train/new", b"new")
        origin.store.delete("bucket", "train/002/a.jpg")
        assert (await run_job(rig))["done"] == 2
        for key in (*OBJECTS, "train/new"):
            origin.store.delete("bucket", key)
        await rig.restart()
        assert await body(rig.client(), "train/001/a.jpg") == b"replaced"
        assert await body(rig.client(), "train/new") == b"new"
        assert await body(rig.client(), "train/002/a.jpg") == OBJECTS["train/002/a.jpg"], "its member is still there"
        assert (await run_job(rig, action="check"))["done"] == len(OBJECTS) + 1


async def test_packing_again_leaves_deleted_members_out(tmp_path: Path) -> None:
    deleted, again, kept = "train/001/a.jpg", "train/002/a.jpg", "train/003/a.jpg"
    async with FakeOrigin() as origin, rig_of(origin, tmp_path) as rig:
        fill(origin)
        await run_job(rig)
        for key in OBJECTS:
            origin.store.delete("bucket", key)
        await rig.restart()
        for key in (deleted, again):
            assert (await rig.client().request("DELETE", path_of("bucket", key))).status == 204
        assert (await rig.client().request("PUT", path_of("bucket", again), (), OBJECTS[again])).status == 200
        assert (await run_job(rig))["done"] == 1, "the object that was written since"
        origin.store.delete("bucket", again)
        await rig.restart()
        assert not [
            key
            for key in origin.store.bucket("bucket").keys_from("packed/train/index.deleted/")
            if ".deleted/" in key and origin.store.current("bucket", key)
        ]
        (references,) = stored(origin, ".refs.json").values()
        assert json.loads(references)["refs"].keys() == OBJECTS.keys() - {deleted}
        assert (await rig.client().request("GET", path_of("bucket", deleted))).status == 404
        assert [await body(rig.client(), key) for key in (again, kept)] == [OBJECTS[again], OBJECTS[kept]]


async def test_unpacking_brings_no_deleted_member_back(tmp_path: Path) -> None:
    deleted = "train/001/a.jpg"
    async with FakeOrigin() as origin, rig_of(origin, tmp_path) as rig:
        fill(origin)
        await run_job(rig)
        assert (await rig.client().request("DELETE", path_of("bucket", deleted))).status == 204
        for key in OBJECTS:
            origin.store.delete("bucket", key)
        assert (await run_job(rig, action="unpack", only="train/"))["done"] == len(OBJECTS) - 1
        assert origin.store.current("bucket", deleted) is None


async def test_members_are_taken_out_and_become_objects(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, rig_of(origin, tmp_path) as rig:
        fill(origin)
        await run_job(rig)
        for key in OBJECTS:
            origin.store.delete("bucket", key)
        await rig.restart()
        assert (await run_job(rig, action="delete", only="train/001/"))["done"] == 2
        assert (await rig.client().request("GET", path_of("bucket", "train/001/a.jpg"))).status == 404
        origin.store.put("bucket", "train/002/a.jpg", b"real")
        assert (await run_job(rig, action="unpack", only="train/002/"))["state"] == "done"
        assert stored(origin, "002/a.cls") == {"train/002/a.cls": OBJECTS["train/002/a.cls"]}
        assert origin.store.current("bucket", "train/003/a.cls") is None, "nobody has asked for it"
        assert await body(rig.client(), "train/002/a.jpg") == b"real"
        unpacked = await rig.client().request("GET", path_of("bucket", "train/002/a.cls"))
        assert (unpacked.headers["Content-Type"], unpacked.headers["x-amz-meta-label"]) == ("image/jpeg", "cat")
        assert await body(rig.client(), "train/003/a.cls") == OBJECTS["train/003/a.cls"]
        assert (await run_job(rig, action="check"))["done"] == len(OBJECTS) - 4
        assert (await rig.client().request("DELETE", path_of("bucket", "train/002/a.jpg"))).status == 204


async def test_a_check_finds_damage(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, rig_of(origin, tmp_path) as rig:
        fill(origin)
        await run_job(rig)
        key, content = next(iter(stored(origin, "0.tar").items()))
        damaged = bytearray(content)
        damaged[content.index(OBJECTS["train/007/a.jpg"])] ^= 1
        etag = origin.store.buckets["bucket"].versions[key][-1].etag
        origin.store.put("bucket", key, bytes(damaged), etag=etag)
        job = await run_job(rig, "failed", action="check")
        assert job["done"] == len(OBJECTS) - 1
        assert [each["reason"] for each in job["failures"]] == ["its bytes do not match its digest"]
        origin.store.put("bucket", key, content)
        job = await run_job(rig, "failed", action="check")
        assert job["failed"] > 10, "the shard is another version"


async def test_what_the_origin_refuses_stays_an_object(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, rig_of(origin, tmp_path) as rig:
        fill(origin)
        origin.faults.add(Respond(403, "AccessDenied"), method="GET", key="train/005/a.jpg")
        job = await run_job(rig, "failed")
        assert (job["done"], job["failed"], job["reason"]) == (len(OBJECTS) - 1, 1, None)
        assert job["failures"][0]["key"] == "train/005/a.jpg"
        assert (await run_job(rig, action="check"))["done"] == len(OBJECTS) - 1


async def test_nothing_to_pack_is_said(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, rig_of(origin, tmp_path) as rig:
        origin.store.create_bucket("bucket")
        assert (await run_job(rig, "failed"))["reason"] == "there is no object to pack"
        assert "there is no pack" in (await run_job(rig, "failed", action="check"))["reason"]


@pytest.mark.parametrize(
    "fields", [{"into": ""}, {"prefix": "packed/x"}, {"action": "delete"}, {"only": "other/"}, {"shard_size": "1"}]
)
async def test_impossible_orders_are_refused(tmp_path: Path, fields: dict[str, str]) -> None:
    async with FakeOrigin() as origin, rig_of(origin, tmp_path) as rig, aiohttp.ClientSession() as session:
        order = {"bucket": "bucket", "prefix": "train/"} | fields
        async with session.post(f"{rig.admin}/v1/packs", json=order) as answer:
            assert answer.status == 400


async def test_a_listing_that_breaks_off_packs_nothing(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, rig_of(origin, tmp_path) as rig:
        fill(origin)
        gone = origin.faults.add(Respond(403, "AccessDenied"), operation="ListObjectsV2")
        assert "the listing broke off" in (await run_job(rig, "failed"))["reason"]
        assert not stored(origin, ".fbpack")
        origin.faults.remove(gone)
        assert (await run_job(rig))["done"] == len(OBJECTS)


async def test_a_pack_of_a_bucket_has_no_pack_in_it(tmp_path: Path) -> None:
    rules = RULE.replace("bucket/train/**", "bucket/**")
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, rest=rules) as rig:
        fill(origin)
        for done in (len(OBJECTS), 0):
            assert (await run_job(rig, prefix=""))["done"] == done


async def test_a_shard_that_differs_is_written_again_twice(tmp_path: Path) -> None:
    def damaged(response: ResponseBytes) -> ResponseBytes:
        return replace(response, body=bytes(len(response.body)))

    async with FakeOrigin() as origin, rig_of(origin, tmp_path) as rig:
        fill(origin, {"train/1": b"content"})
        spoilt = origin.faults.add(
            Rewrite(damaged), method="GET", where=lambda asked: (asked.key or "").endswith(".tar")
        )
        assert "are not those that were read" in (await run_job(rig, "failed"))["reason"]
        assert spoilt.applied == BROKEN_SHARDS
        assert not stored(origin, ".fbpack")


async def test_a_shard_that_breaks_off_leaves_no_upload(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, rig_of(origin, tmp_path) as rig:
        fill(origin, {"train/1": b"content"})
        refused = origin.faults.add(Respond(403, "AccessDenied"), operation="UploadPart")
        assert "AccessDenied to UploadPart" in (await run_job(rig, "failed"))["reason"]
        assert (refused.applied, origin.store.buckets["bucket"].uploads) == (BROKEN_SHARDS, {})


async def test_an_oss_origin_has_packs(tmp_path: Path) -> None:
    async with OssOrigin() as origin, rig_of(origin, tmp_path, dialect="oss") as rig:
        fill(origin)
        await run_job(rig)
        for key in OBJECTS:
            origin.store.delete("bucket", key)
        await rig.restart()
        assert {key: await body(rig.client(), key) for key in OBJECTS} == OBJECTS


def first_behind(size: int) -> str:
    """The first key that is not in the first shard of so many bytes."""
    filled = 0
    for key in sorted(OBJECTS):
        if filled >= size and key.endswith("cls"):
            return key
        filled += 512 + -(-len(OBJECTS[key]) // 512) * 512
    raise AssertionError("one shard has them all")


async def test_a_job_goes_on_behind_its_last_shard(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, rig_of(origin, tmp_path) as rig:
        fill(origin)
        gate = Gate()
        origin.faults.add(HoldHead(gate), method="GET", key="train/039/a.jpg")
        order = {"bucket": "bucket", "prefix": "train/", "shard_size": "1MiB"}
        async with aiohttp.ClientSession() as session, session.post(f"{rig.admin}/v1/packs", json=order) as answer:
            job = (await answer.json())["id"]
        # It is read once to learn that the first shard is full, and again for the second, after that was recorded.
        await origin.log.wait_for(2, "GET", key=first_behind(1 << 20))
        await rig.stop()
        assert not stored(origin, ".fbpack")
        reads, held = origin.log.count(method="GET", key="train/001/a.jpg"), gate.arrived
        await rig.start()
        await gate.reached(held + 1)
        gate.open()
        await rig.parts.jobs.warm_ups.wait(job)
        found = rig.parts.jobs.warm_ups.job(job)
        assert found is not None
        assert (found.state, found.done, found.resumed) == ("done", len(OBJECTS), 1)
        assert origin.log.count(method="GET", key="train/001/a.jpg") == reads
        assert (await run_job(rig, action="check"))["done"] == len(OBJECTS)
