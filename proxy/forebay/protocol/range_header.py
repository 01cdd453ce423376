"""The Range header: what it asks for, and which bytes of an object that is.

As S3 does it (RFC 9110 section 14 leaves the choice): what is not exactly one well-formed range of bytes is ignored,
and the whole object answered with 200. That holds for other units, for a last byte before the first, and for several
ranges at once, which S3 does not serve. A well-formed range with no byte in the object is 416, on an empty object too.
A range that happens to cover everything is still a range: 206.
"""

import re
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

from forebay.core.byte_ranges import Span
from forebay.protocol.header_map import Headers


@dataclass(frozen=True, slots=True)
class WholeRange:
    """No range, or one that is ignored."""


class ByteRange(NamedTuple):
    """`bytes=start-last`, both inclusive; `last` is None for "to the end". A NamedTuple, as one is made for each range
    that is read."""

    start: int
    last: int | None


@dataclass(frozen=True, slots=True)
class SuffixRange:
    """`bytes=-length`: the last `length` bytes."""

    length: int


@dataclass(frozen=True, slots=True)
class Unsatisfiable:
    """No byte of the range is in the object: 416, with the size of the object."""

    size: int


RangeSpec: TypeAlias = WholeRange | ByteRange | SuffixRange

WHOLE: Final = WholeRange()

# RFC 9110 section 14.1: units have no case. Blanks are allowed around the members of a list, so around the one too.
_BYTES: Final = re.compile(r"bytes=[ \t]*(?:([0-9]+)-([0-9]*)|-([0-9]+))[ \t]*", re.IGNORECASE)
# No object is so large; and Python refuses to read numbers of thousands of digits.
_DIGITS: Final = 18
_BEYOND: Final = 10**_DIGITS


def range_header(headers: Headers) -> str | None:
    """The value of the Range header; of two, what they would be as one: several ranges, which are ignored."""
    values = headers.getall("Range", ())
    return ",".join(values) if values else None


def parse_range(value: str | None) -> RangeSpec:
    """What a Range header asks for; None: there was none. Never fails: what makes no sense asks for the whole."""
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
        return SuffixRange(_number(length))
    if not last:
        return ByteRange(_number(first), None)
    spec = ByteRange(_number(first), _number(last))
    # Compared by digits: two numbers beyond all objects are still one before the other.
    return WHOLE if _order(last) < _order(first) else spec


def resolve(spec: RangeSpec, size: int) -> Span | Unsatisfiable:
    """The bytes of an object of `size` bytes that are asked for. Whole always resolves, if need be to an empty span."""
    if isinstance(spec, ByteRange):  # the usual one, told in a fraction of the time that a match takes
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
    """The range if all of it lies in an object of `size` bytes, else the whole: what OSS does unless it is told
    otherwise. https://www.alibabacloud.com/help/en/oss/how-to-obtain-oss-resources-by-segmenting-http-range-requests
    """
    match spec:
        case WholeRange():
            return spec
        case ByteRange(start, last):
            return spec if start < size and (last is None or last < size) else WHOLE
        case SuffixRange(length):
            return spec if 0 < length <= size else WHOLE


def _number(digits: str) -> int:
    significant = digits.lstrip("0")
    return int(significant or "0") if len(significant) <= _DIGITS else _BEYOND


def _order(digits: str) -> tuple[int, str]:
    significant = digits.lstrip("0")
    return len(significant), significant
