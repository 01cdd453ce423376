"""First reads: a job that begins with the first read of a recording is followed at once, on trial.

    a read that may miss begins ──first after a pause, and of a recording──> a plan of TRIAL_ENTRIES
        recognised by the track ──> the rest of the recording      (jobs.recordings.reader_track)
        not within TRIAL_SECONDS ──> the plan is ended

Recognition needs eight to twelve reads, each of which waits for the origin: a fifth of a second. One key is little
evidence: of a set of n objects in another order it is the first of a recording once in n times. So little is
fetched for it. Reads are seen here as they begin; the read stream has them when they are answered.

A recording with more reads than anchors (policy.recognition) mostly does not know its first one, and is long enough
to do without. In a node of several workers only reads of the one that collects are seen here.
"""

from collections.abc import Callable
from typing import Final

from forebay.core.events import ReaderKey
from forebay.core.read_log import LogContext, read_hash
from forebay.jobs.recordings.candidates import MAX_CANDIDATES
from forebay.jobs.recordings.catalogue import RecordingCatalogue
from forebay.jobs.recordings.follower import Follower
from forebay.jobs.recordings.reader_track import ATTENTIVE_AFTER
from forebay.jobs.recordings.recorder import Recorder

TRIAL_SECONDS: Final = 60.0
FIRST_READS: Final = 16
"""Reads of a job that are looked at: a loader's workers begin with one each."""


class FirstReads:
    """The first reads of each reader of the node."""

    def __init__(
        self, catalogue: RecordingCatalogue, recorder: Recorder, follower: Follower, clock: Callable[[], float]
    ) -> None:
        """`clock`: seconds since 1970."""
        self._catalogue, self._recorder, self._follower, self._clock = catalogue, recorder, follower, clock
        self._latest: dict[ReaderKey, tuple[float, int]] = {}
        """When a reader has begun its latest read, and how many it has since a pause."""
        self._trials: dict[ReaderKey, float] = {}
        """When each began."""

    def begun(self, context: LogContext, key: str, start: int) -> None:
        """A read of `key` from byte `start` on has begun, and may be a miss."""
        reader, now = ReaderKey(context.bucket, context.track, context.principal), self._clock()
        latest, count = self._latest.get(reader, (0.0, 0))
        if now - max(latest, self._recorder.latest_read(reader)) > ATTENTIVE_AFTER:
            count = 0
        elif not count:
            return  # in the middle of what it reads
        self._latest[reader] = now, count + 1
        if count >= FIRST_READS or not self._catalogue.is_open or self._follower.is_following(reader):
            return
        found = read_hash(key, start)
        recordings = [each for each in self._catalogue.in_bucket(context.bucket) if each.state != "recording"]
        for recording in sorted(recordings, key=lambda each: -each.latest_use)[:MAX_CANDIDATES]:
            if recording.index.positions.get(found) == 0 and self._follower.may_follow(reader, recording):
                self._trials[reader] = now
                self._follower.try_out(reader, recording)
                return

    def tend(self) -> None:
        """Ends trials that nothing has confirmed, and forgets readers that have stopped. Called every few seconds."""
        now = self._clock()
        for reader, began in tuple(self._trials.items()):
            if now - began > TRIAL_SECONDS:
                del self._trials[reader]
                self._follower.end_trial(reader)
        self._latest = {reader: each for reader, each in self._latest.items() if now - each[0] <= ATTENTIVE_AFTER}
