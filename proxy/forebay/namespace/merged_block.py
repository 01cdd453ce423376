"""A merged block: the next entries of a page, from a block of the snapshot with the overlay laid over it.

block       a       c  d  e         slices of these rows
overlay        b       -            rows of their own, where the origin has said what they are; - is gone
merged      a   b   c  e            segments: block[0:1], written[0:1], block[1:2], block[3:4]
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from forebay.namespace.snapshot import Snapshot, Unlisted
from forebay.protocol.xml.entry_rows import EntryRows, EntryRun
from forebay.protocol.xml.listed_page import KeyEncoding

_NOTHING: Final = EntryRows.written((), (), KeyEncoding())


class KnownFacts(Protocol):
    """The known facts of keys of the overlay (namespace.entry_lookup)."""

    def __contains__(self, key: str) -> bool: ...

    def facts(self, key: str) -> str | None:
        """The entry's XML of a known key; None: there is no object."""


@dataclass(frozen=True, slots=True)
class MergedBlock:
    """The entries of a block from a point on. `unknown`: the keys whose entries have to be looked up."""

    keys: Sequence[str]
    segments: Sequence[EntryRun]
    """The runs that the entries are in, in order."""
    unknown: frozenset[str]
    end: str | None
    """The last key that it accounts for; None: it accounts for all that are left."""

    def runs(self, first: int, stop: int) -> Iterator[EntryRun]:
        """The entries from `first` to `stop`."""
        for rows, begin, end in self.segments:
            length = end - begin
            if first < length and stop > 0:
                yield EntryRun(rows, begin + max(0, first), begin + min(stop, length))
            first, stop = first - length, stop - length


async def merged_block(
    snapshot: Snapshot, position: str, end: str | None, known: KnownFacts, *, inclusive: bool
) -> MergedBlock | Unlisted:
    """The entries behind `position`, or at it if `inclusive`, that one block has, before `end`. Raises StorageError."""
    block = await snapshot.block_behind(position, inclusive=inclusive)
    if isinstance(block, Unlisted) and (end is None or block.position < end):
        return block
    listed, stop = EntryRun(_NOTHING, 0, 0), None
    if isinstance(block, EntryRows):
        first = (bisect_left if inclusive else bisect_right)(block.keys, position)
        last = len(block.keys) if end is None else bisect_left(block.keys, end, first)
        listed, stop = EntryRun(block, first, last), block.keys[-1] if last == len(block.keys) else None
    written = snapshot.overlay.between(position, stop if stop is not None else end, inclusive=inclusive)
    if stop is None and end is not None:
        written = written[: bisect_left(written, end)]
    if not written:
        return MergedBlock(listed.keys, (listed,), frozenset(), stop)
    return _laid_over(listed, written, known, snapshot.form.encoding, stop)


def _laid_over(
    listed: EntryRun, written: Sequence[str], known: KnownFacts, encoding: KeyEncoding, end: str | None
) -> MergedBlock:
    unknown = frozenset(key for key in written if key not in known)
    present = dict.fromkeys(unknown, "")
    present |= {key: facts for key in written if key not in unknown and (facts := known.facts(key)) is not None}
    rows = EntryRows.written(sorted(present), [present[key] for key in sorted(present)], encoding)
    segments, laid, position = [], 0, listed.first
    for key in written:
        at = bisect_left(listed.rows.keys, key, position, listed.stop)
        segments.append(EntryRun(listed.rows, position, at))
        position = at + (at < listed.stop and listed.rows.keys[at] == key)
        if key in present:
            segments.append(EntryRun(rows, laid, laid + 1))
            laid += 1
    segments.append(EntryRun(listed.rows, position, listed.stop))
    segments = [each for each in segments if each.stop > each.first]
    keys = [key for run in segments for key in run.keys]
    return MergedBlock(keys, segments, unknown, end)
