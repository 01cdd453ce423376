"""The parts of recordings in one worker: the files, the recorder and the follower where the reads of the node come
together, and in any other worker the way to them.
"""

from collections.abc import Callable
from pathlib import Path

from forebay.core.task_registry import TaskRegistry
from forebay.jobs.recordings.follower import FollowedPlans
from forebay.jobs.recordings.kept_recordings import KeptRecordings, ReaderPolicy
from forebay.jobs.recordings.recording_access import RecordingAccess, RemoteRecordings
from forebay.peers.node_reads import COLLECTOR, NodeReads
from forebay.peers.owners import Peers
from forebay.server.telemetry.metrics import Metrics
from forebay.settings.model import Settings
from forebay.storage.cache_origin import all_ids, origin_fingerprint


def compose_recordings(
    settings: Settings,
    node_reads: NodeReads,
    peers: Peers,
    policy: ReaderPolicy,
    plans: FollowedPlans,
    tasks: TaskRegistry,
    clock: Callable[[], float],
    metrics: Metrics,
) -> tuple[KeptRecordings | None, RecordingAccess]:
    """The recordings, if this worker keeps them, and how its parts reach them."""
    if not node_reads.is_collector:
        return None, RemoteRecordings(peers.others[COLLECTOR].call)
    kept = KeptRecordings(
        _directory(settings),
        settings.limits.recordings,
        node_reads.subscribe,
        policy,
        plans,
        tasks,
        clock,
        lambda event, count: metrics.count(f"forebay_recording_{event}_total", by=count),
    )
    return kept, kept.local


def _directory(settings: Settings) -> Path | None:
    """In the state directory: recordings outlive the SSD tier, which may lose anything."""
    state_dir = settings.server.state_dir
    if state_dir is None:
        return None
    return Path(state_dir) / f"recordings-{origin_fingerprint(all_ids(settings))}"
