"""The settled numbers of a log: which of its records were carried out, or given up by a person.

    0   8  number of the record               a row of 16 bytes, big-endian
    8   8  CRC-64/XZ of the log's id and the number

The highest bit of the number says that the record was dropped, not carried out: no earlier write of its object is
superseded by it.

Rows that a power cut tore or lost do not count: their records are pending again, and are compared with the origin
again. Before a body is removed, the row of its record is durable; before the rows are, the log is gone.
"""

import struct
from collections.abc import Container, Iterable
from typing import Final

from forebay.core.buffers import Buffer
from forebay.protocol.body.crc64 import crc64
from forebay.storage.journal.journal_files import JournalFiles
from forebay.storage.journal.journal_layout import JournalLayout

_ROW: Final = struct.Struct(">QQ")
_NUMBER: Final = struct.Struct(">Q")
DROPPED: Final = 1 << 63
"""Added to the number of a record that nobody carries out: refused, repeated, or given up by a person."""


def encode_rows(log: str, numbers: Iterable[int]) -> bytes:
    """Returns the rows of these numbers. `log`: its id."""
    return b"".join(_ROW.pack(number, _checksum(log, number)) for number in numbers)


def is_settled(number: int, settled: Container[int]) -> bool:
    """Returns whether a record is settled, carried out or dropped. `settled`: the numbers of its log's rows."""
    return number in settled or number | DROPPED in settled


def decode_rows(log: str, content: Buffer | bytes) -> set[int]:
    """Returns the numbers of all rows that are whole."""
    usable = len(content) - len(content) % _ROW.size
    return {number for number, own in _ROW.iter_unpack(content[:usable]) if own == _checksum(log, number)}


def append_settled(files: JournalFiles, layout: JournalLayout, log: str, numbers: Iterable[int]) -> None:
    """Adds numbers, and DROPPED where that holds, to those of a log; durable when it returns. For one thread of one
    process at a time: two would write their rows at the same place. Raises OSError."""
    path = layout.settled(log)
    try:
        fd = files.open(path, writable=True)
    except FileNotFoundError:
        fd = files.create(path)
    try:
        end = files.size(fd)
        # After a torn row the next one begins at a multiple of the row's size again.
        files.write(fd, [encode_rows(log, numbers)], end + -end % _ROW.size)
        files.sync(fd)
    finally:
        files.close(fd)
    files.sync_directory(layout.logs)


def read_settled(files: JournalFiles, layout: JournalLayout, log: str) -> set[int]:
    """Returns the numbers of a log's rows, as `append_settled` was given them. Raises OSError."""
    try:
        fd = files.open(layout.settled(log))
    except FileNotFoundError:
        return set()
    try:
        return decode_rows(log, files.read(fd, files.size(fd), 0))
    finally:
        files.close(fd)


def _checksum(log: str, number: int) -> int:
    return crc64(_NUMBER.pack(number), crc64(bytes.fromhex(log)))
