"""One warm-up job from its listing to its end.

    lists, listing ──> inventory ──> N tasks, an object each ──> what is cached of it at the end
                          │            (jobs.object_warmer)        (jobs.cache_residency)
                          └─ position, every few seconds ──> the job's record (jobs.job_store)

It is listed to the end before anything is fetched, so that it is known whether everything fits. An object counts as
done when it is stored; later ones may evict it, so what is kept is counted at the end. A failure is recorded and the
job goes on; while the origin can't be reached, or Forebay is short of buffers, it waits.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Final, Protocol, TypeAlias, assert_never

from forebay.core.errors import ForebayError, OriginError, OriginUnreachable, PeerUnavailable, Throttled
from forebay.core.timers import Timers
from forebay.jobs.byte_rate import ByteRate, pause
from forebay.jobs.cache_residency import CacheResidency
from forebay.jobs.inventory import Inventory, InventoryEntry
from forebay.jobs.job_progress import CompletedEntry, WarmUpFailure
from forebay.jobs.job_store import JobRecord
from forebay.jobs.object_warmer import ObjectWarmer
from forebay.jobs.warm_up_job import WarmUpJob

ATTEMPTS: Final = 6
"""Attempts at one object that the origin did not answer, while it answers other requests."""
OUTAGE_PATIENCE: Final = 3600.0
"""Seconds that it waits for one object after which the job gives up."""
LONGEST_PAUSE: Final = 15.0
"""Seconds between two attempts at one object; from 1 on they double."""
SAVE_INTERVAL: Final = 5.0
"""Seconds between two records of the position."""
PIECE_BYTES: Final = 64 << 20
"""Bytes of one object that are fetched before the job waits for its turn again."""
RATED_PIECE_BYTES: Final = 1 << 20
"""The same under a rate; more, where the rule's blocks are larger."""


class ListingEntry(Protocol):
    """An object of a listing."""

    @property
    def key(self) -> str:
        """Its key."""
        ...

    @property
    def size(self) -> int:
        """Its size in bytes."""
        ...

    @property
    def last_modified(self) -> float:
        """Seconds since the epoch."""
        ...


ObjectLister: TypeAlias = Callable[[str, str], AsyncIterator[ListingEntry]]
"""Lists a bucket under a prefix. Raises OriginError."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class WarmUpServices:
    """What all jobs of a worker share."""

    list_objects: ObjectLister
    warmer: ObjectWarmer
    residency: CacheResidency
    timers: Timers
    origin_answers: Callable[[str], bool]
    """Whether the origin of a bucket answers requests, as far as is known."""
    on_object: Callable[[str], None]
    """Called for each object: "warmed" or "failed"."""


class _NothingComes(Exception):
    """An object could not be had for OUTAGE_PATIENCE."""


class WarmUpRun:
    """Runs a job over an inventory, which holds the entries of its lists, or everything if its listing had ended."""

    def __init__(
        self, job: WarmUpJob, inventory: Inventory, record: JobRecord | None, services: WarmUpServices
    ) -> None:
        self._job = job
        self._inventory = inventory
        self._record = record
        self._services = services
        self._rate = ByteRate(job.order.rate, services.timers) if job.order.rate is not None else None
        self._planned = job.bytes_done
        """Bytes of the objects that were begun, as far as their sizes are known."""
        self._saved_at = services.timers.time()
        self._unreported: list[WarmUpFailure] = []

    async def run(self) -> None:
        """Runs the job to its end."""
        job, services = self._job, self._services
        if not job.listing_ended:
            await self._list()
            job.end_listing(services.residency.capacity())
            await self._save_inventory()
        if job.fits is False and not job.order.check:
            _log.warning(
                "warm-up job %s: %d objects have %d bytes, and the cache keeps %d: not all will stay",
                *(job.id, job.listed, job.bytes_listed, job.capacity),
            )
        if job.may_fetch:
            job.note_speed(services.timers.time())
            try:
                await self._fetch()
            except* _NothingComes:
                job.reason = f"it has waited for {OUTAGE_PATIENCE / 60:.0f} minutes: {job.waiting_for}"
            await services.residency.settle()
        await self._count_kept()
        job.end()

    def save(self) -> None:
        """Records the job as it is now."""
        if self._record is not None:
            failures, self._unreported = self._unreported, []
            self._record.add_failures(failures)
            self._record.save(self._job.to_document())
            self._job.survives = self._record.is_usable

    # The listing

    async def _list(self) -> None:
        job, order = self._job, self._job.order
        for source in order.sources:
            pattern = source.pattern()
            try:
                async for entry in self._services.list_objects(source.bucket, source.prefix):
                    if pattern is not None and not pattern.matches(f"{source.bucket}/{entry.key}"):
                        continue
                    if order.newer_than is not None and entry.last_modified < order.newer_than:
                        job.older += 1
                        continue
                    self._inventory.add(InventoryEntry(source.bucket, entry.key, entry.size))
                    job.listed += 1
                    job.bytes_listed += entry.size
            except OriginError as error:
                job.reason = f"{'the listing broke off' if job.listed else 'no listing'}: {error.reason}"
                return

    async def _save_inventory(self) -> None:
        record = self._record
        if record is not None and self._job.may_fetch:
            await asyncio.to_thread(record.save_inventory, self._inventory)
            self.save()

    # The objects

    async def _fetch(self) -> None:
        entries = self._remaining()
        async with asyncio.TaskGroup() as group:
            for _ in range(self._job.order.concurrency):
                group.create_task(self._fetch_entries(entries))

    def _remaining(self) -> Iterator[tuple[int, InventoryEntry]]:
        """The entries from the position on, with their numbers, until the job has as much of the cache as it may."""
        job = self._job
        until = job.order.until(job.capacity)
        number = job.position.entries
        for page in self._inventory.pages(number):
            for entry in page:
                if until is not None and self._planned + max(1, entry.wanted or 0) > until:
                    job.left_out = len(self._inventory) - number
                    return
                self._planned += entry.wanted or 0
                yield number, entry
                number += 1

    async def _fetch_entries(self, entries: Iterator[tuple[int, InventoryEntry]]) -> None:
        for number, entry in entries:
            await self._complete(number, await self._warm_entry(entry))

    async def _complete(self, number: int, entry: CompletedEntry) -> None:
        job, now = self._job, self._services.timers.time()
        if entry.failure is None:
            job.done += 1
        else:
            job.fail(entry.failure)
        self._services.on_object("warmed" if entry.failure is None else "failed")
        passed = job.position.complete(number, entry)
        if self._record is not None:
            self._unreported += passed
        job.note_speed(now)
        if now - self._saved_at >= SAVE_INTERVAL:
            self._saved_at = now
            await asyncio.to_thread(self.save)

    async def _warm_entry(self, entry: InventoryEntry) -> CompletedEntry:
        """Warms one object, with as much patience as the job has."""
        job, timers = self._job, self._services.timers
        began, longest, attempts = timers.time(), 1.0, 0
        stored = _StoredBytes(entry.size is not None)
        while True:
            try:
                problem = await self._warm(entry, stored)
                may_retry = False
            except Throttled as error:
                problem, may_retry = str(error), True
            except OriginUnreachable as error:
                problem, may_retry = str(error), True
                attempts += self._services.origin_answers(entry.bucket)
            except PeerUnavailable as error:  # its owner has ended in the middle of it
                problem, may_retry = str(error), True
                attempts += 1
            except ForebayError as error:
                problem, may_retry = str(error), False
            if problem is None:
                job.waiting_for = None
                return CompletedEntry(stored.size)
            if not may_retry or attempts >= ATTEMPTS:
                return CompletedEntry(stored.size, WarmUpFailure(entry.bucket, entry.key, problem))
            job.waiting_for = problem
            if timers.time() - began >= OUTAGE_PATIENCE:
                raise _NothingComes
            job.bytes_done -= stored.size
            stored.size, stored.end = 0, None
            await pause(timers, longest)
            longest = min(2 * longest, LONGEST_PAUSE)

    async def _warm(self, entry: InventoryEntry, stored: "_StoredBytes") -> str | None:
        """Warms one object, piece by piece. Returns why it can't be, or None. Raises ForebayError."""
        rate, start, piece = self._rate, entry.start, PIECE_BYTES
        if rate is not None:
            piece = max(RATED_PIECE_BYTES, self._services.warmer.block_size(entry.name))
        while stored.end is None or start < stored.end:
            stop = start + piece if entry.stop is None else min(entry.stop, start + piece)
            fetched = stored.fetched
            if rate is not None:
                await rate.acquire(piece)
            try:
                problem = await self._warm_piece(entry, start, stop, stored)
            finally:
                if rate is not None:
                    rate.refund(piece - (stored.fetched - fetched))
            if problem is not None:
                return problem
            start = stop
        return None

    async def _warm_piece(
        self, entry: InventoryEntry, start: int, stop: int | None, stored: "_StoredBytes"
    ) -> str | None:
        job = self._job
        async with aclosing(self._services.warmer.warm(entry.name, job.id, start, stop)) as progresses:
            async for progress in progresses:
                match progress.kind:
                    case "size":
                        span = entry.span(progress.size)
                        stored.end = span.stop
                        if not stored.is_size_known:
                            stored.is_size_known = True
                            job.bytes_listed += span.length
                            self._planned += span.length
                    case "arrived":
                        stored.size += progress.size
                        stored.fetched += progress.fetched
                        job.bytes_done += progress.size
                        job.bytes_fetched += progress.fetched
                        job.note_speed(self._services.timers.time())
                    case "problem":
                        return progress.problem
                    case _:
                        assert_never(progress.kind)
        return None

    # The end

    async def _count_kept(self) -> None:
        """Counts what is cached. Of an object that has changed since it was listed, another version may be."""
        job, kept, left = self._job, 0, self._job.wanted
        for page in self._inventory.pages():
            entries = page[:left]
            left -= len(entries)
            found = await self._services.residency.look_up(
                [each.name for each in entries], [(each.start, each.stop) for each in entries]
            )
            for entry, resident in zip(entries, found, strict=True):
                if job.order.check:
                    job.done += 1
                if resident is None:
                    continue
                kept += resident.is_whole and entry.size in {None, resident.size}
                job.bytes_kept += resident.cached
                job.bytes_in_memory += resident.memory
                job.bytes_on_ssd += resident.ssd
                if job.order.check and entry.size is None:
                    job.bytes_listed += resident.wanted
        job.kept = kept


@dataclass(slots=True)
class _StoredBytes:
    """What is stored of one object."""

    is_size_known: bool
    """Whether the job counts it."""
    size: int = 0
    fetched: int = 0
    end: int | None = None
    """Behind the last wanted byte; None: not known yet."""
