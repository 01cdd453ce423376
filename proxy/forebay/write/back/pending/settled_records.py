"""The settled records that are kept in mind: a message about one of them may come late, and a scan may have found it
before it was settled."""

from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from forebay.storage.journal.log_writer import RecordId

REMEMBERED: Final = 65_536
"""Settled records that are kept in mind while no scan is under way."""


class SettledRecords:
    """Those of one worker."""

    def __init__(self) -> None:
        self._records: OrderedDict[RecordId, None] = OrderedDict()
        self._scans = 0
        """Under way."""

    def __contains__(self, record: RecordId) -> bool:
        return record in self._records

    def add(self, record: RecordId) -> None:
        """A record is settled."""
        self._records[record] = None
        self._bound()

    @contextmanager
    def remembering(self) -> Iterator[None]:
        """While the journal is scanned and the scan is shown, all that is settled is kept in mind: it may be found."""
        self._scans += 1
        try:
            yield
        finally:
            self._scans -= 1
            self._bound()

    def _bound(self) -> None:
        while not self._scans and len(self._records) > REMEMBERED:
            self._records.popitem(last=False)
