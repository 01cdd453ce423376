"""One warm-up job from its listing to its end.

    lists, listing ──> inventory ──> N loops over its entries ──> count of the cached objects at the end
                          │            (jobs.warm_up.warm_up_fetch)   (jobs.warm_up.cache_residency)
                          └─ position, every few seconds ──> the job's record (jobs.state.job_store)

The listing is complete before anything is fetched, so that it is known whether everything fits. An object counts as
done when it is stored; later ones may evict it, so the cached bytes are counted at the end.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Final, Protocol, TypeAlias

from forebay.core.byte_rate import pause
from forebay.core.errors import OriginError, OriginOverloaded, OriginUnreachable
from forebay.core.timers import Timers
from forebay.jobs.state.inventory import Inventory, InventoryEntry
from forebay.jobs.state.job_document import job_document
from forebay.jobs.state.job_progress import CompletedEntry, WarmUpFailure
from forebay.jobs.state.job_store import JobRecord
from forebay.jobs.state.warm_up_job import WarmUpJob
from forebay.jobs.state.warm_up_order import ListedSource
from forebay.jobs.warm_up.cache_residency import CacheResidency
from forebay.jobs.warm_up.object_warmer import ObjectWarmer
from forebay.jobs.warm_up.warm_up_fetch import FIRST_PAUSE, LONGEST_PAUSE, OUTAGE_PATIENCE, FetchOutage, WarmUpFetch

SAVE_INTERVAL: Final = 5.0
"""Seconds between two records of the position."""


class ListingEntry(Protocol):
    """An object of a listing."""

    @property
    def key(self) -> str:
        """The key of the object."""
        ...

    @property
    def size(self) -> int:
        """The size of the object in bytes."""
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
    """The services that all jobs of a worker share."""

    list_objects: ObjectLister
    warmer: ObjectWarmer
    residency: CacheResidency
    timers: Timers
    origin_answers: Callable[[str], bool]
    """Whether the origin of a bucket answers requests, as far as is known."""
    on_object: Callable[[str], None]
    """Called for each object: "warmed" or "failed"."""


class WarmUpRun:
    """Runs a job over an inventory, which holds the entries of its lists, or everything if its listing had ended."""

    def __init__(
        self, job: WarmUpJob, inventory: Inventory, record: JobRecord | None, services: WarmUpServices
    ) -> None:
        self._job = job
        self._inventory = inventory
        self._record = record
        self._services = services
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
            except* FetchOutage:
                job.reason = f"it has waited for {OUTAGE_PATIENCE / 60:.0f} minutes: {job.waiting_for}"
            await services.residency.settle()
        await self._count_kept()
        job.end()

    def save(self) -> None:
        """Records the job as it is now."""
        if self._record is not None:
            failures, self._unreported = self._unreported, []
            self._record.add_failures(failures)
            self._record.save(job_document(self._job))
            self._job.survives = self._record.is_usable

    # The listing

    async def _list(self) -> None:
        job = self._job
        for source in job.order.sources:
            try:
                await self._list_patiently(source)
            except OriginError as error:
                job.reason = f"{'the listing broke off' if job.listed else 'no listing'}: {error.reason}"
                return

    async def _list_patiently(self, source: ListedSource) -> None:
        """Lists a source, anew after each time that the origin could not be reached. Raises OriginError."""
        job, timers, inventory = self._job, self._services.timers, self._inventory
        entries, listed, size, older = len(inventory), job.listed, job.bytes_listed, job.older
        began, longest = timers.time(), FIRST_PAUSE
        while True:
            try:
                await self._list_source(source)
            except (OriginUnreachable, OriginOverloaded) as error:
                if timers.time() - began >= OUTAGE_PATIENCE:
                    raise
                inventory.truncate(entries)
                job.listed, job.bytes_listed, job.older = listed, size, older
                job.waiting_for = error.reason
                await pause(timers, longest)
                longest = min(2 * longest, LONGEST_PAUSE)
            else:
                job.waiting_for = None
                return

    async def _list_source(self, source: ListedSource) -> None:
        job, newer_than, pattern = self._job, self._job.order.newer_than, source.pattern()
        async for entry in self._services.list_objects(source.bucket, source.prefix):
            if pattern is not None and not pattern.matches(f"{source.bucket}/{entry.key}"):
                continue
            if newer_than is not None and entry.last_modified < newer_than:
                job.older += 1
                continue
            self._inventory.add(InventoryEntry(source.bucket, entry.key, entry.size))
            job.listed += 1
            job.bytes_listed += entry.size

    async def _save_inventory(self) -> None:
        record = self._record
        if record is not None and self._job.may_fetch:
            await asyncio.to_thread(record.save_inventory, self._inventory)
            self.save()

    # The objects

    async def _fetch(self) -> None:
        job, services = self._job, self._services
        fetch = WarmUpFetch(
            job,
            self._inventory,
            services.warmer,
            services.timers,
            services.origin_answers,
            self._complete,
            self._save_progress,
        )
        async with asyncio.TaskGroup() as group:
            for _ in range(job.order.concurrency):
                group.create_task(fetch.run())

    def _complete(self, number: int, entry: CompletedEntry) -> bool:
        """Counts an entry. Returns whether the job is to be saved."""
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
        return now - self._saved_at >= SAVE_INTERVAL

    async def _save_progress(self) -> None:
        self._saved_at = self._services.timers.time()
        await asyncio.to_thread(self.save)

    # The end

    async def _count_kept(self) -> None:
        """Counts the cached objects and bytes. Of a changed object another version may be cached."""
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


RunFactory: TypeAlias = Callable[[WarmUpJob, Inventory, JobRecord | None, WarmUpServices], WarmUpRun]
"""Makes the run of a job."""
