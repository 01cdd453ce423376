"""Headers of TAR, for shards of packs and for batches: POSIX ustar, and pax records for values that do not fit into it.

https://pubs.opengroup.org/onlinepubs/9799919799/utilities/pax.html#tag_20_94_13
"""

from typing import Final, Literal

BLOCK: Final = 512
"""Bytes of a header; the bytes of a member are filled up to a multiple of it."""
NAME_SIZE: Final = 100
PREFIX_SIZE: Final = 155
MAX_SIZE: Final = 8**11 - 1
"""Bytes of the largest member for which a header has digits."""
END_OF_TAR: Final = bytes(2 * BLOCK)

_MAX_TIME: Final = 8**11 - 1
_MODES: Final = b"0000644\0" + b"0000000\0" * 2
_OWNERS: Final = bytes(100) + b"ustar\x0000" + bytes(64) + b"0000000\0" * 2
_FIXED_SUM: Final = sum(_MODES) + 8 * ord(" ") + sum(_OWNERS)  # the checksum counts its own field as blanks
_REST_SIZE: Final = BLOCK - 157 - len(_OWNERS)
_NO_PREFIX: Final = bytes(_REST_SIZE)
_ZEROS: Final = bytes(BLOCK)


def tar_header(
    name: bytes, size: int, modified_at: int, kind: Literal[b"0", b"x"] = b"0", prefix: bytes = b""
) -> bytes:
    """Returns one header. A size or a time that does not fit is replaced by the nearest one that does.

    `kind`: a file, or pax records; `modified_at`: seconds since the epoch; `prefix`: what precedes `name`, without the
    slash between them.
    """
    numbers = b"%011o\0%011o\0" % (min(size, MAX_SIZE), min(max(0, modified_at), _MAX_TIME))
    total = _FIXED_SUM + sum(name) + sum(numbers) + kind[0] + sum(prefix)
    rest = prefix.ljust(_REST_SIZE, b"\0") if prefix else _NO_PREFIX
    return b"".join((name.ljust(NAME_SIZE, b"\0"), _MODES, numbers, b"%06o\0 " % total, kind, _OWNERS, rest))


def extended_header(records: bytes, modified_at: int) -> bytes:
    """Returns the extended header, which precedes the header of a member with pax records."""
    return b"".join((tar_header(b"././@PaxHeader", len(records), modified_at, b"x"), records, padding(len(records))))


def pax_record(keyword: str, value: bytes) -> bytes:
    """`25 ctime=1084839148.1212\\n`: the number is the length of the record, its own digits included."""
    text = b" %b=%b\n" % (keyword.encode(), value)
    length = len(text) + 1
    while len(str(length)) + len(text) != length:
        length = len(str(length)) + len(text)
    return b"%d%b" % (length, text)


def padding(size: int) -> bytes:
    """The zeros behind `size` bytes of a member."""
    return _ZEROS[: -size % BLOCK]
