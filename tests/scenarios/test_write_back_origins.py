"""A write is never carried to another origin than the one that it was accepted for."""

import asyncio
import os
from pathlib import Path

import pytest

from harness.clients import path_of
from harness.fake.actions import HoldRequest, Respond
from harness.fake.gate import Gate
from harness.fake_origin import FakeOrigin
from harness.write_back_rig import WriteBackRig, at_origin

PART = 300_000
OTHER = (
    '[[origins]]\nname = "new"\nbuckets = ["elsewhere"]\ndialect = "swift"\nregion = "{region}"\n'
    'endpoint = "{endpoint}"\naccess_key = "{access}"\nsecret_key = "{secret}"\n\n'
)


def _other(origin: FakeOrigin) -> str:
    """The configuration by which an origin has the bucket `elsewhere`."""
    secret = origin.secret
    return OTHER.format(region=secret.region, endpoint=origin.endpoint, access=secret.access, secret=secret.secret)


async def _accept(rig: WriteBackRig, origin: FakeOrigin) -> None:
    await rig.prove()
    origin.faults.add(Respond(503, "SlowDown"))
    await rig.put("a/small", b"small")
    await rig.put("a/large", os.urandom(PART))
    assert (await rig.client().request("DELETE", path_of("ckpt", "a/old"))).status == 204


async def _is_untouched(rig: WriteBackRig, origin: FakeOrigin, reason: str) -> None:
    """Readers see the bucket as its origin has it, and the journal keeps everything."""
    for key, status in (("a/small", 404), ("a/large", 404), ("a/old", 200)):
        assert (await rig.client().request("GET", path_of("ckpt", key))).status == status
    assert (await rig.client().request("GET", "/ckpt?list-type=2")).status == 200
    entries = list(rig.write_back.drainer.entries.values())
    assert sorted(entry.write.name.key for entry in entries) == ["a/large", "a/old", "a/small"]
    assert all(entry.is_stuck and reason in entry.reason for entry in entries), entries
    for record in list(rig.write_back.drainer.entries):
        rig.write_back.drainer.retry(record)
    assert (rig.write_back.backlog.writes, rig.write_back.backlog.stuck) == (3, 3)
    assert await rig.flush("ckpt", "a/") == 3
    await rig.wait_idle()
    assert {request.method for request in origin.log.requests} <= {"GET", "HEAD"}


async def test_a_new_endpoint_gets_nothing_of_the_old_ones(tmp_path: Path) -> None:
    async with FakeOrigin() as old, FakeOrigin() as new, WriteBackRig(old, tmp_path) as rig:
        await _accept(rig, old)
        large = (await rig.client().request("GET", path_of("ckpt", "a/large"))).body
        new.store.put("ckpt", "a/old", b"another object")
        there = rig.configuration
        rig.configuration = there.replace(old.endpoint, new.endpoint)
        await rig.restart()
        await _is_untouched(rig, new, f"accepted for the origin default at {old.endpoint}, which is not configured")
        # Other writes of the bucket are not held up.
        assert (await rig.client().request("PUT", path_of("ckpt", "a/proof"))).status == 200
        await rig.put("a/later", b"later")
        await rig.settled()
        assert at_origin(new, "a/later") == b"later"
        await rig.stop()
        rig.configuration = there
        old.faults.clear()
        await rig.start()
        await rig.settled()
        assert (at_origin(old, "a/small"), at_origin(old, "a/large")) == (b"small", large)
        assert at_origin(old, "a/later") is None
        assert list((rig.journal / "bodies").iterdir()) == []


async def test_a_bucket_that_moved_gets_nothing_of_its_old_origins(tmp_path: Path) -> None:
    async with FakeOrigin() as old, FakeOrigin() as new, WriteBackRig(old, tmp_path, rest=_other(new)) as rig:
        await _accept(rig, old)
        new.store.put("ckpt", "a/old", b"another object")
        rig.configuration = rig.configuration.replace('buckets = ["elsewhere"]', 'buckets = ["ckpt"]')
        await rig.restart()
        await _is_untouched(rig, new, "which has the bucket no longer")


async def test_an_endpoint_that_moved_keeps_its_writes_by_its_cache_id(tmp_path: Path) -> None:
    old, new = FakeOrigin(), FakeOrigin()
    async with old, new, WriteBackRig(old, tmp_path, origin='cache_id = "far"') as rig:
        await _accept(rig, old)
        new.store = old.store
        rig.configuration = rig.configuration.replace(old.endpoint, new.endpoint)
        await rig.restart()
        await rig.settled()
        assert at_origin(new, "a/small") == b"small"


async def test_an_upload_of_another_origin_is_not_gone_on_with(tmp_path: Path) -> None:
    async with FakeOrigin() as old, FakeOrigin() as new, WriteBackRig(old, tmp_path) as rig:
        await rig.prove()
        created = await rig.client().request("POST", path_of("ckpt", "a/file") + "?uploads")
        upload = created.body.partition(b"<UploadId>")[2].partition(b"<")[0].decode()
        part = path_of("ckpt", "a/file") + f"?partNumber=1&uploadId={upload}"
        assert (await rig.client().request("PUT", part, (), os.urandom(PART))).status == 200
        new.store.create_bucket("ckpt")
        there = rig.configuration
        rig.configuration = there.replace(old.endpoint, new.endpoint)
        await rig.restart()
        refused = await rig.client().request("PUT", part, (), b"x")
        assert (refused.status, b"NoSuchUpload" in refused.body) == (404, True)
        rig.configuration = there
        await rig.restart()
        assert (await rig.client().request("PUT", part, (), b"x")).status == 200


@pytest.mark.parametrize("operation", ["CopyObject", "UploadPartCopy"])
async def test_a_copy_to_another_origin_is_refused_at_once(tmp_path: Path, operation: str) -> None:
    """Its source is pending: when that has arrived, the copy would be refused all the same."""
    async with FakeOrigin() as old, FakeOrigin() as new, WriteBackRig(old, tmp_path, rest=_other(new)) as rig:
        await rig.prove()
        new.store.create_bucket("elsewhere")
        old.faults.add(HoldRequest(gate := Gate()), method="PUT", key="a/source")
        await rig.put("a/source", b"pending")
        await gate.reached()
        query = "?partNumber=1&uploadId=any" if operation == "UploadPartCopy" else ""
        pairs = [("x-amz-copy-source", "/ckpt/a/source")]
        async with asyncio.timeout(10):
            answer = await rig.client().request("PUT", path_of("elsewhere", "copy") + query, pairs)
        assert (answer.status, b"<Code>NotImplemented<" in answer.body) == (501, True)
        assert at_origin(old, "a/source") is None
        gate.open()
        await rig.settled()
        assert new.log.count("PUT", operation) == 0
