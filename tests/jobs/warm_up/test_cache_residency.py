"""What is cached of objects: by tier, over all workers, without a use."""

from pathlib import Path
from typing import Any

from forebay.core.errors import PeerUnavailable
from forebay.core.heads import Head, ObjectFacts, head_of
from forebay.core.names import BlockId, ObjectName, Version
from forebay.jobs.warm_up.cache_residency import CacheResidency, ResidentObject, decode_residency, encode_residency
from forebay.peers.frames import Document
from forebay.peers.owners import Peers
from forebay.storage.memory.memory_tier import MemoryTier
from forebay.storage.tiers import Tiers
from harness.ssd_rig import MIB, NOW, open_tier

BLOCK = 4096
NAMES = [ObjectName("bucket", key) for key in "abc"]


def put(tiers: Tiers, name: ObjectName, numbers: range, *, size: int = 10_000, head: Head | None = None) -> Head:
    """Keeps a head and some of its three blocks in memory."""
    head = head or head_of(ObjectFacts(Version('"1"'), size, "", ()), BLOCK, NOW)
    tiers.memory.put_head(name, head)
    for number in numbers:
        tiers.memory.admit(BlockId(name, head.generation, number), memoryview(bytes(min(BLOCK, size - number * BLOCK))))
    return head


class TiersOfPeer:
    """Another worker: its own memory, or it is not there."""

    def __init__(self, tiers: Tiers | None) -> None:
        self._tiers = tiers

    async def call(self, request: Document) -> Document:
        if self._tiers is None:
            raise PeerUnavailable("gone")
        assert request["kind"] == "residency"
        return await encode_residency(self._tiers, request)


def resident(memory: int, ssd: int, cached: int) -> ResidentObject:
    """An object of three blocks."""
    return ResidentObject(10_000, 10_000, memory, ssd, cached)


def peers_of(*others: Tiers | None) -> Peers:
    peers: Any = dict(enumerate(map(TiersOfPeer, others), 1))
    return Peers(peers)


async def test_parts_wholes_and_nothing_are_told_apart() -> None:
    tiers = Tiers(MemoryTier(MIB), None)
    put(tiers, NAMES[0], range(3))
    put(tiers, NAMES[1], range(2, 3))
    found = await CacheResidency(tiers, Peers()).look_up(NAMES)
    assert found == [
        resident(10_000, 0, 10_000),
        resident(1808, 0, 1808),
        None,
    ]
    assert [each.is_whole for each in found if each is not None] == [True, False]


async def test_an_empty_object_is_whole() -> None:
    tiers = Tiers(MemoryTier(MIB), None)
    put(tiers, NAMES[0], range(0), size=0)
    [found] = await CacheResidency(tiers, Peers()).look_up(NAMES[:1])
    assert found is not None
    assert found.is_whole


async def test_blocks_in_two_tiers_count_once(tmp_path: Path) -> None:
    ssd = open_tier(tmp_path / "ssd")
    tiers = Tiers(MemoryTier(MIB), ssd)
    head = put(tiers, NAMES[0], range(2))
    ssd.put_head(NAMES[0], head)
    for number in (1, 2):
        ssd.admit(BlockId(NAMES[0], head.generation, number), memoryview(bytes(min(BLOCK, 10_000 - number * BLOCK))))
    await ssd.flush()
    [found] = await CacheResidency(tiers, Peers()).look_up(NAMES[:1])
    assert found == resident(2 * BLOCK, 10_000 - BLOCK, 10_000)
    alone = Tiers(MemoryTier(MIB), ssd)
    [found] = await CacheResidency(alone, Peers()).look_up(NAMES[:1])
    assert found == resident(0, 10_000 - BLOCK, 10_000 - BLOCK)
    await ssd.close()


async def test_the_memory_of_all_workers_counts() -> None:
    here, there = Tiers(MemoryTier(MIB), None), Tiers(MemoryTier(MIB), None)
    head = put(here, NAMES[0], range(2))
    put(there, NAMES[0], range(1, 3), head=head)
    put(there, NAMES[1], range(3))
    residency = CacheResidency(here, peers_of(there, None))
    assert await residency.look_up(NAMES) == [
        resident(10_000, 0, 10_000),
        resident(10_000, 0, 10_000),
        None,
    ]
    assert residency.capacity() == 3 * MIB


async def test_blocks_of_an_older_version_do_not_count() -> None:
    here, there = Tiers(MemoryTier(MIB), None), Tiers(MemoryTier(MIB), None)
    put(here, NAMES[0], range(3))
    newer = head_of(ObjectFacts(Version('"2"'), 10_000, "", ()), BLOCK, NOW + 1)
    put(there, NAMES[0], range(1), head=newer)
    assert await CacheResidency(here, peers_of(there)).look_up(NAMES[:1]) == [resident(BLOCK, 0, BLOCK)]


async def test_a_look_up_uses_no_block_and_no_head() -> None:
    memory = MemoryTier(30_000)
    tiers = Tiers(memory, None)
    for name in NAMES[:2]:
        put(tiers, name, range(3))
    await CacheResidency(tiers, Peers()).look_up(NAMES[:1])
    put(tiers, NAMES[2], range(3))
    assert memory.objects.cached_bytes(NAMES[0]) < memory.objects.cached_bytes(NAMES[1])


async def test_the_capacity_is_that_of_the_larger_tier(tmp_path: Path) -> None:
    ssd = open_tier(tmp_path / "ssd", capacity=64 * MIB)
    tiers = Tiers(MemoryTier(MIB), ssd)
    assert CacheResidency(tiers, Peers()).capacity() == ssd.lasting_capacity < 64 * MIB
    tiers.memory.resize(100 * MIB)
    assert CacheResidency(tiers, Peers()).capacity() == 100 * MIB
    await ssd.close()


def test_a_worker_that_has_just_started_has_nothing() -> None:
    assert decode_residency({"writes": []}) == []


async def test_a_range_is_whole_without_the_rest() -> None:
    tiers = Tiers(MemoryTier(MIB), None)
    put(tiers, NAMES[0], range(1, 2))
    ranges = ((BLOCK + 1, BLOCK + 2), (0, BLOCK), (BLOCK, None), (BLOCK, BLOCK), (20_000, None))
    found = [(await CacheResidency(tiers, Peers()).look_up(NAMES[:1], [each]))[0] for each in ranges]
    assert [each.is_whole for each in found if each is not None] == [True, False, False, True, True]
    assert [each.wanted for each in found if each is not None] == [BLOCK, BLOCK, 10_000 - BLOCK, 0, 0]
