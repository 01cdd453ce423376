"""Fills an SSD tier without a server: `python -m benchmarks.filling DIRECTORY CAPACITY ORIGIN BUCKET COUNT SIZE`.

COUNT objects of SIZE bytes, one block each, named filled/00000000 and so on, as the origin with that endpoint would
have given them. Prints how many it was asked for when they are all on the disk.
"""

import asyncio
import sys
import time
from pathlib import Path
from random import Random

from forebay.stores.ssd.tier import SsdTier
from forebay.words.events import Event, TierFailed
from forebay.words.heads import ObjectFacts, head_of
from forebay.words.names import BlockId, ObjectName, Version

_BLOCK = 1 << 20
_BATCH = 2000


def target(bucket: str, number: int) -> str:
    """The path of one of them."""
    return f"/{bucket}/filled/{number:08}"


async def fill(path: Path, capacity: int, origin: str, bucket: str, count: int, size: int) -> None:
    def observe(event: Event) -> None:
        if isinstance(event, TierFailed):
            raise SystemExit(f"the tier failed: {event.operation}: {event.reason}")

    now = time.time()
    body = memoryview(Random(0).randbytes(size))
    tier = SsdTier.open(path, capacity, origin, now, observe)
    try:
        for number in range(count):
            name = ObjectName(bucket, target(bucket, number).removeprefix(f"/{bucket}/"))
            facts = ObjectFacts(Version(f'"{number:032x}"'), size, "Thu, 01 Jan 2026 00:00:00 GMT", ())
            head = head_of(facts, _BLOCK, now)
            tier.put_head(name, head)
            if not tier.admit(BlockId(name, head.generation, 0), body):
                raise SystemExit(f"the tier let block {number} go")
            if number % _BATCH == _BATCH - 1:
                await tier.flush()
        await tier.flush()
        held = tier.occupancy()
        if held.blocks != count or held.heads != count:
            raise SystemExit(f"asked to keep {count}, the tier holds {held}")
    finally:
        await tier.close()


if __name__ == "__main__":
    path, capacity, origin, bucket, count, size = sys.argv[1:]
    asyncio.run(fill(Path(path), int(capacity), origin, bucket, int(count), int(size)))
    sys.stdout.write(f"{count}\n")
    sys.stdout.flush()
