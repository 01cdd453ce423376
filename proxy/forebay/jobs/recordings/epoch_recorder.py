"""The epoch recorder: what one reader reads, as pages of one recording after another. No input or output.

    reads ──> tail (up to 2 pages, in memory) ──> pages, to be stored
                └── a new epoch began in it: the reads before are the last page, those behind begin the next recording

The tail is as long as it takes to see that a new epoch began. A read that was made shortly before is not recorded
again: ranks of a job read the same samples.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from forebay.policy.epoch_boundary import EpochBoundary, is_old
from forebay.policy.recognition import AnchorIndex
from forebay.protocol.recordings.recording_page import PAGE_READS, RecordedRead, RecordingPage

MAX_READS: Final = 1 << 23
"""Reads of one recording; behind them the next one begins."""
_SMALL: Final = 1024
_STEP: Final = 16
"""Of an epoch of fewer than _SMALL reads the end is looked for after each _STEP: another one may fit into a batch."""


@dataclass(frozen=True, slots=True)
class EpochEnded:
    """All reads of an epoch are in the pages returned so far."""

    index: AnchorIndex


class EpochRecorder:
    """Records one reader from `began` on, in seconds since 1970."""

    def __init__(self, began: float) -> None:
        self._began = began
        self._boundary = EpochBoundary()
        self._tail: list[RecordedRead] = []
        self._tail_hashes: list[int] = []
        self._in_tail: dict[int, int] = {}
        """The latest position of each read of the tail, by its hash."""
        self._tail_began = began

    @property
    def count(self) -> int:
        """Reads of the epoch so far."""
        return self._boundary.index.count

    def add(self, reads: Sequence[RecordedRead], hashes: Sequence[int], now: float) -> list[RecordingPage | EpochEnded]:
        """Adds reads, each with its `policy.recognition.read_hash`. Returns pages to store and ends of epochs."""
        made: list[RecordingPage | EpochEnded] = []
        start = 0
        while start < len(reads):
            stop = start + (_STEP if self.count < _SMALL else len(reads))
            made += self._add(reads[start:stop], hashes[start:stop], now)
            start = stop
        return made

    def _add(
        self, reads: Sequence[RecordedRead], hashes: Sequence[int], now: float
    ) -> list[RecordingPage | EpochEnded]:
        in_tail, tail, position, new = self._in_tail, self._tail, self.count, list[int]()
        if not tail:
            self._tail_began = now
        for read, found in zip(reads, hashes, strict=True):
            earlier = in_tail.get(found)
            if earlier is None or is_old(earlier, position):
                in_tail[found] = position
                tail.append(read)
                new.append(found)
                position += 1
        self._tail_hashes += new
        boundary = self._boundary.add(new)
        made: list[RecordingPage | EpochEnded] = []
        if boundary is not None or self.count >= MAX_READS:
            first = self.count - len(self._tail)
            kept = max(0, boundary - first) if boundary is not None else len(self._tail)
            behind, behind_hashes = self._tail[kept:], self._tail_hashes[kept:]
            del self._tail[kept:]
            self._boundary.index.truncate(first + kept)
            made += self.end()
            self._restart(behind, behind_hashes, now)
        elif len(self._tail) >= 2 * PAGE_READS:
            made.append(self._cut_page(now))
        return made

    def end(self) -> list[RecordingPage | EpochEnded]:
        """Returns what is left of the epoch: its last pages, and its end. Empty if nothing was read."""
        made: list[RecordingPage | EpochEnded] = []
        while self._tail:
            made.append(self._cut_page(self._tail_began))
        if self.count:
            made.append(EpochEnded(self._boundary.index))
        self._restart([], [], self._tail_began)
        return made

    def _cut_page(self, now: float) -> RecordingPage:
        page = RecordingPage(tuple(self._tail[:PAGE_READS]), max(0, int(self._tail_began - self._began)))
        del self._tail[:PAGE_READS], self._tail_hashes[:PAGE_READS]
        first = self.count - len(self._tail)
        self._in_tail = {found: first + nth for nth, found in enumerate(self._tail_hashes)}
        self._tail_began = now
        return page

    def _restart(self, reads: list[RecordedRead], hashes: list[int], now: float) -> None:
        self._boundary = EpochBoundary()
        self._boundary.add(hashes)
        self._tail, self._tail_hashes = reads, hashes
        self._in_tail = {found: nth for nth, found in enumerate(hashes)}
        self._began = self._tail_began = now
