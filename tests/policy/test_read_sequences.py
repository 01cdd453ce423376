"""Sequences in reads: what is a run or an order, what is chance, and what either is worth."""

import random

from forebay.core.byte_ranges import Span
from forebay.core.events import ObjectRead
from forebay.core.names import ObjectName
from forebay.policy.read_sequences import (
    MAX_OBJECTS,
    ORDERED_MOVES,
    RISING_KEYS,
    KeyOrder,
    KeyOrders,
    ReadSequences,
)

KIB, MIB = 1 << 10, 1 << 20
SIZE = 64 * MIB


def read(start: int, stop: int, key: str = "key", principal: str = "p") -> ObjectRead:
    return ObjectRead(ObjectName("b", key), Span(start, stop), SIZE, principal, "rule", "miss", 0.0)


def test_three_reads_in_a_row_are_a_run() -> None:
    runs = ReadSequences()
    first = runs.observe(read(0, MIB))
    assert first.next_extent(8 * MIB, SIZE) is None
    assert runs.observe(read(MIB, 2 * MIB)).next_extent(8 * MIB, SIZE) is None
    third = runs.observe(read(2 * MIB + 64 * KIB, 3 * MIB))
    assert third is first
    assert third.next_extent(8 * MIB, SIZE) == Span(3 * MIB, 9 * MIB)


def test_the_window_grows_with_the_run_up_to_read_ahead() -> None:
    runs, fetched = ReadSequences(), 0
    for number in range(60):
        run = runs.observe(read(number * MIB, (number + 1) * MIB))
        extent = run.next_extent(16 * MIB, SIZE)
        if extent is not None:
            fetched += extent.length
            assert extent.start >= run.stop
            assert extent.stop - run.stop <= min(16 * MIB, 2 * run.stop)
    assert fetched == SIZE - 3 * MIB, "every byte once"


def test_nothing_is_fetched_beyond_the_end() -> None:
    runs = ReadSequences()
    for start in (SIZE - 4 * MIB, SIZE - 3 * MIB, SIZE - 2 * MIB):
        run = runs.observe(read(start, start + MIB))
    assert run.next_extent(64 * MIB, SIZE) == Span(SIZE - MIB, SIZE)
    run = runs.observe(read(SIZE - MIB, SIZE))
    assert run.next_extent(64 * MIB, SIZE) is None


def test_readers_that_share_an_object_have_runs_of_their_own() -> None:
    runs = ReadSequences()
    starts = [0, 16 * MIB, 32 * MIB, 48 * MIB]
    for step in range(3):
        found = [runs.observe(read(start + step * MIB, start + (step + 1) * MIB)) for start in starts]
    assert [run.reads for run in found] == [3] * 4
    assert runs.observe(read(3 * MIB, 4 * MIB, principal="q")).reads == 1


def test_random_reads_are_no_run() -> None:
    draw, runs, fetched, requested = random.Random(7), ReadSequences(), 0, 0
    for _ in range(20_000):
        length = draw.randrange(64 * KIB, MIB)
        start = draw.randrange(SIZE - length)
        extent = runs.observe(read(start, start + length)).next_extent(64 * MIB, SIZE)
        requested += length
        fetched += extent.length if extent is not None else 0
    assert fetched <= 0.01 * requested


def test_the_tables_are_bounded() -> None:
    runs = ReadSequences()
    for number in range(MAX_OBJECTS + 10):
        runs.observe(read(0, 1, key=str(number)))
    assert len(runs) == MAX_OBJECTS


KEYS = [f"d/{number:04}.tar" for number in range(200)]


def page_from(key: str, count: int = 100) -> list[tuple[str, int]]:
    start = KEYS.index(key)
    return [(each, 10 * MIB) for each in KEYS[start : start + count]]


def ordered() -> tuple[KeyOrder, int]:
    """An order that has been looked up, and the number of the next key."""
    order = KeyOrder()
    for number, key in enumerate(KEYS[:RISING_KEYS], 1):
        order.observe(key)
        assert order.needs_page == (number == RISING_KEYS)
    order.learn(page_from(KEYS[RISING_KEYS - 1]), is_last=False)
    return order, RISING_KEYS


def test_an_order_is_known_after_steps_in_the_listing() -> None:
    order, number = ordered()
    for _ in range(ORDERED_MOVES):
        assert order.next_objects(25 * MIB) == []
        order.observe(KEYS[number])
        number += 1
    assert order.next_objects(25 * MIB) == [(KEYS[number], 10 * MIB), (KEYS[number + 1], 10 * MIB)]
    assert order.next_objects(25 * MIB) == [], "once"
    order.observe(KEYS[number])
    assert order.next_objects(25 * MIB) == [(KEYS[number + 2], 10 * MIB)]
    for later in range(number + 1, number + 3):
        order.observe(KEYS[later])
    assert order.next_objects(4 * MIB) == [(KEYS[number + 3], 4 * MIB)], "the start of one that is larger"


def test_workers_that_share_the_keys_are_an_order() -> None:
    order, number = ordered()
    for key in (KEYS[number + 1], KEYS[number], KEYS[number + 3], KEYS[number + 2]):
        order.observe(key)
    assert [key for key, _ in order.next_objects(10 * MIB)] == [KEYS[number + 4]]


def test_shuffled_keys_are_no_order() -> None:
    draw, order, fetched, listed = random.Random(3), KeyOrder(), 0, 0
    for _ in range(5000):
        order.observe(draw.choice(KEYS))
        if order.needs_page:
            listed += 1
            order.learn(page_from(order.last), is_last=False)
        fetched += len(order.next_objects(64 * MIB))
    assert fetched <= 100
    assert listed <= 1000


def test_the_listing_is_looked_at_again_near_the_end_of_its_page() -> None:
    order, number = ordered()
    while not order.needs_page:
        order.observe(KEYS[number])
        number += 1
    assert 90 <= number <= 100
    order.learn(page_from(KEYS[number - 1], len(KEYS)), is_last=True)
    for key in KEYS[number:]:
        order.observe(key)
        assert not order.needs_page


def test_directories_and_principals_are_apart() -> None:
    orders = KeyOrders()
    first = orders.observe("p", ObjectName("b", "d/1"))
    assert orders.observe("p", ObjectName("b", "d/2")) is first
    assert orders.observe("p", ObjectName("b", "e/2")) is not first
    assert orders.observe("q", ObjectName("b", "d/2")) is not first
