"""A record of a journal log: a document, and a small body beside it, verified on its own.

    offset  size  field
         0     4  magic "FBJ1"                                  big-endian throughout
         4     4  length of the document d
         8     8  length of the payload p
        16     8  number of the record in its log, from 0
        24     8  bytes of the log that were durable when the record was written
        32     8  CRC-64/XZ of the log's id and the 32 bytes above
        40     d  the document: JSON, UTF-8
      40+d     p  the payload
    40+d+p     8  CRC-64/XZ of document and payload
                  zeros up to a multiple of 8, where the next record begins

The id of the log is in the checksum and not in the record. So bytes of another log, which a file system may show after
a power cut, never verify, and nobody can put a record into an object's bytes: the id is random and stays in the
journal's directory.

Unreadable bytes are either a torn end, which was never acknowledged, or damage. The records after them decide: each has
the durable length of the log before it was written. Damage lies below the largest such length.
"""

import json
import struct
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

from forebay.core.buffers import Buffer
from forebay.protocol.body.crc64 import crc64

Document: TypeAlias = Mapping[str, Any]

MAGIC: Final = b"FBJ1"
ALIGNMENT: Final = 8
LONGEST_DOCUMENT: Final = 16 << 20
LONGEST_PAYLOAD: Final = 16 << 20

_WINDOW: Final = 1 << 16
_FIELDS = struct.Struct(">4sIQQQ")
_CHECKSUM = struct.Struct(">Q")
HEADER_SIZE: Final = _FIELDS.size + _CHECKSUM.size


class LogRecord(NamedTuple):
    """A record that was read back, verified."""

    offset: int
    """The position of its first byte in its log."""
    number: int
    durable: int
    """Bytes of the log that were durable when it was written."""
    document: Document
    payload: bytes


class LogDamage(NamedTuple):
    """Bytes of a log that hold no record and once were durable."""

    start: int
    stop: int


class TornEnd(NamedTuple):
    """Bytes behind the last record and behind what is known to have been durable: a batch of which nobody had
    an answer, as a kill or a power cut leaves it, or the last one, damaged."""

    start: int
    stop: int


def record_size(document: int, payload: int) -> int:
    """Returns the bytes of a record, padding included, from the lengths of its parts."""
    return -(-(HEADER_SIZE + document + payload + _CHECKSUM.size) // ALIGNMENT) * ALIGNMENT


_encode: Final = json.JSONEncoder(ensure_ascii=False, check_circular=False, separators=(",", ":")).encode


def encode_document(document: Document) -> bytes:
    """Returns the JSON of a document. Raises ValueError for one that is too long."""
    encoded = _encode(document).encode("utf-8", "surrogatepass")
    if len(encoded) > LONGEST_DOCUMENT:
        raise ValueError("the document of a record is too long")
    return encoded


def encode_record(
    log_id: bytes, number: int, durable: int, document: bytes, payload: Buffer | bytes
) -> tuple[bytes, Buffer | bytes, bytes]:
    """Returns the bytes of a record in three pieces; the payload is not copied. Raises ValueError for a payload
    that is too long."""
    if len(payload) > LONGEST_PAYLOAD:
        raise ValueError("the payload of a record is too long")
    fields = _FIELDS.pack(MAGIC, len(document), len(payload), number, durable)
    head = fields + _CHECKSUM.pack(crc64(fields, crc64(log_id))) + document
    end = _CHECKSUM.pack(crc64(payload, crc64(document)))
    return head, payload, end + bytes(-(len(head) + len(payload) + len(end)) % ALIGNMENT)


def read_records(log_id: bytes, content: Buffer | bytes) -> Iterator[LogRecord | LogDamage | TornEnd]:
    """Yields the content of a log, in order. Damage is yielded where it begins.

    A record after a torn one may be there, unacknowledged as it is: a disk may write in any order until it is synced.
    """
    view = memoryview(content)
    records: list[LogRecord] = []
    offset = 0
    while offset + HEADER_SIZE <= len(view):
        record, size = _read_record(log_id, view, offset)
        if record is not None:
            records.append(record)
        offset = _next_magic(view, offset + size) if record is None else offset + size
    durable = max((record.durable for record in records), default=0)
    end = 0
    for record in records:
        if end < min(record.offset, durable):
            yield LogDamage(end, min(record.offset, durable))
        yield record
        end = record.offset + record_size_of(view, record.offset)
    if end < durable:
        yield LogDamage(end, durable)
    start = max(end, durable)
    if torn := len(bytes(view[start:]).rstrip(b"\0")):
        yield TornEnd(start, start + torn)


def record_size_of(view: memoryview, offset: int) -> int:
    """Returns the bytes of the record that begins at `offset`, whose header is right."""
    _, document, payload, _, _ = _FIELDS.unpack_from(view, offset)
    return record_size(document, payload)


def _next_magic(view: memoryview, offset: int) -> int:
    """Returns the next place from `offset` on where a record may begin, the end if there is none."""
    while offset < len(view):
        window = bytes(view[offset : offset + _WINDOW + len(MAGIC) - 1])
        found = window.find(MAGIC)
        if found < 0:
            offset += _WINDOW
        elif (offset + found) % ALIGNMENT:
            offset += found + ALIGNMENT - (offset + found) % ALIGNMENT
        else:
            return offset + found
    return len(view)


def _read_record(log_id: bytes, view: memoryview, offset: int) -> tuple[LogRecord | None, int]:
    """Returns the record at `offset`, and how far to go on. None: there is none, or it is damaged."""
    fields = view[offset : offset + _FIELDS.size]
    magic, document, payload, number, durable = _FIELDS.unpack(fields)
    if magic != MAGIC:
        return None, ALIGNMENT
    (own,) = _CHECKSUM.unpack_from(view, offset + _FIELDS.size)
    if crc64(fields, crc64(log_id)) != own or document > LONGEST_DOCUMENT or payload > LONGEST_PAYLOAD:
        return None, ALIGNMENT
    start = offset + HEADER_SIZE
    stop = start + document + payload
    if stop + _CHECKSUM.size > len(view):
        return None, ALIGNMENT
    (own,) = _CHECKSUM.unpack_from(view, stop)
    if crc64(view[start:stop]) != own:
        return None, record_size(document, payload)  # its header is right: nothing within it is a record of the log
    parsed = json.loads(bytes(view[start : start + document]).decode("utf-8", "surrogatepass"))
    record = LogRecord(offset, number, durable, parsed, bytes(view[start + document : stop]))
    return record, record_size(document, payload)
