"""The record exchange: every worker of a node learns of every record.

    accepted by a worker    ──"pending"──> all others, before it is acknowledged; with none, in the same step
    not to be settled now   ──"unsettled"──> all others: what has to come after it is refused there, too
    left to a person        ──"stopped"──> all others: likewise, until it is tried again
    settled by the drainer  ──"settled"──> all others, before the next write of the object is sent
    a worker begins         ──"journal_scanned"──> the drainer reads what its predecessor may have left, and tells
                                                   "unsettled" and "stopped" once more; the others forget what it may
                                                   have settled without a message

A message that a worker misses would have it show what is gone, or not show what is there: each is repeated until it was
acted upon, or the worker has ended. One that begins reads the journal, and keeps the records that it hears of
meanwhile, to show them in one order with those that it reads: a completion shown before its parts would lack them.
"""

from base64 import b64decode, b64encode
from collections.abc import Coroutine, Iterable, Sequence
from functools import partial
from typing import Any, Literal, TypeAlias

from forebay.core.first_wait import step_at_first_wait
from forebay.core.names import ObjectName
from forebay.peers.frames import Document
from forebay.peers.owners import Peers
from forebay.peers.peer_codec import decode, decode_name, encode_name
from forebay.storage.journal.journal_reclaim import bodies_of
from forebay.storage.journal.log_writer import RecordId
from forebay.storage.journal.recovery_scan import PendingRecord
from forebay.write.back.accept.journal_room import JournalRoom
from forebay.write.back.accept.write_proofs import WriteProofs, proof_of
from forebay.write.back.pending.accepted_write import JournalEntry, decode_record
from forebay.write.back.pending.shown_records import ShownRecords
from forebay.write.sent_versions import Versions

SentOutcome: TypeAlias = Literal["sent", "lost", "settled"]
"""The state of versions that were sent to the origin: no answer yet, none came, one came."""


class RecordExchange:
    """The exchange of one worker."""

    def __init__(self, peers: Peers, shown: ShownRecords, proofs: WriteProofs, room: JournalRoom) -> None:
        self._peers = peers
        self._shown = shown
        self._proofs = proofs
        self._room = room
        self._received: list[PendingRecord] | None = []
        """Records that other workers sent while the journal is read; None: it was read."""

    def take_received(self) -> list[PendingRecord]:
        """Returns the records that came since the last call, until `end_buffering`."""
        received, self._received = self._received or [], []
        return received

    def end_buffering(self) -> None:
        """Ends the buffering of received records: the journal is read, and from now on records are shown as they
        come."""
        self._received = None

    async def publish(self, entry: JournalEntry, record: RecordId, payload: bytes) -> None:
        """Shows a record to all workers, and has it carried out."""
        self._shown.show(entry, record, payload, is_recovered=False)
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

    async def publish_answered(
        self, answer: Coroutine[Any, Any, None], entry: JournalEntry, record: RecordId, payload: bytes
    ) -> None:
        """Shows a record to all workers, and has its client answered: not before they know it. This worker's readers
        see it before the loop does anything else."""
        if self._peers.others:
            try:
                await self.publish(entry, record, payload)
            except BaseException:
                answer.close()
                raise
            await answer
        else:
            await step_at_first_wait(answer, partial(self._shown.show, entry, record, payload, is_recovered=False))

    async def forget(self, records: Sequence[RecordId], *, is_persisted: bool) -> None:
        """Has all workers forget records that are settled. `is_persisted`: as the origin has them, which proves that it
        accepts such writes."""
        self.forget_here(records, is_persisted=is_persisted)
        if self._peers.others:
            settled = {"records": [list(record) for record in records], "persisted": is_persisted}
            await self._peers.call_until_acked({"kind": "settled", **settled})

    def forget_here(self, records: Iterable[RecordId], *, is_persisted: bool = False) -> None:
        """Has this worker forget records that are settled."""
        for record in records:
            write = self._shown.forget(record, is_persisted=is_persisted)
            operation = "DeleteObject" if write is not None and write.kind == "delete" else "PutObject"
            if write is not None and is_persisted and (proof := proof_of(operation, write.name)) is not None:
                self._proofs.renew(proof)

    def announce_unsettled(self, record: RecordId, reason: str) -> None:
        """Tells all workers of a write that the origin has, and whose settlement the journal can't record."""
        self._shown.note_unsettled(record, reason)
        self._peers.notify({"kind": "unsettled", "log": record.log, "number": record.number, "reason": reason})

    def announce_stopped(self, record: RecordId, reason: str) -> None:
        """Tells all workers why a write is left to a person; an empty reason: it is tried again."""
        self._shown.note_stopped(record, reason)
        self._peers.notify({"kind": "stopped", "log": record.log, "number": record.number, "reason": reason})

    def repeat_announcements(self) -> None:
        """Announces all unsettled and stopped writes again, for a worker that has just begun."""
        for record, reason in list(self._shown.unsettled.items()):
            self.announce_unsettled(record, reason)
        for record, reason in list(self._shown.stopped.items()):
            self.announce_stopped(record, reason)

    def announce_written_through(self, name: ObjectName, etag: str) -> None:
        """Tells the others that a write of the object went through here."""
        self._peers.notify({"kind": "written_through", "name": encode_name(name), "etag": etag})

    def announce_sent(self, versions: Versions, outcome: SentOutcome = "sent") -> None:
        """Tells the others of versions that this worker sends to the origin, or what has become of them there."""
        if self._peers.others:
            listed = [[encode_name(name), etag] for name, etag in versions]
            self._peers.notify({"kind": "sent_through", "versions": listed, "outcome": outcome})

    def announce_scanned(self) -> None:
        """Tells the others that this worker has begun, and read the journal."""
        self._peers.notify({"kind": "journal_scanned"})

    def receive_pending(self, message: Document) -> None:
        """Shows a record of another worker. Raises PeerUnavailable for a malformed message."""
        record = decode(lambda: RecordId(str(message["log"]), int(message["number"])))
        payload = decode(lambda: b64decode(message["payload"]))
        pending = PendingRecord(record, message["document"], payload)
        entry = decode(lambda: decode_record(pending))
        if not self._shown.is_known(record):
            self._room.fill(len(payload) + sum(body.size for body in bodies_of(pending.document)))
        if self._received is not None:
            self._received.append(pending)
        else:
            self._shown.show(entry, record, payload, is_recovered=False)

    def receive_unsettled(self, message: Document) -> None:
        """Notes another worker's failure to settle a write. Raises PeerUnavailable for a malformed message."""
        self._shown.note_unsettled(*_decode_reason(message))

    def receive_stopped(self, message: Document) -> None:
        """Notes that another worker's write waits for a person. Raises PeerUnavailable for a malformed message."""
        self._shown.note_stopped(*_decode_reason(message))

    def receive_settled(self, message: Document) -> None:
        """Forgets records that another worker has settled. Raises PeerUnavailable for a malformed message."""
        records = decode(lambda: [RecordId(str(log), int(number)) for log, number in message["records"]])
        self._room.release(sum(body.size for record in records for body in self._shown.bodies_of(record)))
        self.forget_here(records, is_persisted=message.get("persisted") is True)


def decode_sent(message: Document) -> tuple[Versions, str]:
    """Returns the versions of an `announce_sent`, and their outcome. Raises PeerUnavailable for a malformed message."""
    return decode(
        lambda: ([(decode_name(name), str(etag)) for name, etag in message["versions"]], str(message["outcome"]))
    )


def _decode_reason(message: Document) -> tuple[RecordId, str]:
    return decode(lambda: (RecordId(str(message["log"]), int(message["number"])), str(message["reason"])))
