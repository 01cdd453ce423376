"""What goes over the socket between two workers of a node: frames.

    offset  size  field                 big-endian
         0     4  length of the payload
         4     1  kind: 1 document, 2 bytes, 3 end
         5     n  payload: a document is a JSON object, an end is empty

A length beyond the kind's bound, an unknown kind or a document that is none ends the connection: nothing is skipped,
nothing is guessed, and nothing that arrives is ever executed.
"""

import asyncio
import json
import struct
from collections.abc import Callable, Coroutine
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from forebay.core.buffers import Buffer
from forebay.core.errors import ForebayError

Document: TypeAlias = dict[str, Any]
Spawn: TypeAlias = Callable[[Coroutine[Any, Any, None], str], object]
"""Starts a task that somebody owns."""

MAX_DOCUMENT: Final = 64 << 20
"""Bytes: a listing of memory for `forebay ls`, or a worker's figures, at the very most."""
MAX_PAYLOAD: Final = 1 << 20
SEND_PAYLOAD: Final = 256 << 10
"""Bytes of one frame as we send it: the first of a block leaves before the last has come."""

_HEAD: Final = struct.Struct(">IB")
_DOCUMENT, _BYTES, _END = 1, 2, 3
_BOUNDS: Final = {_DOCUMENT: MAX_DOCUMENT, _BYTES: MAX_PAYLOAD, _END: 0}


class PeerUnavailable(ForebayError):
    """The other worker is not there (any more), or what came from it was no frame."""


class Frame(NamedTuple):
    kind: Literal["document", "bytes", "end"]
    document: Document
    payload: bytes


_END_FRAME: Final = Frame("end", {}, b"")


class Channel:
    """One connection, in frames. `process`: the other end's process id."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, pid: int) -> None:
        self._reader = reader
        self._writer = writer
        self.pid = pid
        self.frames_received = 0
        """Frames that have come."""

    async def receive(self) -> Frame:
        """The next frame. Raises PeerUnavailable."""
        try:
            length, kind = _HEAD.unpack(await self._reader.readexactly(_HEAD.size))
            if length > _BOUNDS.get(kind, -1):
                raise PeerUnavailable(f"a frame of kind {kind} and {length} bytes")
            payload = await self._reader.readexactly(length) if length else b""
        except (OSError, asyncio.IncompleteReadError) as error:
            raise PeerUnavailable(f"the connection ended: {error}") from None
        self.frames_received += 1
        if kind == _BYTES:
            return Frame("bytes", {}, payload)
        if kind == _END:
            return _END_FRAME
        try:
            document = json.loads(payload)
        except ValueError:
            document = None
        if not isinstance(document, dict):
            raise PeerUnavailable("a document that is none")
        return Frame("document", document, b"")

    async def receive_document(self) -> Document:
        """The next frame, which must be a document. Raises PeerUnavailable."""
        frame = await self.receive()
        if frame.kind != "document":
            raise PeerUnavailable(f"{frame.kind} in place of a document")
        return frame.document

    def write(self, document: Document) -> None:
        """Send a document, without waiting for it to leave. Raises PeerUnavailable."""
        payload = json.dumps(document).encode()
        self._write_bytes(_HEAD.pack(len(payload), _DOCUMENT) + payload)

    async def send(self, document: Document) -> None:
        """Send a document. Raises PeerUnavailable."""
        self.write(document)
        await self._drain()

    async def send_bytes(self, buffer: Buffer) -> None:
        """Send bytes, in frames, no faster than they are taken. Raises PeerUnavailable."""
        for start in range(0, len(buffer), SEND_PAYLOAD):
            piece = buffer[start : start + SEND_PAYLOAD]
            self._write_bytes(_HEAD.pack(len(piece), _BYTES))
            self._write_bytes(piece)
            await self._drain()

    async def send_end(self) -> None:
        self._write_bytes(_HEAD.pack(0, _END))
        await self._drain()

    async def wait_closed(self) -> None:
        """Until the other end has closed, or said what it had no business to say."""
        try:
            await self._reader.read(1)
        except OSError:
            return

    def close(self) -> None:
        self._writer.close()

    def abort(self) -> None:
        """At once, whatever the other end has not taken yet; who waits for it gets PeerUnavailable."""
        self._writer.transport.abort()

    def _write_bytes(self, piece: Buffer | bytes) -> None:
        if self._writer.is_closing():
            raise PeerUnavailable("the connection ended")
        self._writer.write(piece)

    async def _drain(self) -> None:
        try:
            await self._writer.drain()
        except OSError as error:
            raise PeerUnavailable(f"the connection ended: {error}") from None
