"""The parts of recordings in one worker: the files, the recorder and the follower where the reads of the node come
together, and in any other worker the way to them.
"""

from forebay.jobs.recordings.follower import FollowedPlans
from forebay.jobs.recordings.kept_recordings import KeptRecordings
from forebay.jobs.recordings.recording_access import RecordingAccess, RemoteRecordings
from forebay.peers.node_reads import COLLECTOR, NodeReads
from forebay.server.parts.state_paths import recording_directory
from forebay.server.parts.worker_context import WorkerContext


def compose_recordings(
    context: WorkerContext, node_reads: NodeReads, plans: FollowedPlans
) -> tuple[KeptRecordings | None, RecordingAccess]:
    """The recordings, if this worker keeps them, and how its parts reach them."""
    if not node_reads.is_collector:
        return None, RemoteRecordings(context.peers.others[COLLECTOR].call)
    kept = KeptRecordings(
        recording_directory(context.settings),
        context.settings.limits.recordings,
        node_reads,
        context.policy,
        plans,
        context.tasks,
        context.clock,
        context.timers.time,
        lambda event, count: context.metrics.count(f"forebay_recording_{event}_total", by=count),
    )
    return kept, kept.local
