"""The orders in which loaders read: a shuffle, and how several workers of a DataLoader change it on the way."""

from array import array
from collections.abc import Sequence
from random import Random

from forebay.core.events import RecordedRead
from forebay.core.read_hashes import ReadHashes
from forebay.core.read_log import read_hash
from forebay.policy.anchor_index import AnchorIndex


def sample_keys(count: int) -> list[str]:
    return [f"set/{number:07}.jpg" for number in range(count)]


def shuffled(keys: Sequence[str], seed: int) -> list[str]:
    order = list(keys)
    Random(seed).shuffle(order)
    return order


def arrivals(order: Sequence[str], workers: int, batch: int, seed: int = 0) -> list[str]:
    """The keys as they arrive: batch b is read by worker b mod W, each at a speed of its own, two batches ahead."""
    random = Random(seed)
    batches = [list(order[start : start + batch]) for start in range(0, len(order), batch)]
    queues = [batches[worker::workers] for worker in range(workers)]
    consumed, found = 0, list[str]()
    done = [0] * workers
    while len(found) < len(order):
        ready = [
            worker
            for worker, queue in enumerate(queues)
            if queue and done[worker] * workers + worker < consumed + 2 * workers
        ]
        worker = random.choice(ready)
        found.append(queues[worker][0].pop(0))
        if not queues[worker][0]:
            queues[worker].pop(0)
            done[worker] += 1
            while consumed < len(batches) and not batches[consumed]:
                consumed += 1
    return found


def alternating(first: Sequence[str], second: Sequence[str]) -> list[str]:
    """Two jobs, a read each in turn."""
    return [key for pair in zip(first, second, strict=False) for key in pair]


def hashes_of(keys: Sequence[str]) -> ReadHashes:
    return array("I", [read_hash(key, 0) for key in keys])


def whole_reads(keys: Sequence[str], size: int = 1000) -> list[RecordedRead]:
    return [RecordedRead(key, 0, size, True) for key in keys]


def index_of(keys: Sequence[str]) -> AnchorIndex:
    index = AnchorIndex()
    index.extend(hashes_of(keys))
    return index
