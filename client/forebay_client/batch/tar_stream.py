"""The TAR that answers a batch, decoded while it arrives.

The bytes of an entry are received into a buffer of its own, and at most AHEAD bytes are read ahead of it. So an item
keeps only its own bytes in memory. The standard library's tarfile takes many times as long: it makes a TarInfo of all
fields, and a file object for the bytes.

The format is forebay.protocol.batch.tar_entries. Members of other TARs: forebay_client.batch.archive_member.
"""

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from forebay_client.transport.object_request import BodyInterrupted, BodyStream

AHEAD: Final = 256 << 10
BELIEVED: Final = 64 << 20
"""Bytes of an entry that memory is allocated for because its header says so. For more, as much as has come by then."""
_DIGITS: Final = 20
_BLOCK: Final = 512
_MAX_RECORDS: Final = 64 << 10
_SIZE: Final = slice(124, 136)
_EXTENDED: Final = ord("x")
_FILES: Final = frozenset(b"0\0")
_NO_RECORDS: Final[Mapping[str, str]] = MappingProxyType({})
_END: Final = bytes(_BLOCK)


class TarBroken(Exception):
    """The TAR is truncated, or is none. The entries before are valid."""


class TarEntry(NamedTuple):
    """One entry: its name, the records of its extended header, and its bytes."""

    name: str
    data: memoryview
    records: Mapping[str, str] = _NO_RECORDS


class TarStream:
    """Reads a TAR from the body of a response. Iterate over it once; `close` it in the end."""

    def __init__(self, stream: BodyStream, believed: int = BELIEVED) -> None:
        self._stream, self._believed = stream, believed
        self._buffer = memoryview(bytearray(AHEAD))
        self._start = self._stop = 0

    def __iter__(self) -> Iterator[TarEntry]:
        """Yields the entries. Raises TarBroken."""
        records: Mapping[str, str] = _NO_RECORDS
        while True:
            header = self._read(_BLOCK)
            if header == _END:
                self._finish()
                return
            size, kind = _number(header[_SIZE]), header[156]
            if kind == _EXTENDED:
                if size > _MAX_RECORDS:
                    raise TarBroken("an extended header of that size")
                records = _parse_records(self._read(size))
                self._skip(-size % _BLOCK)
                continue
            if kind not in _FILES:
                raise TarBroken("an entry that is no file")
            if records:
                size = _size(records, size)
            name = records.get("path") or _name(header)
            data = self._receive(size)
            self._skip(-size % _BLOCK)
            yield TarEntry(name, data.toreadonly(), records)
            records = _NO_RECORDS

    def close(self) -> None:
        """Ends the reading. Before the end of the TAR that ends the connection as well."""
        self._stream.close()

    def _read(self, count: int) -> bytes:
        """The next `count` bytes, at most AHEAD."""
        if self._stop - self._start < count:
            self._buffer[: self._stop - self._start] = bytes(self._buffer[self._start : self._stop])
            self._start, self._stop = 0, self._stop - self._start
            while self._stop < count:
                self._stop += self._read_into(self._buffer[self._stop :])
        start, self._start = self._start, self._start + count
        return bytes(self._buffer[start : self._start])

    def _receive(self, size: int) -> memoryview:
        here = self._stop - self._start
        data = memoryview(bytearray(min(size, max(here, self._believed))))
        received = min(len(data), here)
        data[:received] = self._buffer[self._start : self._start + received]
        self._start += received
        while received < size:
            if received == len(data):  # as much has come as was believed: now twice that is
                data = _longer(data, min(size, 2 * received))
            received += self._read_into(data[received:])
        return data

    def _skip(self, count: int) -> None:
        if count:
            self._read(count)

    def _read_into(self, buffer: memoryview) -> int:
        try:
            count = self._stream.readinto(buffer)
        except BodyInterrupted as interrupted:
            raise TarBroken(str(interrupted)) from interrupted
        if not count:
            raise TarBroken("the TAR has no end")
        return count

    def _finish(self) -> None:
        """Reads the second block of zeros and the end of the body, so that the connection can be used again."""
        if self._read(_BLOCK) != _END:
            raise TarBroken("the TAR ends with one block")
        try:
            if self._start != self._stop or self._stream.readinto(self._buffer):
                raise TarBroken("bytes behind the end of the TAR")
        except BodyInterrupted as interrupted:
            raise TarBroken(str(interrupted)) from interrupted


def _longer(data: memoryview, size: int) -> memoryview:
    longer = memoryview(bytearray(size))
    longer[: len(data)] = data
    return longer


def _size(records: Mapping[str, str], size: int) -> int:
    text = records.get("size", str(size))
    if not (text.isascii() and text.isdecimal() and len(text) < _DIGITS):
        raise TarBroken("an entry of that size")
    return int(text)


def _name(header: bytes) -> str:
    name, prefix = header[:100].rstrip(b"\0"), header[345:500].rstrip(b"\0")
    if prefix and header[257:263] == b"ustar\0":
        name = prefix + b"/" + name
    return name.decode("utf-8", "replace")


def _number(digits: bytes) -> int:
    try:
        number = int(digits.rstrip(b"\0 ") or b"0", 8)
    except ValueError:
        number = -1
    if number < 0:
        raise TarBroken("no header of a TAR")
    return number


def _parse_records(content: bytes) -> Mapping[str, str]:
    """`27 FOREBAY.code=NoSuchKey\\n`, one after the other. Raises TarBroken."""
    records: dict[str, str] = {}
    at = 0
    try:
        while at < len(content):
            blank = content.index(b" ", at)
            stop = at + int(content[at:blank])
            keyword, equals, value = content[blank + 1 : stop - 1].decode().partition("=")
            if not equals or stop <= blank or content[stop - 1 : stop] != b"\n":
                raise ValueError
            records[keyword] = value
            at = stop
    except ValueError:
        raise TarBroken("no extended header of POSIX") from None
    return records
