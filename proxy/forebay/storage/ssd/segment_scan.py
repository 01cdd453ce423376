"""The walk through a segment: which records it seems to hold, in order.

What the walk finds is only used to ask the index whether a row points there, so neither a damaged header nor a
payload that looks like one can do harm. After a damaged one the walk goes on at the next place where a record could
begin.
"""

import os
from collections.abc import Iterator
from typing import Final, NamedTuple

from forebay.storage.ssd.index import BlockLocation
from forebay.storage.ssd.record import ALIGNMENT, MAGIC, MIN_HEADER, parse_header, record_size
from forebay.storage.ssd.segments import SegmentFile

# Small records are read together, of large ones only the header.
WINDOW: Final = 256 * 1024
HEADER_WINDOW: Final = 4096


class ScannedRecord(NamedTuple):
    address: bytes
    place: BlockLocation


def scan_segment(file: SegmentFile, number: int, size: int) -> Iterator[ScannedRecord]:
    """The records in the first `size` bytes of a segment. OSError if it can't be read."""
    window = memoryview(b"")
    base = offset = 0
    reach = WINDOW
    while offset + MIN_HEADER <= size:
        if not base <= offset <= base + len(window) - MIN_HEADER:
            base, window = offset, memoryview(os.pread(file.fd, reach, offset))
            if len(window) < MIN_HEADER:
                return
        header = parse_header(window[offset - base : offset - base + MIN_HEADER])
        if header is None or offset + record_size(header.length) > size:
            offset = _next_start(window, base, offset)
            reach = WINDOW
            continue
        yield ScannedRecord(header.address, BlockLocation(number, offset, header.length))
        offset += record_size(header.length)
        reach = WINDOW if header.length < WINDOW else HEADER_WINDOW


def _next_start(window: memoryview, base: int, offset: int) -> int:
    """The next aligned place beyond `offset` where the magic stands, or the end of what the window shows."""
    content = window.tobytes()
    at = offset - base
    while True:
        at = content.find(MAGIC, at + 1)
        if at < 0:
            # The magic may begin in this window's last bytes.
            return max(offset + ALIGNMENT, (base + len(content) - len(MAGIC)) // ALIGNMENT * ALIGNMENT)
        if (base + at) % ALIGNMENT == 0:
            return base + at
