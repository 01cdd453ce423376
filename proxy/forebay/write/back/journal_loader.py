"""The journal loader: shows the records that a scan has found to readers, in the order in which they depend on each
other, and logs which are damaged, or of another origin.

    scan ──those that are not known, RECORDS a step──> decoded ──sorted──> shown, RECORDS a step

A running Forebay scans its journal each minute, which may have a million records, nearly all of them known; and other
workers wait for one that starts to answer, with what they acknowledge: so a load is cooperative work
(core.cooperative).
"""

import logging
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from operator import itemgetter
from typing import Final, TypeAlias

from forebay.core.cooperative import CooperativeWork
from forebay.core.names import ObjectName
from forebay.storage.journal.log_writer import RecordId
from forebay.storage.journal.record_origins import RecordOrigins
from forebay.storage.journal.recovery_scan import JournalScan, PendingRecord
from forebay.write.back.drain.origin_versions import OriginVersions
from forebay.write.back.pending.accepted_write import (
    AcceptedPart,
    AcceptedUpload,
    AcceptedWrite,
    JournalEntry,
    MovedUpload,
    decode_record,
)
from forebay.write.back.pending.shown_records import ShownRecords

RECORDS: Final = 50
"""Records that are loaded in one step, between which other callbacks may run."""

_FoundRecord: TypeAlias = tuple[tuple[int, int], JournalEntry, PendingRecord, str | None]
"""The order of showing, the entry, its record, and the reason why it can't be carried out; None: there is none."""

_log = logging.getLogger(__name__)


class JournalLoader:
    """Loads scans into `shown` and `versions`."""

    def __init__(self, origins: RecordOrigins, shown: ShownRecords, versions: OriginVersions) -> None:
        self._origins = origins
        self._shown = shown
        self._versions = versions

    def load(
        self, scan: JournalScan, take_received: Callable[[], Sequence[PendingRecord]] = tuple, *, is_first: bool = False
    ) -> CooperativeWork[None]:
        """Shows the pending writes that are not shown yet. `take_received()`: the records from other workers since the
        last call; the load ends when there are none. The first ones are taken when the scan is read, and shown with it:
        a scan that has a completion may have come too early for its parts, which were announced to all workers before.
        `is_first`: what others, earlier runs or the drainer before this one, have made of objects at the origin is
        learnt too; later this worker knows better."""
        _log_damages(scan, is_first=is_first)
        yield from self._note_settled(scan, is_first=is_first)
        found = yield from self._unshown(scan)
        while True:
            for record in take_received():
                entry = decode_record(record)
                found.append((_load_order(entry), entry, record, None))
            if not found:
                if is_first and not scan.damages:  # what is needed may be what can't be read
                    self._shown.settle_orphans()
                return
            found.sort(key=itemgetter(0))
            for number, (_, entry, record, obstacle) in enumerate(found, 1):
                if obstacle is None:
                    self._shown.show(entry, record.id, record.payload, is_recovered=True)
                else:
                    self._shown.keep(entry, record.id, record.payload, obstacle)
                if number % RECORDS == 0:
                    yield
            found = []

    def _note_settled(self, scan: JournalScan, *, is_first: bool) -> CooperativeWork[None]:
        """Notes the writes that have arrived at the origin. `is_first`: learns their versions as well."""
        with self._versions.learning() if is_first else nullcontext() as learn:
            for number, ((bucket, key, origin), (written, etag)) in enumerate(scan.settled.items(), 1):
                if number % RECORDS == 0:
                    yield
                if self._origins.is_current(bucket, origin):
                    name = ObjectName(bucket, key)
                    self._shown.note_arrived(name, written)
                    if learn is not None:
                        learn(name, etag)

    def _unshown(self, scan: JournalScan) -> CooperativeWork[list[_FoundRecord]]:
        """Returns the pending records of a scan that are to be shown. Settles those that are of no use any more."""
        found: list[_FoundRecord] = []
        needless: list[RecordId] = []
        for number, record in enumerate(scan.pending, 1):
            if number % RECORDS == 0:
                yield
            if self._shown.is_known(record.id):
                continue
            try:
                entry, obstacle = decode_record(record), self._origins.obstacle(record.document)
            except ValueError as error:
                _log.error("record %d of the log %s is left alone: %s", record.id.number, record.id.log, error)
                continue
            if obstacle is None and record.id in scan.refused:
                self._shown.refuse_found(record.id)
            elif isinstance(entry, AcceptedUpload | AcceptedPart) and entry.upload_id in scan.ended_uploads:
                needless.append(record.id)
            else:
                found.append((_load_order(entry), entry, record, obstacle))
        self._shown.settle_found(needless)
        return found


def _log_damages(scan: JournalScan, *, is_first: bool) -> None:
    for log, damages in scan.damages.items():
        for damage in damages:
            _log.error("the journal's log %s is damaged from byte %d to %d", log, damage.start, damage.stop)
    for log, end in scan.torn.items() if is_first else ():
        torn = "the journal's log %s is torn from byte %d to %d: never acknowledged, or its last write, damaged"
        _log.warning(torn, log, end.start, end.stop)


def _load_order(entry: JournalEntry) -> tuple[int, int]:
    """The order in which the records of a scan are shown: uploads, where they are, their parts, what ends them."""
    match entry:
        case AcceptedUpload():
            return 0, 0
        case MovedUpload():
            return 1, 0
        case AcceptedPart():
            return 2, entry.stamp
        case AcceptedWrite():
            return 3, entry.interval.written
        case _:
            return 4, 0
