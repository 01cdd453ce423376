"""The parts that accept writes, of one worker: made here, in the order in which they need each other.

upload_room ──> joined ──> uploads ──┐
sources ────────────┴────> objects ──┴──> acceptance <── proofs, probe, room
"""

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager

from forebay.storage.journal.log_writer import RecordId
from forebay.write.back.accept.acceptance import Acceptance
from forebay.write.back.accept.copy_sources import CopySources
from forebay.write.back.accept.joined_parts import JoinedParts
from forebay.write.back.accept.journal_room import JournalRoom
from forebay.write.back.accept.object_acceptance import ObjectAcceptance
from forebay.write.back.accept.record_writer import RecordWriter
from forebay.write.back.accept.upload_acceptance import UploadAcceptance
from forebay.write.back.accept.upload_expiry import UploadExpiry
from forebay.write.back.accept.upload_moves import UploadMoves
from forebay.write.back.accept.upload_room import UploadRoom
from forebay.write.back.accept.write_probe import WriteProbe
from forebay.write.back.accept.write_proofs import WriteProofs
from forebay.write.back.drain.origin_completion import CompletionAtOrigin
from forebay.write.back.write_back_context import JournalState, OriginAccess
from forebay.write.forward_request import WriteContext


def compose_acceptance(
    state: JournalState,
    origin: OriginAccess,
    writer: RecordWriter,
    proofs: WriteProofs,
    probe: WriteProbe,
    room: JournalRoom,
    moves: UploadMoves,
    expiry: UploadExpiry,
    completion: CompletionAtOrigin,
    is_refused: Callable[[RecordId], Awaitable[bool]],
    deciding: Callable[[WriteContext], AbstractAsyncContextManager[None]],
) -> Acceptance:
    """`is_refused`, `deciding`: see UploadAcceptance."""
    sources, upload_room = CopySources(origin.origins, state.pending), UploadRoom(room, proofs, moves)
    uploads = UploadAcceptance(
        writer,
        state.uploads,
        origin.forwarder,
        upload_room,
        sources,
        completion,
        is_refused,
        expiry,
        JoinedParts(writer, state.pending, upload_room, origin.origins),
        deciding,
    )
    objects = ObjectAcceptance(writer, state.pending, sources)
    return Acceptance(writer, objects, uploads, proofs, probe, room.has_room)
