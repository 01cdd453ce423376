"""The admissions of a batch that are written: of new blocks, for which their pools and the disk have room.

    offered ──> not in the index ──> room in the pool, or pinned ──> a batch's share of the tier ──> space, by reclaim
                                       │ else AdmissionRefused          │ else AdmissionThrottled      │ likewise

Used by the writer's thread.
"""

from forebay.core.events import AdmissionRefused, AdmissionThrottled, Observe
from forebay.storage.ssd.reclaim.reclaim_turns import ReclaimTurns
from forebay.storage.ssd.reclaim.ssd_pins import SsdPins
from forebay.storage.ssd.reclaim.ssd_pools import SsdPools
from forebay.storage.ssd.recovery import OpenDirectory
from forebay.storage.ssd.segments.block_location import BlockLocation
from forebay.storage.ssd.segments.record import record_size
from forebay.storage.ssd.segments.segment_label import PLAIN
from forebay.storage.ssd.space_refresh import SpaceRefresh
from forebay.storage.ssd.write_queue import AdmitBlock, DropBlock, WriteOrder


class AdmissionSelection:
    """The selection of one open directory."""

    def __init__(
        self,
        opened: OpenDirectory,
        pools: SsdPools,
        pins: SsdPins,
        turns: ReclaimTurns,
        refresh: SpaceRefresh,
        observe: Observe,
    ) -> None:
        self._index = opened.index
        self._space = opened.space
        self._pools = pools
        self._pins = pins
        self._turns = turns
        self._refresh = refresh
        self._observe = observe

    def select(self, orders: list[WriteOrder]) -> list[AdmitBlock]:
        """Returns the admissions that are to be written: of blocks that are not there, as far as there is space. A
        block that is dropped in the same batch is not there: it was damaged, and the admission replaces it."""
        offered: dict[bytes, AdmitBlock] = {}
        dropped: set[tuple[bytes, BlockLocation]] = set()
        for order in orders:
            if isinstance(order, AdmitBlock):
                offered[order.address] = order
            elif isinstance(order, DropBlock):
                dropped.add((order.address, order.location))
        if not offered:
            return []
        present = self._index.locations(list(offered))
        selected = [
            order
            for order, location in zip(offered.values(), present, strict=True)
            if location is None or (order.address, location) in dropped
        ]
        selected = self._belonging(selected)
        # A batch must not turn over a large share of a tiny tier: the rest would only displace the first of it.
        size, share = 0, self._space.largest_record
        for nth, order in enumerate(selected):
            after = size + record_size(len(order.buffer))
            if after > share:
                self._throttle(selected[nth:])
                selected = selected[:nth]
                break
            size = after
        self._turns.reclaim_until(lambda: self._space.has_space_for(size), is_full=True)
        if self._space.has_space_for(size):
            return selected
        self._throttle(selected)
        return []

    def _belonging(self, admissions: list[AdmitBlock]) -> list[AdmitBlock]:
        """Returns the admissions for which their pools have room: more of them were queued than was known then."""
        labels = {order.label for order in admissions}
        if labels <= {PLAIN}:
            return admissions
        has_pinned = any(label.is_pinned for label in labels)
        if (has_pinned and self._pins.is_near_quota) or any(map(self._pools.is_marginal, labels)):
            self._refresh.reread_sizes()
        self._pools.measure()
        self._turns.reclaim_until(lambda: not self._pools.is_over_quota(), is_full=False)
        planned: dict[bytes, int] = {}
        pinned = 0
        belonging: list[AdmitBlock] = []
        for order in admissions:
            size, before = record_size(len(order.buffer)), planned.get(order.label.pool, 0)
            if order.label.is_pinned:
                has_room = self._pins.is_current(order.label) and self._pins.room_for(order.label, size, pinned)
                pinned += size if has_room else 0
                belonging.append(order if has_room else order._replace(label=PLAIN))
                continue
            if self._pools.has_room_for(order.label, size, before):
                planned[order.label.pool] = before + size
                belonging.append(order)
            else:
                self._observe(AdmissionRefused("ssd", len(order.buffer)))
        return belonging

    def _throttle(self, orders: list[AdmitBlock]) -> None:
        for order in orders:
            self._observe(AdmissionThrottled("ssd", len(order.buffer)))
