"""Candidates: the recordings of a bucket, and the comparison of one reader's latest reads with each of them.

    reads ──first period: all; later: one period in SELDOM──> a recogniser for each candidate ──> the best match

The comparison is the most costly step of recognition. So the reader compares its first reads, and then every SELDOM-th
period of them, until a recording matches. After the reader has left a recording MAX_TIMES_LEFT times, that recording
is no candidate until the next epoch.
"""

from collections import Counter
from collections.abc import Callable
from typing import Final

from forebay.core.read_hashes import ReadHashes
from forebay.jobs.recordings.catalogue import RecordingCatalogue
from forebay.jobs.recordings.recording import Recording
from forebay.policy.recognition import Recogniser, RecordingMatch

MAX_CANDIDATES: Final = 16
"""Recordings in a comparison, the latest used first."""
PERIOD_READS: Final = 256
"""The least length of a period of reads: the first of an epoch and the first after a pause are compared whole."""
PERIOD_ANCHORS: Final = 48
"""The least number of anchors in a period, which makes it longer in a large data set."""
SELDOM: Final = 16
"""One in so many later periods is compared."""
MAX_TIMES_LEFT: Final = 2


class RecordingCandidates:
    """The candidates of one reader. `may_follow`: whether the reader may use a recording."""

    def __init__(self, bucket: str, catalogue: RecordingCatalogue, may_follow: Callable[[Recording], bool]) -> None:
        self._bucket = bucket
        self._catalogue = catalogue
        self._may_follow = may_follow
        self._recognisers: dict[str, tuple[Recording, Recogniser]] = {}
        self._known_version = -1
        """The version of the catalogue from which the candidates were chosen."""
        self._period = PERIOD_READS
        """Reads of a period."""
        self._compared = 0
        """Reads since `compare_next`."""
        self._times_left: Counter[str] = Counter()
        """The number of times that the reader left a recording in this epoch, by the recording's id."""

    def compare_next(self) -> None:
        """Compares the whole next period."""
        self._compared = 0

    def begin_epoch(self) -> None:
        """Makes every recording a candidate again."""
        self._times_left.clear()
        self.forget_positions()
        self.compare_next()

    def leave(self, recording: Recording) -> None:
        """Counts that the reader left a recording, and compares the whole next period."""
        self._times_left[recording.id] += 1
        self.forget_positions()
        self.compare_next()

    def exclude(self, recording: Recording) -> None:
        """Ignores a recording until the next epoch: the reader is at its end, and its last reads would match again."""
        self._times_left[recording.id] = MAX_TIMES_LEFT
        self.forget_positions()

    def forget_positions(self) -> None:
        """Drops the recognisers' positions: later reads alone count for a match."""
        for _, recogniser in self._recognisers.values():
            recogniser.forget()

    def compare(self, hashes: ReadHashes) -> tuple[Recording, RecordingMatch] | None:
        """Compares reads, by their hashes. Returns the best match; None: no recording matches, or their period is not
        compared."""
        middle = self._compared + min(len(hashes), self._period) // 2  # it decides on the batch's period
        self._compared += len(hashes)
        if middle // self._period % SELDOM:
            return None
        if self._known_version != self._catalogue.version:
            self._load()
        best: tuple[Recording, RecordingMatch] | None = None
        for recording, recogniser in self._recognisers.values():
            match = recogniser.observe(hashes)
            if match is None or self._times_left[recording.id] >= MAX_TIMES_LEFT:
                continue
            if best is None or match.evidence > best[1].evidence:
                best = recording, match
        return best

    def _load(self) -> None:
        self._known_version = self._catalogue.version
        known = self._recognisers
        found = [
            each
            for each in self._catalogue.in_bucket(self._bucket)
            if each.state != "recording" and self._may_follow(each)
        ]
        found.sort(key=lambda each: -each.latest_use)
        self._recognisers = {
            each.id: known.get(each.id, (each, Recogniser(each.index))) for each in found[:MAX_CANDIDATES]
        }
        spacing = max((each.index.spacing for each, _ in self._recognisers.values()), default=1)
        self._period = max(PERIOD_READS, PERIOD_ANCHORS * spacing)
