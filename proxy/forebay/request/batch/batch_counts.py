"""The counts of a batch: how many entries were answered under the same labels, and their bytes by source.

They are reported once, at the end of the batch: an event for each combination of labels, not for each entry. Bytes of
entries that were found in the tiers join the record of the batch then; an entry that was read has a record of its own.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from forebay.core.events import BatchEntriesAnswered, Observe
from forebay.core.request_record import CacheStatus, RequestRecord
from forebay.request.batch.cached_entries import EntrySource


@dataclass(slots=True)
class _Entries:
    """Entries with the same labels. `sent`: bytes by source."""

    count: int = 0
    sent: Counter[str] = field(default_factory=Counter)


class BatchCounts:
    """The counts of one batch."""

    def __init__(self) -> None:
        self._entries: dict[tuple[str, CacheStatus | None, int], _Entries] = {}
        self._found = Counter[str]()
        """Bytes that were found in the tiers, by source."""

    def count(self, rule: str, cache: CacheStatus | None, status: int, sent: Mapping[str, int]) -> None:
        """Counts an entry that was denied, or read. `sent`: its bytes by source."""
        self._labelled(rule, cache, status).sent.update(sent)

    def count_found(self, rule: str, source: EntrySource, status: int, size: int) -> None:
        """Counts an entry of `size` bytes that was found in a tier."""
        cache: CacheStatus = "hit-memory" if source == "memory" else "hit-ssd"
        self._labelled(rule, cache, status).sent[source] += size
        self._found[source] += size

    def report(self, record: RequestRecord, observe: Observe) -> None:
        """Adds the sources of the bytes to the batch's record, and reports all entries."""
        for source, size in self._found.items():
            record.count_sent(source, size)
        for (rule, cache, status), entries in self._entries.items():
            observe(BatchEntriesAnswered(rule, cache, status, entries.count, entries.sent))

    def _labelled(self, rule: str, cache: CacheStatus | None, status: int) -> _Entries:
        """The entries with these labels, with one more counted."""
        entries = self._entries.get((rule, cache, status))
        if entries is None:
            entries = self._entries[rule, cache, status] = _Entries()
        entries.count += 1
        return entries
