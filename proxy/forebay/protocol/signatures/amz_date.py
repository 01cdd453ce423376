"""The timestamps of Signature Version 4: `20130524T000000Z`, always UTC, seconds.

No clock here: seconds since the Unix epoch come in as arguments.

https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-date-handling.html
"""

from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import lru_cache
from typing import Final

EPOCH_YEAR: Final = 1970


@lru_cache(maxsize=1024)  # Busy clients sign many requests in one second: the same text comes again and again.
def epoch_seconds(timestamp: str) -> int:
    """Seconds since the epoch. ValueError unless it is exactly `YYYYMMDDTHHMMSSZ` and a moment that exists; one from
    before the epoch is no date of a request, as S3 has it."""
    digits = timestamp[:8] + timestamp[9:15]
    # int() alone would take blanks, signs, underscores and the digits of other scripts.
    if len(timestamp) != 16 or timestamp[8] != "T" or timestamp[15] != "Z" or not _plain_digits(digits):
        raise ValueError("not a timestamp of the form YYYYMMDDTHHMMSSZ")
    year, month, day = int(digits[:4]), int(digits[4:6]), int(digits[6:8])
    hour, minute, second = int(digits[8:10]), int(digits[10:12]), int(digits[12:])
    moment = datetime(year, month, day, hour, minute, second, tzinfo=UTC)
    if year < EPOCH_YEAR:
        raise ValueError("not a timestamp since the epoch")
    return int(moment.timestamp())


@lru_cache(maxsize=16)
def _of_second(second: int) -> str:
    return f"{datetime.fromtimestamp(second, UTC):%Y%m%dT%H%M%SZ}"


def format_timestamp(now: float) -> str:
    """The timestamp of `now`, seconds since the epoch; a fraction is cut off."""
    return _of_second(int(now))


def timestamp_of_date_header(value: str) -> str:
    """The timestamp of a `Date` header: an HTTP date, or already a timestamp. ValueError if it is neither, or from
    before the epoch."""
    try:
        epoch_seconds(value)
    except ValueError:
        pass
    else:
        return value
    try:
        moment = parsedate_to_datetime(value)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        timestamp = format_timestamp(moment.timestamp())
        epoch_seconds(timestamp)
    except (ValueError, TypeError, IndexError, OverflowError):
        # The parser of the standard library is made for e-mail and fails in more than one way.
        raise ValueError("not an HTTP date") from None
    return timestamp


def format_iso8601(seconds: float) -> str:
    """As S3 writes times in error documents: `2013-05-24T00:00:00Z`."""
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%SZ}"


def _plain_digits(text: str) -> bool:
    return text.isascii() and text.isdigit()
