"""Joined parts: an OSS client's small parts become parts that an S3 origin accepts, when their upload is completed.

    parts      1 MiB  1 MiB  1 MiB  1 MiB  1 MiB | 1 MiB
    joined     10001 ────────────────────────────  10006       what the completion names; the origin has them as 1 and 6

The bytes are copied within the journal (forebay.policy.part_coalescing says which). The parts stay as they are until
the upload ends, so a completion that is repeated finds what it lists: a joined part has a number that no client can
have, and is none of the upload's own. Parts that are too small for the protocol of their client are refused.
"""

from collections.abc import AsyncIterator, Sequence

from forebay.core.buffers import Piece
from forebay.core.errors import S3Error
from forebay.origin.origins import Origins
from forebay.policy.part_coalescing import CandidatePart, PartTooSmall, coalesce_parts
from forebay.storage.journal.body_file import BodyDamaged
from forebay.storage.journal.pending_objects import PendingObjects
from forebay.write.back.accept.copy_sources import SourceBody
from forebay.write.back.accept.record_writer import RecordWriter, md5_header
from forebay.write.back.accept.upload_room import UploadRoom
from forebay.write.back.drain.origin_uploads import pieces_of
from forebay.write.back.pending.accepted_write import JOINED, AcceptedPart, body_parts
from forebay.write.back.pending.pending_uploads import PendingPart
from forebay.write.forward_request import WriteContext


class JoinedParts:
    """Joins the parts of completed uploads."""

    def __init__(self, writer: RecordWriter, pending: PendingObjects, room: UploadRoom, origins: Origins) -> None:
        self._writer = writer
        self._pending = pending
        self._room = room
        self._origins = origins

    async def join(self, context: WriteContext, parts: Sequence[PendingPart]) -> Sequence[PendingPart]:
        """Returns parts that the origin accepts. Raises S3Error: EntityTooSmall if none can be made of these, SlowDown
        if the journal has no room."""
        dialect = self._origins.of(context.forward.target.bucket).dialect
        least = dialect.smallest_part
        if all(each.part.size >= least for each in parts[:-1]):
            return parts
        if not context.forward.speaks_oss or dialect.speaks_oss:
            raise S3Error("EntityTooSmall")
        by_number = {each.part.number: each for each in parts}
        found = coalesce_parts([CandidatePart(each.part.number, each.part.size, kept=True) for each in parts], least)
        if isinstance(found, PartTooSmall):
            raise S3Error("EntityTooSmall", PartNumber=str(found.part.number))
        runs = [[by_number[each.number] for each in run] for run in found.runs]
        return [run[0] if len(run) == 1 else await self._joined(context, run) for run in runs]

    async def _joined(self, context: WriteContext, run: Sequence[PendingPart]) -> PendingPart:
        first, size = run[0].part, sum(each.part.size for each in run)
        if not await self._room.has_room(size):
            raise S3Error("SlowDown", "The journal has no room to join small parts in. Please try again.")
        stored = await self._writer.store(context, SourceBody(size, lambda: self._pieces(run)))
        async with self._writer.kept(context, stored) as kept:
            part = AcceptedPart(
                first.name,
                first.upload_id,
                JOINED + first.number,
                stored.etag,
                size,
                (md5_header(stored),),
                None,
                stored.bodies,
                self._writer.clock(),
                stored.digest.crc,
                self._writer.stamp(),
            )
            record = await kept.append(part)
        await self._writer.publish(part, record, stored.payload)
        return PendingPart(record, part, body_parts(stored.bodies, stored.payload))

    async def _pieces(self, run: Sequence[PendingPart]) -> AsyncIterator[Piece]:
        for each in run:
            try:
                async for piece in pieces_of(self._pending, each.bytes, each.part.size):
                    yield piece
            except (BodyDamaged, OSError) as error:
                raise S3Error("InvalidPart", PartNumber=str(each.part.number)) from error
