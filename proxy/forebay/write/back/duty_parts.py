"""The drain duty of one worker, and the parts by which its holder decides about uploads: made here, in the order in
which they need each other.

moves ──> expiry ──> duty <── endings: asked by workers that don't have it
  └── whether this worker has the duty
"""

from dataclasses import dataclass

from forebay.write.back.accept.upload_expiry import UploadExpiry
from forebay.write.back.accept.upload_moves import UploadMoves
from forebay.write.back.drain_duty import DrainDuty
from forebay.write.back.drain_parts import DrainParts
from forebay.write.back.record_parts import RecordParts
from forebay.write.back.upload_endings import UploadEndings
from forebay.write.back.write_back_context import JournalState, WriteBackEvents, WriteBackLimits, WriteBackWorker


@dataclass(frozen=True, slots=True)
class DutyParts:
    """See the module."""

    duty: DrainDuty
    moves: UploadMoves
    expiry: UploadExpiry
    endings: UploadEndings


def compose_duty(
    state: JournalState,
    worker: WriteBackWorker,
    limits: WriteBackLimits,
    events: WriteBackEvents,
    records: RecordParts,
    drain: DrainParts,
) -> DutyParts:
    """Makes the parts. The duty hears of all records that are shown from now on."""
    moves = UploadMoves(
        state.uploads,
        drain.at_origin,
        records.writer,
        drain.settlement.settle,
        worker.tasks,
        worker.peers,
        lambda: duty.is_ready,
        drain.pauses,
        events.moved,
        events.damaged,
    )
    expiry = UploadExpiry(
        state.uploads,
        worker.peers,
        moves.abandon,
        state.journal.stamp,
        worker.clock,
        max_age=limits.upload_max_age,
        size=limits.size,
        on_expired=events.expired,
    )
    duty = DrainDuty(drain.drainer, drain.settlement, moves, expiry, worker.tasks)
    records.shown.listener = duty
    return DutyParts(duty, moves, expiry, UploadEndings(duty, records.shown, worker.peers))
