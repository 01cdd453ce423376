"""A record: one block in a segment, with its address and checksums, so that it can be verified on its own.

    offset  size  field
         0     4  magic "FBR1"
         4     2  number of slices n                    big-endian throughout
         6     2  zero
         8     4  payload length
        12    16  object address     \
        28     8  generation          }  the block address: see addressing.py
        36     4  number             /
        40    8n  CRC-64/XZ of each slice of 64 KiB (the last may be shorter)
    40+8n     8  CRC-64/XZ of all bytes above
    48+8n        payload
                 zeros up to a multiple of 8, where the next record begins

With slices, a small range of a large block is read and verified without reading the block.

A record is compared with the block that is looked up: `expected_identity` returns the first 40 bytes that its record
must have. The length of the header follows from that of the payload, which the reader knows from the index.
"""

import struct
from collections.abc import Sequence
from typing import Final, NamedTuple

from forebay.core.buffers import Buffer
from forebay.core.byte_ranges import Span
from forebay.protocol.body.crc64 import crc64
from forebay.storage.ssd.segments.addressing import BLOCK_ADDRESS

MAGIC: Final = b"FBR1"
SLICE: Final = 64 * 1024
ALIGNMENT: Final = 8
MAX_LENGTH: Final = SLICE * 0xFFFF

_IDENTITY = struct.Struct(f">4sHHI{BLOCK_ADDRESS}s")
_CHECKSUM = struct.Struct(">Q")
_OF_ONE_SLICE = struct.Struct(f">4sHHI{BLOCK_ADDRESS}sQ")
MIN_HEADER: Final = _IDENTITY.size + _CHECKSUM.size


class RecordHeader(NamedTuple):
    """The fields of a record's header, unverified: enough to find the next record."""

    address: bytes
    length: int


checksum: Final = crc64


def slice_count(length: int) -> int:
    """Returns the number of slices of a payload."""
    return -(-length // SLICE)


def header_size(length: int) -> int:
    """Returns the bytes before the payload of a block of `length` bytes."""
    return MIN_HEADER + _CHECKSUM.size * slice_count(length)


def record_size(length: int) -> int:
    """Returns the bytes of the whole record, with its padding."""
    # Without header_size and slice_count, as each block that is kept asks several times.
    return -(-(MIN_HEADER + _CHECKSUM.size * -(-length // SLICE) + length) // ALIGNMENT) * ALIGNMENT


def expected_identity(address: bytes, length: int) -> bytes:
    """Returns the bytes that the record of this block begins with."""
    return _IDENTITY.pack(MAGIC, slice_count(length), 0, length, address)


def encode_header(address: bytes, payload: Buffer) -> bytes:
    """Returns the header of a block's record."""
    length = len(payload)
    if 0 < length <= SLICE:
        content = _OF_ONE_SLICE.pack(MAGIC, 1, 0, length, address, checksum(payload))
    else:
        sums = [checksum(payload[start : start + SLICE]) for start in range(0, length, SLICE)]
        content = expected_identity(address, length) + struct.pack(f">{len(sums)}Q", *sums)
    return content + _CHECKSUM.pack(checksum(content))


def slices_of(within: Span) -> range:
    """Returns the slices that hold the bytes `within` a payload."""
    return range(within.start // SLICE, slice_count(within.stop))


def verify_header(header: Buffer, address: bytes, length: int) -> Sequence[int] | str:
    """Returns the slices' checksums, or why this is not the header of the block with that address and length.

    `header` is header_size(length) bytes.
    """
    if header[: _IDENTITY.size] != expected_identity(address, length):
        return "foreign header"
    (own,) = _CHECKSUM.unpack_from(header, len(header) - _CHECKSUM.size)
    if checksum(header[: -_CHECKSUM.size]) != own:
        return "torn header"
    return struct.unpack_from(f">{slice_count(length)}Q", header, _IDENTITY.size)


def verify_payload(sums: Sequence[int], first: int, payload: Buffer) -> bool:
    """Returns whether `payload`, whole slices from the slice `first` on, matches its checksums."""
    return all(
        checksum(payload[start : start + SLICE]) == sums[first + nth]
        for nth, start in enumerate(range(0, len(payload), SLICE))
    )


def parse_header(raw: Buffer) -> RecordHeader | None:
    """Returns what the header at the start of `raw` says; None if there is none, or its start is damaged.

    Only for the scan of a segment. Readers of a payload verify it against the index and with `verify_header`.
    """
    if len(raw) < MIN_HEADER:
        return None
    magic, slices, zero, length, address = _IDENTITY.unpack_from(raw)
    if magic != MAGIC or zero != 0 or slices != slice_count(length) or length == 0:
        return None
    return RecordHeader(address, length)
