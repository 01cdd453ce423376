"""A recording as a file: a signature, then chunks, each with a checksum. Appended to while it is recorded.

    89 46 42 52 0d 0a 1a 0a | u16 version                            the signature; text transfer damages it
    "H" chunk    a JSON object: {"began": seconds since 1970}        unknown members are ignored
    "P" chunks   a page each, compressed (zlib, RFC 1950)            recording_page
    "N" chunks   instead, on the node's own disk: a page of numbers  numbered_page
    "E" chunk    u64 reads | u32 pages | u32 CRC-32 of the CRC-32s of all chunks before, in order

    chunk        u8 kind | u32 length | u32 CRC-32 of kind, length and content | content

All numbers are little-endian. A file without its end is truncated: refused where it was uploaded, and ended after its
last whole page where a process was killed while it recorded. A change of the layout raises VERSION.
"""

import json
import struct
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from forebay.core.errors import MalformedRecording
from forebay.protocol.recordings.numbered_page import FindNames, NumberedSection, decode_numbered, encode_numbered
from forebay.protocol.recordings.recording_page import MAX_PAGE_BYTES, RecordingPage, decode_page, encode_page

VERSION: Final = 1
SIGNATURE: Final = b"\x89FBR\r\n\x1a\n"
_LEVEL: Final = 1
"""The level of the compression: keys and lengths gain little from more."""
_VERSION: Final = struct.Struct("<H")
_CHUNK: Final = struct.Struct("<BII")
_KIND_AND_LENGTH: Final = struct.Struct("<BI")
_END: Final = struct.Struct("<QII")
_MAX_CHUNK: Final = MAX_PAGE_BYTES + 4096


@dataclass(frozen=True, slots=True)
class RecordingHeader:
    """The header of a recording."""

    began: int
    """Seconds since 1970."""


class RecordingEncoder:
    """Makes the pieces of a file: `start`, then each page, then `end`."""

    def __init__(self) -> None:
        self._checksums = bytearray()
        self._reads = self._pages = 0
        self.size = 0
        """Bytes of the reads so far."""

    def start(self, header: RecordingHeader) -> bytes:
        """Returns the beginning of the file."""
        return SIGNATURE + _VERSION.pack(VERSION) + self._chunk(b"H", json.dumps({"began": header.began}).encode())

    def page(self, page: RecordingPage) -> bytes:
        """Returns a page as a chunk."""
        columns = page.columns
        self._reads += len(columns)
        self._pages += 1
        self.size += columns.size
        return self._chunk(b"P", zlib.compress(encode_page(RecordingPage(columns, page.seconds)), _LEVEL))

    def numbered_page(self, seconds: int, sections: Sequence[NumberedSection], size: int) -> bytes:
        """Returns a page of numbers as a chunk. `size`: bytes of its reads."""
        self._reads += sum(len(each.numbers) for each in sections)
        self._pages += 1
        self.size += size
        return self._chunk(b"N", encode_numbered(seconds, sections))

    def end(self) -> bytes:
        """Returns the end of the file."""
        return self._chunk(b"E", _END.pack(self._reads, self._pages, zlib.crc32(self._checksums)))

    def _chunk(self, kind: bytes, content: bytes) -> bytes:
        checksum = _checksum(kind[0], content)
        self._checksums += checksum.to_bytes(4, "little")
        return _CHUNK.pack(kind[0], len(content), checksum) + content


class RecordingDecoder:
    """Reads a file from `content`. Raises MalformedRecording with the reason and the byte. `find_names`: for pages of
    numbers, which are refused without it.
    """

    def __init__(self, content: bytes, find_names: FindNames | None = None) -> None:
        self._content = content
        self._find_names = find_names
        self._checksums = bytearray()
        """The checksums of the chunks read so far, four bytes each."""
        self.read_count = self.page_count = 0
        self.has_numbers = False
        """Whether a page of numbers was read."""
        self.is_complete = False
        """Whether the end was read."""
        if content[: len(SIGNATURE)] != SIGNATURE[: len(content)] or not content:
            raise MalformedRecording("it is no recording (byte 0)")
        self.offset = len(SIGNATURE) + _VERSION.size
        """The offset of the first byte that was not read yet."""
        if len(content) < self.offset:
            raise MalformedRecording("it is truncated (byte 0)")
        (version,) = _VERSION.unpack_from(content, len(SIGNATURE))
        if version != VERSION:
            raise MalformedRecording(f"its version is {version}, and version {VERSION} is read here")
        self.header = _header(self._next_chunk(b"H"))

    def next_page(self) -> RecordingPage | None:
        """Returns the next page; None: the end was read."""
        at = self.offset
        kind = self._content[at : at + 1]
        if kind == b"E":
            self._read_end()
            return None
        find_names = self._find_names if kind == b"N" else None
        stored = self._next_chunk(b"P" if find_names is None else b"N")
        try:
            page = decode_page(_decompress(stored)) if find_names is None else decode_numbered(stored, find_names)
        except MalformedRecording as reason:
            message = f"{reason} (page {self.page_count}, at byte {at})"
        else:
            self.has_numbers = self.has_numbers or find_names is not None
            self.page_count += 1
            self.read_count += len(page)
            return page
        raise MalformedRecording(message)

    def pages(self) -> Iterator[RecordingPage]:
        """Yields the pages, and reads the end."""
        while (page := self.next_page()) is not None:
            yield page

    def _read_end(self) -> None:
        at = self.offset
        checksums = zlib.crc32(self._checksums)
        content = self._next_chunk(b"E")
        if content != _END.pack(self.read_count, self.page_count, checksums):
            raise MalformedRecording(f"its end does not fit its pages: some are missing or moved (byte {at})")
        if self.offset != len(self._content):
            raise MalformedRecording(f"there are bytes behind its end (byte {self.offset})")
        self.is_complete = True

    def _next_chunk(self, kind: bytes) -> bytes:
        at = self.offset
        if at + _CHUNK.size > len(self._content):
            raise MalformedRecording(f"it is truncated (byte {at})")
        found, length, checksum = _CHUNK.unpack_from(self._content, at)
        if found != kind[0] or length > _MAX_CHUNK:
            raise MalformedRecording(f"it is damaged: no chunk {kind.decode()} begins at byte {at}")
        stop = at + _CHUNK.size + length
        if stop > len(self._content):
            raise MalformedRecording(f"it is truncated (within the chunk at byte {at})")
        content = self._content[at + _CHUNK.size : stop]
        if _checksum(found, content) != checksum:
            raise MalformedRecording(f"it is damaged: a checksum does not match (chunk at byte {at})")
        self._checksums += checksum.to_bytes(4, "little")
        self.offset = stop
        return content


def _checksum(kind: int, content: bytes) -> int:
    return zlib.crc32(content, zlib.crc32(_KIND_AND_LENGTH.pack(kind, len(content))))


def _header(content: bytes) -> RecordingHeader:
    try:
        document = json.loads(content)
    except ValueError:
        document = None
    began = document.get("began") if isinstance(document, dict) else None
    if not isinstance(began, int) or isinstance(began, bool) or not 0 <= began < 1 << 40:
        raise MalformedRecording("its header does not say when it began")
    return RecordingHeader(began)


def _decompress(stored: bytes) -> bytes:
    """Decompresses a page of at most MAX_PAGE_BYTES."""
    unpacker = zlib.decompressobj()
    try:
        raw = unpacker.decompress(stored, MAX_PAGE_BYTES + 1)
    except zlib.error:
        raise MalformedRecording("a page that can't be decompressed") from None
    if len(raw) > MAX_PAGE_BYTES or not unpacker.eof or unpacker.unused_data:
        raise MalformedRecording("a page that is larger than a page can be, or cut short")
    return raw
