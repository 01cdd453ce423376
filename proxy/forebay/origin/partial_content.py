"""Partial content: whether a 206 matches its request and describes its own bytes. Pure. RFC 9110, 14.4 and 15.3.7.

Many clients check neither the status nor the Content-Range of a response, and store the bytes at the requested
position. So a 206 that contradicts itself or its request is a broken response, whether or not it is cached:

    without a Content-Range, or with one that can't be           broken
    Content-Length and Content-Range disagree                    broken
    another range than requested, or none was requested          broken
    an empty part of an object                                   passed on: no Content-Range describes no byte
    multipart/byteranges                                         not checked: its parts have ranges of their own

A range that is requested past the end of the object is clipped to the total of the response.
"""

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from forebay.core.byte_ranges import Span
from forebay.core.errors import OriginBroken
from forebay.protocol.header_map import Headers
from forebay.protocol.range_header import ByteRange, SuffixRange, WholeRange, parse_range, resolve
from forebay.protocol.response_headers import parse_content_range

_WITHOUT_TOTAL: Final = re.compile(r"bytes[ \t]+([0-9]{1,18})-([0-9]{1,18})/\*", re.IGNORECASE)
_MULTIPART: Final = re.compile(r"\s*multipart/byteranges", re.IGNORECASE)
_parsed: Final = lru_cache(maxsize=256)(parse_range)
"""Reads of blocks repeat the same few ranges."""


def partial_length(requested: str | None, headers: Headers, *, is_part: bool = False) -> int | None:
    """Returns the number of bytes that the body of a 206 must have; None for a multipart body.

    `requested`: the Range header of the request. `is_part`: a part of the object was requested by its number. Raises
    OriginBroken.
    """
    if _MULTIPART.match(headers.get("Content-Type", "")):
        return None
    length = headers.get("Content-Length")
    return _judged(requested, tuple(headers.getall("Content-Range", ())), length, is_part=is_part)


@lru_cache(maxsize=256)  # objects of one size have the same ranges
def _judged(requested: str | None, values: tuple[str, ...], declared: str | None, *, is_part: bool) -> int:
    if is_part and declared is not None and declared.strip() == "0":
        return 0  # Swift says "bytes 0--1/0", others nothing
    parsed = parse_content_range(values[0]) if len(values) == 1 else None
    received, total = parsed if parsed is not None else _without_total(values)
    if declared is not None and declared.strip() != str(received.length):
        raise OriginBroken("206 whose Content-Range and Content-Length disagree")
    if not is_part and not _matches(requested, received, total):
        raise OriginBroken("206 with another range than the requested one")
    return received.length


def _without_total(values: Sequence[str]) -> tuple[Span, None]:
    found = _WITHOUT_TOTAL.fullmatch(values[0].strip()) if len(values) == 1 else None
    if found is None or int(found[1]) > int(found[2]):
        raise OriginBroken("206 without a valid Content-Range")
    return Span(int(found[1]), int(found[2]) + 1), None


def _matches(requested: str | None, received: Span, total: int | None) -> bool:
    if requested is None:
        return False
    spec = _parsed(requested)
    if isinstance(spec, WholeRange):
        return True  # not one range of bytes: what it means is the origin's to say
    if total is not None:
        return resolve(spec, total) == received
    match spec:
        case ByteRange(start, last):
            return received.start == start and (last is None or received.stop <= last + 1)
        case SuffixRange(length):
            return received.length <= length
