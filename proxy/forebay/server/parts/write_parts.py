"""The parts of writes in one worker: the way to the origin, multipart uploads, and write-back where a journal is."""

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from forebay.origin.origins import Origins
from forebay.policy.origin_routes import OriginRoutes
from forebay.server.parts.metadata_parts import MetadataParts
from forebay.server.parts.namespace_parts import NamespaceParts
from forebay.server.parts.storage_parts import StorageParts
from forebay.server.parts.worker_context import WorkerContext
from forebay.write.forwarder import Forwarder
from forebay.write.key_locks import KeyLocks
from forebay.write.length_spooler import LengthSpooler
from forebay.write.member_writes import MemberWrites
from forebay.write.multipart.multipart_registry import MultipartRegistry
from forebay.write.multipart.part_coalescer import PartCoalescer
from forebay.write.object_write import DOCUMENT_LIMIT, ObjectWriter
from forebay.write.packed_deletions import PackedDeletions
from forebay.write.repeated_completion import RepeatedCompletions
from forebay.write.tracked_write import WriteTracker
from forebay.write.warm_on_write import WarmOnWrite

if TYPE_CHECKING:  # only with a journal
    from forebay.write.back.node_backlog import NodeBacklog
    from forebay.write.back.write_back import WriteBack


@dataclass(frozen=True, slots=True)
class WriteParts:
    """The parts that carry writes."""

    forwarder: Forwarder
    uploads: MultipartRegistry
    tracker: WriteTracker
    write_back: "WriteBack | None"
    """None: no journal is configured."""
    backlog: "NodeBacklog | None"
    """None: no journal is configured."""
    deletions: PackedDeletions
    locks: KeyLocks
    writer: ObjectWriter
    length_spooler: LengthSpooler


def compose_writes(
    context: WorkerContext,
    routes: OriginRoutes,
    origins: Origins,
    storage: StorageParts,
    namespaces: NamespaceParts,
    metadata: MetadataParts,
) -> WriteParts:
    """Makes the parts. Pending writes of the journal are not carried out before `JournalWatch.start`."""
    limits, tasks = context.settings.limits, context.tasks
    forwarder = Forwarder(origins, storage.upload_starts, limits.request_body)
    uploads = MultipartRegistry(context.peers, time.monotonic, limits.held_idle)
    coalescer = PartCoalescer(origins, storage.spool, uploads)
    warm_on_write = WarmOnWrite(storage.tiers, storage.budget, metadata.staged, uploads, tasks)
    tracker = WriteTracker(metadata.digests, uploads, coalescer, warm_on_write)
    write_back = backlog = None
    if storage.journal is not None:
        from forebay.server.parts.write_back_parts import compose_write_back  # noqa: PLC0415 # only with a journal

        write_back, backlog = compose_write_back(context, routes, origins, forwarder, storage, metadata)
    deletions = PackedDeletions(
        namespaces.catalogue,
        namespaces.tombstones,
        metadata.resolver,
        metadata.invalidator,
        context.peers,
        context.rules,
    )
    locks = KeyLocks(context.peers)
    members = MemberWrites(deletions, locks, metadata.resolver, context.rules)
    writer = ObjectWriter(
        forwarder, metadata.invalidator, tracker, tasks, write_back, members, RepeatedCompletions(origins)
    )
    length_spooler = LengthSpooler(storage.spool, limits.request_body, DOCUMENT_LIMIT)
    return WriteParts(forwarder, uploads, tracker, write_back, backlog, deletions, locks, writer, length_spooler)
