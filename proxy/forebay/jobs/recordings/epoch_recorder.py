"""The epoch recorder: makes recordings of one reader's reads, a recording for each epoch. No input or output.

    reads ──> tail, in memory, up to 2 pages ──> pages, for the caller to store
                └── a new epoch began in the tail: its front is the last page, its rest begins the next recording

The recorder works in one of two ways:

- *by sentinels* (jobs.recordings.repeat_sentinels), for nearly all reads: a sample of the reads is checked for
  repetition;
- *read by read*, from the sign of a new epoch until the epoch ends, beginning with the latest reads of the tail. The
  recorder skips a read that repeats a recent one: ranks of a job read the same samples.

The end of an epoch shows some reads late, and the tail is long enough for that.
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
"""The most reads of one recording; the next read begins another recording."""
_SMALL: Final = 1024
"""Reads of a small epoch."""
_STEP: Final = 16
"""Reads between two searches for the end of a small epoch: a batch may contain a whole epoch."""
_LARGE_STEP: Final = 128
"""Reads between two searches for the end of a larger epoch. The first step of a batch is shorter, just long enough to
tell an end: most repeated reads are a new epoch's, and behind the end new reads are added at once."""


@dataclass(frozen=True, slots=True)
class EpochEnded:
    """The end of an epoch: the pages returned before have all its reads. `index`: of them."""

    index: AnchorIndex
    is_whole: bool
    """Whether its objects began to be read again. Otherwise reads ended, and the reader may not have read them all."""


class EpochRecorder:
    """Records one reader."""

    def __init__(self, began: float, known: AnchorIndex | None = None, most_reads: int = MAX_READS) -> None:
        """`began`: seconds of a monotonic clock. `known`: the epoch's reads in another recording."""
        self._began = began
        self._most_reads = most_reads
        self._boundary = EpochBoundary(known)
        self._tail = ReadTail()
        self._tail_hashes: ReadHashes = array("I")
        self._sentinels: RepeatSentinels | None = RepeatSentinels() if known is None else None
        """None: the recorder works read by read. By sentinels, the boundary has no read of the tail."""
        self._again: dict[int, int] = {}
        """While every read is an anchor: the latest positions of the tail's repeated reads, by their hashes."""
        self._latest: tuple[set[int], set[int]] = set(), set()
        """Later: the hashes of the latest reads, and of those before them, together a sixteenth to an eighth of the
        epoch."""
        self._tail_began = began

    @property
    def count(self) -> int:
        """Reads of the epoch so far."""
        indexed = self._boundary.index.count
        return indexed if self._sentinels is None else indexed + len(self._tail)

    def add(self, reads: ColumnSource, hashes: ReadHashes, now: float) -> list[RecordingPage | EpochEnded]:
        """Adds reads and their hashes (policy.recognition.read_hash). Returns pages to store and ends of epochs, in
        order. `now`: seconds of a monotonic clock."""
        if not len(self._tail):
            self._tail_began = now
        made: list[RecordingPage | EpochEnded] = []
        while len(reads) > (room := max(0, self._most_reads - self.count)):
            made += self._add_all(reads.part(0, room), hashes[:room], now)
            reads, hashes = reads.part(room, len(reads)), hashes[room:]
            if self.count >= self._most_reads:
                made += self._end(is_whole=False)
                self._restart(ReadTail(), array("I"), now)
        return made + self._add_all(reads, hashes, now)

    def _add_all(self, reads: ColumnSource, hashes: ReadHashes, now: float) -> list[RecordingPage | EpochEnded]:
        made: list[RecordingPage | EpochEnded] = []
        while len(reads):
            if self._sentinels is not None and self._sentinels.add(hashes):
                self._tail.append(reads)
                self._tail_hashes += hashes
                return made + self._cut_full_pages(now)
            reads, hashes = self._leave_sentinels(reads, hashes)
            added = self._add_checked(reads, hashes, now, made)
            reads, hashes = reads.part(added, len(reads)), hashes[added:]
        return made

    def _leave_sentinels(self, reads: ColumnSource, hashes: ReadHashes) -> tuple[ColumnSource, ReadHashes]:
        """Begins to work read by read. Returns the reads to add so: the given ones behind the unchecked part of the
        tail, which it cuts off."""
        if self._sentinels is None:
            return reads, hashes
        whole, whole_hashes = self._tail, self._tail_hashes
        known = max(0, len(whole) - self._sentinels.unchecked)
        self._sentinels = None
        self._boundary.append(whole_hashes[:known])
        self._tail, self._tail_hashes = whole.cut(known), whole_hashes[:known]
        if known and not self._boundary.index.has_all:
            self._keep_latest()
        whole.append(reads)
        return whole, whole_hashes[known:] + hashes

    def _add_checked(
        self, reads: ColumnSource, hashes: ReadHashes, now: float, made: list[RecordingPage | EpochEnded]
    ) -> int:
        """Adds reads, read by read, up to the end of an epoch. Extends `made`. Returns how many reads it added."""
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
        """Returns the number of new reads from `start` on, before the first repeated one."""
        new = hashes[start:]
        for known in (self._boundary.index.positions, *self._latest):
            repeated = bytes(map(known.__contains__, new)).find(1) if known else -1
            if repeated >= 0:
                new = new[:repeated]
        return count_distinct(new)

    def _add_new(self, reads: ColumnSource, hashes: ReadHashes) -> bool:
        """Adds reads if all of them are new; else returns False, and does nothing."""
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
            self._keep_latest()
        return True

    def _add(self, reads: ColumnSource, hashes: ReadHashes, now: float) -> list[RecordingPage | EpochEnded]:
        new = self._new_of(reads, hashes)
        self._tail_hashes.extend(new)
        had_all = self._boundary.index.has_all
        boundary = self._boundary.add(new)
        if had_all and not self._boundary.index.has_all:
            self._keep_latest()
        if boundary is None:
            return self._cut_full_pages(now)
        first = self.count - len(self._tail)
        kept = max(0, boundary - first)
        ended, behind, behind_hashes = self._tail.cut(kept), self._tail, self._tail_hashes[kept:]
        self._tail = ended
        self._boundary.index.truncate(first + kept)
        made = self._end(is_whole=True)
        self._restart(behind, behind_hashes, now)
        return made

    def _new_of(self, reads: ColumnSource, hashes: ReadHashes) -> list[int]:
        """Appends reads to the tail, without those that repeat recent ones. Returns the hashes of the appended."""
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

    def _keep_latest(self) -> None:
        """Begins to keep the latest reads' hashes: from now on the index of anchors has some of the reads only."""
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
        """The reads that are not in a returned page yet."""
        seconds = max(0, int(self._tail_began - self._began))
        starts = range(0, len(self._tail), PAGE_READS)
        return [RecordingPage(self._tail.part(start, start + PAGE_READS), seconds) for start in starts]

    def end(self) -> list[RecordingPage | EpochEnded]:
        """Ends the epoch. Returns its last pages and its end; nothing if it has no read."""
        return self._end(is_whole=False)

    def _end(self, *, is_whole: bool) -> list[RecordingPage | EpochEnded]:
        made: list[RecordingPage | EpochEnded] = []
        while self._sentinels is not None:
            made += self._add_all(*self._leave_sentinels(ReadTail(), array("I")), self._tail_began)
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
