"""Invalidation: after it, nobody is answered with what was known before, by any worker of the node.

    fence      facts that were asked for earlier are not stored any more, nobody joins what is under way, and memory
               drops the head
    forget     the SSD tier drops the head, for good; blocks without a head are nothing

In this order, so that nothing slips in between. Called before a write is sent and again before it is acknowledged. A
write whose answer was lost leaves a doubt: until it has passed, the origin is asked on every read.

With several workers:

    fence in all ──> forget in all ──> fence in all again, for a worker may have read the shared tier in between

and over again, should a worker have begun or ended meanwhile. A worker that does not answer is killed (peers.owners);
one that begins listens before it reads the tier, so that it is either asked or has read nothing. A write that is under
way is known to all; if the worker that carries it dies, the others doubt what it touched.
"""

import asyncio
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from forebay.core.fences import Doubts, Fences
from forebay.core.names import Generation, ObjectName
from forebay.metadata.resolver import Resolver
from forebay.peers.frames import Document
from forebay.peers.owners import Peers
from forebay.peers.peer_codec import decode_name, encode_names
from forebay.storage.tiers import Tiers

IN_DOUBT_SECONDS: Final = 900.0  # longer than any origin works on a request whose client has gone


@dataclass(frozen=True, slots=True)
class WholeBucket:
    """Everything in a bucket is touched."""

    bucket: str


AffectedKeys: TypeAlias = Sequence[ObjectName] | WholeBucket


class Invalidator:
    """Makes a write seen at once, under every freshness."""

    def __init__(
        self,
        fences: Fences,
        doubts: Doubts,
        resolver: Resolver,
        tiers: Tiers,
        clock: Callable[[], float],
        peers: Peers | None = None,
        *,
        shared: bool = False,
    ) -> None:
        """`shared`: whether the workers of the node have an SSD tier between them."""
        self._fences, self._doubts, self._resolver, self._tiers, self._clock = fences, doubts, resolver, tiers, clock
        self._peers = peers or Peers()
        self._shared = shared
        self._writes = itertools.count()

    async def invalidate(
        self, affected: AffectedKeys, keep: Generation | None = None, *, write: int | None = None
    ) -> None:
        """When this returns, no answer comes from what was known before. Durable: see storage.tier_contract.

        `keep`: what was staged on the way and is about to be installed; `write`: what `begun` gave, for the write that
        is about to be sent.
        """
        if not isinstance(affected, WholeBucket) and not affected:
            return
        self.fence(affected)
        if not self._peers.others:
            await self.forget(affected, keep)
            return
        self.drop(affected, keep)
        order = encode_affected(affected) | {"keep": keep.hex() if keep is not None else None, "write": write}
        while True:
            fenced = await self._peers.call_until_acked(
                order | {"kind": "fence", "doubt": self._in_doubt_until(affected)}
            )
            if not self._shared:
                return
            _, forgotten = await asyncio.gather(
                self.forget(affected, keep), self._peers.call_until_acked(order | {"kind": "forget"}, slow=True)
            )
            self.fence(affected)
            self.drop(affected, keep)
            again = await self._peers.call_until_acked(
                order | {"kind": "fence", "doubt": self._in_doubt_until(affected)}
            )
            if fenced == forgotten == again:
                return

    def fence(self, affected: AffectedKeys) -> None:
        """In this worker: what was asked before is not stored, and nobody joins it."""
        if isinstance(affected, WholeBucket):
            self._fences.raise_bucket(affected.bucket)
            self._resolver.fence_bucket(affected.bucket)
            return
        for name in affected:
            self._fences.raise_object(name)
            self._resolver.fence(name)

    def drop(self, affected: AffectedKeys, keep: Generation | None = None) -> None:
        """In the memory of this worker, at once."""
        if isinstance(affected, WholeBucket):
            self._tiers.memory.forget_bucket(affected.bucket)
            return
        for name in affected:
            self._tiers.memory.forget(name, keep)

    async def forget(self, affected: AffectedKeys, keep: Generation | None = None) -> None:
        """In the tiers of this worker, the shared one among them."""
        if isinstance(affected, WholeBucket):
            await self._tiers.forget_bucket(affected.bucket)
            return
        # At once, so that the SSD tier settles a batch delete in one batch.
        await asyncio.gather(*(self._tiers.forget(name, keep) for name in affected))

    def mark_in_doubt(self, affected: AffectedKeys, until: float | None = None) -> None:
        """The origin may still carry out what was asked of it. The other workers learn of it with the invalidation that
        follows."""
        until = self._clock() + IN_DOUBT_SECONDS if until is None else until
        if isinstance(affected, WholeBucket):
            self._doubts.raise_bucket(affected.bucket, until)
            return
        for name in affected:
            self._doubts.raise_object(name, until)

    # Between workers

    def begin_write(self) -> int:
        """A write is about to be sent; it has `ended` when it was invalidated again."""
        return next(self._writes)

    def end_write(self, write: int) -> None:
        self._peers.notify({"kind": "ended", "write": write})

    def _in_doubt_until(self, affected: AffectedKeys) -> float | None:
        """Until when any of it is doubted."""
        names = [ObjectName(affected.bucket, "")] if isinstance(affected, WholeBucket) else affected
        until = max((self._doubts.until(name) for name in names), default=0.0)
        return until if until > self._clock() else None


def encode_affected(affected: AffectedKeys) -> Document:
    if isinstance(affected, WholeBucket):
        return {"bucket": affected.bucket}
    return encode_names(affected)


def decode_affected(document: Any) -> AffectedKeys:
    """Raises what peers.peer_codec.decode translates."""
    if "bucket" in document:
        return WholeBucket(str(document["bucket"]))
    return [decode_name(each) for each in document["names"]]
