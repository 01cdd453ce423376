"""The recorder: the reads of the node, sorted by reader, in the worker that collects them.

    node reads ──batches──> recorder ──> a track for each bucket, rule and principal (jobs.recordings.reader_track)
                               └── of several workers: put in order before (jobs.recordings.worker_order)

It sees batches, never within a hit, and hands them on as columns: nothing is done for each read in Python.
Tracks are bounded, and end when nothing has been read for IDLE_AFTER seconds.
"""

from collections.abc import Callable, Sequence
from typing import Final

from forebay.core.events import ReaderKey
from forebay.core.names import ObjectName
from forebay.core.read_log import ReadGroup
from forebay.core.read_stream import ReadBatch
from forebay.jobs.recordings.catalogue import RecordingCatalogue
from forebay.jobs.recordings.group_reads import GroupReads
from forebay.jobs.recordings.reader_track import FollowListener, ReaderTrack
from forebay.jobs.recordings.recording import Recording
from forebay.jobs.recordings.worker_order import WorkerOrder
from forebay.policy.rules import Rules
from forebay.protocol.recordings.read_columns import ColumnSource
from forebay.protocol.recordings.read_tail import ReadTail

MAX_TRACKS: Final = 64
IDLE_AFTER: Final = 600.0
"""Seconds. A job pauses between epochs, to validate or to write a checkpoint, but hardly for so long."""
MAX_PENDING: Final = 256
"""Batches that wait until the recordings of an earlier process are loaded."""


class Recorder:
    """Records and recognises reads. Made for the worker that collects the reads of the node."""

    def __init__(
        self,
        catalogue: RecordingCatalogue,
        listener: FollowListener,
        rules: Callable[[], Rules],
        clock: Callable[[], float],
        count: Callable[[str, int], None],
    ) -> None:
        """`rules`: those in force. `clock`: monotonic seconds. `count("recorded" or "dropped", reads)` is called for
        each batch."""
        self._catalogue = catalogue
        self._listener = listener
        self._rules = rules
        self._clock = clock
        self._count = count
        self._tracks: dict[ReaderKey, ReaderTrack] = {}
        self._orders: dict[ReaderKey, WorkerOrder] = {}
        """The order of the reads of each track."""
        self._pending: list[ReadBatch] = []

    def observe(self, batch: ReadBatch) -> None:
        """Adds a batch of reads of one worker."""
        if not self._catalogue.is_open:
            if len(self._pending) < MAX_PENDING:
                self._pending.append(batch)
            else:
                self._count("dropped", batch.read_count)
            return
        self.observe_pending()
        self._observe(batch)

    def observe_pending(self) -> None:
        """Adds the reads that arrived while the recordings of an earlier process were loaded."""
        pending, self._pending = self._pending, []
        for each in pending:
            self._observe(each)

    def _observe(self, batch: ReadBatch) -> None:
        if batch.dropped:
            self._count("dropped", batch.dropped)
        for group in batch.groups:
            if group.context.track:
                self._add(batch.worker, group)

    def _add(self, worker: int, group: ReadGroup) -> None:
        bucket, principal, _, track_name = group.context
        key = ReaderKey(bucket, track_name, principal)
        if key not in self._tracks:
            if len(self._tracks) >= MAX_TRACKS:
                self.end_idle(force=True)
            self._tracks[key] = ReaderTrack(key, self._catalogue, self._listener, self._clock)
            self._orders[key] = WorkerOrder()
        self._note(key, self._orders[key].add(worker, group))

    def _note(self, key: ReaderKey, groups: Sequence[ReadGroup]) -> None:
        """Hands reads that are in order to their track."""
        if not groups:
            return
        parts = [GroupReads(group) for group in groups]
        reads: ColumnSource = parts[0] if len(parts) == 1 else ReadTail(parts)
        hashes = groups[0].hashes
        for group in groups[1:]:
            hashes += group.hashes
        decision = self._rules().decide(ObjectName(key.bucket, parts[0].part(0, 1).columns.keys[0]))
        records, follows = decision.record, decision.follow
        missed = any(group.has_misses for group in groups)
        self._tracks[key].observe(reads, hashes, records=records, follows=follows, missed=missed)
        if records:
            self._count("recorded", len(hashes))

    def _end(self, key: ReaderKey) -> None:
        """Ends a track, with all that was read."""
        self._note(key, self._orders.pop(key).release_all())
        self._tracks.pop(key).end()

    def cut(self, bucket: str) -> None:
        """Ends the recordings of a bucket that are being made, so that they can be saved."""
        for key, track in self._tracks.items():
            if key.bucket == bucket:
                self._note(key, self._orders[key].release_all())
                track.cut()

    def leave(self, recording: Recording) -> None:
        """Leaves a recording before its removal, for all readers."""
        for track in self._tracks.values():
            track.leave(recording)

    def save_tracks(self) -> None:
        """Ends the tracks of idle readers, and writes the reads of the others. Called every few seconds: a kill loses
        the reads since then."""
        self.end_idle()
        for key, order in self._orders.items():
            self._note(key, order.release_stale())
        self.save()
        self._catalogue.write_out()

    def save(self) -> None:
        """Saves the reads that are in no page yet, for the case of a kill, and for listings."""
        for track in self._tracks.values():
            track.save()

    def end_idle(self, *, force: bool = False) -> None:
        """Ends the tracks of idle readers. `force`: of the longest idle one in any case."""
        now = self._clock()
        for key, track in sorted(self._tracks.items(), key=lambda each: each[1].latest_read):
            if not force and now - track.latest_read <= IDLE_AFTER:
                return
            self._end(key)
            force = False

    def close(self) -> None:
        """Ends all recordings that are being made."""
        for key in tuple(self._tracks):
            self._end(key)
