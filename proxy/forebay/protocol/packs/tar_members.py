"""TAR as shards are written: POSIX ustar, a pax header only for a name or a size that ustar has no room for.

    [pax header, 512 + n * 512]   header, 512   bytes of the member, filled up to 512   ...   1024 zero bytes

So the bytes of each member begin at a multiple of 512, and `tar`, Python's tarfile and WebDataset read a shard as it
is. Metadata of the objects is in the index alone: a pax header each would cost a kilobyte a member.

POSIX.1-2017, pax, "pax Interchange Format" and "ustar Interchange Format"
"""

from typing import Final

RECORD: Final = 512
TAR_END: Final = bytes(2 * RECORD)
_MAX_USTAR_SIZE: Final = 8**11 - 1
_MAX_USTAR_TIME: Final = 8**11 - 1
_NAME_BYTES: Final = 100
_PREFIX_BYTES: Final = 155
_MODE: Final = 0o644


def member_header(key: str, size: int, modified: int) -> bytes:
    """What stands before the bytes of a member. `modified`: seconds since the epoch."""
    name = key.encode()
    prefix, short = _split(name)
    records = b""
    if short is None or not key.isascii():
        records += _pax_record(b"path", name)
        prefix, short = b"", name[:_NAME_BYTES]
    if size > _MAX_USTAR_SIZE:
        records += _pax_record(b"size", str(size).encode())
    modified = min(max(0, modified), _MAX_USTAR_TIME)
    header = _header(prefix, short, min(size, _MAX_USTAR_SIZE), modified, b"0")
    if not records:
        return header
    extended = _header(b"", b"pax_header", len(records), modified, b"x")
    return b"".join((extended, records, padding(len(records)), header))


def padding(size: int) -> bytes:
    """What fills `size` bytes up to the next multiple of 512."""
    return bytes(-size % RECORD)


def member_length(size: int) -> int:
    """Bytes that a member of `size` bytes takes, without what stands before it."""
    return size + -size % RECORD


def _split(name: bytes) -> tuple[bytes, bytes | None]:
    """The prefix and the name of a ustar header, joined by a slash; no name: it does not fit."""
    if len(name) <= _NAME_BYTES:
        return b"", name
    at = name.find(b"/", len(name) - _NAME_BYTES - 1)
    if 0 < at <= _PREFIX_BYTES and at + 1 < len(name):
        return name[:at], name[at + 1 :]
    return b"", None


def _pax_record(keyword: bytes, value: bytes) -> bytes:
    """`length keyword=value`, where the length counts its own digits."""
    rest = b" " + keyword + b"=" + value + b"\n"
    length = len(rest) + 1
    while len(str(length)) + len(rest) != length:
        length = len(str(length)) + len(rest)
    return str(length).encode() + rest


def _header(prefix: bytes, name: bytes, size: int, modified: int, kind: bytes) -> bytes:
    fields = b"".join(
        (
            name.ljust(_NAME_BYTES, b"\0"),
            b"%07o\0" % _MODE,
            b"%07o\0" % 0,
            b"%07o\0" % 0,
            b"%011o\0" % size,
            b"%011o\0" % modified,
            b" " * 8,  # the checksum counts its own field as blanks
            kind,
            bytes(100),
            b"ustar\0" + b"00",
            bytes(64),
            b"%07o\0" % 0,
            b"%07o\0" % 0,
            prefix.ljust(_PREFIX_BYTES, b"\0"),
            bytes(12),
        )
    )
    return fields[:148] + b"%06o\0 " % sum(fields) + fields[156:]
