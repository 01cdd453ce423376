"""After a power cut at any call, in any state that the syncs allow, every acknowledged record is pending and whole."""

import errno
import os
from collections.abc import Callable
from contextlib import nullcontext
from random import Random
from typing import Final

import pytest

from forebay.core.byte_ranges import Span
from forebay.storage.journal.body_file import BodyReader, BodyRef, BodyWriter
from forebay.storage.journal.journal_layout import JournalLayout
from forebay.storage.journal.journal_reclaim import bodies_of, reclaim
from forebay.storage.journal.journal_record import encode_document
from forebay.storage.journal.log_writer import JournalFailed, LogWriter, NewRecord, RecordId
from forebay.storage.journal.recovery_scan import PendingRecord, scan_journal
from forebay.storage.journal.settled_numbers import append_settled
from harness.crash_disk import CrashDisk, PowerCut

LAYOUT: Final = JournalLayout("/journal")
SCALE: Final = int(os.environ.get("FOREBAY_CRASH_SCALE", "1"))
RANDOM_PROGRAMS: Final = 2000 * SCALE
STATES_OF_A_CUT: Final = 7  # the exponent of 2
OPERATIONS: Final = ("small", "batch", "room", "body", "settle", "reclaim", "end")


class Programme:
    """One process that writes, and what it was promised."""

    def __init__(self, disk: CrashDisk, random: Random) -> None:
        self.disk, self.random = disk, random
        self.writer = LogWriter(disk, LAYOUT, log_size=1500)
        self.number = 0
        self.contents: dict[int, bytes] = {}
        """Of everything that was ever submitted, by its own number."""
        self.acknowledged: dict[int, RecordId] = {}
        self.settling: set[int] = set()
        self.settled: set[int] = set()
        self.void: set[int] = set()

    def run(self, operation: str) -> None:
        getattr(self, f"_{operation}")()

    def _small(self) -> None:
        self._append([self._record(self.random.choice((0, 10, 700)))])

    def _batch(self) -> None:
        self._append([self._record(self.random.choice((5, 600))) for _ in range(self.random.randrange(2, 5))])

    def _room(self) -> None:
        self.writer.make_room()

    def _body(self) -> None:
        self.number += 1
        number, content = self.number, self.random.randbytes(self.random.choice((1, 512, 3000)))
        self.contents[number] = content
        body = BodyWriter(self.disk, LAYOUT)
        try:
            body.append([content[:100], content[100:]])
            document = {"write": number, "bodies": [list(body.finish())]}
            self._append([(number, NewRecord(encode_document(document)))])
        finally:
            body.release()

    def _settle(self) -> None:
        candidates = sorted(self.acknowledged.keys() - self.settling)
        if not candidates:
            return
        number = self.random.choice(candidates)
        self.settling.add(number)
        record = self.acknowledged[number]
        append_settled(self.disk, LAYOUT, record.log, [record.number])
        self.settled.add(number)

    def _reclaim(self) -> None:
        reclaim(self.disk, LAYOUT, nullcontext())

    def _end(self) -> None:
        """Another process takes over."""
        self.writer.close()

    def _record(self, size: int) -> tuple[int, NewRecord]:
        self.number += 1
        self.contents[self.number] = self.random.randbytes(size)
        return self.number, NewRecord(encode_document({"write": self.number}), self.contents[self.number])

    def _append(self, batch: list[tuple[int, NewRecord]]) -> None:
        try:
            ids = self.writer.append([record for _, record in batch])
        except JournalFailed as failure:
            if failure.voided:
                self.void.update(number for number, _ in batch)
            raise
        self.acknowledged.update(zip((number for number, _ in batch), ids, strict=True))

    def check(self, disk: CrashDisk) -> None:
        """What a start after the power cut finds on `disk`."""
        scan = scan_journal(disk, LAYOUT)
        assert not scan.damages, "a power cut is no damage"
        found = {record.document["write"]: record for record in scan.pending}
        assert len(found) == len(scan.pending), "once"
        assert not self.acknowledged.keys() - self.settling - found.keys(), "acknowledged, and lost"
        assert not found.keys() & (self.settled | self.void), "settled or void, and pending"
        for number, record in found.items():
            if number in self.acknowledged or not record.document.get("bodies"):
                assert content_of(disk, record) == self.contents[number]
        before = {record.id for record in scan.pending}
        assert {record.id for record in reclaim(disk, LAYOUT, nullcontext()).pending} == before
        assert {record.id for record in scan_journal(disk, LAYOUT).pending} == before


def content_of(disk: CrashDisk, record: PendingRecord) -> bytes:
    bodies = bodies_of(record.document)
    if not bodies:
        return record.payload
    ref: BodyRef = bodies[0]
    reader = BodyReader(disk, LAYOUT, ref)
    return bytes(reader.read(Span(0, ref.size)))


def new_disk() -> CrashDisk:
    disk = CrashDisk()
    for path in (LAYOUT.path, LAYOUT.logs, LAYOUT.bodies):
        disk.make_directory(path)
    return disk


def run(operations: tuple[str, ...], seed: int, prepare: Callable[[CrashDisk], None]) -> Programme:
    """Runs a program until it ends or the machine stops; failures of the disk are what a writer sees."""
    disk = new_disk()
    prepare(disk)
    programme = Programme(disk, Random(seed))
    try:
        for operation in operations:
            try:
                programme.run(operation)
            except JournalFailed:
                pass
            except OSError:
                pass
    except PowerCut:
        pass
    return programme


def stop_at(call: int, failing: range = range(0)) -> Callable[[CrashDisk], None]:
    """The machine stops at a call; those in `failing` fail before."""

    def prepare(disk: CrashDisk) -> None:
        disk.stop_at = call
        disk.fail_at = lambda number: OSError(errno.EIO, "EIO") if number in failing else None

    return prepare


def all_programs() -> list[tuple[str, ...]]:
    one = [(operation,) for operation in OPERATIONS]
    two = [(*first, second) for first in one for second in OPERATIONS]
    return [*one, *two, *((*first, third) for first in two for third in OPERATIONS)]


@pytest.mark.parametrize("operations", all_programs(), ids="-".join)
def test_every_cut_of_a_short_program(operations: tuple[str, ...]) -> None:
    calls = run(operations, 1, lambda _: None).disk.calls
    for call in range(calls + 1):
        programme = run(operations, 1, stop_at(call))
        for disk in programme.disk.every_power_cut(STATES_OF_A_CUT):
            programme.check(disk)


@pytest.mark.parametrize("seed", range(8))
def test_random_programs_lose_nothing(seed: int) -> None:
    for nth in range(RANDOM_PROGRAMS // 8):
        random = Random(f"{seed}/{nth}")
        operations = tuple(random.choices(OPERATIONS, (4, 2, 2, 3, 4, 2, 1), k=random.randrange(3, 12)))
        calls = run(operations, nth, lambda _: None).disk.calls
        first, count = random.randrange(2 * calls + 1), random.choice((1, 2, 5, 1000))
        programme = run(operations, nth, stop_at(random.randrange(calls + 1), range(first, first + count)))
        for _ in range(4):
            programme.check(programme.disk.after_power_cut(random))


def test_a_body_stays_until_its_settled_number_is_durable() -> None:
    """A number whose sync has failed is read back all the same, and forgotten by a power cut."""
    operations = ("body", "settle", "reclaim")
    for nth in range(run(operations, 1, lambda _: None).disk.calls):
        failed = run(operations, 1, stop_at(1 << 30, range(nth, nth + 1)))
        for disk in failed.disk.every_power_cut(STATES_OF_A_CUT):
            failed.check(disk)
