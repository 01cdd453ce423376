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
from forebay.write.forwarder import Parcel, Passing, relay, relay_result
from forebay.write.invalidation import Invalidator, Touched, WholeBucket
from forebay.write.multipart.part_handover import Handing
from forebay.write.upload_digests import Counter, Counting
from forebay.write.warm_on_write import Installer

DOCUMENT_LIMIT: Final = 4 << 20
"""Bytes of a body that has to be read before it is passed on, because it says what is touched or what was joined."""
_OUTCOME_IN_BODY: Final = frozenset({"CompleteMultipartUpload", "CopyObject", "DeleteObjects"})


class Writing:
    """Carries writes to the origin."""

    def __init__(
        self,
        passing: Passing,
        invalidator: Invalidator,
        installer: Installer,
        counter: Counter,
        handing: Handing,
        tasks: TaskRegistry,
    ) -> None:
        self._passing = passing
        self._counter = counter
        self._invalidator = invalidator
        self._installer = installer
        self._handing = handing
        self._tasks = tasks

    async def carry(
        self, parcel: Parcel, principal: Principal, decision: Decision | None, reply: Reply, record: RequestRecord
    ) -> None:
        """Carry one write. `decision`: what the rules say of the object, None for a bucket.

        Raises S3Error, OriginError, Throttled. Once begun it is seen through to its second invalidation, even if the
        awaiting task is cancelled.
        """
        work = self._failure(self._carry(parcel, principal, decision, reply, record))
        name = f"{parcel.operation.name} {parcel.target.bucket}/{parcel.target.key or ''}"
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

    async def _carry(
        self, parcel: Parcel, principal: Principal, decision: Decision | None, reply: Reply, record: RequestRecord
    ) -> None:
        try:
            body, parts, keys = None, None, list[str]()
            if parcel.operation.touches is Touches.LISTED_KEYS:
                reader = DeleteReader()
                body = await self._passing.read(parcel, DOCUMENT_LIMIT, reader.feed)
                keys = [key for key, _ in reader.close()]
                await in_turns(authorise_keys(principal, parcel.operation, parcel.target, keys))
            elif parcel.operation.name == "CompleteMultipartUpload":
                body = await self._passing.read(parcel, DOCUMENT_LIMIT)
                with suppress(S3Error):  # for the origin to judge
                    parts = await in_turns(reading_parts(body))
            await self._handing.bring(parcel, parts)
            counting = await self._counter.counting(parcel, body, parts)
            try:
                await self._send(parcel, body, parts, _touched(parcel, keys), counting, decision, reply, record)
            finally:
                await counting.end()
        finally:
            if parcel.hold is not None:
                parcel.hold.release()

    async def _send(
        self,
        parcel: Parcel,
        body: bytes | None,
        parts: Sequence[UploadedPart] | None,
        touched: Touched,
        counting: Counting,
        decision: Decision | None,
        reply: Reply,
        record: RequestRecord,
    ) -> None:
        staging = self._installer.staging(parcel, decision)
        settled = False

        async def settle(status: int, result: bytes) -> HeaderPairs:
            """The outcome is known, and nobody has been told yet."""
            nonlocal settled
            failed = embedded_error(result) is not None
            if status >= 500 or failed:
                self._invalidator.doubt(touched)
            await self._invalidator.invalidate(touched, staging.generation if staging is not None else None)
            settled = True
            if status not in {200, 204} or failed:
                if status < 500:
                    counting.refused()
                return ()
            self._installer.confirmed(parcel, staging, answer, parts, result)
            return await counting.confirmed(answer, result)

        def tee(piece: Piece) -> None:
            counting.take(piece)
            if staging is not None:
                staging.take(piece)

        record.step = "origin"
        write = self._invalidator.begun()
        await self._invalidator.invalidate(touched, write=write)
        try:
            async with await self._passing.send(parcel, tee=tee, body=counting.document or body) as answer:
                if parcel.operation.name in _OUTCOME_IN_BODY:
                    location = parcel.request.url if parcel.operation.name == "CompleteMultipartUpload" else None
                    await relay_result(answer, reply, record, parcel.request, settle, location)
                else:
                    extra = await settle(answer.status, b"")
                    await relay(answer, reply, record, parcel.request, extra)
        except (S3Error, Throttled):
            raise  # the origin has not got all of it
        except BaseException:
            # No answer, or nobody to hear it out: a client that leaves early. The origin may be at work on it still.
            if not settled:
                self._invalidator.doubt(touched)
            raise
        finally:
            if staging is not None:
                staging.give_up()
            if not settled:
                await self._invalidator.invalidate(touched)
            self._invalidator.ended(write)


def _touched(parcel: Parcel, keys: list[str]) -> Touched:
    """What a success of this operation changes; `keys`: those that its document lists."""
    match parcel.operation.touches:
        case Touches.NOTHING:
            return ()
        case Touches.OBJECT:
            return (parcel.target.name,)
        case Touches.LISTED_KEYS:
            return tuple(ObjectName(parcel.target.bucket or "", key) for key in keys)
        case Touches.BUCKET:
            return WholeBucket(parcel.target.bucket or "")
        case _:
            assert_never(parcel.operation.touches)
