"""Write-back as one: what the write path, the read path, other workers and the operator have to do with it.

    start        what earlier runs left pending is seen by readers again, and carried out
    accepts      a write under a `back` rule: accepted, or not
    wait_for     barriers: until what is pending of these objects is at the origin
    stop         new writes go through; pending ones have some time; what is left stays in the journal

Every worker knows what is pending. One of them drains, whoever has the journal's lock; another one takes over when it
has ended.

    accepted by a worker ──"pending"──> all others, before it is acknowledged
    settled by the drainer ──"settled"──> all others
"""

import asyncio
import logging
from base64 import b64decode, b64encode
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, NamedTuple

from forebay.core.byte_ranges import block_count, block_span
from forebay.core.errors import Throttled
from forebay.core.names import BlockId, ObjectName
from forebay.core.task_registry import TaskRegistry
from forebay.metadata.staged_objects import StagedBody, StagedObjects
from forebay.peers.frames import Document
from forebay.peers.owners import Peers
from forebay.peers.peer_codec import decode
from forebay.policy.rules import Rules
from forebay.protocol.copy_source import parse_copy_source
from forebay.protocol.operations import Effect
from forebay.protocol.target import Target
from forebay.protocol.xml.s3_documents import ListedKey
from forebay.storage.journal.body_file import BodyDamaged, BodyRef
from forebay.storage.journal.journal import Journal
from forebay.storage.journal.log_writer import RecordId
from forebay.storage.journal.pending_objects import PendingObjects, PendingVersion
from forebay.storage.journal.recovery_scan import JournalScan, PendingRecord
from forebay.storage.tiers import Tiers
from forebay.write.back.acceptance import Acceptance
from forebay.write.back.accepted_write import (
    AbortedUpload,
    AcceptedPart,
    AcceptedUpload,
    AcceptedWrite,
    JournalEntry,
    body_parts,
    decode_record,
)
from forebay.write.back.drainer import Drainer
from forebay.write.back.last_settled import LastSettled
from forebay.write.back.object_acceptance import ObjectAcceptance
from forebay.write.back.pending_uploads import PendingPart, PendingUploads
from forebay.write.back.persister import Persister, PersistOutcome
from forebay.write.back.record_writer import RecordWriter
from forebay.write.back.upload_acceptance import UploadAcceptance
from forebay.write.back.write_proofs import WriteProofs
from forebay.write.forward_request import WriteContext
from forebay.write.forwarder import Forwarder
from forebay.write.invalidation import AffectedKeys, Invalidator, WholeBucket

ROOM_SECONDS: Final = 1.0
"""How old the measured size of the journal may be."""
CHECK_SECONDS: Final = 1.0
"""Between two attempts to take over from a drainer that has ended."""
RECLAIM_SECONDS: Final = 60.0
WAIT_SECONDS: Final = 30.0
"""How long a request waits for pending writes."""
_HIGH_WATER: Final = 0.9
_REMEMBERED: Final = 65_536
"""Settled records that are kept in mind: a message about one of them may come late."""


class Backlog(NamedTuple):
    """The writes of the journal."""

    writes: int
    age: float
    """Of the oldest, in seconds."""
    stuck: int
    """How many the origin has refused, as far as this worker carries them out."""


_log = logging.getLogger(__name__)


class WriteBack:
    """The write-back of one worker."""

    def __init__(
        self,
        journal: Journal,
        pending: PendingObjects,
        uploads: PendingUploads,
        persister: Persister,
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
        on_write: Callable[[str], None] = lambda _result: None,
    ) -> None:
        """`size`: bytes of the journal at most. `proof_lease`: seconds. `clock`: seconds since the epoch.
        `on_write(result)` is called for each write: "accepted" or "through", and "persisted"."""
        self.journal = journal
        self.pending = pending
        self.uploads = uploads
        self._tasks = tasks
        self.proofs = WriteProofs(proof_lease, monotonic)
        writer = RecordWriter(journal, forwarder, self.publish, clock)
        self.acceptance = Acceptance(
            writer,
            ObjectAcceptance(writer, pending),
            UploadAcceptance(writer, uploads, forwarder, self.has_room),
            self.proofs,
            self.has_room,
        )
        self.drainer = Drainer(persister, self._settled, tasks, sleep)
        self._invalidator = invalidator
        self._tiers = tiers
        self._staged = staged
        self._peers = peers
        self._rules = rules
        self.size = size
        self._clock = clock
        self._on_write = on_write
        self._monotonic = monotonic
        self._measured = (float("-inf"), 0)
        self._growth = 0
        self._finished: OrderedDict[RecordId, None] = OrderedDict()
        self._writes: dict[RecordId, AcceptedWrite] = {}
        """The unsettled writes, by their records."""
        self._known: set[RecordId] = set()
        """All unsettled records."""
        self._last_settled = LastSettled()
        self._ended: dict[RecordId, list[RecordId]] = {}
        """The records of a completed upload, by that of its completion."""
        self.is_draining = False
        """Whether this worker carries them out."""
        self.is_ending = False

    # Start and end

    async def start(self) -> None:
        """Shows what is pending to readers, and has it carried out. Before anything is served. Raises OSError."""
        self.is_draining = self.journal.try_become_drainer()
        scan = await (self.journal.reclaim() if self.is_draining else self.journal.scan())
        found = self._load(scan)
        if found and self.is_draining:
            _log.info("%d writes are in the journal and not yet at the origin", found)
        self._peers.notify({"kind": "journal_scanned"})

    async def watch(self) -> None:
        """Takes over from a drainer that has ended, and reclaims what is settled. For ever."""
        while True:
            for _ in range(int(RECLAIM_SECONDS / CHECK_SECONDS)):
                await asyncio.sleep(CHECK_SECONDS)
                if not self.is_draining and self.journal.try_become_drainer():
                    self.is_draining = True
                    await self._take_over()
            if self.is_draining:
                try:
                    self._load(await self.journal.reclaim())
                except OSError as error:
                    _log.error("the journal can't be reclaimed: %s", error.strerror)

    async def _take_over(self) -> None:
        _log.info("this worker carries out the journal's writes from now on")
        for record, write in sorted(self._writes.items(), key=lambda pair: pair[1].interval.written):
            version = self.pending.find(write.name, record)
            if version is not None:
                self.drainer.add(write, version, is_recovered=True)
        self._load(await self.journal.scan())

    def _load(self, scan: JournalScan) -> int:
        for log, damages in scan.damages.items():
            for damage in damages:
                _log.error("the journal's log %s is damaged from byte %d to %d", log, damage.start, damage.stop)
        for (bucket, key), written in scan.settled.items():
            self._last_settled.add(ObjectName(bucket, key), written)
        found: list[tuple[tuple[int, float], JournalEntry, PendingRecord]] = []
        for record in scan.pending:
            try:
                entry = decode_record(record)
            except ValueError as error:
                _log.error("%s: it is left alone", error)
                continue
            found.append((_load_order(entry), entry, record))
        for _, entry, record in sorted(found, key=lambda each: each[0]):
            self._show(entry, record.id, record.payload, is_recovered=True)
        return len(self._writes)

    async def stop(self, seconds: float) -> int:
        """Gives pending writes so many seconds. Returns how many are left in the journal."""
        self.is_ending = True
        if self.is_draining:
            try:
                async with asyncio.timeout(seconds):
                    await self.pending.wait_settled(lambda _: True)
            except TimeoutError:
                _log.warning("%d writes stay in the journal: the next start carries them out", len(self._writes))
        return len(self._writes)

    # Writes

    def has_room(self, size: int) -> bool:
        """Returns whether the journal takes `size` bytes more."""
        now = self._monotonic()
        if now - self._measured[0] > ROOM_SECONDS:
            self._measured, self._growth = (now, self.journal.size()), 0
        fits = not self.is_ending and self._measured[1] + self._growth + size <= self.size * _HIGH_WATER
        self._growth += size if fits else 0
        return fits

    async def accepts(self, context: WriteContext) -> bool:
        """Accepts and answers a write, if it may be. Raises S3Error, ConnectionError."""
        if context.forward.operation.effect is Effect.LISTED_KEYS:
            return False  # once its document was read
        reason = self.acceptance.obstacle(context)
        if reason is not None:
            self._passed(context, reason)
            return False
        await self.acceptance.accept(context)
        self._on_write("accepted")
        return True

    async def accepts_deletions(self, context: WriteContext, listed: Sequence[ListedKey], *, quiet: bool) -> bool:
        """Accepts and answers a batch delete, if it may be. Raises S3Error, ConnectionError."""
        reason = self.acceptance.batch_obstacle(context, listed, self._rules())
        if reason is not None:
            self._passed(context, reason)
            return False
        await self.acceptance.accept_deletions(context, listed, quiet=quiet)
        self._on_write("accepted")
        return True

    def _passed(self, context: WriteContext, reason: str) -> None:
        if context.decision is not None and context.decision.write == "back":
            self._on_write("through")
            _log.info("%s: the write goes through: %s", context.record.request_id, reason)

    def learn(self, context: WriteContext, status: int, *, versioned: bool) -> None:
        """Notes how the origin has answered a write that went through."""
        if context.forward.target.key is None:
            return
        operation, name = context.forward.operation.name, context.forward.target.name
        if 200 <= status < 300:
            self.proofs.record(context.principal.id, operation, name, versioned=versioned)
        elif 400 <= status < 500:
            self.proofs.revoke(context.principal.id, operation, name)

    async def wait_before_write(self, context: WriteContext, affected: AffectedKeys) -> None:
        """Waits until a write that goes through may: until what is pending of its objects and of the source of a copy
        is at the origin; under a `back` rule everything of its bucket, as it was acknowledged earlier. Raises
        Throttled when that takes too long."""
        if not len(self.pending):
            return
        bucket, decision = context.forward.target.bucket or "", context.decision
        if isinstance(affected, WholeBucket) or (decision is not None and decision.write == "back"):
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
        oldest = min((write.accepted_at for write in self._writes.values()), default=self._clock())
        stuck = sum(entry.is_stuck for entry in self.drainer.entries.values())
        return Backlog(len(self._writes), max(0.0, self._clock() - oldest), stuck)

    # Between workers

    async def publish(self, entry: JournalEntry, record: RecordId, payload: bytes) -> None:
        """Shows a record to all workers, and has it carried out."""
        self._show(entry, record, payload, is_recovered=False)
        if self._peers.others:
            await self._peers.call_until_acked(
                {
                    "kind": "pending",
                    "log": record.log,
                    "number": record.number,
                    "document": dict(entry.document()),
                    "payload": b64encode(payload).decode(),
                }
            )

    def receive_pending(self, message: Document) -> None:
        """Shows a record of another worker. Raises PeerUnavailable for a malformed message."""
        record = decode(lambda: RecordId(str(message["log"]), int(message["number"])))
        payload = decode(lambda: b64decode(message["payload"]))
        entry = decode(lambda: decode_record(PendingRecord(record, message["document"], payload)))
        self._show(entry, record, payload, is_recovered=False)

    def receive_settled(self, message: Document) -> None:
        """Forgets records that another worker has settled. Raises PeerUnavailable for a malformed message."""
        for record in decode(lambda: [RecordId(str(log), int(number)) for log, number in message["records"]]):
            self._forget(record)

    async def receive_scan(self) -> None:
        """Another worker has begun, and read the journal: its predecessor may have left records that nobody knows."""
        if self.is_draining:
            self._load(await self.journal.scan())

    def _show(self, entry: JournalEntry, record: RecordId, payload: bytes, *, is_recovered: bool) -> None:
        if record in self._finished or record in self._known:
            return
        self._known.add(record)
        match entry:
            case AcceptedUpload():
                self.uploads.create(record, entry)
            case AcceptedPart():
                part = PendingPart(record, entry, body_parts(entry.bodies, payload))
                replaced = self.uploads.add(part)
                if replaced is not None:
                    self._settle_soon([replaced.record])
            case AbortedUpload():
                upload = self.uploads.end(entry.upload_id)
                self._settle_soon([*(upload.records if upload is not None else ()), record])
            case AcceptedWrite():
                self._show_write(entry, record, payload, is_recovered=is_recovered)

    def _show_write(self, write: AcceptedWrite, record: RecordId, payload: bytes, *, is_recovered: bool) -> None:
        parts = body_parts(write.bodies, payload)
        if write.kind == "complete":
            upload = self.uploads.end(write.upload_id)
            self._ended[record] = upload.records if upload is not None else []
            known = [self.uploads.parts.get(part.record) for part in write.parts]
            parts = tuple(piece for part in known if part is not None for piece in part.bytes)
        if self._last_settled.supersedes(write):
            _log.warning(
                "a write of %s was never acknowledged, and a later one is done: it is dropped", write.name.path
            )
            self._settle_soon([record, *self._ended.get(record, ())])
            return
        version = write.version(record, parts)
        self._writes[record] = write
        self.pending.add(write.name, version)
        self._invalidator.fence((write.name,))
        self._tiers.memory.forget(write.name)
        if self.is_draining:
            self.drainer.add(write, version, is_recovered=is_recovered)

    async def _settled(self, write: AcceptedWrite, record: RecordId, outcome: PersistOutcome) -> None:
        current = self.pending.current(write.name)
        if current is not None and current.record == record and current.head is not None:
            await self._install(write.name, current, outcome.etag or current.head.version.etag)
        await self._settle([record, *self._ended.get(record, ())])
        self._on_write("persisted")

    def _settle_soon(self, records: Sequence[RecordId]) -> None:
        if self.is_draining:
            self._tasks.spawn(self._settle(records), "settle records")

    async def _settle(self, records: Sequence[RecordId]) -> None:
        """Settles records, the first of them first, and removes their bodies. Raises OSError."""
        await self.journal.settle(records)
        bodies = [body for record in records for body in self._bodies_of(record)]
        for record in records:
            self._forget(record)
        self._peers.notify({"kind": "settled", "records": [list(record) for record in records]})
        await self.journal.remove_bodies(bodies)

    def _bodies_of(self, record: RecordId) -> tuple[BodyRef, ...]:
        if record in self._writes:
            return self._writes[record].bodies
        part = self.uploads.parts.get(record)
        return part.part.bodies if part is not None else ()

    def _forget(self, record: RecordId) -> None:
        self._known.discard(record)
        self._ended.pop(record, None)
        self._finished[record] = None
        if len(self._finished) > _REMEMBERED:
            self._finished.popitem(last=False)
        self.uploads.settle(record)
        write = self._writes.pop(record, None)
        if write is not None:
            self._last_settled.add(write.name, write.interval.written)
            self.pending.remove(write.name, record)

    async def _install(self, name: ObjectName, version: PendingVersion, etag: str) -> None:
        """Puts the blocks into the tiers, and the head that the origin has."""
        head = version.head
        if head is None:
            return
        try:
            for number in range(block_count(head.size, head.block_size)):
                span = block_span(number, head.block_size, head.size)
                buffer = await self.pending.read_parts(version.parts, span)
                self._tiers.stage(BlockId(name, head.generation, number), buffer)
        except (OSError, BodyDamaged) as error:
            _log.warning("%s is at the origin, but is not cached: %s", name.path, error)
        self._staged.install(name, StagedBody(head.generation, head.block_size, head.size, etag))
        await self._staged.wait_installed(name)


def _load_order(entry: JournalEntry) -> tuple[int, float]:
    """The order in which the records of a scan are shown: uploads, their parts, what ends them."""
    match entry:
        case AcceptedUpload():
            return 0, entry.accepted_at
        case AcceptedPart():
            return 1, entry.accepted_at
        case AcceptedWrite():
            return 2, entry.interval.written
        case AbortedUpload():
            return 3, 0
