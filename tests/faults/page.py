"""The tables of docs/faults.md: made from the matrix, which the tests run.

PYTHONPATH=tests:proxy:client python -m faults.page      writes them
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from faults.matrix import OPERATIONS, SENSELESS, UNKNOWABLE, Remark, cells
from faults.origin_faults import FAMILIES, FAULTS

PAGE: Final = Path(__file__).parents[2] / "docs" / "faults.md"
BEGIN: Final = "<!-- made by faults.page: begin -->"
END: Final = "<!-- end -->"
RUNS: Final = "| --- | --- | --- | --- | --- |\n"
"""The head of the table of runs, after which the newest is added."""


def rendered() -> str:
    """The page as it has to be: what was written by hand around the tables as they are now."""
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    tables = "\n".join(_tables())
    return f"{before}{BEGIN}\n\n{tables}\n\n{END}{after}"


def add_run(*facts: str) -> None:
    """Writes a run of the matrix into the page."""
    PAGE.write_text(PAGE.read_text(encoding="utf-8").replace(RUNS, RUNS + _row(*facts) + "\n"), encoding="utf-8")


def _tables() -> Iterator[str]:
    yield f"{len(FAULTS)} faults, {len(OPERATIONS)} operations, {len(list(cells()))} cells in one setting:"
    yield ""
    yield _row("fault", "the origin ...")
    yield _row("---", "---")
    for family in FAMILIES:
        yield _row(f"**{family}**", "")
        yield from (_row(fault.name, fault.behaviour) for fault in FAULTS if fault.family == family)
    yield ""
    yield _row("operations", "")
    yield _row("---", "---")
    yield _row("reads", "; ".join(each.name for each in OPERATIONS if each.effect == "read"))
    yield _row("writes", "; ".join(each.name for each in OPERATIONS if each.effect == "write"))
    yield from _remarks("left out", SENSELESS)
    yield from _remarks("not judged until the first revalidation or purge", UNKNOWABLE)


def _remarks(title: str, remarks: Sequence[Remark]) -> Iterator[str]:
    yield ""
    yield _row("faults", "operations", f"{title}, because")
    yield _row("---", "---", "---")
    for remark in remarks:
        found = [each.name for each in OPERATIONS if remark.applies(each)]
        shown = (
            "all" if len(found) == len(OPERATIONS) else "; ".join(found) if len(found) <= 8 else f"{len(found)} of them"
        )
        yield _row("; ".join(sorted(remark.faults)), shown, remark.reason)


def _row(*columns: str) -> str:
    return f"| {' | '.join(columns)} |".replace("|  |", "| |")


if __name__ == "__main__":
    PAGE.write_text(rendered(), encoding="utf-8")
