"""The TAR that answers a batch: POSIX (pax) format, which tar, tarfile and WebDataset read.

    [ extended header, where it is needed ][ header, 512 ][ bytes ][ zeros to a multiple of 512 ] ... [ 1024 zeros ]

An entry has the object's key as its name. The extended header has, in the records of POSIX, a name that is longer than
100 bytes or not plain ASCII, and a size from 8 GiB on; and in records of our own:

    FOREBAY.index      the position of the entry in the batch, from 0, where the order is that of arrival
    FOREBAY.key        the exact key, where readers change the name: tarfile drops slashes at its end
    FOREBAY.status     of a mark, the HTTP status that a GET of it would have had,
    FOREBAY.code       S3's error code, and
    FOREBAY.message    what it says

A mark stands for what could not be read: an empty entry named `.forebay/errors/<key>`, which no object is called.

https://pubs.opengroup.org/onlinepubs/9799919799/utilities/pax.html#tag_20_94_13
"""

from typing import Final, NamedTuple

from forebay.core.names import RESERVED_PREFIX

BLOCK: Final = 512
MARKS: Final = f"{RESERVED_PREFIX}errors/"
"""What the names of marks begin with."""
INDEX: Final = "FOREBAY.index"
KEY: Final = "FOREBAY.key"
STATUS: Final = "FOREBAY.status"
CODE: Final = "FOREBAY.code"
MESSAGE: Final = "FOREBAY.message"
END_OF_TAR: Final = bytes(2 * BLOCK)

_NAME_SIZE: Final = 100
_LARGE: Final = 8 << 30
"""Bytes of an entry from which on a header has no digits for them."""
_MODES: Final = b"0000644\0" + b"0000000\0" * 2
_MAGIC: Final = b"ustar\x0000"
_REST: Final = (bytes(100) + _MAGIC + bytes(64) + b"0000000\0" * 2).ljust(BLOCK - 157, b"\0")
_FIXED_SUM: Final = sum(_MODES) + 8 * ord(" ") + sum(_REST)
_FILE: Final = b"0"
_EXTENDED: Final = b"x"
_ZEROS: Final = bytes(BLOCK)


class EntryMark(NamedTuple):
    """Why an entry of a batch could not be read."""

    status: int
    code: str
    message: str


def entry_header(name: str, size: int, modified_at: int, index: int | None = None) -> bytes:
    """All that precedes the bytes of an entry. `modified_at`: seconds since the epoch; `index`: where the reader must
    be told it."""
    is_plain = len(name) <= _NAME_SIZE and name.isascii() and name.isprintable() and name[-1] != "/"
    if is_plain and index is None and size < _LARGE:
        return _header(name.encode(), size, modified_at, _FILE)
    records: list[tuple[str, str]] = []
    if index is not None:
        records.append((INDEX, str(index)))
    return _extended(name, size, modified_at, records)


def mark_header(name: str, mark: EntryMark, index: int | None = None) -> bytes:
    """A mark, whole: it has no bytes."""
    records = [(INDEX, str(index))] if index is not None else []
    records += [(STATUS, str(mark.status)), (CODE, mark.code), (MESSAGE, mark.message), (KEY, name)]
    return _extended(f"{MARKS}{name}", 0, 0, records)


def padding(size: int) -> bytes:
    """The zeros behind `size` bytes of an entry."""
    return _ZEROS[: -size % BLOCK]


def _extended(name: str, size: int, modified_at: int, records: list[tuple[str, str]]) -> bytes:
    plain = name.encode("ascii", "replace")[:_NAME_SIZE].translate(_PRINTABLE)
    if plain != name.encode():
        records.append(("path", name))
    if name.endswith("/") and all(keyword != KEY for keyword, _ in records):
        records.append((KEY, name))
    if size >= _LARGE:
        records.append(("size", str(size)))
    content = b"".join([_record(keyword, value) for keyword, value in records])
    header = _header(plain.rstrip(b"/") or b"_", size if size < _LARGE else 0, modified_at, _FILE)
    if not content:
        return header
    return b"".join((_header(b"././@PaxHeader", len(content), 0, _EXTENDED), content, padding(len(content)), header))


_PRINTABLE: Final = bytes(each if 32 <= each < 127 else ord("?") for each in range(256))


def _header(name: bytes, size: int, modified_at: int, kind: bytes) -> bytes:
    numbers = b"%011o\0%011o\0" % (size, modified_at if 0 <= modified_at < _LARGE else 0)
    total = _FIXED_SUM + sum(name) + sum(numbers) + kind[0]
    return b"".join((name.ljust(_NAME_SIZE, b"\0"), _MODES, numbers, b"%06o\0 " % total, kind, _REST))


def _record(keyword: str, value: str) -> bytes:
    """`25 ctime=1084839148.1212\\n`: the number is the length of the record, its own digits included."""
    text = f" {keyword}={value}\n".encode()
    length = len(text) + 1
    while len(str(length)) + len(text) != length:
        length = len(str(length)) + len(text)
    return b"%d" % length + text
