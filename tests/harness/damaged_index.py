"""Damages of the SSD tier's index, generated from a seed, and a program that opens each in a process of its own.

`python -m harness.damaged_index <directory> <workspace> <first seed> <end>` prints a line of JSON for each seed: how
the process that opened the damaged copy ended, and what it found. A fork per seed: a signal ends only that one.
"""

import asyncio
import json
import os
import shutil
import subprocess
import sys
import traceback
from pathlib import Path
from random import Random
from typing import Any, Final

from forebay.core.events import TierFailed
from forebay.core.names import ObjectName
from harness.ssd_rig import (
    NOW,
    RecordedEvents,
    block_id,
    commit_blocks,
    content_of,
    head_for,
    open_tier,
    print_line,
    read_block,
)

PAGE: Final = 4096
KEYS: Final = tuple(f"key-{number:03}" for number in range(80))
BLOCKS: Final = 15
LENGTH: Final = 120
KINDS: Final = (
    "random bytes",
    "swapped pages",
    "zeroed page",
    "truncated",
    "flipped bit",
    "flipped meta",
    "copied page",
)
MOST_ROWS: Final = 85
"""On one page: so many may be missing if a page was changed in a way that can't be told from rows."""


async def fill_directory(path: Path) -> None:
    """Fills a directory with KEYS of BLOCKS each, such that its index has free pages, and closes it."""
    tier = open_tier(path)
    for turn in range(2):
        for key in KEYS:
            tier.put_head(*head_for(key))
            await commit_blocks(tier, *((block_id(key, number), LENGTH) for number in range(turn, BLOCKS, 2)))
        for number in range(40):
            tier.put_head(*head_for(f"gone-{number}"))
        await tier.flush()
        await tier.purge("bucket", "gone-")
    await tier.close()


def damage_index(data: Path, seed: int) -> str:
    """Damages LMDB's file. Returns the kind of damage."""
    random = Random(seed)
    kind = KINDS[seed % len(KINDS)]
    content = bytearray(data.read_bytes())
    pages = len(content) // PAGE
    page, other = (slice(number * PAGE, (number + 1) * PAGE) for number in random.sample(range(pages), 2))
    match kind:
        case "random bytes":
            for _ in range(random.choice([1, 8, 500])):
                content[random.randrange(page.start, page.stop)] = random.randrange(256)
        case "swapped pages":
            content[page], content[other] = content[other], content[page]
        case "zeroed page":
            content[page] = bytes(PAGE)
        case "truncated":
            del content[random.randrange(len(content)) :]
        case "flipped bit":
            content[random.randrange(len(content))] ^= 1 << random.randrange(8)
        case "flipped meta":
            content[random.choice([0, PAGE]) + random.randrange(152)] ^= 1 << random.randrange(8)
        case "copied page":
            content[page] = content[other]
    data.write_bytes(content)
    return kind


async def serve_damaged(path: Path) -> dict[str, Any]:
    """Opens a damaged directory, reads all that was in it, changes it, and opens it again. Returns what it found."""
    events = RecordedEvents()
    tier = open_tier(path, events, now=NOW + 5)
    for _ in range(40):
        await tier.flush()  # each waits for a turn of the writer, which does a step of the rescan
    found = wrong = heads = trusted = 0
    for key in KEYS:
        head = tier.head(ObjectName("bucket", key))
        if head is not None:
            wrong += head.with_validation(NOW) != head_for(key)[1]
            trusted += head.validated_at == NOW
            heads += 1
        for number in range(BLOCKS):
            block = block_id(key, number)
            content = await read_block(tier, block, LENGTH)
            wrong += content is not None and content != content_of(block, LENGTH)
            found += content is not None
    await tier.listing("bucket", "")
    await asyncio.gather(*(tier.forget(ObjectName("bucket", key)) for key in KEYS))
    for number in range(100):
        tier.put_head(*head_for(f"new-{number}"))
    await commit_blocks(tier, *((block_id("new", number), 100) for number in range(400)))
    tier.occupancy()
    is_off = tier.head(ObjectName("bucket", "new-0")) is None
    await tier.close()
    tier = open_tier(path, events)
    forgotten = all(tier.head(ObjectName("bucket", key)) is None for key in KEYS)
    await tier.close()
    reasons = [event.reason for event in events.of(TierFailed)]
    return {
        "found": found,
        "heads": heads,
        "trusted": trusted,
        "wrong": wrong,
        "off": is_off,
        "forgotten": forgotten,
        "reasons": reasons,
    }


def copy_damaged(whole: Path, copy: Path, seed: int) -> str:
    """Copies a directory and damages the copy's index. Returns the kind of damage."""
    shutil.copytree(whole, copy, ignore=shutil.ignore_patterns("touched"))
    return damage_index(copy / "index" / "data.mdb", seed)


def serve_in_processes(whole: Path, workspace: Path, seeds: range) -> list[dict[str, Any]]:
    """Runs this module as a program. Returns a report for each seed."""
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run(
        [sys.executable, "-m", "harness.damaged_index", str(whole), str(workspace), str(seeds.start), str(seeds.stop)],
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": f"{root / 'proxy'}:{root / 'tests'}"},
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


def _fork_and_serve(copy: Path) -> dict[str, Any]:
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(writing, json.dumps(asyncio.run(serve_damaged(copy))).encode())
        except BaseException as error:
            os.write(writing, json.dumps({"raised": "".join(traceback.format_exception(error))[-3000:]}).encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        said = pipe.read()
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return {"status": status, **(json.loads(said) if said else {})}


def main(whole: str, workspace: str, first: str, end: str) -> None:
    """The program."""
    for seed in range(int(first), int(end)):
        copy = Path(workspace, f"seed-{seed}")
        kind = copy_damaged(Path(whole), copy, seed)
        print_line(json.dumps({"seed": seed, "kind": kind, **_fork_and_serve(copy)}))
        shutil.rmtree(copy)


if __name__ == "__main__":
    main(*sys.argv[1:])
