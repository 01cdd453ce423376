"""Obsolete records: records of uploads that have ended, and of writes that were refused or superseded.

settle ──> the drainer is here:      it settles them
       └─> it is in another worker:  it does, unless it ends before that; its successor continues
"""

from collections.abc import Callable, Container, Sequence

from forebay.storage.journal.log_writer import RecordId


class ObsoleteRecords:
    """The obsolete records of one worker. `settle_soon(records)`: see shown_records.RecordListener."""

    def __init__(self, settle_soon: Callable[[Sequence[RecordId]], bool]) -> None:
        self._settle_soon = settle_soon
        self._left: dict[RecordId, Sequence[RecordId]] = {}
        """The records that another worker is to settle, by the last of them."""

    def settle(self, records: Sequence[RecordId]) -> bool:
        """Has records settled. Returns whether this worker does it."""
        is_settled = self._settle_soon(records)
        if records and not is_settled:
            self._left[records[-1]] = records
        return is_settled

    def settle_left(self, needed: Container[RecordId]) -> None:
        """Settles the records that the former drainer was to settle, except the `needed` ones."""
        left, self._left = self._left, {}
        for records in left.values():
            self.settle([record for record in records if record not in needed])

    def forget(self, record: RecordId) -> None:
        """A record is settled."""
        self._left.pop(record, None)
