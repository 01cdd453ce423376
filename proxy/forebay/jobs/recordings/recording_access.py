"""Recordings as every worker reaches them: here, in the worker that collects the reads of the node, or by a call to it.

    resource (data port), admin port ──> LocalRecordings                      in the collector
                                    └──> RemoteRecordings ──RPC──> its LocalRecordings, in any other worker

Access is not decided here: `recording_resource` does that for clients, and the admin port is the operator's.
"""

from base64 import b64decode, b64encode
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from typing import Any, Final, Protocol

from forebay.core.cooperative import run_cooperatively
from forebay.core.errors import PeerUnavailable, Throttled
from forebay.core.recording_info import RecordingInfo
from forebay.jobs.recordings.catalogue import RecordingCatalogue
from forebay.jobs.recordings.recording import SHARED, Recording
from forebay.jobs.recordings.recording_filter import filter_recording
from forebay.peers.frames import Document


def recording_info(recording: Recording) -> RecordingInfo:
    """The facts about a recording."""
    return RecordingInfo(
        recording.bucket,
        recording.name,
        recording.state,
        recording.principal,
        recording.track,
        recording.began,
        recording.ended or None,
        recording.used or None,
        recording.run,
        recording.epoch,
        recording.reads + recording.tail_reads,
        recording.size + recording.tail_size,
        recording.file_size,
        len(recording.index),
        recording.is_whole,
    )


class RecordingAccess(Protocol):
    """The recordings of the node. Methods raise Throttled when the collecting worker is not there."""

    async def infos(self, bucket: str | None = None) -> list[RecordingInfo]:
        """All recordings, or those of a bucket, the oldest first."""
        ...

    async def content(self, bucket: str, name: str, principal: str) -> bytes | None:
        """Returns the file of a recording that has ended; None: there is none."""
        ...

    async def store(self, bucket: str, name: str, principal: str, content: bytes) -> RecordingInfo:
        """Keeps a recording, in place of one of this name. Raises MalformedRecording, Throttled."""
        ...

    async def save(
        self, bucket: str, source: str, name: str, principal: str, owner: str | None
    ) -> RecordingInfo | None:
        """Names the recording `source` of `principal`, and sets its owner (None: unchanged). Returns None if there
        is no such recording. An empty source means the latest automatic one of any owner, if need be the one in
        progress."""
        ...

    async def remove(self, bucket: str, name: str, principal: str) -> bool:
        """Removes a recording. Returns whether there was one. Raises Throttled, and leaves it, if the disk fails."""
        ...


class LocalRecordings:
    """The recordings in the worker that keeps them."""

    def __init__(
        self,
        catalogue: RecordingCatalogue,
        save: Callable[[], None],
        cut: Callable[[str], None],
        leave: Callable[[Recording], None],
    ) -> None:
        """`save` writes all recorded reads. `cut` ends the recordings in progress of a bucket. `leave` is called before
        a recording is removed."""
        self._catalogue = catalogue
        self._save = save
        self._cut = cut
        self._leave = leave

    async def infos(self, bucket: str | None = None) -> list[RecordingInfo]:
        """Returns the recordings of the catalogue."""
        await self._catalogue.open()
        self._save()
        await self._catalogue.settle()
        found = self._catalogue.recordings if bucket is None else self._catalogue.in_bucket(bucket)
        return [recording_info(each) for each in found]

    async def content(self, bucket: str, name: str, principal: str) -> bytes | None:
        """Returns the content of the file."""
        await self._catalogue.open()
        recording = self._catalogue.find(bucket, name, principal)
        if recording is None or recording.state == "recording":
            return None
        try:
            return await self._catalogue.read(recording)
        except FileNotFoundError:  # it was removed meanwhile, or is damaged
            self._catalogue.remove(recording)
            return None
        except OSError as error:
            raise Throttled(f"the recording can't be read: {error.strerror}") from None

    async def store(self, bucket: str, name: str, principal: str, content: bytes) -> RecordingInfo:
        """Keeps the content in a file."""
        await self._catalogue.open()
        found = await run_cooperatively(filter_recording(content))
        return recording_info(await self._catalogue.add(bucket, name, principal, found))

    async def save(
        self, bucket: str, source: str, name: str, principal: str, owner: str | None
    ) -> RecordingInfo | None:
        """Names the recording in the catalogue."""
        await self._catalogue.open()
        recording = self._catalogue.find(bucket, source, principal) if source else self._latest(bucket)
        if recording is None or recording.state == "recording":
            return None
        await self._catalogue.flush()
        return recording_info(
            await self._catalogue.save(recording, name, recording.principal if owner is None else owner)
        )

    async def remove(self, bucket: str, name: str, principal: str) -> bool:
        """Removes the files, too."""
        await self._catalogue.open()
        recording = self._catalogue.find(bucket, name, principal)
        if recording is not None:
            self._leave(recording)
            await self._catalogue.delete(recording)
        return recording is not None

    def _latest(self, bucket: str) -> Recording | None:
        for _ in range(2):
            found = [each for each in self._catalogue.in_bucket(bucket) if each.state == "automatic"]
            if found:
                return max(found, key=lambda each: each.ended)
            self._cut(bucket)
        return None

    async def answer(self, request: Document) -> Document:
        """Answers the call of another worker."""
        return await _METHODS[str(request["method"])](self, request)


class RemoteRecordings:
    """The recordings in another worker. `call` is one to that worker."""

    def __init__(self, call: Callable[[Document], Awaitable[Document]]) -> None:
        self._call = call

    async def infos(self, bucket: str | None = None) -> list[RecordingInfo]:
        """Returns the response of the worker with the recordings."""
        answer = await self._send("infos", bucket=bucket)
        return [RecordingInfo(**each) for each in answer["infos"]]

    async def content(self, bucket: str, name: str, principal: str) -> bytes | None:
        """Returns the file that the other worker answers with."""
        answer = await self._send("content", bucket=bucket, name=name, principal=principal)
        return b64decode(answer["content"]) if answer["content"] is not None else None

    async def store(self, bucket: str, name: str, principal: str, content: bytes) -> RecordingInfo:
        """Sends the content to the other worker. It was verified here before."""
        encoded = b64encode(content).decode()
        return RecordingInfo(
            **(await self._send("store", bucket=bucket, name=name, principal=principal, content=encoded))["info"]
        )

    async def save(
        self, bucket: str, source: str, name: str, principal: str, owner: str | None
    ) -> RecordingInfo | None:
        """Has the other worker name it."""
        answer = await self._send("save", bucket=bucket, source=source, name=name, principal=principal, owner=owner)
        return RecordingInfo(**answer["info"]) if answer["info"] is not None else None

    async def remove(self, bucket: str, name: str, principal: str) -> bool:
        """Has the other worker remove it."""
        return bool((await self._send("remove", bucket=bucket, name=name, principal=principal))["found"])

    async def _send(self, method: str, **arguments: Any) -> Document:
        try:
            return await self._call({"kind": "recordings_call", "method": method, **arguments})
        except PeerUnavailable:
            pass
        raise Throttled("the worker that keeps the recordings is not there")


async def _infos(local: LocalRecordings, request: Document) -> Document:
    return {"infos": [asdict(each) for each in await local.infos(request["bucket"])]}


async def _content(local: LocalRecordings, request: Document) -> Document:
    content = await local.content(request["bucket"], request["name"], request["principal"])
    return {"content": b64encode(content).decode() if content is not None else None}


async def _store(local: LocalRecordings, request: Document) -> Document:
    content = b64decode(request["content"])
    return {"info": asdict(await local.store(request["bucket"], request["name"], request["principal"], content))}


async def _save(local: LocalRecordings, request: Document) -> Document:
    bucket, source, name, principal = (str(request[each]) for each in ("bucket", "source", "name", "principal"))
    info = await local.save(bucket, source, name, principal, request["owner"])
    return {"info": asdict(info) if info is not None else None}


async def _remove(local: LocalRecordings, request: Document) -> Document:
    return {"found": await local.remove(request["bucket"], request["name"], request["principal"])}


_METHODS: Final[dict[str, Callable[[LocalRecordings, Document], Awaitable[Document]]]] = {
    "infos": _infos,
    "content": _content,
    "store": _store,
    "save": _save,
    "remove": _remove,
}


def admin_choice(infos: list[RecordingInfo], name: str) -> RecordingInfo | None:
    """Returns the recording of this name for an operator: one without an owner before others, then the latest."""
    found = [each for each in infos if each.name == name]
    return max(found, key=lambda each: (each.principal == SHARED, each.began), default=None)
