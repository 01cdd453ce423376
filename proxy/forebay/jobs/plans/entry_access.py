"""Entry access: threads read a plan's entries, and the loop closes them; the files close after the last read."""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

from forebay.jobs.plans.plan_entries import OrderedEntries, PlanEntry


class EntryAccess:
    """OrderedEntries that any thread may close. A number of a closed file may be another file's by the time that a
    thread reads from it."""

    def __init__(self, entries: OrderedEntries) -> None:
        self.count = entries.count
        self._entries = entries
        self._lock = Lock()
        self._readings = 0
        self._is_closed = False

    def read(self, start: int, stop: int) -> list[PlanEntry]:
        """See OrderedEntries. Raises ValueError once closed."""
        with self._reading():
            return self._entries.read(start, stop)

    def find(self, key: str, after: int = 0) -> int | None:
        """See OrderedEntries. Raises ValueError once closed."""
        with self._reading():
            return self._entries.find(key, after)

    def close(self) -> None:
        """Ends the access to entries. Returns at once; files close when nothing reads from them."""
        with self._lock:
            is_last = not self._is_closed and not self._readings
            self._is_closed = True
        if is_last:
            self._entries.close()

    @contextmanager
    def _reading(self) -> Iterator[None]:
        with self._lock:
            if self._is_closed:
                raise ValueError("the plan has ended")
            self._readings += 1
        try:
            yield
        finally:
            self._end_reading()

    def _end_reading(self) -> None:
        with self._lock:
            self._readings -= 1
            is_last = self._is_closed and not self._readings
        if is_last:
            self._entries.close()
