"""docs/faults.md lists the faults and operations that the matrix runs."""

from faults.page import PAGE, RUNS, rendered


def test_the_tables_are_those_of_the_matrix() -> None:
    assert PAGE.read_text(encoding="utf-8") == rendered(), "PYTHONPATH=tests:proxy:client python -m faults.page"


def test_there_is_a_table_of_runs() -> None:
    assert PAGE.read_text(encoding="utf-8").count(RUNS) == 1
