"""A page of a recording: up to PAGE_READS reads, in columns. The keys of a page stand in it once.

    u32 reads | u32 keys | u32 seconds | u8 columns          seconds: from the beginning of the recording to this page
    u16 length of each key in bytes
    keys, UTF-8, one after another, in the order of their first read
    u16 number of the key of each read                       absent if every read has a key of its own   (bit 0)
    u64 first byte of each read                              absent if every read began at byte 0        (bit 1)
    u32 or u64 (length * 2 + whole) of each read             u64 if one does not fit into u32            (bit 2)

All numbers are little-endian. `whole`: the read covered the whole object, so a replay reads the whole object, whatever
its size is then. docs/recordings.md describes this for other programs; `recording_file` puts pages into a file.
"""

import struct
import sys
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from forebay.core.errors import MalformedRecording
from forebay.core.events import RecordedRead
from forebay.core.names import MAX_KEY_BYTES
from forebay.core.number_halves import high_halves, low_halves
from forebay.protocol.recordings.read_columns import ColumnSource, ReadColumns

PAGE_READS: Final = 2048
"""The most reads of a page."""
_HEAD: Final = struct.Struct("<IIIB")
_HAS_NUMBERS: Final = 1
_HAS_STARTS: Final = 2
_HAS_LONG_LENGTHS: Final = 4
MAX_OFFSET: Final = 1 << 62
"""No read ends behind it; no object is so large."""
MAX_PAGE_BYTES: Final = _HEAD.size + PAGE_READS * (2 + MAX_KEY_BYTES + 2 + 8 + 8)


@dataclass(frozen=True, slots=True)
class RecordingPage:
    """Reads in order. `seconds`: from the beginning of the recording to the first of them."""

    source: ColumnSource
    seconds: int = 0

    @classmethod
    def of(cls, reads: Iterable[RecordedRead], seconds: int = 0) -> "RecordingPage":
        """A page of these reads."""
        return cls(ReadColumns.of(reads), seconds)

    def __len__(self) -> int:
        return len(self.source)

    @property
    def columns(self) -> ReadColumns:
        """Returns the reads in columns, converted from their source."""
        return self.source.columns

    @property
    def reads(self) -> tuple[RecordedRead, ...]:
        """Yields each read."""
        return self.columns.reads


def encode_page(page: RecordingPage) -> bytes:
    """Returns the bytes of a page of 1 to PAGE_READS reads."""
    reads = page.columns
    of_read, starts, extents = reads.keys, reads.starts, reads.extents
    keys = list(dict.fromkeys(of_read))
    columns = 0
    joined = "".join(keys)
    lengths = list(map(len, keys if joined.isascii() else map(str.encode, keys)))
    parts = [_bytes("H", lengths), joined.encode()]
    if len(keys) < len(of_read):
        columns |= _HAS_NUMBERS
        numbers = {key: number for number, key in enumerate(keys)}
        parts.append(_bytes("H", [numbers[key] for key in of_read]))
    if any(starts):
        columns |= _HAS_STARTS
        parts.append(_bytes("Q", starts))
    if high_halves(extents).tobytes().strip(b"\0"):
        columns |= _HAS_LONG_LENGTHS
        parts.append(_bytes("Q", extents))
    else:
        parts.append(_bytes("I", low_halves(extents).tobytes()))
    return b"".join([_HEAD.pack(len(of_read), len(keys), page.seconds, columns), *parts])


def decode_page(raw: bytes) -> RecordingPage:
    """Returns the page of these bytes. Raises MalformedRecording with the reason."""
    if len(raw) < _HEAD.size:
        raise MalformedRecording("a page without a head")
    count, key_count, seconds, columns = _HEAD.unpack_from(raw)
    if not 0 < key_count <= count <= PAGE_READS or columns > 7:
        raise MalformedRecording(f"a page of {count} reads and {key_count} keys, columns {columns}")
    columns_of = _Columns(raw, _HEAD.size)
    key_lengths = columns_of.numbers("H", key_count)
    keys = _keys(columns_of.next_bytes(sum(key_lengths)), key_lengths)
    numbers: Sequence[int] = columns_of.numbers("H", count) if columns & _HAS_NUMBERS else range(count)
    starts = columns_of.numbers("Q", count) if columns & _HAS_STARTS else array("Q", bytes(8 * count))
    extents = columns_of.numbers("Q" if columns & _HAS_LONG_LENGTHS else "I", count)
    if columns_of.rest:
        raise MalformedRecording(f"{columns_of.rest} bytes behind the last column of a page")
    if max(numbers) >= key_count:
        raise MalformedRecording(f"key {max(numbers)} of {key_count}")
    if max(starts) > MAX_OFFSET or max(extents) // 2 > MAX_OFFSET:
        raise MalformedRecording("a read behind the end of any object")
    if any(extent & 1 and start for start, extent in zip(starts, extents, strict=True)):
        raise MalformedRecording("a read of a whole object that begins inside it")
    return RecordingPage(ReadColumns([keys[each] for each in numbers], starts, array("Q", extents)), seconds)


class _Columns:
    """Reads the columns of a page, one after another."""

    def __init__(self, raw: bytes, offset: int) -> None:
        self._raw = raw
        self._offset = offset

    @property
    def rest(self) -> int:
        """Bytes that were not read."""
        return len(self._raw) - self._offset

    def next_bytes(self, size: int) -> bytes:
        found = self._raw[self._offset : self._offset + size]
        if len(found) < size:
            raise MalformedRecording("a page that ends within a column")
        self._offset += size
        return found

    def numbers(self, code: str, count: int) -> "array[int]":
        column = array(code)
        column.frombytes(self.next_bytes(count * column.itemsize))
        if sys.byteorder == "big":
            column.byteswap()
        return column


def _keys(blob: bytes, lengths: Iterable[int]) -> list[str]:
    keys = []
    offset = 0
    for number, length in enumerate(lengths):
        if not 0 < length <= MAX_KEY_BYTES:
            raise MalformedRecording(f"key {number} of a page has {length} bytes")
        try:
            key = blob[offset : offset + length].decode()
        except UnicodeDecodeError:
            raise MalformedRecording(f"key {number} of a page is not UTF-8") from None
        if "\0" in key:
            raise MalformedRecording(f"key {number} of a page has a NUL character")
        keys.append(key)
        offset += length
    if len(set(keys)) < len(keys):
        raise MalformedRecording("a key that stands in a page twice")
    return keys


def _bytes(code: str, values: "Sequence[int] | array[int] | bytes") -> bytes:  # an iterator takes twice as long
    column = array(code, values)
    if sys.byteorder == "big":
        column.byteswap()
    return column.tobytes()
