"""Write proofs: which writes the origin is known to accept, because it has accepted one like them lately.

    a write went through and succeeded ──> proof: who, which operation, under which prefix ──> for a lease
    a write of that kind was refused   ──> no proof any more

A write is acknowledged here only under a proof; the first one under each prefix is carried out at the origin. So a
missing permission, bucket or quota is seen by the client, in time, as without Forebay.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

from cachetools import TTLCache

from forebay.core.names import ObjectName

MAX_PROOFS: Final = 10_000


class WriteProof(NamedTuple):
    """What is proven: `principal` may do `operation` below `folder`."""

    principal: str
    operation: str
    folder: str


class WriteProofs:
    """The proofs of one worker. `lease`: seconds; `clock`: seconds from any origin."""

    def __init__(self, lease: float, clock: Callable[[], float]) -> None:
        self._proofs: TTLCache[WriteProof, bool] = TTLCache(MAX_PROOFS, lease, clock)
        self._versioned: TTLCache[str, bool] = TTLCache(MAX_PROOFS, lease, clock)

    def covers(self, principal: str, operation: str, name: ObjectName) -> bool:
        """Returns whether the origin would accept such a write, as far as is known."""
        return proof_of(principal, operation, name) in self._proofs

    def record(self, principal: str, operation: str, name: ObjectName, *, versioned: bool) -> None:
        """The origin has accepted such a write. `versioned`: it has answered with a version id."""
        if versioned:
            self._versioned[name.bucket] = True
        self._proofs[proof_of(principal, operation, name)] = True

    def revoke(self, principal: str, operation: str, name: ObjectName) -> None:
        """The origin has refused such a write."""
        self._proofs.pop(proof_of(principal, operation, name), None)

    def is_versioned(self, bucket: str) -> bool:
        """Returns whether the bucket was seen to keep versions."""
        return bucket in self._versioned


def proof_of(principal: str, operation: str, name: ObjectName) -> WriteProof:
    """Returns the proof that a write needs: one for each folder at the top of a bucket."""
    return WriteProof(principal, operation, f"{name.bucket}/{name.key.partition('/')[0]}")
