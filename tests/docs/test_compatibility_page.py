"""The tables of docs/compatibility.md and docs/oss.md are the catalogue, row by row. A failure prints the lines that
belong there."""

from pathlib import Path

import pytest

from forebay.protocol.operation_table import OPERATIONS, Level, OperationRow
from forebay.protocol.oss.oss_operation_table import CARRIED, NOT_CARRIED, OSS_CATALOGUE, OssOperation

DOCS = Path(__file__).parents[2] / "docs"
TITLES: dict[Level, str] = {"object": "Objects", "bucket": "Buckets", "service": "The service"}


def line_of(row: OperationRow) -> str:
    return f"| {row.name} | {row.treatment.value} | {row.access.value} | {row.why} |"


def lines_under(title: str, page: str = "oss.md") -> list[str]:
    _, _, rest = (DOCS / page).read_text(encoding="utf-8").partition(f"\n### {title}\n")
    section = rest.partition("\n#")[0]
    return [line for line in section.splitlines() if line.startswith("| ")][1:]


@pytest.mark.parametrize("level", TITLES)
def test_the_page_lists_every_operation_as_it_is_treated(level: Level) -> None:
    expected = [line_of(row) for row in OPERATIONS if row.level == level]
    assert lines_under(TITLES[level], "compatibility.md") == expected, "\n" + "\n".join(expected)


def oss_line_of(row: OssOperation) -> str:
    return f"| {row.name} | {row.treatment.value} | {row.s3} | {row.note} |"


@pytest.mark.parametrize("level", TITLES)
def test_the_page_lists_every_operation_of_oss(level: Level) -> None:
    expected = [oss_line_of(row) for row in OSS_CATALOGUE if row.level == level]
    assert lines_under(f"{TITLES[level]} of OSS") == expected, "\n" + "\n".join(expected)


def test_page_lists_the_operations_of_an_oss_origin() -> None:
    expected = [f"| {name} | yes | {how_far} |" for name, how_far in CARRIED.items()]
    expected += [f"| {name} | no | {why} |" for name, why in NOT_CARRIED.items()]
    assert lines_under("Operations of an OSS origin") == expected, "\n" + "\n".join(expected)


def test_oss_origin_capabilities_are_operations() -> None:
    assert {*CARRIED, *NOT_CARRIED} <= {row.name for row in OPERATIONS if not row.refused}
    assert not set(CARRIED) & set(NOT_CARRIED)
    of_objects = {row.name for row in OPERATIONS if row.level == "object" and not row.refused}
    assert of_objects <= {*CARRIED, *NOT_CARRIED}
