"""The sweep: one timer for all members, none without, and no blame for time in which the loop did not run."""

from collections.abc import Callable

from forebay.core.sweep import Sweep
from harness.manual_timers import ManualTimers


class Member:
    def __init__(self, examined: Callable[[], object] = lambda: None) -> None:
        self.times: list[float] = []
        self.postponed: list[float] = []
        self._examined = examined

    def examine(self, now: float) -> None:
        self.times.append(now)
        self._examined()

    def postpone(self, seconds: float) -> None:
        self.postponed.append(seconds)


def test_members_are_examined_every_interval_with_one_timer() -> None:
    timers = ManualTimers()
    sweep, members = Sweep(0.5, timers), [Member() for _ in range(100)]
    for member in members:
        sweep.add(member)
    timers.advance(1.0)
    assert [member.times for member in members] == [[0.5, 1.0]] * 100
    assert timers.pending == 1


def test_without_members_there_is_no_timer() -> None:
    timers = ManualTimers()
    sweep, member = Sweep(0.5, timers), Member()
    for _ in range(3):
        sweep.add(member)
        sweep.remove(member)
    timers.advance(10.0)
    assert (member.times, timers.pending, len(sweep)) == ([], 0, 0)


def test_a_member_removed_by_another_is_not_examined() -> None:
    timers = ManualTimers()
    sweep, second = Sweep(0.5, timers), Member()
    sweep.add(Member(lambda: sweep.remove(second)))
    sweep.add(second)
    timers.advance(0.5)
    assert second.times == []


def test_time_in_which_the_loop_stood_still_postpones_all_deadlines() -> None:
    timers = ManualTimers()
    sweep, member = Sweep(0.5, timers), Member()
    sweep.add(member)
    timers.stall(3.0)
    assert (member.times, member.postponed) == ([], [2.5])
    timers.advance(0.5)
    assert member.times == [3.5]
