"""Builds a page of a listing from a snapshot and its overlay, by S3's rules.

    snapshot    a   b/1   b/2   c          behind the start, under the prefix, as many as the page has room for
    overlay             b/2:-      d       what is known of keys that were written since
    page        a   b/         c   d       one common prefix for all keys that a delimiter ends

Keys of the overlay of which nothing is known are returned instead of a page: the caller learns of them
(namespace.entry_lookup) and builds again.
"""

import asyncio
from bisect import bisect_left, bisect_right
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Protocol

from forebay.namespace.snapshot import Snapshot, Unlisted
from forebay.policy.key_order import prefix_end
from forebay.protocol.listing_query import ListingQuery
from forebay.protocol.xml.listing_document import PageEntries

MAX_UNKNOWN: Final = 1000
"""Written keys that are learnt of for one page."""


class KnownFacts(Protocol):
    """What is known of keys of the overlay (namespace.entry_lookup)."""

    def __contains__(self, key: str) -> bool: ...

    def facts(self, key: str) -> str | None:
        """The entry's XML of a known key; None: there is no object."""


@dataclass(frozen=True, slots=True)
class UnknownKeys:
    """Written keys that the page depends on, and of which nothing is known. In order."""

    keys: list[str]


@dataclass(slots=True)
class _MergedBlock:
    """Entries of a block from a point on, with the overlay laid over them."""

    keys: list[str]
    facts: Callable[[], list[str]]
    unknown: frozenset[str]
    end: str | None
    """The last key that it accounts for; None: it accounts for all that are left."""


@dataclass(slots=True)
class _Page:
    limit: int
    keys: list[str] = field(default_factory=list)
    facts: list[str] = field(default_factory=list)
    prefixes: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    is_truncated: bool = False

    @property
    def room(self) -> int:
        return self.limit - len(self.keys) - len(self.prefixes)

    @property
    def is_ended(self) -> bool:
        return self.is_truncated or len(self.unknown) >= MAX_UNKNOWN


async def build_page(
    snapshot: Snapshot, query: ListingQuery, limit: int, known: KnownFacts
) -> PageEntries | UnknownKeys | Unlisted:
    """The page of `query` with at most `limit` names. `known`: of all keys of the overlay of which something is known.

    Raises StorageError.
    """
    page = _Page(limit)
    if not limit:
        return PageEntries([], [], [], is_truncated=False)
    position, inclusive = _start(query)
    end = prefix_end(query.prefix)
    while position is not None and not page.is_ended:
        block = await _merged(snapshot, position, end, known, inclusive=inclusive)
        if isinstance(block, Unlisted):
            return UnknownKeys(page.unknown) if page.unknown else block
        position, inclusive = block.end, False
        if not query.delimiter:
            _add_all(page, block)
        elif (skipped := _add_rolled(page, block, query)) is not None and position is not None and skipped > position:
            position, inclusive = skipped, True
        await asyncio.sleep(0)  # a block costs a millisecond
    if page.unknown:
        return UnknownKeys(page.unknown)
    return PageEntries(page.keys, page.facts, page.prefixes, page.is_truncated)


def _start(query: ListingQuery) -> tuple[str | None, bool]:
    """Where the page begins, and whether the key there is part of it."""
    start = query.start
    if start.name < query.prefix:
        return query.prefix, True
    if start.kind == "prefix":
        return prefix_end(start.name), True
    return start.name, not start.name


async def _merged(
    snapshot: Snapshot, position: str, end: str | None, known: KnownFacts, *, inclusive: bool
) -> _MergedBlock | Unlisted:
    """The entries behind `position` that one block has, before `end`."""
    block = await snapshot.block_behind(position, inclusive=inclusive)
    if isinstance(block, Unlisted):
        return block if end is None or block.position < end else _MergedBlock([], list, frozenset(), None)
    if block is None:
        first, keys, stop = 0, [], None
    else:
        first = (bisect_left if inclusive else bisect_right)(block.keys, position)
        last = len(block.keys) if end is None else bisect_left(block.keys, end, first)
        keys, stop = block.keys[first:last], block.keys[-1] if last == len(block.keys) else None
    written = snapshot.overlay.between(position, stop if stop is not None else end, inclusive=inclusive)
    if stop is None and end is not None:
        written = written[: bisect_left(written, end)]

    def plain() -> list[str]:
        return block.facts[first : first + len(keys)] if block is not None else []

    if not written:
        return _MergedBlock(keys, plain, frozenset(), stop)
    hidden = set(written)
    unknown = frozenset(key for key in written if key not in known)
    present = dict.fromkeys(unknown, "")
    present |= {key: facts for key in written if key not in unknown and (facts := known.facts(key)) is not None}
    merged = sorted([*(key for key in keys if key not in hidden), *present])

    def laid_over() -> list[str]:
        listed = dict(zip(keys, plain(), strict=True)) | present
        return [listed[key] for key in merged]

    return _MergedBlock(merged, laid_over, unknown, stop)


def _add_all(page: _Page, block: _MergedBlock) -> None:
    room = page.room
    keys = block.keys[:room]
    if keys:
        page.facts += block.facts()[:room]
        page.keys += keys
    page.is_truncated = len(block.keys) > room
    if block.unknown:
        page.unknown += [key for key in block.keys[: room + 1] if key in block.unknown]


def _add_rolled(page: _Page, block: _MergedBlock, query: ListingQuery) -> str | None:
    """Adds entries and common prefixes. Returns where to go on if the last common prefix ends behind the block."""
    keys, delimiter, start = block.keys, query.delimiter, len(query.prefix)
    position, facts = 0, None
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
            facts = block.facts() if facts is None else facts
            page.keys.append(key)
            page.facts.append(facts[position])
            position += 1
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
