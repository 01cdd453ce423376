"""Yields of the core stop while other programs want it."""

import pytest

from forebay.core.core_yield import LONG, PAUSE, CoreYield


class _Core:
    """A core that a yield gives away for `taken` seconds."""

    def __init__(self) -> None:
        self.now, self.taken, self.yields = 5.0, 0.0, 0

    def sched_yield(self) -> None:
        self.yields += 1
        self.now += self.taken


def test_each_step_yields_while_yields_are_short() -> None:
    core = _Core()
    core.taken = LONG * 0.9
    give_way = CoreYield(core.sched_yield, lambda: core.now)
    for _ in range(20):
        give_way()
    assert core.yields == 20


@pytest.mark.parametrize("taken", [1.5 * LONG, 0.1])
def test_no_yield_follows_a_long_one_for_a_while(taken: float) -> None:
    core = _Core()
    core.taken = taken
    give_way = CoreYield(core.sched_yield, lambda: core.now)
    give_way()
    ended = core.now
    for share in (0.0, 0.5, 0.99):
        core.now = ended + share * PAUSE * taken
        give_way()
    assert core.yields == 1
    core.now = ended + 1.01 * PAUSE * taken
    give_way()
    assert core.yields == 2


def test_the_kernel_is_asked() -> None:
    CoreYield()()
