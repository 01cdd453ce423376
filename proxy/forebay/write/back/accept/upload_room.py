"""Upload room: a part is stored in the journal if there is room for it; else its upload goes on at the origin.

serving, or finishing the requests under way ──> the journal, if it has room: nobody waits for an upload that is
                                                 unfinished, and the next start goes on with it
ending, and serving for a while              ──> the origin, where it can be completed at once
"""

from forebay.write.back.accept.journal_room import JournalRoom
from forebay.write.back.accept.upload_moves import UploadMoves
from forebay.write.back.accept.write_proofs import WriteProofs
from forebay.write.back.pending.pending_uploads import PendingUpload


class UploadRoom:
    """The room for parts."""

    def __init__(self, room: JournalRoom, proofs: WriteProofs, moves: UploadMoves) -> None:
        self._room = room
        self._proofs = proofs
        self._moves = moves

    @property
    def is_ending(self) -> bool:
        """Whether new writes are not accepted any more, as the process is ending."""
        return self._room.is_ending

    async def has_room(self, size: int) -> bool:
        """Returns whether the journal takes `size` bytes more of an upload; if so, they count from now on."""
        return await self._room.has_room(size, for_part=True)

    async def reserve(self, upload: PendingUpload, size: int) -> None:
        """Reserves `size` bytes for a part, or has its upload moved to the origin, unless it has been. Raises S3Error,
        OriginError, Throttled."""
        if upload.origin_id or await self._room.has_room(size, for_part=True):
            return
        if not self._room.can_hold(upload.size + size):  # the next one need not be carried
            self._proofs.set_outgrown(upload.upload.name)
        await self._moves.move(upload)
