"""A reader's track records the reads of one principal in one bucket under one rule, and compares them with recordings.

    reads ──> epoch recorder ──pages──> catalogue                        (record = true)
          └─> candidates ───match──> followed ──> a plan of the rest     (follow = true)
                    ^                    └── left, or read to its end: candidates again
                    └────────────────────────┘

A reader is a principal, not a connection: the workers of a loader are processes with their own connections, and an
epoch has the reads of all of them. Two jobs with one access key are one reader. A recording of one of these jobs still
matches its next epochs.

An epoch may *repeat* a recording from its beginning: the track then records nothing. When the reader leaves the
recording, or reads on behind its end, the track begins a new recording: the repeated part of the old one, its *prefix*,
is copied, and the later reads follow.
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

RESTART_AFTER: Final = 5.0
"""A pause, in seconds, after which reads may be those of a restarted job."""
_AT_ONCE: Final = 512
"""Reads of one step: a departure from a followed recording shows after a step at the latest."""
_LEAST_AT_ONCE: Final = 32
NEW_RUN_AFTER: Final = 600.0
"""A pause, in seconds, after which a new run begins."""
BROKEN_OFF: Final = 0.9
"""An epoch broke off if it has less than this share of the reads of the epoch before; a new run begins behind it."""
SAME_LENGTH: Final = 0.05
"""The share by which an epoch may be longer than a recording that it repeats."""
MAX_DOUBTFUL: Final = 4096
"""The most reads of a repeating epoch without a certain position; after so many the epoch no longer repeats."""
_FIRST_READS: Final = 256
"""An epoch repeats a recording if that matches within so many reads, or 2 % of the recording."""


class FollowListener(Protocol):
    """Learns when a reader follows a recording, and when it no longer does."""

    def may_follow(self, reader: ReaderKey, recording: Recording) -> bool:
        """Whether the reader may use `recording`."""
        ...

    def followed(
        self, reader: ReaderKey, recording: Recording, start: Callable[[], PlanStart], *, missed: bool
    ) -> None:
        """The reader follows `recording`. `start` returns its position, until `ended`. `missed`: one of the latest
        reads was not cached."""
        ...

    def position_advanced(self, reader: ReaderKey, *, missed: bool) -> None:
        """The reader has read more of its followed recording."""
        ...

    def ended(self, reader: ReaderKey, *, parted: bool) -> None:
        """The reader has left its followed recording (`parted`), or is at its end."""
        ...


def _new_run() -> str:
    return f"{getrandbits(32):08x}"  # unlike others, not secret


class ReaderTrack:
    """The track of one reader."""

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
        """The length of the epoch, in reads, at the last `save`."""
        self._recording: Recording | None = None
        self._run, self._epoch, self._epoch_reads = _new_run(), 1, 0
        self._candidates = RecordingCandidates(key.bucket, catalogue, lambda each: listener.may_follow(key, each))
        self._repeats = False
        """Whether the epoch repeats the followed recording from its beginning; it is not recorded then."""
        self._certain = 0
        """The number of the recording's first reads that the epoch certainly has."""
        self._doubtful: list[tuple[ColumnSource, ReadHashes]] = []
        """The reads behind the certain ones."""
        self._prefix: tuple[Recording, int] | None = None
        """The prefix of the epoch's recording: another recording, and the number of its first reads to copy."""
        self._followed: tuple[Recording, FollowedReader] | None = None
        self._whole: Recording | None = None
        """The recording that this epoch repeats from its beginning to its end."""
        self._recent = RecentReads()

    @property
    def recording(self) -> Recording | None:
        """The recording of this epoch; None: it has none yet, or repeats another."""
        return self._recording

    @property
    def follows(self) -> Recording | None:
        """The followed recording."""
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
        """Adds reads. `records`: the rule records them. `follows`: the rule has recordings followed. `missed`: some of
        the reads were not cached."""
        now = self._clock()
        if now - self.latest_read > NEW_RUN_AFTER:
            self.end()
            self._begin_run()
        if now - self.latest_read > RESTART_AFTER:
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
        """The reads of one step: of a followed recording an eighth at most."""
        if self._followed is None:
            return _AT_ONCE
        return max(_LEAST_AT_ONCE, min(_AT_ONCE, self._followed[0].index.count // 8))

    def _observe(self, reads: ColumnSource, hashes: ReadHashes) -> None:
        followed = self._followed
        if self._follows:
            self._recent.add(hashes)
        if followed is not None:
            repeated = self._repeats
            if self._advance(*followed, hashes) and repeated:
                self._repeat(followed[1], reads, hashes)
                return
            if repeated and self._whole is not None:
                read = followed[1].looked_at
                reads, hashes = reads.part(read, len(reads)), hashes[read:]
        self._store(self._recorder.add(reads, hashes, self.latest_read))
        if self._followed is None:
            count = self._recorder.count
            self._compare(hashes[-count:] if count else hashes[:0])  # without those of the epoch before

    def end(self) -> None:
        """Ends the recording of this epoch, and follows no recording."""
        self.cut()
        self.stop_following()
        self._recorder, self._prefix, self._repeats = EpochRecorder(self.latest_read), None, False

    def save(self) -> None:
        """Writes the tail of the epoch, so that a kill loses no more than the reads after this call."""
        if self._records and self._saved != self._recorder.count and (tail := self._recorder.tail):
            self._saved = self._recorder.count
            if self._recording is None:
                self._recording = self._begin_recording()
            self._catalogue.save_tail(self._recording, tail)

    def cut(self) -> None:
        """Ends the recording of this epoch; later reads begin another one."""
        self._store(self._recorder.end())

    def stop_following(self) -> None:
        """Leaves the followed recording."""
        if self._followed is not None:
            recording, _ = self._followed
            self._followed = None
            if self._repeats:
                self._stop_repeating(recording, self._certain)
            if self._follows:
                self._listener.ended(self.key, parted=True)

    def leave(self, recording: Recording) -> None:
        """Leaves a recording before its removal. The epoch's own recording keeps the prefix."""
        if self.follows is recording:
            self.stop_following()
        if self._records and self._prefix is not None and self._prefix[0] is recording:
            self._recording = self._recording or self._begin_recording()

    # Recording

    def _begin_to_repeat(self) -> None:
        """Drops the epoch's own recording: the epoch so far repeats the beginning of a known one."""
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
        """Records the epoch again, with the first `position` reads of `recording` as its prefix."""
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
        """Whether the epoch has ended, and repeats a whole recording."""
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
            self._reach_end(self._followed[0])
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
                self._catalogue.remove(recording)  # it repeats the other one
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
        """Compares the latest reads with the candidates, and follows the best match."""
        best = self._candidates.compare(hashes)
        if best is not None:
            recording, match = best
            self._followed = recording, FollowedReader(recording.index, match)
            self._catalogue.mark_used(recording)
            first = max(_FIRST_READS, recording.reads // 50) + len(hashes)
            if match.position <= first and self._recorder.count <= first:
                self._begin_to_repeat()
            if self._follows:
                self._listener.followed(self.key, recording, self._start, missed=self._missed)

    def _start(self) -> PlanStart:
        """Returns the reader's position in the followed recording: a range, as the workers of a loader are at some
        distance from each other. Some reads of the range are yet to come."""
        if self._followed is None:
            return PlanStart()
        _, reader = self._followed
        front = reader.furthest + 1
        return PlanStart(max(reader.rearmost, front - SPREAD), front, self._recent.hashes)

    def _advance(self, recording: Recording, reader: FollowedReader, hashes: ReadHashes) -> bool:
        """Moves the reader's position. Returns False if the reader has left the recording, or is at its end."""
        if not reader.observe(hashes):
            self._candidates.leave(recording)
            self.stop_following()
            return False
        if reader.is_at_end:
            self._reach_end(recording)
            return False
        if self._follows:
            self._listener.position_advanced(self.key, missed=self._missed)
        return True

    def _reach_end(self, recording: Recording) -> None:
        if self._repeats:
            self._whole = recording
            self._doubtful.clear()
            self._stop_repeating(recording, recording.index.count)
        self._candidates.exclude(recording)
        self._followed = None
        if self._follows:
            self._listener.ended(self.key, parted=False)
