"""The settled writes that are remembered, so that late messages and records are recognised.

    by record    a message about one of them may come late, and a scan may have found it before it was settled
    by object    what was written to the journal before the last one that arrived must not be carried out any more:

    a worker has a record durable, and ends before another worker knows of it
    the client tries again elsewhere ──> accepted, carried out, settled
    the first record is found: carried out now, it would put the older bytes over the newer ones

The client of such a record was never answered, and its write was followed by one that everybody saw: it is settled
without being carried out. So is one of two writes at the same time whose record another worker heard of only when the
other one, written later, had arrived: it was replaced at once.
"""

from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from forebay.core.names import ObjectName
from forebay.storage.journal.log_writer import RecordId
from forebay.write.back.pending.accepted_write import AcceptedWrite

REMEMBERED: Final = 65_536
"""Settled records that are kept in mind while no scan is under way, and objects."""


class SettledRecords:
    """The settled records of one worker."""

    def __init__(self) -> None:
        self._records: OrderedDict[RecordId, None] = OrderedDict()
        self._scans = 0
        """The number of scans under way."""

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


class LastSettled:
    """The objects of the last writes that the origin has, and when the last one of each was written, on the node's
    clock."""

    def __init__(self) -> None:
        self._written: OrderedDict[ObjectName, int] = OrderedDict()

    def add(self, name: ObjectName, written: int) -> None:
        """The origin has a write of the object."""
        self._written[name] = max(written, self._written.get(name, 0))
        self._written.move_to_end(name)
        if len(self._written) > REMEMBERED:
            self._written.popitem(last=False)

    def supersedes(self, write: AcceptedWrite) -> bool:
        """Whether the origin has a write of the same object that was written later."""
        return write.interval.written < self._written.get(write.name, 0)
