"""Pending names: the names of the pending objects in the order of buckets and keys.

    chunks   [a b d] [e f] [k l z]      a name goes to the last chunk that begins before it; a full one is halved
    firsts    a       e     k

A list in one piece would be moved for each name that comes: 15 us among 100,000, and ten times that among a million.
The order of str is that of the UTF-8 bytes, as listings have it.
"""

import bisect
from collections.abc import Iterator
from typing import Final

from forebay.core.names import ObjectName

MOST: Final = 1024
"""Names of a chunk."""


class PendingNames:
    """Names, each once."""

    def __init__(self) -> None:
        self._chunks: list[list[ObjectName]] = []
        """The chunks of the sorted names, none of which is empty."""
        self._firsts: list[ObjectName] = []

    def add(self, name: ObjectName) -> None:
        """Adds a name that is not here."""
        if not self._chunks:
            self._chunks.append([name])
            self._firsts.append(name)
            return
        at = self._chunk_of(name)
        chunk = self._chunks[at]
        bisect.insort(chunk, name)
        self._firsts[at] = chunk[0]
        if len(chunk) > MOST:
            self._chunks.insert(at + 1, chunk[MOST // 2 :])
            self._firsts.insert(at + 1, chunk[MOST // 2])
            del chunk[MOST // 2 :]

    def remove(self, name: ObjectName) -> None:
        """Removes a name that is here."""
        at = self._chunk_of(name)
        chunk = self._chunks[at]
        del chunk[bisect.bisect_left(chunk, name)]
        if chunk:
            self._firsts[at] = chunk[0]
        else:
            del self._chunks[at], self._firsts[at]

    def behind(self, name: ObjectName) -> Iterator[ObjectName]:
        """Yields the names behind one, which need not be here. Nothing may be added or removed meanwhile."""
        if not self._chunks:
            return
        at = self._chunk_of(name)
        first = self._chunks[at]
        yield from first[bisect.bisect_right(first, name) :]
        for chunk in self._chunks[at + 1 :]:
            yield from chunk

    def _chunk_of(self, name: ObjectName) -> int:
        return max(bisect.bisect_right(self._firsts, name) - 1, 0)
