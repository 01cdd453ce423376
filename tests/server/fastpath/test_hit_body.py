"""Bodies of hits out of memory; those of the SSD are tested with the tier (tests/scenarios/test_lanes.py)."""

from dataclasses import dataclass

import pytest

from forebay.core.byte_ranges import Span
from forebay.core.events import unobserved
from forebay.core.fair_semaphore import FairSemaphore, SemaphoreShare
from forebay.server.fastpath.client_state import ClientState
from forebay.server.fastpath.direct_reply import MAX_JOINED_SIZE
from forebay.server.fastpath.hit_body import MAX_BODY_SIZE, HitBody, HitBytes
from forebay.storage.memory.memory_tier import MemoryTier
from forebay.storage.memory.promotion import MAPPED_HITS, SENT_HITS
from forebay.storage.memory.shared_blocks import MIN_SHARED_BYTES, SharedBlock
from forebay.storage.tiers import Tiers
from harness.inspection import run_loop_until
from server.fastpath.admitted import NAME, block_id, head_of, prepared

CONTENT = bytes(range(200))


@dataclass
class Sender:
    """Sends extents."""

    unpromoted_hits: int = MAPPED_HITS
    is_free: bool = True


def unsent_of(capacity: int) -> SemaphoreShare:
    """Bytes that may wait for slow clients."""
    return SemaphoreShare(FairSemaphore(capacity), 1)


def extents_of(found: HitBytes | None) -> list[int]:
    """Their lengths."""
    assert found is not None
    return [stop - start for _, start, stop, _ in found[1]]


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
    found = HitBody(tiers, unsent_of(1 << 30)).find(prepared(200, block), span, ClientState(""))
    assert found is not None
    buffers, extents, cache = found
    assert b"".join(buffers) == CONTENT[span.start : span.stop]
    assert (list(extents), cache) == ([], "hit-memory")


def test_only_the_blocks_of_the_span_are_needed(tiers: Tiers) -> None:
    admit(tiers, 50, 1, 2)
    body, response = HitBody(tiers, unsent_of(1 << 30)), prepared(200, 50)
    for span, is_hit in ((Span(50, 150), True), (Span(49, 60), False), (Span(149, 151), False), (Span(60, 61), True)):
        assert (body.find(response, span, ClientState("")) is not None) == is_hit, span


def test_a_small_body_is_never_sent_as_extents(tiers: Tiers) -> None:
    admit(tiers, 50, 0, 1, 2, 3)
    found = HitBody(tiers, unsent_of(1 << 30)).find(prepared(200, 50), Span(0, 200), ClientState("", Sender))
    assert found is not None
    assert b"".join(found[0]) == CONTENT


@pytest.mark.parametrize(
    ("size", "unsent", "is_found"),
    [
        (MAX_JOINED_SIZE, 0, True),
        (MAX_JOINED_SIZE + 1, MAX_JOINED_SIZE, False),
        (MAX_JOINED_SIZE + 1, MAX_JOINED_SIZE + 1, True),
        (MAX_BODY_SIZE, MAX_BODY_SIZE, True),
        (MAX_BODY_SIZE + 1, 2 * MAX_BODY_SIZE, False),
    ],
)
def test_a_large_body_needs_room_for_unsent_bytes(size: int, unsent: int, is_found: bool) -> None:
    tiers = Tiers(MemoryTier(64 << 20, unobserved), None)
    tiers.memory.put_head(NAME, head_of(size, size))
    tiers.memory.admit(block_id(0), memoryview(bytes(size)))
    found = HitBody(tiers, unsent_of(unsent)).find(prepared(size, size), Span(0, size), ClientState(""))
    assert (found is not None) == is_found


@pytest.mark.parametrize("most", [MAPPED_HITS, SENT_HITS])
async def test_large_hits_promote_when_the_sender_gains_by_it(most: int) -> None:
    tiers = Tiers(MemoryTier(64 << 20, unobserved), None)
    size, block = 2 * MIN_SHARED_BYTES, block_id(0)
    tiers.memory.put_head(NAME, head_of(size, size))
    tiers.memory.admit(block, memoryview(bytes(size)))
    body, response, client = (
        HitBody(tiers, unsent_of(1 << 30)),
        prepared(size, size),
        ClientState("", lambda: Sender(most)),
    )
    for _ in range(most):
        assert extents_of(body.find(response, Span(0, size), client)) == []
    assert not tiers.memory.arenas.charged()
    body.find(response, Span(0, size), client)
    await run_loop_until(lambda: isinstance(tiers.memory.get(block).obj, SharedBlock))  # type: ignore[union-attr] # it is kept
    assert extents_of(body.find(response, Span(0, size), client)) == [size]
