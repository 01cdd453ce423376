"""The parts that know the records of the journal, of one worker: made here, in the order in which they need each other.

shown ──┬──> loader: what earlier runs left
        └──> exchange: what other workers write, and prove ──> writer: what this worker writes
                  └── proofs, room
"""

from dataclasses import dataclass

from forebay.write.back.accept.body_store import BodyStore
from forebay.write.back.accept.journal_room import JournalRoom
from forebay.write.back.accept.record_writer import RecordWriter
from forebay.write.back.accept.write_proofs import WriteProofs
from forebay.write.back.journal_loader import JournalLoader
from forebay.write.back.pending.shown_records import ShownRecords
from forebay.write.back.record_exchange import RecordExchange
from forebay.write.back.write_back_context import (
    CachedState,
    JournalState,
    OriginAccess,
    WriteBackLimits,
    WriteBackWorker,
)


@dataclass(frozen=True, slots=True)
class RecordParts:
    """See the module."""

    proofs: WriteProofs
    room: JournalRoom
    shown: ShownRecords
    loader: JournalLoader
    exchange: RecordExchange
    writer: RecordWriter


def compose_records(
    state: JournalState, origin: OriginAccess, cached: CachedState, worker: WriteBackWorker, limits: WriteBackLimits
) -> RecordParts:
    """Makes the parts."""
    proofs = WriteProofs(limits.proof_lease, worker.monotonic, worker.peers)
    room = JournalRoom(limits.size, state.journal.size, worker.tasks, worker.monotonic)
    shown = ShownRecords(state.pending, state.uploads, cached.invalidator, cached.tiers)
    exchange = RecordExchange(worker.peers, shown, proofs, room)
    writer = RecordWriter(
        state.journal,
        BodyStore(state.journal, lambda: shown.in_memory),
        state.origins,
        origin.origins,
        origin.forwarder,
        exchange,
        worker.clock,
        worker.monotonic,
        origin.versions.seen,
    )
    return RecordParts(proofs, room, shown, JournalLoader(state.origins, shown, origin.versions), exchange, writer)
