"""The dates of the protocols: HTTP dates, the timestamps of Signature Version 4, and ISO 8601 in error documents.

    Tue, 10 Nov 2026 10:00:00 GMT    HTTP date, RFC 9110 section 5.6.7, in three forms
    20261110T100000Z                 timestamp of Signature Version 4; always UTC, whole seconds
    2026-11-10T10:00:00Z             ISO 8601, as in S3's error documents

The dates of conditional requests are parsed strictly, without the locale: a condition with any other text is ignored.
No clock here: seconds since the Unix epoch are an argument.

https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-date-handling.html
"""

import re
from datetime import UTC, datetime
from functools import lru_cache
from typing import Final

_MONTHS: Final = {
    name: number
    for number, name in enumerate(
        ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"), start=1
    )
}
_TIME: Final = r"(?P<hour>[0-9]{2}):(?P<minute>[0-9]{2}):(?P<second>[0-9]{2})"
_TIME_UTC: Final = rf"{_TIME} (?:GMT|[+-]0000)"  # some clients use a formatter for e-mail, which writes an offset
_FORMS: Final = (
    re.compile(rf"[A-Z][a-z]{{2}}, (?P<day>[0-9]{{2}}) (?P<month>[A-Z][a-z]{{2}}) (?P<year>[0-9]{{4}}) {_TIME_UTC}"),
    re.compile(rf"[A-Z][a-z]{{5,8}}, (?P<day>[0-9]{{2}})-(?P<month>[A-Z][a-z]{{2}})-(?P<year>[0-9]{{2}}) {_TIME} GMT"),
    re.compile(rf"[A-Z][a-z]{{2}} (?P<month>[A-Z][a-z]{{2}}) (?P<day>[ 0-9][0-9]) {_TIME} (?P<year>[0-9]{{4}})"),
)


@lru_cache(maxsize=16)  # responses and writes of one second have the same
def http_date(second: int) -> str:
    """Returns seconds since the epoch as an HTTP date."""
    from email.utils import formatdate  # noqa: PLC0415 # large, and a client formats none

    return formatdate(second, usegmt=True)


@lru_cache(maxsize=1024)  # a data set is written within few seconds, and clients repeat the dates of responses
def parse_http_date(value: str) -> int | None:
    """Parses an HTTP date to seconds since the epoch; None if `value` is not one."""
    for form in _FORMS:
        found = form.fullmatch(value)
        if found is not None:
            break
    else:
        return None
    year, month = int(found["year"]), _MONTHS.get(found["month"], 0)
    if len(found["year"]) == 2:
        # RFC 9110 makes the century depend on the current year. No object is older than 1970.
        year += 1900 if year >= 70 else 2000
    # A leap second has no number of its own in Unix time.
    second = min(int(found["second"]), 59) if found["second"] <= "60" else 60
    try:
        date = datetime(year, month, int(found["day"]), int(found["hour"]), int(found["minute"]), second, tzinfo=UTC)
    except ValueError:
        return None
    return int(date.timestamp())


@lru_cache(maxsize=1024)  # busy clients sign many requests in one second, all with the same timestamp
def epoch_seconds(timestamp: str) -> int:
    """Parses a Signature Version 4 timestamp to seconds since the epoch.

    Raises ValueError unless it is exactly `YYYYMMDDTHHMMSSZ`, a valid date, and since the epoch: S3 accepts no earlier
    date of a request.
    """
    digits = timestamp[:8] + timestamp[9:15]
    # int() alone accepts blanks, signs, underscores and the digits of other scripts.
    if len(timestamp) != 16 or timestamp[8] != "T" or timestamp[15] != "Z" or not _is_ascii_digits(digits):
        raise ValueError("not a timestamp of the form YYYYMMDDTHHMMSSZ")
    year, month, day = int(digits[:4]), int(digits[4:6]), int(digits[6:8])
    hour, minute, second = int(digits[8:10]), int(digits[10:12]), int(digits[12:])
    date = datetime(year, month, day, hour, minute, second, tzinfo=UTC)
    if year < 1970:
        raise ValueError("not a timestamp since the epoch")
    return int(date.timestamp())


@lru_cache(maxsize=16)
def _format_second(second: int) -> str:
    return f"{datetime.fromtimestamp(second, UTC):%Y%m%dT%H%M%SZ}"


def format_timestamp(now: float) -> str:
    """Returns the Signature Version 4 timestamp of `now` (seconds since the epoch), rounded down to the second."""
    return _format_second(int(now))


def timestamp_of_date_header(value: str) -> str:
    """Returns the timestamp of a `Date` header, which holds an HTTP date or a timestamp.

    Raises ValueError for anything else, and for a date before the epoch.
    """
    try:
        epoch_seconds(value)
    except ValueError:
        pass
    else:
        return value
    from email.utils import parsedate_to_datetime  # noqa: PLC0415 # as above

    try:
        date = parsedate_to_datetime(value)
        if date.tzinfo is None:
            date = date.replace(tzinfo=UTC)
        timestamp = format_timestamp(date.timestamp())
        epoch_seconds(timestamp)
    except (ValueError, TypeError, IndexError, OverflowError):
        # The standard library's parser is made for e-mail and fails in several ways.
        raise ValueError("not an HTTP date") from None
    return timestamp


def format_iso8601(seconds: float) -> str:
    """Returns the time as in S3's error documents: `2013-05-24T00:00:00Z`."""
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%SZ}"


def format_document_time(seconds: float) -> str:
    """Returns the time as in S3's listings and in the results of copies: `2013-05-24T00:00:00.000Z`, whole seconds."""
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.000Z"


def _is_ascii_digits(text: str) -> bool:
    return text.isascii() and text.isdigit()
