"""Write-back as one: what the write path, the read path, other workers and the operator have to do with it.

    start        what earlier runs left pending is seen by readers again, and carried out
    accepts      a write under a `back` rule: accepted, or not
    barriers     until what is pending of these objects is at the origin
    stop         new writes go through; pending ones have some time; what is left stays in the journal

Every worker knows what is pending (record_exchange). One of them drains, whoever has the journal's lock; another one
takes over when it has ended.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Final

from forebay.core.task_registry import TaskRegistry
from forebay.peers.frames import Document
from forebay.peers.owners import Peers
from forebay.peers.peer_codec import decode, decode_name
from forebay.policy.acceptable_writes import has_opaque_etags
from forebay.policy.rules import Rules
from forebay.protocol.header_map import Headers
from forebay.protocol.operations import Effect
from forebay.protocol.target import Target
from forebay.protocol.xml.s3_documents import ListedKey
from forebay.storage.journal.log_writer import RecordId
from forebay.storage.journal.pending_objects import PendingVersion
from forebay.storage.journal.recovery_scan import JournalScan, PendingRecord
from forebay.write.back.acceptance import Acceptance
from forebay.write.back.accepted_write import (
    AbortedUpload,
    AcceptedWrite,
)
from forebay.write.back.backlog import Backlog, backlog_of
from forebay.write.back.copied_part import CopySources
from forebay.write.back.drainer import Drainer
from forebay.write.back.journal_loader import JournalLoader
from forebay.write.back.journal_room import JournalRoom
from forebay.write.back.object_acceptance import ObjectAcceptance
from forebay.write.back.origin_completion import OriginCompletion
from forebay.write.back.part_listing import parts_document
from forebay.write.back.pending_uploads import PendingUpload, is_local
from forebay.write.back.persist_outcome import PersistOutcome
from forebay.write.back.persister import Persister
from forebay.write.back.record_exchange import RecordExchange
from forebay.write.back.record_writer import RecordWriter
from forebay.write.back.settlement import Settlement
from forebay.write.back.shown_records import ShownRecords
from forebay.write.back.upload_acceptance import UploadAcceptance
from forebay.write.back.upload_expiry import UploadExpiry
from forebay.write.back.upload_listing import UploadListings
from forebay.write.back.write_back_context import (
    CachedState,
    JournalState,
    OriginAccess,
    WriteBackEvents,
    WriteBackLimits,
)
from forebay.write.back.write_barriers import WriteBarriers
from forebay.write.back.write_probe import WriteProbe
from forebay.write.back.write_proofs import WriteProofs, proof_of
from forebay.write.forward_request import WriteContext

CHECK_SECONDS: Final = 1.0
"""Between two attempts to take over from a drainer that has ended."""
RECLAIM_SECONDS: Final = 60.0
_REFUSALS: Final = frozenset({401, 403, 404, 405})
"""Statuses by which the origin says that it would not accept other such writes, either."""


_log = logging.getLogger(__name__)


class WriteBack:
    """The write-back of one worker."""

    def __init__(
        self,
        state: JournalState,
        origin: OriginAccess,
        cached: CachedState,
        tasks: TaskRegistry,
        peers: Peers,
        rules: Callable[[], Rules],
        limits: WriteBackLimits,
        events: WriteBackEvents,
        *,
        clock: Callable[[], float],
        monotonic: Callable[[], float],
    ) -> None:
        """`clock`: seconds since the epoch. `monotonic`: seconds since any moment."""
        self.journal = journal = state.journal
        self.pending = pending = state.pending
        self.uploads = uploads = state.uploads
        self.record_origins = state.origins
        self.max_age = limits.max_age
        self._versions = versions = origin.versions
        self._tasks = tasks
        self._peers = peers
        self._rules = rules
        self._clock = clock
        self._events = events
        self.barriers = WriteBarriers(pending)
        persister = Persister(origin.origins, pending, uploads, cached.invalidator, versions)
        self.proofs = WriteProofs(limits.proof_lease, monotonic, peers)
        self.room = JournalRoom(limits.size, journal.size, monotonic)
        self.shown = ShownRecords(
            pending, uploads, cached.invalidator, cached.tiers, self._carry_out, self._settle_soon
        )
        self.loader = JournalLoader(state.origins, self.shown, versions)
        self.exchange = RecordExchange(peers, self.shown, self.proofs)
        self.settlement = Settlement(
            journal, pending, self.shown, self.exchange, cached.tiers, cached.staged, self._persisted, self.room.release
        )
        self.drainer = Drainer(persister, self.settlement.persisted, tasks, stopped=self._stopped)
        self.expiry = UploadExpiry(
            uploads,
            peers,
            self._abort,
            clock,
            max_age=limits.upload_max_age,
            size=limits.size,
            on_expired=events.expired,
        )
        self._writer = writer = RecordWriter(
            journal, state.origins, origin.forwarder, self.exchange.publish, clock, versions.seen
        )
        self.acceptance = Acceptance(
            writer,
            ObjectAcceptance(writer, pending),
            UploadAcceptance(
                writer,
                uploads,
                origin.forwarder,
                self.room,
                self.proofs,
                CopySources(origin.origins, pending),
                OriginCompletion(persister, self.barriers.before_write, self.learn),
                self._is_refused,
                self.expiry,
            ),
            self.proofs,
            WriteProbe(origin.origins, self.proofs, tasks, monotonic),
            self.room.has_room,
        )
        self._upload_listings = UploadListings(uploads, origin.origins)
        self.is_draining = False
        """Whether this worker carries them out."""

    # Start and end

    async def start(self) -> None:
        """Shows what is pending to readers, and has it carried out. Before anything is served. Raises OSError."""
        self.is_draining = self.journal.try_become_drainer()
        scan = await (self.journal.reclaim() if self.is_draining else self.journal.scan())
        self._load(scan, self.exchange.take_heard(), is_first=True)
        if self.shown.writes and self.is_draining:
            _log.info("%d writes are in the journal and not yet at the origin", len(self.shown.writes))
        self.exchange.tell_scanned()

    async def watch(self) -> None:
        """Takes over from a drainer that has ended, and reclaims what is settled. For ever."""
        while True:
            for _ in range(int(RECLAIM_SECONDS / CHECK_SECONDS)):
                await asyncio.sleep(CHECK_SECONDS)
                if self.is_draining and self.room.is_full:
                    self._events.full(int(CHECK_SECONDS))
                if not self.is_draining:
                    try:
                        await self.take_over()
                    except OSError as error:
                        _log.error("the journal can't be read: %s", error.strerror)
            if self.is_draining:
                await self.expiry.expire()
            try:
                if self.is_draining:
                    self._load(await self.journal.reclaim())
                else:
                    await self.receive_scan()  # in case that the message of a worker that began was lost
            except OSError as error:
                _log.error("the journal can't be reclaimed: %s", error.strerror)

    async def take_over(self) -> None:
        """Carries the node's writes out from now on, if nobody does. Raises OSError."""
        if not self.journal.try_become_drainer():
            return
        scan = await self.journal.scan()
        _log.info("this worker carries out the journal's writes from now on")
        self.is_draining = True  # not earlier: a write that comes meanwhile would overtake those that are known
        for record, write in sorted(self.shown.writes.items(), key=lambda pair: pair[1].interval.written):
            version = self.pending.find(write.name, record)
            if version is not None:
                self.drainer.add(write, version, is_recovered=True)
        self._load(scan, is_first=True)

    def _load(self, scan: JournalScan, heard: Sequence[PendingRecord] = (), *, is_first: bool = False) -> None:
        self.loader.load(scan, heard, is_first=is_first)
        if self.is_draining:
            for kept in self.shown.kept.values():
                self.drainer.keep(*kept)

    async def receive_scan(self) -> None:
        """Another worker has begun, and read the journal. Its predecessor may have left records that nobody knows, and
        may have settled some, as the drainer, that others still show. Raises OSError."""
        known, scan = self.shown.known(), await self.journal.scan()
        if self.is_draining:
            self._load(scan)
            return
        pending = {each.id for each in scan.pending}
        self.exchange.forget_here([each for each in known - pending if each.log not in scan.damages])

    async def stop(self, seconds: float) -> int:
        """Gives pending writes so many seconds. Returns how many are left in the journal."""
        self.room.is_closed = True
        if self.is_draining:
            try:
                async with asyncio.timeout(seconds):
                    await self.pending.wait_settled(lambda _: True)
            except TimeoutError:
                _log.warning("%d writes stay in the journal: the next start carries them out", len(self.shown.writes))
        return len(self.shown.writes)

    # Writes

    async def accepts(self, context: WriteContext) -> bool:
        """Accepts and answers a write, if it may be. Raises S3Error, ConnectionError."""
        if context.forward.operation.effect is Effect.LISTED_KEYS:
            return False  # once its document was read
        reason = await self.acceptance.obstacle(context)
        if reason is not None:
            self._passed(context, reason)
            return False
        await self.acceptance.accept(context)
        self._events.wrote("accepted", context.forward.length or 0)
        return True

    async def accepts_deletions(self, context: WriteContext, listed: Sequence[ListedKey], *, quiet: bool) -> bool:
        """Accepts and answers a batch delete, if it may be. Raises S3Error, ConnectionError."""
        reason = await self.acceptance.batch_obstacle(context, listed, self._rules())
        if reason is not None:
            self._passed(context, reason)
            return False
        await self.acceptance.accept_deletions(context, listed, quiet=quiet)
        self._events.wrote("accepted", 0)
        return True

    def _passed(self, context: WriteContext, reason: str) -> None:
        if context.decision is not None and context.decision.write == "back":
            self._events.wrote("through", context.forward.length or 0)
            _log.info("%s: the write goes through: %s", context.record.request_id, reason)

    def learn(self, context: WriteContext, status: int, headers: Headers, etag: str) -> None:
        """Notes how the origin has answered a write that went through. `etag`: of the object, if it made one."""
        if context.forward.target.key is None:
            return
        name = context.forward.target.name
        proof = proof_of(context.forward.operation.name, name)
        if 200 <= status < 300:
            if name in self.pending:  # accepted meanwhile, and so carried out after this one
                self._versions.made(name, etag)
                self.exchange.tell_made(name, etag)
            if has_opaque_etags(headers):
                self.proofs.set_opaque_etags(name.bucket)
            if "x-amz-version-id" in headers:
                self.proofs.set_versioned(name.bucket, versioned=True)
            if proof is not None and context.forward.identity is None:
                self.proofs.add(proof)
        elif proof is not None and status in _REFUSALS:
            self.proofs.revoke(proof)

    async def answer_listing(self, operation: str, target: Target, *, is_own: bool) -> bytes | None:
        """Returns the answer to a ListParts or ListMultipartUploads that shows uploads of the journal; None: the origin
        answers. `is_own`: the principal has no credential of its own at the origin. Raises S3Error, OriginError,
        Throttled."""
        if operation == "ListParts":
            return parts_document(self.uploads, target) if is_local(target.param("uploadId") or "") else None
        if operation == "ListMultipartUploads" and is_own:
            return await self._upload_listings.answer(target)
        return None

    @property
    def backlog(self) -> Backlog:
        """What is acknowledged and not yet at the origin."""
        writes = [*self.shown.writes.values(), *(kept.write for kept in self.shown.kept.values())]
        return backlog_of(writes, self.drainer.entries.values(), self._clock())

    def _persisted(self, write: AcceptedWrite) -> None:
        self._events.wrote("persisted", write.size)

    def receive_made(self, message: Document) -> None:
        """Another worker had a write go through. Raises PeerUnavailable for a malformed message."""
        name, etag = decode(lambda: (decode_name(message["name"]), str(message["etag"])))
        self._versions.made(name, etag)

    # Of the records that are shown

    def _carry_out(self, write: AcceptedWrite, version: PendingVersion, is_recovered: bool) -> None:
        if self.is_draining:
            self.drainer.add(write, version, is_recovered=is_recovered)

    def _stopped(self, write: AcceptedWrite, outcome: PersistOutcome) -> None:
        self._events.wrote("conflict" if outcome.is_conflict else "stuck", write.size)
        if outcome.is_conflict:
            return
        operation = "DeleteObject" if write.kind == "delete" else "PutObject"
        if (proof := proof_of(operation, write.name)) is not None:
            self.proofs.revoke(proof)

    def _settle_soon(self, records: Sequence[RecordId]) -> bool:
        if self.is_draining:
            self._tasks.spawn(self.settlement.settle(records), "settle records")
        return self.is_draining

    async def _abort(self, upload: PendingUpload) -> None:
        """Aborts an upload that its client has left. Raises JournalFailed."""
        entry = AbortedUpload(upload.upload.name, upload.upload.upload_id)
        await self._writer.publish(entry, await self._writer.append(entry))

    def check_completion(self, request: Document) -> Document:
        """Answers another worker, whether a completion of its is refused. Raises PeerUnavailable."""
        record = decode(lambda: RecordId(str(request["log"]), int(request["number"])))
        return {"is_drainer": self.is_draining, "refused": record in self.shown.refused}

    async def _is_refused(self, record: RecordId) -> bool:
        """Whether the draining worker had heard of an abort of its upload before a completion came."""
        if not self.is_draining:
            request = {"kind": "completion", "log": record.log, "number": record.number}
            for response in (await self._peers.call_all(request)).values():
                if response.get("is_drainer") is True:
                    return response.get("refused") is True
        return record in self.shown.refused
