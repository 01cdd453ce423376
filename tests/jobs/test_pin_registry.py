"""The pin registry: what is refused, with which sizes, and what the other workers find."""

from collections.abc import AsyncGenerator, AsyncIterator
from pathlib import Path
from typing import NamedTuple

import pytest

from forebay.core.errors import BucketMissing, OriginUnreachable, PinRefused
from forebay.core.names import ObjectName
from forebay.jobs.pin_registry import PinRegistry
from forebay.policy.pins import MAX_PINS, Pin, PinSet
from forebay.policy.rules import Rule, Rules
from forebay.storage.memory.memory_tier import MemoryTier
from forebay.storage.pin_file import PinFile
from forebay.storage.ssd.ssd_tier import SsdTier
from forebay.storage.tiers import Tiers
from harness.ssd_rig import MIB, NOW, open_tier

QUOTA = 10 * MIB


class Listed(NamedTuple):
    key: str
    size: int
    last_modified: float = 0.0


class RegistryRig:
    """A registry over a tier of 64 MiB, and an origin with a listing."""

    def __init__(self, directory: Path, ssd: SsdTier | None) -> None:
        self.file = PinFile(directory / "pins.json")
        self.tiers = Tiers(MemoryTier(MIB), ssd)
        self.listing = [Listed(f"{prefix}{number}", MIB) for prefix in ("a/", "b/") for number in range(6)]
        self.is_away = False
        self.rules = Rules([Rule("bucket/q/**", quota=2 * MIB)])
        self.registry = self.open()

    def open(self) -> PinRegistry:
        return PinRegistry(self.file, self.tiers, self._list, lambda: self.rules, lambda: NOW, QUOTA)

    async def _list(self, bucket: str, prefix: str) -> AsyncGenerator[Listed]:
        if bucket != "bucket":
            raise BucketMissing("there is no such bucket")
        for entry in self.listing:
            if self.is_away:
                raise OriginUnreachable("it is away")
            if entry.key.startswith(prefix):
                yield entry

    def prefixes(self) -> list[str]:
        return [pin.prefix for pin in self.registry.pins]


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[RegistryRig]:
    tier = open_tier(tmp_path / "ssd")
    yield RegistryRig(tmp_path, tier)
    await tier.close()


async def test_a_pin_knows_its_size_and_is_found_again(rig: RegistryRig) -> None:
    pin = await rig.registry.pin("bucket", "a/")
    assert pin == Pin("bucket", "a/", NOW, 6, 6 * MIB)
    assert rig.file.load() == (pin,)
    assert rig.tiers.ssd is not None
    assert list(rig.tiers.ssd.pins.pins) == [pin]
    rig.tiers.use_pins(PinSet())
    assert list(rig.open().pins) == [pin]
    assert await rig.registry.unpin("bucket", "a/") == pin
    assert await rig.registry.unpin("bucket", "a/") is None
    assert rig.file.load() == ()


async def test_beyond_the_quota_is_refused_with_the_sizes(rig: RegistryRig) -> None:
    await rig.registry.pin("bucket", "a/")
    with pytest.raises(PinRefused) as refused:
        await rig.registry.pin("bucket", "b/")
    assert str(refused.value) == (
        "s3://bucket/b/ has 6.0 MiB; pins may take 10.0 MiB of the SSD tier (ssd.pin_quota), and others need 6.0 MiB of"
        " it."
    )
    with pytest.raises(PinRefused, match=r"s3://bucket/ has at least 11\.0 MiB"):
        await rig.registry.pin("bucket", "")
    assert rig.prefixes() == ["a/"]
    await rig.registry.unpin("bucket", "a/")
    await rig.registry.pin("bucket", "b/")


async def test_what_is_pinned_already_takes_nothing(rig: RegistryRig) -> None:
    rig.listing = rig.listing[:8]
    await rig.registry.pin("bucket", "a/")
    await rig.registry.pin("bucket", "a/1")
    await rig.registry.pin("bucket", "a/")
    await rig.registry.pin("bucket", "")
    await rig.registry.pin("bucket", "b/")
    assert rig.prefixes() == ["", "a/", "a/1", "b/"]


async def test_the_quota_of_a_rule_bounds_a_pin(rig: RegistryRig) -> None:
    rig.listing = [Listed(f"q/{number}", MIB) for number in range(3)]
    with pytest.raises(PinRefused, match=r"3\.0 MiB under the rule bucket/q/\*\*, whose quota is 2\.0 MiB"):
        await rig.registry.pin("bucket", "q/")
    await rig.registry.pin("bucket", "q/1")


async def test_what_can_not_be_listed_is_counted_as_it_comes(rig: RegistryRig) -> None:
    rig.is_away = True
    pin = await rig.registry.pin("bucket", "b/")
    assert (pin.objects, pin.size) == (None, None)
    rig.is_away = False
    pin = await rig.registry.pin("bucket", "b/")
    assert (pin.objects, pin.size) == (6, 6 * MIB)


async def test_a_bucket_that_does_not_exist_is_not_pinned(rig: RegistryRig) -> None:
    with pytest.raises(PinRefused, match="There is no bucket bukcet"):
        await rig.registry.pin("bukcet", "a/")
    assert rig.prefixes() == []


async def test_another_worker_loads_the_file(rig: RegistryRig, tmp_path: Path) -> None:
    other = RegistryRig(tmp_path, None)
    await rig.registry.pin("bucket", "a/")
    assert not len(other.registry.pins)
    await other.registry.load()
    assert other.prefixes() == ["a/"]
    assert other.registry.pins.wanted_quota == QUOTA
    assert other.tiers.pins.find(ObjectName("bucket", "a/1")) is not None


async def test_without_an_ssd_nothing_is_pinned(tmp_path: Path) -> None:
    rig = RegistryRig(tmp_path, None)
    with pytest.raises(PinRefused, match="there is none"):
        await rig.registry.pin("bucket", "a/")
    assert rig.registry.quota == 0


async def test_there_are_so_many_pins_at_most(rig: RegistryRig) -> None:
    rig.tiers.use_pins(PinSet((Pin("other", f"{number:04}", NOW) for number in range(MAX_PINS)), QUOTA))
    with pytest.raises(PinRefused, match=f"{MAX_PINS} pins"):
        await rig.registry.pin("bucket", "a/")


async def test_a_pin_that_can_not_be_kept_is_none(rig: RegistryRig, tmp_path: Path) -> None:
    (tmp_path / "pins.json.new").mkdir()
    with pytest.raises(PinRefused, match="can't be kept in"):
        await rig.registry.pin("bucket", "a/")
    assert rig.prefixes() == []


async def test_a_changed_quota_is_used_at_once(rig: RegistryRig) -> None:
    await rig.registry.pin("bucket", "a/")
    rig.registry.set_quota(20 * MIB)
    assert rig.registry.quota == 20 * MIB
    await rig.registry.pin("bucket", "b/")
    assert rig.prefixes() == ["a/", "b/"]
