"""Fills an SSD tier without a server:
`python -m benchmarks.servers.ssd_fill DIRECTORY CAPACITY ORIGIN BUCKET COUNT SIZE EACH`.

COUNT blocks of SIZE bytes, EACH of them an object, named filled/00000000 and so on, as the origin with that endpoint
would have given them. When they are all on the disk it prints one line of JSON: the seconds that it took, and the CPU.
"""

import asyncio
import json
import sys
import time
from pathlib import Path
from random import Random

from forebay.core.events import Event, TierFailed
from forebay.core.heads import Head, ObjectFacts, head_of
from forebay.core.names import BlockId, ObjectName, Version
from forebay.storage.cache_origin import CacheOrigin, CacheOrigins
from forebay.storage.run_record import begin_run
from forebay.storage.ssd.ssd_tier import SsdTier

_BLOCK = 1 << 20
_BATCH = 8 << 20
"""Bytes that are admitted before it waits for the tier."""


def state_dir(cache: Path) -> str:
    """The state directory of a Forebay with this directory for its SSD tier."""
    return str(cache.with_name("state"))


def target(bucket: str, number: int) -> str:
    """The path of one of them."""
    return f"/{bucket}/filled/{number:08}"


def known(bucket: str, number: int, size: int, each: int, now: float = 0.0) -> tuple[ObjectName, Head]:
    """One of them, of `each` blocks of `size` bytes, as it is known."""
    name = ObjectName(bucket, target(bucket, number).removeprefix(f"/{bucket}/"))
    facts = ObjectFacts(Version(f'"{number:032x}"'), size * each, "Thu, 01 Jan 2026 00:00:00 GMT", ())
    return name, head_of(facts, _BLOCK if each == 1 else size, now)


async def fill(path: Path, capacity: int, origin: str, bucket: str, count: int, size: int, each: int) -> None:
    def observe(event: Event) -> None:
        if isinstance(event, TierFailed):
            raise SystemExit(f"the tier failed: {event.operation}: {event.reason}")

    now = time.time()
    body = memoryview(Random(0).randbytes(size))
    cached = CacheOrigin.of(origin)
    tier = SsdTier.open(path, capacity, CacheOrigins.single(cached), begin_run(state_dir(path), cached), observe)
    waiting = 0
    try:
        for number in range(count):
            name, head = known(bucket, number // each, size, each, now)
            if number % each == 0:
                tier.put_head(name, head)
            if not tier.admit(BlockId(name, head.generation, number % each), body):
                raise SystemExit(f"the tier let block {number} go")
            waiting += size + 512
            if waiting >= _BATCH:
                await tier.flush()
                waiting = 0
        await tier.flush()
        held = tier.occupancy()
        if held.blocks != count or held.heads != -(-count // each):
            raise SystemExit(f"asked to keep {count}, the tier holds {held}")
    finally:
        await tier.close()


if __name__ == "__main__":
    path, capacity, origin, bucket, *numbers = sys.argv[1:]
    wall, cpu = time.perf_counter(), time.process_time()
    asyncio.run(fill(Path(path), int(capacity), origin, bucket, *map(int, numbers)))
    told = {"seconds": time.perf_counter() - wall, "cpu": time.process_time() - cpu}
    sys.stdout.write(json.dumps(told) + "\n")
    sys.stdout.flush()
