"""The Range header: parsing, and resolving against the size of an object.

RFC 9110 section 14 leaves the choice to the server; this follows S3. A value that is not exactly one well-formed range
of bytes is ignored, and the whole object is answered with 200: another unit, a last byte before the first, or several
ranges, which S3 does not serve. A well-formed range with no byte in the object is 416, also for an empty object. A
range that covers the whole object is still a range: 206.
"""

import re
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

from forebay.core.byte_ranges import Span
from forebay.protocol.header_map import Headers


@dataclass(frozen=True, slots=True)
class WholeRange:
    """No range, or an ignored one."""


class ByteRange(NamedTuple):
    """`bytes=start-last`, both inclusive; `last` is None for the end of the object.

    A NamedTuple, which is cheap to make: each ranged read makes one.
    """

    start: int
    last: int | None


@dataclass(frozen=True, slots=True)
class SuffixRange:
    """`bytes=-length`: the last `length` bytes of the object."""

    length: int


@dataclass(frozen=True, slots=True)
class Unsatisfiable:
    """416: no byte of the range is in the object."""

    size: int
    """The size of the object, in bytes."""


RangeSpec: TypeAlias = WholeRange | ByteRange | SuffixRange

WHOLE: Final = WholeRange()

# RFC 9110 section 14.1: units are case-insensitive. Blanks are allowed around each member of a list.
_BYTES: Final = re.compile(r"bytes=[ \t]*(?:([0-9]+)-([0-9]*)|-([0-9]+))[ \t]*", re.IGNORECASE)
# More digits than the size of any object; Python refuses to parse numbers of thousands of digits.
_DIGITS: Final = 18
_BEYOND: Final = 10**_DIGITS


def range_header(headers: Headers) -> str | None:
    """Returns the value of the Range header; None without one. Several headers are joined, which makes them invalid."""
    values = headers.getall("Range", ())
    return ",".join(values) if values else None


def parse_range(value: str | None) -> RangeSpec:
    """Parses a Range header (None: there is none). Never fails: an invalid value is the whole object."""
    if value is None:
        return WHOLE
    found = _BYTES.fullmatch(value)
    if found is None:
        return WHOLE
    first, last, length = found.groups()
    if last and len(first) <= _DIGITS and len(last) <= _DIGITS:
        start, end = int(first), int(last)
        return ByteRange(start, end) if start <= end else WHOLE
    if length is not None:
        return SuffixRange(_parse_number(length))
    if not last:
        return ByteRange(_parse_number(first), None)
    spec = ByteRange(_parse_number(first), _parse_number(last))
    # Compared by digits: two numbers beyond the largest object still have an order.
    return WHOLE if _order(last) < _order(first) else spec


def resolve(spec: RangeSpec, size: int) -> Span | Unsatisfiable:
    """Resolves a range against an object of `size` bytes. The whole of an empty object is an empty span."""
    if isinstance(spec, ByteRange):  # the usual case: isinstance takes a fraction of the time of a match statement
        start, last = spec
        if start >= size:
            return Unsatisfiable(size)
        return Span(start, size if last is None or last >= size else last + 1)
    match spec:
        case WholeRange():
            return Span(0, size)
        case SuffixRange(length):
            if length == 0 or size == 0:
                return Unsatisfiable(size)
            return Span(max(0, size - length), size)


def whole_unless_inside(spec: RangeSpec, size: int) -> RangeSpec:
    """Returns the range if all of it lies in an object of `size` bytes, else the whole: OSS's default behaviour.

    https://www.alibabacloud.com/help/en/oss/how-to-obtain-oss-resources-by-segmenting-http-range-requests
    """
    match spec:
        case WholeRange():
            return spec
        case ByteRange(start, last):
            return spec if start < size and (last is None or last < size) else WHOLE
        case SuffixRange(length):
            return spec if 0 < length <= size else WHOLE


def _parse_number(digits: str) -> int:
    significant = digits.lstrip("0")
    return int(significant or "0") if len(significant) <= _DIGITS else _BEYOND


def _order(digits: str) -> tuple[int, str]:
    significant = digits.lstrip("0")
    return len(significant), significant
