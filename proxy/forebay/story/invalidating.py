"""Invalidation: after it, nobody is answered with what was known before.

    fence      facts that were asked for earlier are not stored any more, and nobody joins what is under way
    forget     tiers drop the head; blocks without a head are nothing

In this order, so that nothing slips in between. Called before a write is sent and again before it is acknowledged. A
write whose answer was lost leaves a doubt: until it has passed, the origin is asked on every read.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from forebay.flights.fences import Doubts, Fences
from forebay.flights.resolver import Resolver
from forebay.stores.tiers import Tiers
from forebay.words.names import Generation, ObjectName

DOUBT_SECONDS: Final = 900.0  # longer than any origin works on a request whose client has gone


@dataclass(frozen=True, slots=True)
class WholeBucket:
    """Everything in a bucket is touched."""

    bucket: str


Touched: TypeAlias = Sequence[ObjectName] | WholeBucket


class Invalidator:
    """Makes a write seen at once, under every freshness."""

    def __init__(
        self, fences: Fences, doubts: Doubts, resolver: Resolver, tiers: Tiers, clock: Callable[[], float]
    ) -> None:
        self._fences, self._doubts, self._resolver, self._tiers, self._clock = fences, doubts, resolver, tiers, clock

    async def invalidate(self, touched: Touched, keep: Generation | None = None) -> None:
        """When this returns, no answer comes from what was known before. Durable: see stores.contract.

        `keep`: what was staged on the way and is about to be installed.
        """
        if isinstance(touched, WholeBucket):
            self._fences.raise_bucket(touched.bucket)
            self._resolver.fence_bucket(touched.bucket)
            await self._tiers.forget_bucket(touched.bucket)
            return
        for name in touched:
            self._fences.raise_object(name)
            self._resolver.fence(name)
        # At once, so that the SSD tier settles a batch delete in one batch.
        await asyncio.gather(*(self._tiers.forget(name, keep) for name in touched))

    def doubt(self, touched: Touched) -> None:
        """The origin may still carry out what was asked of it."""
        until = self._clock() + DOUBT_SECONDS
        if isinstance(touched, WholeBucket):
            self._doubts.raise_bucket(touched.bucket, until)
            return
        for name in touched:
            self._doubts.raise_object(name, until)
