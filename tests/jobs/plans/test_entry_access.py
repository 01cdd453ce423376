"""jobs.plans.entry_access: a plan that ends while a thread reads from it."""

import threading

import pytest

from forebay.jobs.plans.entry_access import EntryAccess
from forebay.jobs.plans.plan_entries import PlanEntry


class SlowEntries:
    """Entries whose reading goes on until it is let go."""

    count = 3

    def __init__(self) -> None:
        self.begun, self.go_on = threading.Event(), threading.Event()
        self.closed = 0

    def read(self, start: int, stop: int) -> list[PlanEntry]:
        self.begun.set()
        assert self.go_on.wait(60)
        assert not self.closed, "closed beside a reading"
        return [PlanEntry("k")]

    def find(self, key: str, after: int = 0) -> int | None:
        return after

    def close(self) -> None:
        self.closed += 1


def test_files_close_behind_the_last_reading() -> None:
    slow, found = SlowEntries(), []
    entries = EntryAccess(slow)
    reader = threading.Thread(target=lambda: found.extend(entries.read(0, 3)))
    reader.start()
    assert slow.begun.wait(60)
    entries.close()
    entries.close()
    assert not slow.closed
    slow.go_on.set()
    reader.join()
    assert (found, slow.closed) == ([PlanEntry("k")], 1)


def test_nothing_is_read_of_a_closed_one() -> None:
    slow = SlowEntries()
    entries = EntryAccess(slow)
    assert (entries.count, entries.find("k", 2)) == (3, 2)
    entries.close()
    entries.close()
    assert slow.closed == 1, "a number that is closed twice may be another file's"
    for read in (lambda: entries.read(0, 3), lambda: entries.find("k")):
        with pytest.raises(ValueError, match="ended"):
            read()
    assert slow.closed == 1
