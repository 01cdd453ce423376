"""The window of a plan: arrivals out of order, stragglers, repeated keys, and a lead that returns to zero."""

import random
import tracemalloc

from hypothesis import given
from hypothesis import strategies as st

from forebay.core.byte_ranges import Span
from forebay.core.read_log import read_hash
from forebay.jobs.plans.plan_entries import PlanEntry
from forebay.jobs.plans.plan_window import (
    LOAD_SIZE,
    MOST_AHEAD,
    NEAR,
    RESUMED_READS,
    SPREAD,
    PlanStart,
    PlanWindow,
    tickets_of,
)

WHOLE = Span(0, 100)


def window_of(*entries: PlanEntry, count: int | None = None) -> PlanWindow:
    window = PlanWindow(len(entries) if count is None else count, PlanStart())
    window.load(entries)
    return window


def keys(count: int) -> list[PlanEntry]:
    return [PlanEntry(str(number)) for number in range(count)]


def fetch_all(window: PlanWindow, size: int = 10) -> int:
    fetched = 0
    while (entry := window.next_pending()) is not None:
        window.begin(entry, size)
        window.arrive(entry, size)
        window.settle(entry)
        fetched += 1
    return fetched


@given(st.integers(1, 200), st.integers(1, 20), st.randoms(use_true_random=False))
def test_reads_within_a_spread_are_all_matched(count: int, spread: int, chance: random.Random) -> None:
    window = window_of(*keys(count))
    assert fetch_all(window) == count
    order = sorted(range(count), key=lambda number: number + chance.random() * spread)
    for number in order:
        assert len(window.match(str(number), WHOLE)) == 1
    assert (window.is_read, window.lead, len(window)) == (True, 0, 0)


def test_a_repeated_key_is_read_once_for_each_time() -> None:
    window = window_of(PlanEntry("a"), PlanEntry("b"), PlanEntry("a"))
    assert [len(window.match("a", WHOLE)) for _ in range(3)] == [1, 1, 0]
    assert (window.front, window.base) == (3, 1)


def test_a_read_matches_every_range_that_it_overlaps() -> None:
    window = window_of(PlanEntry("a", 0, 10), PlanEntry("a", 10, 20), PlanEntry("a", 10, 20), PlanEntry("a", 30, None))
    assert [entry.number for entry in window.match("a", Span(5, 15))] == [0, 1]
    assert window.match("a", Span(20, 30)) == []
    assert [entry.number for entry in window.match("a", Span(29, 31))] == [3]


@given(st.lists(st.booleans(), max_size=40), st.randoms(use_true_random=False))
def test_cached_entries_count_as_fetched_ones(are_cached: list[bool], chance: random.Random) -> None:
    window, fetched = window_of(*keys(len(are_cached))), window_of(*keys(len(are_cached)))
    fetch_all(fetched)
    while (entry := window.next_pending()) is not None:
        if are_cached[entry.number]:
            window.note_cached(entry, 10)
        else:
            window.begin(entry, 10)
            window.arrive(entry, 10)
            window.settle(entry)
    for number in chance.sample(range(len(are_cached)), len(are_cached)):
        shown = [(each.lead, each.lead_entries, each.base, each.front, each.next) for each in (window, fetched)]
        assert shown[0] == shown[1]
        assert window.match(str(number), WHOLE) != []
        assert fetched.match(str(number), WHOLE) != []
    assert (window.is_read, window.lead) == (True, 0)


def test_what_is_loaded_reaches_beyond_reader_and_fetcher() -> None:
    window = PlanWindow(3 * SPREAD, PlanStart())
    while missing := window.missing():
        window.load([PlanEntry(str(number)) for number in missing])
    assert window.loaded == SPREAD
    window.match(str(SPREAD - 1), WHOLE)
    assert window.missing() == range(SPREAD, SPREAD + LOAD_SIZE)
    assert PlanWindow(10, PlanStart(10)).is_read


def test_so_many_entries_are_ahead_however_small() -> None:
    window = PlanWindow(MOST_AHEAD + 2 * SPREAD, PlanStart())
    fetched = 0
    while missing := window.missing():
        window.load([PlanEntry(str(number)) for number in missing])
        fetched += fetch_all(window, 0)
    assert (fetched, window.loaded) == (MOST_AHEAD, MOST_AHEAD + SPREAD)
    window.match("99", WHOLE)
    assert fetch_all(window, 0) == 100


def test_a_full_window_takes_less_than_16_mib() -> None:
    """That of a plan of any length, with the tickets of what is ahead."""
    tracemalloc.start()
    try:
        window, ticket = PlanWindow(1_280_000, PlanStart()), 1 << 30
        while missing := window.missing():
            window.load([PlanEntry(f"train/n{nth % 1000:08}/n{nth % 1000:08}_{nth}.JPEG") for nth in missing])
            while (entry := window.next_pending()) is not None:
                window.begin(entry, 1)
                window.settle(entry)
                entry.tickets.append(ticket := ticket + 1)
        assert len(window) == MOST_AHEAD + SPREAD
        assert tracemalloc.get_traced_memory()[0] < 16 << 20
    finally:
        tracemalloc.stop()


def test_what_was_read_before_is_no_entry() -> None:
    read = frozenset(read_hash(str(number), 0) for number in (3, 5, 6, 8))
    window = PlanWindow(10, PlanStart(3, 7, read))
    assert (window.front, window.missing()) == (7, range(3, 10))
    window.load(keys(10)[3:])
    assert (window.base, len(window)) == (4, 4)
    assert window.match("8", WHOLE), "in front of the reader nothing was read, whatever its hash"
    assert fetch_all(window) == 3
    for number in (4, 7, 9):
        window.match(str(number), WHOLE)
    assert (window.is_read, window.lead, window.front) == (True, 0, 10)


def test_a_window_begins_where_another_was() -> None:
    """With what was left out, also before it has loaded anything."""
    window = window_of(*keys(10))
    for number in (0, 1, 3, 6, 7):
        window.match(str(number), WHOLE)
    position = window.position()
    assert position == PlanStart(2, 8, unread=frozenset({2, 4, 5}))
    later = PlanWindow(10, position)
    assert (later.front, later.position()) == (8, position)
    later.load(keys(10)[2:5])
    assert (len(later), later.position()) == (2, position)
    later.load(keys(10)[5:])
    for number in (2, 4, 5, 8):
        assert later.match(str(number), WHOLE), number
    assert later.position() == PlanStart(9, 9, unread=frozenset())
    assert not later.match("3", WHOLE)


def test_what_lies_before_the_first_reads_is_given_up() -> None:
    """Where a killed process has begun the plan: it was read in its last seconds, which nobody has recorded."""
    window = PlanWindow(400, PlanStart(100, 100, unread=frozenset()))
    while missing := window.missing():
        window.load(keys(400)[missing.start : missing.stop])
    fetch_all(window)
    for number in range(201, 200 + RESUMED_READS):
        window.match(str(number), WHOLE)
    assert window.give_up_stragglers(10**9) == []
    window.match("200", WHOLE)
    assert [entry.number for entry in window.give_up_stragglers(10**9)] == list(range(100, 200))
    window.match("399", WHOLE)
    assert window.give_up_stragglers(10**9) == [], "once"
    begun_here = window_of(*keys(400))
    for number in range(200, 200 + RESUMED_READS):
        begun_here.match(str(number), WHOLE)
    assert begun_here.give_up_stragglers(10**9) == []


def test_stragglers_far_behind_are_given_up() -> None:
    window = window_of(*keys(SPREAD + 100))
    fetch_all(window)
    for number in range(1, SPREAD + 100):
        window.match(str(number), WHOLE)
    assert [entry.number for entry in window.give_up_stragglers(10**9)] == [0]
    assert (window.is_read, window.lead) == (True, 0)


def test_stragglers_hold_at_most_a_share_of_the_lead() -> None:
    window = window_of(*keys(NEAR + 20))
    fetch_all(window)
    window.match(str(NEAR + 9), WHOLE)
    most = (NEAR + 9) * 10 - 65
    assert [entry.number for entry in window.give_up_stragglers(most)] == [0, 1, 2, 3, 4, 5, 6]
    assert window.lead == (NEAR + 12) * 10


def test_stragglers_that_may_be_read_yet_are_not_given_up() -> None:
    window = window_of(*keys(2 * NEAR))
    fetch_all(window)
    window.match(str(NEAR + 9), WHOLE)
    assert [entry.number for entry in window.give_up_stragglers(0)] == list(range(10))
    window.match("20", WHOLE)
    window.match(str(2 * NEAR - 22), WHOLE)
    assert window.give_up_stragglers(0) == []
    window.match(str(2 * NEAR - 1), WHOLE)
    assert [entry.number for entry in window.give_up_stragglers(0)] == list(range(10, 2 * NEAR - 2 * (NEAR - 10)))


def test_stragglers_that_take_no_room_are_not_given_up() -> None:
    window = window_of(*keys(NEAR + 20))
    first = window.next_pending()
    assert first is not None
    window.begin(first, 10)
    fetch_all(window)
    window.put_back(first)
    window.match(str(NEAR + 9), WHOLE)
    assert [entry.number for entry in window.give_up_stragglers((NEAR + 6) * 10)] == [1, 2]


def test_what_was_read_is_not_given_up() -> None:
    window = window_of(*keys(2))
    fetch_all(window)
    entries = window.fetched
    window.match("0", WHOLE)
    assert [entry.number for entry in window.give_up(entries)] == [1]
    assert (window.give_up(entries), window.is_read) == ([], True)


def test_an_entry_without_room_is_the_next_again() -> None:
    window = window_of(*keys(3))
    first, second = window.next_pending(), None
    assert first is not None
    window.begin(first, 50)
    second = window.next_pending()
    assert second is not None
    window.begin(second, 50)
    assert (window.lead, window.lead_entries) == (100, 2)
    window.put_back(first)
    assert (window.next_pending(), window.lead) == (first, 50)


def test_an_idle_window_is_fetched_again_from_its_base() -> None:
    window = window_of(*keys(5))
    fetch_all(window)
    window.match("0", WHOLE)
    entries = window.rewind()
    entries[0].tickets += [7]
    assert (len(entries), window.lead, tickets_of(entries), tickets_of(entries)) == (4, 0, [7], [])
    assert fetch_all(window) == 4


def test_entries_that_needed_no_fetch_are_rewound_too() -> None:
    window = window_of(*keys(3))
    while (entry := window.next_pending()) is not None:
        window.note_cached(entry, 10)
    assert window.lead == 30
    assert (len(window.rewind()), window.lead, fetch_all(window)) == (3, 0, 3)


def test_a_jump_gives_up_everything_before_it() -> None:
    window = window_of(*keys(5), count=100)
    fetch_all(window)
    assert len(window.give_up_before(50)) == 5
    assert (window.base, window.loaded, window.next, window.front, window.lead) == (50, 50, 50, 50, 0)
    assert window.missing().start == 50


def test_what_arrives_for_an_entry_that_was_read_counts_nothing() -> None:
    window = window_of(*keys(1))
    entry = window.next_pending()
    assert entry is not None
    window.begin(entry, 50)
    window.match("0", WHOLE)
    window.arrive(entry, 80)
    window.put_back(entry)
    assert (window.lead, entry.is_read, window.next_pending()) == (0, True, None)


def test_a_window_of_any_length_is_given_up_at_once() -> None:
    """Without a step for each entry between its reader and its end."""
    window = PlanWindow(10**15, PlanStart())
    window.load([PlanEntry(f"k{number}", 0, None) for number in range(3)])
    assert [entry.number for entry in window.give_up_before(window.count)] == [0, 1, 2]
    assert (window.is_read, window.base, len(window)) == (True, 10**15, 0)
