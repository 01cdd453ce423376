"""Persisting: one accepted write is carried out at the origin, and judged.

    prepare     what nobody sees, so that it needs no order (upload_preparation)
    commit      the step that everybody sees: a PUT, a completion, a deletion

    look first, where it may have been done ──> done
    or where readers had seen another version ──> conflict: stuck
    send, on condition of what was seen (conditional_writes)
         ├─> 2xx, and its ETag   ──> done
         ├─> 412                 ──> somebody else was faster: look again; twice, and nobody was: without a condition
         ├─> 403, 404, other 4xx ──> stuck: only a person can help
         └─> 5xx, no answer      ──> failed: once more, later

"May have been done": an answer was lost, or the record is from an earlier run. The version at the origin is compared
with the acknowledged one, so a write is never repeated over somebody else's object.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from typing import Final

from forebay.core.buffers import Piece
from forebay.core.byte_rate import ByteRate
from forebay.core.errors import ForebayError, S3Error
from forebay.core.heads import HeaderPairs
from forebay.origin.origin_request import EMPTY_SHA256, UNSIGNED_PAYLOAD, OriginRequest
from forebay.origin.origins import Origins
from forebay.origin.reads.origin_read import OriginRead
from forebay.origin.reads.read_outcomes import ErrorResponse, ObjectOpened
from forebay.policy.acceptable_writes import has_opaque_etags
from forebay.protocol.body.part_checksums import completed_checksums
from forebay.protocol.conditions import same_etag
from forebay.protocol.header_map import Headers
from forebay.protocol.xml.s3_documents import (
    completed_fields,
    completion_document,
    embedded_error,
)
from forebay.storage.journal.pending_objects import PendingObjects, PendingVersion
from forebay.write.back.drain.origin_uploads import DOCUMENT, paced, pieces_of
from forebay.write.back.drain.origin_versions import OriginVersions
from forebay.write.back.drain.persist_outcome import (
    BROKEN_BODY,
    PersistOutcome,
    acknowledged_etag,
    judge,
    judge_failure,
    judge_look,
)
from forebay.write.back.drain.staging_reader import Stage, StagingReader
from forebay.write.back.drain.upload_preparation import PreparedUpload, UploadPreparation
from forebay.write.back.pending.accepted_write import AcceptedWrite, WriteKind
from forebay.write.back.pending.object_metadata import has_same_metadata
from forebay.write.conditional_writes import ABSENT, NOT_COMPARED, ConditionalWrites, condition_of
from forebay.write.invalidation import Invalidator

_OPERATIONS: Final[dict[WriteKind, str]] = {
    "put": "PutObject",
    "delete": "DeleteObject",
    "complete": "CompleteMultipartUpload",
}
_LARGEST_BLOCK: Final = 4 << 20
"""Bytes of a block that is staged as it is sent: each body that is under way holds one."""


class Persister:
    """Carries out writes."""

    def __init__(
        self,
        origins: Origins,
        pending: PendingObjects,
        preparation: UploadPreparation,
        invalidator: Invalidator,
        versions: OriginVersions,
        stage: Stage,
        rate: ByteRate | None = None,
        learn: Callable[[str, Headers], None] = lambda _bucket, _headers: None,
    ) -> None:
        """`stage`: keeps blocks that are read to be sent. `rate`: at which bodies are sent. `learn`: called with a
        bucket and the headers of the answer to a write of it that was carried out."""
        self._stage = stage
        self._rate = rate
        self._learn = learn
        self._origins = origins
        self._pending = pending
        self._preparation = preparation
        self._invalidator = invalidator
        self._versions = versions
        self._conditional = ConditionalWrites(origins.origin_of)

    async def prepare(self, write: AcceptedWrite) -> PreparedUpload | PersistOutcome | None:
        """Prepares the steps that need no order; None: there are none. Never raises."""
        if write.kind != "complete":
            return None
        return await self._preparation.prepare(write)

    async def abort(self, write: AcceptedWrite, prepared: PreparedUpload) -> None:
        """Aborts the prepared steps. Never raises."""
        await self._preparation.abort(write, prepared)

    async def look(self, write: AcceptedWrite) -> PersistOutcome | None:
        """Returns an outcome if the write is done, is in conflict, or that can't be found out; None: it may be sent.
        Never raises."""
        try:
            found = await self._look(write, may_be_done=True)
            return await self._found(write, found) if isinstance(found, PersistOutcome) else None
        except ForebayError as error:
            return judge_failure(error)

    async def commit(
        self,
        write: AcceptedWrite,
        version: PendingVersion,
        prepared: PreparedUpload | None,
        *,
        may_be_done: bool,
        is_first: bool,
    ) -> PersistOutcome:
        """Takes the step that everybody sees. Never raises. `is_first`: no attempt was made before. Its body is staged
        as it is sent, and those of later ones are not, so that an origin that refuses does not wear the SSD out."""
        try:
            found = await self._look(write, may_be_done=may_be_done)
            if isinstance(found, PersistOutcome):
                return await self._found(write, found, version)
            outcome = await self._commit_on(
                found, write, version, prepared, self._reader(write, version) if is_first else None
            )
            await self._end(prepared, outcome)
            return self._noted(write, outcome)
        except (ForebayError, OSError) as error:
            return judge_failure(error)

    async def _found(
        self, write: AcceptedWrite, outcome: PersistOutcome, version: PendingVersion | None = None
    ) -> PersistOutcome:
        """Invalidates an object that an earlier attempt has written, whose answer was lost: a read from before its
        effect may have been stored after its own invalidation."""
        if outcome.result == "done":
            head = version.head if version is not None else None
            await self._invalidator.invalidate((write.name,), head.generation if head is not None else None)
        return self._noted(write, outcome)

    def _noted(self, write: AcceptedWrite, outcome: PersistOutcome) -> PersistOutcome:
        """Notes which version the origin has, if it has the write: one that was accepted beside it is no conflict."""
        if outcome.result == "done":
            self._versions.made(write.name, outcome.etag or acknowledged_etag(write))
        return outcome

    async def complete(self, write: AcceptedWrite, conditions: HeaderPairs) -> PersistOutcome:
        """Carries out a completion that is in no journal, on its client's own conditions. Never raises."""
        prepared = await self.prepare(write)
        if not isinstance(prepared, PreparedUpload):
            return prepared or PersistOutcome("failed", "it is no completion")
        try:
            outcome = await self._commit(write, None, prepared, conditions)
        except (ForebayError, OSError) as error:
            outcome = judge_failure(error)
        if outcome.result != "done" and (outcome.status == 0 or outcome.status >= 500):  # its answer may have been lost
            self._invalidator.mark_in_doubt((write.name,))
            await self._invalidator.invalidate((write.name,))
            # Nobody else knows the upload: if it has ended, it was completed.
            found = await self.look(write) if await self._preparation.has_ended(write, prepared) else None
            outcome = found if found is not None and found.result == "done" else outcome
        if outcome.result != "done":
            await self._preparation.abort(write, prepared)
        await self._end(prepared, outcome)
        return outcome

    async def _end(self, prepared: PreparedUpload | None, outcome: PersistOutcome) -> None:
        if prepared is not None and outcome.result == "done":
            await self._preparation.end(prepared)

    async def _commit_on(
        self,
        conditions: HeaderPairs,
        write: AcceptedWrite,
        version: PendingVersion,
        prepared: PreparedUpload | None,
        reader: StagingReader | None,
    ) -> PersistOutcome:
        """Takes the step if the origin still has what was seen there, as far as it compares. `reader`: of the body that
        is sent first."""
        operation = _OPERATIONS[write.kind]
        conditions = self._conditional.usable(write.name, operation, conditions)
        try:
            outcome = await self._commit(write, version, prepared, conditions, reader)
        except S3Error as error:  # of the adapter of OSS, which sends no If-Match
            outcome = judge_failure(error)
        if conditions and outcome.status in NOT_COMPARED and outcome.code not in BROKEN_BODY:
            outcome = await self._commit(write, version, prepared, ())
            if outcome.result == "done":
                self._conditional.refused(write.name, operation, conditions)
        elif conditions and (outcome.status == 412 or outcome.code == "NoSuchKey"):
            found = await self._look(write, may_be_done=True)
            if found == conditions and self._conditional.contradicts(write.name, operation, conditions):
                outcome = await self._commit(write, version, prepared, ())
                if outcome.result == "done":
                    self._conditional.settle_contradiction(write.name, conditions)
                return outcome
            outcome = found if isinstance(found, PersistOutcome) else replace(outcome, result="failed")
            if found == conditions:
                return outcome
        self._conditional.forget_contradiction(write.name, conditions)
        return outcome

    async def _look(self, write: AcceptedWrite, *, may_be_done: bool) -> PersistOutcome | HeaderPairs:
        """Looks at what the origin has, if it may be what the write makes, or must be what it replaces. Returns the
        conditions on which the write may be sent."""
        is_guarded = write.replaces is not None and not self._versions.overwrites(write.name)
        if not (may_be_done or is_guarded):
            return ()
        answer = await self._origins.open_read(write.name, OriginRead("HEAD"))
        if isinstance(answer, ObjectOpened):
            etag, size, headers = answer.facts.version.etag, answer.facts.size, answer.facts.headers
        elif isinstance(answer, ErrorResponse) and answer.status == 404:
            etag, size, headers = ABSENT, 0, ()
        elif isinstance(answer, ErrorResponse):
            return judge_look(answer.status, is_known=is_guarded) or ()  # what may not be read can't be compared
        else:
            return ()
        if write.facts is None:
            is_done = is_same = etag == ABSENT
        else:
            is_same = etag != ABSENT and size == write.facts.size and same_etag(etag, write.facts.version.etag)
            # The version before may have the same bytes. Sent once more in vain, it does no harm.
            is_done = is_same and has_same_metadata(headers, write.facts.headers)
        if is_done and may_be_done:
            return PersistOutcome("done", etag=acknowledged_etag(write))
        expected = write.replaces if is_guarded else None
        if expected is None:
            return ()
        if is_same or self._versions.is_ours(write.name, etag, expected):
            return condition_of(_OPERATIONS[write.kind], etag)
        if may_be_done and self._is_of_last(write, etag, size):  # the journal was exported there, to its end
            return PersistOutcome("done", etag=acknowledged_etag(write))
        named = etag or "no object"
        reason = f"conflict: the origin has {named} in place of {expected or 'no object'}, somebody else wrote it"
        return PersistOutcome("stuck", reason, is_conflict=True)

    def _is_of_last(self, write: AcceptedWrite, etag: str, size: int) -> bool:
        """Returns whether the origin has what the last pending write of the object makes."""
        last = self._pending.current(write.name)
        if etag == ABSENT or last is None or last.head is None:
            return False
        return last.head.size == size and same_etag(etag, last.head.version.etag)

    async def _commit(
        self,
        write: AcceptedWrite,
        version: PendingVersion | None,
        prepared: PreparedUpload | None,
        conditions: HeaderPairs,
        reader: StagingReader | None = None,
    ) -> PersistOutcome:
        """`version` None: nobody sees the write yet."""
        async with self._origins.uploads(write.name.bucket).turn(write.size if prepared is None else 0):
            return await self._take_step(write, version, prepared, conditions, reader)

    async def _take_step(
        self,
        write: AcceptedWrite,
        version: PendingVersion | None,
        prepared: PreparedUpload | None,
        conditions: HeaderPairs,
        reader: StagingReader | None,
    ) -> PersistOutcome:
        head = version.head if version is not None else None
        affected, keep = (write.name,), head.generation if head is not None else None
        number = self._invalidator.begin_write()
        try:

            async def begin() -> None:
                await self._invalidator.invalidate(affected, keep, write=number)

            parts = version.parts if version is not None else ()
            pieces = pieces_of(self._pending, parts, write.size) if reader is None else reader.read()
            request = self._request(write, pieces, prepared, begin)
            async with await self._origins.send(request._replace(headers=(*request.headers, *conditions))) as answer:
                document, status, etag = await answer.read(DOCUMENT), answer.status, answer.headers.get("ETag", "")
                is_opaque = has_opaque_etags(answer.headers)
                if status < 300:
                    self._learn(write.name.bucket, answer.headers)
            await self._invalidator.invalidate(affected, keep)
        finally:
            self._invalidator.end_write(number)
        if prepared is not None and status == 200:
            if (code := embedded_error(document)) is not None:
                return PersistOutcome("failed", f"the origin answered {code}", status=500, code=code)
            fields = completed_fields(document)
            outcome = judge(write, status, fields.get("ETag", ""), document, is_opaque=is_opaque)
            return replace(outcome, checksums=completed_checksums(fields))
        outcome = judge(write, status, etag, document, is_opaque=is_opaque)
        return replace(outcome, is_staged=reader is not None and reader.is_at_end)

    def _reader(self, write: AcceptedWrite, version: PendingVersion) -> StagingReader | None:
        """Returns the reader that stages the body of a PUT; None: it has none that readers see, or blocks so large that
        they are not to be held while they are sent."""
        head = version.head
        if write.kind != "put" or head is None or self._pending.current(write.name) is not version:
            return None
        if not 0 < head.block_size <= _LARGEST_BLOCK:
            return None
        return StagingReader(self._pending, self._stage, write.name, head, version.parts)

    def _request(
        self,
        write: AcceptedWrite,
        pieces: AsyncIterator[Piece],
        prepared: PreparedUpload | None,
        begin: Callable[[], Awaitable[None]],
    ) -> OriginRequest:
        if write.facts is None:
            return OriginRequest("DELETE", *write.name, operation="DeleteObject", before_completion=begin)
        if prepared is not None:
            document = completion_document(prepared.parts)
            return OriginRequest(
                "POST",
                *write.name,
                query=(("uploadId", prepared.upload_id),),
                headers=(("Content-Type", "application/xml"),),
                body=document,
                payload_hash=UNSIGNED_PAYLOAD,
                operation="CompleteMultipartUpload",
                before_completion=begin,
            )
        return OriginRequest(
            "PUT",
            *write.name,
            headers=write.headers,
            body=paced(pieces, self._rate) if write.size else None,
            content_length=write.size,
            payload_hash=(write.sha256 or UNSIGNED_PAYLOAD) if write.size else EMPTY_SHA256,
            operation="PutObject",
            before_completion=begin,
        )
