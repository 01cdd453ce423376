"""The TAR that answers a batch: POSIX (pax) format, which tar, tarfile and WebDataset read.

    [ extended header, where it is needed ][ header, 512 ][ bytes ][ zeros to a multiple of 512 ] ... [ 1024 zeros ]

An entry has the object's key as its name. The extended header has, in the records of POSIX, a name that is longer than
100 bytes or not plain ASCII, and a size from 8 GiB on; and in records of our own:

    FOREBAY.index      the position of the entry in the batch, from 0, where the order is that of arrival
    FOREBAY.key        the exact key, where readers change the name: tarfile drops slashes at its end
    FOREBAY.status     of a mark, the HTTP status that a GET of it would have had,
    FOREBAY.code       S3's error code, and
    FOREBAY.message    what it says

A mark replaces an entry that could not be read. It is an empty entry named `.forebay/errors/<key>`; no object has such
a name.

Headers: forebay.protocol.tar_header.
"""

from typing import Final, NamedTuple

from forebay.core.names import RESERVED_PREFIX
from forebay.protocol.tar_header import MAX_SIZE, NAME_SIZE, extended_header, pax_record, tar_header

MARKS: Final = f"{RESERVED_PREFIX}errors/"
"""The prefix of the names of marks."""
INDEX: Final = "FOREBAY.index"
KEY: Final = "FOREBAY.key"
STATUS: Final = "FOREBAY.status"
CODE: Final = "FOREBAY.code"
MESSAGE: Final = "FOREBAY.message"
_PRINTABLE: Final = bytes(each if 32 <= each < 127 else ord("?") for each in range(256))


class EntryMark(NamedTuple):
    """Why an entry of a batch could not be read."""

    status: int
    code: str
    message: str


def entry_header(name: str, size: int, modified_at: int, index: int | None = None) -> bytes:
    """Returns the headers before the bytes of an entry. `modified_at`: seconds since the epoch; `index`: the position
    to write into the header, for readers that need it."""
    is_plain = len(name) <= NAME_SIZE and name.isascii() and name.isprintable() and name[-1] != "/"
    if is_plain and index is None and size <= MAX_SIZE:
        return tar_header(name.encode(), size, modified_at)
    records: list[tuple[str, str]] = []
    if index is not None:
        records.append((INDEX, str(index)))
    return _extended(name, size, modified_at, records)


def mark_header(name: str, mark: EntryMark, index: int | None = None) -> bytes:
    """Returns a complete mark, which has no bytes."""
    records = [(INDEX, str(index))] if index is not None else []
    records += [(STATUS, str(mark.status)), (CODE, mark.code), (MESSAGE, mark.message), (KEY, name)]
    return _extended(f"{MARKS}{name}", 0, 0, records)


def _extended(name: str, size: int, modified_at: int, records: list[tuple[str, str]]) -> bytes:
    plain = name.encode("ascii", "replace")[:NAME_SIZE].translate(_PRINTABLE)
    if plain != name.encode():
        records.append(("path", name))
    if name.endswith("/") and all(keyword != KEY for keyword, _ in records):
        records.append((KEY, name))
    if size > MAX_SIZE:
        records.append(("size", str(size)))
    content = b"".join([pax_record(keyword, value.encode()) for keyword, value in records])
    header = tar_header(plain.rstrip(b"/") or b"_", size, modified_at)
    return extended_header(content, 0) + header if content else header
