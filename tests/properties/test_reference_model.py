"""Forebay against a reference model: S3 as a dictionary, with a second, foreign writer.

A sequence of reads, writes through Forebay, foreign writes behind its back, listings, plans, evictions, damage,
restarts (with the SSD tier, without it, with it later) and time. After each answer the model is asked whether it may be
(harness.reference_model); whatever a read answers is one version: its ETag, its metadata and every byte of it.
"""

import asyncio
import tempfile
from collections import Counter
from pathlib import Path
from random import Random

import pytest
import uvloop
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from harness.fake_origin import FakeOrigin
from harness.model_programs import KEYS, random_step
from harness.model_world import BLOCK, Step, World
from harness.oss_origin import OssOrigin
from harness.reference_model import Query
from security.scale import SCALE

SIZES = (0, 1, 1000, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK + 17)
STEPS = 40
"""Of a random program."""

key = st.sampled_from(KEYS)
content = st.tuples(st.sampled_from(SIZES), st.integers(0, 3))
offset = st.integers(0, 4 * BLOCK)
step = st.one_of(
    st.tuples(st.just("get"), key),
    st.tuples(st.just("get"), key),
    st.tuples(st.just("range"), key, offset, offset),
    st.tuples(st.just("suffix"), key, offset),
    st.tuples(st.just("head"), key),
    st.tuples(st.just("if-none-match"), key),
    st.tuples(st.just("no-cache"), key),
    st.tuples(st.just("put"), key, content),
    st.tuples(st.just("copy"), key, key),
    st.tuples(st.just("delete"), key),
    st.tuples(st.just("delete-many"), st.lists(key, min_size=1, max_size=3, unique=True)),
    st.tuples(st.just("foreign-put"), key, content),
    st.tuples(st.just("foreign-delete"), key),
    st.tuples(st.just("later"), st.sampled_from((1.0, 30.0, 61.0))),
    st.tuples(st.just("evict-memory")),
    st.tuples(st.just("restart")),
    st.tuples(st.just("restart-without-ssd")),
    st.tuples(st.just("restart-while-in-use")),
    st.tuples(st.just("attach")),
    st.tuples(st.just("corrupt"), st.integers(0, 1 << 20)),
)


def written_while_away(away: str, back: str) -> list[Step]:
    """An object is overwritten while the SSD is `away`, and read when it is `back`: a rare sequence among all."""
    return [
        ("put", "immutable/a", (1000, 1)),
        ("get", "immutable/a"),
        ("later", 1.0),
        (away,),
        ("put", "immutable/a", (1000, 2)),
        (back,),
        ("get", "immutable/a"),
    ]


VOUCHED: list[Step] = [
    ("put", "minute/a", (1000, 1)),
    ("get", "minute/a"),
    ("later", 61.0),
    ("list", 2, Query("minute/", "", 1000)),
    ("foreign-put", "minute/a", (1000, 2)),
    ("later", 30.0),
    ("get", "minute/a"),
    ("later", 31.0),
    ("get", "minute/a"),
]
"""A listing vouches for a head, from when it began: a rare sequence, too."""


async def run_sequence(origin: FakeOrigin, bucket: str, memory: str, steps: list[Step]) -> list[str]:
    """Where the pages of its listings came from."""
    with tempfile.TemporaryDirectory() as directory:
        world = World(origin, bucket, Path(directory) / "ssd", memory)
        await world.start()
        try:
            for action, *given in steps:
                await world.do(action, *given)
        finally:
            await world.close()
            del origin.store.buckets[bucket]
            origin.log.reset()
        return world.listings.sources


@pytest.mark.parametrize(("kind", "examples"), [(FakeOrigin, 250), (OssOrigin, 30)], ids=["S3", "OSS"])
def test_sequences_follow_the_reference_model(kind: type[FakeOrigin], examples: int) -> None:
    counter = iter(range(1 << 30))
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        origin = kind(verify=False)
        runner.run(origin.__aenter__())

        @settings(
            max_examples=examples * SCALE,
            deadline=None,
            database=None,
            suppress_health_check=list(HealthCheck),
            print_blob=True,
        )
        @example("1MiB", written_while_away("restart-without-ssd", "restart"))
        @example("1MiB", written_while_away("restart-while-in-use", "restart"))
        @example("0", written_while_away("restart-while-in-use", "attach"))
        @given(st.sampled_from(("1MiB", "0")), st.lists(step, min_size=2, max_size=25))
        def sequences(memory: str, steps: list[Step]) -> None:
            runner.run(run_sequence(origin, f"bucket{next(counter)}", memory, steps))

        try:
            sequences()
        finally:
            runner.run(origin.__aexit__(None, None, None))


@pytest.mark.parametrize(("kind", "programs"), [(FakeOrigin, 25), (OssOrigin, 8)], ids=["S3", "OSS"])
async def test_listings_and_plans_follow_the_reference_model(kind: type[FakeOrigin], programs: int) -> None:
    """Programs by their seeds: listings, writes, plans and their readers in shares that hypothesis does not keep to."""
    sources = Counter[str]()
    async with kind(verify=False) as origin:
        await run_sequence(origin, "vouched", "1MiB", VOUCHED)
        for seed in range(programs * SCALE):
            random = Random(seed)
            memory, steps = random.choice(("1MiB", "1MiB", "0")), [random_step(random) for _ in range(STEPS)]
            try:
                sources.update(await run_sequence(origin, f"bucket{seed}", memory, steps))
            except AssertionError as error:
                error.add_note(f"the program with seed {seed}: {memory}, {steps}")
                raise
    assert {"hit-ssd", "partial", "miss"} <= set(sources), sources
