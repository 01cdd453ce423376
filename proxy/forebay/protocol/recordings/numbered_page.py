"""A page of a recording as numbers of names, which are in a file of their own: four bytes a read, without any key.

    u32 seconds | u16 sections
    of each section: 8 bytes, the id of its names | u32 reads
    u32 number of each read

Used on the node's own disk only: readers of a recording get pages with keys (recording_page). All numbers are
little-endian.
"""

import struct
import sys
from array import array
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, TypeAlias

from forebay.core.errors import MalformedRecording
from forebay.protocol.recordings.read_columns import Numbers, ReadColumns, no_reads
from forebay.protocol.recordings.recording_page import PAGE_READS, RecordingPage

_HEAD: Final = struct.Struct("<IH")
_SECTION: Final = struct.Struct("<8sI")


class NumberedSection(NamedTuple):
    """Reads of objects that have their names in one file."""

    names: bytes
    """The id of the file: 8 bytes."""
    numbers: Numbers
    """Numbers of 32 bits."""


FindNames: TypeAlias = Callable[[bytes], ReadColumns]
"""Returns the names of an id, each as a read of the whole object. Raises MalformedRecording."""


def encode_numbered(seconds: int, sections: Sequence[NumberedSection]) -> bytes:
    """Returns the bytes of a page of 1 to PAGE_READS reads. `seconds`: see RecordingPage."""
    parts = [_HEAD.pack(seconds, len(sections))]
    parts += [_SECTION.pack(names, len(numbers)) for names, numbers in sections]
    parts += [_little(numbers).tobytes() for _, numbers in sections]
    return b"".join(parts)


def decode_numbered(raw: bytes, find_names: FindNames) -> RecordingPage:
    """Returns the page of these bytes. Raises MalformedRecording."""
    try:
        seconds, count = _HEAD.unpack_from(raw)
        sections = list(_SECTION.iter_unpack(raw[_HEAD.size : _HEAD.size + count * _SECTION.size]))
    except struct.error:
        raise MalformedRecording("a page of numbers without a head") from None
    at = _HEAD.size + count * _SECTION.size
    reads = sum(number for _, number in sections)
    if not 0 < reads <= PAGE_READS or len(raw) != at + 4 * reads or len(sections) != count:
        raise MalformedRecording(f"a page of {reads} numbers in {len(raw)} bytes")
    found = no_reads()
    for names, number in sections:
        numbers = array("I")
        numbers.frombytes(raw[at : at + 4 * number])
        at += 4 * number
        known, chosen = find_names(names), _little(numbers)
        if max(chosen, default=0) >= len(known):
            raise MalformedRecording(f"name {max(chosen)} of {len(known)}")
        found.extend(known.chosen(chosen))
    return RecordingPage(found, seconds)


def _little(numbers: Numbers) -> Numbers:
    if sys.byteorder == "big":
        numbers = numbers[:]
        numbers.byteswap()
    return numbers
