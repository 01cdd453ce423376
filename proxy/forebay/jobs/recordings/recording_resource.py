"""Recordings as objects, `/<bucket>/.forebay/recordings/<name>`: downloaded from one Forebay, uploaded to another.

    who                                                 sees                                        of it
    a principal                                         recordings of its own reads and uploads,    keys that it may
                                                        and those that belong to nobody             read, now
    a principal with its own origin credential          recordings of its own reads and uploads     likewise
    anonymous                                           nothing (request.resource_router)

Names of keys are information: a download has no keys that its receiver may not read, and an upload none that its sender
may not read; its answer says how many were left out.
"""

from collections.abc import AsyncIterator, Callable, Sequence
from typing import Final

from forebay.core.buffers import Piece
from forebay.core.cooperative import run_cooperatively
from forebay.core.errors import MalformedRecording, S3Error, Throttled, access_denied
from forebay.core.heads import HeaderPairs
from forebay.core.names import ObjectName
from forebay.core.recording_info import RecordingInfo
from forebay.jobs.recordings.recording import MAX_FILE_SIZE, MIN_READS, SHARED, is_recording_name
from forebay.jobs.recordings.recording_access import RecordingAccess
from forebay.jobs.recordings.recording_filter import FilteredRecording, filter_recording
from forebay.policy.grants import may_read
from forebay.request.resource import ResourceDocument, ResourceEntry, ResourceOwner
from forebay.storage.spool import Spool

CONTENT_TYPE: Final = "application/vnd.forebay.recording"
DROPPED_HEADER: Final = "x-forebay-dropped"
MAX_AT_ONCE: Final = 2
"""Recordings that pass through memory at the same time."""


class RecordingResource:
    """The recordings of the node, to be read, sent and removed (forebay.request.resource)."""

    largest_body = MAX_FILE_SIZE

    def __init__(self, recordings: RecordingAccess, spool: Spool) -> None:
        """`spool`: where uploads are until they are whole; their bytes count there."""
        self._recordings = recordings
        self._spool = spool
        self._passing_through = 0

    async def entries(self, owner: ResourceOwner) -> Sequence[ResourceEntry]:
        """Returns the recordings that have ended. Sizes are those of the whole files."""
        infos = [each for each in await self._recordings.infos(owner.bucket) if _is_visible(each, owner)]
        return [ResourceEntry(each.name, each.file_size, each.ended or each.began) for each in _unique(infos, owner)]

    async def read(self, owner: ResourceOwner, name: str) -> ResourceDocument | None:
        """Returns the recording, without the keys that the owner may not read."""
        info = await self._find(owner, name)
        if info is None:
            return None
        content = await self._recordings.content(owner.bucket, name, info.principal)
        if content is None:
            return None
        found = await self._filter(_whole(content), owner)
        if not found.reads and found.dropped:
            return None
        return ResourceDocument(found.content, info.ended or info.began, CONTENT_TYPE)

    async def write(self, owner: ResourceOwner, name: str, body: AsyncIterator[Piece]) -> HeaderPairs:
        """Keeps an upload, without the keys that the owner may not read."""
        if not is_recording_name(name):
            raise S3Error(
                "InvalidArgument",
                "The name of a recording has up to 128 letters, digits, '.', '_' and '-', a letter or digit first.",
                ArgumentName="name",
                ArgumentValue=name,
            )
        spooled = self._spool.create()
        try:
            async for piece in body:
                await spooled.reserve(len(piece))
                spooled.append(piece)
                await spooled.spill()
            found = await self._filter(spooled.pieces(), owner)
        finally:
            spooled.release()
        if found.reads < MIN_READS:
            raise S3Error(
                "InvalidArgument",
                f"A recording has at least {MIN_READS} reads of keys that its sender may read, this one {found.reads}.",
            )
        try:
            await self._recordings.store(owner.bucket, name, owner.principal.id, found.content)
        except Throttled as refused:
            raise S3Error("SlowDown", f"{refused}.") from None
        return ((DROPPED_HEADER, str(found.dropped)),) if found.dropped else ()

    async def remove(self, owner: ResourceOwner, name: str) -> None:
        """Removes a recording of the owner's."""
        info = await self._find(owner, name)
        if info is None:
            return
        if info.principal != owner.principal.id:
            raise access_denied(f"the recording {name} belongs to nobody; the admin port removes it")
        await self._recordings.remove(owner.bucket, name, info.principal)

    async def _find(self, owner: ResourceOwner, name: str) -> RecordingInfo | None:
        infos = [each for each in await self._recordings.infos(owner.bucket) if each.name == name]
        return next(iter(_unique([each for each in infos if _is_visible(each, owner)], owner)), None)

    async def _filter(self, pieces: AsyncIterator[bytes], owner: ResourceOwner) -> FilteredRecording:
        if self._passing_through >= MAX_AT_ONCE:
            raise Throttled("other recordings are being read")
        self._passing_through += 1
        reason = ""
        try:
            content = b"".join([piece async for piece in pieces])
            return await run_cooperatively(filter_recording(content, _reader(owner)))
        except MalformedRecording as malformed:
            reason = str(malformed)
        finally:
            self._passing_through -= 1
        raise S3Error("InvalidArgument", f"The recording can't be read: {reason}.")


def _is_visible(info: RecordingInfo, owner: ResourceOwner) -> bool:
    if info.state == "recording":
        return False
    return info.principal == owner.principal.id or (info.principal == SHARED and owner.identity is None)


def _unique(infos: list[RecordingInfo], owner: ResourceOwner) -> list[RecordingInfo]:
    """Returns one recording for each name: the owner's, if there is one."""
    by_name = {each.name: each for each in sorted(infos, key=lambda each: each.principal == owner.principal.id)}
    return list(by_name.values())


def _reader(owner: ResourceOwner) -> Callable[[str], bool]:
    principal, bucket = owner.principal, owner.bucket
    return lambda key: may_read(principal, ObjectName(bucket, key))


async def _whole(content: bytes) -> AsyncIterator[bytes]:
    yield content
