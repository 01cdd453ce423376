"""A client's ring: slots, what they are charged, and a client that keeps them."""

import random
from collections.abc import Iterator

import pytest

from forebay.core.fair_semaphore import FairSemaphore
from forebay.server.shared_memory.client_ring import STEP, ClientRing

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
    ring.close()
    assert budget.in_use == 0


def test_neighbours_are_joined_for_a_larger_body(ring: ClientRing) -> None:
    slots = [ring.allocate(STEP // 4) for _ in range(16)]
    for slot in slots[4:8]:
        ring.release(slot)
    assert ring.allocate(STEP) == slots[4]
    assert ring.allocate(1) == -1


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
