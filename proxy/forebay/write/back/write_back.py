"""Write-back as one: what the write path, the read path, other workers and the operator have to do with it.

    start        what earlier runs left pending is seen by readers again, and carried out
    accepts      a write under a `back` rule: accepted, or not
    wait_before  barriers: until what is pending of these objects is at the origin
    stop         new writes go through; pending ones have some time; what is left stays in the journal

Every worker knows what is pending (record_exchange). One of them drains, whoever has the journal's lock; another one
takes over when it has ended.
"""

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, NamedTuple

from forebay.core.errors import Throttled
from forebay.core.names import ObjectName
from forebay.core.task_registry import TaskRegistry
from forebay.metadata.staged_objects import StagedObjects
from forebay.origin.origins import Origins
from forebay.peers.frames import Document
from forebay.peers.owners import Peers
from forebay.peers.peer_codec import decode, decode_name
from forebay.policy.acceptable_writes import has_opaque_etags
from forebay.policy.rules import Rules
from forebay.protocol.copy_source import parse_copy_source
from forebay.protocol.header_map import Headers
from forebay.protocol.operations import Effect
from forebay.protocol.target import Target
from forebay.protocol.xml.s3_documents import ListedKey
from forebay.storage.journal.journal import Journal
from forebay.storage.journal.log_writer import RecordId
from forebay.storage.journal.pending_objects import PendingObjects, PendingVersion
from forebay.storage.journal.record_origins import RecordOrigins
from forebay.storage.journal.recovery_scan import JournalScan, PendingRecord
from forebay.storage.tiers import Tiers
from forebay.write.back.acceptance import Acceptance
from forebay.write.back.accepted_write import (
    AbortedUpload,
    AcceptedPart,
    AcceptedUpload,
    AcceptedWrite,
    JournalEntry,
    decode_record,
)
from forebay.write.back.copied_part import CopySources
from forebay.write.back.drainer import Drainer
from forebay.write.back.journal_room import JournalRoom
from forebay.write.back.object_acceptance import ObjectAcceptance
from forebay.write.back.origin_completion import OriginCompletion
from forebay.write.back.origin_versions import OriginVersions
from forebay.write.back.part_listing import parts_document
from forebay.write.back.pending_uploads import PendingUpload, PendingUploads, is_local
from forebay.write.back.persister import Persister, PersistOutcome
from forebay.write.back.record_exchange import RecordExchange
from forebay.write.back.record_writer import RecordWriter
from forebay.write.back.settlement import Settlement
from forebay.write.back.shown_records import ShownRecords
from forebay.write.back.upload_acceptance import UploadAcceptance
from forebay.write.back.upload_expiry import UploadExpiry
from forebay.write.back.upload_listing import UploadListings
from forebay.write.back.write_probe import WriteProbe
from forebay.write.back.write_proofs import WriteProofs, proof_of
from forebay.write.forward_request import WriteContext
from forebay.write.forwarder import Forwarder
from forebay.write.invalidation import AffectedKeys, Invalidator, WholeBucket

CHECK_SECONDS: Final = 1.0
"""Between two attempts to take over from a drainer that has ended."""
RECLAIM_SECONDS: Final = 60.0
_REFUSALS: Final = frozenset({401, 403, 404, 405})
"""Statuses by which the origin says that it would not accept other such writes, either."""
WAIT_SECONDS: Final = 30.0
"""How long a request waits for pending writes."""


class Backlog(NamedTuple):
    """The writes of the journal."""

    writes: int
    objects: int
    size: int
    """Bytes of the objects that the writes make."""
    age: float
    """Of the oldest, in seconds."""
    stuck: int
    """How many the origin has refused, as far as this worker carries them out."""
    conflicts: int
    """How many are of objects that somebody else has written meanwhile; likewise."""


_log = logging.getLogger(__name__)


class WriteBack:
    """The write-back of one worker."""

    def __init__(
        self,
        journal: Journal,
        record_origins: RecordOrigins,
        pending: PendingObjects,
        uploads: PendingUploads,
        origins: Origins,
        persister: Persister,
        versions: OriginVersions,
        forwarder: Forwarder,
        invalidator: Invalidator,
        tiers: Tiers,
        staged: StagedObjects,
        tasks: TaskRegistry,
        peers: Peers,
        rules: Callable[[], Rules],
        *,
        size: int,
        proof_lease: float,
        clock: Callable[[], float],
        monotonic: Callable[[], float],
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
        max_age: float = math.inf,
        upload_max_age: float = math.inf,
        on_write: Callable[[str, int], None] = lambda _result, _size: None,
        on_full: Callable[[int], None] = lambda _seconds: None,
        on_expired: Callable[[], None] = lambda: None,
    ) -> None:
        """`size`: bytes of the journal at most. `proof_lease`: seconds. `clock`: seconds since the epoch.
        `max_age`: seconds after which a pending write is reported. `on_write(result, size)` is called for each write:
        "accepted" or "through", then "persisted", "stuck" or "conflict"; `on_full` with the seconds for which the
        journal has had no room. `upload_max_age`: seconds for which an unfinished upload is kept after its last part;
        `on_expired` is called for each that is aborted then."""
        self.journal = journal
        self.pending = pending
        self.uploads = uploads
        self.record_origins = record_origins
        self._tasks = tasks
        self._peers = peers
        self._rules = rules
        self._clock = clock
        self.max_age = max_age
        self._on_write = on_write
        self._on_full = on_full
        self.proofs = WriteProofs(proof_lease, monotonic, peers)
        self.room = JournalRoom(size, journal.size, monotonic)
        self.shown = ShownRecords(pending, uploads, invalidator, tiers, self._carry_out, self._settle_soon)
        self.exchange = RecordExchange(peers, self.shown, self.proofs)
        self.settlement = Settlement(
            journal, pending, self.shown, self.exchange, tiers, staged, self._persisted, self.room.release
        )
        self.drainer = Drainer(persister, self.settlement.persisted, tasks, sleep, self._stopped)
        self.expiry = UploadExpiry(
            uploads, peers, self._abort, clock, max_age=upload_max_age, size=size, on_expired=on_expired
        )
        self._writer = writer = RecordWriter(
            journal, record_origins, forwarder, self.exchange.publish, clock, versions.seen
        )
        self.acceptance = Acceptance(
            writer,
            ObjectAcceptance(writer, pending),
            UploadAcceptance(
                writer,
                uploads,
                forwarder,
                self.room.has_room,
                CopySources(origins, pending),
                OriginCompletion(persister, self.wait_before_write, self.learn),
                self._is_refused,
                self.expiry,
            ),
            self.proofs,
            WriteProbe(origins, self.proofs, tasks, monotonic),
            self.room.has_room,
        )
        self._versions = versions
        self._upload_listings = UploadListings(uploads, origins)
        self.is_draining = False
        """Whether this worker carries them out."""

    # Start and end

    async def start(self) -> None:
        """Shows what is pending to readers, and has it carried out. Before anything is served. Raises OSError."""
        self.is_draining = self.journal.try_become_drainer()
        scan = await (self.journal.reclaim() if self.is_draining else self.journal.scan())
        self._learn_versions(scan)
        self._load(scan)
        if self.shown.writes and self.is_draining:
            _log.info("%d writes are in the journal and not yet at the origin", len(self.shown.writes))
        self.exchange.tell_scanned()

    async def watch(self) -> None:
        """Takes over from a drainer that has ended, and reclaims what is settled. For ever."""
        while True:
            for _ in range(int(RECLAIM_SECONDS / CHECK_SECONDS)):
                await asyncio.sleep(CHECK_SECONDS)
                if self.is_draining and self.room.is_full:
                    self._on_full(int(CHECK_SECONDS))
                if not self.is_draining and self.journal.try_become_drainer():
                    self.is_draining = True
                    await self._take_over()
            if self.is_draining:
                await self.expiry.expire()
                try:
                    self._load(await self.journal.reclaim())
                except OSError as error:
                    _log.error("the journal can't be reclaimed: %s", error.strerror)

    async def _take_over(self) -> None:
        _log.info("this worker carries out the journal's writes from now on")
        scan = await self.journal.scan()
        self._learn_versions(scan)
        for record, write in sorted(self.shown.writes.items(), key=lambda pair: pair[1].interval.written):
            version = self.pending.find(write.name, record)
            if version is not None:
                self.drainer.add(write, version, is_recovered=True)
        self._load(scan)

    def _learn_versions(self, scan: JournalScan) -> None:
        """Learns what earlier runs, and the drainer before this one, have made of objects."""
        for (bucket, key, origin), (_, etag) in scan.settled.items():
            if self.record_origins.is_current(bucket, origin):
                self._versions.made(ObjectName(bucket, key), etag)

    def _load(self, scan: JournalScan) -> None:
        for log, damages in scan.damages.items():
            for damage in damages:
                _log.error("the journal's log %s is damaged from byte %d to %d", log, damage.start, damage.stop)
        for (bucket, key, origin), (written, _) in scan.settled.items():
            if self.record_origins.is_current(bucket, origin):
                self.shown.last_settled.add(ObjectName(bucket, key), written)
        found: list[tuple[tuple[int, float], JournalEntry, PendingRecord, str | None]] = []
        for record in scan.pending:
            try:
                entry, obstacle = decode_record(record), self.record_origins.obstacle(record.document)
            except ValueError as error:
                _log.error("record %d of the log %s is left alone: %s", record.id.number, record.id.log, error)
                continue
            found.append((_load_order(entry), entry, record, obstacle))
        for _, entry, record, obstacle in sorted(found, key=lambda each: each[0]):
            if obstacle is None:
                self.shown.show(entry, record.id, record.payload, is_recovered=True)
            else:
                self.shown.keep(entry, record.id, record.payload, obstacle)
        if self.is_draining:
            for kept in self.shown.kept.values():
                self.drainer.keep(*kept)

    async def receive_scan(self) -> None:
        """Another worker has begun, and read the journal: its predecessor may have left records that nobody knows."""
        if self.is_draining:
            self._load(await self.journal.scan())

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
        self._on_write("accepted", context.forward.length or 0)
        return True

    async def accepts_deletions(self, context: WriteContext, listed: Sequence[ListedKey], *, quiet: bool) -> bool:
        """Accepts and answers a batch delete, if it may be. Raises S3Error, ConnectionError."""
        reason = await self.acceptance.batch_obstacle(context, listed, self._rules())
        if reason is not None:
            self._passed(context, reason)
            return False
        await self.acceptance.accept_deletions(context, listed, quiet=quiet)
        self._on_write("accepted", 0)
        return True

    def _passed(self, context: WriteContext, reason: str) -> None:
        if context.decision is not None and context.decision.write == "back":
            self._on_write("through", context.forward.length or 0)
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

    async def wait_before_write(self, context: WriteContext, affected: AffectedKeys) -> None:
        """Waits until a write that goes through may: until what is pending of its objects and of the source of a copy
        is at the origin; under a `back` rule everything of its bucket, as it was acknowledged earlier. Raises
        Throttled when that takes too long."""
        if not len(self.pending):
            return
        bucket, decision = context.forward.target.bucket or "", context.decision
        is_seen = isinstance(affected, WholeBucket) or len(affected) > 0  # what is done to an upload is not
        if isinstance(affected, WholeBucket) or (is_seen and decision is not None and decision.write == "back"):
            await self._wait(lambda name: name.bucket == bucket)
            return
        source = parse_copy_source(context.forward.request.headers)
        names = frozenset(affected) | (frozenset({source.name}) if source is not None else frozenset())
        await self._wait(names.__contains__)

    async def wait_before_read(self, target: Target) -> None:
        """Waits until a read that the origin answers may be sent: until what is pending of its object, or under its
        prefix, is there. Raises Throttled when that takes too long."""
        bucket, key = target.bucket, target.key
        if not len(self.pending) or bucket is None:
            return
        prefix = target.param("prefix") or ""
        if key is not None:
            await self._wait(ObjectName(bucket, key).__eq__)
        else:
            await self._wait(lambda name: name.bucket == bucket and name.key.startswith(prefix))

    async def _wait(self, covers: Callable[[ObjectName], bool]) -> None:
        try:
            async with asyncio.timeout(WAIT_SECONDS):
                await self.pending.wait_settled(covers)
        except TimeoutError:
            raise Throttled("writes that it has to come after are not at the origin yet") from None

    @property
    def backlog(self) -> Backlog:
        """What is acknowledged and not yet at the origin."""
        writes = [*self.shown.writes.values(), *(kept.write for kept in self.shown.kept.values())]
        oldest = min((write.accepted_at for write in writes), default=self._clock())
        stopped = [entry.is_conflict for entry in self.drainer.entries.values() if entry.is_stuck]
        conflicts = sum(stopped)
        objects, size = len({write.name for write in writes}), sum(write.size for write in writes)
        return Backlog(
            len(writes), objects, size, max(0.0, self._clock() - oldest), len(stopped) - conflicts, conflicts
        )

    def _persisted(self, write: AcceptedWrite) -> None:
        self._on_write("persisted", write.size)

    def receive_made(self, message: Document) -> None:
        """Another worker had a write go through. Raises PeerUnavailable for a malformed message."""
        name, etag = decode(lambda: (decode_name(message["name"]), str(message["etag"])))
        self._versions.made(name, etag)

    # Of the records that are shown

    def _carry_out(self, write: AcceptedWrite, version: PendingVersion, is_recovered: bool) -> None:
        if self.is_draining:
            self.drainer.add(write, version, is_recovered=is_recovered)

    def _stopped(self, write: AcceptedWrite, outcome: PersistOutcome) -> None:
        self._on_write("conflict" if outcome.is_conflict else "stuck", write.size)
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


def _load_order(entry: JournalEntry) -> tuple[int, float]:
    """The order in which the records of a scan are shown: uploads, their parts, what ends them."""
    match entry:
        case AcceptedUpload():
            return 0, entry.accepted_at
        case AcceptedPart():
            return 1, entry.accepted_at
        case AcceptedWrite():
            return 2, entry.interval.written
        case _:
            return 3, 0
