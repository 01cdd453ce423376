"""The walk of a snapshot: lists a namespace at the origin in several ranges of keys at once.

    first page ──> whole?  done
                   else    walkers: each lists a range, page by page
                           a walker without a range splits the largest that is left, and lists the part behind

The keys are not known in advance, so a range is split in the middle of its interval, computed over the characters that
keys were seen to have (policy.key_order). Half an interval may be empty: that costs a request, and halves the interval.
All walkers split at the same moment, so a few round trips find where the keys are. Positions that clients wait for come
first.

The number of extra requests is bounded by the number of listed pages. While a client waits, the walk counts as demand
at the origin; otherwise it uses the turns that demand leaves.
"""

import asyncio
from typing import Final, Protocol

from forebay.core.errors import ForebayError, OriginBroken
from forebay.namespace.origin_pages import PageRequest
from forebay.namespace.snapshot import KeyRange, Snapshot
from forebay.policy.key_order import common_length, split_key
from forebay.protocol.xml.listed_page import ListedEntries, ListingForm

PARALLEL: Final = 16
"""Requests of one walk at once."""
MAX_RANGES: Final = 4096
_PAGE: Final = 1000
_FIRST_PAGE: Final = 2000
"""More than origins give at once: their answer shows how they repeat such a number."""
_FREE_SPLITS: Final = 48
_PAGES_A_SPLIT: Final = 8
_ALPHABET: Final = 512


class PageSource(Protocol):
    """The source of pages: namespace.origin_pages."""

    async def fetch(self, wanted: PageRequest, form: ListingForm, *, is_awaited: bool = True) -> ListedEntries:
        """Requests a page. `is_awaited`: a client waits for it."""


class SnapshotWalk:
    """A walk. `parallel`: walkers at once."""

    def __init__(
        self,
        snapshot: Snapshot,
        pages: PageSource,
        parallel: int = PARALLEL,
    ) -> None:
        self.snapshot = snapshot
        self._pages = pages
        self._parallel = parallel
        self._waiting: list[KeyRange] = []
        """Ranges that no walker lists; the last is listed next."""
        self._urgent: list[KeyRange] = []
        """The waiting ranges that a client waits for: a walker leaves its range for one."""
        self._active: set[KeyRange] = set()
        self._alphabet: list[str] = []
        self._splits = 0
        self._listed_pages = 0
        self._changed = asyncio.Event()
        """Replaced at each change."""
        self._is_ended = False
        self._clients = 0

    async def run(self) -> None:
        """Lists the namespace; `end` wakes who waits for the last of it. Raises OriginError, StorageError, Throttled,
        S3Error."""
        snapshot = self.snapshot
        first = snapshot.ranges[0]
        page = await self._fetch("", _FIRST_PAGE)
        if len(page.keys) > _PAGE:
            raise OriginBroken("listing: pages of more than a thousand keys")
        snapshot.echoed_max_keys = page.max_keys if page.max_keys != str(_FIRST_PAGE) else None
        adding = self._add(first, page)
        del page
        await adding
        if not first.is_listed:
            self._waiting.insert(0, first)
        if self._waiting or self._urgent:
            failure = ""
            try:
                async with asyncio.TaskGroup() as walkers:
                    for number in range(self._parallel):
                        walkers.create_task(self._walk(), name=f"list {snapshot.bucket}/{snapshot.prefix} {number}")
            except* ForebayError as failed:
                failure = str(failed.exceptions[0])
            if failure:  # outside: Python 3.11.2 makes a group of what an except* block raises
                raise OriginBroken(failure)
        snapshot.is_complete = not self._is_ended

    def end(self) -> None:
        """Ends the walk early, and wakes its waiters."""
        self._is_ended = True
        self._notify()

    async def wait_changed(self) -> None:
        """Returns after the next page, or the end. Meanwhile the walk is demand, and background work otherwise."""
        self._clients += 1
        try:
            await self._changed.wait()
        finally:
            self._clients -= 1

    def request_position(self, position: str) -> None:
        """Has the keys behind `position` listed next: a client waits for them."""
        snapshot = self.snapshot
        found = snapshot.range_of(position, inclusive=False)
        if found.is_listed:
            return
        if position > found.arrived and len(snapshot.ranges) < MAX_RANGES:
            self._urgent.append(snapshot.split(found, position))
        elif found in self._waiting:
            self._waiting.remove(found)
            self._urgent.append(found)
        self._notify()

    async def _walk(self) -> None:
        while True:
            listed = self._next_range() if not self._is_ended else None
            if listed is None:
                if not self._active:
                    return
                await self._changed.wait()
                continue
            self._active.add(listed)
            while not listed.is_listed:
                await self._add(listed, await self._fetch(listed.frontier, _PAGE))
                if self._urgent or self._is_ended:
                    break
            self._active.discard(listed)
            if not listed.is_listed:
                self._waiting.insert(0, listed)
            self._notify()

    async def _fetch(self, after: str, limit: int) -> ListedEntries:
        snapshot = self.snapshot
        wanted = PageRequest(snapshot.bucket, snapshot.prefix, after, limit)
        page = await self._pages.fetch(wanted, snapshot.form, is_awaited=self._clients > 0)
        if page.keys and not (page.keys[0] > after and page.keys[0].startswith(snapshot.prefix)):
            raise OriginBroken("listing: the origin does not begin where it should")
        return page

    async def _add(self, listed: KeyRange, page: ListedEntries) -> None:
        self._listed_pages += 1
        if page.keys and len(self._alphabet) < _ALPHABET:
            # Of a sample: the first and the last show the characters that vary, and one in the middle.
            sample = "".join((page.keys[0], page.keys[len(page.keys) // 2], page.keys[-1]))
            if not set(self._alphabet).issuperset(sample):
                self._alphabet = sorted({*self._alphabet, *sample})
        adding = self.snapshot.add(listed, page)
        del page
        await adding
        self._notify()

    def _next_range(self) -> KeyRange | None:
        for ranges in (self._urgent, self._waiting):
            if ranges:
                return ranges.pop()
        if self._splits > _FREE_SPLITS + self._listed_pages // _PAGES_A_SPLIT:
            return None
        # The fewer characters both ends have in common, the more lies between. Only ranges of which a page has come.
        largest = sorted(
            (each for each in self._active if not each.is_listed and each.arrived != each.low),
            key=lambda each: common_length(each.arrived, each.high),
        )
        for each in largest:
            key = split_key(each.arrived, each.high, self._alphabet)
            if key is not None:
                self._splits += 1
                return self.snapshot.split(each, key)
        return None

    def _notify(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()
