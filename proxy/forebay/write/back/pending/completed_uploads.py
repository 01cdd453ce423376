"""Completed uploads whose objects are not at the origin yet: which records are settled with them.

    completed ──> its records, and the parts that the completion lists ──settled──> forgotten

A drainer accepts one completion of an upload, and refuses one by another list that comes at once. Where it has ended
before it could settle that one, nobody knows which of both was acknowledged: both are carried out, as they were
written, and the last one settles the parts.
"""

from collections.abc import Iterator, Sequence

from forebay.storage.journal.log_writer import RecordId
from forebay.write.back.pending.accepted_write import AcceptedWrite


class _CompletedUpload:
    __slots__ = ("completions", "listed", "records")

    def __init__(self) -> None:
        self.records: list[RecordId] = []
        """The records of the upload and of its parts."""
        self.completions: set[RecordId] = set()
        self.listed: dict[RecordId, None] = {}
        """The parts that the completions list: nothing but the arrival of their objects settles them."""


class CompletedUploads:
    """The completed uploads of one worker."""

    def __init__(self) -> None:
        self._by_id: dict[str, _CompletedUpload] = {}
        self._uploads: dict[RecordId, str] = {}
        """The id of the upload, by the record of the completion."""

    def __contains__(self, upload_id: str) -> bool:
        return upload_id in self._by_id

    def __iter__(self) -> Iterator[RecordId]:
        """Yields the completions."""
        yield from list(self._uploads)

    def add(self, completion: RecordId, write: AcceptedWrite, records: Sequence[RecordId]) -> None:
        """Adds a completion. `records`: of its upload and of all its parts, where no other has ended it."""
        found = self._by_id.setdefault(write.upload_id, _CompletedUpload())
        found.records += records
        found.completions.add(completion)
        found.listed.update((part.record, None) for part in write.parts)
        self._uploads[completion] = write.upload_id

    def lists(self, upload_id: str, part: RecordId) -> bool:
        """Returns whether a completion of the upload lists a part."""
        found = self._by_id.get(upload_id)
        return found is not None and part in found.listed

    def listed(self) -> set[RecordId]:
        """Returns the parts that completions list."""
        return {part for each in self._by_id.values() for part in each.listed}

    def settled_with(self, completion: RecordId) -> list[RecordId]:
        """Returns the records that are settled behind a completion: none, if another one needs them."""
        found = self._by_id.get(self._uploads.get(completion, ""))
        if found is None or found.completions != {completion}:
            return []
        return list(dict.fromkeys((*found.records, *found.listed)))

    def forget(self, completion: RecordId) -> None:
        """A completion is settled."""
        upload_id = self._uploads.pop(completion, None)
        if upload_id is not None:
            self._by_id[upload_id].completions.discard(completion)
            if not self._by_id[upload_id].completions:
                del self._by_id[upload_id]
