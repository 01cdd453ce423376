"""Opening frames: the messages of two workers about openings (peers.relayed_openings), as bytes.

    request   offset  size  field                 big-endian
                   0     4  length of all that follows
                   4     4  number, which the answer repeats
                   8     8  bytes wanted, from the first on
                  16     2  length n of the bucket
                  18     n  bucket; then the key, to the end

    answer         0     4  length of all that follows
                   4     4  number of the request
                   8     4  length n of the texts; 0: refused, and nothing follows
                  12     8  validated_at, a double
                  20     8  size of the object
                  28     4  block size
                  32     8  generation
                  40     1  bits: 1 the version has a version id, 2 its checksums are known, 4 nothing was fetched
                  41     n  ETag, version id ("" if none), Last-Modified, name and value of each header, by line
                41+n        all bytes of the object

Many of them arrive at once, and each is handled in a turn of the loop of its own, so that a hit waits for one of them
at most. Frames that are written meanwhile leave in one system call, after the turns that are due. The kernel copies the
bytes of a large object straight into the memory that they are kept in. Bytes that are no frame end the connection:
nothing is skipped or guessed.
"""

import asyncio
import logging
import struct
from typing import Final, NamedTuple, cast

from forebay.core.errors import PeerUnavailable
from forebay.core.heads import Head, ObjectFacts
from forebay.core.names import Generation, ObjectName, Version

MAX_OBJECT: Final = 1 << 20
"""Bytes of the largest object that is an answer: a small one behind it waits for a third of a millisecond."""
MAX_FRAME: Final = 2 << 20
HIGH_WATER: Final = 4 << 20
"""Bytes that wait for the other end, from which on nothing more is begun."""
_RECEIVED: Final = 128 * 1024
"""Bytes that are received at once. A frame that is longer is received apart, once its texts have come."""
_LENGTH: Final = struct.Struct(">I")
_REQUEST: Final = struct.Struct(">IIQH")
_REFUSAL: Final = struct.Struct(">III")
_ANSWER: Final = struct.Struct(">IIIdQI8sB")
_HAS_VERSION_ID: Final = 1
_CHECKSUMS_KNOWN: Final = 2
_WAS_KEPT: Final = 4
_TEXTS_BEFORE_HEADERS: Final = 3

_log = logging.getLogger(__name__)


class OpeningRequest(NamedTuple):
    """A request for an object of which the calling worker knows no head."""

    number: int
    name: ObjectName
    wanted: int
    """Bytes, from the first on."""


class OpeningAnswer(NamedTuple):
    """The head of an object, and all its bytes."""

    head: Head
    body: memoryview
    was_kept: bool
    """Whether the owner had the object, fresh, before the request."""


def encode_request(number: int, name: ObjectName, wanted: int) -> bytes:
    """Returns a request as a frame."""
    bucket, key = name.bucket.encode("utf-8", "surrogatepass"), name.key.encode("utf-8", "surrogatepass")
    length = _REQUEST.size - _LENGTH.size + len(bucket) + len(key)
    return _REQUEST.pack(length, number, wanted, len(bucket)) + bucket + key


def decode_request(received: bytes, start: int, stop: int) -> OpeningRequest:
    """Returns the request of a frame. Raises PeerUnavailable."""
    if stop - start < _REQUEST.size:
        raise PeerUnavailable("a request cut short")
    _, number, wanted, length = _REQUEST.unpack_from(received, start)
    middle = start + _REQUEST.size + length
    try:
        bucket = received[start + _REQUEST.size : middle].decode("utf-8", "surrogatepass")
        key = received[middle:stop].decode("utf-8", "surrogatepass")
    except UnicodeDecodeError as error:
        raise PeerUnavailable(f"a request that does not fit: {error}") from error
    if not (wanted and bucket and key):
        raise PeerUnavailable("a request for nothing")
    return OpeningRequest(number, ObjectName(bucket, key), wanted)


def encode_refusal(number: int) -> bytes:
    """Returns the refusal of an opening: the caller has to request the object in another way."""
    return _REFUSAL.pack(_REFUSAL.size - _LENGTH.size, number, 0)


def encode_answer(number: int, head: Head, *, was_kept: bool = False) -> bytes | None:
    """Returns an answer as a frame, without the object's bytes, which follow it; None: the head can't be encoded."""
    facts = head.facts
    etag, version_id = facts.version
    texts = [etag, version_id or "", facts.last_modified]
    for pair in facts.headers:
        texts += pair
    joined = "\n".join(texts)
    if head.by_id or joined.count("\n") >= len(texts):
        return None
    raw = joined.encode("utf-8", "surrogatepass")
    return (
        _ANSWER.pack(
            _ANSWER.size - _LENGTH.size + len(raw) + facts.size,
            number,
            len(raw),
            head.validated_at,
            facts.size,
            head.block_size,
            head.generation,
            _HAS_VERSION_ID * (version_id is not None)
            | _CHECKSUMS_KNOWN * facts.checksums_known
            | _WAS_KEPT * was_kept,
        )
        + raw
    )


def number_of(received: bytes, start: int, stop: int) -> int:
    """Returns the number of the request that the frame of an answer is for. Raises PeerUnavailable."""
    if stop - start < _REFUSAL.size:
        raise PeerUnavailable("an answer cut short")
    return int(_LENGTH.unpack_from(received, start + _LENGTH.size)[0])


def body_start(received: bytes, start: int, stop: int) -> int | None:
    """Returns where the object's bytes begin in the frame of an answer, of which the bytes until `stop` have come;
    None: behind these."""
    if stop - start < _ANSWER.size:
        return None
    body_at = start + _ANSWER.size + int(_LENGTH.unpack_from(received, start + _REFUSAL.size - _LENGTH.size)[0])
    return body_at if body_at <= stop else None


def decode_answer(received: bytes, start: int, stop: int, body: memoryview | None = None) -> OpeningAnswer | None:
    """Returns the answer of a frame; None: the request was refused. Raises PeerUnavailable. `body`: the object's bytes,
    where they were received apart."""
    if stop - start == _REFUSAL.size:
        return None
    if stop - start < _ANSWER.size:
        raise PeerUnavailable("an answer cut short")
    _, _, length, validated_at, size, block_size, generation, bits = _ANSWER.unpack_from(received, start)
    body_at = start + _ANSWER.size + length
    try:
        texts = received[start + _ANSWER.size : body_at].decode("utf-8", "surrogatepass").split("\n")
        etag, version_id, last_modified = texts[:_TEXTS_BEFORE_HEADERS]
        headers = tuple(zip(texts[_TEXTS_BEFORE_HEADERS::2], texts[_TEXTS_BEFORE_HEADERS + 1 :: 2], strict=True))
    except ValueError as error:
        raise PeerUnavailable(f"an answer that does not fit: {error}") from error
    body = memoryview(received[body_at:stop]) if body is None else body
    if len(body) != size or not block_size:
        raise PeerUnavailable("an answer with another body")
    version = Version(etag, version_id if bits & _HAS_VERSION_ID else None)
    facts = ObjectFacts(version, size, last_modified, headers, bool(bits & _CHECKSUMS_KNOWN))
    head = Head(facts, block_size, Generation(generation), validated_at)
    return OpeningAnswer(head, body, bool(bits & _WAS_KEPT))


class LargeFrame:
    """A frame whose body is received apart."""

    __slots__ = ("_filled", "body", "head")

    def __init__(self, head: bytes, body: memoryview, filled: int) -> None:
        """`head`: the frame up to its body. `body`: all of that, of which the first `filled` bytes are there."""
        self.head, self.body, self._filled = head, body, filled

    def unfilled(self) -> memoryview:
        """Returns the part of the body that is still to be received."""
        return self.body[self._filled :]

    def fill(self, count: int) -> bool:
        """Adds `count` bytes. Returns whether the body is complete."""
        self._filled += count
        return self._filled == len(self.body)


class OpeningConnection(asyncio.BufferedProtocol):
    """One end of a connection that carries frames, each of which is handled in a turn of the loop of its own."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._buffer = memoryview(bytearray(_RECEIVED))
        self._large: LargeFrame | None = None
        """The large frame that is being received."""
        self.transport: asyncio.Transport | None = None
        """None: the connection has ended."""
        self.is_full = False
        """Whether the other end takes nothing for now."""
        self._rest = b""
        self._unsent: list[bytes | memoryview] = []
        self.ended: asyncio.Future[None] = self._loop.create_future()
        """Done when the connection has ended."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The connection carries frames from now on."""
        self.transport = cast("asyncio.Transport", transport)
        self.transport.set_write_buffer_limits(HIGH_WATER)

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection has ended."""
        self.transport = None
        if not self.ended.done():
            self.ended.set_result(None)

    def pause_writing(self) -> None:
        """The other end accepts nothing for now."""
        self.is_full = True

    def resume_writing(self) -> None:
        """The other end accepts frames again."""
        self.is_full = False

    def write(self, *pieces: bytes | memoryview) -> None:
        """Writes a frame, or nothing once the connection has ended."""
        if not self._unsent:
            self._loop.call_soon(self._send)
        self._unsent += pieces

    def _send(self) -> None:
        unsent, self._unsent = self._unsent, []
        if self.transport is not None:
            self.transport.writelines(unsent)

    def abort(self) -> None:
        """Ends the connection at once."""
        if self.transport is not None:
            self.transport.abort()

    def get_buffer(self, sizehint: int) -> memoryview:
        """The rest of a large body, or the connection's own buffer."""
        return self._buffer if self._large is None else self._large.unfilled()

    def buffer_updated(self, nbytes: int) -> None:
        """`nbytes` were received: has each whole frame handled."""
        large = self._large
        if large is None:
            self._receive(bytes(self._buffer[:nbytes]))
        elif large.fill(nbytes):
            self._large = None
            self._loop.call_soon(self._handle, large.head, 0, len(large.head), large.body)

    def _receive(self, data: bytes) -> None:
        received = self._rest + data if self._rest else data
        start, size = 0, len(received)
        while size - start >= _LENGTH.size:
            stop = start + _LENGTH.size + _LENGTH.unpack_from(received, start)[0]
            if stop - start > MAX_FRAME:
                _log.error("a frame of %d bytes of another worker", stop - start)
                self.abort()
                return
            if stop > size:
                if stop - start > _RECEIVED and self._begin_large(received, start, stop):
                    start = size
                break
            self._loop.call_soon(self._handle, received, start, stop, None)
            start = stop
        self._rest = received[start:] if start else received

    def _begin_large(self, received: bytes, start: int, stop: int) -> bool:
        """Begins to receive a frame that ends at `stop` apart. False: more of it has to come before."""
        body_at = body_start(received, start, len(received))
        if body_at is None:
            return False
        room = self.make_room(received, start, stop - body_at)
        body, count = memoryview(bytearray(stop - body_at)) if room is None else room, len(received) - body_at
        body[:count] = memoryview(received)[body_at:]
        self._large = LargeFrame(received[start:body_at], body, count)
        return True

    def _handle(self, received: bytes, start: int, stop: int, body: memoryview | None) -> None:
        if self.transport is None:
            return
        try:
            self.frame_received(received, start, stop, body)
        except PeerUnavailable as unreadable:
            _log.error("%s", unreadable)
            self.abort()

    def frame_received(self, received: bytes, start: int, stop: int, body: memoryview | None) -> None:
        """Handles a frame. Raises PeerUnavailable if it is malformed. `body`: what follows its texts, if that was
        received apart."""
        raise NotImplementedError

    def make_room(self, received: bytes, start: int, size: int) -> memoryview | None:
        """Returns a buffer for the `size` bytes of a large body, whose frame begins at `start`; None: nobody wants
        it."""
        return None
