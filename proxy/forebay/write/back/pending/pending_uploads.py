"""Pending uploads: the multipart uploads of the journal, and their parts, in every worker.

    create ──> upload ──part──> its number: the last one counts ──complete──> an object, with the parts that it lists
        │                                                       ──abort──> nothing
        └──move──> at the origin (upload_moves): its parts are carried there, and settled, until none is left here

A part that is replaced is kept until the upload ends: a completion under way may have listed it. A completed upload is
remembered: its completion may be repeated, by a client that has missed the answer.

The upload id is Forebay's own, so a request shows by itself whether its upload is here (`is_local`).
"""

import asyncio
import secrets
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from forebay.core.heads import HeaderPairs
from forebay.core.names import ObjectName
from forebay.protocol.body.checksum_headers import checksums_in
from forebay.storage.journal.log_writer import RecordId
from forebay.storage.journal.pending_objects import BodyPart
from forebay.write.back.pending.accepted_write import (
    AbortedUpload,
    AcceptedPart,
    AcceptedUpload,
    AcceptedWrite,
    MovedUpload,
)
from forebay.write.body_digest import crc_in
from forebay.write.repeated_completion import completion_digest

_PREFIX: Final = "forebay-"
_ID_BYTES: Final = 16
_RANDOM_BYTES: Final = 4
COMPLETED: Final = 4096
"""Completed uploads that are remembered."""


def new_upload_id(stamp: int) -> str:
    """Returns the id of a new upload: in listings, those of a key are in the order in which they were created. `stamp`:
    on the node's clock."""
    return f"{_PREFIX}{stamp:0{2 * (_ID_BYTES - _RANDOM_BYTES)}x}{secrets.token_hex(_RANDOM_BYTES)}"


def created_at(upload_id: str) -> int:
    """Returns when an upload of the journal was created, on the node's clock. Raises ValueError for another one."""
    return int(upload_id.removeprefix(_PREFIX)[: -2 * _RANDOM_BYTES], 16)


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
    """Parts of which a later one has the number, and those that were joined of small ones."""
    moves: tuple[RecordId, ...] = ()
    """The records that say that it goes on at the origin: one, but for one whose sync had failed."""
    moved: int = 0
    """The time on the node's clock at which the last of them was written."""
    origin_id: str = ""
    """The upload's id at the origin; empty: it is in the journal."""

    @property
    def records(self) -> list[RecordId]:
        """The records of the upload and of all its parts."""
        return [self.record, *self.moves, *(part.record for part in (*self.parts.values(), *self.replaced))]

    @property
    def size(self) -> int:
        """Bytes of all its parts."""
        return sum(part.part.size for part in (*self.parts.values(), *self.replaced))

    @property
    def changed(self) -> int:
        """Returns when its last part was about to be written, or the upload was created; on the node's clock."""
        return max((part.part.stamp for part in self.parts.values()), default=created_at(self.upload.upload_id))

    @property
    def accepted_at(self) -> float:
        """Returns the time of `changed` in seconds since the epoch, as the clock was set then."""
        return max((part.part.accepted_at for part in self.parts.values()), default=self.upload.accepted_at)


class AcceptedCompletion(NamedTuple):
    """The completion of an upload, which may be repeated."""

    name: ObjectName
    etag: str
    sums: HeaderPairs
    """The checksums and the CRC-64 of the object, as headers."""
    record: RecordId
    request: str
    """The digest of the request that its client sent (`completion_digest`)."""
    is_at_origin: bool = False


class PendingUploads:
    """The uploads of the node."""

    def __init__(self) -> None:
        self.by_id: dict[str, PendingUpload] = {}
        self.parts: dict[RecordId, PendingPart] = {}
        """Every part whose record is not settled, also replaced ones and those of completed uploads."""
        self.carried: set[RecordId] = set()
        """Parts that this worker settles, as the origin has them."""
        self._completed: OrderedDict[str, list[AcceptedCompletion]] = OrderedDict()
        self._waiting: list[tuple[Callable[[], bool], asyncio.Future[None]]] = []

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
        if part.part.is_joined:  # its completion alone knows it, and is under way
            upload.replaced.append(part)
            return
        replaced = upload.parts.get(part.part.number)
        if replaced is not None and replaced.part.stamp > part.part.stamp:  # it came the other way round
            upload.replaced.append(part)
            return
        if replaced is not None:
            upload.replaced.append(replaced)
        upload.parts[part.part.number] = part

    def move(self, record: RecordId, moved: MovedUpload) -> PendingUpload | None:
        """Notes that an upload goes on at the origin. Returns it; None: it has ended."""
        upload = self.by_id.get(moved.upload_id)
        if upload is not None:
            upload.moves = (*upload.moves, record)
            if moved.moved > upload.moved:
                upload.moved, upload.origin_id = moved.moved, moved.origin_id
        return upload

    def of_origin(self, name: ObjectName, origin_id: str) -> PendingUpload | None:
        """Returns the upload that goes on at the origin under this id; None: there is none."""
        found = (each for each in self.by_id.values() if each.origin_id == origin_id and each.upload.name == name)
        return next(found, None) if origin_id else None

    def end(self, upload_id: str) -> PendingUpload | None:
        """Removes an upload that is completed or aborted, and returns it. Its parts stay until they are settled."""
        ended = self.by_id.pop(upload_id, None)
        self._look_again()
        return ended

    def complete(self, write: AcceptedWrite, record: RecordId, document: bytes) -> None:
        """Remembers a completion of an upload."""
        if write.facts is not None:
            etag, headers = write.facts.version.etag, write.facts.headers
            sums = (*checksums_in(headers), *crc_in(headers))
            self._remember(
                write.upload_id, AcceptedCompletion(write.name, etag, sums, record, completion_digest(document))
            )

    def end_at_origin(self, ended: AbortedUpload, record: RecordId) -> None:
        """Remembers the completion of an upload that the origin has carried out for its client."""
        if ended.completion is not None:
            completion = AcceptedCompletion(ended.name, *ended.completion[:2], record, ended.completion.request, True)
            self._remember(ended.upload_id, completion)

    def _remember(self, upload_id: str, completion: AcceptedCompletion) -> None:
        self._completed.setdefault(upload_id, []).append(completion)
        if len(self._completed) > COMPLETED:
            self._completed.popitem(last=False)

    def is_completed(self, upload_id: str) -> bool:
        """Returns whether an upload was completed, as far as is remembered."""
        return upload_id in self._completed

    def completion(self, upload_id: str, request: str) -> AcceptedCompletion | None:
        """Returns the completion of an upload that is the same one as another; None: there was none, or it is too long
        ago. `request`: what the client of the other one sent (`completion_digest`)."""
        return next((each for each in self._completed.get(upload_id, ()) if each.request == request), None)

    def settle_completion(self, write: AcceptedWrite, record: RecordId, *, is_at_origin: bool) -> None:
        """The record of a completion is settled; unless the origin has its object, it was refused, or given up."""
        found = self._completed.get(write.upload_id, [])
        kept = [
            each._replace(is_at_origin=True) if each.record == record else each
            for each in found
            if each.record != record or is_at_origin
        ]
        if kept:
            self._completed[write.upload_id] = kept
        else:
            self._completed.pop(write.upload_id, None)

    def settle(self, record: RecordId) -> None:
        """Forgets a part that is no longer needed."""
        self.carried.discard(record)
        part = self.parts.pop(record, None)
        upload = self.by_id.get(part.part.upload_id) if part is not None else None
        if part is None or upload is None:
            return
        if upload.parts.get(part.part.number) is part:
            del upload.parts[part.part.number]
        else:
            upload.replaced = [each for each in upload.replaced if each is not part]
        self._look_again()

    async def wait_for(self, condition: Callable[[], bool]) -> None:
        """Waits until a condition holds, which the settlement of a part or the end of an upload may bring about."""
        if condition():
            return
        waiter = (condition, asyncio.get_running_loop().create_future())
        self._waiting.append(waiter)
        try:
            await waiter[1]
        finally:
            self._waiting.remove(waiter)

    def _look_again(self) -> None:
        for condition, done in self._waiting:
            if not done.done() and condition():
                done.set_result(None)
