"""The parts of jobs in one worker: warm-up, plans, recordings, read-ahead, data sets, and their resources for clients.

Data sets, plans and recordings use the reads of the node (`NodeReads`), which are collected in one worker.
"""

from dataclasses import dataclass
from functools import partial

from forebay.datasets.data_set_resource import DataSetResource
from forebay.datasets.data_set_rows import data_set_rows
from forebay.datasets.data_sets import DataSets
from forebay.datasets.read_counts import ReadCounts
from forebay.jobs.packing.pack_run import PackRun
from forebay.jobs.packing.pack_services import PackServices
from forebay.jobs.plans.node_plans import NodePlans
from forebay.jobs.plans.plan_coordinator import PlanCoordinator
from forebay.jobs.plans.plan_resource import PlanResource
from forebay.jobs.plans.plan_store import PlanStore
from forebay.jobs.prefetch.node_prefetcher import NodePrefetcher
from forebay.jobs.prefetch.prefetcher import Prefetcher
from forebay.jobs.prefetch.read_ahead import ReadAhead
from forebay.jobs.recordings.kept_recordings import KeptRecordings
from forebay.jobs.recordings.recording_access import RecordingAccess
from forebay.jobs.recordings.recording_resource import RecordingResource
from forebay.jobs.state.job_store import JobStore
from forebay.jobs.warm_up.cache_residency import CacheResidency
from forebay.jobs.warm_up.head_hints import HeadHints
from forebay.jobs.warm_up.object_warmer import ObjectWarmer
from forebay.jobs.warm_up.shown_objects import ShownObjects
from forebay.jobs.warm_up.warm_resource import WarmResource
from forebay.jobs.warm_up.warm_up_run import WarmUpServices
from forebay.jobs.warm_up.warm_ups import WarmUps
from forebay.namespace.pending_entries import PendingEntries
from forebay.origin.origins import Origins
from forebay.peers.node_reads import NodeReads
from forebay.request.resource import ResourceKind
from forebay.request.resource_router import ResourceRouter
from forebay.server.parts.fetch_parts import FetchParts
from forebay.server.parts.metadata_parts import MetadataParts
from forebay.server.parts.namespace_parts import NamespaceParts
from forebay.server.parts.recording_parts import compose_recordings
from forebay.server.parts.request_parts import RequestParts
from forebay.server.parts.state_paths import job_directory, plan_directory
from forebay.server.parts.storage_parts import StorageParts
from forebay.server.parts.worker_context import WorkerContext
from forebay.server.parts.write_parts import WriteParts
from forebay.server.telemetry.plan_metrics import CountedPlans
from forebay.write.conditional_writes import ConditionalWrites


@dataclass(frozen=True, slots=True)
class JobParts:
    """Jobs that fetch ahead of reads, and records of the reads."""

    warmer: ObjectWarmer
    warm_ups: WarmUps
    node_reads: NodeReads
    """The reads of all workers, for its subscribers."""
    prefetcher: Prefetcher
    """The prefetcher of this worker; `ahead` fetches in whichever worker owns the object."""
    ahead: NodePrefetcher
    read_ahead: ReadAhead
    data_sets: DataSets
    read_counts: ReadCounts
    data_set_resource: DataSetResource
    plans: NodePlans
    plan_resource: PlanResource
    kept_recordings: KeptRecordings | None
    """None: another worker collects the reads of the node, and keeps the recordings."""
    recordings: RecordingAccess


def compose_jobs(
    context: WorkerContext,
    origins: Origins,
    storage: StorageParts,
    fetch: FetchParts,
    namespaces: NamespaceParts,
    metadata: MetadataParts,
    writes: WriteParts,
    requests: RequestParts,
) -> JobParts:
    """Makes the parts, and adds the resources of jobs to the router of `requests`."""
    tasks, peers, timers, metrics = context.tasks, context.peers, context.timers, context.metrics
    node_reads = NodeReads(
        requests.read_stream,
        peers,
        timers,
        tasks.spawn,
        lambda dropped: metrics.count("forebay_reads_dropped_total", by=dropped),
    )
    warmer = ObjectWarmer(
        metadata.packed, metadata.openings, fetch.block_source, origins.background, context.rules, peers
    )
    requests.reader.on_head_hint = HeadHints(warmer, tasks.spawn).add
    warm_ups = _warm_ups(context, origins, storage, namespaces, metadata, writes, warmer)
    prefetcher = _prefetcher(context, origins, fetch, metadata)
    ahead = NodePrefetcher(prefetcher, peers)
    read_ahead = ReadAhead(node_reads, ahead, origins.list_objects, context.policy, tasks.spawn, timers)
    read_ahead.use_policy()
    plans, plan_resource = _plans(context, storage, node_reads, ahead)
    data_sets, data_set_resource = _data_sets(context, storage, plans)
    kept_recordings, recordings = compose_recordings(context, node_reads, plans.coordinator)
    parts = JobParts(
        warmer=warmer,
        warm_ups=warm_ups,
        node_reads=node_reads,
        prefetcher=prefetcher,
        ahead=ahead,
        read_ahead=read_ahead,
        data_sets=data_sets,
        read_counts=_read_counts(context, requests, data_sets),
        data_set_resource=data_set_resource,
        plans=plans,
        plan_resource=plan_resource,
        kept_recordings=kept_recordings,
        recordings=recordings,
    )
    _add_resources(requests.resources, parts, storage, writes)
    return parts


def _prefetcher(context: WorkerContext, origins: Origins, fetch: FetchParts, metadata: MetadataParts) -> Prefetcher:
    metrics = context.metrics
    return Prefetcher(
        metadata.packed,
        fetch.block_source,
        metadata.openings,
        origins.background,
        context.rules,
        context.timers,
        context.tasks.spawn,
        lambda result, size: metrics.count("forebay_ahead_bytes_total", result, by=size),
    )


def _add_resources(resources: ResourceRouter, jobs: JobParts, storage: StorageParts, writes: WriteParts) -> None:
    plans, recordings = jobs.plan_resource, RecordingResource(jobs.recordings, storage.spool)
    resources.kinds |= {
        "plans": ResourceKind(plans, plans, plans),
        "datasets": jobs.data_set_resource.kind,
        "warm": WarmResource(jobs.warm_ups).kind,
        "recordings": ResourceKind(recordings, recordings, recordings),
    }
    if writes.backlog is not None:
        from forebay.request.flush_resource import FlushResource  # noqa: PLC0415 # only with a journal
        from forebay.request.write_resource import WriteResource  # noqa: PLC0415 # likewise

        resources.kinds |= {"writes": WriteResource(writes.backlog).kind, "flush": FlushResource(writes.backlog).kind}


def _warm_ups(
    context: WorkerContext,
    origins: Origins,
    storage: StorageParts,
    namespaces: NamespaceParts,
    metadata: MetadataParts,
    writes: WriteParts,
    warmer: ObjectWarmer,
) -> WarmUps:
    directory, pending = job_directory(context.settings), PendingEntries(storage.pending)
    services = WarmUpServices(
        ShownObjects(origins.list_objects, namespaces.origin_pages, pending).list_objects,
        warmer,
        CacheResidency(storage.tiers, context.peers, metadata.packed.shard_span),
        context.timers,
        lambda bucket: origins.of(bucket).breaker.reachable is not False,
        lambda result: context.metrics.count("forebay_warm_objects_total", result),
    )
    packing = PackServices(
        origins,
        metadata.invalidator,
        context.tasks,
        storage.budget,
        context.clock,
        namespaces.catalogue.directory,
        namespaces.tombstones,
        writes.deletions,
        context.fences,
        pending,
        ConditionalWrites(origins.origin_of),
    )
    store = JobStore(directory) if directory is not None else None
    return WarmUps(services, context.tasks, context.clock, partial(PackRun, packing), store)


def _plans(
    context: WorkerContext, storage: StorageParts, node_reads: NodeReads, ahead: NodePrefetcher
) -> tuple[NodePlans, PlanResource]:
    peers, ahead_budget = context.peers, storage.tiers.memory.ahead.budget

    counted = CountedPlans(context.metrics)
    store = PlanStore(plan_directory(context.settings, context.run), context.clock)
    coordinator = PlanCoordinator(
        store,
        ahead,
        node_reads,
        context.policy,
        lambda: ahead_budget.capacity * peers.workers,
        context.timers,
        context.tasks,
        context.clock,
        counted,
        lambda: context.metrics.count("forebay_plans_displaced_total"),
    )
    plans = NodePlans(store, coordinator, peers)
    return plans, PlanResource(plans, context.clock, counted.count_entries)


def _data_sets(context: WorkerContext, storage: StorageParts, plans: NodePlans) -> tuple[DataSets, DataSetResource]:
    data_sets = DataSets(context.timers.time)
    resource = DataSetResource(
        lambda: data_set_rows(data_sets.states(), context.rules(), storage.tiers, plans.coordinator.plans()),
        context.peers,
        context.rules,
        context.clock,
    )
    return data_sets, resource


def _read_counts(context: WorkerContext, requests: RequestParts, data_sets: DataSets) -> ReadCounts:
    counts = ReadCounts(
        requests.read_stream,
        data_sets,
        context.peers,
        context.tasks.spawn,
        lambda name: context.rules().decide(name).block,
        context.timers.time,
    )
    counts.apply_rules(requests.policy.rules.data_sets)
    return counts
