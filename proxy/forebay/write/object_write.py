"""Writing: whatever may change something is passed on between two invalidations, and acknowledged after the second.

    invalidate ──> send ──> invalidate ──> acknowledge
                    ├ the answer was lost or not waited for, or the origin failed: invalidate, and doubt for a while
                    └ the client's body was bad: invalidate

What a write touches is told by its operation: the object, the keys that a batch delete lists, or the whole bucket.
"""

from collections.abc import Coroutine, Sequence
from contextlib import suppress
from typing import Any, Final, assert_never

from forebay.core.errors import ForebayError, S3Error, Throttled
from forebay.core.heads import HeaderPairs
from forebay.core.names import ObjectName
from forebay.core.request_record import RequestRecord
from forebay.core.task_registry import TaskRegistry
from forebay.core.yielding import in_turns
from forebay.policy.access import Principal, authorise_keys
from forebay.policy.rules import Decision
from forebay.protocol.body.checksums import Piece
from forebay.protocol.exchange import Reply
from forebay.protocol.operations import Touches
from forebay.protocol.xml.s3_documents import DeleteReader, UploadedPart, embedded_error, reading_parts
from forebay.write.forwarder import Forwarder, ForwardRequest, relay, relay_result
from forebay.write.invalidation import AffectedKeys, Invalidator, WholeBucket
from forebay.write.multipart.part_handover import PartHandover
from forebay.write.upload_digests import TrackedWrite, WriteTracker
from forebay.write.warm_on_write import WarmOnWrite

DOCUMENT_LIMIT: Final = 4 << 20
"""Bytes of a body that has to be read before it is passed on, because it says what is touched or what was joined."""
_OUTCOME_IN_BODY: Final = frozenset({"CompleteMultipartUpload", "CopyObject", "DeleteObjects"})


class ObjectWriter:
    """Carries writes to the origin."""

    def __init__(
        self,
        passing: Forwarder,
        invalidator: Invalidator,
        installer: WarmOnWrite,
        counter: WriteTracker,
        handing: PartHandover,
        tasks: TaskRegistry,
    ) -> None:
        self._passing = passing
        self._counter = counter
        self._invalidator = invalidator
        self._installer = installer
        self._handing = handing
        self._tasks = tasks

    async def write(
        self,
        forward: ForwardRequest,
        principal: Principal,
        decision: Decision | None,
        reply: Reply,
        record: RequestRecord,
    ) -> None:
        """Carry one write. `decision`: what the rules say of the object, None for a bucket.

        Raises S3Error, OriginError, Throttled. Once begun it is seen through to its second invalidation, even if the
        awaiting task is cancelled.
        """
        work = self._failure(self._write(forward, principal, decision, reply, record))
        name = f"{forward.operation.name} {forward.target.bucket}/{forward.target.key or ''}"
        failure = await self._tasks.finish(work, name)
        try:
            if failure is not None:
                raise failure
        finally:
            del failure  # or it and this frame hold each other, and the body with them, until the collector comes

    @staticmethod
    async def _failure(work: Coroutine[Any, Any, None]) -> ForebayError | ConnectionError | None:
        """What `work` fails with in the ordinary course of things: its task, if it raised it, would log a defect."""
        try:
            await work
        except (ForebayError, ConnectionError) as failure:
            return failure
        return None

    async def _write(
        self,
        forward: ForwardRequest,
        principal: Principal,
        decision: Decision | None,
        reply: Reply,
        record: RequestRecord,
    ) -> None:
        try:
            body, parts, keys = None, None, list[str]()
            if forward.operation.touches is Touches.LISTED_KEYS:
                reader = DeleteReader()
                body = await self._passing.read_document(forward, DOCUMENT_LIMIT, reader.feed)
                keys = [key for key, _ in reader.close()]
                await in_turns(authorise_keys(principal, forward.operation, forward.target, keys))
            elif forward.operation.name == "CompleteMultipartUpload":
                body = await self._passing.read_document(forward, DOCUMENT_LIMIT)
                with suppress(S3Error):  # for the origin to judge
                    parts = await in_turns(reading_parts(body))
            await self._handing.bring(forward, parts)
            counting = await self._counter.track(forward, body, parts)
            try:
                await self._send(forward, body, parts, _affected_keys(forward, keys), counting, decision, reply, record)
            finally:
                await counting.close()
        finally:
            if forward.spooled is not None:
                forward.spooled.release()

    async def _send(
        self,
        forward: ForwardRequest,
        body: bytes | None,
        parts: Sequence[UploadedPart] | None,
        affected: AffectedKeys,
        counting: TrackedWrite,
        decision: Decision | None,
        reply: Reply,
        record: RequestRecord,
    ) -> None:
        staging = self._installer.staging(forward, decision)
        settled = False

        async def settle(status: int, result: bytes) -> HeaderPairs:
            """The outcome is known, and nobody has been told yet."""
            nonlocal settled
            failed = embedded_error(result) is not None
            if status >= 500 or failed:
                self._invalidator.mark_in_doubt(affected)
            await self._invalidator.invalidate(affected, staging.generation if staging is not None else None)
            settled = True
            if status not in {200, 204} or failed:
                if status < 500:
                    counting.refused()
                return ()
            self._installer.confirmed(forward, staging, answer, parts, result)
            return await counting.confirmed(answer, result)

        def tee(piece: Piece) -> None:
            counting.update(piece)
            if staging is not None:
                staging.append(piece)

        record.step = "origin"
        write = self._invalidator.begin_write()
        await self._invalidator.invalidate(affected, write=write)
        try:
            async with await self._passing.send(forward, tee=tee, body=counting.document or body) as answer:
                if forward.operation.name in _OUTCOME_IN_BODY:
                    location = forward.request.url if forward.operation.name == "CompleteMultipartUpload" else None
                    await relay_result(answer, reply, record, forward.request, settle, location)
                else:
                    extra = await settle(answer.status, b"")
                    await relay(answer, reply, record, forward.request, extra)
        except (S3Error, Throttled):
            raise  # the origin has not got all of it
        except BaseException:
            # No answer, or nobody to hear it out: a client that leaves early. The origin may be at work on it still.
            if not settled:
                self._invalidator.mark_in_doubt(affected)
            raise
        finally:
            if staging is not None:
                staging.discard()
            if not settled:
                await self._invalidator.invalidate(affected)
            self._invalidator.end_write(write)


def _affected_keys(forward: ForwardRequest, keys: list[str]) -> AffectedKeys:
    """What a success of this operation changes; `keys`: those that its document lists."""
    match forward.operation.touches:
        case Touches.NOTHING:
            return ()
        case Touches.OBJECT:
            return (forward.target.name,)
        case Touches.LISTED_KEYS:
            return tuple(ObjectName(forward.target.bucket or "", key) for key in keys)
        case Touches.BUCKET:
            return WholeBucket(forward.target.bucket or "")
        case _:
            assert_never(forward.operation.touches)
