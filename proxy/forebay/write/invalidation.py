"""Invalidation: afterwards no worker of the node answers with earlier state of the affected keys.

    fence      facts requested earlier are not stored any more, no reader joins a fetch under way, and memory drops
               the head
    forget     the SSD tier drops the head durably; blocks without a head are unreachable

The order leaves no gap. Both run before the bytes are sent that complete a write, and again before it is acknowledged.
A write whose answer was lost is marked in doubt: for IN_DOUBT_SECONDS every read of the affected keys is revalidated.

With several workers:

    fence in all ──> forget in all ──> fence in all ──> fence in all
                     (an SSD tier       a worker may     a worker that was fenced before the owner of an object may have
                      that they share)  have read the    got the earlier state from there in between, and kept it
                                        tier in between

and all of it again if a worker started or ended meanwhile. Without a shared tier it is the first and the last step. A
worker that does not answer is killed (peers.owners). A starting worker listens before it reads the tier, so it either
was called or has read nothing. Every worker knows the writes under way; if the worker that carries one out dies, the
others mark its affected keys in doubt.

A version that another writer replaced at the origin is forgotten in the same way, before a client is told of its
successor (metadata.head_replacement).
"""

import asyncio
import itertools
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeAlias

from forebay.core.errors import OriginError, WriteRefused
from forebay.core.fences import Fences, InDoubtWrites, Tick
from forebay.core.names import Generation, ObjectName
from forebay.peers.frames import Document
from forebay.peers.owners import Peers
from forebay.peers.peer_codec import decode_name, encode_names
from forebay.storage.tiers import Tiers

IN_DOUBT_SECONDS: Final = 900.0
"""Longer than any origin works on a request whose client has gone."""


@dataclass(frozen=True, slots=True)
class WholeBucket:
    """The keys of a whole bucket, as affected ones."""

    bucket: str


AffectedKeys: TypeAlias = Sequence[ObjectName] | WholeBucket
"""The keys that a write may change."""


class Joinable(Protocol):
    """Work under way that readers join."""

    def fence(self, name: ObjectName) -> None:
        """Keeps later readers from joining requests under way for `name`."""

    def fence_bucket(self, bucket: str) -> None:
        """Does what `fence` does, for every object of a bucket."""


class Invalidator:
    """Makes a write visible at once, under every freshness rule."""

    def __init__(
        self,
        fences: Fences,
        in_doubt_writes: InDoubtWrites,
        joinable: Sequence[Joinable],
        tiers: Tiers,
        clock: Callable[[], float],
        peers: Peers | None = None,
        *,
        shared: bool = False,
    ) -> None:
        """`clock`: seconds since the epoch. `shared`: whether the workers of the node share an SSD tier."""
        self._fences, self._in_doubt_writes, self._joinable, self._tiers, self._clock = (
            fences,
            in_doubt_writes,
            joinable,
            tiers,
            clock,
        )
        self._peers = peers or Peers()
        self._shared = shared
        self._writes = itertools.count()

    async def invalidate(
        self, affected: AffectedKeys, keep: Generation | None = None, *, write: int | None = None
    ) -> None:
        """Invalidates the affected keys in all workers. Durable: see storage.tier_contract.

        `keep`: the generation of staged blocks that are about to be installed. `write`: the number from `begin_write`,
        before the write is sent.
        """
        if isinstance(affected, WholeBucket) or affected:
            await self._invalidate(affected, keep, write, lambda: self.fence(affected))

    async def forget_replaced(self, name: ObjectName, keep: Generation | None, since: Tick) -> Tick | None:
        """Invalidates a version of `name` that was found replaced at the origin, in all workers, and durably.

        `keep`: the generation whose blocks stay, for responses under way. `since`: when its successor was requested.
        Returns the tick to store that at; None: it must not be stored, as a write has come in between.
        """
        tick: Tick | None = since

        def fence() -> None:
            nonlocal tick
            tick = self._fences.supersede(name, tick)
            self._detach(name)

        await self._invalidate([name], keep, None, fence)
        return tick

    async def _invalidate(
        self, affected: AffectedKeys, keep: Generation | None, write: int | None, fence: Callable[[], None]
    ) -> None:
        if not self._peers.others:
            fence()
            await self.forget(affected, keep)
            return
        message = encode_affected(affected) | {"keep": keep.hex() if keep is not None else None, "write": write}

        async def fence_all() -> dict[int, str | None]:
            fence()
            self.drop(affected, keep)
            return await self._fence_others(affected, message)

        fenced = await fence_all()
        while True:
            earlier = [fenced]
            if self._shared:
                _, forgotten = await asyncio.gather(
                    self.forget(affected, keep), self._peers.call_until_acked(message | {"kind": "forget"}, slow=True)
                )
                earlier += forgotten, await fence_all()
            fenced = await fence_all()
            if all(processes == fenced for processes in earlier):
                return

    async def _fence_others(self, affected: AffectedKeys, message: Document) -> dict[int, str | None]:
        """Raises the fence in the other workers; returns which process of each has done it."""
        in_doubt = {"doubt": self._in_doubt_until(affected)}
        return await self._peers.call_until_acked(message | in_doubt | {"kind": "fence"})

    def fence(self, affected: AffectedKeys) -> None:
        """Raises the fence in this worker: facts requested earlier are not stored, and no reader joins a fetch under
        way."""
        if isinstance(affected, WholeBucket):
            self._fences.raise_bucket(affected.bucket)
            for work in self._joinable:
                work.fence_bucket(affected.bucket)
            return
        for name in affected:
            self._fences.raise_object(name)
            self._detach(name)

    def _detach(self, name: ObjectName) -> None:
        for work in self._joinable:
            work.fence(name)

    def drop(self, affected: AffectedKeys, keep: Generation | None = None) -> None:
        """Drops the heads from this worker's memory tier."""
        if isinstance(affected, WholeBucket):
            self._tiers.memory.purge(affected.bucket, "")
            return
        for name in affected:
            self._tiers.memory.forget(name, keep)

    async def forget(self, affected: AffectedKeys, keep: Generation | None = None) -> None:
        """Drops the heads from the tiers of this worker, the shared one included. Returns when that is durable."""
        if isinstance(affected, WholeBucket):
            await self._tiers.forget_bucket(affected.bucket)
            return
        if len(affected) == 1:  # nearly always: without a task
            await self._tiers.forget(affected[0], keep)
            return
        # At once, so that the SSD tier settles a batch delete in one batch.
        await asyncio.gather(*(self._tiers.forget(name, keep) for name in affected))

    def mark_in_doubt(self, affected: AffectedKeys, until: float | None = None) -> None:
        """Marks the affected keys in doubt: the origin may still carry out a write of them. The next invalidation tells
        the other workers. `until`: seconds since the epoch."""
        until = self._clock() + IN_DOUBT_SECONDS if until is None else until
        if isinstance(affected, WholeBucket):
            self._in_doubt_writes.mark_bucket(affected.bucket, until)
            return
        for name in affected:
            self._in_doubt_writes.mark_object(name, until)

    # Between workers

    def begin_write(self) -> int:
        """Returns a number for a write that is about to be sent. Call `end_write` after its second invalidation."""
        return next(self._writes)

    def end_write(self, write: int) -> None:
        """Notifies the other workers that the write with this number is settled."""
        self._peers.notify({"kind": "write_ended", "write": write})

    @asynccontextmanager
    async def announced(self, affected: AffectedKeys) -> AsyncGenerator[None]:
        """A write within this scope is in doubt in the other workers if this one dies, and in all of them if the origin
        fails, unless it refuses the write."""
        write = self.begin_write()
        message = encode_affected(affected) | {"keep": None, "write": write}
        await self._fence_others(affected, message)
        try:
            yield
        except OriginError as failure:
            if not (isinstance(failure, WriteRefused) and failure.is_final):
                self.mark_in_doubt(affected)
                await self._fence_others(affected, message)
            raise
        finally:
            self.end_write(write)

    def _in_doubt_until(self, affected: AffectedKeys) -> float | None:
        """Returns until when any affected key is in doubt; None if none is."""
        names = [ObjectName(affected.bucket, "")] if isinstance(affected, WholeBucket) else affected
        until = max((self._in_doubt_writes.until(name) for name in names), default=0.0)
        return until if until > self._clock() else None


def encode_affected(affected: AffectedKeys) -> Document:
    """Returns the fields of a message about these keys."""
    if isinstance(affected, WholeBucket):
        return {"bucket": affected.bucket}
    return encode_names(affected)


def decode_affected(document: Any) -> AffectedKeys:
    """Returns the affected keys of a message. Raises the errors of peers.peer_codec.decode."""
    if "bucket" in document:
        return WholeBucket(str(document["bucket"]))
    return [decode_name(each) for each in document["names"]]
