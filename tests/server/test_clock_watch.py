"""The clock watch: a clock that was set back makes nothing fresh a second time."""

from forebay.core.fences import InDoubtWrites
from forebay.core.names import ObjectName
from forebay.server.clock_watch import ClockWatch

NAME = ObjectName("bucket", "key")
NOON = 1_700_000_000.0
INTERVAL = 5.0


class World:
    """A watch whose clocks a test sets."""

    def __init__(self) -> None:
        self.wall, self.monotonic = NOON, 50.0
        self.in_doubt_writes = InDoubtWrites()
        self.forgotten = 0
        self.watch = ClockWatch(lambda: self.wall, lambda: self.monotonic, self.in_doubt_writes, self._forget, INTERVAL)

    def _forget(self) -> None:
        self.forgotten += 1

    def run(self, seconds: float, step: float = 0.0) -> float:
        """So much later the watch looks; meanwhile the clock was set by `step`."""
        self.wall += seconds + step
        self.monotonic += seconds
        return self.watch.check()


def test_a_clock_that_runs_changes_nothing() -> None:
    world = World()
    assert [world.run(INTERVAL) for _ in range(3)] == [0.0, 0.0, 0.0]
    assert (world.in_doubt_writes.until(NAME), world.forgotten) == (0.0, 0)


def test_a_clock_that_is_slewed_or_set_forward_changes_nothing() -> None:
    world = World()
    assert [world.run(INTERVAL, step) for step in (-0.5, 0.5, 3600.0)] == [0.0, 0.0, 0.0]
    assert (world.in_doubt_writes.until(NAME), world.forgotten) == (0.0, 0)


def test_heads_of_before_are_unproven_once_their_time_comes_again() -> None:
    world = World()
    assert world.run(INTERVAL, -3600.0) == 3600.0
    assert world.in_doubt_writes.until(NAME) == 0.0  # until then they are stale by themselves: no others suffer
    world.run(3600.0 - INTERVAL)
    until = world.in_doubt_writes.until(NAME)
    assert until == NOON + INTERVAL
    assert world.wall < until


def test_a_small_step_back_counts_at_once() -> None:
    world = World()
    world.run(INTERVAL, -3.0)
    assert world.in_doubt_writes.until(NAME) == NOON + INTERVAL


def test_of_two_steps_back_the_latest_time_counts() -> None:
    world = World()
    world.run(INTERVAL, -3600.0)
    world.run(INTERVAL, -60.0)
    world.run(3700.0)
    assert world.in_doubt_writes.until(NAME) == NOON + INTERVAL


def test_permissions_are_forgotten_when_the_clock_is_set_back() -> None:
    world = World()
    world.run(INTERVAL, -3600.0)
    world.run(INTERVAL)
    assert world.forgotten == 1
