"""The fetch of one warm-up job: its entries brought into the cache, by several loops that share them.

    inventory ──> batches ──> loop: pieces of this worker's objects, one at a time      (jobs.warm_up.object_warmer)
                        └───> loop: pieces of another worker's, a batch in one call     (jobs.warm_up.owner_warm_up)
                        ...   as many loops as the job may fetch objects at once

A batch has one entry if there is one worker, or a rate to be kept; else a loop takes several, fewer towards the end of
the job, so that all loops end together. Entries that an owner failed at are tried again one by one.

A failure is recorded and the job goes on. One that may pass, as the origin is overloaded or has broken off, is tried
again before; while the origin can't be reached, or Forebay is short of buffers, the job waits.
"""

from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeAlias, assert_never

from forebay.core.byte_rate import ByteRate, pause
from forebay.core.errors import ForebayError, OriginRefused, OriginUnreachable, Throttled
from forebay.core.names import ObjectName
from forebay.core.timers import Timers
from forebay.jobs.prefetch.transient_failures import is_transient
from forebay.jobs.state.inventory import Inventory, InventoryEntry
from forebay.jobs.state.job_progress import CompletedEntry, WarmUpFailure
from forebay.jobs.state.warm_up_job import WarmUpJob
from forebay.jobs.warm_up.direct_warm_up import DirectRun
from forebay.jobs.warm_up.object_warmer import ObjectWarmer, refusal_problem
from forebay.jobs.warm_up.owner_warm_up import WarmUpPiece, WarmUpProgress
from forebay.peers.owners import Owner

ATTEMPTS: Final = 6
"""Attempts at one object that the origin did not answer, or with an error that may pass, while it answers other
requests. One less for each object that has failed so since one did not: a job is not to fail for days."""
OUTAGE_PATIENCE: Final = 3600.0
"""Seconds that it waits for one object after which the job gives up."""
FIRST_PAUSE: Final = 1.0
"""Seconds between the first two attempts at one object, or one listing; they double up to LONGEST_PAUSE."""
LONGEST_PAUSE: Final = 15.0
PIECE_BYTES: Final = 64 << 20
"""Bytes of one object that are fetched before the job waits for its turn again."""
RATED_PIECE_BYTES: Final = 1 << 20
"""Bytes of a piece of a job with a rate; one block, where the rule's blocks are larger."""
RESTART_PAUSE: Final = 1.0
"""Seconds until an owner that has ended is called again for its unreported entries: a new process takes its place."""
BATCH_ENTRIES: Final = 32
"""Entries that a loop takes at once."""
BATCH_BYTES: Final = 8 << 20
"""Bytes of these, as far as their sizes are known, from which on no further one is taken; and bytes of one of them that
its owner warms in the same call: the rest follows by itself."""
BATCHES_LEFT: Final = 2
"""Batches that are left for each loop: towards the end of the job they get smaller."""

Complete: TypeAlias = Callable[[int, CompletedEntry], bool]
"""Takes the number and the outcome of an entry. Returns whether the job is to be saved now."""


class FetchOutage(ForebayError):
    """An object could not be fetched for OUTAGE_PATIENCE."""


@dataclass(slots=True)
class _Wanted:
    """An entry that is being fetched, and the bytes of it that are stored."""

    number: int
    entry: InventoryEntry
    is_size_known: bool
    """Whether the job counts it."""
    next: int
    """The first byte that was not dealt with."""
    size: int = 0
    fetched: int = 0
    end: int | None = None
    """The end of the wanted bytes, exclusive; None: not known yet."""
    problem: str | None = None
    """The reason for the failure."""

    def start_over(self) -> None:
        """Begins again: none of its bytes count as stored."""
        self.size, self.end, self.next = 0, None, self.entry.start

    @property
    def is_complete(self) -> bool:
        """Whether nothing more is to be done."""
        return self.problem is not None or (self.end is not None and self.next >= self.end)

    def bytes_left(self, size: int) -> int:
        """The bytes that a piece of `size` fetches at most, as far as the size of the object is known."""
        return size if self.entry.size is None else min(size, max(0, self.entry.size - self.next))

    def piece(self, size: int) -> WarmUpPiece:
        """The next piece, of at most `size` bytes."""
        entry, stop = self.entry, self.next + size
        return WarmUpPiece(entry.bucket, entry.key, self.next, stop if entry.stop is None else min(entry.stop, stop))


class WarmUpFetch:
    """Fetches the entries of a job from its position on. `complete` is called for each, with its number; `save`: saves
    the job; `origin_answers`: whether the origin of a bucket answers requests, as far as is known."""

    def __init__(
        self,
        job: WarmUpJob,
        inventory: Inventory,
        warmer: ObjectWarmer,
        timers: Timers,
        origin_answers: Callable[[str], bool],
        complete: Complete,
        save: Callable[[], Awaitable[None]],
    ) -> None:
        self._job = job
        self._inventory = inventory
        self._warmer = warmer
        self._timers = timers
        self._origin_answers = origin_answers
        self._complete = complete
        self._save = save
        self._is_save_due = False
        self._attempts = ATTEMPTS
        self._rate = ByteRate(job.order.rate, timers) if job.order.rate is not None else None
        self._planned = job.bytes_done
        """Bytes of the objects that were begun, as far as their sizes are known."""
        self._number = job.position.entries
        """The number of the next entry."""
        self._entries = self._remaining()

    async def run(self) -> None:
        """Fetches until there is no entry left; as often at once as objects may be. Raises FetchOutage."""
        if self._warmer.workers == 1 or self._rate is not None:
            await self._fetch_all(self._entries)
            return
        while batch := self._next_batch():
            await self._fetch_all(iter(await self._fetch_at_owners(batch)))

    async def _fetch_all(self, entries: Iterator[_Wanted]) -> None:
        """Fetches entries, which other loops may share, until there are none left."""
        run = DirectRun(self._warmer.direct, self._job.id, entries, self._plain_name, self._note_kept)
        try:
            while not run.has_ended:
                wanted = await run.next()
                if wanted is not None:
                    await self._fetch(wanted)
                await self._warmer.flush_if_behind()
                if self._is_save_due:
                    self._is_save_due = False
                    await self._save()
        finally:
            run.close()

    def _plain_name(self, wanted: _Wanted) -> ObjectName | None:
        """The name of an object that may be small, is wanted as a whole, and owned here."""
        entry, name = wanted.entry, wanted.entry.name
        is_plain = self._rate is None and not wanted.next and entry.stop is None and self._warmer.owner(name) is None
        return name if is_plain else None

    def _note_kept(self, wanted: _Wanted, size: int) -> bool:
        """Counts an object that is stored as a whole. Returns whether the job is to be saved."""
        self._store(wanted, self._learn_size(wanted, size), size)
        self._job.waiting_for, self._attempts = None, ATTEMPTS
        self._end(wanted)
        return self._is_save_due

    def _remaining(self) -> Iterator[_Wanted]:
        """The entries from the position on, until the job has as much of the cache as it may."""
        job = self._job
        until = job.order.until(job.capacity)
        for page in self._inventory.pages(self._number):
            for entry in page:
                if until is not None and self._planned + max(1, entry.wanted or 0) > until:
                    job.left_out = len(self._inventory) - self._number
                    return
                self._planned += entry.wanted or 0
                self._number += 1
                yield _Wanted(self._number - 1, entry, entry.size is not None, entry.start)

    def _next_batch(self) -> list[_Wanted]:
        job = self._job
        left = (len(self._inventory) - self._number) // (BATCHES_LEFT * job.order.concurrency)
        most, size, batch = max(1, min(BATCH_ENTRIES, left)), 0, list[_Wanted]()
        if not job.sizes_known and job.order.until(job.capacity) is not None:
            most = 1  # it ends when enough sizes have become known
        for wanted in self._entries:
            batch.append(wanted)
            size += wanted.entry.wanted or 0
            if len(batch) >= most or size >= BATCH_BYTES:
                break
        return batch

    # At the owners

    async def _fetch_at_owners(self, batch: list[_Wanted]) -> list[_Wanted]:
        """Has each owner warm its entries. Returns the entries that are still to be fetched."""
        rest: list[_Wanted] = []
        shares: dict[Owner, list[_Wanted]] = {}
        for wanted in batch:
            owner = self._warmer.owner(wanted.entry.name)
            (rest if owner is None else shares.setdefault(owner, [])).append(wanted)
        for owner, share in shares.items():
            rest += await self._fetch_share(owner, share)
        return rest

    async def _fetch_share(self, owner: Owner, share: list[_Wanted]) -> list[_Wanted]:
        pieces = [wanted.piece(BATCH_BYTES) for wanted in share]
        ended, has_left = await self._warmer.warm_together(
            owner, pieces, self._job.id, lambda number, progress: self._note(share[number], progress)
        )
        rest = []
        for number, (wanted, piece) in enumerate(zip(share, pieces, strict=True)):
            if number >= ended:
                self._start_over(wanted)
            elif piece.stop is not None:
                wanted.next = piece.stop
            if wanted.is_complete:
                self._end(wanted)
            else:
                rest.append(wanted)
        if has_left:
            await pause(self._timers, RESTART_PAUSE)
        return rest

    # One by one

    async def _fetch(self, wanted: _Wanted) -> None:
        """Fetches one object, with as much patience as the job has."""
        job, timers = self._job, self._timers
        began, longest, attempts = timers.time(), FIRST_PAUSE, 0
        while True:
            try:
                await self._warm(wanted)
            except Throttled as error:
                problem = str(error)
            except OriginUnreachable as error:
                problem = str(error)
                attempts += self._origin_answers(wanted.entry.bucket)
            except ForebayError as error:
                problem = str(error)
                if isinstance(error, OriginRefused):
                    problem = refusal_problem(error.status, error.body)
                attempts += 1
                if not is_transient(error):
                    wanted.problem = problem
                    break
            else:
                if wanted.problem is None:
                    job.waiting_for, self._attempts = None, ATTEMPTS
                break
            if attempts >= self._attempts:
                wanted.problem = problem
                self._attempts = max(1, self._attempts - 1)
                break
            job.waiting_for = problem
            if timers.time() - began >= OUTAGE_PATIENCE:
                raise FetchOutage
            self._start_over(wanted)
            await pause(timers, longest)
            longest = min(2 * longest, LONGEST_PAUSE)
        self._end(wanted)

    async def _warm(self, wanted: _Wanted) -> None:
        """Warms the rest of one object, piece by piece. Raises ForebayError."""
        rate, size, name = self._rate, PIECE_BYTES, wanted.entry.name
        report = partial(self._note, wanted)
        if rate is not None:
            size = max(RATED_PIECE_BYTES, self._warmer.block_size(name))
        while not wanted.is_complete:
            _, _, start, stop = wanted.piece(size)
            fetched, most = wanted.fetched, wanted.bytes_left(size)
            if rate is not None:
                await rate.acquire(most)
            try:
                await self._warmer.warm(name, self._job.id, report, start, stop)
            finally:
                if rate is not None:
                    rate.refund(most - (wanted.fetched - fetched))
            wanted.next = start + size if stop is None else stop

    def _note(self, wanted: _Wanted, progress: WarmUpProgress) -> None:
        """Counts progress with an entry."""
        match progress.kind:
            case "size":
                self._learn_size(wanted, progress.size)
            case "arrived":
                self._store(wanted, progress.size, progress.fetched)
                if wanted.size > progress.size:  # the end of an entry is noted in any case
                    self._job.note_speed(self._timers.time())
            case "whole":
                self._store(wanted, self._learn_size(wanted, progress.size), progress.fetched)
            case "problem":
                wanted.problem = progress.problem
            case _:
                assert_never(progress.kind)

    def _learn_size(self, wanted: _Wanted, size: int) -> int:
        """The object has `size` bytes. Returns how many of them are wanted."""
        span = wanted.entry.span(size)
        wanted.end = span.stop
        if not wanted.is_size_known:
            wanted.is_size_known = True
            self._job.bytes_listed += span.length
            self._planned += span.length
        return span.length

    def _store(self, wanted: _Wanted, size: int, fetched: int) -> None:
        wanted.size += size
        wanted.fetched += fetched
        self._job.bytes_done += size
        self._job.bytes_fetched += fetched

    def _start_over(self, wanted: _Wanted) -> None:
        self._job.bytes_done -= wanted.size
        wanted.start_over()

    def _end(self, wanted: _Wanted) -> None:
        entry, failure = wanted.entry, None
        if wanted.problem is not None:
            failure = WarmUpFailure(entry.bucket, entry.key, wanted.problem)
        if self._complete(wanted.number, CompletedEntry(wanted.size, failure)):
            self._is_save_due = True
