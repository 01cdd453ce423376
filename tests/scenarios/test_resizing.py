"""The tiers shrink and grow while they are read, and what is read stays right."""

import asyncio
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from harness.clients import path_of
from harness.fake_origin import FakeOrigin
from harness.rig import Rig

MIB = 1 << 20
FOREVER = '[[rules]]\npath = "**"\nfreshness = "immutable"\n'


async def resize(rig: Rig, tier: str, size: str) -> tuple[int, Any]:
    async with (
        aiohttp.ClientSession() as session,
        session.put(f"{rig.admin}/v1/tiers/{tier}", json={"size": size}) as answer,
    ):
        return answer.status, await answer.json()


async def test_memory_shrinks_and_grows_under_readers(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, rest=FOREVER) as rig:
        bodies = {f"key{number}": bytes([number]) * (2 * MIB + number) for number in range(8)}
        for key, body in bodies.items():
            origin.store.put("bucket", key, body)

        async def read() -> None:
            for _ in range(3):
                for key, body in bodies.items():
                    assert (await rig.client().request("GET", path_of("bucket", key))).body == body

        async with asyncio.TaskGroup() as group:
            readers = [group.create_task(read()) for _ in range(3)]
            sizes = 0
            while not all(reader.done() for reader in readers):
                sizes += 1
                assert (await resize(rig, "memory", ("3MiB", "64MiB", "0")[sizes % 3]))[0] == 200
        assert (await resize(rig, "memory", "3MiB"))[0] == 200
        await rig.wait_idle()
        occupancy = rig.parts.storage.tiers.memory.occupancy()
        assert occupancy.capacity == 3 * MIB
        assert occupancy.used <= 3 * MIB


async def test_a_size_that_a_configuration_could_not_have_is_refused(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, ssd="64MiB") as rig:
        for size in ("0", "1000KiB", "lots", "-1MiB"):
            status, answer = await resize(rig, "ssd", size)
            assert (status, answer["where"]) == (422, "ssd.size")
        assert rig.parts.storage.tiers.ssd is not None
        assert rig.parts.storage.tiers.ssd.occupancy().capacity == 64 * MIB


async def test_more_than_there_is_takes_effect_with_a_warning(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, ssd="64MiB") as rig:
        for tier, size, told in (
            ("memory", "1024TiB", "it may be killed"),
            ("ssd", "1024TiB", "the file system of ssd.path has"),
        ):
            _, answer = await resize(rig, tier, size)
            assert (answer["after"], told in answer["warning"]) == (1 << 50, True)
        for tier in ("memory", "ssd"):
            assert (await resize(rig, tier, "64MiB"))[1]["warning"] is None


async def test_a_reload_warns_of_more_than_there_is(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """It takes effect, as a resize does; a reload that changes nothing warns of nothing."""
    caplog.set_level("INFO")
    async with (
        FakeOrigin() as origin,
        Rig(origin.endpoint, origin.secret, tmp_path, memory="64MiB", ssd="512MiB") as rig,
    ):
        file, control = rig.worker.source.file, rig.worker.control
        assert file is not None
        for size, told in (("1024TiB", ["it may be killed", "the file system of ssd.path has"]), ("128MiB", [])):
            file.write_text(rig.configuration.replace('size = "64MiB"', f'size = "{size}"').replace("512MiB", size))
            caplog.clear()
            await rig.worker.reload()
            (sentence,) = [each.message for each in caplog.records if "was read again" in each.message]
            assert ("changed: memory.size, ssd.size" in sentence, [each for each in told if each in sentence]) == (
                True,
                told,
            )
            assert {capacity for _, capacity in await _sizes(rig)} == {1 << 50 if told else 128 * MIB}
            answer = await control.reload_config()
            assert answer is not None
            assert (answer.changed, answer.warnings) == ((), ())


async def _sizes(rig: Rig) -> list[tuple[int, int]]:
    """Of memory and SSD: what the configuration tells, and what the tier has."""
    config: Any = await rig.worker.control.config()
    ssd = rig.parts.storage.tiers.ssd
    told = [config[tier] for tier in ("memory", "ssd")]
    assert ssd is not None
    return [
        (tier["size"], occupancy.capacity)
        for tier, occupancy in zip(told, (rig.parts.storage.tiers.memory.occupancy(), ssd.occupancy()), strict=True)
    ]


async def test_configuration_shows_the_current_sizes(tmp_path: Path) -> None:
    async with (
        FakeOrigin() as origin,
        Rig(origin.endpoint, origin.secret, tmp_path, memory="64MiB", ssd="512MiB") as rig,
    ):
        file = rig.worker.source.file
        assert file is not None
        assert await _sizes(rig) == [(64 * MIB, 64 * MIB), (512 * MIB, 512 * MIB)]
        await resize(rig, "memory", "32MiB")
        await resize(rig, "ssd", "256MiB")
        assert await _sizes(rig) == [(32 * MIB, 32 * MIB), (256 * MIB, 256 * MIB)]
        await rig.worker.control.reload_config()  # it has not changed
        assert await _sizes(rig) == [(32 * MIB, 32 * MIB), (256 * MIB, 256 * MIB)]
        file.write_text(rig.configuration.replace("512MiB", "1GiB").replace(f"{tmp_path}/ssd", f"{tmp_path}/other"))
        await rig.worker.control.reload_config()  # the path needs a restart, the size does not
        assert await _sizes(rig) == [(32 * MIB, 32 * MIB), (1024 * MIB, 1024 * MIB)]
        await resize(rig, "ssd", "256MiB")
        file.write_text(rig.configuration.partition("[ssd]")[0] + rig.configuration.partition('size = "512MiB"\n')[2])
        await rig.worker.control.reload_config()  # it goes at the next start
        assert await _sizes(rig) == [(32 * MIB, 32 * MIB), (256 * MIB, 256 * MIB)]


async def test_memory_that_has_grown_keeps_more(tmp_path: Path) -> None:
    async with (
        FakeOrigin() as origin,
        Rig(origin.endpoint, origin.secret, tmp_path, rest=FOREVER, memory="1MiB") as rig,
    ):
        origin.store.put("bucket", "key", b"x" * 4 * MIB)
        for size, cache in (("1MiB", ("miss", "partial")), ("16MiB", ("hit-memory",))):
            await resize(rig, "memory", size)
            await rig.client().request("GET", "/bucket/key")
            answer = await rig.client().request("GET", "/bucket/key")
            assert answer.headers["x-forebay-cache"] in cache


async def test_the_ssd_shrinks_and_grows_under_readers(tmp_path: Path) -> None:
    async with (
        FakeOrigin() as origin,
        Rig(origin.endpoint, origin.secret, tmp_path, rest=FOREVER, memory="0", ssd="512MiB") as rig,
    ):
        bodies = {f"key{number}": bytes([number]) * (2 * MIB + number) for number in range(4)}
        for key, body in bodies.items():
            origin.store.put("bucket", key, body)
        for size in ("512MiB", "256MiB", "1GiB"):
            status, told = await resize(rig, "ssd", size)
            assert status == 200, told
            for key, body in bodies.items():
                assert (await rig.client().request("GET", path_of("bucket", key))).body == body
        assert rig.parts.storage.tiers.ssd is not None
        assert rig.parts.storage.tiers.ssd.occupancy().capacity == 1 << 30


@pytest.mark.parametrize(
    ("tier", "size", "status"),
    [("memory", "much", 400), ("memory", "-1MiB", 400), ("ssd", "256MiB", 409), ("tape", "1MiB", 404)],
)
async def test_a_size_that_makes_no_sense_changes_nothing(tmp_path: Path, tier: str, size: str, status: int) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path) as rig:
        before = rig.parts.storage.tiers.memory.occupancy().capacity
        answered, _ = await resize(rig, tier, size)
        assert answered == status or (status == 400 and answered == 422)
        assert rig.parts.storage.tiers.memory.occupancy().capacity == before
