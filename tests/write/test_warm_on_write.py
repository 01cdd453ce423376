"""Staged blocks are those of the object, whatever pieces its body arrives in."""

from hypothesis import given
from hypothesis import strategies as st

from forebay.core.byte_ranges import block_count, block_span
from forebay.core.fair_semaphore import FairSemaphore
from forebay.core.names import BlockId, ObjectName
from forebay.storage.memory.memory_tier import MemoryTier
from forebay.storage.tiers import Tiers
from forebay.write.warm_on_write import BlockStaging, restage

NAME = ObjectName("bucket", "key")
BLOCK = 64


def staging(
    budget: FairSemaphore | None = None, tiers: Tiers | None = None
) -> tuple[BlockStaging, Tiers, FairSemaphore]:
    tiers = tiers or Tiers(MemoryTier(1 << 20), None)
    budget = budget or FairSemaphore(BLOCK)
    return BlockStaging(tiers, budget, NAME, BLOCK), tiers, budget


@given(st.lists(st.binary(max_size=3 * BLOCK), max_size=8))
def test_the_blocks_are_those_of_the_whole(pieces: list[bytes]) -> None:
    body = b"".join(pieces)
    staged, tiers, budget = staging()
    for piece in pieces:
        staged.append(piece)
    found = staged.complete('"etag"')
    staged.discard()
    assert found is not None
    assert (found.size, found.block_size, found.etag) == (len(body), BLOCK, '"etag"')
    for number in range(block_count(len(body), BLOCK)):
        span = block_span(number, BLOCK, len(body))
        block = tiers.memory.get(BlockId(NAME, found.generation, number))
        assert block is not None
        assert bytes(block) == body[span.start : span.stop]
    assert budget.in_use == 0


def test_a_staging_without_memory_is_discarded_for_good() -> None:
    staged, tiers, budget = staging()
    staged.append(b"x" * BLOCK)
    assert budget.try_acquire(BLOCK)
    staged.append(b"x" * BLOCK)
    budget.release(BLOCK)
    staged.append(b"x" * BLOCK)
    assert staged.complete('"etag"') is None
    assert (budget.in_use, tiers.memory.occupancy().blocks) == (0, 1)


def test_discarding_releases_memory_once() -> None:
    staged, _, budget = staging()
    staged.append(b"x")
    assert budget.in_use == BLOCK
    staged.discard()
    staged.discard()
    assert budget.in_use == 0
    assert staged.complete('"etag"') is None


def test_two_bodies_never_share_a_generation() -> None:
    assert staging()[0].generation != staging()[0].generation


async def test_parts_are_restaged_whole_or_not_at_all() -> None:
    first, tiers, budget = staging()
    first.append(b"a" * 100)
    part = first.complete('"1"')
    whole, _, _ = staging(budget, tiers)
    whole.append(b"b" * 30)
    assert part is not None
    assert await restage(tiers, NAME, part, whole)
    found = whole.complete('"2"')
    assert found is not None
    blocks = [tiers.memory.get(BlockId(NAME, found.generation, number)) for number in range(3)]
    assert b"".join(block for block in blocks if block is not None) == b"b" * 30 + b"a" * 100
    tiers.memory.purge("bucket", "")
    again, _, _ = staging(budget, tiers)
    assert not await restage(tiers, NAME, part, again)
    again.discard()
