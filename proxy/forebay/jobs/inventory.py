"""The inventory of a job: the objects that it is about, listed once and read several times.

A job lists before it fetches, to know whether everything fits, and looks at each object again at its end. A bucket may
have tens of millions of objects, so pages are kept compressed: keys of one prefix shrink to a few bytes each.
"""

import json
import zlib
from collections.abc import Iterator
from typing import Final, NamedTuple

PAGE_OBJECTS: Final = 1000


class InventoryEntry(NamedTuple):
    """An object of the inventory."""

    key: str
    size: int | None
    """Bytes, as the origin's listing says; None: a key of a list, whose size is not known."""


class Inventory:
    """Objects in the order in which they were added."""

    def __init__(self) -> None:
        self._pages: list[bytes] = []
        self._last: list[InventoryEntry] = []

    def __len__(self) -> int:
        return len(self._pages) * PAGE_OBJECTS + len(self._last)

    def add(self, key: str, size: int | None = None) -> None:
        """Adds an object."""
        self._last.append(InventoryEntry(key, size))
        if len(self._last) == PAGE_OBJECTS:
            self._pages.append(zlib.compress(json.dumps(self._last).encode(), 1))
            self._last = []

    def pages(self) -> Iterator[list[InventoryEntry]]:
        """Yields all objects, at most PAGE_OBJECTS at a time."""
        for page in self._pages:
            yield [InventoryEntry(*entry) for entry in json.loads(zlib.decompress(page))]
        if self._last:
            yield list(self._last)
