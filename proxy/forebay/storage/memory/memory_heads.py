"""The heads that one memory tier keeps, in LRU order, and the bytes that each is counted as.

    kept     ┌ hA ┬ hC ┬ hF ┬ hB ┐     in LRU order
    transient     └ hC ┴ hF ┘          those of pools with a stable share, without a block in the tier

A transient head saves little: the blocks of its object are on the SSD, like the head itself, or in no tier. If a set is
read once an epoch, each of its objects has such a head, and together they would take space from the share. So the tier
drops them first, beyond a window (`transient_window`).

Only the book-keeping is here: the tier decides what is evicted, and counts what its heads and blocks take together.

Invariants: `used` is the sum of what each head was counted as, `transient_used` of the transient ones.
"""

from collections import OrderedDict
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from forebay.core.heads import Head, HeaderPairs
from forebay.core.names import ObjectName

# What a head costs beside its texts: its objects and its entries. Measured with tracemalloc, as the overhead of a block
# is: tests/storage/memory/test_memory_tier.py.
HEAD_OVERHEAD: Final = 1300
PAIR_OVERHEAD: Final = 130
TRANSIENT_SHARE: Final = 128
"""One in so many bytes of the tier is for transient heads."""
MIN_TRANSIENT: Final = 64 * 1024
"""Bytes for them in a small tier, as far as it has four times as many."""


def head_texts(name: ObjectName, head: Head) -> int:
    """Returns the bytes that the texts of a head take."""
    facts = head.facts
    texts = len(name.bucket) + len(name.key) + len(facts.version.etag) + len(facts.last_modified)
    return texts + _header_texts(facts.headers)


@lru_cache(maxsize=256)  # many objects have the same ones
def _header_texts(headers: HeaderPairs) -> int:
    return sum([len(name) + len(value) + PAIR_OVERHEAD for name, value in headers])


def transient_window(capacity: int) -> int:
    """Returns how many bytes of a tier of `capacity` transient heads may take."""
    return max(capacity // TRANSIENT_SHARE, min(MIN_TRANSIENT, capacity // 4))


@dataclass(slots=True)
class _KeptHead:
    head: Head
    cost: int
    """Bytes of the head and its attachments."""


class MemoryHeads:
    """The heads of one tier."""

    def __init__(self) -> None:
        self._kept: OrderedDict[ObjectName, _KeptHead] = OrderedDict()
        self._transient: OrderedDict[ObjectName, None] = OrderedDict()
        """The least recently used first."""
        self.used = 0
        self.transient_used = 0

    def __len__(self) -> int:
        return len(self._kept)

    def __contains__(self, name: ObjectName) -> bool:
        return name in self._kept

    def get(self, name: ObjectName) -> Head | None:
        """Returns the head of an object and marks it as used, or None."""
        found = self._kept.get(name)
        if found is None:
            return None
        self._kept.move_to_end(name)
        if name in self._transient:
            self._transient.move_to_end(name)
        return found.head

    def peek(self, name: ObjectName) -> Head | None:
        """Returns the head of an object, or None. Not a use."""
        found = self._kept.get(name)
        return None if found is None else found.head

    def mark_used(self, name: ObjectName) -> None:
        """Marks a head that is kept as used."""
        self._kept.move_to_end(name)

    def put(self, name: ObjectName, head: Head, cost: int) -> None:
        """Keeps the head of an object that has none here. `cost`: its `head_cost`."""
        self._kept[name] = _KeptHead(head, cost)
        self.used += cost

    def count(self, name: ObjectName, size: int) -> None:
        """Counts `size` bytes more (or fewer) for a head."""
        self._kept[name].cost += size
        self.used += size
        if name in self._transient:
            self.transient_used += size

    def drop(self, name: ObjectName) -> int:
        """Drops a kept head. Returns the bytes of its charge."""
        self.clear_transient(name)
        cost = self._kept.pop(name).cost
        self.used -= cost
        return cost

    def oldest(self) -> ObjectName:
        """Returns the least recently used one."""
        return next(iter(self._kept))

    # Transient heads

    def mark_transient(self, name: ObjectName) -> None:
        """Makes a head that is kept a transient one."""
        if name not in self._transient:
            self._transient[name] = None
            self.transient_used += self._kept[name].cost

    def clear_transient(self, name: ObjectName) -> None:
        """Makes a head a lasting one again, if it is transient."""
        if name in self._transient:
            del self._transient[name]
            self.transient_used -= self._kept[name].cost

    def transient_excess(self, capacity: int) -> int:
        """Returns the bytes of transient heads beyond their window in a tier of `capacity`."""
        return max(0, self.transient_used - transient_window(capacity)) if self._transient else 0

    def oldest_transient(self) -> ObjectName:
        """Returns the transient head that is evicted next."""
        return next(iter(self._transient))


def head_cost(name: ObjectName, head: Head) -> int:
    """Returns the charge of a head, in bytes, without its attachments."""
    return HEAD_OVERHEAD + head_texts(name, head)
