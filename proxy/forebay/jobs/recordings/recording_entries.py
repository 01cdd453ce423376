"""The reads of a recording as entries of a plan. From its file in memory, a page at a time.

Read forwards, as a plan does, each page is decoded once. A file is verified as it is read: what is damaged is a
ValueError.
"""

from collections.abc import Iterator

from forebay.core.errors import MalformedRecording
from forebay.core.events import RecordedRead
from forebay.jobs.plans.plan_entries import PlanEntry
from forebay.protocol.recordings.recording_file import RecordingDecoder


class RecordingEntries:
    """Implements forebay.jobs.plans.plan_entries.OrderedEntries. `count`: the reads that the file has."""

    def __init__(self, content: bytes, count: int) -> None:
        self.count = count
        self._content = content
        self._pages = _reads(content)
        self._page: tuple[RecordedRead, ...] = ()
        self._first = 0
        """The position of the page's first read."""

    def close(self) -> None:
        """Forgets the file."""
        self._content, self._pages, self._page = b"", iter(()), ()

    def read(self, start: int, stop: int) -> list[PlanEntry]:
        """Returns the reads from `start` up to `stop`, clipped."""
        if start < self._first:
            self._pages, self._page, self._first = _reads(self._content), (), 0
        found = list[PlanEntry]()
        stop = min(stop, self.count)
        while start < stop:
            behind = self._first + len(self._page)
            if start >= behind:
                self._first, self._page = behind, next(self._pages, ())
                if not self._page:
                    raise ValueError("the recording has fewer reads than it should have")
                continue
            for key, first, length, is_whole in self._page[start - self._first : stop - self._first]:
                found.append(PlanEntry(key, first, None if is_whole else first + length))
            start = min(stop, behind)
        return found

    def find(self, key: str, after: int = 0) -> int | None:
        """Returns the position of the first read of `key` from `after` on; None: there is none. Reads much of the
        file."""
        position = 0
        for page in _reads(self._content):
            for read in page:
                if read.key == key and position >= after:
                    return position
                position += 1
        return None


def _reads(content: bytes) -> Iterator[tuple[RecordedRead, ...]]:
    try:
        if content:
            for page in RecordingDecoder(content).pages():
                yield page.reads
    except MalformedRecording as malformed:
        raise ValueError(str(malformed)) from None
