"""The contract of a tier: what it guarantees, and what its caller does.

A tier keeps blocks and heads, and may lose any of them at any time. It never raises: a failure inside is a miss, an
event and a counter. The caller guarantees that

- a block is admitted whole, exactly `block_span(...)` long, and its buffer is not written to afterwards;
- a head is put only while no write to the object has been fenced since its facts were fetched (core.fences).

The tier guarantees that

- what it returns for a BlockId is what was admitted under that BlockId, byte for byte, or nothing;
- after `forget` (awaited where it is async) no process returns anything of the object, also after a crash.
"""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Occupancy:
    """How full a tier is."""

    capacity: int
    """Bytes it may keep."""
    used: int
    """Bytes it keeps, as counted against the capacity."""
    blocks: int
    heads: int


class Miss:
    """The result of a look-up: the tier does not have the block."""

    __slots__ = ()


class Busy:
    """The result of a look-up without waiting: the tier has the block, but the disk must be waited for."""

    __slots__ = ()


MISS: Final = Miss()
BUSY: Final = Busy()
