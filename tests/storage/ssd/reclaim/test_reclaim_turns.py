"""Turns of reclaim: how much one process frees before it gives the lock back."""

import fcntl
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from forebay.core.events import unobserved
from forebay.policy.pins import NO_PINS
from forebay.policy.pools import Pool
from forebay.storage.cache_origin import CacheOrigins
from forebay.storage.ssd.index.index_updates import IndexUpdates
from forebay.storage.ssd.reclaim.reclaim import Reclaim
from forebay.storage.ssd.reclaim.reclaim_turns import MAX_WAITS, STEPS_IN_A_TURN, ReclaimTurns
from forebay.storage.ssd.reclaim.ssd_pins import SsdPins
from forebay.storage.ssd.reclaim.ssd_pools import SsdPools
from forebay.storage.ssd.recovery import OpenDirectory, close_directory, open_directory
from forebay.storage.ssd.segment_appender import SegmentAppenders, encode_record
from forebay.storage.ssd.segments.addressing import BLOCK_ADDRESS, OBJECT_ADDRESS
from forebay.storage.ssd.segments.block_location import BlockLocation
from forebay.storage.ssd.segments.segment_label import PLAIN, SegmentLabel, pool_id
from forebay.storage.ssd.write_queue import WriteQueue
from harness.ssd_rig import MIB, NOW, ORIGIN, block_id, content_of, head_for, trusting_run

SEGMENTS = 40
STEPS_OF_A_SEGMENT = 2
"""It has one record: that is read, then the file is deleted."""
SHARE = Pool("set/**", "epoch", None)


@dataclass
class _Turns:
    opened: OpenDirectory
    turns: ReclaimTurns
    pools: SsdPools
    measured: int = 0
    """Times that the sizes of all segments were read again."""
    on_measure: Callable[[], None] = lambda: None

    def segments(self) -> int:
        return len(self.opened.space.segments())


class QueueBeside(WriteQueue):
    """A queue in whose process nothing is pending. Another process commits whenever this is looked for."""

    def __init__(self, commit: Callable[[bytes], None]) -> None:
        super().__init__(MIB, MIB)
        self._commit = commit

    def has_pending(self, address: bytes) -> bool:
        self._commit(address)
        return super().has_pending(address)


@contextmanager
def turns_of(
    path: Path, queue: WriteQueue | None = None, label_of: Callable[[int], SegmentLabel] = lambda _: PLAIN
) -> Iterator[_Turns]:
    """The turns of one process of several, in a directory with so many segments of one block."""
    run, origins = trusting_run(path), CacheOrigins.single(ORIGIN)
    opened = open_directory(path, 64 * MIB, origins, lambda: NOW, unobserved, run, family="node")
    pins = SsdPins(opened.addressing, opened.space, NO_PINS)
    pools = SsdPools(opened.index, opened.space, pins, lambda: NOW)
    appenders = SegmentAppenders(opened.index, opened.segments, opened.space)
    queue = queue or WriteQueue(MIB, MIB)

    def measure() -> None:
        found.measured += 1
        found.on_measure()
        pools.measure()

    reclaim = Reclaim(opened, appenders, pools, pins, queue, unobserved)
    found = _Turns(opened, ReclaimTurns(opened.directory, reclaim, pools, queue, measure), pools)
    for number in range(SEGMENTS):
        block, (name, head) = block_id(f"key-{number}"), head_for(f"key-{number}")
        address = opened.addressing.block_address(block)
        (location,) = appenders.append(label_of(number), [encode_record(address, content_of(block, 1000))])
        appenders.finish(label_of(number))
        with opened.index.write_transaction() as txn:
            updates = IndexUpdates(txn, opened.index.tables)
            updates.put_block(address, location)
            updates.put_head(name, opened.addressing.object_address(name), head)
    appenders.release_filled()
    yield found
    close_directory(opened)


def test_a_turn_frees_many_segments(tmp_path: Path) -> None:
    """To take the lock costs a look at every segment, as other processes have written meanwhile."""
    with turns_of(tmp_path / "ssd") as process:
        process.turns.reclaim_until(lambda: process.segments() <= 4, is_full=True)
        assert process.segments() == 4
        assert process.measured == -(-(SEGMENTS - 4) * STEPS_OF_A_SEGMENT // STEPS_IN_A_TURN)


def test_a_turn_ends_as_soon_as_there_is_enough(tmp_path: Path) -> None:
    with turns_of(tmp_path / "ssd") as process:
        process.turns.reclaim_until(lambda: process.segments() < SEGMENTS, is_full=True)
        assert process.segments() == SEGMENTS - 1


def test_the_lock_is_given_back(tmp_path: Path) -> None:
    with turns_of(tmp_path / "ssd") as process:
        process.turns.reclaim_until(lambda: process.segments() <= 4, is_full=True)
        with (tmp_path / "ssd" / "reclaim.lock").open("wb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)


@contextmanager
def share_of(path: Path) -> Iterator[_Turns]:
    """Segments of a stable share, half of them in either of its two last bands."""
    number = pool_id(SHARE.name, is_epoch=True)
    with turns_of(path, label_of=lambda nth: SegmentLabel(number, nth * 2 // SEGMENTS)) as process:
        process.pools.label_of(block_id("key-0"), bytes(OBJECT_ADDRESS), SHARE)
        process.pools.measure()
        yield process


def bands(process: _Turns) -> Counter[int]:
    return Counter(process.opened.space.label_of(number).band for number in process.opened.space.segments())


def test_what_others_write_above_a_threshold_goes_first(tmp_path: Path) -> None:
    with share_of(tmp_path / "ssd") as process, ExitStack() as writers:
        for number in process.opened.space.segments()[: SEGMENTS // 2]:
            file = writers.enter_context(process.opened.segments.path(number).open("rb"))
            fcntl.flock(file, fcntl.LOCK_SH)
        looks: list[Counter[int]] = []

        def look() -> None:
            looks.append(bands(process))
            if len(looks) == 5:
                writers.close()  # they have read the threshold

        process.on_measure = look
        process.turns.reclaim_until(lambda: process.segments() <= SEGMENTS // 2 + 1, is_full=True)
        assert looks[:5] == [Counter({0: SEGMENTS // 2, 1: SEGMENTS // 2})] * 5
        assert bands(process) == Counter({0: 1, 1: SEGMENTS // 2})


def test_others_that_go_on_writing_cost_a_batch_and_no_share(tmp_path: Path) -> None:
    """Such a process may have been stopped."""
    with share_of(tmp_path / "ssd") as process:
        with process.opened.segments.path(process.opened.space.segments()[0]).open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH)
            process.turns.reclaim_until(lambda: process.segments() <= 4, is_full=True)
        assert bands(process) == Counter({0: 1, 1: SEGMENTS // 2})
        assert process.measured > MAX_WAITS


def test_nothing_left_to_reclaim_ends_it(tmp_path: Path) -> None:
    with turns_of(tmp_path / "ssd") as process:
        process.turns.reclaim_until(lambda: False, is_full=True)
        assert process.segments() == 0


def test_a_segment_that_another_process_has_just_begun_is_left(tmp_path: Path) -> None:
    """Its row comes before its file: the process is about to write to it."""
    with turns_of(tmp_path / "ssd") as process:
        index = process.opened.index
        with index.write_transaction() as txn:
            number = IndexUpdates(txn, index.tables).add_segment()
        process.opened.space.add(number, PLAIN)
        process.turns.reclaim_until(lambda: False, is_full=True)
        assert list(index.segments()) == [number]


def test_a_head_goes_with_the_last_block(tmp_path: Path) -> None:
    with turns_of(tmp_path / "ssd") as process:
        process.turns.reclaim_until(lambda: process.segments() <= 4, is_full=True)
        assert process.opened.index.count() == (4, 4)


def test_a_head_stays_whose_block_another_process_commits_meanwhile(tmp_path: Path) -> None:
    def commit(address: bytes) -> None:
        with process.opened.index.write_transaction() as txn:
            IndexUpdates(txn, process.opened.index.tables).put_block(
                address + bytes(BLOCK_ADDRESS - len(address)), BlockLocation(SEGMENTS, 0, 1000)
            )

    with turns_of(tmp_path / "ssd", QueueBeside(commit)) as process:
        process.turns.reclaim_until(lambda: process.segments() <= 4, is_full=True)
        assert process.opened.index.count() == (SEGMENTS, SEGMENTS), "blocks, and heads that lead to them"
