"""The parts that carry writes out at the origin, of one worker: made here, in the order in which they need each other.

at_origin ──> persister <── own_uploads
                  └──> drainer <── pauses, which end with an outage of the origin
                          └── settlement
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from forebay.storage.journal.log_writer import RecordId
from forebay.write.back.drain.drainer import Drainer
from forebay.write.back.drain.origin_uploads import OriginUploads
from forebay.write.back.drain.own_uploads import OwnUploads
from forebay.write.back.drain.persist_outcome import PersistOutcome
from forebay.write.back.drain.persister import Persister
from forebay.write.back.drain.retry_pauses import RetryPauses
from forebay.write.back.drain.upload_preparation import UploadPreparation
from forebay.write.back.pending.accepted_write import AcceptedWrite
from forebay.write.back.record_parts import RecordParts
from forebay.write.back.settlement import Settlement
from forebay.write.back.write_back_context import CachedState, JournalState, OriginAccess, WriteBackWorker


@dataclass(frozen=True, slots=True)
class DrainParts:
    """See the module."""

    at_origin: OriginUploads
    own_uploads: OwnUploads
    persister: Persister
    pauses: RetryPauses
    settlement: Settlement
    drainer: Drainer


def compose_drain(
    state: JournalState,
    origin: OriginAccess,
    cached: CachedState,
    worker: WriteBackWorker,
    records: RecordParts,
    persisted: Callable[[AcceptedWrite], None],
    stopped: Callable[[RecordId, AcceptedWrite, PersistOutcome], None],
) -> DrainParts:
    """Makes the parts. `persisted`: called for a write at the origin; `stopped`: for a write that waits for a
    person."""
    at_origin = OriginUploads(origin.origins, state.pending, origin.rate)
    own_uploads = OwnUploads(worker.peers, state.journal, at_origin.abort)
    preparation = UploadPreparation(at_origin, state.uploads, own_uploads)
    persister = Persister(
        origin.origins,
        state.pending,
        preparation,
        cached.invalidator,
        origin.versions,
        cached.tiers.stage,
        origin.rate,
        records.proofs.learn,
    )
    pauses = RetryPauses(worker.tasks, origin.origins.origin_of)
    for each in origin.origins:
        each.client.breaker.on_outage_ended = partial(pauses.end, each.client.name)
    shown, exchange = records.shown, records.exchange
    settlement = Settlement(state, cached, shown, exchange, persisted, records.room.release)
    drainer = Drainer(
        persister,
        settlement.persisted,
        worker.tasks,
        pauses,
        stopped=stopped,
        resumed=lambda record: exchange.announce_stopped(record, ""),
        is_superseded=shown.last_settled.supersedes,
    )
    return DrainParts(at_origin, own_uploads, persister, pauses, settlement, drainer)
