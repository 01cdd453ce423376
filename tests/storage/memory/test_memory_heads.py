"""Heads in the memory tier: what they are counted as, and those that pass."""

from hypothesis import given
from hypothesis import strategies as st

from forebay.core.names import ObjectName
from forebay.policy.pools import Pool
from forebay.storage.memory.head_attachments import HeadAttachments
from forebay.storage.memory.memory_heads import MemoryHeads, head_cost, transient_window
from forebay.storage.memory.memory_tier import BLOCK_OVERHEAD, MemoryTier
from harness.ssd_rig import block_id, head_for

SIZE = 20_000
SHARE = Pool("set/**", "epoch", None)
CAPACITY = 4_000_000


class Note:
    cost = 2_000


def read_epoch(tier: MemoryTier, keys: range) -> int:
    """Reads objects of one block each, as they are read through tiers; returns the misses."""
    misses = 0
    for number in keys:
        name, head = head_for(f"{number}")
        if tier.heads.get(name) is None:
            tier.put_head(name, head, passes=True)
        if tier.get(block_id(f"{number}")) is None:
            misses += 1
            tier.admit_pooled(block_id(f"{number}"), memoryview(bytes(SIZE)), SHARE, share=True)
    return misses


def test_heads_without_blocks_take_nothing_from_a_share() -> None:
    tier = MemoryTier(CAPACITY, clock=lambda: 0.0, hash_key=b"key")
    for _ in range(3):
        misses = read_epoch(tier, range(2_000))
    kept = CAPACITY // (SIZE + BLOCK_OVERHEAD + head_cost(*head_for("1000")))
    assert 2_000 - misses >= kept - 5, "2,000 heads would be two thirds of the tier"
    assert tier.heads.transient_used <= transient_window(CAPACITY) + head_cost(*head_for("1000"))
    assert all(
        tier.heads.peek(block.object) is not None for block in map(block_id, map(str, range(2_000))) if tier.has(block)
    )


def test_what_is_attached_to_a_head_passes_with_it() -> None:
    tier = MemoryTier(CAPACITY, clock=lambda: 0.0, hash_key=b"key")
    notes = HeadAttachments[Note](tier)
    for number in range(500):
        name, head = head_for(f"{number}")
        tier.put_head(name, head, passes=True)
        notes.attach(name, head, name.key.encode(), Note())
    read_epoch(tier, range(1_000, 2_000))
    assert notes.by_key == {}
    assert tier.used <= CAPACITY


def test_a_head_leads_to_blocks_fetched_ahead() -> None:
    tier = MemoryTier(CAPACITY, clock=lambda: 0.0, hash_key=b"key")
    tier.ahead.budget.resize(10 * SIZE)
    name, head = head_for("ahead")
    tier.put_head(name, head, passes=True)
    tier.ahead.claim(block_id("ahead"), SIZE)
    for _ in range(2):
        read_epoch(tier, range(1_000))
    assert tier.heads.peek(name) is head


def test_plain_heads_do_not_pass() -> None:
    tier = MemoryTier(CAPACITY, clock=lambda: 0.0, hash_key=b"key")
    names = [head_for(f"plain-{number}") for number in range(500)]
    for name, head in names:
        tier.put_head(name, head)
    read_epoch(tier, range(1_000))
    assert all(tier.heads.peek(name) is head for name, head in names)


KEYS = st.sampled_from("abcd")
STEPS = st.tuples(st.sampled_from(["put", "drop", "pass", "stay", "count"]), KEYS, st.integers(1, 500))


@given(st.lists(STEPS, max_size=40))
def test_the_sums_are_those_of_the_heads(steps: list[tuple[str, str, int]]) -> None:
    heads, costs, transient = MemoryHeads(), dict[ObjectName, int](), set[ObjectName]()
    for step, key, size in steps:
        name, head = head_for(key)
        if step == "put" and name not in costs:
            costs[name] = head_cost(name, head)
            heads.put(name, head, costs[name])
        elif name not in costs:
            continue
        elif step == "drop":
            assert heads.drop(name) == costs.pop(name)
            transient.discard(name)
        elif step == "pass":
            heads.mark_transient(name)
            transient.add(name)
        elif step == "stay":
            heads.clear_transient(name)
            transient.discard(name)
        elif step == "count":
            heads.count(name, size)
            costs[name] += size
    assert (len(heads), heads.used) == (len(costs), sum(costs.values()))
    assert heads.transient_used == sum(costs[name] for name in transient)
