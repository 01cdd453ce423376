"""The parts that requests meet, of one worker: made here, in the order in which they need each other.

upload_room ──> joined ──> uploads ──┐
sources ────────────┴────> objects ──┴──> acceptance <── proofs, probe, room
moved_requests: of uploads that go on at the origin; listings: of uploads here and there
"""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass

from forebay.origin.origin_checks import OriginChecks
from forebay.write.back.accept.acceptance import Acceptance
from forebay.write.back.accept.copy_sources import CopySources
from forebay.write.back.accept.joined_parts import JoinedParts
from forebay.write.back.accept.moved_upload_requests import MovedUploadRequests
from forebay.write.back.accept.object_acceptance import ObjectAcceptance
from forebay.write.back.accept.upload_acceptance import UploadAcceptance
from forebay.write.back.accept.upload_listing import UploadListings
from forebay.write.back.accept.upload_room import UploadRoom
from forebay.write.back.accept.write_probe import WriteProbe
from forebay.write.back.drain.origin_completion import CompletionAtOrigin, Learn
from forebay.write.back.drain_parts import DrainParts
from forebay.write.back.duty_parts import DutyParts
from forebay.write.back.record_parts import RecordParts
from forebay.write.back.write_back_context import JournalState, OriginAccess, WriteBackWorker
from forebay.write.back.write_barriers import WriteBarriers
from forebay.write.forward_request import WriteContext
from forebay.write.repeated_completion import RepeatedCompletions


@dataclass(frozen=True, slots=True)
class AcceptanceParts:
    """See the module."""

    probe: WriteProbe
    acceptance: Acceptance
    moved_requests: MovedUploadRequests
    listings: UploadListings


def compose_acceptance(
    state: JournalState,
    origin: OriginAccess,
    worker: WriteBackWorker,
    records: RecordParts,
    drain: DrainParts,
    duty: DutyParts,
    barriers: WriteBarriers,
    learn: Learn,
    deciding: Callable[[WriteContext], AbstractAsyncContextManager[None]],
) -> AcceptanceParts:
    """Makes the parts. `learn`: see CompletionAtOrigin; `deciding`: see UploadAcceptance."""
    writer, proofs, room, origins = records.writer, records.proofs, records.room, origin.origins
    sources, upload_room = CopySources(origins, state.pending), UploadRoom(room, proofs, duty.moves)
    uploads = UploadAcceptance(
        writer,
        state.uploads,
        origin.forwarder,
        upload_room,
        sources,
        CompletionAtOrigin(drain.persister, barriers.before_write, learn),
        duty.endings.is_refused,
        duty.expiry,
        JoinedParts(writer, state.pending, upload_room, origins),
        deciding,
        RepeatedCompletions(origins),
    )
    objects = ObjectAcceptance(writer, state.pending, sources)
    probe = WriteProbe(origins, proofs, worker.tasks, worker.monotonic)
    return AcceptanceParts(
        probe,
        Acceptance(writer, objects, uploads, proofs, probe, room.has_room, OriginChecks(origins)),
        MovedUploadRequests(state.uploads, duty.moves, duty.expiry, origins, barriers.wait),
        UploadListings(state.uploads, state.pending, drain.own_uploads, origins),
    )
