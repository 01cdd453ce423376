"""Warm-ups list what readers see: members of packs, and nothing that a pending write has deleted."""

from pathlib import Path
from typing import Any

from forebay.jobs.state.warm_up_job import WarmUpJob
from harness.clients import path_of
from harness.fake.actions import HoldRequest
from harness.fake.gate import Gate
from harness.fake_origin import FakeOrigin
from harness.packed_objects import shard_and_index
from harness.rig import Rig
from harness.warm_orders import start_job
from harness.write_back_rig import WriteBackRig

RULE = '[[rules]]\npath = "bucket/train/**"\npacked = "packed/**"\nfreshness = "60s"\n'
MEMBERS = {f"train/{number:04}.jpg": bytes([number % 251]) * (1000 + number) for number in range(1200)}


async def warm(rig: Rig, bucket: str, prefix: str, **order: Any) -> WarmUpJob:
    job = await start_job(rig.parts.jobs.warm_ups, bucket, prefix=prefix, **order)
    await rig.parts.jobs.warm_ups.wait(job.id)
    return job


def put_pack(origin: FakeOrigin) -> None:
    shard, index = shard_and_index(MEMBERS, shard_key="packed/train-0.tar", prefix="train/")
    origin.store.put("bucket", "packed/train-0.tar", shard)
    origin.store.put("bucket", "packed/train.fbpack", index)


async def test_members_are_warmed_and_counted(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, rest=RULE) as rig:
        put_pack(origin)
        origin.store.put("bucket", "train/loose.jpg", b"loose")
        origin.store.put("bucket", "train/0007.jpg", b"the object wins")
        size = (
            sum(map(len, MEMBERS.values())) - len(MEMBERS["train/0007.jpg"]) + len(b"the object wins") + len(b"loose")
        )
        before = await warm(rig, "bucket", "train/", check=True)
        assert (before.listed, before.kept) == (1201, 0)
        job = await warm(rig, "bucket", "train/")
        assert (job.state, job.listed, job.done, job.failed, job.kept) == ("done", 1201, 1201, 0, 1201)
        assert (job.bytes_listed, job.bytes_done, job.bytes_kept, job.not_kept) == (size, size, size, None)
        gets = origin.log.count(operation="GetObject")
        for key in ("train/0000.jpg", "train/1199.jpg", "train/loose.jpg"):
            answer = await rig.client().request("GET", path_of("bucket", key))
            assert (answer.status, answer.headers["x-forebay-cache"]) == (200, "hit-memory")
        assert origin.log.count(operation="GetObject") == gets


async def test_a_pack_that_is_damaged_fails_the_listing(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, rest=RULE) as rig:
        put_pack(origin)
        origin.store.put("bucket", "packed/train.fbpack", b"no index")
        job = await warm(rig, "bucket", "train/")
        assert (job.state, job.listed) == ("failed", 0)
        assert job.reason is not None
        assert job.reason.startswith("no listing: ")


async def test_what_is_deleted_and_pending_is_left_out(tmp_path: Path) -> None:
    key = "a/deleted"
    async with FakeOrigin() as origin, WriteBackRig(origin, tmp_path) as rig:
        await rig.prove()
        for each in (key, "a/kept"):
            origin.store.put("ckpt", each, b"content")
        origin.faults.add(HoldRequest(gate := Gate()), method="DELETE", key=key)
        assert (await rig.client().request("DELETE", path_of("ckpt", key))).headers["x-forebay-durable"] == "local"
        await gate.reached()
        job = await warm(rig, "ckpt", "a/")
        listed = [each for each in ("a/kept", "a/proof") if origin.store.current("ckpt", each) is not None]
        assert (job.state, job.listed, job.failed, job.kept) == ("done", len(listed), 0, len(listed))
        gate.open()
