"""Tables in Markdown, and numbers as people read them."""

from collections.abc import Sequence
from typing import NamedTuple


class Table(NamedTuple):
    """The first column is text, the others are figures."""

    headings: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]

    def markdown(self) -> str:
        rule = ("---", *("---:" for _ in self.headings[1:]))
        return "\n".join(f"| {' | '.join(row)} |" for row in (self.headings, rule, *self.rows))


class Section(NamedTuple):
    """What one benchmark has to say."""

    title: str
    text: str
    """What was measured, and how: Markdown."""
    table: Table | None
    remarks: str = ""
    """What is to be said of the figures."""

    def markdown(self) -> str:
        said = (f"## {self.title}", self.text, self.table.markdown() if self.table else "", self.remarks)
        return "\n\n".join(filter(None, said))


def size_text(size: int) -> str:
    """`4 KiB`, `8 MiB`; in bytes where it is no power of two."""
    for unit, factor in (("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size >= factor and size.bit_count() == 1:
            return f"{size // factor} {unit}"
    return f"{size:,} B"


def time_text(seconds: float) -> str:
    """Three digits, in the unit that suits; a dash below a microsecond, as wrk has no high percentile of pipelined
    requests."""
    for unit, factor in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= factor:
            value = seconds / factor
            digits = 2 if value < 10 else 1 if value < 100 else 0
            return f"{value:.{digits}f} {unit}"
    return "–"


def count_text(count: float) -> str:
    """Without digits that mean nothing."""
    return f"{count:,.0f}" if count >= 100 else f"{count:.1f}"
