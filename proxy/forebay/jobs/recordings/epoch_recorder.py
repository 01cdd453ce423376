"""The epoch recorder: what one reader reads, as pages of one recording after another. No input or output.

    reads ──> tail (up to 2 pages, in memory) ──> pages, to be stored
                └── a new epoch began in it: the reads before are the last page, those behind begin the next recording

Nearly all reads are passed by sentinels (jobs.recordings.repeat_sentinels) and looked at no further; where many are
repeated, reads are looked at one by one until the epoch ends, the latest of the tail first. The tail is as long as it
takes to see that a new epoch began. Then a read that was made shortly before is not recorded again: ranks of a job read
the same samples.
"""

from array import array
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from forebay.core.read_hashes import ReadHashes, count_distinct
from forebay.jobs.recordings.repeat_sentinels import RepeatSentinels
from forebay.policy.anchor_index import AnchorIndex
from forebay.policy.epoch_boundary import EpochBoundary, is_old
from forebay.protocol.recordings.read_columns import ColumnSource
from forebay.protocol.recordings.read_tail import ReadTail
from forebay.protocol.recordings.recording_page import PAGE_READS, RecordingPage

MAX_READS: Final = 1 << 23
"""Reads of one recording; behind them the next one begins."""
_SMALL: Final = 1024
_STEP: Final = 16
"""Reads after which the end of an epoch of fewer than _SMALL is looked for: another epoch may fit into a batch."""
_LARGE_STEP: Final = 128
"""Reads after which the end of a larger epoch is looked for: what is behind the end is new again, and added at once.
The first step of a batch is as short as tells an end, as most repeated reads are one."""


@dataclass(frozen=True, slots=True)
class EpochEnded:
    """All reads of an epoch are in the pages returned so far."""

    index: AnchorIndex
    is_whole: bool
    """Whether its objects began to be read again. Otherwise reads ended, and the reader may not have read them all."""


class EpochRecorder:
    """Records one reader from `began` on, in seconds since 1970. `known`: reads of the epoch that are recorded
    elsewhere."""

    def __init__(self, began: float, known: AnchorIndex | None = None) -> None:
        self._began = began
        self._boundary = EpochBoundary(known)
        self._tail = ReadTail()
        self._tail_hashes: ReadHashes = array("I")
        self._sentinels: RepeatSentinels | None = RepeatSentinels() if known is None else None
        """While no read is known to be repeated: then the boundary knows nothing of the tail yet."""
        self._again: dict[int, int] = {}
        """While every read is an anchor: the latest positions of reads that the tail has, and the epoch had before."""
        self._latest: tuple[set[int], set[int]] = set(), set()
        """Later: the latest reads, between a sixteenth and an eighth of the epoch, and those before them."""
        self._tail_began = began

    @property
    def count(self) -> int:
        """Reads of the epoch so far."""
        indexed = self._boundary.index.count
        return indexed if self._sentinels is None else indexed + len(self._tail)

    @property
    def looks_closely(self) -> bool:
        """Whether reads are looked at one by one."""
        return self._sentinels is None

    def add(self, reads: ColumnSource, hashes: ReadHashes, now: float) -> list[RecordingPage | EpochEnded]:
        """Adds reads, each with its `policy.recognition.read_hash`. Returns pages to store and ends of epochs."""
        if not len(self._tail):
            self._tail_began = now
        return self._add_all(reads, hashes, now)

    def _add_all(self, reads: ColumnSource, hashes: ReadHashes, now: float) -> list[RecordingPage | EpochEnded]:
        made: list[RecordingPage | EpochEnded] = []
        while len(reads):
            if self._sentinels is not None and self._sentinels.add(hashes):
                self._tail.append(reads)
                self._tail_hashes += hashes
                return made + self._cut_full_pages(now)
            reads, hashes = self._look_closely(reads, hashes)
            added = self._add_closely(reads, hashes, now, made)
            reads, hashes = reads.part(added, len(reads)), hashes[added:]
        return made

    def _look_closely(self, reads: ColumnSource, hashes: ReadHashes) -> tuple[ColumnSource, ReadHashes]:
        """Relies on sentinels no longer. Returns what is to be added read by read: these, and the tail before them if
        the boundary can't know it otherwise."""
        if self._sentinels is None:
            return reads, hashes
        whole, whole_hashes = self._tail, self._tail_hashes
        known = max(0, len(whole) - self._sentinels.unnoticed)
        self._sentinels = None
        self._boundary.append(whole_hashes[:known])
        self._tail, self._tail_hashes = whole.cut(known), whole_hashes[:known]
        if known and not self._boundary.index.has_all:
            self._leave_out()
        whole.append(reads)
        return whole, whole_hashes[known:] + hashes

    def _add_closely(
        self, reads: ColumnSource, hashes: ReadHashes, now: float, made: list[RecordingPage | EpochEnded]
    ) -> int:
        """Adds reads, up to the end of an epoch. Returns how many."""
        if self._add_new(reads, hashes):
            made += self._cut_full_pages(now)
            return len(reads)
        start, is_first = 0, True
        while start < len(reads) and self._sentinels is None:
            step = self._step(is_first=is_first)
            new = self._count_new(hashes, start)
            if new >= _STEP and self._add_new(reads.part(start, start + new), hashes[start : start + new]):
                start += new  # behind the end of an epoch, as all that follows in the batch
                made += self._cut_full_pages(now)
            else:
                made += self._add(reads.part(start, start + step), hashes[start : start + step], now)
                start += step
                is_first = False
        return start

    def _step(self, *, is_first: bool) -> int:
        if self.count < _SMALL:
            return _STEP
        return min(_LARGE_STEP, _STEP * self._boundary.index.spacing) if is_first else _LARGE_STEP

    def _count_new(self, hashes: ReadHashes, start: int) -> int:
        """How many reads there are from `start` on before one that was made before."""
        new = hashes[start:]
        for known in (self._boundary.index.positions, *self._latest):
            repeated = bytes(map(known.__contains__, new)).find(1) if known else -1
            if repeated >= 0:
                new = new[:repeated]
        return count_distinct(new)

    def _add_new(self, reads: ColumnSource, hashes: ReadHashes) -> bool:
        """Adds reads if all of them are new. Fast, as it is done with nearly all reads."""
        found = None
        if not self._boundary.index.has_all:
            this, before = self._latest
            found = set(hashes)
            if len(found) < len(hashes) or not (this.isdisjoint(found) and before.isdisjoint(found)):
                return False
        if not self._boundary.add_new(hashes):
            return False
        self._tail.append(reads)
        self._tail_hashes += hashes
        if found is not None:
            self._remember(found)
        elif not self._boundary.index.has_all:
            self._leave_out()
        return True

    def _add(self, reads: ColumnSource, hashes: ReadHashes, now: float) -> list[RecordingPage | EpochEnded]:
        new = self._new_of(reads, hashes)
        self._tail_hashes.extend(new)
        had_all = self._boundary.index.has_all
        boundary = self._boundary.add(new)
        if had_all and not self._boundary.index.has_all:
            self._leave_out()
        if boundary is None and self.count < MAX_READS:
            return self._cut_full_pages(now)
        first = self.count - len(self._tail)
        kept = max(0, boundary - first) if boundary is not None else len(self._tail)
        ended, behind, behind_hashes = self._tail.cut(kept), self._tail, self._tail_hashes[kept:]
        self._tail = ended
        self._boundary.index.truncate(first + kept)
        made = self._end(is_whole=boundary is not None)
        self._restart(behind, behind_hashes, now)
        return made

    def _new_of(self, reads: ColumnSource, hashes: ReadHashes) -> list[int]:
        """Appends to the tail the reads that were not made shortly before. Returns their hashes."""
        index, position, new = self._boundary.index, self.count, list[int]()
        chosen = list[int]()
        if index.has_all:
            again, positions = self._again, index.positions
            for number, found in enumerate(hashes):
                earlier = again.get(found, positions.get(found))
                if earlier is None or is_old(earlier, position):
                    again[found] = position
                    chosen.append(number)
                    new.append(found)
                    position += 1
        else:
            this, before = self._latest
            for number, found in enumerate(hashes):
                if found not in this and found not in before:
                    this.add(found)
                    chosen.append(number)
                    new.append(found)
            self._remember(())
        self._tail.append(reads if len(chosen) == len(reads) else reads.chosen(chosen))
        return new

    def _leave_out(self) -> None:
        """Not every read is an anchor any more: the latest of the tail are remembered apart."""
        self._latest = set(self._tail_hashes[-self._recent :]), set()

    @property
    def _recent(self) -> int:
        return min(PAGE_READS, self.count // 16)

    def _remember(self, found: Iterable[int]) -> None:
        this, _ = self._latest
        this.update(found)
        if len(this) >= self._recent:
            self._latest = set(), this

    def _cut_full_pages(self, now: float) -> list[RecordingPage | EpochEnded]:
        made: list[RecordingPage | EpochEnded] = []
        while len(self._tail) >= 2 * PAGE_READS:
            if self._sentinels is not None:
                self._boundary.append(self._tail_hashes[:PAGE_READS])
            made.append(self._cut_page(now))
        return made

    @property
    def tail(self) -> list[RecordingPage]:
        """The reads that no page returned so far has."""
        seconds = max(0, int(self._tail_began - self._began))
        starts = range(0, len(self._tail), PAGE_READS)
        return [RecordingPage(self._tail.part(start, start + PAGE_READS), seconds) for start in starts]

    def end(self) -> list[RecordingPage | EpochEnded]:
        """Returns what is left of the epoch: its last pages, and its end. Empty if nothing was read."""
        return self._end(is_whole=False)

    def _end(self, *, is_whole: bool) -> list[RecordingPage | EpochEnded]:
        made: list[RecordingPage | EpochEnded] = []
        while self._sentinels is not None:
            made += self._add_all(*self._look_closely(ReadTail(), array("I")), self._tail_began)
        while len(self._tail):
            made.append(self._cut_page(self._tail_began))
        if self.count:
            made.append(EpochEnded(self._boundary.index, is_whole))
        self._restart(ReadTail(), array("I"), self._tail_began)
        return made

    def _cut_page(self, now: float) -> RecordingPage:
        page = RecordingPage(self._tail.cut(PAGE_READS), max(0, int(self._tail_began - self._began)))
        del self._tail_hashes[:PAGE_READS]
        self._again.clear()
        self._tail_began = now
        return page

    def _restart(self, reads: ReadTail, hashes: ReadHashes, now: float) -> None:
        self._boundary = EpochBoundary()
        self._sentinels = RepeatSentinels()
        if not self._sentinels.add(hashes):
            self._sentinels = None
            self._boundary.add(hashes)
        self._tail, self._tail_hashes = reads, hashes
        self._again.clear()
        self._latest = set(), set()
        self._began = self._tail_began = now
