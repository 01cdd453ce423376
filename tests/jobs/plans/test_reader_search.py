"""The search for a plan's reader: due after many stray reads, and found where these are near one another."""

from collections.abc import Sequence

from forebay.jobs.plans.entry_access import EntryAccess
from forebay.jobs.plans.plan_entries import PlanEntry
from forebay.jobs.plans.plan_window import SPREAD
from forebay.jobs.plans.reader_search import STRAYS, ReaderSearch


class EntriesAt:
    """Entries of a plan: each key is the number of its entry."""

    count = 1 << 20

    def read(self, start: int, stop: int) -> list[PlanEntry]:
        return [PlanEntry(str(number), 0, None) for number in range(start, stop)]

    def find(self, key: str, after: int = 0) -> int | None:
        return int(key) if key.isdecimal() else None

    def close(self) -> None:
        pass


def searching(keys: Sequence[str]) -> tuple[ReaderSearch, EntryAccess]:
    """A search after stray reads, enough of them, of which `keys` are the last."""
    entries = EntryAccess(EntriesAt())
    search = ReaderSearch(entries)
    for key in ["elsewhere"] * (STRAYS - len(keys)) + list(keys):
        assert not search.is_due
        search.stray_read(key)
    return search, entries


async def test_the_reader_is_where_the_last_reads_are() -> None:
    search, _ = searching(["5003", "5001", "5002", "5000"])
    due = [search.is_due]
    search.begin()
    due.append(search.is_due)
    assert await search.position() == 5000
    assert [*due, search.is_due] == [True, False, False]


async def test_scattered_reads_are_no_reader() -> None:
    search, _ = searching(["1", "2", "3", str(SPREAD + 2)])
    assert await search.position() is None
    search, _ = searching(["1", "2", "3", "elsewhere"])
    assert await search.position() is None


async def test_nothing_is_found_once_the_plan_has_ended() -> None:
    search, entries = searching(["1", "2", "3", "4"])
    entries.close()
    assert await search.position() is None


def test_a_read_of_the_window_ends_the_row() -> None:
    search, _ = searching(["1"])
    search.entry_read()
    assert not search.is_due
