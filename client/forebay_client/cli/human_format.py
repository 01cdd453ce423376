"""Sizes, counts, shares and times as text for people. Sizes, shares and ages have a greatest width, for columns.

`--json` has the numbers themselves.
"""

SIZE_WIDTH = 8  # "1023 MiB"
SHARE_WIDTH = 6  # "100.0%"
AGE_WIDTH = 6  # "59 min"

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")


def format_size(count: float) -> str:
    """Bytes: "0 B", "9.8 KiB", "400 MiB". Binary units, as in the configuration."""
    value = float(count)
    for unit in _UNITS:
        if round(value) < 1024 or unit == _UNITS[-1]:
            # One decimal where it says something: below ten, and never of a byte.
            decimals = 1 if unit != "B" and value < 9.95 else 0
            return f"{value:.{decimals}f} {unit}"
        value /= 1024
    raise AssertionError("unreachable")


def format_rate(per_second: float | None) -> str:
    """Bytes a second."""
    return "-" if per_second is None else f"{format_size(per_second)}/s"


def format_share(ratio: float | None) -> str:
    """A ratio of 0 to 1: "93.8%". Only what is whole is 100 %, and only nothing is 0 %."""
    if ratio is None:
        return "-"
    tenths = round(ratio * 1000)
    if ratio > 0 and tenths == 0:
        return "<0.1%"
    return f"{(min(tenths, 999) if ratio < 1 else tenths) / 10:.1f}%"


def format_factor(factor: float | None) -> str:
    """A factor: "1.03x"."""
    return "-" if factor is None else f"{factor:.2f}x"


def format_count(count: float) -> str:
    """A count: "1,234,567"."""
    return f"{count:,.0f}"


def format_plural(count: int, noun: str) -> str:
    """ "1 object", "2 objects"."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def format_duration(seconds: float) -> str:
    """Returns a duration as text: "45 s", "3 min 20 s", "4 h 10 min", "3 d 4 h"."""
    whole = max(0, round(seconds))
    for unit, length, smaller, step in (("d", 86_400, "h", 3_600), ("h", 3_600, "min", 60), ("min", 60, "s", 1)):
        if whole >= length:
            rest = whole % length // step
            return f"{whole // length} {unit} {rest} {smaller}" if rest else f"{whole // length} {unit}"
    return f"{whole} s"


def format_elapsed(seconds: float) -> str:
    """Returns an elapsed time as `format_duration` does, in tenths below a second: "0.3 s"."""
    return format_duration(seconds) if seconds >= 0.95 else f"{max(seconds, 0.1):.1f} s"


def format_age(seconds: float) -> str:
    """Returns an age in one unit: "45 s", "3 min", "4 h", "12 d"."""
    whole = max(0, int(seconds))
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if whole >= length:
            return f"{whole // length} {unit}"
    return f"{whole} s"


def escape_unprintable(text: str) -> str:
    """A key or another's text, safe to show: what isn't printable is written as an escape, because a key may hold
    newlines and the control sequences of a terminal."""
    if text.isprintable():
        return text
    return "".join(mark if mark.isprintable() else mark.encode("unicode_escape").decode() for mark in text)
