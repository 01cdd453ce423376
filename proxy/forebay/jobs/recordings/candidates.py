"""Candidates: the recordings that a reader may be following, and the comparison of its latest reads with each.

    reads ──attentive: all; else one in SELDOM──> a recogniser for each candidate ──> the best match

Comparing costs most of all, so while nothing matches it is done seldom: at first all reads are compared, later a part
of them. A recording that the reader has parted from twice is not tried again before the next epoch.
"""

from collections import Counter
from collections.abc import Callable
from typing import Final

from forebay.core.read_hashes import ReadHashes
from forebay.jobs.recordings.catalogue import RecordingCatalogue
from forebay.jobs.recordings.recording import Recording
from forebay.policy.recognition import Recogniser, RecordingMatch

MAX_CANDIDATES: Final = 16
"""Recordings that the reads are compared with, the latest used first."""
ATTENTIVE_READS: Final = 256
"""Reads that are all compared, at the beginning of an epoch and behind a pause. In a large data set more, as many as
have ATTENTIVE_ANCHORS anchors."""
ATTENTIVE_ANCHORS: Final = 48
SELDOM: Final = 16
MAX_PARTED: Final = 2


class RecordingCandidates:
    """The recordings of one reader's bucket. `may_follow`: whether it may profit from one."""

    def __init__(self, bucket: str, catalogue: RecordingCatalogue, may_follow: Callable[[Recording], bool]) -> None:
        self._bucket = bucket
        self._catalogue = catalogue
        self._may_follow = may_follow
        self._recognisers: dict[str, tuple[Recording, Recogniser]] = {}
        self._known_version = -1
        """The version of the catalogue from which the candidates were chosen."""
        self._attentive = ATTENTIVE_READS
        self._compared = 0
        """Reads since `compare_next`, while no recording was followed."""
        self._parted: Counter[str] = Counter()
        """How often the reader has parted from a recording in this epoch, by the id."""

    def compare_next(self) -> None:
        """Compares all of the next reads."""
        self._compared = 0

    def begin_epoch(self) -> None:
        """Every recording may be tried again."""
        self._parted.clear()
        self.forget_positions()
        self.compare_next()

    def part(self, recording: Recording) -> None:
        """The reader has parted from a recording."""
        self._parted[recording.id] += 1
        self.forget_positions()
        self.compare_next()

    def exclude(self, recording: Recording) -> None:
        """The reader is at the end of a recording, whose last reads must not be recognised as such."""
        self._parted[recording.id] = MAX_PARTED
        self.forget_positions()

    def forget_positions(self) -> None:
        """Compares only the reads that follow."""
        for _, recogniser in self._recognisers.values():
            recogniser.forget()

    def compare(self, hashes: ReadHashes) -> tuple[Recording, RecordingMatch] | None:
        """Adds reads. Returns the recording that the latest ones go along best."""
        middle = (
            self._compared + min(len(hashes), self._attentive) // 2
        )  # a batch is in the stretch that has most of it
        self._compared += len(hashes)
        if middle // self._attentive % SELDOM:
            return None
        if self._known_version != self._catalogue.version:
            self._load()
        best: tuple[Recording, RecordingMatch] | None = None
        for recording, recogniser in self._recognisers.values():
            match = recogniser.observe(hashes)
            if match is None or self._parted[recording.id] >= MAX_PARTED:
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
        self._attentive = max(ATTENTIVE_READS, ATTENTIVE_ANCHORS * spacing)
