"""Frames: the messages between two workers of a node, over a Unix socket.

    offset  size  field                 big-endian
         0     4  length of the payload
         4     1  kind: 1 document, 2 bytes, 3 end, 4 whole
         5     n  payload: a document is a JSON object, an end is empty, a whole response is the length of a document
                  (4 bytes), the document, and all bytes that follow it

A length beyond the kind's limit, an unknown kind or a payload that is no JSON object ends the connection: nothing is
skipped or guessed, and nothing that arrives is ever executed.
"""

import asyncio
import json
import struct
from collections.abc import Callable, Coroutine
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from forebay.core.buffers import Buffer
from forebay.core.errors import PeerUnavailable
from forebay.peers.byte_stream import ByteStream

Document: TypeAlias = dict[str, Any]
"""A JSON object."""
Spawn: TypeAlias = Callable[[Coroutine[Any, Any, None], str], object]
"""Starts a task that has an owner."""

MAX_DOCUMENT: Final = 64 << 20
"""Bytes of a document. The largest are a listing of memory for `forebay ls` and a worker's figures."""
MAX_PAYLOAD: Final = 1 << 20
"""Bytes of one bytes frame."""
WHOLE_PAYLOAD: Final = 256 << 10
"""Bytes that a whole response has, at most: they go through the connection's own memory."""

_HEAD: Final = struct.Struct(">IB")
_WHOLE_HEAD: Final = struct.Struct(">IBI")
_LENGTH: Final = struct.Struct(">I")
_DOCUMENT, _BYTES, _END, _WHOLE = 1, 2, 3, 4
_LIMITS: Final = {_DOCUMENT: MAX_DOCUMENT, _BYTES: MAX_PAYLOAD, _END: 0, _WHOLE: MAX_PAYLOAD}


class Frame(NamedTuple):
    """One frame received. Of a bytes frame only the head: `Channel.receive_bytes` receives what follows it."""

    kind: Literal["document", "bytes", "end", "whole"]
    document: Document
    payload: memoryview


_NOTHING: Final = memoryview(b"")
_BYTES_FRAME: Final = Frame("bytes", {}, _NOTHING)
_END_FRAME: Final = Frame("end", {}, _NOTHING)


class Channel:
    """One connection, in frames. `pid`: the process at the other end."""

    def __init__(self, stream: ByteStream, pid: int) -> None:
        self._stream = stream
        self.pid = pid
        self.frames_received = 0
        """Frames, and pieces of bytes frames."""
        self.bytes_left = 0
        """Bytes of the current bytes frame that are still to be received."""

    async def receive(self) -> Frame:
        """Returns the next frame. Raises PeerUnavailable."""
        if self.bytes_left:
            raise PeerUnavailable("a response with more bytes than were wanted")
        try:
            length, kind = _HEAD.unpack(await self._stream.read_exactly(_HEAD.size))
            if length > _LIMITS.get(kind, -1):
                raise PeerUnavailable(f"a frame of kind {kind} and {length} bytes")
            payload = await self._stream.read_exactly(length) if length and kind != _BYTES else b""
        except OSError as error:
            raise PeerUnavailable(f"the connection ended: {error}") from None
        self.frames_received += 1
        if kind == _BYTES:
            self.bytes_left = length
            return _BYTES_FRAME
        if kind == _END:
            return _END_FRAME
        if kind == _DOCUMENT:
            return Frame("document", _document(payload), _NOTHING)
        stop = _LENGTH.size + _LENGTH.unpack_from(payload)[0] if length >= _LENGTH.size else length + 1
        if stop > length:
            raise PeerUnavailable("a whole response whose document does not fit")
        return Frame("whole", _document(payload[_LENGTH.size : stop]), memoryview(payload)[stop:])

    async def receive_bytes(self, target: memoryview) -> int:
        """Receives bytes of the current frame into the front of `target`. Returns how many. Raises PeerUnavailable."""
        try:
            count = await self._stream.read_into(target[: self.bytes_left])
        except OSError as error:
            raise PeerUnavailable(f"the connection ended: {error}") from None
        self.frames_received += 1
        self.bytes_left -= count
        return count

    async def receive_document(self) -> Document:
        """Returns the next frame, which must be a document. Raises PeerUnavailable."""
        frame = await self.receive()
        if frame.kind != "document":
            raise PeerUnavailable(f"{frame.kind} in place of a document")
        return frame.document

    def write(self, document: Document) -> None:
        """Writes a document to the send buffer. Raises PeerUnavailable."""
        payload = json.dumps(document).encode()
        self._write(_HEAD.pack(len(payload), _DOCUMENT) + payload)

    async def send(self, document: Document) -> None:
        """Sends a document. Raises PeerUnavailable."""
        self.write(document)
        await self._drain()

    async def send_bytes(self, buffer: Buffer) -> None:
        """Sends bytes, in frames, no faster than the other end reads. Raises PeerUnavailable."""
        for start in range(0, len(buffer), MAX_PAYLOAD):
            piece = buffer[start : start + MAX_PAYLOAD]
            self._write(_HEAD.pack(len(piece), _BYTES), piece)
            await self._drain()

    async def send_whole(self, document: Document, buffer: Buffer) -> None:
        """Sends a whole response: a document, and at most WHOLE_PAYLOAD bytes. Raises PeerUnavailable."""
        payload = json.dumps(document).encode()
        size = _LENGTH.size + len(payload) + len(buffer)
        self._write(_WHOLE_HEAD.pack(size, _WHOLE, len(payload)) + payload, buffer)
        await self._drain()

    async def send_end(self) -> None:
        """Sends an end frame. Raises PeerUnavailable."""
        self._write(_HEAD.pack(0, _END))
        await self._drain()

    def hand_over(self, protocol: asyncio.BufferedProtocol) -> None:
        """Gives the connection to another protocol. The other end sends nothing before it knows that. The channel is
        kept, and closes the connection as ever. Raises PeerUnavailable if it has ended: nobody would tell the protocol.
        """
        transport = self._stream.transport
        if transport.is_closing():
            raise PeerUnavailable("the connection has ended")
        transport.set_protocol(protocol)
        protocol.connection_made(transport)

    @property
    def is_closed(self) -> bool:
        """Whether either end is known to have closed the connection."""
        return self._stream.has_ended or self._stream.transport.is_closing()

    async def wait_closed(self) -> bool:
        """Waits until the other end has closed, or has begun to send another frame. Returns whether it has closed."""
        return not await self._stream.wait_readable()

    def close(self) -> None:
        """Closes the connection once the send buffer is empty."""
        self._stream.transport.close()

    def abort(self) -> None:
        """Closes the connection at once. Waiting readers get PeerUnavailable."""
        self._stream.transport.abort()

    def _write(self, *pieces: Buffer | bytes) -> None:
        try:
            self._stream.write(*pieces)
        except OSError as error:
            raise PeerUnavailable(f"the connection ended: {error}") from None

    async def _drain(self) -> None:
        try:
            await self._stream.drain()
        except OSError as error:
            raise PeerUnavailable(f"the connection ended: {error}") from None


def _document(payload: bytes | bytearray) -> Document:
    """Returns a document. Raises PeerUnavailable if the bytes are none."""
    try:
        document = json.loads(payload)
    except ValueError:
        document = None
    if not isinstance(document, dict):
        raise PeerUnavailable("a document that is no JSON object")
    return document
