"""The orders that wait for the writer: bounded in bytes, in the order they came.

Given by any thread, taken by one. An admission or a head waits a moment, so that many are committed at once; an
order that somebody awaits is urgent and brings everything before it along.

Invariants:
- orders are carried out in the order they were given, so a removal takes with it every head put before it;
- an object has something `pending` from the moment an order for it is given until that order is settled, which is after
  its commit: when nothing is pending, the index tells all there is to tell;
- blocks never take more than `capacity` bytes; heads never more than MAX_HEADS. What is beyond is refused, not kept.
"""

from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from threading import Condition
from typing import Final, TypeAlias

from forebay.core.buffers import Buffer
from forebay.core.heads import Head
from forebay.core.names import Generation, ObjectName
from forebay.storage.ssd.addressing import OBJECT_ADDRESS
from forebay.storage.ssd.index import BlockLocation

MAX_HEADS: Final = 32768
# What waits beside a small block's bytes: its order, its address, its buffer's own header.
ORDER_OVERHEAD: Final = 512
SETTLED_AT_ONCE: Final = 256  # under the lock, for which the event loop may be waiting

Settled: TypeAlias = Callable[[int], None]
"""Told, from the writer's thread, that an order is done; with how many objects it removed."""


@dataclass(frozen=True, slots=True)
class AdmitBlock:
    address: bytes
    buffer: Buffer


@dataclass(frozen=True, slots=True)
class PutHead:
    name: ObjectName
    address: bytes
    head: Head


@dataclass(frozen=True, slots=True)
class DropBlock:
    """The record at `place` is not what the index says."""

    address: bytes
    location: BlockLocation


@dataclass(frozen=True, slots=True)
class DropHead:
    """The head encoded as `raw` is damaged."""

    address: bytes
    raw: bytes


@dataclass(frozen=True, slots=True)
class ForgetObject:
    name: ObjectName
    address: bytes
    keep: Generation | None
    settle: Settled


@dataclass(frozen=True, slots=True)
class PurgePrefix:
    bucket: str
    prefix: str
    settle: Settled


@dataclass(frozen=True, slots=True)
class FlushQueue:
    settle: Settled


WriteOrder: TypeAlias = AdmitBlock | PutHead | DropBlock | DropHead | ForgetObject | PurgePrefix | FlushQueue
Removal: TypeAlias = ForgetObject | PurgePrefix


class WriteQueue:
    """The queue between those who serve and the writer. Safe to use from several threads."""

    def __init__(self, capacity: int, batch: int) -> None:
        self._capacity = capacity
        self._batch = batch
        self._orders: deque[WriteOrder] = deque()
        self._pending: Counter[bytes] = Counter()
        self._bytes = 0
        self._heads = 0
        self._awaited = False
        self._urgent = False
        self._closed = False
        self._changed = Condition()

    def offer(self, order: AdmitBlock | PutHead | DropBlock | DropHead) -> bool:
        """Give an order that nobody waits for; False if there is no room for it, or no writer any more."""
        with self._changed:
            size = len(order.buffer) + ORDER_OVERHEAD if isinstance(order, AdmitBlock) else 0
            full = self._bytes + size > self._capacity if size else self._heads >= MAX_HEADS
            if full or self._closed:
                return False
            self._bytes += size
            self._heads += not size
            self._orders.append(order)
            self._pending[order.address[:OBJECT_ADDRESS]] += 1
            if len(self._orders) == 1 or self._bytes >= self._batch:
                self._changed.notify()
            return True

    def submit(self, order: ForgetObject | PurgePrefix | FlushQueue) -> bool:
        """Give an order that somebody waits for; False if there is no writer any more."""
        with self._changed:
            if self._closed:
                return False
            self._orders.append(order)
            if isinstance(order, ForgetObject):
                self._pending[order.address] += 1
            self._awaited = True
            # Who waits for a flush waits for the admissions before it: to give those up would not serve it.
            self._urgent = self._urgent or not isinstance(order, FlushQueue)
            self._changed.notify()
            return True

    def has_pending(self, address: bytes) -> bool:
        """Whether an order for this object is under way."""
        with self._changed:
            return address in self._pending

    @property
    def is_urgent(self) -> bool:
        """Whether somebody waits for a removal that has not been taken yet, or for the end."""
        return self._urgent

    def get_batch(self, gather: float, idle: float) -> list[WriteOrder] | None:
        """All orders, once the first is `gather` seconds old, a batch has come together, or one is urgent.

        An empty list after `idle` seconds without any; None when the backlog was closed and all orders have been taken.
        """
        with self._changed:
            if not self._orders and not self._closed:
                self._changed.wait(idle)
            if self._orders and not self._ripe():
                self._changed.wait_for(self._ripe, gather)
            if not self._orders and self._closed:
                return None
            taken = list(self._orders)
            self._orders.clear()
            self._awaited = self._urgent = False
            return taken

    def settle(self, orders: list[WriteOrder], removed: Mapping[Removal, int]) -> None:
        """These orders are done: committed, or given up. `removed`: how many objects each removal has removed."""
        for start in range(0, len(orders), SETTLED_AT_ONCE):
            with self._changed:
                for order in orders[start : start + SETTLED_AT_ONCE]:
                    self._settle(order)
        for order in orders:
            if isinstance(order, ForgetObject | PurgePrefix):
                order.settle(removed.get(order, 0))
            elif isinstance(order, FlushQueue):
                order.settle(0)

    def wake(self) -> None:
        """Let the writer look around: a size has changed."""
        with self._changed:
            self._changed.notify()

    def close(self) -> None:
        """Take no more orders. Those that were given are still carried out."""
        with self._changed:
            self._closed = True
            self._awaited = self._urgent = True
            self._changed.notify()

    def _settle(self, order: WriteOrder) -> None:
        if isinstance(order, AdmitBlock):
            self._bytes -= len(order.buffer) + ORDER_OVERHEAD
        elif isinstance(order, PutHead | DropBlock | DropHead):
            self._heads -= 1
        if isinstance(order, AdmitBlock | PutHead | DropBlock | DropHead | ForgetObject):
            address = order.address[:OBJECT_ADDRESS]
            self._pending[address] -= 1
            if not self._pending[address]:
                del self._pending[address]

    def _ripe(self) -> bool:
        return self._awaited or self._bytes >= self._batch
