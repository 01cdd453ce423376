"""The body of a block of a snapshot's file: entries as rows that pages are cut from (protocol.xml.entry_rows).

    u32 n   u32 length of the keys   u8 plain   n times u8 owner   (n + 1) times u32 bound   keys, NUL between   rows

Integers are little-endian. A reader decodes only the keys; the rows are used as they are stored.

docs/on-disk-format.md
"""

import struct
import sys
from array import array
from typing import Final

from forebay.core.errors import StorageError
from forebay.protocol.xml.entry_rows import EntryRows

_HEADER: Final = struct.Struct("<IIB")


def pack_block(rows: EntryRows) -> bytes:
    """The body of a block."""
    keys = "\0".join(rows.keys).encode()
    bounds = array("I", rows.bounds)
    if sys.byteorder == "big":
        bounds.byteswap()
    header = _HEADER.pack(len(rows.keys), len(keys), rows.is_plain)
    return b"".join((header, rows.owners, bounds.tobytes(), keys, rows.content))


def unpack_block(body: memoryview) -> EntryRows:
    """Returns the rows of a body. They refer to the body, and so keep it in memory. Raises StorageError."""
    try:
        count, size, is_plain = _HEADER.unpack_from(body)
        first = _HEADER.size + count
        second = first + 4 * (count + 1)
        bounds: array[int] | memoryview = body[first:second].cast("I")
        if sys.byteorder == "big":
            bounds = array("I", body[first:second].tobytes())
            bounds.byteswap()
        keys = str(body[second : second + size], "utf-8").split("\0")
        owners = body[_HEADER.size : first].tobytes()
        return EntryRows(keys, body[second + size :], bounds, owners, is_plain=is_plain == 1)
    except (struct.error, TypeError, ValueError) as error:
        raise StorageError("the file of a listing is damaged") from error
