"""The pace of a plan: what is ahead and in flight follows the reader and the fetches."""

from forebay.jobs.plans.plan_pace import (
    FIRST_ENTRIES,
    FIRST_IN_FLIGHT,
    FIRST_LEAD,
    HORIZON_SECONDS,
    LEAST_HORIZON,
    MAX_IN_FLIGHT,
    MEAN_IN_FLIGHT,
    SHORT_LEAD,
    SHORTEST_LEAD,
    PlanPace,
)

MIB = 1 << 20
ALLOWED = 1 << 40


def reading(entries: int, size: int, now: float = 1.0) -> PlanPace:
    """A pace after `entries` of `size` bytes in the second before `now`."""
    pace = PlanPace(now - 1.0)
    for _ in range(entries):
        pace.entry_read(size)
    pace.last_read = now
    pace.measure(now)
    return pace


def test_without_a_pace_all_that_is_allowed_is_ahead() -> None:
    pace = PlanPace(0.0)
    assert (pace.horizon(ALLOWED), pace.seconds_of(MIB)) == (ALLOWED, None)


def test_the_first_entries_come_at_once_the_others_as_they_are_read() -> None:
    pace = PlanPace(0.0)
    assert pace.most_in_flight(0, 0) == pace.most_in_flight(FIRST_LEAD - 1, FIRST_ENTRIES - 1) == FIRST_IN_FLIGHT
    assert pace.most_in_flight(FIRST_LEAD, 1) == pace.most_in_flight(1, FIRST_ENTRIES) == MEAN_IN_FLIGHT


def test_the_horizon_is_what_is_read_in_its_time() -> None:
    pace = reading(100, MIB)
    assert pace.horizon(ALLOWED) == 100 * MIB * HORIZON_SECONDS
    assert pace.horizon(MIB) == MIB
    assert pace.seconds_of(200 * MIB) == 2.0


def test_a_slow_reader_has_the_least_horizon() -> None:
    assert reading(1, 1000).horizon(ALLOWED) == LEAST_HORIZON


def test_a_pause_of_the_reader_is_not_its_pace() -> None:
    pace = reading(100, MIB)
    before = pace.horizon(ALLOWED)
    pace.measure(1.0 + HORIZON_SECONDS)
    assert pace.horizon(ALLOWED) == before
    pace.entry_read(MIB)
    pace.measure(2.0 + HORIZON_SECONDS)
    assert pace.horizon(ALLOWED) < before


def test_in_flight_is_what_is_read_while_one_is_fetched() -> None:
    pace = reading(100, MIB)
    second = 100 * MIB
    enough, short, shortest = (int(second * share) for share in (SHORT_LEAD, SHORT_LEAD - 0.1, SHORTEST_LEAD - 0.1))

    def in_flight(fetch_seconds: float) -> list[int]:
        for _ in range(100):
            pace.entry_fetched(fetch_seconds, MIB)
        return [pace.most_in_flight(lead, 1000) for lead in (enough, short, shortest)]

    assert in_flight(0.01) == [3, MEAN_IN_FLIGHT, FIRST_IN_FLIGHT]
    assert in_flight(0.185) == [29, 29, FIRST_IN_FLIGHT]
    assert in_flight(60.0) == [MAX_IN_FLIGHT] * 3


def test_the_expected_size_is_the_mean_of_what_came() -> None:
    pace = PlanPace(0.0)
    assert (pace.mean_size, pace.expected_size(1000), pace.expected_size(ALLOWED)) == (0, 1000, MIB)
    pace.entry_fetched(0.1, 5000)
    assert pace.expected_size(ALLOWED) == pace.mean_size == 5000
    pace.entry_fetched(0.1, None)
    assert pace.mean_size == 5000


def test_cached_entries_say_nothing_of_what_a_fetch_takes() -> None:
    pace, other = reading(100, 1000), reading(100, 1000)
    for _ in range(50):
        pace.entry_found(1000)
    assert (pace.mean_size, pace.most_in_flight(1 << 30, 50)) == (1000, other.most_in_flight(1 << 30, 50))
