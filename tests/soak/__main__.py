"""A soak: many clients at once, for as long as is wished, with an origin that fails now and then and a cache that is
too small, damaged and resized meanwhile.

    PYTHONPATH=proxy:client:tests python -m soak [SECONDS] [SEED]

Held against each answer: it is of one version, every byte in its place; the version is no older than the last write
that was acknowledged before the request began, and no newer than the last that was begun. At the end nothing is left
behind: no flight, no buffer, no task (harness.rig). Prints what was done.
"""

import asyncio
import contextlib
import os
import random
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import uvloop

from harness.clients import RawClient, path_of
from harness.fake import actions
from harness.fake_origin import FakeOrigin
from harness.rig import Rig
from soak.cells import CELL, content, version_of

CLIENTS = 24
KEYS_EACH = 4
SIZES = (CELL, 4096, 65536, 65536 * 3 + CELL, 1 << 20, 3 << 20)
RULES = """
[[rules]]
path = "*/warmed*"
warm_on_write = true

[[rules]]
path = "**"
freshness = "immutable"
block = "64KiB"
"""
FAULTS = (
    actions.CloseAfter(1000),
    actions.ResetAfter(70_000),
    actions.SLOW_DOWN,
    actions.Drop(),
    actions.LongerBody(b"x"),
)


@dataclass
class Truth:
    """What may be answered. Each key has one writer."""

    begun: dict[str, int] = field(default_factory=dict)
    acknowledged: dict[str, int] = field(default_factory=dict)
    sizes: dict[tuple[str, int], int] = field(default_factory=dict)
    done: Counter[str] = field(default_factory=Counter)


async def client(rig: Rig, truth: Truth, number: int, seed: int, deadline: float) -> None:
    chance = random.Random(f"{seed}/{number}")
    own = [f"{'warmed' if turn % 2 else 'plain'}-{number}-{turn}" for turn in range(KEYS_EACH)]
    everybodys = [name.replace(f"-{number}-", f"-{other}-") for other in range(CLIENTS) for name in own]
    requests = rig.client()
    while time.monotonic() < deadline:
        roll = chance.random()
        if roll < 0.15:
            await write(requests, truth, chance, chance.choice(own))
        elif roll < 0.25:
            await leave(requests, chance, chance.choice(everybodys))
        else:
            await read(requests, truth, chance, chance.choice(everybodys))


async def write(requests: RawClient, truth: Truth, chance: random.Random, key: str) -> None:
    version, size = truth.begun.get(key, 0) + 1, chance.choice(SIZES)
    truth.begun[key], truth.sizes[key, version] = version, size
    answer = await requests.request("PUT", path_of("soak", key), (), content(key, version, size))
    truth.done[f"PUT {answer.status}"] += 1
    if answer.status == 200:
        truth.acknowledged[key] = version


async def read(requests: RawClient, truth: Truth, chance: random.Random, key: str) -> None:
    oldest = truth.acknowledged.get(key, 0)
    first = chance.randrange(0, 2048) * CELL
    ranged = chance.random() < 0.5
    headers = [("Range", f"bytes={first}-{first + chance.randrange(1, 4096) * CELL - 1}")] if ranged else []
    answer = await requests.request("GET", path_of("soak", key), headers)
    truth.done[f"GET {answer.status}{' aborted' if answer.aborted else ''}"] += 1
    if answer.status not in {200, 206} or answer.aborted:
        assert answer.status in {0, 200, 206, 404, 416, 503}, answer
        assert answer.status != 404 or oldest == 0, f"{key}: version {oldest} was acknowledged, and is not there"
        return
    version = version_of(key, answer.body, first if answer.status == 206 else 0)
    assert oldest <= version <= truth.begun.get(key, 0), f"{key}: version {version}, but {oldest} was acknowledged"
    assert answer.status == 206 or len(answer.body) == truth.sizes[key, version], f"{key}: not the whole of it"
    truth.done[answer.headers["x-forebay-cache"]] += 1


async def leave(requests: RawClient, chance: random.Random, key: str) -> None:
    """Ask, take a little, and go."""
    connection = await requests.open()
    await connection.send(requests.sign("GET", path_of("soak", key)).wire)
    head = await connection.read_head("GET")
    if head.status == 200:
        await connection.read(chance.randrange(1, 100_000))
    connection.reset()


async def trouble(rig: Rig, origin: FakeOrigin, seed: int, deadline: float) -> None:
    """What goes wrong meanwhile. Faults hit reads only: a write whose answer is lost has no version to hold it
    against."""
    chance = random.Random(seed)
    while time.monotonic() < deadline:
        await asyncio.sleep(0.2)
        origin.faults.add(chance.choice(FAULTS), method="GET", times=chance.randrange(1, 4))
        roll = chance.random()
        if roll < 0.2:
            await rig.worker.control.resize("memory", chance.choice(("1MiB", "8MiB", "32MiB")))
        elif roll < 0.4:
            rig.parts.tiers.memory.purge("soak", "")
        elif roll < 0.5:
            damage(rig.directory / "ssd" / "segments", chance)


def damage(segments: Path, chance: random.Random) -> None:
    for segment in segments.iterdir():
        # Reclaim may take a segment away while it is looked at.
        with contextlib.suppress(FileNotFoundError), segment.open("r+b") as file:
            size = file.seek(0, os.SEEK_END)
            if size:
                file.seek(chance.randrange(size))
                file.write(b"\xff")


async def soak(seconds: float, seed: int) -> None:
    truth = Truth()
    with tempfile.TemporaryDirectory() as directory:
        async with FakeOrigin(verify=False, keep_log=False) as origin:
            origin.store.create_bucket("soak")
            sizes = {"memory": "16MiB", "buffers": "16MiB", "ssd": "64MiB"}
            async with Rig(origin.endpoint, origin.secret, Path(directory), rest=RULES, **sizes) as rig:
                deadline = time.monotonic() + seconds
                async with asyncio.TaskGroup() as group:
                    group.create_task(trouble(rig, origin, seed, deadline))
                    for number in range(CLIENTS):
                        group.create_task(client(rig, truth, number, seed, deadline))
                await rig.settled()
    for what, count in sorted(truth.done.items()):
        print(f"{count:9d}  {what}")  # noqa: T201 - a command's output
    print("nothing wrong, nothing left behind")  # noqa: T201 - likewise


def main() -> None:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 60.0
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else random.randrange(1 << 32)
    print(f"{seconds:g} s, seed {seed}")  # noqa: T201 - a command's output
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(soak(seconds, seed))


if __name__ == "__main__":
    main()
