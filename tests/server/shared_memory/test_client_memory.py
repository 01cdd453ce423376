"""What a worker shares with its clients goes with the last process that has it, without anybody asking for it."""

import os
from collections import Counter

import pytest

from forebay.core.fair_semaphore import FairSemaphore
from forebay.server.shared_memory.client_memory import CHECK_INTERVAL, ClientMemory
from forebay.server.shared_memory.client_ring import STEP, ClientRing
from harness.arenas import MIB, arena_of
from harness.manual_timers import ManualTimers


class Shared:
    """The client memory of one worker, and the clock that it looks at."""

    def __init__(self, ring_size: int = 4 * STEP) -> None:
        self.timers, self.budget = ManualTimers(), FairSemaphore(16 * STEP)
        self.reads = Counter[tuple[str, ...]]()
        self.memory = ClientMemory(self.budget, ring_size, lambda: 8 * MIB, self.timers, self.reads)

    def ring(self) -> ClientRing:
        ring = self.memory.new_ring()
        assert ring is not None
        ring.allocate(1)
        return ring


@pytest.fixture
def shared() -> Shared:
    return Shared()


class Channel:
    def __init__(self) -> None:
        self.calls: list[str] = []

    def begin_draining(self) -> None:
        self.calls.append("drain")

    def check_policy(self) -> None:
        self.calls.append("check")


def test_a_ring_is_given_back_when_its_client_has_let_go(shared: Shared) -> None:
    rings = [shared.ring(), shared.ring()]
    kept = [ring.memory.file.open_reader() for ring in rings]
    for ring in rings:
        shared.memory.retire(ring)
    assert shared.timers.pending == 1
    shared.timers.advance(CHECK_INTERVAL)
    assert shared.budget.in_use == 2 * STEP
    os.close(kept[0])
    shared.timers.advance(CHECK_INTERVAL)
    assert shared.budget.in_use == STEP
    os.close(kept[1])
    shared.timers.advance(CHECK_INTERVAL)
    assert (shared.budget.in_use, shared.timers.pending) == (0, 0)


def test_a_ring_that_nobody_has_is_given_back_at_once(shared: Shared) -> None:
    shared.memory.retire(shared.ring())
    assert (shared.budget.in_use, shared.timers.pending) == (0, 0)


def test_passed_files_are_looked_at_until_none_is_left(shared: Shared) -> None:
    channel = Channel()
    shared.memory.channels.add(channel)
    passed = shared.memory.share(arena_of(MIB))
    assert passed is not None
    kept = passed.open_reader()
    shared.timers.advance(CHECK_INTERVAL)
    assert (len(shared.memory.files), channel.calls) == (1, ["check"])
    os.close(kept)
    shared.timers.advance(CHECK_INTERVAL)
    assert (len(shared.memory.files), channel.calls, shared.timers.pending) == (0, ["check"] * 2, 0)


def test_at_most_a_share_of_the_memory_tier_is_passed(shared: Shared) -> None:
    assert [shared.memory.share(arena_of(MIB)) is not None for _ in range(5)] == [True] * 4 + [False]
    shared.memory.close()


def test_all_channels_are_drained(shared: Shared) -> None:
    channels = [Channel(), Channel()]
    shared.memory.channels.update(channels)
    shared.memory.begin_draining()
    assert [channel.calls for channel in channels] == [["drain"]] * 2


def test_nothing_is_left_once_it_is_closed(shared: Shared) -> None:
    left, late = shared.ring(), shared.ring()
    kept = [ring.memory.file.open_reader() for ring in (left, late)]
    shared.memory.retire(left)
    assert shared.memory.share(arena_of(MIB)) is not None
    shared.memory.close()
    assert (shared.budget.in_use, len(shared.memory.files), shared.timers.pending) == (STEP, 0, 0)
    shared.memory.retire(late)
    assert (shared.budget.in_use, shared.timers.pending) == (0, 0)
    assert shared.memory.new_ring() is None
    shared.memory.share(arena_of(MIB))
    assert shared.timers.pending == 0
    shared.memory.close()
    for fd in kept:
        os.close(fd)


@pytest.mark.parametrize("size", [0, 1 << 62])
def test_where_there_can_be_no_ring_there_is_none(size: int) -> None:
    assert Shared(size).memory.new_ring() is None


def test_reads_are_counted_by_their_form(shared: Shared) -> None:
    shared.memory.count("ring")
    shared.memory.count("ring")
    assert shared.reads == {("ring",): 2}
