"""A flush: waits until the writes that were pending under a prefix are at the origin.

    waits ──> none is left
      ├──LOOK_SECONDS──> all that are left wait for a person: it ends, and names the stuck writes
      └──> the time is over

A write waits for a person if it is stuck or in conflict, or has to come after such a write (policy.drain_order). While
any other write is left, the flush continues: that one may well arrive. A write that the origin has and the journal
can't note, because its file system is read-only, does not count as left; but a later write of its object waits until a
person repairs that, and so do all writes after it. A flush can run in any worker: each knows all writes.
"""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import chain
from math import inf
from typing import Final, NamedTuple

from forebay.core.names import ObjectName
from forebay.core.pending_write import StuckWrite
from forebay.storage.journal.log_writer import RecordId
from forebay.storage.journal.pending_objects import PendingObjects
from forebay.write.back.pending.accepted_write import AcceptedWrite, write_id
from forebay.write.back.pending.shown_records import ShownRecords
from forebay.write.back.write_barriers import wait_unless

NAMED: Final = 10
"""Stuck writes that an answer names."""


class FlushReport(NamedTuple):
    """The result of a flush."""

    left: int
    """The number of writes that were pending when it began and are not at the origin."""
    before: str
    """The `before` by which another flush waits for the same ones."""
    held_up: int
    """The number of those that wait for a person. If all do, no other flush gets further."""
    stuck: tuple[StuckWrite, ...]
    """The stuck writes that they wait for, the oldest first, NAMED at most."""
    found: int = 0
    """The number of writes that were not at the origin when the flush began."""


class NodeFlush:
    """A flush of the writes until `latest`, on the node's clock."""

    def __init__(self, shown: ShownRecords, pending: PendingObjects, bucket: str, prefix: str, latest: int) -> None:
        self._shown = shown
        self._pending = pending
        self._bucket = bucket
        self._prefix = prefix
        self._latest = latest
        self._found = 0

    async def wait(self, seconds: float) -> None:
        """Waits for so many seconds at most."""
        found = [write.name for _, write in self._left()]
        self._found, names = len(found), set(found)
        with suppress(TimeoutError):
            await wait_unless(self._pending.wait_settled(names), self._is_over, seconds)

    def report(self) -> FlushReport:
        """Returns the remaining writes."""
        left, stuck = dict(self._left()), _StuckWrites(self._shown, self._pending)
        held_up = (
            {record: write for record, write in left.items() if stuck.delays(record, write)} if stuck.by_record else {}
        )
        last = max((write.interval.began for write in held_up.values()), default=0)
        named = [
            (write.interval.written, StuckWrite(write_id(record), *write.name, reason))
            for record, (write, reason) in stuck.by_record.items()
            if record in held_up
            or (write.name.bucket == self._bucket and (write.interval.written < last or record in stuck.unsettled))
        ]
        first = tuple(each for _, each in sorted(named)[:NAMED])
        return FlushReport(len(left), str(self._latest), len(held_up), first, self._found)

    def _is_over(self) -> bool:
        """Whether nothing is left that could arrive. The oldest are looked at first: most often one is enough."""
        stuck = _StuckWrites(self._shown, self._pending)
        if not (stuck.by_record or self._shown.unsettled):
            return False
        return all(stuck.delays(record, write) for record, write in self._left())

    def _left(self) -> Iterator[tuple[RecordId, AcceptedWrite]]:
        kept = ((record, each.write) for record, each in self._shown.kept.items())
        for record, write in chain(self._shown.writes.items(), kept):
            if (
                write.name.bucket == self._bucket
                and write.name.key.startswith(self._prefix)
                and write.interval.written <= self._latest
                and record not in self._shown.unsettled
            ):
                yield record, write


def waits_for_person(shown: ShownRecords, pending: PendingObjects) -> bool:
    """Returns whether all writes that are left, of all buckets, wait for a person."""
    stuck = _StuckWrites(shown, pending)
    if not stuck.by_record:
        return False
    return all(stuck.delays(record, write) for record, write in shown.writes.items() if record not in shown.unsettled)


class _StuckWrites:
    """The writes that are left to a person, at a moment."""

    def __init__(self, shown: ShownRecords, pending: PendingObjects) -> None:
        self._first: dict[str | ObjectName, int] = {}
        """The time at which the first write was accepted that others wait for, by bucket and by object."""
        stopped = _with_reasons(shown, shown.stopped)
        for write, _ in stopped.values():
            self._note(write.name.bucket, write.interval.written)
            self._note(write.name, write.interval.written)
        self.unsettled = dict[RecordId, tuple[AcceptedWrite, str]]()
        """The writes that the origin has, and for which a later write of their object waits."""
        for record, (write, reason) in _with_reasons(shown, shown.unsettled).items():
            waiting = [each.written for each in pending.versions(write.name) if each.record not in shown.unsettled]
            if waiting:
                self._note(write.name.bucket, min(waiting))
                self._note(write.name, write.interval.written)
                self.unsettled[record] = write, reason
        kept = {record: (each.write, each.reason) for record, each in shown.kept.items()}
        self.by_record = stopped | self.unsettled | kept
        """All writes that wait for a person, with the reasons. No write waits for those of another origin."""

    def _note(self, where: str | ObjectName, written: int) -> None:
        self._first[where] = min(written, self._first.get(where, written))

    def delays(self, record: RecordId, write: AcceptedWrite) -> bool:
        """Returns whether these writes delay a write: it is one of them, or has to wait for one."""
        return (
            record in self.by_record
            or write.interval.began > self._first.get(write.name.bucket, inf)
            or write.interval.written > self._first.get(write.name, inf)
        )


def _with_reasons(shown: ShownRecords, reasons: Mapping[RecordId, str]) -> dict[RecordId, tuple[AcceptedWrite, str]]:
    found = ((record, shown.writes.get(record), reason) for record, reason in reasons.items())
    return {record: (write, reason) for record, write, reason in found if write is not None}
