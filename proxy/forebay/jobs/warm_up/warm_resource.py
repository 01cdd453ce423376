"""Warm-ups as objects: for clients that have no admin port.

    PUT .forebay/warm/prefix     body: a prefix of keys; the sender may read every key below it
    PUT .forebay/warm/keys       body: keys, one a line; those that the sender may not read are left out
    response                     x-forebay-warm-job: as `forebay jobs` shows it; x-forebay-warm-dropped: keys left out

A plan fetches a bounded horizon ahead of a reader; a warm-up has no reader. It grants no access: only keys that the
sender may read are fetched, and each later read is authorised by itself. A sender has at most MAX_JOBS that have not
ended, and the same prefix twice is one job.
"""

import asyncio
from collections.abc import AsyncIterator
from typing import Final

from forebay.core.buffers import Piece
from forebay.core.errors import S3Error, Throttled
from forebay.core.heads import HeaderPairs
from forebay.core.names import MAX_KEY_BYTES, ObjectName, is_reserved
from forebay.jobs.state.inventory import Inventory, InventoryEntry
from forebay.jobs.state.warm_up_job import WarmUpJob
from forebay.jobs.state.warm_up_order import ListedSource, WarmUpOrder
from forebay.jobs.warm_up.warm_ups import WarmUps
from forebay.policy.grants import may_read, may_read_every_object_below
from forebay.request.prefix_body import read_prefix
from forebay.request.resource import ResourceKind, ResourceOwner

MAX_JOBS: Final = 8
_KEYS_BETWEEN_PAUSES: Final = 1000


class WarmResource:
    """Warm-ups that clients start in this worker."""

    largest_body: int = 256 << 20
    """Bytes: a million keys of 256 characters."""

    def __init__(self, warm_ups: WarmUps) -> None:
        self._warm_ups = warm_ups
        self._jobs: dict[tuple[str, str], list[tuple[str | None, WarmUpJob]]] = {}
        """The jobs by principal and bucket, each with its prefix (None for a list of keys)."""

    @property
    def kind(self) -> ResourceKind:
        """The operations on warm-ups as objects. The admin port shows and cancels the jobs."""
        return ResourceKind(None, self, "A warm-up is cancelled on the admin port.")

    async def write(self, owner: ResourceOwner, name: str, body: AsyncIterator[Piece]) -> HeaderPairs:
        """Starts a job."""
        if owner.identity is not None:
            raise S3Error(
                "AccessDenied", "The origin decides object by object what a key with a credential of its own may read."
            )
        match name:
            case "prefix":
                job, dropped = await self._warm_prefix(owner, await read_prefix(body)), 0
            case "keys":
                job, dropped = await self._warm_keys(owner, body)
            case _:
                raise S3Error("InvalidArgument", "A warm-up is sent as .forebay/warm/prefix or .forebay/warm/keys.")
        return (("x-forebay-warm-job", job.id), ("x-forebay-warm-dropped", str(dropped)))

    async def _warm_prefix(self, owner: ResourceOwner, prefix: str) -> WarmUpJob:
        if not may_read_every_object_below(owner.principal, owner.bucket, prefix):
            raise S3Error("AccessDenied", "A warm-up of a prefix needs the right to read every key below it.")
        jobs = self._unended(owner)
        running = next((job for known, job in jobs if known == prefix), None)
        if running is not None:
            return running
        return await self._start(owner, prefix, WarmUpOrder((ListedSource(owner.bucket, prefix),)), Inventory())

    async def _warm_keys(self, owner: ResourceOwner, body: AsyncIterator[Piece]) -> tuple[WarmUpJob, int]:
        inventory, dropped, number = Inventory(), 0, 0
        async for line in _lines(body):
            number += 1
            if number % _KEYS_BETWEEN_PAUSES == 0:
                await asyncio.sleep(0)
            try:
                key = line.decode()
            except UnicodeDecodeError:
                raise S3Error("InvalidArgument", "A key is UTF-8.", Line=str(number)) from None
            if not key:
                continue
            if is_reserved(key) or not may_read(owner.principal, ObjectName(owner.bucket, key)):
                dropped += 1
            else:
                inventory.add(InventoryEntry(owner.bucket, key))
        if not len(inventory) and not dropped:
            raise S3Error("InvalidArgument", "The list has no key.")
        return await self._start(owner, None, WarmUpOrder(), inventory), dropped

    def _unended(self, owner: ResourceOwner) -> list[tuple[str | None, WarmUpJob]]:
        """The sender's jobs that have not ended."""
        key = owner.principal.id, owner.bucket
        jobs = self._jobs[key] = [each for each in self._jobs.get(key, ()) if not each[1].has_ended]
        if not jobs:
            del self._jobs[key]
        return jobs

    async def _start(
        self, owner: ResourceOwner, prefix: str | None, order: WarmUpOrder, inventory: Inventory
    ) -> WarmUpJob:
        if len(self._unended(owner)) >= MAX_JOBS:
            raise Throttled(f"{MAX_JOBS} warm-ups of this key have not ended")
        job = await self._warm_ups.start(order, inventory)
        self._jobs.setdefault((owner.principal.id, owner.bucket), []).append((prefix, job))
        return job


async def _lines(body: AsyncIterator[Piece]) -> AsyncIterator[bytes]:
    """Yields the lines of a body. Raises S3Error for a line that is longer than a key may be."""
    rest = b""
    async for piece in body:
        *whole, rest = (rest + bytes(piece)).split(b"\n")
        for line in (*whole, rest):
            if len(line) > MAX_KEY_BYTES + 1:
                raise S3Error("KeyTooLongError", MaxSizeAllowed=str(MAX_KEY_BYTES), Size=str(len(line)))
        for line in whole:
            yield line.removesuffix(b"\r")
    if rest:
        yield rest.removesuffix(b"\r")
