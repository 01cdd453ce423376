"""Figures on the benchmarks' pages, found by section, row and heading; and a table in a page that quotes them."""

import re
from collections.abc import Sequence
from typing import Final, NamedTuple, Self

from benchmarks import ROOT

FAR: Final = "20 ms, 80 MB/s"
"""Round trip and rate of a connection of an origin far away, as the tables write them."""
TENSOR: Final = "602,112 B"
SHARES: Final = "Hit share of a set larger than the cache: memory and SSD"
PLANS: Final = "The first epoch, with a plan"
RECORDINGS: Final = "The same seed again, on an empty cache"
CHECKPOINTS: Final = "Checkpoints, acknowledged"
PUT_OBJECT: Final = "boto3 put_object, 256 MiB"
OVER_HTTP: Final = "forebay_client over HTTP"
BATCH_OVER_HTTP: Final = "forebay_client over HTTP, `get_many`"
SHARED_MEMORY: Final = "forebay_client, shared memory"

Row = dict[str, str]


class MeasuredPages(NamedTuple):
    """The texts of the pages in docs/ that have the figures."""

    benchmarks: str
    epochs: str
    checkpoints: str
    clients: str
    training: str
    packs: str

    @classmethod
    def read(cls) -> Self:
        names = ("benchmarks", *(f"benchmarks-{part}" for part in cls._fields[1:-1]), "packs")
        return cls(*((ROOT / "docs" / f"{name}.md").read_text() for name in names))


def table_row(page: str, title: str, key: Row) -> Row:
    """The first row with the cells of `key` in a section's table, by its headings. Raises LookupError."""
    for row in table_rows(page, title):
        if key.items() <= row.items():
            return row
    raise LookupError(f"the page has no such row under {title}: {key}")


def table_rows(page: str, title: str) -> list[Row]:
    """The rows of a section's first table, by its headings; of two headings that are the same, the second."""
    section = re.search(rf"^##? {re.escape(title)}\n(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL)
    table = re.search(r"(?:^\|.*\n)+", section[1], re.MULTILINE) if section else None
    lines = table[0].splitlines() if table else []
    if len(lines) < 3:
        raise LookupError(f"the page has no table under {title}")
    headings, _, *rows = ([cell.strip() for cell in line.strip("|").split("|")] for line in lines)
    return [dict(zip(headings, [cell.replace("**", "") for cell in row], strict=True)) for row in rows]


def numbered_title(page: str, pattern: str) -> re.Match[str]:
    """The title of a section that names its own sizes. Raises LookupError where there is none."""
    title = re.search(rf"^## ({pattern})$", page, re.MULTILINE)
    if title is None:
        raise LookupError(f"the page has no section {pattern}")
    return title


def listed_keys(epochs: str) -> re.Match[str]:
    """The title of the section about listings; its second group is the number of keys."""
    return numbered_title(epochs, r"Listing ([\d,]+) keys")


def batched_objects(clients: str) -> re.Match[str]:
    """The title of the section about batches; its groups 2 and 3 are the number of objects and their size."""
    return numbered_title(clients, r"([\d,]+) objects of (.+), one worker")


def measured(page: str, part: str) -> tuple[str, str] | None:
    """The day on which a part was measured, and what others had of the machine; None: it was not yet."""
    block = re.search(rf"<!-- part: {part} -->\n(.*?)<!-- /part -->", page, re.DOTALL)
    if block is None:
        raise LookupError(f"the page has no part {part}")
    if "not measured yet" in block[1]:
        return None
    found = re.search(r"^\*Measured (\S+) .* other programs had (\d+%) of the cores", block[1], re.MULTILINE)
    if found is None:
        raise LookupError(f"the page does not say when {part} were measured")
    return found[1], found[2]


def with_table(page: str, begin: str, end: str, text: str, rows: Sequence[tuple[str, ...]]) -> str:
    """`page` with `text` and a table in place of all between the lines `begin` and `end`. Raises LookupError."""
    before, found_begin, rest = page.partition(begin)
    _, found_end, after = rest.partition(end)
    if not found_begin or not found_end:
        raise LookupError(f"the page has no {begin} ... {end}")
    rule, lead = ("---",) * len(rows[0]), f"{text}\n\n" if text else ""
    table = "\n".join(f"| {' | '.join(row)} |" for row in (rows[0], rule, *rows[1:]))
    return f"{before}{begin}\n{lead}{table}\n{end}{after}"
