import tracemalloc
from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from forebay.core.heads import ObjectFacts, head_of
from forebay.core.names import BlockId, Generation, ObjectName, Version
from forebay.storage.memory.memory_tier import BLOCK_OVERHEAD, MemoryTier
from harness.ssd_rig import MIB, block_id, content_of, head_for

ROOMY = 64 * MIB


def test_a_block_is_what_was_admitted_and_nothing_else_is() -> None:
    tier = MemoryTier(ROOMY)
    tier.admit(block_id("a"), content_of(block_id("a"), 100))
    assert tier.get(block_id("a")) == content_of(block_id("a"), 100)
    assert tier.has(block_id("a"))
    for other in (block_id("b"), block_id("a", 1), block_id("a", 0, 2), block_id("a", bucket="other")):
        assert tier.get(other) is None
        assert not tier.has(other)


def test_a_returned_buffer_is_read_only() -> None:
    tier = MemoryTier(ROOMY)
    tier.admit(block_id("a"), memoryview(bytearray(100)))
    found = tier.get(block_id("a"))
    assert found is not None
    assert found.readonly


def test_the_least_recently_used_is_evicted_and_has_is_no_use() -> None:
    tier = MemoryTier(3 * (100 + BLOCK_OVERHEAD))
    for key in "abc":
        tier.admit(block_id(key), memoryview(bytes(100)))
    tier.get(block_id("a"))
    tier.has(block_id("b"))
    tier.admit(block_id("d"), memoryview(bytes(100)))
    assert [key for key in "abcd" if tier.has(block_id(key))] == ["a", "c", "d"]
    assert (tier.counts.evicted, tier.counts.evicted_bytes["capacity"]) == ({"capacity": 1, "resize": 0}, 100)


def test_a_block_larger_than_the_tier_displaces_nothing() -> None:
    tier = MemoryTier(10_000)
    tier.admit(block_id("a"), memoryview(bytes(100)))
    tier.admit(block_id("big"), memoryview(bytes(10_000)))
    assert tier.has(block_id("a"))
    assert not tier.has(block_id("big"))


def test_a_slice_does_not_pin_the_buffer_it_was_cut_from() -> None:
    tier = MemoryTier(ROOMY)
    receive_buffer = memoryview(bytes(MIB))
    tier.admit(block_id("a"), receive_buffer[:100])
    found = tier.get(block_id("a"))
    assert found is not None
    assert len(found.obj) == 100  # type: ignore[arg-type]  # bytes


def test_a_whole_buffer_is_kept_without_a_copy() -> None:
    tier = MemoryTier(ROOMY)
    buffer = memoryview(bytes(MIB))
    tier.admit(block_id("a"), buffer)
    found = tier.get(block_id("a"))
    assert found is not None
    assert found.obj is buffer.obj


def test_forget_drops_the_head_and_blocks_of_one_object() -> None:
    tier = MemoryTier(ROOMY)
    for key in "ab":
        tier.put_head(*head_for(key))
        for number in range(3):
            tier.admit(block_id(key, number), memoryview(bytes(10)))
    tier.forget(ObjectName("bucket", "a"))
    assert tier.head(ObjectName("bucket", "a")) is None
    assert not any(tier.has(block_id("a", number)) for number in range(3))
    assert tier.objects.cached_bytes(ObjectName("bucket", "a")) == 0
    assert tier.head(ObjectName("bucket", "b")) == head_for("b")[1]
    assert tier.objects.cached_bytes(ObjectName("bucket", "b")) == 30


def test_forget_can_spare_a_generation_that_was_staged() -> None:
    tier = MemoryTier(ROOMY)
    tier.put_head(*head_for("a"))
    tier.admit(block_id("a", 0, 1), memoryview(bytes(10)))
    tier.admit(block_id("a", 0, 2), memoryview(bytes(10)))
    tier.forget(ObjectName("bucket", "a"), keep=block_id("a", 0, 2).generation)
    assert tier.head(ObjectName("bucket", "a")) is None
    assert not tier.has(block_id("a", 0, 1))
    assert tier.has(block_id("a", 0, 2))


def test_purge_drops_the_objects_under_a_prefix() -> None:
    tier = MemoryTier(ROOMY)
    for bucket in ("bucket", "other"):
        for key in ("x/1", "x/2", "y/1"):
            tier.put_head(*head_for(key, bucket=bucket))
            tier.admit(block_id(key, bucket=bucket), memoryview(bytes(10)))
    assert tier.purge("bucket", "x/") == 2
    assert not tier.has(block_id("x/1"))
    assert tier.has(block_id("y/1"))
    assert tier.purge("bucket", "") == 1
    assert not tier.has(block_id("y/1"))
    assert tier.occupancy().blocks == 3
    assert tier.occupancy().heads == 3


def test_shrinking_is_in_bounded_steps_and_growing_at_once() -> None:
    tier = MemoryTier(ROOMY)
    for number in range(1000):
        tier.admit(block_id("a", number), memoryview(bytes(10)))
    tier.resize(10 * (10 + BLOCK_OVERHEAD))
    assert tier.occupancy().blocks == 1000
    assert tier.evict_some(100)
    assert tier.occupancy().blocks == 900
    while tier.evict_some(100):
        pass
    assert tier.occupancy().blocks == 10
    assert tier.counts.evicted == {"capacity": 0, "resize": 990}
    tier.resize(ROOMY)
    for number in range(100):
        tier.admit(block_id("b", number), memoryview(bytes(10)))
    assert tier.occupancy().blocks == 110


def test_an_admission_to_a_shrunk_tier_evicts_a_bounded_number() -> None:
    tier = MemoryTier(ROOMY)
    for number in range(2000):
        tier.admit(block_id("a", number), memoryview(bytes(10)))
    tier.resize(10 * (10 + BLOCK_OVERHEAD))
    tier.admit(block_id("b"), memoryview(bytes(10)))
    assert 2000 - 256 <= tier.occupancy().blocks < 2000


def test_listing_is_in_steps_and_yields_cached_objects() -> None:
    tier = MemoryTier(ROOMY)
    for number in range(10):
        tier.put_head(*head_for(f"x/{number}"))
        tier.admit(block_id(f"x/{number}"), memoryview(bytes(10)))
        tier.admit(block_id(f"y/{number}"), memoryview(bytes(10)))
    steps = list(tier.objects.listing("bucket", "x/", step=4))
    assert len(steps) == 5
    found = [each for step in steps for each in step]
    assert sorted(each.name.key for each in found) == [f"x/{number}" for number in range(10)]
    assert {each.cached for each in found} == {10}
    assert all(each.head is not None for each in found)


def test_listing_is_not_a_use() -> None:
    tier = MemoryTier(2 * (100 + BLOCK_OVERHEAD))
    tier.admit(block_id("a"), memoryview(bytes(100)))
    tier.admit(block_id("b"), memoryview(bytes(100)))
    assert sum(each.cached for step in tier.objects.listing("bucket", "a") for each in step) == 100
    tier.admit(block_id("c"), memoryview(bytes(100)))
    assert not tier.has(block_id("a"))


def test_heads_outlive_blocks_up_to_half_of_the_tier() -> None:
    tier = MemoryTier(100_000)
    names = [head_for(f"{number:03}") for number in range(200)]
    for name, head in names[:10]:
        tier.put_head(name, head)
    for number in range(100):
        tier.admit(block_id("large", number), memoryview(bytes(10_000)))
    assert all(tier.head(name) is not None for name, _ in names[:10])
    for name, head in names:
        tier.put_head(name, head)
    occupancy = tier.occupancy()
    assert 100_000 - 2 * 12_000 < occupancy.used <= 100_000
    assert occupancy.blocks == 4  # in the half that heads may not use
    assert tier.head(names[0][0]) is None
    assert tier.head(names[-1][0]) is not None


def test_a_block_is_admissible_with_free_space_or_on_its_second_hit() -> None:
    cost = 100 + BLOCK_OVERHEAD
    tier = MemoryTier(3 * cost)
    for number in range(3):
        assert tier.is_admissible(block_id("a", number), 100)
        tier.admit(block_id("a", number), memoryview(bytes(100)))
    assert not tier.is_admissible(block_id("b"), 100)
    assert tier.is_admissible(block_id("b"), 100)
    # A scan of more than fits is never admitted, however often it is repeated.
    assert not any(tier.is_admissible(block_id("scan", number % 5), 100) for number in range(50))
    assert not tier.is_admissible(block_id("huge"), 10 * cost)


def test_the_ghost_list_is_bounded_by_the_number_of_blocks() -> None:
    tier = MemoryTier(20 * (100 + BLOCK_OVERHEAD))
    for number in range(20):
        tier.admit(block_id("a", number), memoryview(bytes(100)))
    for number in range(100):
        assert not tier.is_admissible(block_id("b", number), 100)
    assert [tier.is_admissible(block_id("b", number), 100) for number in (99, 79, 78)] == [True, True, False]
    tier.resize(10 * (100 + BLOCK_OVERHEAD))
    tier.evict_some()
    assert [tier.is_admissible(block_id("b", number), 100) for number in (89, 88)] == [True, False]


KEYS = st.sampled_from("abcd")
STEPS = st.one_of(
    st.tuples(st.just("admit"), KEYS, st.integers(0, 3), st.integers(0, 3000)),
    st.tuples(st.just("get"), KEYS, st.integers(0, 3), st.just(0)),
    st.tuples(st.just("head"), KEYS, st.just(0), st.just(0)),
    st.tuples(st.just("forget"), KEYS, st.just(0), st.just(0)),
    st.tuples(st.just("resize"), st.just(""), st.just(0), st.integers(0, 20_000)),
    st.tuples(st.just("evict"), st.just(""), st.just(0), st.integers(1, 5)),
)


@given(st.lists(STEPS, max_size=40))
def test_no_byte_is_wrong_and_the_accounting_is_right(steps: list[tuple[str, str, int, int]]) -> None:
    tier = MemoryTier(15_000)
    model: dict[BlockId, bytes] = {}
    for deed, key, number, size in steps:
        block = block_id(key, number)
        match deed:
            case "admit":
                model[block] = bytes([size % 251]) * size
                tier.forget(block.object)
                model = {
                    kept: content for kept, content in model.items() if kept.object != block.object or kept == block
                }
                tier.admit(block, memoryview(model[block]))
            case "get":
                found = tier.get(block)
                assert found is None or bytes(found) == model.get(block)
                assert tier.has(block) == (found is not None)
            case "head":
                tier.put_head(*head_for(key))
            case "forget":
                tier.forget(block.object)
                model = {each: content for each, content in model.items() if each.object != block.object}
            case "resize":
                tier.resize(size)
            case _:
                tier.evict_some(size)
    while tier.evict_some(3):
        pass
    held = sum(tier.objects.cached_bytes(ObjectName("bucket", key)) for key in "abcd")
    occupancy = tier.occupancy()
    assert occupancy.used <= occupancy.capacity
    assert occupancy.used >= held + BLOCK_OVERHEAD * occupancy.blocks
    for key in "abcd":
        tier.forget(ObjectName("bucket", key))
    assert tier.occupancy().used == 0
    assert tier.occupancy().blocks == tier.occupancy().heads == 0


def traced(fill: Callable[[MemoryTier], None]) -> tuple[int, int]:
    """Returns the bytes that `fill` really takes, and those that the tier counts for it."""
    tracemalloc.start()
    try:
        tier = MemoryTier(1 << 40)
        before, _ = tracemalloc.get_traced_memory()
        fill(tier)
        after, _ = tracemalloc.get_traced_memory()
        return after - before, tier.occupancy().used
    finally:
        tracemalloc.stop()


def test_a_block_counts_as_the_memory_that_it_takes() -> None:
    def fill(tier: MemoryTier) -> None:
        name = ObjectName("bucket", "key")
        for number in range(5000):
            generation = Generation(number.to_bytes(8, "big"))
            tier.admit(BlockId(name, generation, number), memoryview(bytes(512)))
            # As many entries of the ghost list are counted with the blocks.
            other = BlockId(ObjectName("bucket", f"other-{number}"), generation, number)
            assert not tier.is_admissible(other, tier.occupancy().capacity)

    real, counted = traced(fill)
    assert 0.8 * real < counted < 1.5 * real


def test_a_block_in_an_arena_counts_as_the_memory_that_it_takes() -> None:
    files = 0

    def fill(tier: MemoryTier) -> None:
        name = ObjectName("bucket", "key")
        for number in range(2000):
            block = BlockId(name, Generation(number.to_bytes(8, "big")), number)
            tier.admit(block, memoryview(b"x" * 512))
            old, extent = tier.get(block), tier.allocate(512)
            assert old is not None
            assert extent is not None
            copy = extent.arena.write(extent.offset, old)
            assert copy is not None
            assert tier.replace(block, old, copy)
            assert not tier.is_admissible(
                BlockId(ObjectName("bucket", f"other-{number}"), block.generation, 0), 1 << 40
            )
        nonlocal files
        files = tier.arenas.charged()

    real, counted = traced(fill)
    assert 0.9 * real < counted - files < 1.5 * real


def test_a_head_counts_as_the_memory_that_it_takes() -> None:
    def fill(tier: MemoryTier) -> None:
        for number in range(2000):
            pairs = tuple((f"x-amz-meta-{field}", f"value-{number}-{field}") for field in range(4))
            facts = ObjectFacts(Version(f'"{number:032x}"'), number + 1000, f"Thu, 01 Jan {number}", pairs)
            tier.put_head(ObjectName("bucket", f"directory/key-{number}"), head_of(facts, MIB, float(number)))

    real, counted = traced(fill)
    assert 0.8 * real < counted < 1.6 * real


def test_an_object_put_at_once_is_kept_as_its_head_and_block_are() -> None:
    tiers = []
    for at_once in (True, False):
        tier = MemoryTier(60_000)
        tier.put_head(*head_for("2", '"old"'))
        tier.admit(block_id("3"), content_of(block_id("3"), 10))
        for number in (*range(20), 7, *range(30)):
            (name, head), block = head_for(f"{number}"), block_id(f"{number}")
            buffer = content_of(block, 70_000 if number == 5 else 1_000 + number)
            if at_once:
                tier.put_object(name, head, block, buffer)
            else:
                tier.put_head(name, head)
                tier.admit(block, buffer)
        tiers.append(tier)
    assert {tier.used for tier in tiers} == {tiers[1].used}
    assert tiers[0].occupancy() == tiers[1].occupancy()
    counted = [(tier.counts.admitted, tier.counts.admitted_bytes, tier.counts.evicted) for tier in tiers]
    assert counted[0] == counted[1]
    for number in range(30):
        name = head_for(f"{number}")[0]
        assert tiers[0].get(block_id(f"{number}")) == tiers[1].get(block_id(f"{number}"))
        assert tiers[0].head(name) == tiers[1].head(name)
        assert tiers[0].objects.cached_bytes(name) == tiers[1].objects.cached_bytes(name)
