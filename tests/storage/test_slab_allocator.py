"""Buffers never share memory; free slots are reused, and returned to the kernel beyond the reserve."""

import gc
import itertools
import mmap
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.storage.slab_allocator import (
    MIN_SLOT,
    POPULATED_AT_ONCE,
    POPULATED_BRIEFLY,
    SlabAllocator,
    populate,
    slot_length,
)

MIB = 1 << 20


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * mmap.PAGESIZE


@given(st.integers(MIN_SLOT, 1 << 30))
def test_a_slot_is_whole_pages_and_hardly_longer_than_its_buffer(length: int) -> None:
    assert 0 <= slot_length(length) - length <= length // 8
    assert slot_length(length) % mmap.PAGESIZE == 0


@pytest.mark.parametrize("length", [1, MIN_SLOT - 1, MIN_SLOT, 602_112, MIB, 20 * MIB])
def test_buffers_do_not_overlap(length: int) -> None:
    memory = SlabAllocator()
    buffers = [memory.allocate(length) for _ in range(5)]
    for number, buffer in enumerate(buffers):
        assert (len(buffer), buffer.readonly, buffer.format) == (length, False, "B")
        buffer[:] = bytes([number]) * length
    assert [bytes(buffer) for buffer in buffers] == [bytes([number]) * length for number in range(5)]


def test_a_slot_is_reused_only_after_its_last_view_is_dropped() -> None:
    memory = SlabAllocator()
    buffer = memory.allocate(MIB)
    buffer[:4] = b"mine"
    view = buffer[:4].toreadonly()
    del buffer
    others = [memory.allocate(MIB) for _ in range(40)]
    for other in others:
        other[:4] = b"them"
    assert bytes(view) == b"mine"
    del view
    assert bytes(memory.allocate(MIB)[:4]) == b"mine"


def test_free_slots_beyond_the_reserve_are_returned_to_the_kernel() -> None:
    memory = SlabAllocator(reserve=2 * MIB)
    before = resident()
    buffers = [memory.allocate(MIB) for _ in range(64)]
    for buffer in buffers:
        buffer[:] = b"x" * MIB
    assert resident() - before > 56 * MIB
    del buffers, buffer
    gc.collect()
    assert resident() - before < 16 * MIB
    assert bytes(memory.allocate(MIB)[:1]) == b"x"  # out of the reserve, uncleared
    again = [memory.allocate(MIB) for _ in range(64)]
    assert sum(buffer[0] == 0 for buffer in again) >= 60  # their memory had been returned


def test_threads_allocate_and_free_slots() -> None:
    memory = SlabAllocator(reserve=4 * MIB)
    wrong: list[memoryview] = []

    def work(mark: bytes) -> None:
        for _ in range(200):
            buffers = [memory.allocate(MIN_SLOT) for _ in range(3)]
            for buffer in buffers:
                buffer[:] = mark * MIN_SLOT
            wrong.extend(buffer for buffer in buffers if buffer != mark * MIN_SLOT)

    threads = [Thread(target=work, args=(mark,)) for mark in (b"a", b"b", b"c")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_preallocated_slot_serves_the_next_buffer() -> None:
    memory = SlabAllocator()
    memory.preallocate(MIB)
    before = resident()
    buffer = memory.allocate(MIB)
    buffer[:] = bytes(MIB)
    assert resident() - before < MIB // 4
    del buffer
    for _ in range(3):  # one is free: there is nothing to do
        memory.preallocate(MIB)
    before = resident()
    buffers = [memory.allocate(MIB), memory.allocate(MIB)]
    buffers[1][:] = bytes(MIB)
    assert resident() - before > MIB // 2
    memory.preallocate(MIN_SLOT - 1)
    memory.preallocate(1 << 40)  # neither is preallocated


def test_background_work_makes_its_pages_in_short_steps() -> None:
    """None while half of a step is left: what came along with a head is copied in the step that allocates."""
    buffer, steps = SlabAllocator().allocate(MIB, populated=POPULATED_BRIEFLY), list[int]()
    slot: Any = buffer.obj
    for filled in range(0, MIB, POPULATED_BRIEFLY // 4):
        populate(buffer, filled, briefly=True)
        steps.append(slot.populated // POPULATED_BRIEFLY)
    assert steps[:7] == [1, 1, 1, 2, 2, 2, 2]
    assert max(after - before for before, after in itertools.pairwise(steps)) == 1
    assert steps[-1] == MIB // POPULATED_BRIEFLY


def test_a_buffer_gets_its_pages_piece_by_piece() -> None:
    memory = SlabAllocator()
    before = resident()
    buffer = memory.allocate(2 * MIB, populated=POPULATED_AT_ONCE)
    for filled in range(0, 2 * MIB, POPULATED_AT_ONCE // 2):
        populate(buffer, filled)
        assert resident() - before < filled + 2 * POPULATED_AT_ONCE
        buffer[filled : filled + POPULATED_AT_ONCE // 2] = bytes(POPULATED_AT_ONCE // 2)
    populate(buffer, 2 * MIB)
    populate(memoryview(bytearray(10)), 0)  # too short to need it
    assert resident() - before >= 2 * MIB
