"""Shown records: the unsettled records that one worker knows, and what its readers see of them.

    show   ──> a write: a pending version of its object, which the drainer carries out
               an upload, a part: its writers see it
    keep   ──> a write that was accepted for another origin: nobody sees it, a person decides
    forget <── settled: the origin has it, or a person gave it up

Records come from the journal at a start, from this worker's own requests and from other workers, more than once; a
message about a settled one may come late. The bytes of a completed upload are those of the parts that are shown before
it: journal_loader sorts what comes at once.

An upload may be completed and aborted at once, in two workers, or completed and moved to the origin. What the draining
worker hears of first counts: it settles the parts of an aborted upload, and those of a moved one that the origin has,
and refuses what comes after (`refused`). A completion of a moved upload is carried out if all of its parts are here:
each worker sees that alike, so that any of them can take the drain over. What the drainer has left unsettled is settled
by the one that takes over. Of two completions whose decision is not known both are carried out (completed_uploads).
"""

import logging
from collections.abc import Collection, Sequence
from itertools import islice
from typing import NamedTuple, Protocol

from cachetools import FIFOCache

from forebay.core.names import ObjectName
from forebay.storage.journal.body_file import BodyRef
from forebay.storage.journal.log_writer import RecordId
from forebay.storage.journal.pending_objects import BodyPart, Objects, PendingObjects, PendingVersion
from forebay.storage.tiers import Tiers
from forebay.write.back.pending.accepted_write import (
    AbortedUpload,
    AcceptedPart,
    AcceptedUpload,
    AcceptedWrite,
    JournalEntry,
    MovedUpload,
    body_parts,
)
from forebay.write.back.pending.backlog import BacklogSums
from forebay.write.back.pending.completed_uploads import CompletedUploads
from forebay.write.back.pending.obsolete_records import ObsoleteRecords
from forebay.write.back.pending.pending_uploads import PendingPart, PendingUpload, PendingUploads
from forebay.write.back.pending.settled_records import REMEMBERED, LastSettled, SettledRecords
from forebay.write.invalidation import Invalidator
from forebay.write.repeated_completion import completion_digest

_log = logging.getLogger(__name__)


class KeptWrite(NamedTuple):
    """A write that was accepted for another origin than its bucket has now."""

    write: AcceptedWrite
    version: PendingVersion
    reason: str
    """Why it is not carried out, in words."""


class RecordListener(Protocol):
    """Is called for each shown record (write.back.drain_duty)."""

    def carry_out(self, write: AcceptedWrite, version: PendingVersion, *, is_recovered: bool) -> None:
        """A write is shown."""
        ...

    def carry_parts(self, upload: PendingUpload) -> None:
        """An upload goes on at the origin, and has parts here."""
        ...

    def settle_soon(self, records: Sequence[RecordId]) -> bool:
        """These records are no longer needed. Returns whether this worker settles them."""
        ...


class ShownRecords:
    """The records of one worker. `listener`: set before anything is shown."""

    listener: RecordListener

    def __init__(
        self, pending: PendingObjects, uploads: PendingUploads, invalidator: Invalidator, tiers: Tiers
    ) -> None:
        self._pending = pending
        self._uploads = uploads
        self._invalidator = invalidator
        self._tiers = tiers
        self.writes: dict[RecordId, AcceptedWrite] = {}
        """The writes that are shown."""
        self.kept: dict[RecordId, KeptWrite] = {}
        """The writes that are kept: not shown, as they are of another origin."""
        self.sums = BacklogSums()
        """The sums of `writes` and `kept`."""
        self.unsettled: dict[RecordId, str] = {}
        """Writes that the origin has and the journal can't note, and why: all that comes after them waits."""
        self.stopped: dict[RecordId, str] = {}
        """Writes that are left to a person, and why: all that comes after them waits for that person."""
        self._kept_uploads = PendingUploads()
        self.in_memory = 0
        """Bytes of small bodies that are pending: each worker has them all."""
        self._known: dict[RecordId, int] = {}
        """All unsettled records, and the bytes of their bodies in memory."""
        self.last_settled = LastSettled()
        self._settled = SettledRecords()
        self.remembering = self._settled.remembering
        self._completed = CompletedUploads()
        self._ended_uploads: FIFOCache[str, bool] = FIFOCache(REMEMBERED)
        """Uploads that have ended: whether this worker has settled their parts, as they were aborted."""
        self.refused: FIFOCache[RecordId, None] = FIFOCache(REMEMBERED)
        """Completions of such uploads, and aborts of uploads that were completed."""
        self._obsolete = ObsoleteRecords(self._settle_soon)

    def show(self, entry: JournalEntry, record: RecordId, payload: bytes, *, is_recovered: bool) -> None:
        """Shows a record, unless it is known or was settled."""
        if not self._is_new(record, _in_memory(entry, payload)):
            return
        match entry:
            case AcceptedUpload():
                if entry.upload_id not in self._ended_uploads:
                    self._uploads.create(record, entry)
            case AcceptedPart():
                self._uploads.add(PendingPart(record, entry, body_parts(entry.bodies, payload)))
                if entry.upload_id in self._ended_uploads and not self._completed.lists(entry.upload_id, record):
                    self._obsolete.settle([record])
                upload = self._uploads.by_id.get(entry.upload_id)
                if upload is not None and upload.origin_id:
                    self.listener.carry_parts(upload)
            case MovedUpload():
                upload = self._uploads.move(record, entry)
                if upload is None:
                    self._obsolete.settle([record])
                else:
                    self.listener.carry_parts(upload)
            case AbortedUpload():
                self._uploads.end_at_origin(entry, record)
                upload = self._uploads.end(entry.upload_id)
                is_settled = self._obsolete.settle([*(upload.records if upload is not None else ()), record])
                if upload is not None:
                    self._ended_uploads[entry.upload_id] = is_settled
                elif is_settled and self._uploads.is_completed(entry.upload_id):
                    self.refused[record] = None
            case AcceptedWrite():
                if entry.kind == "complete":
                    if self._is_repeated(entry, record, payload, is_recovered=is_recovered):
                        return
                    if self._is_refused(entry):
                        self._refuse(record)
                        return
                    self._uploads.complete(entry, record, payload)
                version = entry.version(record, self._parts_of(self._uploads, entry, record, payload))
                if self.last_settled.supersedes(entry):
                    _log.info("a write of %s is replaced by a later one that has arrived already", entry.name.path)
                    self._obsolete.settle(self.with_upload(record))
                    return
                self.writes[record] = entry
                self.sums.add(entry)
                self._pending.add(entry.name, version)
                self._invalidator.fence((entry.name,))
                self._tiers.memory.forget(entry.name)
                self.listener.carry_out(entry, version, is_recovered=is_recovered)

    def keep(self, entry: JournalEntry, record: RecordId, payload: bytes, reason: str) -> None:
        """Keeps a record of another origin, unless it is known."""
        if not self._is_new(record, _in_memory(entry, payload)):
            return
        match entry:
            case AcceptedUpload():
                self._kept_uploads.create(record, entry)
            case AcceptedPart():
                self._kept_uploads.add(PendingPart(record, entry, body_parts(entry.bodies, payload)))
            case MovedUpload():
                self._kept_uploads.move(record, entry)
            case AbortedUpload():
                upload = self._kept_uploads.end(entry.upload_id)
                self._obsolete.settle([*(upload.records if upload is not None else ()), record])
            case AcceptedWrite():
                parts = self._parts_of(self._kept_uploads, entry, record, payload)
                self.kept[record] = KeptWrite(entry, entry.version(record, parts), reason)
                self.sums.add(entry)

    def _is_repeated(self, entry: AcceptedWrite, record: RecordId, payload: bytes, *, is_recovered: bool) -> bool:
        """Whether an upload is completed once more, at once with the first time. The draining worker settles the
        record, and refuses a completion by another list, unless that may be the one which the last drainer had
        accepted: the first one's parts are settled with its arrival."""
        if not self._uploads.is_completed(entry.upload_id):
            return False
        is_another = self._uploads.completion(entry.upload_id, completion_digest(payload)) is None
        is_undecided = is_another and is_recovered and entry.upload_id in self._completed
        if is_undecided or not self._settle_soon([record]):
            return False
        if is_another:
            self.refused[record] = None
        return True

    def _settle_soon(self, records: Sequence[RecordId]) -> bool:
        return self.listener.settle_soon(records)

    def _refuse(self, record: RecordId) -> None:
        self.refused[record] = None
        self._obsolete.settle([record])

    def refuse_found(self, record: RecordId) -> None:
        """A scan has found a completion that an earlier drainer had refused, and not settled."""
        if self._is_new(record):
            self._refuse(record)

    def settle_left(self) -> None:
        """Has settled what the worker that has drained until now was to settle."""
        self._obsolete.settle_left(self._completed.listed())

    def settle_found(self, records: Sequence[RecordId]) -> None:
        """Has records settled that a scan has found, and nothing needs: those of uploads that have ended."""
        self._obsolete.settle([record for record in records if self._is_new(record)])

    def settle_orphans(self) -> None:
        """Has the parts settled whose uploads an earlier run has ended. Once all that the journal has is shown."""
        found = ((record, part.part.upload_id) for record, part in self._uploads.parts.items())
        known = self._uploads.by_id
        self._obsolete.settle([record for record, of in found if of not in known and of not in self._completed])

    def _is_refused(self, entry: AcceptedWrite) -> bool:
        """Whether a completion comes after the abort of its upload, or lists a part that the origin alone has."""
        upload = self._uploads.by_id.get(entry.upload_id)
        if upload is not None and upload.origin_id:
            return any(
                part.record not in self._uploads.parts or part.record in self._uploads.carried for part in entry.parts
            )
        return self._ended_uploads.get(entry.upload_id, False)

    def refuse_without(self, settled: Collection[RecordId]) -> None:
        """Refuses the completions that list one of these parts. For a worker that takes the drain over: the one before
        it had settled them, and told nobody."""
        for record in self._completed:
            write = self.writes.get(record)
            if write is not None and any(part.record in settled for part in write.parts):
                del self.writes[record]
                self.sums.remove(write)
                self._pending.remove(write.name, record)
                self._completed.forget(record)
                self._refuse(record)

    def is_known(self, record: RecordId) -> bool:
        """Returns whether a record is known, or was settled."""
        return record in self._known or record in self._settled

    def _is_new(self, record: RecordId, in_memory: int = 0) -> bool:
        if self.is_known(record):
            return False
        self._known[record] = in_memory
        self.in_memory += in_memory
        return True

    def _parts_of(
        self, uploads: PendingUploads, write: AcceptedWrite, record: RecordId, payload: bytes
    ) -> tuple[BodyPart, ...]:
        if write.kind != "complete":
            return body_parts(write.bodies, payload)
        upload = uploads.end(write.upload_id)
        self._ended_uploads[write.upload_id] = False
        self._completed.add(record, write, upload.records if upload is not None else ())
        known = [uploads.parts.get(part.record) for part in write.parts]
        return tuple(piece for part in known if part is not None for piece in part.bytes)

    def note_unsettled(self, record: RecordId, reason: str) -> None:
        """Notes why a write that the origin has can't be settled, until it is; nothing of one that is settled."""
        if record in self.writes:
            self.unsettled[record] = reason

    def note_stopped(self, record: RecordId, reason: str) -> None:
        """Notes why a write is left to a person; an empty reason: it is tried again. Nothing of one that is settled."""
        if not reason:
            self.stopped.pop(record, None)
        elif record in self.writes:
            self.stopped[record] = reason

    def is_held_up(self, objects: Objects) -> bool:
        """Returns whether one of these objects has a write that is left to a person, or that comes after such a one."""
        stopped = [write for record in self.stopped if (write := self.writes.get(record)) is not None]
        if callable(objects):  # a bucket, or a prefix of it: what comes after in it is not looked for
            return any(objects(write.name) for write in stopped)
        current = ((name, self._pending.current(name)) for name in objects) if stopped else ()
        last = [(name, self.writes.get(version.record)) for name, version in current if version is not None]
        return any(
            name == write.name
            or (
                name.bucket == write.name.bucket and found is not None and found.interval.began > write.interval.written
            )
            for name, found in last
            for write in stopped
        )

    def oldest(self, now: float) -> float:
        """Returns when the oldest write was accepted, in seconds since the epoch; `now`: there is none. They are in the
        order in which they became known, which is that of their acceptance but for the way between two workers."""
        first = [*islice(self.writes.values(), 1), *(kept.write for kept in islice(self.kept.values(), 1))]
        return min((write.accepted_at for write in first), default=now)

    def known(self) -> frozenset[RecordId]:
        """Returns all unsettled records, as far as this worker knows."""
        return frozenset(self._known)

    def with_upload(self, record: RecordId) -> list[RecordId]:
        """Returns a record, and those of the upload that it completes, unless another completion needs them."""
        return [record, *self._completed.settled_with(record)]

    def bodies_of(self, record: RecordId) -> tuple[BodyRef, ...]:
        """Returns the body files of a record."""
        if record in self.writes:
            return self.writes[record].bodies
        if record in self.kept:
            return self.kept[record].write.bodies
        part = self._uploads.parts.get(record) or self._kept_uploads.parts.get(record)
        return part.part.bodies if part is not None else ()

    def forget(self, record: RecordId, *, is_persisted: bool = False) -> AcceptedWrite | None:
        """Forgets a settled record, and returns its write, if it was shown. `is_persisted`: the origin has it."""
        self.in_memory -= self._known.pop(record, 0)
        self._obsolete.forget(record)
        self._completed.forget(record)
        self._settled.add(record)
        self._uploads.settle(record)
        self._kept_uploads.settle(record)
        if (kept := self.kept.pop(record, None)) is not None:
            self.sums.remove(kept.write)
        self.unsettled.pop(record, None)
        self.stopped.pop(record, None)
        write = self.writes.pop(record, None)
        if write is not None:
            self.sums.remove(write)
            self._pending.remove(write.name, record)
            if is_persisted:
                self.note_arrived(write.name, write.interval.written)
            if write.kind == "complete":
                self._uploads.settle_completion(write, record, is_at_origin=is_persisted)
        return write

    def note_arrived(self, name: ObjectName, written: int) -> None:
        """The origin has a write of the object. Earlier ones are superseded: readers don't see them any more, and the
        drainer settles them."""
        self.last_settled.add(name, written)
        for version in self._pending.versions(name):
            if version.written < written:
                self._pending.remove(name, version.record)


def _in_memory(entry: JournalEntry, payload: bytes) -> int:
    """Bytes of a record that stay in memory: not the document of a completion."""
    return 0 if isinstance(entry, AcceptedWrite) and entry.kind == "complete" else len(payload)
