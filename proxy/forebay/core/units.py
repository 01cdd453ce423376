"""Sizes and durations in human form: parsing and formatting.

    size       512   "64 KiB"   "4GiB"   "500GB"   "1.5GiB"
    duration   "250ms"   "60s"   "5m"   "1h30m"   "7d"   "0.5s"

KiB, MiB and so on are powers of 1024; kB, MB and so on of 1000. A bare `4G` is refused as ambiguous. Durations are
Prometheus' (units from large to small, each once), and decimals as in Envoy. A number without a unit is refused as
ambiguous. Other text raises ValueError with the allowed forms.

https://prometheus.io/docs/prometheus/latest/querying/basics/#float-literals-and-time-durations
"""

import re
from decimal import Decimal
from typing import Final

_SIZE: Final = re.compile(r"([0-9]{1,18}(?:\.[0-9]{1,9})?) ?([A-Za-z]{1,3})?", re.ASCII)
_BINARY: Final = {"PiB": 1 << 50, "TiB": 1 << 40, "GiB": 1 << 30, "MiB": 1 << 20, "KiB": 1 << 10}
_DECIMAL: Final = {"PB": 10**15, "TB": 10**12, "GB": 10**9, "MB": 10**6, "kB": 10**3}
_SIZE_UNITS: Final = {**_BINARY, **_DECIMAL, "KB": 10**3, "B": 1}

_MILLISECONDS: Final = {"w": 604_800_000, "d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1_000, "ms": 1}
_COMPOUND: Final = re.compile("".join(f"(?:([0-9]{{1,12}}){unit})?" for unit in _MILLISECONDS), re.ASCII)
_SINGLE: Final = re.compile(r"([0-9]{1,12}\.[0-9]{1,9})(ms|[wdhms])", re.ASCII)

SIZES_ALLOWED: Final = "a size in whole bytes, such as 65536, 64KiB, 4GiB or 500GB"
DURATIONS_ALLOWED: Final = "a duration with its unit, such as 250ms, 60s, 5m, 1h30m or 7d"


def parse_size(text: str | int) -> int:
    """The size in bytes. Raises ValueError for anything that is not a whole, non-negative number of bytes."""
    if isinstance(text, bool):
        raise ValueError(SIZES_ALLOWED)
    if isinstance(text, int):
        if text < 0:
            raise ValueError(SIZES_ALLOWED)
        return text
    found = _SIZE.fullmatch(text.strip())
    if found is None:
        raise ValueError(SIZES_ALLOWED)
    number, unit = found.groups()
    if unit is not None and unit not in _SIZE_UNITS:
        raise ValueError(f"{SIZES_ALLOWED}; the units are {', '.join(_SIZE_UNITS)}")
    size = Decimal(number) * _SIZE_UNITS[unit or "B"]
    if size != int(size):
        raise ValueError(SIZES_ALLOWED)
    return int(size)


def format_size(size: int) -> str:
    """The shortest exact form, which parse_size reads back."""
    for units in (_BINARY, _DECIMAL):
        for unit, factor in units.items():
            if size and size % factor == 0:
                return f"{size // factor}{unit}"
    return f"{size}B"


def round_size(size: int) -> str:
    """A size for people: `10.8 MiB`."""
    for unit, factor in _BINARY.items():
        if size >= factor:
            return f"{size / factor:.1f} {unit}"
    return f"{size} B"


def parse_duration(text: str) -> float:
    """The duration in seconds. Raises ValueError, also for a number without a unit."""
    text = text.strip()
    compound = _COMPOUND.fullmatch(text)
    if text and compound is not None:
        counts = zip(compound.groups(), _MILLISECONDS.values(), strict=True)
        return sum(int(count) * factor for count, factor in counts if count is not None) / 1000
    single = _SINGLE.fullmatch(text)
    if single is None:
        raise ValueError(DURATIONS_ALLOWED)
    return float(Decimal(single[1]) * _MILLISECONDS[single[2]] / 1000)


def format_duration(seconds: float) -> str:
    """The duration to the millisecond, in the largest units: 5400 is `1h30m`."""
    left = round(seconds * 1000)
    if left == 0:
        return "0s"
    text = ""
    for unit, factor in _MILLISECONDS.items():
        count, left = divmod(left, factor)
        if count:
            text += f"{count}{unit}"
    return text
