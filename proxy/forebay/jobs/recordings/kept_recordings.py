"""The recordings of a node, in the worker that collects its reads: catalogue, recorder and follower, put together.

It listens to the read stream only while some rule records or follows: otherwise hits have no cost.
"""

from collections.abc import Callable
from pathlib import Path

from forebay.core.events import ReaderKey
from forebay.core.task_registry import TaskRegistry
from forebay.jobs.recordings.catalogue import RecordingCatalogue
from forebay.jobs.recordings.follower import FollowedPlans, Follower
from forebay.jobs.recordings.recorder import Recorder
from forebay.jobs.recordings.recording import Recording
from forebay.jobs.recordings.recording_access import LocalRecordings
from forebay.peers.node_reads import NodeReads
from forebay.request.admission import GatewayPolicy

CountRecordings = Callable[[str, int], None]
"""Counts "recorded", "dropped" (reads), "followed" or "parted" (recordings)."""


class KeptRecordings:
    """The recordings in the worker that collects the reads of the node."""

    def __init__(
        self,
        directory: Path | None,
        limit: int,
        reads: NodeReads,
        policy: Callable[[], GatewayPolicy],
        plans: FollowedPlans,
        tasks: TaskRegistry,
        clock: Callable[[], float],
        monotonic: Callable[[], float],
        count: CountRecordings,
    ) -> None:
        """`clock`: seconds since 1970; readers are idle by `monotonic`. `directory`, `limit`: see RecordingCatalogue.
        `policy`: the one in force. `plans`: where the rest of a recording runs."""
        self._reads = reads
        self._unsubscribe: Callable[[], None] | None = None
        self._policy = policy
        self.catalogue = RecordingCatalogue(directory, limit, tasks, clock, lambda reads: count("dropped", reads))
        self.follower = Follower(
            self.catalogue.read,
            self._may_follow,
            plans,
            tasks,
            clock,
            lambda event: count(event, 1),
        )
        self.recorder = Recorder(self.catalogue, self.follower, lambda: policy().rules, monotonic, count)
        self.local = LocalRecordings(self.catalogue, self._save, self._cut, self.recorder.leave)

    async def start(self) -> None:
        """Loads the recordings of earlier processes, and subscribes to reads if a rule records or follows."""
        self.apply_rules()
        await self.catalogue.open()
        self.recorder.observe_pending()

    def apply_rules(self) -> None:
        """Listens to reads if a rule records or follows."""
        wants = self._policy().rules.has_tracks
        if wants and self._unsubscribe is None:
            self._unsubscribe = self._reads.subscribe(self.recorder.observe, is_urgent=False)
        elif not wants and self._unsubscribe is not None:
            self._unsubscribe()
            self._unsubscribe = None
            self.recorder.close()

    def _save(self) -> None:
        self._reads.deliver()
        self.recorder.save()

    def _cut(self, bucket: str) -> None:
        self._reads.deliver()
        self.recorder.cut(bucket)

    async def close(self) -> None:
        """Ends and writes the recordings in progress."""
        self._reads.deliver()
        if self._unsubscribe is not None:
            self._unsubscribe()
            self._unsubscribe = None
        if self.catalogue.is_open:
            self.recorder.close()
        self.follower.close()
        await self.catalogue.close()

    def _may_follow(self, reader: ReaderKey, recording: Recording) -> bool:
        """Returns whether a reader may follow a recording. One with a credential of its own follows only recordings of
        its own reads: the origin alone knows what it may read."""
        return (
            recording.principal == reader.principal or reader.principal not in self._policy().keyring.origin_identities
        )
