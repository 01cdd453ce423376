"""Blocks fetched ahead: found by the ordinary look-up, outside the LRU order, within their own budget."""

from forebay.core.names import BlockId, Generation, ObjectName
from forebay.storage.memory.head_attachments import HeadAttachment, HeadAttachments
from forebay.storage.memory.memory_heads import head_cost
from forebay.storage.memory.memory_tier import MemoryTier
from forebay.storage.memory.prefetched_blocks import PREFETCHED_OVERHEAD, PrefetchedBlocks
from forebay.storage.tiers import Tiers
from harness.ssd_rig import head_for

NAME = ObjectName("bucket", "key")
SIZE = 100


class AnyAttachment:
    """Something of ten bytes."""

    cost = 10


def block(number: int, name: ObjectName = NAME, generation: bytes = b"g") -> BlockId:
    return BlockId(name, Generation(generation), number)


def content(number: int) -> memoryview:
    return memoryview(bytes([number]) * SIZE)


def ahead_of(blocks: int) -> PrefetchedBlocks:
    return PrefetchedBlocks(blocks * (SIZE + PREFETCHED_OVERHEAD))


def test_a_block_is_found_once_it_has_landed() -> None:
    ahead = ahead_of(2)
    assert ahead.claim(block(0), SIZE)
    assert (ahead.has(block(0)), ahead.get(block(0)), ahead.is_used(block(0))) == (False, None, False)
    assert ahead.land(block(0), content(0))
    assert (ahead.has(block(0)), ahead.is_used(block(0))) == (True, False)
    assert ahead.get(block(0)) == content(0)
    assert ahead.release(block(0)) == (content(0), 0)
    assert (len(ahead), ahead.budget.in_use, ahead.is_expecting) == (0, 0, False)


def test_claims_are_bounded_by_the_budget() -> None:
    ahead = ahead_of(2)
    assert [ahead.claim(block(number), SIZE) for number in (0, 1, 0, 2)] == [True, True, True, False]
    ahead.release(block(1))
    assert ahead.claim(block(2), SIZE)
    assert not PrefetchedBlocks(0).claim(block(0), SIZE)
    assert not PrefetchedBlocks(SIZE).claim(block(0), SIZE), "also one that is larger than all"


def test_a_block_stays_until_its_last_claim_is_released() -> None:
    ahead = ahead_of(1)
    for _ in range(2):
        assert ahead.claim(block(0), SIZE)
    ahead.land(block(0), content(0))
    assert ahead.release(block(0)) == (None, 0)
    assert ahead.has(block(0))
    assert ahead.release(block(0)) == (None, SIZE), "nobody has read it"
    assert ahead.release(block(0)) == (None, 0)


def test_what_was_read_otherwise_counts_as_used() -> None:
    ahead = ahead_of(1)
    ahead.claim(block(0), SIZE)
    ahead.land(block(0), content(0))
    ahead.mark_used(block(0))
    assert ahead.release(block(0)) == (content(0), 0)
    ahead.mark_used(block(0))


def test_what_lands_during_an_opening_is_kept_until_its_end() -> None:
    ahead = ahead_of(3)
    assert not ahead.land(block(0), content(0))
    ahead.open_object(NAME)
    assert [ahead.land(block(number), content(number)) for number in range(2)] == [True, True]
    assert not ahead.land(block(0, ObjectName("bucket", "other")), content(0))
    assert ahead.claim(block(0), SIZE)
    assert ahead.close_opening(NAME) == [(block(1), content(1))]
    assert (ahead.has(block(0)), ahead.has(block(1)), len(ahead)) == (True, False, 1)


def test_an_opening_keeps_no_more_than_fits() -> None:
    ahead = ahead_of(1)
    ahead.open_object(NAME)
    assert [ahead.land(block(number), content(number)) for number in range(2)] == [True, False]
    assert len(ahead.close_opening(NAME)) == 1
    assert ahead.budget.in_use == 0


def test_a_forgotten_object_is_gone_and_its_claims_with_it() -> None:
    tier = MemoryTier(1 << 20)
    tier.ahead.budget.resize(1 << 20)
    other = ObjectName("bucket", "other")
    for each in (block(0), block(1), block(0, generation=b"new"), block(0, other)):
        tier.ahead.claim(each, SIZE)
        tier.ahead.land(each, content(0))
    tier.forget(NAME, Generation(b"new"))
    assert [tier.has(each) for each in (block(0), block(1), block(0, generation=b"new"))] == [False, False, True]
    tier.ahead.release(block(0))
    assert tier.purge("bucket", "o") == 1
    assert tier.get(block(0, other)) is None


def test_the_ordinary_look_up_finds_it_and_evicts_nothing() -> None:
    tier = MemoryTier(4096)
    tier.ahead.budget.resize(1 << 20)
    tiers = Tiers(tier, None)
    tiers.admit(block(0), content(0))
    for number in range(1, 100):
        tier.ahead.claim(block(number), SIZE)
        tiers.admit(block(number), content(number))
    assert tier.get(block(0)) == content(0)
    assert tier.get(block(99)) == content(99)
    assert tier.has(block(98))
    assert tier.occupancy().blocks == 1


def test_a_head_without_room_in_the_tier_is_kept_with_its_blocks() -> None:
    (name, head), (other, other_head) = head_for("a"), head_for("b")
    for capacity in (0, head_cost(name, head)):
        tier = MemoryTier(capacity)
        tier.ahead.budget.resize(1 << 20)
        for each in (name, other):
            tier.ahead.open_object(each)
        tier.put_head(name, head)
        tier.put_head(other, other_head)
        assert (tier.head(name), tier.head(other)) == (head, other_head)
        tier.put_head(name, renewed := head.with_validation(99.0))
        assert tier.head(name) is renewed
        assert tier.ahead.claim(block(0, name), SIZE)
        for each in (name, other):
            tier.ahead.close_opening(each)
        assert (tier.head(name), tier.head(other)) == (renewed, None), "the other object has no block here"
        tier.ahead.release(block(0, name))
        assert (tier.ahead.head(name), tier.ahead.budget.in_use, tier.ahead.names()) == (None, 0, ())


def test_a_head_beyond_the_budget_is_not_kept() -> None:
    name, head = head_for("a")
    tier = MemoryTier(0)
    tier.ahead.budget.resize(SIZE + PREFETCHED_OVERHEAD)
    tier.ahead.claim(block(0, name), SIZE)
    tier.put_head(name, head)
    assert (tier.head(name), tier.ahead.budget.in_use) == (None, SIZE + PREFETCHED_OVERHEAD)


def test_a_head_goes_with_what_is_forgotten_and_holds_no_attachment() -> None:
    name, head = head_for("a")
    tier = MemoryTier(0)
    tier.ahead.budget.resize(1 << 20)
    notes = HeadAttachments[HeadAttachment](tier)
    tier.ahead.claim(block(0, name), SIZE)
    tier.put_head(name, head)
    notes.attach(name, head, b"key", AnyAttachment())
    assert notes.by_key == {}
    tier.forget(name)
    assert (tier.head(name), tier.ahead.budget.in_use) == (None, 0)
