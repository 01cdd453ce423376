"""A data set larger than the tiers, read once an epoch: the origin sends what does not fit, in each epoch alike."""

from pathlib import Path
from random import Random

import pytest

from harness.fake_origin import FakeOrigin
from harness.rig import Rig
from harness.worker_node import Node

KIB, MIB = 1 << 10, 1 << 20
SIZE = 100 * KIB
KEYS = [f"set/{number}" for number in range(300)]
RULES = '[[rules]]\npath = "bucket/set/**"\nfreshness = "immutable"\neviction = "epoch"\n'
PLAIN = '[[rules]]\npath = "bucket/set/**"\nfreshness = "immutable"\n'


def fill(origin: FakeOrigin) -> None:
    origin.store.create_bucket("bucket")
    for nth, key in enumerate(KEYS):
        origin.store.put("bucket", key, bytes([nth % 256]) * SIZE)


def origin_bytes(origin: FakeOrigin) -> int:
    """Bytes of objects that the origin has sent since this was called last."""
    sent = sum(entry.bytes_sent for entry in origin.log.requests if entry.operation == "GetObject")
    origin.log.requests.clear()
    return sent


@pytest.mark.parametrize(("rules", "low", "high"), [(RULES, 0.45, 0.52), (PLAIN, 0.0, 0.3)])
async def test_memory_alone(tmp_path: Path, rules: str, low: float, high: float) -> None:
    memory = f"{len(KEYS) * SIZE // 2 // KIB}KiB"
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, memory=memory, rest=rules) as rig:
        fill(origin)
        random, order, client = Random(1), list(KEYS), rig.client()
        async with await client.open() as connection:
            for epoch in range(4):
                random.shuffle(order)
                for key in order:
                    answer = await client.request("GET", f"/bucket/{key}", connection=connection)
                    assert (answer.status, len(answer.body)) == (200, SIZE)
                hits = 1 - origin_bytes(origin) / (len(KEYS) * SIZE)
                assert epoch < 2 or low <= hits <= high


async def test_four_workers_share_one_ssd(tmp_path: Path) -> None:
    """Each owns a quarter of the objects, and one of them reclaims. What is kept free for that is much of so small a
    tier."""
    async with (
        FakeOrigin() as origin,
        Node(origin, tmp_path, 4, memory="4MiB", ssd="16MiB", rest=RULES) as node,
    ):
        fill(origin)
        random, order = Random(2), list(KEYS)
        for epoch in range(5):
            random.shuffle(order)
            for nth, key in enumerate(order):
                answer = await node.client(nth % 4).request("GET", f"/bucket/{key}")
                assert (answer.status, len(answer.body)) == (200, SIZE)
            hits = 1 - origin_bytes(origin) / (len(KEYS) * SIZE)
            assert epoch < 3 or 0.4 <= hits <= 0.7
