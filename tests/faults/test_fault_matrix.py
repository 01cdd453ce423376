"""Every fault of an origin under every operation: never complete and wrong, nothing partial kept, nothing left behind.

A test is a row of the matrix: one fault, a share of its cells, a worker of its own. `make faults` runs the whole, with
origins of both dialects, with an SSD tier, in the full lane alone, and with faults that begin at later requests.
"""

import asyncio
from pathlib import Path
from typing import Final

import pytest

from faults.cell_run import bench
from faults.matrix import (
    LASTING,
    ONCE,
    OPERATIONS,
    SENSELESS,
    UNKNOWABLE,
    Cell,
    Remark,
    Setting,
    Timing,
    cells,
)
from faults.origin_faults import FAULTS, Fault
from harness.jumping_loop import JumpingLoop

FEWEST: Final = 500
_SHARE: Final = 16
"""One in so many cells is run here, beside those of the operations in `ALWAYS`."""
ALWAYS: Final = frozenset({"GET large, cold", "GET large, stale", "PUT", "complete upload"})
"""A read of several requests, a revalidation, a body on its way to the origin, an outcome in a document."""


def chosen(fault: Fault) -> list[Cell]:
    """The cells of a fault that are run here: the same each time, other operations for each fault, and a fault that
    lasts in turn with one that passes."""
    number = FAULTS.index(fault)
    every = list(cells(timings=((LASTING, ONCE)[number % 2],), faults=[fault]))
    return [
        cell
        for place, cell in enumerate(every)
        if cell.operation.name in ALWAYS
        or not cell.operation.asks_origin
        or (place + number) % _SHARE == 0
        or len(every) <= _SHARE
    ]


CHOSEN: Final = {fault.name: chosen(fault) for fault in FAULTS}


def test_the_matrix_is_large_enough() -> None:
    assert sum(len(row) for row in CHOSEN.values()) >= FEWEST
    assert {cell.operation.name for row in CHOSEN.values() for cell in row} == {each.name for each in OPERATIONS}
    assert all(CHOSEN.values())


@pytest.mark.parametrize("fault", CHOSEN)
def test_no_cell_of_a_fault_is_wrong(fault: str, tmp_path: Path) -> None:
    assert {cell.title: found for cell, found in _run(CHOSEN[fault], tmp_path, Setting()) if found} == {}


@pytest.mark.parametrize("setting", [Setting("oss"), Setting(ssd=True), Setting(fast_lane=False)], ids=str)
def test_a_sample_in_every_setting(setting: Setting, tmp_path: Path) -> None:
    """Of each family a fault, from another request on in each."""
    sample = [
        cell
        for number, cell in enumerate(cells(setting.origin, [Timing(number, 1) for number in range(3)]))
        if number % 409 == 0
    ]
    assert {cell.title: found for cell, found in _run(sample, tmp_path, setting) if found} == {}


@pytest.mark.parametrize("remark", [*SENSELESS, *UNKNOWABLE], ids=lambda remark: remark.reason)
def test_each_remark_is_of_some_cells(remark: Remark) -> None:
    assert any(remark.covers(fault, operation, LASTING) for fault in FAULTS for operation in OPERATIONS)
    assert remark.faults <= {fault.name for fault in FAULTS} | {fault.family for fault in FAULTS}


def test_names_are_unique() -> None:
    assert len({fault.name for fault in FAULTS}) == len(FAULTS)
    assert len({operation.name for operation in OPERATIONS}) == len(OPERATIONS)


def _run(row: list[Cell], directory: Path, setting: Setting) -> list[tuple[Cell, list[str]]]:
    async def run(loop: JumpingLoop) -> list[tuple[Cell, list[str]]]:
        async with bench(loop, directory, setting) as tried:
            return [(cell, await tried.run(cell)) for cell in row]

    with asyncio.Runner(loop_factory=JumpingLoop) as runner:
        loop = runner.get_loop()
        assert isinstance(loop, JumpingLoop)
        return runner.run(run(loop))
