"""The slot supply: a thread that makes the pages of the slab allocator's next slots before anybody allocates them.

    allocated ──fewer free than half of what is made ahead──> pages of the next slots are made    (MADV_POPULATE_WRITE)
    freed     ──more free than the reserve──────────────────> memory is returned                  (MADV_DONTNEED)

The kernel takes 0.25 ms to make a MiB of pages, and milliseconds where a hypervisor has yet to find the memory. On the
event loop that was a third of what it did for a block fetched ahead, and hits waited for it. The system calls leave
the interpreter's lock; what the thread does between two of them takes some microseconds.

A length whose slots run out has twice as many made the next time, AHEAD bytes at most. It is a supply, not a bound:
without the thread, or where it is late, slots are made when they are allocated.
"""

import logging
from queue import SimpleQueue
from threading import Thread

from forebay.storage.slab_allocator import SlabAllocator, process_allocator

_log = logging.getLogger(__name__)


class SlotSupply:
    """The supply of one allocator, from `start` to `close`."""

    def __init__(self, memory: SlabAllocator) -> None:
        self._memory = memory
        self._wakes = SimpleQueue[None]()
        """A slot may be freed by the garbage collector in the middle of any call, so this has to be reentrant: an Event
        would wait for a lock that its own thread holds."""
        self._is_awake = self._is_closed = False
        self._thread = Thread(target=self._run, name="slot-supply", daemon=True)

    def start(self) -> None:
        """Starts the thread."""
        self._memory.on_imbalance = self._wake
        self._thread.start()

    def close(self) -> None:
        """Ends the thread, and waits for it."""
        self._is_closed = True
        self._wakes.put(None)
        self.wait_closed()

    def wait_closed(self) -> None:
        """Waits until the thread has ended, or failed."""
        self._thread.join()

    def _wake(self) -> None:
        if not self._is_awake:
            self._is_awake = True
            self._wakes.put(None)

    def _run(self) -> None:
        try:
            while not self._is_closed:
                self._wakes.get()
                self._is_awake = False  # before the look: what comes during it wakes the thread again
                while self._memory.balance():
                    pass
        except Exception:
            _log.exception("the slot supply has ended")
        finally:
            self._memory.on_imbalance = None


def supply_slots() -> None:
    """Starts the supply of the process's allocator, for as long as the process lives. Not for libraries or tests."""
    SlotSupply(process_allocator()).start()
