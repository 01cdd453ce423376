"""A reader's track: the reads of one principal of one bucket under one rule, recorded and compared with recordings.

    reads ──> epoch recorder ──pages──> catalogue                        (record = true)
          └─> candidates ───match──> followed ──> a plan of the rest     (follow = true)
                    ^                    └── parted, or at its end: the recording of the next epoch, or none

Principals are told apart, connections are not: the workers of a loader are processes with connections of their own, and
only their reads together are an epoch. Two jobs that read under one access key are recorded as one; they are recognised
nevertheless, when a recording of one of them exists.

An epoch that goes along a recording from its beginning is not recorded again: as long as it does, it is a *prefix* of
that recording. Only what parts from it, or goes on behind its end, is recorded; the prefix is then copied before it.
"""

from collections.abc import Callable, Sequence
from random import getrandbits
from typing import Final, Protocol

from forebay.core.events import ReaderKey
from forebay.core.read_hashes import ReadHashes
from forebay.jobs.plans.plan_window import SPREAD, PlanStart
from forebay.jobs.recordings.candidates import RecordingCandidates
from forebay.jobs.recordings.catalogue import RecordingCatalogue
from forebay.jobs.recordings.epoch_recorder import EpochEnded, EpochRecorder
from forebay.jobs.recordings.recent_reads import RecentReads
from forebay.jobs.recordings.recording import Recording
from forebay.policy.anchor_index import AnchorIndex
from forebay.policy.recognition import FollowedReader
from forebay.protocol.recordings.read_columns import ColumnSource
from forebay.protocol.recordings.recording_page import RecordingPage

ATTENTIVE_AFTER: Final = 5.0
"""Seconds without a read after which a job may have been started again."""
_AT_ONCE: Final = 512
"""Reads that are looked at together: as many as may pass before a reader that has parted is noticed."""
_LEAST_AT_ONCE: Final = 32
NEW_RUN_AFTER: Final = 600.0
"""Seconds without a read after which a new run begins."""
BROKEN_OFF: Final = 0.9
"""An epoch with less than this share of the reads of the one before was broken off: a new run begins behind it."""
SAME_LENGTH: Final = 0.05
"""An epoch that went along a recording, and is longer by no more than this share, is no other one."""
MAX_DOUBTFUL: Final = 4096
"""Reads of an epoch that is not recorded, while some of them lie elsewhere: after so many it is another epoch."""
_FIRST_READS: Final = 256
"""A recording that is recognised before so many reads, or 2 % of it, is followed from its beginning."""


class FollowListener(Protocol):
    """Is called when a reader begins and ceases to go along a recording."""

    def may_follow(self, reader: ReaderKey, recording: Recording) -> bool:
        """Whether the reader may profit from `recording`."""
        ...

    def followed(
        self, reader: ReaderKey, recording: Recording, start: Callable[[], PlanStart], *, missed: bool
    ) -> None:
        """The reader follows `recording`. `start` returns its position, as long as it does. `missed`: whether one of
        its latest reads was not cached."""
        ...

    def position_advanced(self, reader: ReaderKey, *, missed: bool) -> None:
        """The reader has read more of the recording that it follows."""
        ...

    def ended(self, reader: ReaderKey, *, parted: bool) -> None:
        """The reader has left the recording, or is at its end."""
        ...


def _new_run() -> str:
    return f"{getrandbits(32):08x}"  # unlike others, not secret


class ReaderTrack:
    """Reads of one reader."""

    def __init__(
        self, key: ReaderKey, catalogue: RecordingCatalogue, listener: FollowListener, clock: Callable[[], float]
    ) -> None:
        """`clock`: monotonic, in seconds."""
        self.key = key
        self._catalogue = catalogue
        self._listener = listener
        self._clock = clock
        self.latest_read = clock()
        self._recorder = EpochRecorder(self.latest_read)
        self._records = self._follows = self._missed = False
        self._saved = 0
        """Reads of the epoch when its tail was saved last."""
        self._recording: Recording | None = None
        self._run, self._epoch, self._epoch_reads = _new_run(), 1, 0
        self._candidates = RecordingCandidates(key.bucket, catalogue, lambda each: listener.may_follow(key, each))
        self._repeats = False
        """Whether the epoch goes along a recording since its beginning, and is not recorded."""
        self._certain = 0
        """So many reads of the recording are the epoch's, for certain."""
        self._doubtful: list[tuple[ColumnSource, ReadHashes]] = []
        """What was read since."""
        self._prefix: tuple[Recording, int] | None = None
        """What a recording of the epoch is to begin with: so many reads of another one."""
        self._followed: tuple[Recording, FollowedReader] | None = None
        self._whole: Recording | None = None
        """The recording that this epoch went along from its beginning to its end."""
        self._recent = RecentReads()
        """The latest reads of this epoch."""

    @property
    def recording(self) -> Recording | None:
        """The recording that is being made."""
        return self._recording

    @property
    def follows(self) -> Recording | None:
        """The recording that the reader goes along."""
        return self._followed[0] if self._followed is not None else None

    def observe(
        self,
        reads: ColumnSource,
        hashes: ReadHashes,
        *,
        records: bool,
        follows: bool,
        missed: bool = True,
    ) -> None:
        """Adds reads. `records`: whether they are recorded. `follows`: whether a recording is followed. `missed`:
        whether some of them were not cached."""
        now = self._clock()
        if now - self.latest_read > NEW_RUN_AFTER:
            self.end()
            self._begin_run()
        if now - self.latest_read > ATTENTIVE_AFTER:
            self._candidates.compare_next()
        self.latest_read, self._records, self._missed = now, records, missed
        if follows != self._follows:
            self.stop_following()
            self._follows = follows
        start = 0
        while start < len(reads):
            stop = start + self._at_once()
            self._observe(reads.part(start, stop), hashes[start:stop])
            start = stop

    def _at_once(self) -> int:
        """How many reads are looked at together: of a recording that is followed a small part."""
        if self._followed is None:
            return _AT_ONCE
        return max(_LEAST_AT_ONCE, min(_AT_ONCE, self._followed[0].index.count // 8))

    def _observe(self, reads: ColumnSource, hashes: ReadHashes) -> None:
        followed = self._followed
        if self._follows:
            self._recent.add(hashes)
        if followed is not None:
            repeated = self._repeats
            if self._go_along(*followed, hashes) and repeated:
                self._repeat(followed[1], reads, hashes)
                return
            if repeated and self._whole is not None:
                read = followed[1].looked_at
                reads, hashes = reads.part(read, len(reads)), hashes[read:]
        self._store(self._recorder.add(reads, hashes, self.latest_read))
        if self._followed is None:
            count = self._recorder.count
            self._compare(hashes[-count:] if count else hashes[:0])  # none of the epoch before

    def end(self) -> None:
        """Ends the recording that is being made, and following."""
        self.cut()
        self.stop_following()
        self._recorder, self._prefix, self._repeats = EpochRecorder(self.latest_read), None, False

    def save(self) -> None:
        """Has what was read since the last call written, for the case of a kill."""
        if self._records and self._saved != self._recorder.count and (tail := self._recorder.tail):
            self._saved = self._recorder.count
            if self._recording is None:
                self._recording = self._begin_recording()
            self._catalogue.save_tail(self._recording, tail)

    def cut(self) -> None:
        """Ends the recording under way; later reads begin another one."""
        self._store(self._recorder.end())

    def stop_following(self) -> None:
        """Follows no recording any more, until one is recognised anew."""
        if self._followed is not None:
            recording, _ = self._followed
            self._followed = None
            if self._repeats:
                self._stop_repeating(recording, self._certain)
            if self._follows:
                self._listener.ended(self.key, parted=True)

    def leave(self, recording: Recording) -> None:
        """Does the same for a recording that is about to be removed. The epoch keeps its reads of it."""
        if self.follows is recording:
            self.stop_following()
        if self._records and self._prefix is not None and self._prefix[0] is recording:
            self._recording = self._recording or self._begin_recording()

    # Recording

    def _begin_to_repeat(self, recording: Recording) -> None:
        """The epoch so far is the beginning of `recording`: it is not recorded for now."""
        if self._recording is not None:
            self._catalogue.remove(self._recording)
        self._recording, self._recorder = None, EpochRecorder(self.latest_read)
        self._repeats, self._certain, self._prefix = True, 0, None
        self._doubtful.clear()

    def _repeat(self, reader: FollowedReader, reads: ColumnSource, hashes: ReadHashes) -> None:
        if reader.is_certain:
            self._certain = reader.furthest + 1
            self._doubtful.clear()
            return
        self._doubtful.append((reads, hashes))
        if self._followed is not None and sum(len(each) for each, _ in self._doubtful) > MAX_DOUBTFUL:
            self._stop_repeating(self._followed[0], self._certain)

    def _stop_repeating(self, recording: Recording, position: int) -> None:
        """Records from now on what is read behind the first `position` reads of `recording`."""
        position = min(position, recording.index.count)
        self._repeats = False
        self._prefix = recording, position
        self._recorder = EpochRecorder(self.latest_read, recording.index.before(position))
        for reads, hashes in self._doubtful:
            self._store(self._recorder.add(reads, hashes, self.latest_read))
        self._doubtful.clear()

    def _store(self, made: Sequence[RecordingPage | EpochEnded]) -> None:
        for each in made:
            match each:
                case RecordingPage() if self._records and not self._is_repeated(made):
                    if self._recording is None:
                        self._recording = self._begin_recording()
                    self._catalogue.append(self._recording, each)
                case EpochEnded(index, is_whole):
                    self._end_epoch(index, is_whole=is_whole)
                case _:
                    pass

    def _is_repeated(self, made: Sequence[RecordingPage | EpochEnded]) -> bool:
        """Whether the epoch has ended, and was that of a recording once more."""
        ends = [each.index.count for each in made if isinstance(each, EpochEnded)]
        whole = self._whole
        return (
            whole is not None and self._recording is None and bool(ends) and ends[0] <= whole.reads * (1 + SAME_LENGTH)
        )

    def _begin_recording(self) -> Recording:
        bucket, track, principal = self.key
        recording = self._catalogue.begin(bucket, principal, track, self._run, self._epoch)
        if self._prefix is not None:
            self._catalogue.append_prefix(recording, *self._prefix)
            self._prefix = None
        return recording

    def _end_epoch(self, index: AnchorIndex, *, is_whole: bool) -> None:
        if self._followed is not None and self._followed[1].is_at_end:
            self._reach_end(*self._followed)
        recording, whole = self._recording, self._whole
        self._recording = self._whole = self._prefix = None
        self._saved = 0
        self._candidates.begin_epoch()
        self._recent.keep(self._recorder.count)
        self._epoch += 1
        if whole is not None:
            self._run, self._epoch, self._epoch_reads = whole.run, whole.epoch + 1, whole.reads
        if whole is not None and is_whole and index.count <= whole.reads * (1 + SAME_LENGTH):
            self._catalogue.mark_whole(whole)
        if recording is None:
            return
        if whole is not None:
            if recording.reads <= whole.reads * (1 + SAME_LENGTH):
                self._catalogue.remove(recording)  # the same reads once more
                return
            recording.run, recording.epoch = whole.run, whole.epoch
            if whole.state == "automatic":  # it had broken off
                self._catalogue.remove(whole)
        self._catalogue.end(recording, index, is_whole=is_whole)
        if recording.reads < self._epoch_reads * BROKEN_OFF:
            self._begin_run()
        else:
            self._epoch_reads = recording.reads

    def _begin_run(self) -> None:
        self._run, self._epoch, self._epoch_reads = _new_run(), 1, 0

    # Recognition

    def _compare(self, hashes: ReadHashes) -> None:
        """Looks for a recording that the latest reads go along."""
        best = self._candidates.compare(hashes)
        if best is not None:
            recording, match = best
            self._followed = recording, FollowedReader(recording.index, match)
            self._catalogue.mark_used(recording)
            first = max(_FIRST_READS, recording.reads // 50) + len(hashes)
            if match.position <= first and self._recorder.count <= first:
                self._begin_to_repeat(recording)
            if self._follows:
                self._listener.followed(self.key, recording, self._start, missed=self._missed)

    def _start(self) -> PlanStart:
        """Where the reader is in the recording that it goes along. Its loader's workers are at some distance from each
        other: between the first of their latest reads and the last there are some that it has yet to make."""
        if self._followed is None:
            return PlanStart()
        _, reader = self._followed
        front = reader.furthest + 1
        return PlanStart(max(reader.rearmost, front - SPREAD), front, self._recent.hashes)

    def _go_along(self, recording: Recording, reader: FollowedReader, hashes: ReadHashes) -> bool:
        """Moves the reader's position. Returns whether it goes along still."""
        if not reader.observe(hashes):
            self._candidates.part(recording)
            self.stop_following()
            return False
        if reader.is_at_end:
            self._reach_end(recording, reader)
            return False
        if self._follows:
            self._listener.position_advanced(self.key, missed=self._missed)
        return True

    def _reach_end(self, recording: Recording, reader: FollowedReader) -> None:
        if self._repeats:
            self._whole = recording
            self._doubtful.clear()
            self._stop_repeating(recording, recording.index.count)
        self._candidates.exclude(recording)
        self._followed = None
        if self._follows:
            self._listener.ended(self.key, parted=False)
