"""The stable share: which blocks of a set stay in a tier that is smaller than the set.

A set that is read once an epoch, each time in another order, is hit at most by the share of it that the tier holds, and
by exactly that if the same blocks stay. So each block has a priority, a hash of its address, and the blocks with the
lowest ones stay:

    0 ................................... threshold ........... 2^64        priorities
    └─ bands, from the last to the first ─┘│marginal│ not admitted

Priorities are cut into bands, 2^fineness for each halving. The band just below the threshold is the marginal one:

    below it     admitted always; if there is no space, the marginal band gives way, and the threshold falls by it
    marginal     admitted while there is space, and is what makes the share fill the tier exactly
    above        not admitted. After some refusals in a row all that is below must be there: if there still is space,
                 the threshold rises, by as many bands as fit there, one at least

So the size of the set need not be known: the share falls as more of the set is seen, each time by the blocks that a
smaller share would not have. After the set was seen once, nothing is admitted or dropped any more.

The hash is keyed by the caller, so nobody can choose what stays. The blocks of one object follow each other by the
golden ratio: any number of them is spread evenly, so the same share of each object stays.
"""

from typing import Final

_BITS: Final = 64
_MASK: Final = (1 << _BITS) - 1
_GOLDEN: Final = 0x9E3779B97F4A7C15
OCTAVES: Final = 8
"""Halvings that are cut into bands. Below them is one last band: a share of less than 1/256 of a set."""


REFUSALS: Final = 32
"""Blocks refused in a row, without one below the threshold among them, after which the set counts as seen. With a share
of a fifth of a set that is seen for the first time, that happens once in a thousand times."""


def block_priority(seed: int, number: int) -> int:
    """Returns the priority of a block of the object whose address hashes to `seed`: 64 bits. The lowest stay."""
    return (seed + number * _GOLDEN) & _MASK


def band_of(priority: int, fineness: int) -> int:
    """Returns the band of a priority. Band 0 has the highest priorities, and is the first to go."""
    octave = _BITS - priority.bit_length()
    if octave >= OCTAVES:
        return OCTAVES << fineness
    within = priority >> (_BITS - 1 - octave - fineness) & ((1 << fineness) - 1)
    return (octave + 1 << fineness) - 1 - within


def risen_band(band: int, fineness: int, used: int, room: int) -> int:
    """Returns the marginal band after a rise from `band`, where all that is below it is there.

    `used`: bytes of the share. `room`: bytes beside them. What is below the new one fits, as far as the hash is even;
    of the band itself comes what fits. At least one band; 0 if everything fits."""
    below = _share_below(band, fineness)
    found = max(0, band - 1)
    while found > 0 and below > 0 and _share_below(found - 1, fineness) * used <= below * (used + room):
        found -= 1
    return found


def _share_below(band: int, fineness: int) -> float:
    """Returns the share of all priorities that are below a band."""
    octave, within = divmod(band, 1 << fineness)
    return 0.0 if octave >= OCTAVES else 2.0**-octave * (1 - (within + 1) / (2 << fineness))
