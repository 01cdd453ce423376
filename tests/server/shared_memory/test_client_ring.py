"""A client's ring: slots, what they are charged, and a client that keeps them."""

import random
from collections.abc import Iterator

import pytest

from forebay.core.fair_semaphore import FairSemaphore
from forebay.server.shared_memory.client_ring import JOIN_SHARE, STEP, ClientRing

PAGE = 4096


@pytest.fixture
def budget() -> FairSemaphore:
    return FairSemaphore(4 * STEP)


@pytest.fixture
def ring(budget: FairSemaphore) -> Iterator[ClientRing]:
    made = ClientRing(8 * STEP, budget)
    yield made
    made.close()
    assert budget.in_use == 0


def test_the_slot_released_last_is_allocated_first(ring: ClientRing) -> None:
    first, second = ring.allocate(5000), ring.allocate(5000)
    assert (first, second) == (0, 2 * PAGE)
    ring.release(first)
    ring.release(second)
    assert [ring.allocate(5001), ring.allocate(1 + PAGE), ring.allocate(1)] == [second, first, 4 * PAGE]


def test_memory_is_charged_as_the_ring_grows(ring: ClientRing, budget: FairSemaphore) -> None:
    assert budget.in_use == 0
    ring.allocate(1)
    assert budget.in_use == STEP
    ring.allocate(STEP)
    assert budget.in_use == 2 * STEP


def test_a_client_that_keeps_its_slots_gets_no_more(ring: ClientRing, budget: FairSemaphore) -> None:
    kept = [ring.allocate(STEP) for _ in range(4)]
    assert ring.allocate(1) == -1
    assert budget.in_use == budget.capacity
    ring.release(kept[1])
    assert ring.allocate(STEP) == kept[1]


def test_no_slot_is_larger_than_the_ring() -> None:
    budget = FairSemaphore(1 << 40)
    ring = ClientRing(STEP, budget)
    assert ring.allocate(STEP + 1) == -1
    assert ring.allocate(STEP) == 0
    for _ in range(2):
        ring.close()
        assert budget.in_use == 0
    with pytest.raises(ValueError, match="released"):
        ring.memory.view[0]


def test_neighbours_are_joined_for_a_larger_body(ring: ClientRing) -> None:
    slots = [ring.allocate(STEP // 4) for _ in range(16)]
    for slot in slots[4:8]:
        ring.release(slot)
    assert ring.allocate(STEP) == slots[4]
    assert ring.allocate(1) == -1


class CountedJoins(ClientRing):
    """Counts how often all released slots are looked at."""

    joins = 0

    def _join(self) -> None:
        self.joins += 1
        super()._join()


@pytest.fixture
def fragmented(budget: FairSemaphore) -> Iterator[tuple[CountedJoins, list[int]]]:
    """A ring with no more room, of which every other slot is in use: these."""
    ring = CountedJoins(4 * STEP, budget)
    slots = [ring.allocate(PAGE) for _ in range(4 * STEP // PAGE)]
    for slot in slots[::2]:
        ring.release(slot)
    yield ring, slots[1::2]
    ring.close()


def test_a_fragmented_ring_is_seldom_joined(fragmented: tuple[CountedJoins, list[int]]) -> None:
    ring, kept = fragmented
    assert {ring.allocate(2 * PAGE) for _ in kept} == {-1}
    assert ring.joins <= JOIN_SHARE
    assert len(ring) == len(kept)
    ring.joins = 0
    for slot in kept:
        ring.release(slot)
        assert ring.allocate(PAGE) == slot, "no neighbour is looked for"
    assert ring.joins == 0


def test_neighbours_are_joined_once_enough_are_released(fragmented: tuple[CountedJoins, list[int]]) -> None:
    ring, kept = fragmented
    assert ring.allocate(2 * PAGE) == -1
    for slot in kept[: len(kept) // JOIN_SHARE + 1]:
        ring.release(slot)
    assert ring.allocate(2 * PAGE) >= 0


def test_neighbours_are_joined_once_enough_were_looked_for(fragmented: tuple[CountedJoins, list[int]]) -> None:
    ring, kept = fragmented
    assert ring.allocate(2 * PAGE) == -1
    ring.release(kept[0])
    found = [ring.allocate(2 * PAGE) for _ in range(len(kept) // JOIN_SHARE)]
    assert found == [-1] * (len(found) - 1) + [0]


def test_a_ring_of_which_nothing_is_in_use_is_one_slot(fragmented: tuple[CountedJoins, list[int]]) -> None:
    ring, kept = fragmented
    while len(kept) > 1:
        ring.release(kept.pop())
    assert ring.allocate(4 * STEP) == -1, "joined"
    ring.release(kept.pop())
    assert ring.allocate(4 * STEP) == 0


def test_a_slot_is_cut_from_the_smallest_that_is_large_enough(ring: ClientRing) -> None:
    sizes = [STEP, STEP // 2, STEP, STEP // 4, STEP, STEP // 4]
    slots = [ring.allocate(size) for size in sizes]
    for slot in slots[1::2]:
        ring.release(slot)
    assert [ring.allocate(STEP // 2), ring.allocate(STEP // 8), ring.allocate(STEP // 8)] == [
        slots[1],
        slots[5],
        slots[5] + STEP // 8,
    ]


@pytest.mark.parametrize("position", [0, PAGE, 3 * PAGE, 1 << 40])
def test_a_slot_that_is_not_in_use_cannot_be_released(ring: ClientRing, position: int) -> None:
    ring.release(ring.allocate(2 * PAGE))
    with pytest.raises(ValueError, match="not in use"):
        ring.release(position)


@pytest.mark.parametrize("seed", range(5))
def test_slots_in_use_never_overlap(ring: ClientRing, seed: int) -> None:
    draw = random.Random(seed)
    in_use: dict[int, int] = {}
    for _ in range(600):
        if in_use and draw.random() < 0.5:
            position = draw.choice(list(in_use))
            del in_use[position]
            ring.release(position)
            continue
        size = draw.choice([1, PAGE, 9 * PAGE, 40 * PAGE, 100 * PAGE])
        position = ring.allocate(size)
        if position >= 0:
            assert position % PAGE == 0
            assert position + size <= ring.charged
            assert all(position + size <= at or at + length <= position for at, length in in_use.items())
            in_use[position] = size
    for position in in_use:
        ring.release(position)
    assert ring.allocate(ring.charged) == 0  # nothing was lost


def test_pieces_are_copied_one_after_the_other(ring: ClientRing) -> None:
    at = ring.allocate(8)
    ring.copy(at, (memoryview(b"abc"), memoryview(b"defgh")))
    assert bytes(ring.memory.view[at : at + 8]) == b"abcdefgh"
