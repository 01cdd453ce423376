"""The search for a plan's reader: due after many stray reads, and found where these are near one another."""

from collections.abc import Sequence
from random import Random

from forebay.jobs.plans.entry_access import EntryAccess
from forebay.jobs.plans.plan_entries import PlanEntry
from forebay.jobs.plans.plan_window import SPREAD, WindowEntry
from forebay.jobs.plans.reader_search import STRAYS, ReaderSearch


class EntriesAt:
    """Entries of a plan: each key is the number of its entry."""

    count = 1 << 20

    def read(self, start: int, stop: int) -> list[PlanEntry]:
        return [PlanEntry(str(number), 0, None) for number in range(start, stop)]

    def find(self, key: str, after: int = 0) -> int | None:
        return int(key) if key.isdecimal() and int(key) >= after else None

    def close(self) -> None:
        pass


def searching(keys: Sequence[str]) -> tuple[ReaderSearch, EntryAccess]:
    """A search after stray reads, enough of them, of which `keys` are the last."""
    entries = EntryAccess(EntriesAt())
    search = ReaderSearch(entries)
    for key in [f"elsewhere {number}" for number in range(STRAYS - len(keys))] + list(keys):
        assert not search.is_due
        search.read_outside_window(key)
    return search, entries


async def test_the_reader_is_where_the_last_reads_are() -> None:
    search, _ = searching(["5003", "5001", "5002", "5000"])
    due = [search.is_due]
    search.begin()
    due.append(search.is_due)
    assert await search.position(0, 0) == 5000
    assert [*due, search.is_due] == [True, False, False]


async def test_scattered_reads_are_no_reader() -> None:
    search, _ = searching(["1", "2", "3", str(SPREAD + 2)])
    assert await search.position(0, 0) is None
    search, _ = searching(["1", "2", "3", "elsewhere"])
    assert await search.position(0, 0) is None


async def test_nothing_is_found_once_the_plan_has_ended() -> None:
    search, entries = searching(["1", "2", "3", "4"])
    entries.close()
    assert await search.position(0, 0) is None


def test_a_read_of_the_window_ends_the_row() -> None:
    search, _ = searching(["1"])
    search.entry_read(WindowEntry(0, PlanEntry("0")))
    assert not search.is_due


class ListedEntries:
    """Entries of a plan that names keys several times."""

    def __init__(self, keys: Sequence[str]) -> None:
        self.keys, self.count = keys, len(keys)
        self.searches = 0

    def read(self, start: int, stop: int) -> list[PlanEntry]:
        return [PlanEntry(key, 0, None) for key in self.keys[start:stop]]

    def find(self, key: str, after: int = 0) -> int | None:
        self.searches += 1
        return next((at for at in range(after, self.count) if self.keys[at] == key), None)

    def close(self) -> None:
        pass


async def test_a_reader_in_a_later_epoch_of_one_plan_is_found() -> None:
    """Its keys are far from one another in the epoch before."""
    epoch, random = [str(number) for number in range(6 * SPREAD)], Random(3)
    keys = list(epoch)
    for _ in range(3):
        random.shuffle(epoch)
        keys += epoch
    for at in (6 * SPREAD + 70, 15 * SPREAD, len(keys) - 10):
        entries = ListedEntries(keys)
        search, after = ReaderSearch(EntryAccess(entries)), SPREAD
        found, searches = None, 0
        while found is None or at - found > SPREAD:
            for key in [f"elsewhere {number}" for number in range(STRAYS)] + keys[at : at + 4]:
                search.read_outside_window(key)
            found = await search.position(after, 0)
            assert found is not None, "it was passed"
            assert found <= at
            searches, after = searches + 1, found + 1
        assert searches <= 12


async def test_one_key_that_is_read_over_and_over_is_no_reader() -> None:
    search, _ = searching([])
    search.entry_read(WindowEntry(0, PlanEntry("0")))
    for _ in range(2 * STRAYS):
        search.read_outside_window("5000")
    assert not search.is_due


async def test_a_reader_of_something_else_is_searched_ever_less() -> None:
    search, searches = ReaderSearch(EntryAccess(EntriesAt())), 0
    for number in range(100 * STRAYS):
        search.read_outside_window(f"elsewhere {number}")
        if search.is_due:
            search.begin()
            searches += 1
            assert await search.position(0, 0) is None
    assert searches <= 8
