"""Disturbances during a soak, with one worker or several: origin faults, damaged blocks, operators' actions.

Faults hit reads only: a write that the origin refuses has no place in what came about.
"""

import contextlib
import mmap
import os
import random
import re
from pathlib import Path
from typing import Any, Final, Protocol

from harness.fake import actions
from harness.fake.faults import Faults
from harness.fake.s3_request import S3Request
from soak.configuration import BUCKET
from soak.oracle import DAMAGE, Oracle

FAULTS: Final = (
    actions.CloseAfter(0),
    actions.CloseAfter(1000),
    actions.ResetAfter(70_000),
    actions.SLOW_DOWN,
    actions.Drop(),
    actions.LongerBody(b"x"),
    actions.Garbage(),
    actions.IgnoreRange(),
    actions.AnotherRange("bytes=0-9"),
    actions.ChunkedBody(),
    actions.CloseWhenDone(),
)
SIZES: Final = ("1MiB", "8MiB", "32MiB")
BLOCKS: Final = ("64KiB", "256KiB", "1MiB")
BLOCK: Final = re.compile(r'block = "[^"]*"')


class Admin(Protocol):
    """What an operator asks for: the answer's status, and the answer."""

    async def __call__(self, method: str, path: str, body: object = None) -> tuple[int, Any]: ...


async def disturb(rng: random.Random, faults: Faults, directory: Path, admin: Admin, oracle: Oracle) -> None:
    """A fault at the origin, and perhaps something else. `directory`: of the configuration and the SSD tier."""
    spent = [rule for rule in faults.rules if rule.times is not None and rule.applied >= rule.times]
    for rule in spent:
        faults.rules.remove(rule)
    # Several ranges are forwarded, and another one is an honest answer then.
    faults.add(rng.choice(FAULTS), method="GET", where=_has_one_range, times=rng.randrange(1, 4))

    async def ask(what: str, method: str, path: str, body: object = None) -> None:
        status, _ = await admin(method, path, body)
        oracle.done[f"{what}: {status}"] += 1

    roll = rng.random()
    if roll < 0.06:
        await ask("resized", "PUT", "/v1/tiers/memory", {"size": rng.choice(SIZES)})
    elif roll < 0.1:
        await ask("purged", "DELETE", f"/v1/cache?bucket={BUCKET}&prefix={rng.choice(('', 'plain'))}")
    elif roll < 0.12:
        await ask("warmed", "POST", "/v1/jobs", {"bucket": BUCKET, "prefix": rng.choice(("", "plain", "asked-1"))})
    elif roll < 0.14:
        change_block_size(directory / "forebay.toml", rng)
        await ask("reconfigured", "POST", "/v1/config/reload")
    elif roll < 0.24:
        oracle.damages += damage(directory / "ssd" / "segments", rng)


def _has_one_range(asked: S3Request) -> bool:
    return "," not in (asked.range or "")


def change_block_size(configuration: Path, rng: random.Random) -> None:
    """The blocks of what is fetched from now on are of another size, perhaps."""
    text = BLOCK.sub(f'block = "{rng.choice(BLOCKS)}"', configuration.read_text())
    configuration.write_text(text)


def damage(segments: Path, rng: random.Random) -> int:
    """Overwrites a byte of each segment. Returns of how many. As by a disk: its page is another one from then on, in
    place of one that changes, as the latter may be on its way to a client
    (docs/decisions/0022-send-verified-extents-unread.md)."""
    damaged = 0
    for segment in segments.iterdir():
        # Reclaim may take a segment away while it is looked at.
        with contextlib.suppress(FileNotFoundError), segment.open("r+b") as file:
            size = file.seek(0, os.SEEK_END)
            if not size:
                continue
            directory = rng.randrange(size)
            start = directory // mmap.PAGESIZE * mmap.PAGESIZE
            page = bytearray(os.pread(file.fileno(), mmap.PAGESIZE, start))
            page[directory - start] = DAMAGE
            with mmap.mmap(file.fileno(), size) as mapped:
                mapped.madvise(mmap.MADV_REMOVE, start, mmap.PAGESIZE)
            os.pwrite(file.fileno(), page, start)
            damaged += 1
    return damaged
