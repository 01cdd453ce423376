"""The plan window: the entries of one plan around its reader, and where that reader is.

    base ─── read and unread ─── front ─── unread ─── next ─── not yet fetched ─── loaded
              stragglers of              fetched ahead           known, so that a reader that
              the loader's workers                               is faster is recognised

A loader's workers read a batch each: arrivals follow the plan within a window of some batches. So an entry is matched
by its key wherever it stands between base and loaded, and what is left unread behind the front stays for a while:
SPREAD entries, then it is given up. Where it is most of the lead, it is given up twice as far behind as its reader has
been seen to read: a small horizon holds less than the rest of each worker's batch. The base is behind every unread
entry.

A process that was killed does not say what was read in its last seconds. Were that taken for unread, it would fill the
horizon again, and the reads of the next epoch would count for it. So it is given up with the first reads ahead of it.

Pure: no clock, no input and output. The fetching and the reading side change it in turns.
"""

from collections.abc import Iterable, Sequence
from typing import Final, Literal, NamedTuple, TypeAlias

from forebay.core.byte_ranges import Span
from forebay.core.read_log import read_hash
from forebay.jobs.plans.plan_entries import PlanEntry

SPREAD: Final = 8192
"""Entries by which arrivals may differ from the plan: 16 workers with two batches of 256 each."""
NEAR: Final = 512
"""Entries behind the front that stay although they are most of the lead, until the reader is seen to read from further
behind: 16 workers with 32 each."""
MOST_AHEAD: Final = 2 * SPREAD
"""Entries that are fetched ahead of the front, however small: each takes half a KiB here."""
RESUMED_READS: Final = 32
"""Reads of a plan that another process began; after so many the unread entries before all of them are given up."""
LOAD_SIZE: Final = 256
"""Entries that are loaded at once."""

EntryState: TypeAlias = Literal["pending", "fetching", "cached"]


class PlanStart(NamedTuple):
    """The position of the reader when its plan begins."""

    position: int = 0
    """The first entry that may be unread."""
    front: int = 0
    """The entry behind the furthest that was read."""
    read: frozenset[int] = frozenset()
    """The hashes (core.read_log.read_hash) of the entries that were read between position and front."""
    unread: frozenset[int] | None = None
    """The numbers of those that were not, where they are known: then `read` has nothing to say."""


class WindowEntry:
    """An entry that was not read yet."""

    __slots__ = (
        "attempts",
        "expected",
        "fetched",
        "is_given_up",
        "is_read",
        "key",
        "number",
        "size",
        "start",
        "state",
        "stop",
        "tickets",
    )

    def __init__(self, number: int, entry: PlanEntry) -> None:
        self.number = number
        self.key, self.start, self.stop = entry
        self.state: EntryState = "pending"
        self.size = 0
        """Bytes of the entry that are cached."""
        self.expected = 0
        """The size that the entry counts with until its own is known."""
        self.fetched = 0
        """Bytes of blocks that were fetched for it, until they are dropped."""
        self.tickets: list[int] = []
        self.attempts = 0
        """The number of fetches that failed and may succeed later."""
        self.is_read = False
        self.is_given_up = False

    def overlaps(self, span: Span) -> bool:
        """Whether a read of `span` reads some of it."""
        return self.start < span.stop and (self.stop is None or span.start < self.stop)

    @property
    def counted(self) -> int:
        """Bytes that it counts against the horizon."""
        return max(self.size, self.expected)


class PlanWindow:
    """The window of a plan of `count` entries, whose reader is at `start`."""

    def __init__(self, count: int, start: PlanStart) -> None:
        self.count = count
        self.base = self.next = self.loaded = min(start.position, count)
        self.front = max(self.base, min(start.front, count))
        self._read = range(self.base, self.front), start.read, start.unread
        """The numbers, and within them the hashes, of the entries that were read before the plan began; or the numbers
        of the others."""
        self._resumed_reads = 0 if start.unread is not None else RESUMED_READS
        self._rearmost = count
        """The first entry of those reads."""
        self._near = NEAR
        """The number of entries behind the front that are likely to be read yet."""
        self.lead = 0
        """Bytes that are cached or being fetched, and not read."""
        self._entries: dict[int, WindowEntry] = {}
        self._by_key: dict[str, list[WindowEntry]] = {}

    def __repr__(self) -> str:
        return f"<PlanWindow {self.base} <= {self.front}, {self.next} <= {self.loaded} of {self.count}>"

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def lead_entries(self) -> int:
        """The number of entries that are cached or being fetched, and not read."""
        return len(self.fetched)

    @property
    def first_key(self) -> str | None:
        """A key of the window; None: it is empty."""
        return next(iter(self._by_key), None)

    @property
    def is_read(self) -> bool:
        """Whether every entry was read or given up."""
        return self.base >= self.count

    def position(self) -> PlanStart:
        """Returns the position of the reader, as a later window begins with it."""
        _, _, known = self._read
        unread = {number for number in range(self.base, self.front) if number in self._entries}
        unread.update(number for number in known or () if self.loaded <= number)
        return PlanStart(self.base, self.front, unread=frozenset(unread))

    # Loading

    def missing(self) -> range:
        """The next entries to load; empty when the window has enough."""
        until = min(self.count, max(self.front, self.next) + SPREAD)
        return range(self.loaded, min(until, self.loaded + LOAD_SIZE))

    def load(self, entries: Sequence[PlanEntry]) -> None:
        """Adds the entries from `loaded` on, without the entries that were read before."""
        numbers, read, unread = self._read
        for entry in entries:
            if self.loaded not in numbers:
                is_read = False
            elif unread is not None:
                is_read = self.loaded not in unread
            else:
                is_read = read_hash(entry.key, entry.start) in read
            if not is_read:
                found = self._entries[self.loaded] = WindowEntry(self.loaded, entry)
                self._by_key.setdefault(found.key, []).append(found)
            self.loaded += 1
        self._advance()

    # Reading

    def match(self, key: str, span: Span) -> list[WindowEntry]:
        """Marks the entries that a read of `span` reads, and returns them: of several with the same range the first."""
        candidates = self._by_key.get(key)
        if candidates is None:
            return []
        found = [entry for entry in candidates if entry.overlaps(span)]
        if len(found) > 1:
            firsts: dict[tuple[int, int | None], WindowEntry] = {}
            for entry in found:
                firsts.setdefault((entry.start, entry.stop), entry)
            found = list(firsts.values())
        for entry in found:
            entry.is_read = True
            self.front = max(self.front, entry.number + 1)
            self._near = max(self._near, 2 * (self.front - entry.number))
            if self._resumed_reads < RESUMED_READS:
                self._resumed_reads += 1
                self._rearmost = min(self._rearmost, entry.number)
            self._remove(entry)
        return found

    def give_up_before(self, number: int) -> list[WindowEntry]:
        """Gives up the unread entries before `number`, and returns them."""
        found = [self._entries[each] for each in range(self.base, min(number, self.loaded)) if each in self._entries]
        for entry in found:
            entry.is_given_up = True
            self._remove(entry)
        if number > self.loaded:
            self.loaded = min(number, self.count)
        self.next = max(self.next, min(number, self.count))
        self.front = max(self.front, min(number, self.count))
        self._advance()
        return found

    @property
    def fetched(self) -> list[WindowEntry]:
        """The entries that are here or being fetched."""
        return [entry for entry in self._entries.values() if entry.state != "pending"]

    def give_up(self, entries: Iterable[WindowEntry]) -> list[WindowEntry]:
        """Gives up those of some entries that are unread, and returns them."""
        found = [entry for entry in entries if self._entries.get(entry.number) is entry]
        for entry in found:
            entry.is_given_up = True
            self._remove(entry)
        return found

    def give_up_stragglers(self, most: int) -> list[WindowEntry]:
        """Gives up unread entries far behind the front: beyond `most` bytes of the lead there, beyond SPREAD entries,
        or from before the plan was resumed."""
        until = self.front - SPREAD
        if self._resumed_reads == RESUMED_READS and self._rearmost < self.count:
            until, self._rearmost = max(until, self._rearmost), self.count
        found = self.give_up_before(until) if until > self.base else []
        if self.front - self._near <= self.base or self.lead <= most:
            return found
        behind = [self._entries[each] for each in range(self.base, self.front) if each in self._entries]
        excess = sum(entry.counted for entry in behind) - most
        for entry in behind:
            if excess <= 0 or entry.number >= self.front - self._near:
                break
            if entry.state != "pending":
                excess -= entry.counted
                entry.is_given_up = True
                found.append(entry)
                self._remove(entry)
        return found

    # Fetching

    def next_pending(self) -> WindowEntry | None:
        """The next entry to be fetched, or None: there is none, it is not loaded yet, or MOST_AHEAD are ahead."""
        while self.next < min(self.loaded, self.front + MOST_AHEAD):
            entry = self._entries.get(self.next)
            if entry is not None and entry.state == "pending":
                return entry
            self.next += 1
        return None

    def begin(self, entry: WindowEntry, expected: int) -> None:
        """An entry is being fetched, and counts `expected` bytes until it is known how many it has."""
        entry.state = "fetching"
        self._change(entry, expected=expected)
        self.next = max(self.next, entry.number + 1)

    def note_cached(self, entry: WindowEntry, size: int) -> None:
        """All `size` bytes of the next pending entry are cached: it needs no fetch."""
        entry.state, entry.size = "cached", size
        self.lead += size
        self.next = max(self.next, entry.number + 1)

    def arrive(self, entry: WindowEntry, size: int) -> None:
        """More of an entry is here."""
        self._change(entry, size=entry.size + size)

    def settle(self, entry: WindowEntry) -> None:
        """An entry's fetch has ended, with or without success."""
        entry.state = "cached"
        self._change(entry, expected=0)

    def put_back(self, entry: WindowEntry) -> None:
        """There was no room for an entry: it is fetched later."""
        self.settle(entry)
        if entry.number in self._entries:
            entry.state = "pending"
            self.next = min(self.next, entry.number)

    def rewind(self) -> list[WindowEntry]:
        """Returns the entries that are here; they are to be fetched again when the reader comes back."""
        found = [entry for entry in self._entries.values() if entry.state == "cached"]
        for entry in found:
            self._change(entry, size=0)
            entry.state = "pending"
        self.next = self.base
        return found

    def _change(self, entry: WindowEntry, size: int | None = None, expected: int | None = None) -> None:
        before = entry.counted
        entry.size = entry.size if size is None else size
        entry.expected = entry.expected if expected is None else expected
        if entry.number in self._entries:
            self.lead += entry.counted - before

    def _remove(self, entry: WindowEntry) -> None:
        if self._entries.pop(entry.number, None) is None:
            return
        self.lead -= entry.counted
        mates = self._by_key[entry.key]
        mates.remove(entry)
        if not mates:
            del self._by_key[entry.key]
        self._advance()

    def _advance(self) -> None:
        if not self._entries:  # a plan that is given up, or whose reader is far ahead, may have millions before it
            self.base = self.loaded
        while self.base < self.loaded and self.base not in self._entries:
            self.base += 1


def tickets_of(entries: Iterable[WindowEntry]) -> list[int]:
    """The tickets of entries, each to be given back once."""
    found = []
    for entry in entries:
        found += entry.tickets
        entry.tickets = []
    return found
