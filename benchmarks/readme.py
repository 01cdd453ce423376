"""The README's table of figures, taken from docs/benchmarks.md: `python -m benchmarks.readme` writes it anew.

Nothing is measured here, and no figure is written by hand: each is found on the page by its section and its row, and
copied as it stands there. tests/docs/test_readme.py compares the two.
"""

import re
from collections.abc import Iterator
from typing import Final

from benchmarks import ROOT

PAGE: Final = ROOT / "docs" / "benchmarks.md"
README: Final = ROOT / "README.md"
BEGIN: Final = "<!-- figures: python -m benchmarks.readme -->"
END: Final = "<!-- /figures -->"

CONNECTIONS: Final = "16"
WARM: Final = ("4 KiB", "128 KiB", "602,112 B", "8 MiB")
SSD: Final = "602,112 B"
FAR: Final = "20 ms, 80 MB/s"

Row = dict[str, str]


def rendered(readme: str, page: str) -> str:
    """The README with the figures of the page. Raises LookupError where either is not as expected."""
    before, begin, rest = readme.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise LookupError(f"README.md has no {BEGIN} ... {END}")
    rows = [("", "Forebay", "beside it", "so Forebay has"), ("---", "---", "---", "---"), *_hits(page), *_misses(page)]
    table = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    return f"{before}{begin}\n{_where(page)}\n\n{table}\n{end}{after}"


def _where(page: str) -> str:
    facts = {row["fact"]: row[""] for row in _rows(page, "Benchmarks")}
    machine = ", ".join((facts["CPU"], f"{facts['cores']} cores", facts["Python"], facts["nginx"]))
    load = facts["load average at the start"]
    return (
        f"Measured on {facts['date'].partition(' ')[0]}: {machine}.\n"
        f"The machine's load at the start was {load}; in brackets, the rounds' extremes."
    )


def _hits(page: str) -> Iterator[tuple[str, str, str, str]]:
    for title, said, sizes in (("Warm reads", "from memory", WARM), ("Hits on the SSD", "from the SSD", (SSD,))):
        for size in sizes:
            key = {"object": size, "conn.": CONNECTIONS}
            ours = _row(page, title, {**key, "server": "Forebay"})
            theirs = _row(page, title, {**key, "server": "nginx"})
            yield (
                f"hits {said}, {size}",
                f"{ours['requests/s']}/s",
                f"nginx: {theirs['requests/s']}/s",
                f"{ours['ratio to nginx']} of its rate",
            )


def _misses(page: str) -> Iterator[tuple[str, str, str, str]]:
    for size in ("4 KiB", "64 MiB"):
        cold = _row(page, "Cold reads", {"origin": FAR, "object": size})
        direct, ratio = f"no cache: {cold['total, direct']}", f"{cold['ratio of totals']} of the time"
        yield f"a miss, {size}, from an origin {FAR} away", cold["Forebay"], direct, ratio
    crowd = _row(page, "Stampede", {})
    sent = f"the origin sent {crowd['origin bytes by object bytes']} times the object"
    yield f"{crowd['readers']} readers at once of a cold {crowd['object']}", sent, "", ""
    full, empty = _rows(page, "Restart")
    took = "first answer after"
    yield f"process start to first hit, SSD with {full['SSD tier']}", full[took], f"empty: {empty[took]}", ""


def _row(page: str, title: str, key: Row) -> Row:
    for row in _rows(page, title):
        if key.items() <= row.items():
            return row
    raise LookupError(f"docs/benchmarks.md has no such row under {title}: {key}")


def _rows(page: str, title: str) -> list[Row]:
    """The rows of a section's table, by its headings; of two headings that are the same, the second."""
    section = re.search(rf"^##? {re.escape(title)}\n(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL)
    lines = [line for line in (section[1] if section else "").splitlines() if line.startswith("|")]
    if len(lines) < 3:
        raise LookupError(f"docs/benchmarks.md has no table under {title}")
    headings, _, *rows = ([cell.strip() for cell in line.strip("|").split("|")] for line in lines)
    return [dict(zip(headings, [cell.replace("**", "") for cell in row], strict=True)) for row in rows]


if __name__ == "__main__":
    README.write_text(rendered(README.read_text(), PAGE.read_text()))
