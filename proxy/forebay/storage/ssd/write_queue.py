"""The write queue: orders for the writer, bounded in bytes, in the order of their arrival.

Filled from any thread, drained by one. An admission or a head waits a moment, so that many are committed at once. An
order that somebody awaits is urgent, and everything before it is committed with it.

Invariants:
- orders are carried out in the order of their arrival, so a removal removes every head put before it;
- an object `has_pending` orders from the arrival of one until it is settled, which is after its commit: when nothing
  is pending, the index is complete;
- blocks never take more than `capacity` bytes, and there are never more than MAX_HEADS orders with a head. The rest is
  refused, not kept.
"""

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from threading import Condition, Lock
from typing import Final, NamedTuple, TypeAlias

from forebay.core.buffers import Buffer
from forebay.core.heads import Head, NamedHead
from forebay.core.names import Generation, ObjectName
from forebay.storage.ssd.segments.addressing import OBJECT_ADDRESS
from forebay.storage.ssd.segments.block_location import BlockLocation
from forebay.storage.ssd.segments.segment_label import PLAIN, SegmentLabel

MAX_HEADS: Final = 32768
ORDER_OVERHEAD: Final = 512  # what waits beside a small block's bytes: its order, its address, its buffer's own header
SETTLED_AT_ONCE: Final = 256  # under the lock, for which the event loop may be waiting

OnSettled: TypeAlias = Callable[[int], None]
"""Called from the writer's thread when an order is settled, with the number of objects that it removed."""


class AdmitBlock(NamedTuple):
    """Write a block, unless it is there, and then the head of its object, in place of an older one."""

    address: bytes
    buffer: Buffer
    label: SegmentLabel = PLAIN
    """The label of the segment that the block belongs in."""
    head: NamedHead | None = None
    """None: the block alone. A head is written also where the block is not."""


class PutHead(NamedTuple):
    """Write a head in place of an older one."""

    name: ObjectName
    address: bytes
    head: Head


@dataclass(frozen=True, slots=True)
class DropBlock:
    """Drop a block if it is still at `location`: its record does not verify."""

    address: bytes
    location: BlockLocation


@dataclass(frozen=True, slots=True)
class DropHead:
    """Drop the head encoded as `raw`: it is damaged."""

    address: bytes
    raw: bytes


@dataclass(frozen=True, slots=True)
class ForgetObject:
    """Remove the head and the blocks of an object, except those of the generation `keep`."""

    name: ObjectName
    address: bytes
    keep: Generation | None
    on_settled: OnSettled


@dataclass(frozen=True, slots=True)
class PurgePrefix:
    """Remove all objects that have a head and whose keys start with `prefix`."""

    bucket: str
    prefix: str
    on_settled: OnSettled


@dataclass(frozen=True, slots=True)
class FlushQueue:
    """Commit the orders before it."""

    on_settled: OnSettled


WriteOrder: TypeAlias = AdmitBlock | PutHead | DropBlock | DropHead | ForgetObject | PurgePrefix | FlushQueue
Removal: TypeAlias = ForgetObject | PurgePrefix
_OF_HEADS: Final = (PutHead, DropBlock, DropHead)
_AWAITED: Final = (ForgetObject, PurgePrefix, FlushQueue)


class WriteQueue:
    """The queue between the tier and its writer. Safe to use from several threads."""

    def __init__(self, capacity: int, batch: int) -> None:
        self._capacity = capacity
        self._batch = batch
        self._orders: deque[WriteOrder] = deque()
        self._pending: dict[bytes, int] = {}
        """Orders that are not settled, by the address of their object."""
        self._bytes = 0
        self._heads = 0
        self._is_awaited = False
        self._is_urgent = False
        self._is_closed = False
        self._lock = Lock()
        self._changed = Condition(self._lock)

    def offer(self, order: AdmitBlock | PutHead | DropBlock | DropHead) -> bool:
        """Queues an order without an awaiting caller. Returns False if there is no space for it, or no writer any
        more."""
        if isinstance(order, AdmitBlock):
            size, heads = len(order.buffer) + ORDER_OVERHEAD, order.head is not None
        else:
            size, heads = 0, True
        address = order.address[:OBJECT_ADDRESS]
        with self._lock:
            full = (size and self._bytes + size > self._capacity) or (heads and self._heads >= MAX_HEADS)
            if full or self._is_closed:
                return False
            self._bytes += size
            self._heads += heads
            self._orders.append(order)
            self._pending[address] = self._pending.get(address, 0) + 1
            if len(self._orders) == 1 or self._bytes >= self._batch:
                self._changed.notify()
            return True

    def submit(self, order: ForgetObject | PurgePrefix | FlushQueue) -> bool:
        """Queues an order with an awaiting caller. Returns False if there is no writer any more."""
        with self._lock:
            if self._is_closed:
                return False
            self._orders.append(order)
            if isinstance(order, ForgetObject):
                self._pending[order.address] = self._pending.get(order.address, 0) + 1
            self._is_awaited = True
            # A flush waits for the admissions before it: to give those up would not serve it.
            self._is_urgent = self._is_urgent or not isinstance(order, FlushQueue)
            self._changed.notify()
            return True

    def has_pending(self, address: bytes) -> bool:
        """Returns whether an order for this object is not settled."""
        with self._lock:
            return address in self._pending

    @property
    def is_urgent(self) -> bool:
        """Whether a queued removal, or the end, is awaited."""
        return self._is_urgent

    def get_batch(self, linger_seconds: float, idle_seconds: float) -> list[WriteOrder] | None:
        """Waits for orders and returns all: once the first is `linger_seconds` old, a batch is full, or one is awaited.

        Returns an empty list after `idle_seconds` without any; None when the queue is closed and empty.
        """
        with self._lock:
            if not self._orders and not self._is_closed:
                self._changed.wait(idle_seconds)
            if self._orders and not self._is_due():
                self._changed.wait_for(self._is_due, linger_seconds)
            if not self._orders and self._is_closed:
                return None
            orders = list(self._orders)
            self._orders.clear()
            self._is_awaited = self._is_urgent = False
            return orders

    def settle(self, orders: list[WriteOrder], removed: Mapping[Removal, int]) -> None:
        """Reports orders as committed, or given up. `removed`: the number of objects that each removal removed."""
        for start in range(0, len(orders), SETTLED_AT_ONCE):
            with self._lock:
                for order in orders[start : start + SETTLED_AT_ONCE]:
                    self._release(order)
        for order in orders:
            if isinstance(order, _AWAITED):
                order.on_settled(0 if isinstance(order, FlushQueue) else removed.get(order, 0))

    def wake(self) -> None:
        """Wakes the writer, as a size has changed."""
        with self._lock:
            self._changed.notify()

    def close(self) -> None:
        """Refuses further orders. Those that are queued are still carried out."""
        with self._lock:
            self._is_closed = True
            self._is_awaited = self._is_urgent = True
            self._changed.notify()

    def _release(self, order: WriteOrder) -> None:
        if isinstance(order, AdmitBlock):
            self._bytes -= len(order.buffer) + ORDER_OVERHEAD
            self._heads -= order.head is not None
        elif isinstance(order, _OF_HEADS):
            self._heads -= 1
        elif not isinstance(order, ForgetObject):
            return
        address = order.address[:OBJECT_ADDRESS]
        left = self._pending[address] - 1
        if left:
            self._pending[address] = left
        else:
            del self._pending[address]

    def _is_due(self) -> bool:
        return self._is_awaited or self._bytes >= self._batch
