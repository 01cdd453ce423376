"""Write-back: its interface to the write path, the read path, the node's other workers and the operator.

    watch        what earlier runs left pending is seen by readers again, and carried out; the end of the process
    accept       a write under a `back` rule: accepted, or left to be carried out at the origin
    barriers     until what is pending of these objects is at the origin
    duty         of the worker that drains, whoever has the journal's lock; another one takes over when it has ended

Every worker knows what is pending (record_exchange).
"""

import logging
import re
from collections.abc import Awaitable, Sequence, Set
from contextlib import AbstractAsyncContextManager
from math import inf
from typing import Final

from forebay.core.names import ObjectName
from forebay.origin.origin_checks import OriginChecks
from forebay.peers.frames import Document
from forebay.peers.peer_codec import decode, decode_name
from forebay.protocol.copy_source import parse_copy_source
from forebay.protocol.header_map import Headers
from forebay.protocol.operations import Effect
from forebay.protocol.target import Target
from forebay.protocol.xml.s3_documents import ListedKey, listed_keys, refused_keys
from forebay.storage.journal.log_writer import RecordId
from forebay.write.back.accept.part_listing import parts_document
from forebay.write.back.accept.write_proofs import proof_of
from forebay.write.back.acceptance_parts import compose_acceptance
from forebay.write.back.drain.persist_outcome import PersistOutcome
from forebay.write.back.drain_parts import compose_drain
from forebay.write.back.duty_parts import compose_duty
from forebay.write.back.journal_watch import JournalWatch
from forebay.write.back.pending.accepted_write import AcceptedWrite
from forebay.write.back.pending.backlog import Backlog, backlog_of
from forebay.write.back.pending.pending_uploads import is_local
from forebay.write.back.record_exchange import decode_sent
from forebay.write.back.record_parts import compose_records
from forebay.write.back.write_back_context import (
    CachedState,
    JournalState,
    OriginAccess,
    WriteBackEvents,
    WriteBackLimits,
    WriteBackWorker,
)
from forebay.write.back.write_barriers import WriteBarriers
from forebay.write.conditional_writes import ABSENT
from forebay.write.forward_request import WriteContext
from forebay.write.packed_deletions import PackedDeletion
from forebay.write.sent_versions import Versions

_REFUSALS: Final = frozenset({401, 403, 404, 405})
"""Statuses by which the origin says that it would not accept other such writes, either."""
_MISS_ANOTHER: Final = frozenset({"CopyObject", "CompleteMultipartUpload"})
"""But for a 404 of these: the source, or the upload, may be what is missing."""
_MD5: Final = re.compile('"[0-9a-f]{32}"', re.IGNORECASE)
ANSWER_SECONDS: Final = 1.0
"""Seconds before the end of a drain in which requests that still wait are answered."""

_log = logging.getLogger(__name__)


class WriteBack:
    """The write-back of one worker."""

    def __init__(
        self,
        state: JournalState,
        origin: OriginAccess,
        cached: CachedState,
        worker: WriteBackWorker,
        limits: WriteBackLimits,
        events: WriteBackEvents,
    ) -> None:
        self.journal = state.journal
        self.pending = state.pending
        self.uploads = state.uploads
        self.record_origins = state.origins
        self.max_age = limits.max_age
        self._origins = origin.origins
        self._checks = OriginChecks(origin.origins)
        self._versions = origin.versions
        self._worker = worker
        self._events = events
        self._waits_end = inf
        """The time at which requests that still wait are refused, on the worker's monotonic clock."""
        records = compose_records(state, origin, cached, worker, limits)
        self.proofs, self.room, self.shown = records.proofs, records.room, records.shown
        self.loader, self.exchange, self.writer = records.loader, records.exchange, records.writer

        drain = compose_drain(state, origin, cached, worker, records, self._persisted, self._stopped)
        self.settlement, self.drainer, self.own_uploads = drain.settlement, drain.drainer, drain.own_uploads

        duty = compose_duty(state, worker, limits, events, records, drain)
        self.duty, self.endings, self.moves, self.expiry = duty.duty, duty.endings, duty.moves, duty.expiry
        self.watch = JournalWatch(state, records, duty.duty, drain.own_uploads, events.full)

        self.barriers = WriteBarriers(state.pending, self._obstacle, self._is_back, self.shown.is_held_up)
        met = compose_acceptance(state, origin, worker, records, drain, duty, self.barriers, self.learn, self._deciding)
        self.probe, self.acceptance = met.probe, met.acceptance
        self._moved_requests, self._upload_listings = met.moved_requests, met.listings

    @property
    def is_draining(self) -> bool:
        """Whether this worker carries the node's writes out."""
        return self.duty.is_taken

    @property
    def failure(self) -> str:
        """Why the journal can't be written; empty: it can."""
        return self.writer.failure or next(iter(self.shown.unsettled.values()), "")

    def _is_back(self, name: ObjectName) -> bool:
        return name.key != "" and self._worker.rules().decide(name).write == "back"

    def _obstacle(self, bucket: str) -> str:
        """Why nothing pending of a bucket will be settled by this process, as a sentence; empty: it may well be."""
        if self.shown.unsettled:
            return "The journal can't be written."
        if self.room.is_ending and self._origins.of(bucket).breaker.reachable is False:
            return "Forebay is ending, and the origin can't be reached."
        return "Forebay is ending." if self._worker.monotonic() >= self._waits_end else ""

    def begin_finishing(self, seconds: float) -> None:
        """Begins the end: requests under way are answered for `seconds`, and new writes go through. Requests that still
        wait near the end are refused, as their connections would be cut off."""
        self.room.is_ending = self.room.is_finishing = True
        self._waits_end = self._worker.monotonic() + seconds - ANSWER_SECONDS

    # Writes

    async def accept(self, context: WriteContext, members: PackedDeletion | None = None) -> WriteContext | None:
        """Accepts and answers a write, if it may be: None. Otherwise returns it as it is to be carried out at the
        origin. `members`: those that it deletes. Raises S3Error, OriginError, Throttled, ConnectionError."""
        if context.forward.operation.effect is Effect.LISTED_KEYS:
            return context  # once its document was read
        reason = await self.acceptance.obstacle(context)
        if reason is None:
            reason = await self.acceptance.accept(context, members)
        if reason is not None:
            self._passed(context, reason)
            return await self._moved_requests.redirect(context)
        self._events.wrote("accepted", context.forward.content_size or 0)
        return None

    async def accepts_deletions(
        self,
        context: WriteContext,
        listed: Sequence[ListedKey],
        members: PackedDeletion | None = None,
        *,
        quiet: bool,
    ) -> bool:
        """Accepts and answers a batch delete, if it may be. `members`: those that it deletes. Raises S3Error,
        OriginError, Throttled, ConnectionError."""
        reason = await self.acceptance.batch_obstacle(context, listed, self._worker.rules())
        if reason is not None:
            self._passed(context, reason)
            return False
        await self.acceptance.accept_deletions(context, listed, members, quiet=quiet)
        self._events.wrote("accepted", 0)
        return True

    def _passed(self, context: WriteContext, reason: str) -> None:
        if context.decision is not None and context.decision.write == "back":
            self._events.wrote("through", context.forward.content_size or 0)
            _log.info("%s: the write goes through: %s", context.record.request_id, reason)

    async def learn(
        self,
        context: WriteContext,
        status: int,
        headers: Headers,
        etag: str,
        document: bytes = b"",
        result: bytes = b"",
    ) -> None:
        """Notes how the origin has answered a write that went through. `etag`: of the object, if it made one;
        `document`, `result`: what the client has sent of a completion or a batch delete, and the origin has answered.
        """
        if context.forward.target.key is None:
            if 200 <= status < 300:
                self._learn_of_bucket(context, document, result)
            return
        name = context.forward.target.name
        await self._moved_requests.learn(context, status, headers, document, result)
        operation = context.forward.operation.name
        proof = proof_of(operation, name) if context.forward.identity is None else None  # it is of Forebay's own right
        if 200 <= status < 300:
            self._written_through(name, etag)
            self.proofs.learn(name.bucket, headers)
            if proof is not None:
                self.proofs.add(proof)
        elif proof is not None and status in _REFUSALS and not (status == 404 and operation in _MISS_ANOTHER):
            self.proofs.revoke(proof)

    def _learn_of_bucket(self, context: WriteContext, document: bytes, result: bytes) -> None:
        bucket = context.forward.target.bucket or ""
        if context.forward.operation.effect is not Effect.LISTED_KEYS:
            self.proofs.forget_bucket(bucket)
            return
        if not len(self.pending):
            return
        refused = refused_keys(result)
        for listed in listed_keys(document):
            if listed.key not in refused:
                self._written_through(ObjectName(bucket, listed.key), ABSENT)

    def _written_through(self, name: ObjectName, etag: str) -> None:
        """The origin has another version of an object, by a write that went through. `etag`: of it, or ABSENT."""
        if name in self.pending:  # accepted meanwhile, and so carried out after this one
            self._note_own_version(name, etag)
            self.exchange.announce_written_through(name, etag)

    def _note_own_version(self, name: ObjectName, etag: str) -> None:
        """This node has made a version at the origin. A write that has met it there before this was known is no
        conflict."""
        self._versions.made(name, etag)
        self._retry_conflicts({name})

    def _retry_conflicts(self, names: Set[ObjectName]) -> None:
        for entry in self.drainer.stopped:
            if entry.is_conflict and entry.write.name in names:
                self.drainer.retry(entry.version.record)

    def etag_of_copy(self, headers: Headers) -> str:
        """Returns the ETag that an object gets by a request that copies; empty: it does not copy, or readers here do
        not know its source, or that was uploaded in parts."""
        copied = parse_copy_source(headers)
        etag = self._versions.seen(copied.name) if copied is not None and copied.version_id is None else None
        return etag if etag and _MD5.fullmatch(etag) else ""

    def note_sent(self, versions: Versions) -> None:
        """See SentNotes."""
        for name, etag in versions:
            self._versions.sent(name, etag)
        self.exchange.announce_sent(versions)

    def note_lost(self, versions: Versions) -> None:
        """See SentNotes. A write that is in conflict with one of them is tried again."""
        self._retry_conflicts({name for name, _ in versions})
        self.exchange.announce_sent(versions, "lost")

    def note_settled(self, versions: Versions) -> None:
        """See SentNotes."""
        for name, etag in versions:
            self._versions.settled(name, etag)
        self.exchange.announce_sent(versions, "settled")

    def receive_sent(self, message: Document) -> None:
        """Another worker has sent versions, or knows the outcome. Raises PeerUnavailable for a malformed message."""
        versions, outcome = decode_sent(message)
        for name, etag in versions:
            match outcome:
                case "sent":
                    self._versions.sent(name, etag)
                case "settled":
                    self._versions.settled(name, etag)
                case _:
                    self._retry_conflicts({name})

    async def answer_listing(self, operation: str, target: Target, headers: Headers, *, is_own: bool) -> bytes | None:
        """Returns the answer to a ListParts or ListMultipartUploads that shows uploads of the journal; None: the origin
        answers. `is_own`: the principal has no credential of its own at the origin. Raises S3Error, OriginError,
        Throttled."""
        document = await self._upload_listing(operation, target) if is_own else None
        if document is not None:
            await self._checks.check_owner(target.bucket or "", None, headers, None)
        return document

    async def _upload_listing(self, operation: str, target: Target) -> bytes | None:
        if operation == "ListParts":
            upload_id = target.param("uploadId") or ""
            upload = self.uploads.find(target.name, upload_id)
            if upload is not None and upload.origin_id:
                return await self._moved_requests.parts_document(upload, target)
            return parts_document(self.uploads, target) if is_local(upload_id) else None
        if operation == "ListMultipartUploads":
            return await self._upload_listings.answer(target)
        return None

    @property
    def backlog(self) -> Backlog:
        """The writes that are acknowledged and not yet at the origin."""
        now = self._worker.clock()
        stopped = [entry.is_conflict for entry in self.drainer.stopped]
        return backlog_of(self.shown.sums, self.shown.oldest(now), stopped, now)

    def _persisted(self, write: AcceptedWrite) -> None:
        self._events.wrote("persisted", write.size)

    def receive_made(self, message: Document) -> None:
        """Another worker had a write go through. Raises PeerUnavailable for a malformed message."""
        name, etag = decode(lambda: (decode_name(message["name"]), str(message["etag"])))
        self._note_own_version(name, etag)

    def _deciding(self, context: WriteContext) -> AbstractAsyncContextManager[None]:
        """A context in which one request of the node has the origin decide about the completion of an upload. Raises
        Throttled, S3Error, ConnectionError."""
        forward = context.forward

        def wait(acquiring: Awaitable[None]) -> Awaitable[None]:
            return self.barriers.wait(forward.target.bucket or "", acquiring, forward.request)

        return self.journal.upload_locks.held(forward.upload.upload_id, wait)

    # Of the records that are shown

    def _stopped(self, record: RecordId, write: AcceptedWrite, outcome: PersistOutcome) -> None:
        self.exchange.announce_stopped(record, outcome.reason)
        self._events.wrote("conflict" if outcome.is_conflict else "stuck", write.size)
        if outcome.is_conflict:
            return
        operation = "DeleteObject" if write.kind == "delete" else "PutObject"
        if (proof := proof_of(operation, write.name)) is not None:
            self.proofs.revoke(proof)
