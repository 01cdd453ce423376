"""Distinct objects: how many there are in a stream of reads, and how large they are together, from a sample.

The sample keeps the `max_objects` objects with the lowest hashes (k minimum values: Bar-Yossef et al., "Counting
distinct elements in a data stream", RANDOM '02). If k of them lie below a hash of h, there are about k / h of them in
all; the standard error is 1 / sqrt(k). Their sizes are those of all objects, on average.
"""

from heapq import nsmallest
from typing import Final, NamedTuple

from forebay.policy.reuse_distance import HASH_BITS

MAX_OBJECTS: Final = 1024
"""The standard error is 3 %; up to so many objects are counted exactly."""


class ObjectEstimate(NamedTuple):
    """The estimated number of objects, and their bytes."""

    objects: int
    size: int


class DistinctSample:
    """The sample of one stream of reads."""

    def __init__(self, max_objects: int = MAX_OBJECTS) -> None:
        self._max_objects = max_objects
        self.sizes: dict[int, int] = {}
        """The sample: the size of each object, by its hash."""
        self.threshold = 1 << HASH_BITS
        """Objects whose hash is not below this are not in the sample; `record` need not be called for them."""

    def __len__(self) -> int:
        """The objects of the sample."""
        return len(self.sizes)

    def record(self, hashed: int, size: int) -> bool:
        """Records that an object of `size` bytes exists, by its hash. Returns whether that was news."""
        if hashed >= self.threshold or self.sizes.get(hashed) == size:
            return False
        self.sizes[hashed] = size
        if len(self.sizes) >= 2 * self._max_objects:
            kept = nsmallest(self._max_objects + 1, self.sizes)
            self.threshold = kept.pop()
            self.sizes = {each: self.sizes[each] for each in kept}
        return True

    def estimate(self) -> ObjectEstimate:
        """Returns the estimate for all objects that were recorded."""
        scale = (1 << HASH_BITS) / self.threshold
        return ObjectEstimate(round(len(self.sizes) * scale), round(sum(self.sizes.values()) * scale))
