"""What counts as a lost case, and what docs/suites.md says of the suites."""

from pathlib import Path

import pytest

from suites.__main__ import SUITES
from suites.endpoints import SuiteEndpoint
from suites.mint import parse_outcomes
from suites.page import PAGE, rows, updated_page
from suites.suite import Suite, compare


def _nothing(place: Path, ground: SuiteEndpoint, directory: Path) -> dict[str, str]:
    del place, ground, directory
    return {}


SUITE = Suite("one", "One", "made up", ("swift",), Path, _nothing, {"swift on_purpose ": "it is refused"})


def test_a_case_is_lost_that_passes_alone_and_not_through() -> None:
    alone = {"same": "passed", "worse": "passed", "gone": "passed", "skips": "passed", "on_purpose": "passed"}
    through = {"same": "passed", "worse": "failed", "skips": "skipped", "on_purpose": "failed"}
    found = compare(SUITE, "swift", alone, through)
    assert found.lost == {"worse": "", "gone": "", "skips": "", "on_purpose": "it is refused"}
    assert (found.cases, found.alone, found.through) == (5, 5, 1)


def test_an_answer_that_is_another_one_is_lost() -> None:
    assert compare(SUITE, "swift", {"asked": "200 a"}, {"asked": "200 b"}).lost == {"asked": ""}


def test_case_failing_alone_is_not_lost() -> None:
    alone, through = {"bad": "failed", "left": "skipped"}, {"bad": "passed", "left": "failed"}
    assert compare(SUITE, "swift", alone, through).lost == {}


def test_a_reason_is_that_of_one_case_with_one_origin() -> None:
    assert compare(SUITE, "moto", {"on_purpose": "passed"}, {}).lost == {"on_purpose": ""}
    assert compare(SUITE, "swift", {"on_purpose_2": "passed"}, {}).lost == {"on_purpose_2": ""}


def test_lines_of_one_function_are_distinct_cases() -> None:
    lines = (
        '{"name": "a", "status": "PASS"}',
        "noise",
        '{"name": "a", "status": "FAIL"}',
        '{"name": "b", "status": "NA"}',
    )
    assert parse_outcomes(lines) == {"a": "passed", "a 2": "failed", "b": "skipped"}


def test_rows_of_suites_not_run_stay() -> None:
    found = compare(SUITE, "swift", {"a": "passed"}, {"a": "passed"})
    page = updated_page(
        "before\n" + "<!-- written by `make suites`: begin -->\n<!-- end -->after",
        [SUITE],
        {("one", "swift"): found},
        "today",
    )
    assert rows(page) == {("One", "swift"): "| One | swift | 1 | 1 | 1 | 0 | 0 | today |"}
    assert updated_page(page, [SUITE], {}, "later") == page
    assert page.startswith("before\n")
    assert page.endswith("after")


def test_the_page_is_that_of_the_suites() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert updated_page(text, SUITES, {}, "") == text, "PYTHONPATH=tests .venv/bin/python -m suites"


@pytest.mark.parametrize("suite", SUITES, ids=lambda suite: suite.name)
def test_every_suite_was_run_with_each_of_its_origins(suite: Suite) -> None:
    found = rows(PAGE.read_text(encoding="utf-8"))
    assert [origin for origin in suite.origins if (suite.title, origin) not in found] == []
