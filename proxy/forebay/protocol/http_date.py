"""HTTP dates, as conditional requests and answers carry them (RFC 9110 section 5.6.7).

Read strictly and without the locale or a clock: what is not one of the three forms of the RFC is no date, and a
condition on it is ignored.
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
_TIME_UTC: Final = rf"{_TIME} (?:GMT|[+-]0000)"  # the latter from clients that use a formatter for mail
_FORMS: Final = (
    re.compile(rf"[A-Z][a-z]{{2}}, (?P<day>[0-9]{{2}}) (?P<month>[A-Z][a-z]{{2}}) (?P<year>[0-9]{{4}}) {_TIME_UTC}"),
    re.compile(rf"[A-Z][a-z]{{5,8}}, (?P<day>[0-9]{{2}})-(?P<month>[A-Z][a-z]{{2}})-(?P<year>[0-9]{{2}}) {_TIME} GMT"),
    re.compile(rf"[A-Z][a-z]{{2}} (?P<month>[A-Z][a-z]{{2}}) (?P<day>[ 0-9][0-9]) {_TIME} (?P<year>[0-9]{{4}})"),
)


@lru_cache(maxsize=1024)  # A data set is written in few seconds, and clients repeat what they were told.
def parse_http_date(value: str) -> int | None:
    """Seconds since the epoch, or None if `value` is not an HTTP date."""
    for form in _FORMS:
        found = form.fullmatch(value)
        if found is not None:
            break
    else:
        return None
    year, month = int(found["year"]), _MONTHS.get(found["month"], 0)
    if len(found["year"]) == 2:
        # RFC 9110 would have the current year decide. Nobody has an object from before 1970.
        year += 1900 if year >= 70 else 2000
    # A leap second has no number of its own in Unix time.
    second = min(int(found["second"]), 59) if found["second"] <= "60" else 60
    try:
        when = datetime(year, month, int(found["day"]), int(found["hour"]), int(found["minute"]), second, tzinfo=UTC)
    except ValueError:
        return None
    return int(when.timestamp())
