"""A snapshot of a namespace: its entries in ranges of keys, some of which may not be listed yet.

    namespace   (low, high] (low, high] (low, high] ...     every key is in one range
    a range     blocks, up to its frontier ─ a page that is being written ─ not listed yet ─ high

Ranges are split while they are listed (namespace.snapshot_walk). A reader that reaches a frontier gets Unlisted. So a
page can be answered before the whole namespace is listed, but never from a part with a gap.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Awaitable
from dataclasses import dataclass, field

from forebay.core.fences import Tick
from forebay.namespace.snapshot_file import BlockAddress, SnapshotFile
from forebay.namespace.write_overlay import WriteOverlay
from forebay.protocol.xml.entry_rows import EntryRows
from forebay.protocol.xml.listed_page import ListedEntries, ListingForm


@dataclass(frozen=True, slots=True)
class Unlisted:
    """The walk has not listed these keys yet."""

    position: str
    """The key behind which it has to go on."""


@dataclass(slots=True, eq=False)
class KeyRange:
    """The keys behind `low`, up to and including `high`; None: to the end of the namespace."""

    low: str
    high: str | None
    arrived: str
    """The last key of the pages that have come, one of which may still be written; `low` at first. The range is split
    behind it alone, so no key counts twice."""
    is_listed: bool = False
    """Whether it is listed as a whole."""
    blocks: list[BlockAddress] = field(default_factory=list)
    last_keys: list[str] = field(default_factory=list)
    """The last key of each block."""

    @property
    def frontier(self) -> str:
        """Readers find the keys up to this one; `low` at first."""
        return self.last_keys[-1] if self.last_keys else self.low


@dataclass(slots=True, eq=False)
class Snapshot:
    """See the module. `prefix`: of all its keys."""

    bucket: str
    prefix: str
    file: SnapshotFile
    form: ListingForm
    started_at: float
    """Seconds since the epoch, before its first request."""
    since: Tick
    """The fence tick of that moment."""
    overlay: WriteOverlay = field(default_factory=WriteOverlay)
    ranges: list[KeyRange] = field(default_factory=lambda: [KeyRange("", None, "")])
    lows: list[str] = field(default_factory=lambda: [""])
    keys: int = 0
    """Entries that are listed."""
    echoed_max_keys: str | None = None
    """The max-keys that the origin repeats for one above its limit; None: the number itself."""
    is_complete: bool = False

    def range_of(self, key: str, *, inclusive: bool) -> KeyRange:
        """The range that `key` is in if `inclusive`, else the one with the keys right behind it."""
        return self.ranges[max(0, (bisect_left if inclusive else bisect_right)(self.lows, key) - 1)]

    def split(self, whole: KeyRange, key: str) -> KeyRange:
        """Cuts a range at `key`, behind its received part. Returns the new range behind the cut."""
        behind = KeyRange(key, whole.high, key)
        whole.high = key
        position = bisect_left(self.lows, behind.low)
        self.ranges.insert(position, behind)
        insort(self.lows, behind.low)
        return behind

    def add(self, listed: KeyRange, page: ListedEntries) -> Awaitable[None]:
        """Adds a page of the origin that was requested behind the range's frontier. The page can be read once the
        result was awaited, which keeps no reference to the page. The range may be split meanwhile, behind this page.
        Raises StorageError.
        """
        count = len(page.keys) if listed.high is None else bisect_right(page.keys, listed.high)
        writing = None
        if count:
            writing = self.file.append(page.keys[:count], page.facts[:count], self.form.encoding)
            listed.arrived = page.keys[count - 1]
        end = page.keys[-1] if page.is_truncated else None
        return self._add(listed, count, listed.arrived, writing, end)

    async def _add(
        self, listed: KeyRange, count: int, last: str, writing: Awaitable[BlockAddress] | None, end: str | None
    ) -> None:
        if writing is not None:
            listed.blocks.append(await writing)
            listed.last_keys.append(last)
            self.keys += count
        if end is None or (listed.high is not None and end >= listed.high):
            listed.is_listed = True

    async def block_behind(self, key: str, *, inclusive: bool) -> EntryRows | Unlisted | None:
        """The block with the first entry behind `key`, or at it if `inclusive`; None: there is none. Raises
        StorageError."""
        bisect = bisect_left if inclusive else bisect_right
        position = max(0, bisect(self.lows, key) - 1)
        while position < len(self.ranges):
            found = self.ranges[position]
            number = bisect(found.last_keys, key)
            if number < len(found.blocks):
                return await self.file.read(found.blocks[number])
            if not found.is_listed:
                return Unlisted(max(key, found.frontier))
            position += 1
        return None
