"""Shared by the SSD tier's tests: blocks whose bytes follow from their names, and a recording observer.

Also a program, run by tests that need a second process: `python -m harness.ssd_rig <command> <directory>`.
"""

import asyncio
import contextlib
import fcntl
import json
import os
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import TypeVar

from forebay.core.buffers import Buffer
from forebay.core.byte_ranges import Span
from forebay.core.events import Event, TierFailed
from forebay.core.heads import Head, ObjectFacts, head_of
from forebay.core.names import BlockId, Generation, ObjectName, Version
from forebay.policy.pins import NO_PINS, PinSet
from forebay.storage.cache_origin import CacheOrigin, CacheOrigins
from forebay.storage.run_record import NodeRun
from forebay.storage.ssd.recovery import SsdOptions
from forebay.storage.ssd.ssd_tier import SsdTier
from forebay.storage.tier_contract import Busy, Miss

MIB = 1024 * 1024
NOW = 1_700_000_000.0
ORIGIN = CacheOrigin.of("https://origin.test")
RUN = 32 * "0"
_E = TypeVar("_E")


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """The directory is in use by another Forebay."""
    with (path / "forebay.lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def drop_page_cache(path: Path) -> None:
    """Drops a file from the page cache; a file on tmpfs stays in memory."""
    with path.open("rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


class RecordedEvents(list[Event]):
    """An observer that records events."""

    def __call__(self, event: Event) -> None:
        self.append(event)

    def of(self, kind: type[_E]) -> list[_E]:
        return [event for event in self if isinstance(event, kind)]


def block_id(key: str, number: int = 0, generation: int = 1, bucket: str = "bucket") -> BlockId:
    return BlockId(ObjectName(bucket, key), Generation(generation.to_bytes(8, "big")), number)


def content_of(block: BlockId, length: int) -> Buffer:
    """The bytes that this block has in every test and every process."""
    return memoryview(Random(repr(block)).randbytes(length))


def head_for(key: str, etag: str = '"one"', now: float = NOW, bucket: str = "bucket") -> tuple[ObjectName, Head]:
    facts = ObjectFacts(Version(etag), 10_000, "Thu, 01 Jan 1970 00:00:00 GMT", (("content-type", "text/plain"),))
    return ObjectName(bucket, key), head_of(facts, 4096, now)


def open_tier(
    path: Path,
    events: RecordedEvents | None = None,
    *,
    capacity: int = 64 * MIB,
    origin: CacheOrigin = ORIGIN,
    now: float = NOW,
    family: str | None = None,
    options: SsdOptions | None = None,
    clock: Callable[[], float] | None = None,
    pins: PinSet = NO_PINS,
) -> SsdTier:
    """Opens the tier at the time `now`, by a run that trusts what was closed in order."""
    observe = RecordedEvents() if events is None else events
    clock = clock or (lambda: now)
    return SsdTier.open(
        path,
        capacity,
        CacheOrigins.single(origin),
        trusting_run(path),
        observe,
        family=family,
        options=options,
        clock=clock,
        pins=pins,
    )


def trusting_run(path: Path) -> NodeRun:
    """A run of a Forebay that serves again and again, with the tier's directory `path`, and no other."""
    record = path.with_name(f"{path.name}-run")
    with contextlib.suppress(OSError):
        record.write_text(RUN)
    return NodeRun(RUN, (str(record),), predecessor=RUN, doubt="")


async def commit_blocks(tier: SsdTier, *blocks: tuple[BlockId, int]) -> None:
    """Admit blocks and wait until they are committed."""
    for block, length in blocks:
        assert tier.admit(block, content_of(block, length))
    await tier.flush()


async def read_block(tier: SsdTier, block: BlockId, length: int, within: Span | None = None) -> Buffer | None:
    """Reads a block as the tier's callers do: without waiting if possible, else in a thread. None for a miss."""
    span = within or Span(0, length)
    found = tier.read_nowait(block, length, span)
    if isinstance(found, Busy):
        return await tier.read(block, length, span)
    return None if isinstance(found, Miss) else found


async def wait_for_reclaim(tier: SsdTier, within: int) -> None:
    """Waits until reclaim has brought the tier under `within` bytes. Each flush waits for one turn of the writer."""
    for _ in range(10_000):
        if tier.occupancy().used <= within:
            return
        await tier.flush()
    raise AssertionError(f"still {tier.occupancy()}")


def spawn_program(command: str, path: Path) -> "subprocess.Popen[str]":
    """This module as a program, which prints a line for each step."""
    root = Path(__file__).resolve().parents[2]
    return subprocess.Popen(
        [sys.executable, "-m", "harness.ssd_rig", command, str(path)],
        stdout=subprocess.PIPE,
        stdin=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": f"{root / 'proxy'}:{root / 'tests'}"},
    )


def print_line(line: object) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


async def _write_for_ever(path: Path) -> None:
    tier = open_tier(path, capacity=16 * MIB)
    for number in range(1_000_000):
        for length in (100, 4096, 70_000):
            block = block_id(f"key-{length}", number)
            tier.admit(block, content_of(block, length))
        tier.put_head(*head_for("key-4096", f'"{number}"'))
        if number % 50 == 0:
            await tier.flush()
            print_line(number)
            sys.stdin.readline()  # until told to go on


async def _forget_and_wait(path: Path) -> None:
    tier = open_tier(path)
    tier.put_head(*head_for("gone"))
    tier.put_head(*head_for("kept"))
    await commit_blocks(tier, (block_id("gone"), 4096), (block_id("kept"), 4096))
    tier.put_head(*head_for("gone", '"two"'))
    await tier.forget(ObjectName("bucket", "gone"))
    print_line("forgotten")
    sys.stdin.read()


async def _open_and_wait(path: Path) -> None:
    tier = open_tier(path)
    print_line("open")
    sys.stdin.read()
    await tier.close()


async def _run_out_of_disk(path: Path) -> None:
    """No file may become larger than a MiB: stands for a full disk, which gives the same kind of error."""
    events = RecordedEvents()
    tier = open_tier(path, events, options=SsdOptions(segment_floor=4 * MIB))
    tier.put_head(*head_for("replaced"))
    await commit_blocks(tier, (block_id("before"), 4096))
    resource.setrlimit(resource.RLIMIT_FSIZE, (MIB, MIB))
    kept = [tier.admit(block_id("big", number), content_of(block_id("big", number), MIB // 2)) for number in range(8)]
    name, head = head_for("replaced", '"two"')
    tier.put_head(name, head)
    await tier.flush()
    after = tier.admit(block_id("later"), content_of(block_id("later"), 10))
    failed = [event.operation for event in events.of(TierFailed)]
    print_line(
        json.dumps({"kept": kept, "after": after, "old head": tier.head(name) not in (None, head), "failed": failed})
    )
    await tier.close()


async def _fail_to_forget(path: Path) -> None:
    events = RecordedEvents()
    tier = open_tier(path, events)
    tier.put_head(*head_for("gone"))
    tier.put_head(*head_for("kept"))
    await commit_blocks(tier, (block_id("gone"), 4096))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
    await tier.forget(ObjectName("bucket", "gone"))
    found = [tier.head(ObjectName("bucket", key)) is not None for key in ("gone", "kept")]
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    print_line(json.dumps({"found": found, "failed": [event.operation for event in events.of(TierFailed)]}))
    await tier.close()


async def _read_as_family(path: Path) -> None:
    """Reads what another process writes meanwhile, and writes something itself."""
    tier = open_tier(path, family="workers")
    await commit_blocks(tier, (block_id("of the child"), 5000))
    print_line("open")
    for line in sys.stdin:
        key, number, length = json.loads(line)
        block = block_id(key, number)
        found = await tier.read(block, length, Span(0, length))
        print_line("miss" if found is None else "right" if found == content_of(block, length) else "WRONG")
    await tier.close()


if __name__ == "__main__":
    deeds = {
        "write-for-ever": _write_for_ever,
        "forget-and-wait": _forget_and_wait,
        "open-and-wait": _open_and_wait,
        "run-out-of-disk": _run_out_of_disk,
        "fail-to-forget": _fail_to_forget,
        "read-as-family": _read_as_family,
    }
    asyncio.run(deeds[sys.argv[1]](Path(sys.argv[2])))
