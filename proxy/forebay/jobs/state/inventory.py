"""The inventory of a job: its objects, listed once and read several times.

A job lists before it fetches, to know whether everything fits, looks at each object again at its end, and goes on where
it was after a restart. A bucket may have tens of millions of objects, so pages are kept compressed: keys of one prefix
shrink to a few bytes each. A page is a JSON array of entries, `[bucket, key, size, start, stop]`.
"""

import json
import zlib
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Final, NamedTuple, Self

from forebay.core.byte_ranges import Span
from forebay.core.names import ObjectName

PAGE_OBJECTS: Final = 1000


class InventoryEntry(NamedTuple):
    """An object of the inventory, or a range of one."""

    bucket: str
    key: str
    size: int | None = None
    """Bytes, as the origin's listing says; None: of a list, where it is not known."""
    start: int = 0
    """The first byte that is wanted."""
    stop: int | None = None
    """The end of the wanted bytes, exclusive; None: that of the object."""

    @property
    def name(self) -> ObjectName:
        """The object's name."""
        return ObjectName(self.bucket, self.key)

    def span(self, size: int) -> Span:
        """The wanted bytes of an object of `size` bytes."""
        return Span(self.start, size if self.stop is None else self.stop).clip(Span(0, size))

    @property
    def wanted(self) -> int | None:
        """Wanted bytes; None: not known."""
        return None if self.size is None else self.span(self.size).length


class Inventory:
    """Entries in the order in which they were added."""

    def __init__(self) -> None:
        self._pages: list[bytes] = []
        self._last: list[InventoryEntry] = []
        self.known_bytes = 0
        """Wanted bytes of the entries whose size is known."""
        self.buckets: set[str] = set()

    def __len__(self) -> int:
        return len(self._pages) * PAGE_OBJECTS + len(self._last)

    def add(self, entry: InventoryEntry) -> None:
        """Adds an entry."""
        self._last.append(entry)
        self.known_bytes += entry.wanted or 0
        self.buckets.add(entry.bucket)
        if len(self._last) == PAGE_OBJECTS:
            self._pages.append(_compressed(self._last))
            self._last = []

    def pages(self, start: int = 0) -> Iterator[list[InventoryEntry]]:
        """Yields the entries from number `start` on, at most PAGE_OBJECTS at a time."""
        first, skipped = divmod(start, PAGE_OBJECTS)
        for page in self._pages[first:]:
            yield _decompressed(page)[skipped:]
            skipped = 0
        if self._last[skipped:]:
            yield self._last[skipped:]

    def compressed_pages(self) -> list[bytes]:
        """All pages, for a file; the last may be short."""
        return [*self._pages, _compressed(self._last)] if self._last else list(self._pages)

    @classmethod
    def of_compressed(cls, pages: Iterable[bytes]) -> Self:
        """The inventory that has these pages. Raises ValueError, zlib.error, TypeError for others."""
        inventory = cls()
        for page in pages:
            for entry in _decompressed(page):
                inventory.add(entry)
        return inventory

    @classmethod
    def joined(cls, parts: Sequence["Inventory"]) -> "Inventory":
        """The entries of all parts. A single part is returned as it is."""
        if len(parts) == 1:
            return parts[0]
        joined = cls()
        for part in parts:
            for page in part.pages():
                for entry in page:
                    joined.add(entry)
        return joined

    def truncate(self, length: int) -> None:
        """Drops all entries but the first `length`."""
        if length < len(self):
            kept = list(islice((entry for page in self.pages() for entry in page), length))
            self._pages, self._last, self.known_bytes, self.buckets = [], [], 0, set()
            for entry in kept:
                self.add(entry)


def _compressed(entries: list[InventoryEntry]) -> bytes:
    return zlib.compress(json.dumps(entries).encode(), 1)


def _decompressed(page: bytes) -> list[InventoryEntry]:
    return [InventoryEntry(*entry) for entry in json.loads(zlib.decompress(page))]
