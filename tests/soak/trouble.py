"""What goes wrong meanwhile, with one worker as with several: at the origin, and with what is kept.

Faults hit reads only: a write that the origin refuses has no place in what came about.
"""

import contextlib
import mmap
import os
import random
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

from harness.fake import actions
from harness.fake.faults import Faults

FAULTS: Final = (
    actions.CloseAfter(1000),
    actions.ResetAfter(70_000),
    actions.SLOW_DOWN,
    actions.Drop(),
    actions.LongerBody(b"x"),
)
SIZES: Final = ("1MiB", "8MiB", "32MiB")


async def some_trouble(
    chance: random.Random,
    faults: Faults,
    segments: Path,
    resize: Callable[[str], Awaitable[object]],
    purge: Callable[[], Awaitable[object]],
) -> None:
    """A fault at the origin, and perhaps something else."""
    spent = [rule for rule in faults.rules if rule.times is not None and rule.applied >= rule.times]
    for rule in spent:
        faults.rules.remove(rule)
    faults.add(chance.choice(FAULTS), method="GET", times=chance.randrange(1, 4))
    roll = chance.random()
    if roll < 0.06:
        await resize(chance.choice(SIZES))
    elif roll < 0.1:
        await purge()
    elif roll < 0.2:
        damage(segments, chance)


def damage(segments: Path, chance: random.Random) -> None:
    """A byte of each segment. As by a disk: its page is another one from then on, in place of one that changes, as the
    latter may be on its way to a client (docs/decisions/0022-what-was-checked-lately-is-sent.md)."""
    for segment in segments.iterdir():
        # Reclaim may take a segment away while it is looked at.
        with contextlib.suppress(FileNotFoundError), segment.open("r+b") as file:
            size = file.seek(0, os.SEEK_END)
            if not size:
                continue
            place = chance.randrange(size)
            start = place // mmap.PAGESIZE * mmap.PAGESIZE
            page = bytearray(os.pread(file.fileno(), mmap.PAGESIZE, start))
            page[place - start] = 0xFF
            with mmap.mmap(file.fileno(), size) as mapped:
                mapped.madvise(mmap.MADV_REMOVE, start, mmap.PAGESIZE)
            os.pwrite(file.fileno(), page, start)
