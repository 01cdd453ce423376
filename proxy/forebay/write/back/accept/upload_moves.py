"""Upload moves: an upload for which the journal has no room goes on at the origin, under the id that its client knows.

    a part finds no room ──> the drainer: created at the origin ──> "move" record, durable, known to every worker
                               ├──> parts in the journal: carried there, and settled one by one
                               └──> requests from now on: forwarded, with the upload's id there (moved_upload_requests)

The client's borders, headers and ETags are the parts' at the origin, so its completion is valid there as it is. From
the move on only the origin acknowledges: anybody may abort an unfinished upload there.

A kill at any moment leaves the upload on one side: before the record, the origin has an upload without parts, which
nobody uses; after it, the next drainer carries the parts, some of them again, with the same bytes.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from forebay.core.errors import ForebayError, S3Error, Throttled
from forebay.core.requester import BACKGROUND, requester
from forebay.core.task_registry import TaskRegistry
from forebay.core.units import format_size
from forebay.peers.frames import Document
from forebay.peers.owners import Peers
from forebay.peers.peer_codec import decode
from forebay.storage.journal.body_file import BodyDamaged
from forebay.storage.journal.log_writer import JournalFailed, RecordId
from forebay.write.back.accept.record_writer import RecordWriter
from forebay.write.back.drain.origin_uploads import PARALLEL_PARTS, OriginUploads, UploadRefused
from forebay.write.back.drain.persist_outcome import PersistOutcome, judge_failure
from forebay.write.back.drain.retry_pauses import RetryPauses
from forebay.write.back.pending.accepted_write import AbortedUpload, MovedUpload, OriginCompletion
from forebay.write.back.pending.pending_uploads import PendingPart, PendingUpload, PendingUploads

Settle = Callable[[Sequence[RecordId]], Awaitable[None]]
"""Settles records, and removes their bodies. Raises OSError."""

_LAST: Final = frozenset({"CompleteMultipartUpload", "AbortMultipartUpload"})
"""The operations by which an upload ends."""

_log = logging.getLogger(__name__)


class UploadMoves:
    """The moves of one worker."""

    def __init__(
        self,
        uploads: PendingUploads,
        at_origin: OriginUploads,
        writer: RecordWriter,
        settle: Settle,
        tasks: TaskRegistry,
        peers: Peers,
        is_draining: Callable[[], bool],
        pauses: RetryPauses,
        on_moved: Callable[[], None] = lambda: None,
        on_damaged: Callable[[], None] = lambda: None,
    ) -> None:
        """`is_draining`: whether this worker is the one that moves uploads, and knows all of them (drain_duty).
        `on_damaged`: called for each part that can't be carried, as its bytes in the journal are damaged."""
        self._uploads = uploads
        self._at_origin = at_origin
        self._writer = writer
        self._settle = settle
        self._tasks = tasks
        self._peers = peers
        self._is_draining = is_draining
        self._on_moved = on_moved
        self._on_damaged = on_damaged
        self._pauses = pauses
        self._moves: dict[str, asyncio.Task[None]] = {}
        self._carrying: set[str] = set()

    async def move(self, upload: PendingUpload) -> None:
        """Has an upload go on at the origin, and returns once every worker knows. Raises S3Error, OriginError,
        Throttled."""
        if upload.origin_id:
            return
        if self._is_draining():
            await self._move_once(upload)
        else:
            await self._have_moved(upload.upload.upload_id)
        found = self._uploads.by_id.get(upload.upload.upload_id)
        if found is not None and not found.origin_id:
            raise Throttled("the upload can't go on at the origin at the moment")

    async def receive(self, request: Document) -> Document:
        """Moves an upload for another worker. Raises PeerUnavailable, OriginError, Throttled."""
        upload = self._uploads.by_id.get(decode(lambda: str(request["upload"])))
        if self._is_draining() and upload is not None:
            try:
                await self.move(upload)
                if upload.origin_id:
                    await self._publish(upload)  # the last drainer may have been killed before that
            except S3Error as refusal:
                return {"is_drainer": True, "refusal": refusal.code}
        return {"is_drainer": self._is_draining()}

    async def _have_moved(self, upload_id: str) -> None:
        for response in (await self._peers.call_all({"kind": "move_upload", "upload": upload_id})).values():
            if "refusal" in response:
                raise S3Error(str(response["refusal"]))
            if response.get("is_drainer") is True:
                return
        raise Throttled("no worker carries writes out at the moment")

    async def _move_once(self, upload: PendingUpload) -> None:
        upload_id = upload.upload.upload_id
        task = self._moves.get(upload_id)
        if task is None:
            task = self._moves[upload_id] = self._tasks.spawn(self._move(upload), f"move {upload_id}")
            task.add_done_callback(lambda _: self._moves.pop(upload_id))
        await asyncio.shield(task)

    async def _move(self, upload: PendingUpload) -> None:
        name, upload_id = upload.upload.name, upload.upload.upload_id
        try:
            origin_id = await self._at_origin.create(name, upload.upload.headers)
        except UploadRefused as refused:
            raise S3Error("SlowDown", f"The upload can't go on at the origin: {refused}.") from None
        moved = MovedUpload(name, upload_id, origin_id, self._writer.stamp())
        try:
            record = await self._writer.append(moved)
        except JournalFailed as failure:
            reason = str(failure)
            if failure.voided:
                await self._at_origin.abort(name, origin_id)
            raise S3Error("SlowDown", f"The upload can't go on at the origin: {reason}.") from None
        if upload_id not in self._uploads.by_id:  # completed or aborted meanwhile: no worker hears of it
            await self._settle([record])
            await self._at_origin.abort(name, origin_id)
            return
        size = format_size(upload.size)
        _log.info(
            "the upload %s of %s goes on at the origin, as the journal has no room: %s", upload_id, name.path, size
        )
        self._on_moved()
        await self._writer.publish(moved, record)

    async def _publish(self, upload: PendingUpload) -> None:
        moved = MovedUpload(upload.upload.name, upload.upload.upload_id, upload.origin_id, upload.moved)
        await self._writer.publish(moved, upload.moves[-1])

    # The parts in the journal

    def carry(self, upload: PendingUpload) -> None:
        """Has the parts of a moved upload carried to the origin, if this worker is the one that does it."""
        upload_id = upload.upload.upload_id
        if self._is_draining() and upload_id not in self._carrying:
            self._carrying.add(upload_id)
            self._tasks.spawn(self._carry(upload), f"carry the parts of {upload_id}")

    def carry_all(self) -> None:
        """Has the parts of every moved upload carried, as `carry` does for one."""
        for upload in self._uploads.by_id.values():
            if upload.origin_id:
                self.carry(upload)

    def _is_unfinished(self, upload: PendingUpload) -> bool:
        return self._uploads.by_id.get(upload.upload.upload_id) is upload

    async def _carry(self, upload: PendingUpload) -> None:
        try:
            await self._carry_parts(upload)
            if not self._is_unfinished(upload):  # a completion has its parts
                await self.abort(upload)
        finally:
            self._carrying.discard(upload.upload.upload_id)  # at once: a part that comes now is not to be missed

    async def _carry_parts(self, upload: PendingUpload) -> None:
        requester.set(BACKGROUND)  # of this task alone
        await self._publish(upload)  # before a part is settled: who knows of no move would miss it
        pause = self._pauses.of(upload.upload.name.bucket)
        while self._is_unfinished(upload) and (upload.parts or upload.replaced):
            limit, before = asyncio.Semaphore(PARALLEL_PARTS), len(upload.parts)

            async def carry(part: PendingPart, limit: asyncio.Semaphore = limit) -> None:
                async with limit:
                    await self._carry_part(upload, part)

            failure: BaseException | None = None
            try:
                if upload.replaced:
                    await self._settle_parts(upload.replaced)
            except OSError as error:
                failure = error
            # Each goes on to its end, whatever becomes of the others: none is settled in part.
            carried = await asyncio.gather(*map(carry, list(upload.parts.values())), return_exceptions=True)
            failures = [each for each in (failure, *carried) if each is not None]
            if not failures:
                continue
            outcome = _outcome_of(failures[0])
            name = upload.upload.name
            if outcome.code == "NoSuchUpload":
                _log.warning("the upload %s of %s was aborted at the origin", upload.upload.upload_id, name.path)
                await self.end(upload)
                return
            _log.info("a part of an upload of %s has to be carried again: %s", name.path, outcome.reason)
            if len(upload.parts) < before:
                pause.reset()
            await pause.wait(is_unanswered=outcome.is_unanswered)

    async def _carry_part(self, upload: PendingUpload, part: PendingPart) -> None:
        name = upload.upload.name
        if not self._is_unfinished(upload) or upload.parts.get(part.part.number) is not part:
            return
        try:
            await self._at_origin.send_part(name, upload.origin_id, part)
        except BodyDamaged as damage:  # ListParts has it no more, and the origin refuses a completion that lists it
            number, upload_id = part.part.number, upload.upload.upload_id
            _log.error("part %d of the upload %s of %s is lost: %s", number, upload_id, name.path, damage)
            self._on_damaged()
        if self._is_unfinished(upload):
            await self._settle_parts([part])

    async def _settle_parts(self, parts: Sequence[PendingPart]) -> None:
        records = [part.record for part in parts]
        self._uploads.carried.update(records)  # a completion that comes from here on can't have them
        await self._settle(records)

    # Its end

    async def note(
        self, upload: PendingUpload, operation: str, status: int, completion: OriginCompletion | None
    ) -> None:
        """Notes the origin's response to a request of a moved upload. 404: the upload has ended there. `completion`:
        the result of a successful completion."""
        if operation in _LAST and (200 <= status < 300 or status == 404):
            await self.end(upload, completion)

    async def end(self, upload: PendingUpload, completion: OriginCompletion | None = None) -> None:
        """Forgets a moved upload that has ended at the origin. Never raises: its remaining records expire."""
        try:
            await self._record_end(upload, completion)
        except JournalFailed as failure:
            _log.warning("the end of an upload of %s can't be noted: %s", upload.upload.name.path, failure)

    async def abandon(self, upload: PendingUpload) -> None:
        """Aborts an upload that its client has left, moved or not. Raises JournalFailed."""
        if upload.origin_id:
            await self.abort(upload)
        await self._record_end(upload, None)

    async def _record_end(self, upload: PendingUpload, completion: OriginCompletion | None) -> None:
        ended = AbortedUpload(upload.upload.name, upload.upload.upload_id, completion)
        await self._writer.publish(ended, await self._writer.append(ended))

    async def abort(self, upload: PendingUpload) -> None:
        """Aborts a moved upload at the origin. Never raises."""
        await self._at_origin.abort(upload.upload.name, upload.origin_id)


def _outcome_of(failure: BaseException) -> PersistOutcome:
    match failure:
        case UploadRefused():
            return failure.outcome
        case ForebayError() | OSError():
            return judge_failure(failure)
        case _:
            raise failure
