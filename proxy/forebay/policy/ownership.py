"""Ownership by hash: the worker of a node that runs an object's flights, prefetching and warm-up, unless another worker
was asked for it first (peers.ownership_claims).

Objects have owners, blocks do not. So adjacent missing blocks are one ranged GET, a reader's window is planned in one
place, the opening (one request for the head and the first blocks) is sent once, and a stale head is validated once a
node. The price: one core fetches a cold object; it takes in more than an origin's link gives.

Rendezvous hashing (https://en.wikipedia.org/wiki/Rendezvous_hashing): each worker has a pseudo-random number for the
name, and the highest wins. Every worker computes the same numbers, so no message is needed.
"""

from functools import lru_cache
from hashlib import blake2b
from typing import Final

from forebay.core.names import ObjectName

_MASK: Final = (1 << 64) - 1


@lru_cache(maxsize=4096)  # one read asks several times
def hash_of(name: ObjectName) -> int:
    """Returns a hash of `name`, 64 bits, the same in all processes."""
    text = f"{len(name.bucket)}:{name.bucket}{name.key}".encode("utf-8", "surrogatepass")
    return int.from_bytes(blake2b(text, digest_size=8).digest(), "big")


def owner_by_hash(name_hash: int, workers: int) -> int:
    """Returns the number, from 0, of the owner of a hash among `workers`."""
    owner, highest = 0, -1
    for worker in range(workers):
        # All 64 bits are scattered by the finaliser of SplitMix64, https://prng.di.unimi.it/splitmix64.c.
        number = name_hash ^ (worker + 1) * 0x9E3779B97F4A7C15 & _MASK
        number = (number ^ number >> 30) * 0xBF58476D1CE4E5B9 & _MASK
        number = (number ^ number >> 27) * 0x94D049BB133111EB & _MASK
        number ^= number >> 31
        if number > highest:
            owner, highest = worker, number
    return owner
