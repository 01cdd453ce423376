"""The contract of a tier: the duties of its caller, and the tier's guarantees.

A tier keeps blocks and heads, and may lose any of them at any time. It never raises: a failure inside is a miss, an
event and a counter. The caller guarantees that

- a block is admitted whole, exactly `block_span(...)` long, and its buffer is not written to afterwards;
- a head is put only while no write to the object has been fenced since its facts were fetched (core.fences).

The tier guarantees that

- a look-up of a BlockId returns the bytes admitted under that BlockId, or nothing;
- after `forget` (awaited where it is async) no process returns anything of the object, also after a crash.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias


@dataclass(frozen=True, slots=True)
class Occupancy:
    """The occupancy of a tier."""

    capacity: int
    """Bytes it may keep."""
    used: int
    """Bytes it keeps, as counted against the capacity."""
    blocks: int
    heads: int


EvictionReason: TypeAlias = Literal["capacity", "resize"]
"""A block made room for another one, or the tier shrank."""


class BlockCounts:
    """The blocks that a tier has admitted and evicted since its last `reset`. Plain numbers that the metrics collect: a
    miss of a small object changes two of them, for which events would take longer than the rest of its admission."""

    __slots__ = ("admitted", "admitted_bytes", "evicted", "evicted_bytes")

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Counts from zero. References to this stay in use."""
        self.admitted = self.admitted_bytes = 0
        self.evicted: dict[EvictionReason, int] = {"capacity": 0, "resize": 0}
        self.evicted_bytes: dict[EvictionReason, int] = {"capacity": 0, "resize": 0}

    def evict(self, sizes: Sequence[int], reason: EvictionReason) -> None:
        """Counts evicted blocks. `sizes`: of each, in bytes."""
        self.evicted[reason] += len(sizes)
        self.evicted_bytes[reason] += sum(sizes)


class Miss:
    """The result of a look-up: the tier does not have the block."""

    __slots__ = ()


class Busy:
    """The result of a look-up without waiting: the tier has the block, but the disk must be waited for."""

    __slots__ = ()


MISS: Final = Miss()
BUSY: Final = Busy()
