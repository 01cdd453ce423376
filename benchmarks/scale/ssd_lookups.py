"""Looks blocks up in a filled SSD tier:
`python -m benchmarks.scale.ssd_lookups DIRECTORY CAPACITY ORIGIN BUCKET COUNT SIZE EACH LOOKUPS`.

No server: what the tier by itself takes to find and read one of COUNT blocks of SIZE bytes, EACH of them an object,
drawn evenly. Prints one line of JSON.
"""

import asyncio
import json
import sys
import time
from pathlib import Path
from random import Random

from benchmarks.servers.ssd_fill import known, state_dir
from forebay.core.byte_ranges import Span
from forebay.core.names import BlockId
from forebay.storage.cache_origin import CacheOrigin, CacheOrigins
from forebay.storage.run_record import begin_run
from forebay.storage.ssd.ssd_tier import SsdTier
from forebay.storage.tier_contract import Busy


def resident() -> dict[str, int]:
    """Bytes of this process in memory of its own, and in files that are mapped (the index, which all workers share)."""
    fields = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines() if ":" in line)
    return {name: int(fields[name].split()[0]) * 1024 for name in ("RssAnon", "RssFile")}


async def look_up(
    path: Path, capacity: int, origin: str, bucket: str, count: int, size: int, each: int, lookups: int
) -> dict[str, float]:
    cached = CacheOrigin.of(origin)
    tier = SsdTier.open(path, capacity, CacheOrigins.single(cached), begin_run(state_dir(path), cached))
    draw = Random(1)
    names, blocks = [], []
    for _ in range(lookups):
        number = draw.randrange(count)
        name, head = known(bucket, number // each, size, each)
        names.append(name)
        blocks.append(BlockId(name, head.generation, number % each))
    tier.head(names[0])
    before = resident()
    try:
        for block in blocks:  # so that the page cache is warm
            if isinstance(tier.read_nowait(block, size, Span(0, size)), Busy):
                await tier.read(block, size, Span(0, size))
        started = time.process_time()
        heads = sum(tier.head(name) is not None for name in names)
        heads_seconds = time.process_time() - started
        started = time.process_time()
        found = sum(isinstance(tier.read_nowait(block, size, Span(0, size)), memoryview) for block in blocks)
        blocks_seconds = time.process_time() - started
        after = resident()
    finally:
        await tier.close()
    return {
        "heads": heads,
        "found": found,
        "head_seconds": heads_seconds / lookups,
        "block_seconds": blocks_seconds / lookups,
        "anonymous": after["RssAnon"] - before["RssAnon"],
        "mapped": after["RssFile"] - before["RssFile"],
    }


if __name__ == "__main__":
    path, capacity, origin, bucket, *numbers = sys.argv[1:]
    told = asyncio.run(look_up(Path(path), int(capacity), origin, bucket, *map(int, numbers)))
    sys.stdout.write(json.dumps(told) + "\n")
    sys.stdout.flush()
