"""Which of a node's workers owns an object: where its flights, its read-ahead and its warm-up run.

Of the object, not of each block. Then neighbouring blocks have one owner, so that their misses are still one ranged GET
and a reader's window is planned in one place; the opening, one request for the head and the first blocks at once, has
one owner too; and a stale head is checked once a node. The price: one cold object is fetched by one core, which takes
in more than an origin's link gives.

Rendezvous hashing (https://en.wikipedia.org/wiki/Rendezvous_hashing): each worker draws a number for the name, the
highest wins. Every worker draws the same numbers, so nobody has to be asked.
"""

from hashlib import blake2b
from typing import Final

from forebay.core.names import ObjectName

_MASK: Final = (1 << 64) - 1


def owner_of(name: ObjectName, workers: int) -> int:
    """The number of the worker, from 0, that owns `name` among so many."""
    if workers == 1:
        return 0
    text = f"{len(name.bucket)}:{name.bucket}{name.key}".encode("utf-8", "surrogatepass")
    drawn = int.from_bytes(blake2b(text, digest_size=8).digest(), "big")
    return max(range(workers), key=lambda worker: _mixed(drawn ^ (worker + 1) * 0x9E3779B97F4A7C15 & _MASK))


def _mixed(number: int) -> int:
    """Scatter all 64 bits: the finaliser of SplitMix64, https://prng.di.unimi.it/splitmix64.c."""
    number = (number ^ number >> 30) * 0xBF58476D1CE4E5B9 & _MASK
    number = (number ^ number >> 27) * 0x94D049BB133111EB & _MASK
    return number ^ number >> 31
