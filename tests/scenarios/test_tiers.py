"""The tiers, end to end: which tier answers a read, what survives a restart, and that a broken tier is only a miss."""

import resource
import shutil
from pathlib import Path

import aiohttp
import pytest

from forebay.core.byte_ranges import Span
from forebay.core.names import ObjectName
from harness.clients import path_of
from harness.fake_origin import FakeOrigin
from harness.inspection import cache_status, metric_value
from harness.rig import Rig

MIB = 1 << 20
SMALL = 48 << 10
OBJECT = path_of("bucket", "key")
LARGE = {"ssd": "256MiB", "rest": '[[rules]]\npath = "**"\nfreshness = "immutable"\n'}


def segments(rig: Rig) -> list[Path]:
    return sorted(
        path for path in (rig.directory / "ssd").rglob("*") if path.is_file() and "segment" in str(path.parent)
    )


async def test_read_blocks_are_on_the_ssd_after_a_restart(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, **LARGE) as rig:
        content = origin.store.put_synthetic("bucket", "key", 4 * MIB + 5, x_amz_meta_colour="blue")
        await rig.client().request("GET", OBJECT)
        asked = origin.log.count(key="key")
        await rig.restart()
        for cache in ("hit-ssd", "hit-memory"):
            answer = await rig.client().request("GET", OBJECT)
            assert (cache_status(answer), answer.headers["x-amz-meta-colour"]) == ((200, cache), "blue")
            assert answer.body == content.expected(Span(0, 4 * MIB + 5))
        assert origin.log.count(key="key") == asked
        assert await metric_value(rig, 'forebay_sent_bytes_total{source="ssd"}') == 4 * MIB + 5


async def test_a_range_comes_from_the_ssd_without_its_block(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, **LARGE) as rig:
        content = origin.store.put_synthetic("bucket", "key", 2 * MIB)
        await rig.client().request("GET", OBJECT)
        await rig.restart()
        for start in (0, 5000, MIB - 10, 2 * MIB - 20):
            answer = await rig.client().request("GET", OBJECT, [("Range", f"bytes={start}-{start + 19}")])
            assert (cache_status(answer), answer.body) == ((206, "hit-ssd"), content.expected(Span(start, start + 20)))
        assert rig.parts.storage.tiers.memory.occupancy().blocks == 0
        assert origin.log.count(key="key") == 1


async def test_evicted_blocks_are_promoted_from_the_ssd(tmp_path: Path) -> None:
    async with (
        FakeOrigin() as origin,
        Rig(origin.endpoint, origin.secret, tmp_path, memory="80KiB", ssd=LARGE["ssd"]) as rig,
    ):
        for key in ("a", "b"):
            origin.store.put("bucket", key, key.encode() * SMALL)
            await rig.client().request("GET", path_of("bucket", key))
        await rig.parts.storage.tiers.flush()
        for cache in ("hit-ssd", "hit-ssd", "hit-memory"):  # the second one says that it is worth a place
            answer = await rig.client().request("GET", path_of("bucket", "a"))
            assert (cache_status(answer), answer.body) == ((200, cache), b"a" * SMALL)
        assert cache_status(await rig.client().request("GET", path_of("bucket", "b"))) == (200, "hit-ssd")
        assert origin.log.count("GET", key="a") == origin.log.count("GET", key="b") == 1
        assert await metric_value(rig, 'forebay_tier_evicted_blocks_total{reason="capacity",tier="memory"}') >= 2


async def test_sendfile_from_the_ssd_evicts_nothing_from_memory(tmp_path: Path) -> None:
    async with (
        FakeOrigin() as origin,
        Rig(origin.endpoint, origin.secret, tmp_path, memory="1536KiB", ssd=LARGE["ssd"]) as rig,
    ):
        for key in ("a", "b"):
            origin.store.put("bucket", key, key.encode() * MIB)
            await rig.client().request("GET", path_of("bucket", key))
        await rig.parts.storage.tiers.flush()
        for key, cache in ("a", "hit-ssd"), ("a", "hit-ssd"), ("a", "hit-ssd"), ("b", "hit-memory"):
            answer = await rig.client().request("GET", path_of("bucket", key))
            assert (cache_status(answer), answer.body) == ((200, cache), key.encode() * MIB)
        await rig.parts.storage.tiers.forget(ObjectName("bucket", "b"))
        # There is room now: the page cache may lose it, memory does not.
        for cache in ("hit-ssd", "hit-memory"):
            assert cache_status(await rig.client().request("GET", path_of("bucket", "a"))) == (200, cache)


async def test_without_memory_each_read_comes_from_the_ssd(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, memory="0", **LARGE) as rig:
        content = origin.store.put_synthetic("bucket", "key", 3 * MIB)
        for cache in ("miss", "hit-ssd", "hit-ssd"):
            answer = await rig.client().request("GET", OBJECT)
            assert (cache_status(answer), answer.body) == ((200, cache), content.expected(Span(0, 3 * MIB)))
            await rig.parts.storage.tiers.flush()
        assert origin.log.count(key="key") == 1


async def test_without_any_tier_each_read_is_one_read_of_the_origin(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, memory="0") as rig:
        content = origin.store.put_synthetic("bucket", "key", 3 * MIB)
        for number in (1, 2):
            answer = await rig.client().request("GET", OBJECT)
            assert (cache_status(answer), answer.body) == ((200, "miss"), content.expected(Span(0, 3 * MIB)))
            assert origin.log.count(key="key") == number
        assert rig.parts.storage.tiers.memory.occupancy().used == 0


async def test_objects_larger_than_memory_are_read_correctly(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, memory="2MiB") as rig:
        content = origin.store.put_synthetic("bucket", "key", 12 * MIB)
        for _ in range(2):
            answer = await rig.client().request("GET", OBJECT)
            assert (answer.status, answer.body) == (200, content.expected(Span(0, 12 * MIB)))
        assert rig.parts.storage.tiers.memory.occupancy().used <= 2 * MIB


async def test_a_corrupted_segment_is_a_miss_and_a_counter(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, **LARGE) as rig:
        content = origin.store.put_synthetic("bucket", "key", 3 * MIB)
        await rig.client().request("GET", OBJECT)
        await rig.restart()
        damaged = segments(rig)
        assert damaged
        for path in damaged:
            raw = bytearray(path.read_bytes())
            for at in range(1000, len(raw), 10_000):
                raw[at] ^= 0xFF
            with path.open("r+b") as file:  # in place: the tier has it open
                file.write(raw)
        answer = await rig.client().request("GET", OBJECT)
        assert (answer.status, answer.body) == (200, content.expected(Span(0, 3 * MIB)))
        assert await metric_value(rig, 'forebay_tier_corrupt_total{tier="ssd"}') >= 3
        await rig.restart()  # what was damaged does not come back
        answer = await rig.client().request("GET", OBJECT)
        assert (answer.status, answer.body) == (200, content.expected(Span(0, 3 * MIB)))


async def test_the_directory_is_removed_while_serving(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, memory="0", **LARGE) as rig:
        content = origin.store.put_synthetic("bucket", "key", 3 * MIB)
        await rig.client().request("GET", OBJECT)
        await rig.parts.storage.tiers.flush()
        shutil.rmtree((rig.directory / "ssd").rename(rig.directory / "removed"))  # the writer adds files meanwhile
        for key in ("key", "other"):
            origin.store.put_synthetic("bucket", key, 3 * MIB)
            for _ in range(3):
                answer = await rig.client().request("GET", path_of("bucket", key))
                assert (answer.status, answer.body) == (200, content.expected(Span(0, 3 * MIB)))


async def test_a_full_disk_is_a_counter_and_no_error(tmp_path: Path) -> None:
    """No file of this process may grow: the same kind of error as a full disk."""
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, memory="0", **LARGE) as rig:
        content = origin.store.put_synthetic("bucket", "key", 3 * MIB)
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
        try:
            for _ in range(2):
                answer = await rig.client().request("GET", OBJECT)
                assert (answer.status, answer.body) == (200, content.expected(Span(0, 3 * MIB)))
                await rig.parts.storage.tiers.flush()
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        failures = [
            await metric_value(rig, f'forebay_tier_failures_total{{operation="{what}",tier="ssd"}}')
            for what in ("write", "commit", "append")
        ]
        assert sum(failures) >= 1


async def test_a_failing_ssd_shows_why_and_stays_ready(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, **LARGE) as rig:
        content = origin.store.put_synthetic("bucket", "key", 3 * MIB)
        await rig.client().request("GET", OBJECT)
        await rig.restart()
        for path in segments(rig):
            path.unlink()
            path.mkdir()  # reads fail with EISDIR
        answer = await rig.client().request("GET", OBJECT)
        assert (answer.status, answer.body) == (200, content.expected(Span(0, 3 * MIB)))
        assert "the ssd tier failed: read: [Errno 21] Is a directory" in caplog.messages
        reason = "read: [Errno 21] Is a directory"
        async with aiohttp.ClientSession() as session:
            async with session.get(f"{rig.admin}/readyz") as ready:
                assert ready.status == 200
                assert await ready.json() == {
                    "ready": True,
                    "reasons": [],
                    "failing": {},
                    "degraded": {"ssd": f"The ssd tier fails, reads go on without it: {reason}."},
                }
            async with session.get(f"{rig.admin}/v1/stats") as stats:
                memory, ssd = (await stats.json())["tiers"]
        assert (memory["state"], memory["reason"]) == ("serving", None)
        assert (ssd["state"], ssd["reason"]) == ("failing", reason)
        for path in segments(rig):
            path.rmdir()
