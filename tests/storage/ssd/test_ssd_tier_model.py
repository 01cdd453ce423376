"""The SSD tier against a model: it may lose anything, but what it returns is right."""

import asyncio
import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from forebay.core.byte_ranges import Span
from forebay.core.heads import Head
from forebay.core.names import BlockId, ObjectName
from forebay.storage.ssd.index.index import Index
from forebay.storage.ssd.ssd_tier import SsdTier
from harness.ssd_rig import MIB, NOW, block_id, content_of, head_for, open_tier, read_block

LENGTHS = (1, 4096, 70_000, 150_000)
KEYS = st.sampled_from("abcdef")
NUMBERS = st.integers(0, 11)
STEPS = st.one_of(
    st.tuples(st.just("admit"), KEYS, NUMBERS),
    st.tuples(st.just("admit"), KEYS, NUMBERS),
    st.tuples(st.just("admit many"), KEYS, NUMBERS),
    st.tuples(st.just("flush"), KEYS, NUMBERS),
    st.tuples(st.just("read"), KEYS, NUMBERS),
    st.tuples(st.just("put head"), KEYS, NUMBERS),
    st.tuples(st.just("forget"), KEYS, NUMBERS),
    st.tuples(st.just("purge"), KEYS, NUMBERS),
    st.tuples(st.just("reopen"), KEYS, NUMBERS),
    st.tuples(st.just("resize"), KEYS, NUMBERS),
)


def length_of(block: BlockId) -> int:
    return LENGTHS[block.number % len(LENGTHS)]


async def check(tier: SsdTier, blocks: set[BlockId], heads: dict[ObjectName, list[Head]]) -> None:
    for key in "abcdef":
        name = ObjectName("bucket", key)
        head = tier.head(name)
        assert head is None or head in heads.get(name, []), "a head that was forgotten or never put"
        for number in range(12):
            block = block_id(key, number)
            length = length_of(block)
            span = Span(length // 3, length - length // 5)
            whole, some = await read_block(tier, block, length), await tier.read(block, length, span)
            expected = content_of(block, length)
            assert whole is None or (block in blocks and whole == expected)
            assert some is None or (block in blocks and some == expected[span.start : span.stop])


async def run(path: Path, steps: list[tuple[str, str, int]]) -> None:
    tier = open_tier(path, capacity=2 * MIB)
    blocks: set[BlockId] = set()
    heads: dict[ObjectName, list[Head]] = {}
    for nth, (deed, key, number) in enumerate(steps):
        block = block_id(key, number)
        match deed:
            case "admit":
                tier.admit(block, content_of(block, length_of(block)))
                blocks.add(block)
            case "admit many":
                for other in range(12):
                    more = block_id(key, other)
                    tier.admit(more, content_of(more, length_of(more)))
                    blocks.add(more)
            case "flush":
                await tier.flush()
            case "read":
                await read_block(tier, block, length_of(block))
            case "put head":
                name, head = head_for(key, f'"{number}"', NOW + nth)
                tier.put_head(name, head)
                heads.setdefault(name, []).append(head)
            case "forget":
                await tier.forget(block.object)
                blocks = {each for each in blocks if each.object != block.object}
                heads.pop(block.object, None)
            case "purge":
                await tier.purge("bucket", key)
                heads.pop(block.object, None)
            case "reopen":
                await tier.close()
                tier = open_tier(path, capacity=2 * MIB)
            case _:
                tier.resize((number % 3 + 1) * MIB)
        if nth % 5 == 0:
            await check(tier, blocks, heads)
    await tier.flush()
    await check(tier, blocks, heads)
    await tier.close()


@settings(max_examples=30)
@given(st.lists(STEPS, max_size=60))
def test_the_tier_never_returns_a_wrong_byte(steps: list[tuple[str, str, int]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(run(Path(folder, "ssd"), steps))


@settings(max_examples=20)
@given(st.lists(st.tuples(st.integers(0, 2**20), st.binary(min_size=1, max_size=40)), min_size=1, max_size=6))
def test_never_a_wrong_byte_whatever_happens_to_the_segments(damages: list[tuple[int, bytes]]) -> None:
    async def damaged(path: Path) -> None:
        blocks = {block_id(key, number) for key in "ab" for number in range(12)}
        tier = open_tier(path, capacity=8 * MIB)
        for block in sorted(blocks):
            tier.admit(block, content_of(block, length_of(block)))
        await tier.flush()
        for segment in (path / "segments").iterdir():
            content = bytearray(segment.read_bytes())
            for at, garbage in damages:
                content[at % len(content) : at % len(content) + len(garbage)] = garbage
            segment.write_bytes(content)
        await check(tier, blocks, {})
        await check(tier, blocks, {})
        tier.resize(MIB // 2)
        for _ in range(20):
            await tier.flush()
        await check(tier, blocks, {})
        await tier.close()

    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(damaged(Path(folder, "ssd")))


def test_a_row_that_points_elsewhere_is_a_miss(tmp_path: Path) -> None:
    """Every row of the index is that of another block or object."""

    async def crossed() -> None:
        path = tmp_path / "ssd"
        blocks = [block_id(key, number) for key in "ab" for number in range(0, 12, 4)]
        tier = open_tier(path)
        for block in blocks:
            tier.admit(block, content_of(block, length_of(block)))
        for key in "ab":
            tier.put_head(*head_for(key))
        await tier.close()
        index = Index.open(path / "index", 64 * MIB, exclusive=True)
        with index.write_transaction() as txn:
            rows = list(txn.cursor(index.tables.blocks))
            assert len(rows) == len(blocks)
            for (address, _), (_, location) in zip(rows, rows[1:] + rows[:1], strict=True):
                txn.put(address, location, db=index.tables.blocks)
            (first, head), (other, other_head) = txn.cursor(index.tables.heads)
            txn.put(first, other_head, db=index.tables.heads)
            txn.put(other, head, db=index.tables.heads)
        index.close()
        tier = open_tier(path)
        assert [tier.head(ObjectName("bucket", key)) for key in "ab"] == [None, None]
        for block in blocks:
            assert tier.has(block)
            assert await read_block(tier, block, length_of(block)) is None
        await tier.flush()
        assert tier.occupancy().blocks == tier.occupancy().heads == 0
        await tier.close()

    asyncio.run(crossed())
