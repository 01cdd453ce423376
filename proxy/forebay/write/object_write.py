"""Writes: an operation that may change something is forwarded between two invalidations, and acknowledged after the
second.

    read ahead ──> connect ──> send ──> invalidate ──> complete ──> invalidate ──> acknowledge
      │             │           │                        └ the answer was lost or not awaited, or the origin failed:
      │             │           │                          invalidate, and mark in doubt
      └─────────────┴───────────┴ no connection, no turn at the origin, an open breaker, a body that was refused or
                                  broke off: nothing

The first invalidation comes before the bytes that complete the request: before its first byte if it has no body, before
the last ones of a body. A request that never had them can have no effect.

The operation says which keys are affected: the object, the keys that a batch delete lists, or the whole bucket.
"""

from collections.abc import Coroutine, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from forebay.core.cooperative import run_cooperatively
from forebay.core.errors import ForebayError, OriginCredentialFault, S3Error, StorageError, Throttled, WriteRefused
from forebay.core.heads import DURABLE_ORIGIN, HeaderPairs
from forebay.core.names import is_reserved
from forebay.core.task_registry import TaskRegistry
from forebay.origin.origin_response import OriginResponse
from forebay.policy.access import authorise_keys
from forebay.protocol.operations import Effect
from forebay.protocol.xml.s3_documents import (
    DeleteObjectsReader,
    ListedKey,
    UploadedPart,
    deletion_without,
    embedded_error,
    read_parts_cooperatively,
    refused_keys,
    result_etag,
)
from forebay.write.answer_relay import AnswerRelay
from forebay.write.forward_request import ForwardRequest, WriteContext
from forebay.write.forwarder import Forwarder
from forebay.write.incoming_body import IncomingBody
from forebay.write.interim_responses import interims_of
from forebay.write.invalidated_write import InvalidatedWrite, affected_keys
from forebay.write.invalidation import AffectedKeys, Invalidator
from forebay.write.member_writes import MemberWrites
from forebay.write.packed_deletions import PackedDeletion
from forebay.write.repeated_completion import RepeatedCompletions
from forebay.write.reserved_deletions import BufferedReply, RemoveResource, answer_resources, without_resources
from forebay.write.sent_versions import SentVersions, versions_made
from forebay.write.tracked_write import TrackedWrite, WriteTracker

if TYPE_CHECKING:  # only with a journal
    from forebay.write.back.write_back import WriteBack

DOCUMENT_LIMIT: Final = 4 << 20
"""Bytes of a body that is read before it is forwarded, because it lists the affected keys or the completed parts."""
_OUTCOME_IN_BODY: Final = frozenset({"CompleteMultipartUpload", "CopyObject", "DeleteObjects"})


@dataclass(frozen=True, slots=True)
class _Document:
    """The body of a write that had to be read."""

    body: bytes | None = None
    parts: Sequence[UploadedPart] | None = None
    """The parts that a completion lists; None: the document has a form that only the origin reads."""
    listed: Sequence[ListedKey] = ()
    """The keys that a batch delete lists."""
    is_quiet: bool = False
    """Whether its answer names failures only."""
    resources: Sequence[ListedKey] = ()
    """The keys of Forebay's own resources that it lists. They are neither in `listed` nor in `body`."""

    @property
    def keys(self) -> list[str]:
        """The keys that a batch delete lists."""
        return [each.key for each in self.listed]


@dataclass(frozen=True, slots=True)
class _SentWrite:
    """A write under way at the origin, with the parts that its outcome is applied to."""

    context: WriteContext
    document: _Document
    affected: AffectedKeys
    invalidated: InvalidatedWrite
    tracked: TrackedWrite
    deletion: PackedDeletion | None
    sent: SentVersions


class ObjectWriter:
    """Carries out writes at the origin."""

    def __init__(
        self,
        forwarder: Forwarder,
        invalidator: Invalidator,
        tracker: WriteTracker,
        tasks: TaskRegistry,
        write_back: "WriteBack | None" = None,
        members: MemberWrites | None = None,
        repeats: RepeatedCompletions | None = None,
    ) -> None:
        """`members`: the writes of members of packs; None: there are no packs. `repeats`: None: the origin's answer to
        a completion is always the client's."""
        self._forwarder = forwarder
        self._invalidator = invalidator
        self._tracker = tracker
        self._tasks = tasks
        self._write_back = write_back
        self._members = members
        self._repeats = repeats

    async def write(self, context: WriteContext, remove_resource: RemoveResource | None = None) -> None:
        """Carries out one write and answers it. Raises S3Error, OriginError, Throttled, and ConnectionError for a
        client that has left. `remove_resource`: removes Forebay's own resources that a batch delete lists; without it
        such a batch is refused.

        A write that has begun continues to its second invalidation, even if the awaiting task is cancelled: in a task
        of its own, unless the awaiting one goes on whoever leaves.
        """
        forward = context.forward
        if forward.request.outlives_client:
            await self._write(context, remove_resource)
            return
        name = f"{forward.operation.name} {forward.target.bucket}/{forward.target.key or ''}"
        failure = await self._tasks.finish(_expected_failure(self._write(context, remove_resource)), name)
        try:
            if failure is not None:
                raise failure
        finally:
            del failure  # it and this frame would refer to each other, and keep the body until the next collection

    async def _write(self, context: WriteContext, remove_resource: RemoveResource | None) -> None:
        try:
            async with self._deletion(context, _deleted(context.forward)) as deletion:
                through = await self._accept(context, deletion)
                if through is not None:
                    context = through
                    await self._write_through(context, deletion, remove_resource)
        finally:
            if context.forward.spooled is not None:
                context.forward.spooled.release()

    async def _write_through(
        self, context: WriteContext, deletion: PackedDeletion | None, remove_resource: RemoveResource | None
    ) -> None:
        """Carries out a write that was not accepted by its head alone."""
        document = await self._read_document(context, with_resources=remove_resource is not None)
        if remove_resource is None or not document.resources:
            await self._carry_out(context, document, deletion)
            return
        objects = BufferedReply()
        if document.listed:
            await self._carry_out(without_resources(context, objects), document, None)
        await answer_resources(context, document.resources, remove_resource, objects, quiet=document.is_quiet)

    async def _accept(self, context: WriteContext, deletion: PackedDeletion | None) -> WriteContext | None:
        """Accepts a write, or returns it as it is to be carried out at the origin."""
        write_back, members = self._write_back, self._members
        if write_back is None:
            return context
        if members is None or not members.is_change(context):
            return await write_back.accept(context, deletion)
        if members.needs_origin(context):
            return context
        async with members.locked_change(context):
            return await write_back.accept(context)

    async def _carry_out(self, context: WriteContext, document: _Document, deletion: PackedDeletion | None) -> None:
        """Carries out a write whose document was read."""
        async with self._deletion(context, document.listed) as of_listed:
            deletion = of_listed or deletion
            if (
                self._write_back is not None
                and document.listed
                and await self._write_back.accepts_deletions(
                    context, document.listed, deletion, quiet=document.is_quiet
                )
            ):
                return
            await self._track(context, document, deletion)

    async def _track(self, context: WriteContext, document: _Document, deletion: PackedDeletion | None) -> None:
        forward = context.forward
        body = await self._forwarder.open_body(forward, for_origin=True) if document.body is None else None
        try:
            tracked = await self._tracker.track(forward, context.decision, document.body, document.parts)
            try:
                async with self._change(context):  # not before: the body may be long in coming
                    await self._send(context, document, body, tracked, deletion)
            finally:
                await tracked.close()
        finally:
            if body is not None:
                body.release()

    def _deletion(
        self, context: WriteContext, listed: Sequence[ListedKey]
    ) -> AbstractAsyncContextManager[PackedDeletion | None]:
        """A context of the deletion of the listed keys."""
        return self._members.deletion(context, listed) if self._members is not None and listed else nullcontext()

    def _change(self, context: WriteContext) -> AbstractAsyncContextManager[None]:
        """A context of a write that deletes nothing."""
        return self._members.change(context) if self._members is not None else nullcontext()

    async def _read_document(self, context: WriteContext, *, with_resources: bool) -> _Document:
        """Reads the documents that decide what is sent. Raises S3Error AccessDenied for a listed key that the principal
        may not delete, and NotImplemented for a resource, unless it is `with_resources`."""
        forward = context.forward
        if forward.operation.effect is Effect.LISTED_KEYS:
            reader = DeleteObjectsReader()
            body = await self._forwarder.read_document(forward, DOCUMENT_LIMIT, reader.feed)
            listed = reader.close()
            resources = [each for each in listed if is_reserved(each.key)] if with_resources else []
            if resources:
                listed = [each for each in listed if not is_reserved(each.key)]
                body = deletion_without(body, is_reserved)
            document = _Document(body, listed=listed, is_quiet=reader.is_quiet, resources=resources)
            keys = document.keys
            await run_cooperatively(authorise_keys(context.principal, forward.operation, forward.target, keys))
            return document
        if forward.operation.name == "CompleteMultipartUpload":
            body, parts = await self._forwarder.read_document(forward, DOCUMENT_LIMIT), None
            with suppress(S3Error):  # the origin refuses it
                parts = await run_cooperatively(read_parts_cooperatively(body))
            return _Document(body, parts)
        return _Document()

    async def _send(
        self,
        context: WriteContext,
        document: _Document,
        body: IncomingBody | None,
        tracked: TrackedWrite,
        deletion: PackedDeletion | None,
    ) -> None:
        forward, write_back = context.forward, self._write_back
        affected, waited = affected_keys(forward, document.keys), False
        if write_back is not None:
            self._forwarder.check_source(forward)
            waited = await write_back.barriers.before_write(context, affected)
        interims = interims_of(forward.request, has_waited=waited)
        invalidated = InvalidatedWrite(self._invalidator, affected, tracked.generation)
        is_back = write_back is not None and write_back.barriers.is_back(context, affected)
        versions = SentVersions(write_back if is_back else None)
        write = _SentWrite(context, document, affected, invalidated, tracked, deletion, versions)

        async def begin() -> None:
            if waited and forward.request.has_left():  # known for certain once all of the body is here
                raise ConnectionAbortedError("the client has left before the turn of its write came")
            if await invalidated.begin():
                if is_back and write_back is not None:
                    etag = tracked.etag or write_back.etag_of_copy(forward.request.headers)
                    parts = document.parts if tracked.document in {None, document.body} else None
                    versions.begin(versions_made(forward, etag, parts or (), document.listed))
                interims.begin()  # not before: the client has sent all of the body, and waits

        context.record.step = "origin"
        try:
            sent = tracked.document or document.body
            async with await self._forwarder.send(
                forward, body=body, tee=tracked.update, document=sent, before_completion=begin
            ) as answer:
                interims.end()
                if self._repeats is not None and forward.operation.name == "CompleteMultipartUpload":
                    await self._repeats.answer_again(forward, answer, sent or b"", tracked.joined_etag)
                settle = partial(self._settle, write, answer)
                relay = AnswerRelay(answer, forward.request, context.reply, context.record)
                if forward.operation.name in _OUTCOME_IN_BODY:
                    location = forward.request.url if forward.operation.name == "CompleteMultipartUpload" else None
                    await relay.document(settle, location)
                else:
                    await relay.stream(await settle(answer.status, b""))
        except (S3Error, StorageError, Throttled, OriginCredentialFault):
            raise  # the origin lacks the end of the body, or has refused the request
        except BaseException as failure:
            if not (isinstance(failure, WriteRefused) and failure.is_final):  # of a tombstone, behind the answer
                invalidated.mark_in_doubt()
                versions.lose()
            raise
        finally:
            interims.end()
            tracked.discard()
            if not invalidated.has_begun:
                tracked.refuse()
            await invalidated.close()

    async def _settle(self, write: _SentWrite, answer: OriginResponse, status: int, result: bytes) -> HeaderPairs:
        """Applies the outcome of a write, before it is acknowledged. Returns headers to add to the acknowledgement."""
        context, tracked, write_back = write.context, write.tracked, self._write_back
        failed = embedded_error(result) is not None
        if status < 300 and not failed:
            if write.deletion is not None:
                await write.deletion.finish(refused_keys(result))
            elif self._members is not None:
                await self._members.replaced(context)
        await write.invalidated.settle(is_in_doubt=status >= 500 or failed)
        if write_back is not None:
            etag = result_etag(result) or answer.headers.get("ETag", "")
            outcome = 500 if failed and status < 300 else status
            request = write.document.body or b""
            await write_back.learn(context, outcome, answer.headers, etag or "", request, result)
        if status >= 500 or failed:
            write.sent.lose()
        else:
            write.sent.settle()
        if status in {200, 204} and not failed:
            confirmed = await tracked.confirm(answer, result)
            if write.affected and write_back is not None and write_back.barriers.is_back(context, write.affected):
                return (*confirmed, DURABLE_ORIGIN)
            return confirmed
        if status < 500:
            tracked.refuse()
        if status == 404:
            await tracked.forget_missing_upload()
        return ()


def _deleted(forward: ForwardRequest) -> Sequence[ListedKey]:
    """Returns the key that a write deletes by its own."""
    if forward.operation.name != "DeleteObject":
        return ()
    return (ListedKey(forward.target.name.key, forward.target.param("versionId")),)


async def _expected_failure(work: Coroutine[Any, Any, None]) -> ForebayError | ConnectionError | None:
    """Returns the failure of `work` rather than raising it: a task that raised it would log a defect."""
    try:
        await work
    except (ForebayError, ConnectionError) as failure:
        return failure
    return None
