"""A reader's track: the reads of one principal of one bucket under one rule, recorded and compared with recordings.

    reads ──> epoch recorder ──pages──> catalogue                        (record = true)
          └─> recognisers ──match──> followed ──> a plan of the rest     (follow = true)
                    ^                    └── parted, or at its end: the recording of the next epoch, or none

Principals are told apart, connections are not: the workers of a loader are processes with connections of their own, and
only their reads together are an epoch. Two jobs that read under one access key are recorded as one; they are recognised
nevertheless, when a recording of one of them exists.

While nothing matches, all reads are compared at first, later one in SELDOM. A recording that the reader has parted from
twice is not tried again before the next epoch.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from secrets import token_hex
from typing import Final, NamedTuple, Protocol

from forebay.jobs.recordings.catalogue import RecordingCatalogue
from forebay.jobs.recordings.epoch_recorder import EpochEnded, EpochRecorder
from forebay.jobs.recordings.recording import Recording
from forebay.policy.recognition import AnchorIndex, FollowedReader, Recogniser, RecordingMatch
from forebay.protocol.recordings.recording_page import RecordedRead, RecordingPage

MAX_CANDIDATES: Final = 16
"""Recordings that the reads are compared with, the latest used first."""
ATTENTIVE_READS: Final = 2048
"""Reads that are all compared, at the beginning of an epoch and behind a pause: comparing costs most of all."""
ATTENTIVE_AFTER: Final = 5.0
"""Seconds without a read after which a job may have been started again."""
SELDOM: Final = 16
_SELDOM_BATCHES: Final = 16
"""In a row, so that the anchors of a large data set are enough to judge."""
MAX_PARTED: Final = 2
NEW_RUN_AFTER: Final = 600.0
"""Seconds without a read after which a new run begins."""
BROKEN_OFF: Final = 0.9
"""An epoch with less than this share of the reads of the one before was broken off: a new run begins behind it."""
SAME_LENGTH: Final = 0.05
"""An epoch that went along a recording, and is longer by no more than this share, is no other one."""
_FIRST_READS: Final = 256
"""A recording that is recognised before so many reads, or 2 % of it, is followed from its beginning."""


class ReaderKey(NamedTuple):
    """Which reads go together."""

    bucket: str
    track: str
    principal: str


class FollowListener(Protocol):
    """Is called when a reader begins and ceases to go along a recording."""

    def may_follow(self, reader: ReaderKey, recording: Recording) -> bool:
        """Whether the reader may profit from `recording`."""
        ...

    def followed(self, reader: ReaderKey, recording: Recording, position: int) -> None:
        """The reader goes along `recording`, from about `position` on."""
        ...

    def advanced(self, reader: ReaderKey, position: int) -> None:
        """The reader is at about `position` of the recording that it goes along."""
        ...

    def ended(self, reader: ReaderKey, *, parted: bool) -> None:
        """The reader has parted from the recording, or is at its end."""
        ...


class ReaderTrack:
    """Reads of one reader."""

    def __init__(
        self, key: ReaderKey, catalogue: RecordingCatalogue, listener: FollowListener, clock: Callable[[], float]
    ) -> None:
        """`clock`: seconds since 1970."""
        self.key = key
        self._catalogue = catalogue
        self._listener = listener
        self._clock = clock
        self.latest_read = clock()
        self._recorder = EpochRecorder(self.latest_read)
        self._records = self._follows = False
        self._recording: Recording | None = None
        self._run, self._epoch, self._epoch_reads = token_hex(4), 1, 0
        self._recognisers: dict[str, tuple[Recording, Recogniser]] = {}
        self._known_version = -1
        """Of the catalogue, when the candidates were chosen."""
        self._compared = 0
        """Reads of the epoch while no recording was followed."""
        self._batches = 0
        self._followed: tuple[Recording, FollowedReader] | None = None
        self._whole: Recording | None = None
        """The recording that this epoch went along from its beginning to its end."""
        self._parted: Counter[str] = Counter()
        """How often the reader has parted from a recording in this epoch, by the id."""

    @property
    def recording(self) -> Recording | None:
        """The recording that is being made."""
        return self._recording

    @property
    def follows(self) -> Recording | None:
        """The recording that the reader goes along."""
        return self._followed[0] if self._followed is not None else None

    def observe(self, reads: Sequence[RecordedRead], hashes: Sequence[int], *, records: bool, follows: bool) -> None:
        """Adds reads. `records`: whether they are recorded. `follows`: whether a recording is followed."""
        now = self._clock()
        if now - self.latest_read > NEW_RUN_AFTER:
            self.end()
            self._begin_run()
        if now - self.latest_read > ATTENTIVE_AFTER:
            self._compared = 0
        self.latest_read, self._records = now, records
        if follows != self._follows:
            self.cease()
            self._follows = follows
        self._store(self._recorder.add(reads, hashes, now))
        if self._followed is not None:
            self._go_along(*self._followed, hashes)
        else:
            self._compare(hashes)

    def end(self) -> None:
        """Ends the recording that is being made, and following."""
        self.cut()
        self.cease()

    def cut(self) -> None:
        """Ends the recording that is being made; what is read from now on is another one."""
        self._store(self._recorder.end())

    def cease(self) -> None:
        """Follows no recording any more, until one is recognised anew."""
        if self._followed is not None:
            self._followed = None
            if self._follows:
                self._listener.ended(self.key, parted=True)

    # Recording

    def _store(self, made: Iterable[RecordingPage | EpochEnded]) -> None:
        for each in made:
            match each:
                case RecordingPage() if self._records:
                    if self._recording is None:
                        bucket, track, principal = self.key
                        self._recording = self._catalogue.begin(bucket, principal, track, self._run, self._epoch)
                    self._catalogue.append(self._recording, each)
                case EpochEnded(index):
                    self._end_epoch(index)
                case _:
                    pass

    def _end_epoch(self, index: AnchorIndex) -> None:
        if self._followed is not None and self._followed[1].is_at_end:
            self._reach_end(*self._followed)
        recording, whole = self._recording, self._whole
        self._recording = self._whole = None
        self._parted.clear()
        self._compared = 0
        self._epoch += 1
        if recording is None:
            return
        if whole is not None:
            self._run, self._epoch = whole.run, whole.epoch + 1
            if recording.reads <= whole.reads * (1 + SAME_LENGTH):
                self._catalogue.remove(recording)  # the same reads once more
                return
            recording.run, recording.epoch = whole.run, whole.epoch
            if whole.state == "automatic":  # it had broken off
                self._catalogue.remove(whole)
        self._catalogue.end(recording, index)
        if recording.reads < self._epoch_reads * BROKEN_OFF:
            self._begin_run()
        else:
            self._epoch_reads = recording.reads

    def _begin_run(self) -> None:
        self._run, self._epoch, self._epoch_reads = token_hex(4), 1, 0

    # Recognition

    def _compare(self, hashes: Sequence[int]) -> None:
        """Looks for a recording that the latest reads go along."""
        self._compared += len(hashes)
        self._batches += 1
        if self._compared > ATTENTIVE_READS and self._batches // _SELDOM_BATCHES % SELDOM:
            return
        if self._known_version != self._catalogue.version:
            self._load_candidates()
        best: tuple[Recording, RecordingMatch] | None = None
        for recording, recogniser in self._recognisers.values():
            match = recogniser.observe(hashes)
            if match is None or self._parted[recording.id] >= MAX_PARTED:
                continue
            if best is None or match.evidence > best[1].evidence:
                best = recording, match
        if best is not None:
            recording, match = best
            self._followed = recording, FollowedReader(recording.index, match)
            self._catalogue.mark_used(recording)
            if self._follows:
                self._listener.followed(self.key, recording, max(0, match.position - match.spread))

    def _go_along(self, recording: Recording, reader: FollowedReader, hashes: Sequence[int]) -> None:
        if not reader.observe(hashes):
            self._parted[recording.id] += 1
            self._compared = 0
            self._forget_positions()
            self.cease()
        elif reader.is_at_end:
            self._reach_end(recording, reader)
        elif self._follows:
            self._listener.advanced(self.key, reader.position)

    def _reach_end(self, recording: Recording, reader: FollowedReader) -> None:
        if reader.start <= max(_FIRST_READS, recording.reads // 50):
            self._whole = recording
        self._parted[recording.id] = MAX_PARTED  # its last reads must not be recognised as such
        self._followed = None
        self._forget_positions()
        if self._follows:
            self._listener.ended(self.key, parted=False)

    def _forget_positions(self) -> None:
        for _, recogniser in self._recognisers.values():
            recogniser.forget()

    def _load_candidates(self) -> None:
        self._known_version = self._catalogue.version
        known = self._recognisers
        found = [
            each
            for each in self._catalogue.in_bucket(self.key.bucket)
            if each.state != "recording" and self._listener.may_follow(self.key, each)
        ]
        found.sort(key=lambda each: -each.latest_use)
        self._recognisers = {
            each.id: known.get(each.id, (each, Recogniser(each.index))) for each in found[:MAX_CANDIDATES]
        }
