"""The admin port's verbs about recordings, over one worker: the recordings of the node, wherever they are kept."""

import asyncio
from base64 import b64decode, b64encode
from collections.abc import Callable
from typing import Final

from forebay.core.errors import MalformedRecording
from forebay.core.names import ObjectName
from forebay.core.recording_info import RecordingInfo
from forebay.jobs.recordings.recorded_reuse import MAX_EPOCHS, WHOLE_EPOCH, recorded_reuse
from forebay.jobs.recordings.recording import MAX_FILE_SIZE, SHARED, is_recording_name
from forebay.jobs.recordings.recording_access import RecordingAccess, admin_choice
from forebay.jobs.state.inventory import Inventory, InventoryEntry
from forebay.protocol.recordings.recording_file import RecordingDecoder
from forebay.server.admin.control import RecordingVerbs
from forebay.server.admin.schema.recording_schema import (
    PART_SIZE,
    RecordingList,
    RecordingPart,
    RecordingRemoved,
    RecordingStored,
)
from forebay.server.admin.worker.advice_rows import AdvisedSet

_BAD_NAME: Final = "the name of a recording has up to 128 letters, digits, '.', '_' and '-', a letter or digit first"


class WorkerRecordings(RecordingVerbs):
    """Answers the admin port. An operator's uploads have no owner."""

    def __init__(self, recordings: RecordingAccess) -> None:
        self._recordings = recordings

    async def recordings(self, bucket: str = "") -> RecordingList:
        """All recordings, or those of a bucket."""
        infos = await self._recordings.infos(bucket or None)
        return RecordingList(tuple(infos))

    async def recording_part(self, bucket: str, name: str, offset: int = 0) -> RecordingPart | None:
        """A part of the file; None: there is no such recording that has ended."""
        found = await self._read(bucket, name)
        if found is None:
            return None
        info, content = found
        stop = offset + PART_SIZE
        encoded = b64encode(content[offset:stop]).decode()
        return RecordingPart(info, offset, encoded, stop if stop < len(content) else None)

    async def store_recording(self, bucket: str, name: str, content: str) -> RecordingStored:
        """Keeps an upload."""
        decoded = b64decode(content)
        if not is_recording_name(name):
            return RecordingStored(None, _BAD_NAME)
        if len(decoded) > MAX_FILE_SIZE:
            return RecordingStored(None, f"it has more than {MAX_FILE_SIZE} bytes")
        try:
            return RecordingStored(await self._recordings.store(bucket, name, SHARED, decoded))
        except MalformedRecording as malformed:
            return RecordingStored(None, str(malformed))

    async def save_recording(
        self, bucket: str, name: str, source: str = "", shared: bool = False
    ) -> RecordingStored | None:
        """Names a recording, by default the latest automatic one; None: there is none."""
        if not is_recording_name(name):
            return RecordingStored(None, _BAD_NAME)
        info = admin_choice(await self._recordings.infos(bucket), source) if source else None
        principal = info.principal if info is not None else ""
        saved = await self._recordings.save(bucket, source, name, principal, SHARED if shared else None)
        return RecordingStored(saved) if saved is not None else None

    async def remove_recording(self, bucket: str, name: str) -> RecordingRemoved | None:
        """Removes a recording; None: there is none."""
        info = admin_choice(await self._recordings.infos(bucket), name)
        if info is None or not await self._recordings.remove(bucket, name, info.principal):
            return None
        return RecordingRemoved(info)

    async def inventory(self, bucket: str, name: str) -> Inventory | None:
        """The objects that were read, in the recorded order; None: there is no such recording."""
        found = await self._read(bucket, name)
        if found is None:
            return None
        inventory = Inventory()
        for page in RecordingDecoder(found[1]).pages():
            await asyncio.sleep(0)  # a page is worth some milliseconds
            for key, start, length, is_whole in page.reads:
                if is_whole:
                    inventory.add(InventoryEntry(bucket, key))
                else:
                    inventory.add(InventoryEntry(bucket, key, None, start, start + length))
        return inventory

    async def is_being_made(self, bucket: str, name: str) -> bool:
        """Whether a recording of this name has not ended yet."""
        return any(info.name == name and info.state == "recording" for info in await self._recordings.infos(bucket))

    async def recorded_sets(self, block_of: Callable[[ObjectName], int]) -> list[AdvisedSet]:
        """The data sets of which epochs were recorded, each by those of the reader that has read most of it.
        `block_of`: bytes of an object's blocks."""
        readers: dict[str, dict[tuple[str, str], list[RecordingInfo]]] = {}
        for info in await self._recordings.infos(None):
            if info.track and info.state != "recording":
                readers.setdefault(info.track, {}).setdefault((info.bucket, info.principal), []).append(info)
        found = []
        for name, own in sorted(readers.items()):
            infos = max(own.values(), key=lambda each: max(info.reads for info in each))
            whole = [info for info in infos if info.reads >= WHOLE_EPOCH * max(each.reads for each in infos)]
            latest = sorted(whole, key=lambda info: info.began)[-MAX_EPOCHS:]
            files = [await self._recordings.content(info.bucket, info.name, info.principal) for info in latest]
            epochs = [content for content in files if content is not None]
            if epochs and (page := RecordingDecoder(epochs[0]).next_page()) is not None:
                block = block_of(ObjectName(latest[0].bucket, page.reads[0].key))
                recorded = await asyncio.to_thread(recorded_reuse, epochs, block)
                is_whole = any(info.is_whole for info in latest)
                found.append(AdvisedSet.of_recordings(name, recorded, is_whole=is_whole))
        return found

    async def _read(self, bucket: str, name: str) -> tuple[RecordingInfo, bytes] | None:
        info = admin_choice(await self._recordings.infos(bucket), name)
        if info is None:
            return None
        content = await self._recordings.content(bucket, name, info.principal)
        return (info, content) if content is not None else None
