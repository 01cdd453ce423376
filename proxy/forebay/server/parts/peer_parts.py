"""The composition of the RPC service by which a worker answers the others of its node."""

from dataclasses import replace
from typing import Final

from forebay.server.parts.fetch_parts import FetchParts
from forebay.server.parts.job_parts import JobParts
from forebay.server.parts.metadata_parts import MetadataParts
from forebay.server.parts.namespace_parts import NamespaceParts
from forebay.server.parts.storage_parts import StorageParts
from forebay.server.parts.worker_context import WorkerContext
from forebay.server.parts.write_parts import WriteParts
from forebay.server.rpc.job_methods import JobMethods
from forebay.server.rpc.lock_methods import LockMethods
from forebay.server.rpc.namespace_methods import NamespaceMethods
from forebay.server.rpc.node_read_methods import NodeReadMethods
from forebay.server.rpc.opening_answers import OpeningAnswers
from forebay.server.rpc.peer_service import PeerService
from forebay.server.rpc.read_methods import ReadMethods
from forebay.server.rpc.rpc_methods import RpcMethods
from forebay.server.rpc.write_methods import WriteMethods

PEER_BUFFER_WAIT: Final = 1.0
"""Seconds that another worker waits for a buffer, as it holds some of its own meanwhile: two workers must not wait for
each other's. It asks the origin itself then."""


def compose_peer_service(
    context: WorkerContext,
    storage: StorageParts,
    fetch: FetchParts,
    namespaces: NamespaceParts,
    metadata: MetadataParts,
    writes: WriteParts,
    jobs: JobParts,
) -> PeerService:
    """Makes the service; with the methods of the journal, if there is one."""
    source = replace(fetch.block_source, buffer_timeout=PEER_BUFFER_WAIT, started_timeout=PEER_BUFFER_WAIT)
    methods: list[RpcMethods] = [
        ReadMethods(metadata.resolver, source, metadata.heads, context.policy).methods,
        NamespaceMethods(
            namespaces.listings, namespaces.catalogue, metadata.listing_changes, lambda: _knows_pending(writes)
        ).methods,
        JobMethods(jobs.warmer, jobs.prefetcher, jobs.plans, storage.tiers, context.policy).methods,
        NodeReadMethods(jobs.node_reads, jobs.data_sets, jobs.data_set_resource, jobs.kept_recordings).methods,
        LockMethods(writes.locks).methods,
    ]
    if writes.write_back is not None and writes.backlog is not None:
        from forebay.server.rpc.journal_methods import JournalMethods  # noqa: PLC0415 # only with a journal

        methods.append(JournalMethods(writes.write_back, writes.backlog).methods)
    of_writes = WriteMethods(
        metadata.invalidator,
        context.in_doubt_writes,
        metadata.staged,
        writes.tracker,
        storage.tiers,
        namespaces.catalogue,
        context.policy,
        context.clock,
    )

    def answer_openings() -> OpeningAnswers:
        return OpeningAnswers(metadata.openings, storage.tiers.memory, context.policy)

    return PeerService(of_writes, *methods, answer_openings=answer_openings)


def _knows_pending(writes: WriteParts) -> bool:
    return writes.write_back is None or writes.write_back.watch.is_started
