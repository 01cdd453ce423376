"""Pending uploads: the multipart uploads of the journal, and their parts, in every worker.

    create ──> upload ──part──> its number: the last one counts ──complete──> an object, with the parts that it lists
                                                                ──abort──> nothing

A part that is replaced is kept until the upload ends: a completion under way may have listed it.

The upload id is Forebay's own, so a request shows by itself whether its upload is here (`is_local`).
"""

import secrets
from dataclasses import dataclass, field
from typing import Final

from forebay.core.names import ObjectName
from forebay.storage.journal.log_writer import RecordId
from forebay.storage.journal.pending_objects import BodyPart
from forebay.write.back.accepted_write import AcceptedPart, AcceptedUpload

_PREFIX: Final = "forebay-"
_ID_BYTES: Final = 16


def new_upload_id() -> str:
    """Returns the id of a new upload."""
    return _PREFIX + secrets.token_hex(_ID_BYTES)


def is_local(upload_id: str) -> bool:
    """Returns whether an upload id is of an upload in the journal, of this node or another one."""
    return upload_id.startswith(_PREFIX) and len(upload_id) == len(_PREFIX) + 2 * _ID_BYTES


@dataclass(frozen=True, slots=True)
class PendingPart:
    """A part, and where it is."""

    record: RecordId
    part: AcceptedPart
    bytes: tuple[BodyPart, ...]


@dataclass(slots=True)
class PendingUpload:
    """An upload that is neither completed nor aborted."""

    record: RecordId
    upload: AcceptedUpload
    parts: dict[int, PendingPart] = field(default_factory=dict)
    replaced: list[PendingPart] = field(default_factory=list)
    """Parts of which a later one has the number."""

    @property
    def records(self) -> list[RecordId]:
        """Its own, and those of all its parts."""
        return [self.record, *(part.record for part in (*self.parts.values(), *self.replaced))]

    @property
    def size(self) -> int:
        """Bytes of all its parts."""
        return sum(part.part.size for part in (*self.parts.values(), *self.replaced))

    @property
    def changed_at(self) -> float:
        """When its last part was accepted, or the upload itself; in seconds since the epoch."""
        return max((part.part.accepted_at for part in self.parts.values()), default=self.upload.accepted_at)


class PendingUploads:
    """The uploads of the node."""

    def __init__(self) -> None:
        self.by_id: dict[str, PendingUpload] = {}
        self.parts: dict[RecordId, PendingPart] = {}
        """Every part whose record is not settled, also replaced ones and those of completed uploads."""

    def find(self, name: ObjectName, upload_id: str) -> PendingUpload | None:
        """Returns an upload of this object; None: there is none."""
        upload = self.by_id.get(upload_id)
        return upload if upload is not None and upload.upload.name == name else None

    def create(self, record: RecordId, upload: AcceptedUpload) -> None:
        """Adds an upload."""
        self.by_id[upload.upload_id] = PendingUpload(record, upload)

    def add(self, part: PendingPart) -> None:
        """Adds a part."""
        self.parts[part.record] = part
        upload = self.by_id.get(part.part.upload_id)
        if upload is None:  # completed or aborted meanwhile
            return
        replaced = upload.parts.get(part.part.number)
        if replaced is not None:
            upload.replaced.append(replaced)
        upload.parts[part.part.number] = part

    def end(self, upload_id: str) -> PendingUpload | None:
        """Removes an upload that is completed or aborted, and returns it. Its parts stay until they are settled."""
        return self.by_id.pop(upload_id, None)

    def settle(self, record: RecordId) -> None:
        """Forgets a part that nothing needs any more."""
        self.parts.pop(record, None)
