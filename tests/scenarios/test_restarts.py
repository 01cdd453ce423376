"""Restarts: what was validated before is trusted only if nobody has served in between."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from forebay.core.errors import SsdUnusable
from forebay.core.names import ObjectName
from harness.clients import path_of
from harness.fake.actions import HoldRequest
from harness.fake.gate import Gate
from harness.fake_origin import FakeOrigin
from harness.file_limit import file_size_limit
from harness.inspection import cache_status
from harness.rig import Rig
from harness.ssd_rig import locked

OBJECT = path_of("bucket", "key")
KEPT = path_of("bucket", "kept")
CHECKSUM_MODE = (("x-amz-checksum-mode", "ENABLED"),)
IMMUTABLE = '[[rules]]\npath = "**"\nfreshness = "immutable"\n'


def rig_of(origin: FakeOrigin, directory: Path, ssd: str | None = "256MiB") -> Rig:
    return Rig(origin.endpoint, origin.secret, directory, ssd=ssd, rest=IMMUTABLE)


async def write_and_read(rig: Rig, body: bytes) -> None:
    assert (await rig.client().request("PUT", OBJECT, body=body)).status == 200
    assert (await rig.client().request("GET", OBJECT)).body == body


async def ssd_state(rig: Rig) -> str:
    _, tier = (await rig.worker.control.stats()).tiers
    return tier.state


@contextmanager
def full(_: Path) -> Iterator[None]:
    """No file may grow: the same kind of error as a full disk."""
    with file_size_limit(40):
        yield


async def test_a_clean_restart_needs_no_request(tmp_path: Path) -> None:
    async with FakeOrigin() as origin:
        origin.store.create_bucket("bucket")
        async with rig_of(origin, tmp_path) as rig:
            await write_and_read(rig, b"one")
            for _ in range(3):
                await rig.restart()
                assert cache_status(await rig.client().request("GET", OBJECT)) == (200, "hit-ssd")
            assert origin.log.count(operation="GetObject") == 1


async def test_objects_without_checksums_need_no_request(tmp_path: Path) -> None:
    """Of clients that ask for them, as SDKs do by default, with an origin that would not answer."""
    keys = [path_of("bucket", f"key{number}") for number in range(60)]
    async with FakeOrigin() as origin:
        for number in range(60):
            origin.store.put_synthetic("bucket", f"key{number}", 5000)
        async with rig_of(origin, tmp_path) as rig:
            for key in keys:
                assert (await rig.client().request("GET", key, CHECKSUM_MODE)).status == 200
            for _ in range(2):
                await rig.wait_idle()
                await rig.restart()
                origin.log.reset()
                origin.faults.add(HoldRequest(gate := Gate()))
                for key in keys:
                    answer = await rig.client().request("GET", key, CHECKSUM_MODE)
                    assert cache_status(answer) == (200, "hit-ssd")
                assert origin.log.count(operation="HeadObject") + origin.log.count(operation="GetObject") == 0
                origin.faults.clear()
                gate.open()


async def test_an_endpoint_in_another_spelling_needs_no_request(tmp_path: Path) -> None:
    async with FakeOrigin() as origin:
        origin.store.create_bucket("bucket")
        at_localhost = origin.endpoint.replace("127.0.0.1", "localhost")
        for endpoint in (at_localhost, at_localhost.replace("http://localhost", "HTTP://LocalHost") + "/"):
            async with Rig(endpoint, origin.secret, tmp_path, ssd="256MiB", rest=IMMUTABLE) as rig:
                if endpoint == at_localhost:
                    await write_and_read(rig, b"one")
                assert (await rig.client().request("GET", OBJECT)).body == b"one"
        assert origin.log.count(operation="GetObject") == 1


async def test_another_endpoint_of_a_named_origin_is_asked(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Once for each object; so a store that has the name by mistake shows itself."""
    named = 'cache_id = "store"'
    async with FakeOrigin() as origin, FakeOrigin() as mistaken:
        origin.store.put("bucket", "key", b"one")
        mistaken.store.put("bucket", "key", b"two")
        moved = origin.endpoint.replace("127.0.0.1", "localhost")
        for endpoint, body, cache in (
            (origin.endpoint, b"one", "miss"),
            (moved, b"one", "revalidated"),
            (moved, b"one", "hit-ssd"),
            (mistaken.endpoint, b"two", "miss"),
        ):
            async with Rig(endpoint, origin.secret, tmp_path, ssd="256MiB", origin=named, rest=IMMUTABLE) as rig:
                answer = await rig.client().request("GET", OBJECT)
                assert (answer.body, cache_status(answer)) == (body, (200, cache))
        assert caplog.text.count("only origin.cache_id says that") == 2


async def test_the_cache_of_another_origin_is_discarded_aloud(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with FakeOrigin() as first, FakeOrigin() as second:
        second.store.create_bucket("bucket")
        first.store.create_bucket("bucket")
        async with rig_of(first, tmp_path) as rig:
            await write_and_read(rig, b"one")
        async with rig_of(second, tmp_path) as rig:
            assert (await rig.client().request("GET", OBJECT)).status == 404
        logged = f"is discarded: it is of {first.endpoint}, and this Forebay serves {second.endpoint}"
        assert caplog.text.count(logged) == 1


@pytest.mark.parametrize("away", ["not configured", "locked", "full"])
async def test_a_write_of_a_run_without_the_ssd_is_seen(tmp_path: Path, away: str) -> None:
    async with FakeOrigin() as origin:
        origin.store.create_bucket("bucket")
        async with rig_of(origin, tmp_path) as rig:
            await write_and_read(rig, b"one")
        if away == "not configured":
            async with rig_of(origin, tmp_path, ssd=None) as rig:
                await write_and_read(rig, b"two")
        else:
            with {"locked": locked, "full": full}[away](tmp_path / "ssd"):
                rig = rig_of(origin, tmp_path)
                await rig.start()
            assert rig.parts.storage.tiers.ssd is None
            await write_and_read(rig, b"two")
            await rig.stop()
        async with rig_of(origin, tmp_path) as rig:
            answer = await rig.client().request("GET", OBJECT)
            assert (answer.body, cache_status(answer)) == (b"two", (200, "miss"))


async def test_a_directory_in_use_is_attached_once_it_is_free(tmp_path: Path) -> None:
    """A rolling restart that overlaps: the new one begins while the old one serves."""
    async with FakeOrigin() as origin:
        origin.store.create_bucket("bucket")
        origin.store.put("bucket", "kept", b"kept")
        old, new = rig_of(origin, tmp_path), rig_of(origin, tmp_path)
        await old.start()
        await write_and_read(old, b"one")
        await old.client().request("GET", KEPT)
        await new.start()
        assert new.parts.storage.ssd is not None
        await write_and_read(new, b"two")
        assert await ssd_state(new) == "failing"
        await old.stop()
        assert await new.parts.storage.ssd.attempt() is None
        assert await ssd_state(new) == "serving"
        assert cache_status(await new.client().request("GET", OBJECT)) == (200, "hit-memory"), "it costs a hit nothing"
        assert cache_status(await new.client().request("GET", KEPT)) == (200, "revalidated"), "its bytes are there"
        new.parts.storage.tiers.memory.purge("bucket", "")
        answer = await new.client().request("GET", OBJECT)
        assert (answer.body, cache_status(answer)) == (b"two", (200, "miss"))
        await new.parts.storage.tiers.flush()
        new.parts.storage.tiers.memory.purge("bucket", "")
        assert cache_status(await new.client().request("GET", OBJECT)) == (200, "hit-ssd")
        await write_and_read(new, b"three")
        for _ in range(2):
            await new.restart()
            assert (await new.client().request("GET", OBJECT)).body == b"three"
        assert cache_status(await new.client().request("GET", KEPT)) == (200, "revalidated")
        await new.restart()
        assert cache_status(await new.client().request("GET", KEPT)) == (200, "hit-ssd")
        await new.stop()


async def test_a_full_directory_is_attached_once_there_is_space(tmp_path: Path) -> None:
    async with FakeOrigin() as origin:
        origin.store.create_bucket("bucket")
        async with rig_of(origin, tmp_path) as rig:
            await write_and_read(rig, b"one")
        with full(tmp_path):
            rig = rig_of(origin, tmp_path)
            await rig.start()
            assert rig.parts.storage.ssd is not None
            assert isinstance(await rig.parts.storage.ssd.attempt(), SsdUnusable)
        assert await rig.parts.storage.ssd.attempt() is None
        assert cache_status(await rig.client().request("GET", OBJECT)) == (200, "revalidated")
        await rig.stop()


async def test_a_write_under_way_as_the_ssd_is_attached_is_seen(tmp_path: Path) -> None:
    """Its first invalidation did not reach the directory; its second does, and nothing older is trusted."""
    async with FakeOrigin() as origin:
        origin.store.create_bucket("bucket")
        async with rig_of(origin, tmp_path) as rig:
            await write_and_read(rig, b"one")
        with locked(tmp_path / "ssd"):
            rig = rig_of(origin, tmp_path)
            await rig.start()
        gate = Gate()
        origin.faults.add(HoldRequest(gate), key="key", method="PUT")
        async with asyncio.TaskGroup() as group:
            writing = group.create_task(rig.client().request("PUT", OBJECT, body=b"two"))
            await gate.reached()
            assert rig.parts.storage.ssd is not None
            assert await rig.parts.storage.ssd.attempt() is None
            assert (await rig.client().request("GET", OBJECT)).body == b"one", "the origin has not seen it"
            gate.open()
            assert (await writing).status == 200
        assert rig.parts.storage.tiers.head(ObjectName("bucket", "key")) is None
        assert (await rig.client().request("GET", OBJECT)).body == b"two"
        await rig.stop()


async def test_without_a_record_each_head_is_revalidated_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with FakeOrigin() as origin:
        origin.store.create_bucket("bucket")
        async with rig_of(origin, tmp_path) as rig:
            await write_and_read(rig, b"one")
        for record in (tmp_path / "state").glob("run-*"):
            record.unlink()
        async with rig_of(origin, tmp_path) as rig:
            seen = [cache_status(await rig.client().request("GET", OBJECT)) for _ in range(2)]
            assert seen == [(200, "revalidated"), (200, "hit-memory")]
            await rig.restart()
            assert cache_status(await rig.client().request("GET", OBJECT)) == (200, "hit-ssd")
        assert caplog.text.count("every object on the SSD is revalidated once: there was no run record") == 1


async def test_an_unwritable_state_directory_costs_trust_only(tmp_path: Path) -> None:
    async with FakeOrigin() as origin:
        origin.store.create_bucket("bucket")
        (tmp_path / "state").write_text("in the way")
        async with rig_of(origin, tmp_path) as rig:
            await write_and_read(rig, b"one")
            for _ in range(2):
                await rig.restart()
                assert cache_status(await rig.client().request("GET", OBJECT)) == (200, "revalidated")
