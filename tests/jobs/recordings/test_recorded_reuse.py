"""Reuse of recorded epochs: the hit shares of caches that are simulated read by read."""

from collections import OrderedDict
from collections.abc import Sequence

import pytest

from forebay.core.events import RecordedRead
from forebay.jobs.recordings.recorded_reuse import recorded_reuse
from harness.loader_orders import sample_keys, shuffled
from harness.recording_content import recording_of

KEYS = sample_keys(500)
SIZE = 1000
ORDERS = [shuffled(KEYS, seed) for seed in range(3)]


def whole(keys: Sequence[str]) -> bytes:
    return recording_of([RecordedRead(key, 0, SIZE, True) for key in keys])


def lru_share(orders: Sequence[Sequence[str]], objects: int) -> float:
    """The share of reads behind the first epoch that a cache of so many objects hits."""
    cache, hits = OrderedDict[str, None](), 0
    for epoch, order in enumerate(orders):
        for key in order:
            if key in cache:
                hits += epoch > 0
                cache.move_to_end(key)
            else:
                cache[key] = None
                if len(cache) > objects:
                    cache.popitem(last=False)
    return hits / (len(orders) - 1) / len(orders[0])


@pytest.mark.parametrize("objects", [100, 250, 400, 500])
def test_shares_are_those_of_a_simulated_cache(objects: int) -> None:
    found = recorded_reuse([whole(order) for order in ORDERS], 1 << 20)
    assert found.curve.lru_share(objects * SIZE + 500) == pytest.approx(lru_share(ORDERS, objects), abs=0.02)
    assert found.curve.stable_share(objects * SIZE) == objects / len(KEYS)
    assert (found.curve.set_size, found.objects, found.block) == (len(KEYS) * SIZE, len(KEYS), SIZE)


def test_one_epoch_is_the_same_order_each_time() -> None:
    curve = recorded_reuse([whole(KEYS)], 1 << 20).curve
    assert curve.read_again == curve.set_size == len(KEYS) * SIZE
    assert (curve.lru_share(len(KEYS) * SIZE // 2), curve.lru_share(2 * len(KEYS) * SIZE)) == (0.0, 1.0)


def test_objects_count_by_their_blocks() -> None:
    reads = [RecordedRead("large", 0, 10_500, True), RecordedRead("part", 4000, 2000, False)]
    found = recorded_reuse([recording_of(reads)], 1000)
    assert found.curve.set_size == 10_500 + 2000
    assert found.block == pytest.approx(12_500 / 13)
