"""The read channel: signed reads over a Unix socket whose bodies come in shared memory. The bytes on the socket.

    client                                              server
      UPGRADE                                ──>
                                             <──        SWITCHED, or any other response: no channel here
      message: releases, head of a GET       ──>
                                             <──        frame, head of the response, body or its location
      ...

A request is the head of an HTTP/1.1 request, byte for byte as on a TCP connection, signature included. Several may be
sent at once; they are answered in order. A message without a head only gives slots of the ring back, also while a
request is being answered; one with neither is an error. One with a body is a batch of reads: the head of its POST,
without a length, and the document (forebay.protocol.batch.batch_request).

    message   releases u16 | length of the head u16 | length of the body u32 | releases x number of a slot u32
              | head | body
    frame     kind u8 | flags u8 | count u16 | length of the head u32 | position u64 | length u64
    piece     file u16 | flags u16 | length u32 | position u64
    entry     index u32 | status u16 | length of the text u16 | length u64 | position u64

    kind      what follows the frame      where the body is
    INLINE    `length` bytes              behind the head
    RING      the head                    `length` bytes at `position` of the ring, until the client releases the slot
    MEMORY    `count` pieces, the head    the pieces, of memory files with these numbers: `length` bytes in all
    SEGMENT   `count` pieces, the head    likewise, of files on disk whose descriptors come with the frame: their
                                          numbers are the places of these, and mean nothing afterwards
    DECLINED  nothing                     the request is one for plain HTTP: nothing was done
    DROPPED   nothing                     (no response) the client unmaps the memory file numbered `position`
    ENTRIES   `count` entries and their   `length` bytes at `position` of the ring, until the client releases the slot;
              texts, `head` bytes in all  with the flag INSIDE, behind the texts
    ENTRIES   `count` pieces, one entry   with the flag IN_FILES: as of MEMORY, `length` bytes in all

A batch is answered by ENTRIES, of which the last one has the flag LAST. An entry gives the place of the bytes of the
key number `index`: `length` bytes at `position` of the frame's bytes. The entry of a key that can't be read has the
status that a GET would have, and a text: S3's error code, the request's id and the message, separated by line feeds. An
answer that ends without LAST is incomplete.

A slot's number is its position in pages (SLOT_UNIT). The flag WITH_DESCRIPTOR of a frame says that descriptors come
with its first byte (SCM_RIGHTS, unix(7)): the ring's, before its first slot; a memory file's, the first time that it
is named, where its piece has the same flag; every file on disk. They are in the order of the pieces. Descriptors are
read-only; those of memory are sealed against shrinking, growth and writing. Numbers are little-endian.

Both ends import this module; neither keeps a format of its own.
"""

from struct import Struct
from typing import Final, NamedTuple

CHANNEL_PATH: Final = "/.forebay/channel"
PROTOCOL_NAME: Final = "forebay-channel/3"
UPGRADE: Final = (
    f"GET {CHANNEL_PATH} HTTP/1.1\r\nHost: forebay\r\nConnection: Upgrade\r\nUpgrade: {PROTOCOL_NAME}\r\n\r\n"
).encode()
SWITCHED: Final = (
    f"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: {PROTOCOL_NAME}\r\n\r\n"
).encode()

INLINE: Final = 1
RING: Final = 2
MEMORY: Final = 3
SEGMENT: Final = 4
DECLINED: Final = 5
DROPPED: Final = 6
ENTRIES: Final = 7
WITH_DESCRIPTOR: Final = 1
INSIDE: Final = 2
LAST: Final = 4
IN_FILES: Final = 8

SLOT_UNIT: Final = 4096
"""Bytes: slots of the ring begin at multiples of it."""
MAX_RELEASES: Final = 1024
"""The most releases in one message."""
MAX_HEAD: Final = 8192
"""Bytes of the head of a request."""
MAX_BODY: Final = 64 << 10
"""Bytes of the document of a batch."""
MAX_ENTRIES: Final = 1024
"""The most entries of one frame."""
MAX_TEXT: Final = 2048
"""Bytes of the text of an entry."""
ENTRY_UNIT: Final = 64
"""Bytes: entries begin at multiples of it, counted from the frame's first byte."""
HINT_HEADER: Final = "x-forebay-socket"
"""The socket's path: in the response to OPTIONS of CHANNEL_PATH at the HTTP endpoint, for clients of this machine."""

MESSAGE: Final = Struct("<HHI")
FRAME: Final = Struct("<BBHIQQ")
PIECE: Final = Struct("<HHIQ")
FRAME_OF_PIECE: Final = Struct("<BBHIQQHHIQ")
"""A frame and its only piece."""
ENTRY: Final = Struct("<IHHQQ")
MAX_PIECES: Final = 64
"""The most pieces of one frame. The kernel passes up to 253 descriptors at once."""
MAX_FILES: Final = 256
"""Memory files that a client has through a channel."""


class ChannelFrame(NamedTuple):
    """A frame as it was received. See the module."""

    kind: int
    flags: int
    pieces: int
    """The number of pieces."""
    head: int
    position: int
    length: int


class Message(NamedTuple):
    """A message of the client: the numbers of the released slots, the head of a request, which may be empty, and the
    document of a batch, empty for any other request."""

    releases: tuple[int, ...]
    head: bytes
    body: bytes
    size: int
    """Bytes of the message."""


def message(head: bytes, releases: tuple[int, ...] | list[int] = (), body: bytes = b"") -> bytes:
    """Returns the bytes of a message. Its parts are at most MAX_RELEASES, MAX_HEAD and MAX_BODY long."""
    start = MESSAGE.pack(len(releases), len(head), len(body))
    if not releases:
        return start + head + body
    return b"".join((start, Struct(f"<{len(releases)}I").pack(*releases), head, body))


def read_message(data: bytes, start: int = 0) -> Message | None:
    """Returns the message that begins at `start` of `data`; None if it is incomplete. Raises ValueError with the reason
    for bytes that can't begin a message."""
    have = len(data) - start
    if have < MESSAGE.size:
        return None
    count, length, more = MESSAGE.unpack_from(data, start)
    if count > MAX_RELEASES or length > MAX_HEAD or more > MAX_BODY or not (length or (count and not more)):
        raise ValueError(f"a message with {count} releases, a head of {length} bytes and a body of {more}")
    first = start + MESSAGE.size
    size = MESSAGE.size + 4 * count + length + more
    if have < size:
        return None
    releases = Struct(f"<{count}I").unpack_from(data, first) if count else ()
    at = first + 4 * count
    head = data[at : at + length]
    if length and head.find(b"\r\n\r\n") != length - 4:
        raise ValueError("a head that ends elsewhere than at its end")
    return Message(releases, head, data[at + length : start + size] if more else b"", size)


def sole_head(data: bytes) -> bytes:
    """Returns the head of a message that fills `data` and has only a head; empty for any other message, which
    `read_message` reads."""
    length = len(data) - MESSAGE.size
    if not 0 < length <= MAX_HEAD or MESSAGE.unpack_from(data) != (0, length, 0):
        return b""
    head = data[MESSAGE.size :]
    return head if head.find(b"\r\n\r\n") == length - 4 else b""


class Piece(NamedTuple):
    """The place of a piece of a body."""

    file: int
    flags: int
    length: int
    position: int


def read_pieces(data: bytes | bytearray | memoryview, count: int) -> list[Piece]:
    """The pieces at the start of `data`."""
    return [Piece(*fields) for fields in PIECE.iter_unpack(data[: count * PIECE.size])]


def read_frame(data: bytes | bytearray | memoryview, start: int = 0) -> ChannelFrame:
    """The frame that begins at `start` of `data`. Raises ValueError for an unknown kind."""
    frame = ChannelFrame(*FRAME.unpack_from(data, start))
    if not INLINE <= frame.kind <= ENTRIES:
        raise ValueError(f"a frame of the kind {frame.kind}")
    return frame
