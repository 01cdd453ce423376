"""Bodies of hits out of memory; those of the SSD are tested with the tier (tests/scenarios/test_lanes.py)."""

import pytest

from forebay.core.byte_ranges import Span
from forebay.core.events import unobserved
from forebay.server.fastpath.hit_body import HitBody
from forebay.storage.memory.memory_tier import MemoryTier
from forebay.storage.tiers import Tiers
from server.fastpath.admitted import NAME, block_id, head_of, prepared

CONTENT = bytes(range(200))


@pytest.fixture
def tiers() -> Tiers:
    return Tiers(MemoryTier(1 << 20, unobserved), None)


def admit(tiers: Tiers, block: int, *numbers: int) -> None:
    tiers.memory.put_head(NAME, head_of(len(CONTENT), block))
    for number in numbers:
        tiers.memory.admit(block_id(number), memoryview(CONTENT[number * block : (number + 1) * block]))


@pytest.mark.parametrize("span", [Span(0, 200), Span(0, 1), Span(199, 200), Span(10, 120)])
@pytest.mark.parametrize("block", [50, 64, 200, 1000])
def test_a_span_is_found_whatever_the_blocks(tiers: Tiers, block: int, span: Span) -> None:
    admit(tiers, block, *range(-(-200 // block)))
    found = HitBody(tiers).find(prepared(200, block), span, direct=False)
    assert found is not None
    buffers, extents, cache = found
    assert b"".join(buffers) == CONTENT[span.start : span.stop]
    assert (list(extents), cache) == ([], "hit-memory")


def test_only_the_blocks_of_the_span_are_needed(tiers: Tiers) -> None:
    admit(tiers, 50, 1, 2)
    body, response = HitBody(tiers), prepared(200, 50)
    for span, is_hit in ((Span(50, 150), True), (Span(49, 60), False), (Span(149, 151), False), (Span(60, 61), True)):
        assert (body.find(response, span, direct=False) is not None) == is_hit, span


def test_a_small_body_is_never_sent_as_extents(tiers: Tiers) -> None:
    admit(tiers, 50, 0, 1, 2, 3)
    found = HitBody(tiers).find(prepared(200, 50), Span(0, 200), direct=True)
    assert found is not None
    assert b"".join(found[0]) == CONTENT
