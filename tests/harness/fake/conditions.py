"""Ranges and conditional headers, by RFC 9110 (13.2.2 precedence, 14.2 ranges) as far as S3 follows it.

S3 serves one range; several are ignored, as is anything that is not a range of bytes.
https://docs.aws.amazon.com/AmazonS3/latest/API/API_GetObject.html
"""

import re
from collections.abc import Mapping
from email.utils import parsedate_to_datetime

from forebay.core.byte_ranges import Span
from harness.fake.errors import Refusal

_RANGE = re.compile(r"bytes=\s*(\d*)\s*-\s*(\d*)\s*\Z", re.IGNORECASE)


def span_of(header: str | None, size: int) -> Span | None:
    """The span asked for, None for the whole object. Refusal: InvalidRange."""
    match = _RANGE.match(header) if header is not None else None
    if header is None or match is None or match[1] == match[2] == "":
        return None
    if match[1] == "":
        start, stop = max(0, size - int(match[2])), size
    else:
        start = int(match[1])
        if match[2] and int(match[2]) < start:
            return None
        stop = min(size, int(match[2]) + 1) if match[2] else size
    if start >= stop:
        raise Refusal(
            "InvalidRange", "The requested range is not satisfiable", RangeRequested=header, ActualObjectSize=size
        )
    return Span(start, stop)


def seconds_of(date: str | None) -> int | None:
    """An HTTP date as seconds; None for none or for nonsense, which conditions ignore."""
    if date is None:
        return None
    try:
        return int(parsedate_to_datetime(date).timestamp())
    except ValueError:
        return None


def _names(header: str, etag: str, *, strong: bool) -> bool:
    if header.strip() == "*":
        return True
    for each in header.split(","):
        name = each.strip()
        if strong and name.startswith("W/"):
            continue
        if name.removeprefix("W/").strip('"') == etag.removeprefix("W/").strip('"'):
            return True
    return False


def precondition(headers: Mapping[str, str], etag: str, modified: float, prefix: str = "") -> int | None:
    """None to go on, else the status: 412 or 304.

    `prefix` is "x-amz-copy-source-" for a copy's conditions, for which S3 has no 304: all of them give 412.
    """
    seconds = int(modified)
    match, none_match = headers.get(f"{prefix}if-match"), headers.get(f"{prefix}if-none-match")
    since = seconds_of(headers.get(f"{prefix}if-modified-since"))
    unmodified = seconds_of(headers.get(f"{prefix}if-unmodified-since"))
    if match is not None:
        if not _names(match, etag, strong=True):
            return 412
    elif unmodified is not None and seconds > unmodified:
        return 412
    unchanged = 412 if prefix else 304
    if none_match is not None:
        return unchanged if _names(none_match, etag, strong=False) else None
    return unchanged if since is not None and seconds <= since else None


def is_range_current(if_range: str | None, etag: str, modified: float) -> bool:
    """Whether If-Range lets the Range stand."""
    if if_range is None:
        return True
    if if_range.lstrip().startswith(('"', "W/")):
        return if_range.strip() == etag
    return seconds_of(if_range) == int(modified)
