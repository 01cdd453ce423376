"""The supply makes slots ahead of their allocation, and returns the memory of those beyond the reserve."""

from collections.abc import Callable
from threading import Semaphore

from forebay.storage.slab_allocator import AHEAD, MIN_SLOT, SlabAllocator
from forebay.storage.slot_supply import SlotSupply

MIB = 1 << 20


class Counted(SlabAllocator):
    """An allocator that shows how many bytes of free slots have their pages."""

    @property
    def free_bytes(self) -> int:
        return self._kept


def by_hand(reserve: int = 32 * MIB) -> Counted:
    """An allocator whose supply is the test, which calls `balance`."""
    memory = Counted(reserve)
    memory.on_imbalance = lambda: None
    return memory


def balance(memory: SlabAllocator) -> int:
    """Balances to the end; returns the number of steps."""
    steps = 0
    while memory.balance():
        steps += 1
    return steps


def populated(buffer: memoryview) -> int:
    slot: object = buffer.obj
    found = getattr(slot, "populated", 0)
    assert isinstance(found, int)
    return found


def test_slots_that_run_out_are_made_ahead() -> None:
    memory, kept, made = by_hand(), list[memoryview](), list[int]()
    for _ in range(3):
        buffer = memory.allocate(MIB, populated=0)
        assert populated(buffer) == (MIB if kept else 0)
        kept.append(buffer)
        made.append(balance(memory))
    assert made == [1, 2, 1]
    for _ in range(40):
        kept.append(memory.allocate(MIB, populated=0))
        balance(memory)
    assert {populated(buffer) for buffer in kept[1:]} == {MIB}
    assert memory.free_bytes <= AHEAD


def test_what_is_made_ahead_stays_within_the_reserve() -> None:
    memory, kept = by_hand(reserve=3 * MIB), list[memoryview]()
    for _ in range(20):
        kept += [memory.allocate(MIB), memory.allocate(MIB // 2)]
        balance(memory)
        assert memory.free_bytes <= 3 * MIB


def test_memory_of_slots_beyond_the_reserve_is_returned() -> None:
    memory = by_hand(reserve=2 * MIB)
    buffers = [memory.allocate(MIB) for _ in range(8)]
    for buffer in buffers:
        buffer[:1] = b"x"
    del buffers, buffer
    assert memory.free_bytes == 8 * MIB
    balance(memory)
    assert memory.free_bytes <= 2 * MIB
    again = [memory.allocate(MIB) for _ in range(8)]
    assert sum(buffer[0] == 0 for buffer in again) >= 6


def test_free_slots_of_another_length_make_room() -> None:
    memory = by_hand(reserve=4 * MIB)
    others = [memory.allocate(MIN_SLOT) for _ in range(4 * MIB // MIN_SLOT)]
    del others
    kept = list[memoryview]()
    for _ in range(10):
        kept.append(memory.allocate(2 * MIB, populated=0))
        balance(memory)
    assert populated(kept[-1]) == 2 * MIB


def test_long_slots_are_not_made_ahead() -> None:
    memory = by_hand()
    kept = [memory.allocate(20 * MIB) for _ in range(2)]
    assert (balance(memory), memory.free_bytes, len(kept)) == (0, 0, 2)


class Watched(Counted):
    """Tells when its supply has nothing left to do, or fails."""

    def __init__(self, reserve: int, *, fails: bool = False) -> None:
        super().__init__(reserve)
        self._balanced, self._fails = Semaphore(0), fails

    def balance(self) -> bool:
        if self._fails:
            raise ArithmeticError("a failure of the test's")
        did = super().balance()
        if not did:
            self._balanced.release()
        return did

    def wait_until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            assert self._balanced.acquire(timeout=30.0)


def test_the_thread_makes_and_returns_slots() -> None:
    memory = Watched(reserve=2 * MIB)
    supply = SlotSupply(memory)
    supply.start()
    first = memory.allocate(MIB, populated=0)
    memory.wait_until(lambda: memory.free_bytes == MIB)
    buffers = [memory.allocate(MIB, populated=0) for _ in range(8)]
    assert (populated(first), populated(buffers[0])) == (0, MIB)
    del buffers
    memory.wait_until(lambda: memory.free_bytes <= 2 * MIB)
    supply.close()
    assert memory.on_imbalance is None


def test_where_the_thread_fails_memory_is_still_returned() -> None:
    memory = Watched(reserve=2 * MIB, fails=True)
    supply = SlotSupply(memory)
    supply.start()
    buffers = [memory.allocate(MIB)]
    supply.wait_closed()
    buffers += [memory.allocate(MIB) for _ in range(7)]
    del buffers
    assert memory.free_bytes <= 2 * MIB
