"""Finds the members of a TAR by its headers, without the bytes of the members.

    position ──bytes from there──> feed ──> members whose headers are in them, and the next position

Reads what tar, tarfile and WebDataset write: ustar, pax (names, sizes) and GNU (long names, sizes in base 256). The
first member of a name counts. A header that does not fit its checksum ends the scan: the object is no TAR.

https://pubs.opengroup.org/onlinepubs/9799919799/utilities/pax.html,
https://www.gnu.org/software/tar/manual/html_node/Standard.html
"""

from typing import Final, NamedTuple

from forebay.core.errors import MalformedInput
from forebay.protocol.tar_header import BLOCK

MAX_RECORDS: Final = 1 << 20
"""Bytes of an extended header, or of a long name."""
_FILES: Final = b"0\x007"
_WITHOUT_BYTES: Final = b"123456"
"""Links, devices and folders: the archive has no bytes for the size in their header."""
_CHECKSUM: Final = slice(148, 156)
_BLANKS: Final = b" " * 8


class MalformedTar(MalformedInput):
    """The object is no TAR, or a damaged one; the message has the reason."""


class TarMember(NamedTuple):
    """A file in a TAR."""

    name: str
    offset: int
    """The offset of its bytes."""
    size: int


class TarScan:
    """One pass over the headers of a TAR."""

    def __init__(self) -> None:
        self.position = 0
        """The position of the header that comes next."""
        self.needed = BLOCK
        """Bytes from there on without which nothing more can be found."""
        self.is_complete = False
        self._records: dict[str, str] = {}
        """The records of an extended header, about the member behind it."""

    def feed(self, content: bytes) -> list[TarMember]:
        """The members whose headers are in `content`, the bytes of the archive from `position` on. Raises
        MalformedTar, when there is no member before the damage."""
        found: list[TarMember] = []
        try:
            self._find(content, found)
        except MalformedTar:
            if not found:
                raise
        return found

    def _find(self, content: bytes, found: list[TarMember]) -> None:
        base, at = self.position, 0
        while not self.is_complete:
            header = content[at : at + BLOCK]
            self.position, self.needed = base + at, BLOCK
            if len(header) < BLOCK:
                break
            if not any(header):
                self.is_complete = True
                break
            kind, size = header[156:157], _checked_size(header)
            if kind in b"xgLK":
                end = at + BLOCK + size
                if size > MAX_RECORDS:
                    raise MalformedTar(f"an extended header of {size} bytes")
                if end > len(content):
                    self.needed = end - at
                    break
                self._note(kind, content[at + BLOCK : end])
                at = end + -size % BLOCK
                continue
            if "size" in self._records:
                size = _decimal(self._records["size"])
            if kind in _FILES:
                found.append(TarMember(self._records.get("path") or _name(header), base + at + BLOCK, size))
            elif kind in _WITHOUT_BYTES:
                size = 0
            self._records = {}
            at += BLOCK + size + -size % BLOCK

    def end(self, size: int) -> None:
        """Ends the scan of an archive of this size. The two blocks of zeros at the end may be missing. Raises
        MalformedTar for a truncated archive."""
        if self.position == size and not self._records:
            self.is_complete = True
        elif self.position + self.needed > size:
            raise MalformedTar("it is cut short")

    def _note(self, kind: bytes, content: bytes) -> None:
        if kind == b"L":
            self._records["path"] = _text(content.rstrip(b"\0"))
        elif kind == b"x":
            self._records |= _pax_records(content)


def _checked_size(header: bytes) -> int:
    expected = _octal(header[_CHECKSUM])
    if sum(header) - sum(header[_CHECKSUM]) + sum(_BLANKS) != expected:
        raise MalformedTar("it is no TAR, or a header of it is damaged")
    digits = header[124:136]
    return int.from_bytes(digits[1:], "big") if digits[0] == 0x80 else _octal(digits)


def _octal(digits: bytes) -> int:
    try:
        return int(digits.strip(b"\0 ") or b"0", 8)
    except ValueError:
        raise MalformedTar("it is no TAR, or a header of it is damaged") from None


def _decimal(digits: str) -> int:
    if not (digits.isascii() and digits.isdecimal() and len(digits) < 19):
        raise MalformedTar("an extended header has a size that is none")
    return int(digits)


def _name(header: bytes) -> str:
    name, prefix = header[:100].split(b"\0", 1)[0], header[345:500].split(b"\0", 1)[0]
    return _text(prefix + b"/" + name if prefix and header[257:263] == b"ustar\0" else name)


def _text(name: bytes) -> str:
    return name.decode("utf-8", "surrogateescape")


def _pax_records(content: bytes) -> dict[str, str]:
    records: dict[str, str] = {}
    at = 0
    while at < len(content):
        blank = content.find(b" ", at)
        digits = content[at:blank]
        stop = at + int(digits) if blank > 0 and digits.isdigit() and len(digits) < 8 else 0
        keyword, equals, value = content[blank + 1 : stop - 1].partition(b"=")
        if stop <= blank or stop > len(content) or not equals or content[stop - 1 : stop] != b"\n":
            raise MalformedTar("an extended header is damaged")
        records[_text(keyword)] = _text(value)
        at = stop
    return records
