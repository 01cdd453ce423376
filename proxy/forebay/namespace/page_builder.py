"""Builds a page of a listing from a snapshot and its overlay, by S3's rules.

    snapshot    a   b/1   b/2   c          behind the start, under the prefix, as many as the page has room for
    overlay             b/2:-      d       the known entries of keys that were written since
    page        a   b/         c   d       one common prefix for all keys that a delimiter ends

A page consists of slices of the snapshot's rows (protocol.xml.entry_rows): a single entry costs nothing, unless a
delimiter may end its key. If a page needs entries that the overlay lacks, their keys are returned instead of the page:
the caller looks them up (namespace.entry_lookup) and builds the page again.
"""

import asyncio
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from forebay.namespace.merged_block import KnownFacts, MergedBlock, merged_block
from forebay.namespace.snapshot import Snapshot, Unlisted
from forebay.policy.key_order import prefix_end
from forebay.protocol.listing_query import ListingQuery
from forebay.protocol.xml.entry_rows import EntryRun
from forebay.protocol.xml.listing_document import PageEntries

MAX_UNKNOWN: Final = 1000
"""Written keys that are learnt of for one page."""


@dataclass(frozen=True, slots=True)
class UnknownKeys:
    """The written keys whose entries the page needs and the overlay lacks, sorted."""

    keys: list[str]


@dataclass(slots=True)
class _Page:
    limit: int
    runs: list[EntryRun] = field(default_factory=list)
    entries: int = 0
    prefixes: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    is_truncated: bool = False

    @property
    def room(self) -> int:
        return self.limit - self.entries - len(self.prefixes)

    @property
    def is_ended(self) -> bool:
        return self.is_truncated or len(self.unknown) >= MAX_UNKNOWN

    def add(self, block: MergedBlock, first: int, stop: int) -> None:
        """Adds the entries from `first` to `stop`."""
        if stop > first:
            self.runs += block.runs(first, stop)
            self.entries += stop - first


async def build_page(
    snapshot: Snapshot, query: ListingQuery, limit: int, known: KnownFacts
) -> PageEntries | UnknownKeys | Unlisted:
    """Builds the page of `query` with at most `limit` names. `known`: the known entries of the overlay. Raises
    StorageError.
    """
    page = _Page(limit)
    if not limit:
        return PageEntries([], [], is_truncated=False)
    position, inclusive = _start(query)
    end = prefix_end(query.prefix)
    while position is not None and not page.is_ended:
        block = await merged_block(snapshot, position, end, known, inclusive=inclusive)
        if isinstance(block, Unlisted):
            return UnknownKeys(page.unknown) if page.unknown else block
        position, inclusive = block.end, False
        if not query.delimiter or not _may_roll(block.keys, query):
            _add_all(page, block)
        elif (skipped := _add_rolled(page, block, query)) is not None and position is not None and skipped > position:
            position, inclusive = skipped, True
        await asyncio.sleep(0)  # a block costs up to a millisecond
    if page.unknown:
        return UnknownKeys(page.unknown)
    return PageEntries(page.runs, page.prefixes, page.is_truncated)


def _start(query: ListingQuery) -> tuple[str | None, bool]:
    """Returns the first key of the page, and whether it is part of the page."""
    start = query.start
    if start.name < query.prefix:
        return query.prefix, True
    if start.kind == "prefix":
        return prefix_end(start.name), True
    return start.name, not start.name


def _may_roll(keys: Sequence[str], query: ListingQuery) -> bool:
    """Whether the delimiter may end some of these keys, which all begin with the query's prefix."""
    delimiter, joined = query.delimiter, "\0".join(keys)
    return len(delimiter) > 1 or joined.count(delimiter) > len(keys) * query.prefix.count(delimiter)


def _add_all(page: _Page, block: MergedBlock) -> None:
    room = page.room
    page.add(block, 0, min(room, len(block.keys)))
    page.is_truncated = len(block.keys) > room
    if block.unknown:
        page.unknown += [key for key in block.keys[: room + 1] if key in block.unknown]


def _add_rolled(page: _Page, block: MergedBlock, query: ListingQuery) -> str | None:
    """Adds entries and common prefixes. Returns where to go on if the last common prefix ends behind the block."""
    keys, delimiter, start = block.keys, query.delimiter, len(query.prefix)
    position = 0
    while position < len(keys):
        key = keys[position]
        found = key.find(delimiter, start)
        rolled = key[: found + len(delimiter)] if found >= 0 else None
        behind = prefix_end(rolled) if rolled is not None else None
        if rolled is not None and page.prefixes and page.prefixes[-1] == rolled:
            position = bisect_left(keys, behind, position) if behind is not None else len(keys)
            continue
        if key in block.unknown:
            page.unknown.append(key)
            position += 1
            if page.is_ended:
                return None
            continue
        if not page.room:
            page.is_truncated = True
            return None
        if rolled is None:
            begin, position = position, position + 1
            most = min(len(keys), begin + page.room)
            while position < most and keys[position].find(delimiter, start) < 0 and keys[position] not in block.unknown:
                position += 1
            page.add(block, begin, position)
            continue
        # Whether the written keys before this one exist makes no difference any more.
        page.unknown = [each for each in page.unknown if not each.startswith(rolled)]
        page.prefixes.append(rolled)
        if behind is None:
            return None
        position = bisect_left(keys, behind, position)
        if position == len(keys):
            return behind
    return None
