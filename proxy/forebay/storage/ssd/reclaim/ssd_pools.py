"""The pools of the SSD tier: the space of each, the admission of its blocks, and the order in which segments are
reclaimed.

    event loop       label a block ──> does its pool admit it? ──no──> not even queued: memory may have it
    writer's thread  there is room for the batch? ──> append, by label
                     over the quota, or tier full ──> the pool that gives way drops its marginal band by segments
                                                  ──> reclaim deletes them, and those above, without a copy

A segment holds blocks of one pool and one band (segment_label.py). So nothing is copied when a share shrinks, and the
bytes of a pool are those of its segments. Pinned segments (ssd_pins.py) belong to no pool, and go last.

Several processes share the directory. Thresholds are rows of the index, read with the sizes of segments; only a process
that holds the reclaim lock changes them. Each process judges by what it has measured last, so the marginal band of a
pool stops a little below the size at which reclaim would take it again.

`label_of`, `admits` and `stats` are called from the event loop. All else belongs to the writer's thread. State that
both use consists of single attributes and dictionary entries.
"""

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from forebay.core.names import BlockId
from forebay.policy.pools import Pool, Population, giving_way, is_idle, may_take
from forebay.policy.stable_share import REFUSALS, band_of, block_priority, risen_band
from forebay.storage.ssd.index.index import Index
from forebay.storage.ssd.index.index_updates import IndexUpdates
from forebay.storage.ssd.reclaim.ssd_pins import SsdPins
from forebay.storage.ssd.reclaim.ssd_pool import SsdPool
from forebay.storage.ssd.segments.segment_label import (
    FINENESS,
    LRU_BAND,
    NO_POOL,
    PINNED_BAND,
    PLAIN,
    SegmentLabel,
    pool_id,
)
from forebay.storage.ssd.segments.space_accounting import SpaceAccounting

QUOTA_MARGIN: Final = 128
"""A quota is filled up to one part in so many: other processes may be writing."""
MARGIN: Final = 4
"""The marginal band stops below the lasting capacity, by one in so many of a segment's bytes: the index's size is not
constant."""
ROOM_SHARE: Final = 128
"""A threshold rises if there is room for one in so many of the pool's bytes."""
QUOTA_EXCESS: Final = 16
"""A pool may be beyond its quota by one in so many bytes, for the moment that its own blocks take to go."""
SAMPLED_SEGMENTS: Final = 4
"""Segments of a pool in a check for reads."""
DEAD_SHARE: Final = 8
"""A segment is compacted once one in so many of its bytes is dead."""


class PoolBytes(NamedTuple):
    """The bytes of a pool in a tier."""

    name: str
    """Empty: the objects without a pool."""
    used: int


class SegmentVictim(NamedTuple):
    """A segment that is to go."""

    number: int
    is_compacted: bool = False
    """Whether its live blocks stay, and only its dead bytes are freed. Else its blocks of a stable share go with it."""


class SsdPools:
    """All pools of one directory."""

    def __init__(
        self,
        index: Index,
        space: SpaceAccounting,
        pins: SsdPins,
        clock: Callable[[], float],
        was_read: Callable[[list[int]], bool] = lambda _: False,
    ) -> None:
        """`clock`: seconds. `was_read`: returns whether blocks of some segments were read since it was called last."""
        self._index = index
        self._space = space
        self._pins = pins
        self._clock = clock
        self._was_read = was_read
        self._plain = SsdPool(Pool("", "lru", None), NO_POOL, clock())
        self._plain.is_recorded = True
        self._pools: dict[bytes, SsdPool] = {NO_POOL: self._plain}
        self._ids: dict[tuple[str, bool], bytes] = {}
        self.awaits_others = False
        """Whether the segments that go next are written by other processes, which end them once they read the
        threshold. Until then no threshold is lowered any further."""
        self.read_rows()

    # For the event loop

    def label_of(self, block: BlockId, address: bytes, wanted: Pool) -> SegmentLabel:
        """Returns the label of the segment that a block of a pool belongs in. `address`: of its object."""
        pool = self._pool_of(wanted)
        if not pool.is_epoch:
            return SegmentLabel(pool.id, LRU_BAND)
        priority = block_priority(int.from_bytes(address[:8], "big"), block.number)
        return SegmentLabel(pool.id, band_of(priority, FINENESS))

    def admits(self, label: SegmentLabel, size: int) -> bool:
        """Returns whether a block of `size` bytes, which was read, is admitted by the latest measurements."""
        if label is PLAIN:  # nearly all are, and all of these are admitted
            self._plain.last_read = self._clock()
            return True
        if label.is_pinned:
            return True
        pool = self._pools[label.pool]
        pool.last_read = self._clock()
        is_admitted = self._is_admitted(pool, label.band, size, 0)
        if not is_admitted:
            pool.refusals += 1
        elif label.band > pool.band:
            pool.refusals = 0
        return is_admitted

    def stats(self) -> list[PoolBytes]:
        """Returns the bytes of each pool."""
        return [PoolBytes(pool.pool.name, pool.used) for pool in self._all()]

    def _pool_of(self, wanted: Pool) -> SsdPool:
        number = self._ids.get((wanted.name, wanted.eviction == "epoch"))
        if number is None:
            number = pool_id(wanted.name, is_epoch=wanted.eviction == "epoch")
            self._ids[wanted.name, wanted.eviction == "epoch"] = number
        pool = self._pools.get(number)
        if pool is None:
            pool = self._pools[number] = SsdPool(wanted, number, self._clock())
        pool.pool = wanted
        return pool

    def _all(self) -> list[SsdPool]:
        return list(self._pools.values())

    # Admission

    def measure(self) -> None:
        """Takes the bytes of all pools from the space accounting."""
        used: dict[bytes, int] = {}
        for label, size in list(self._space.live.items()):
            if not self._pins.is_current(label):
                number = NO_POOL if label.is_pinned else label.pool
                used[number] = used.get(number, 0) + size
        self._pins.measure()
        for pool in self._all():
            pool.used = used.get(pool.id, 0)

    def has_room_for(self, label: SegmentLabel, size: int, planned: int) -> bool:
        """Returns whether a block is written, by a new measurement. `planned`: bytes of the batch before it."""
        pool = self._pools.get(label.pool)
        if pool is None:
            return True
        quota = pool.pool.quota
        if quota is not None and pool.used > quota + quota // QUOTA_EXCESS:
            return False
        return self._is_admitted(pool, label.band, size, planned)

    def is_marginal(self, label: SegmentLabel) -> bool:
        """Returns whether there may be no room for blocks with a label."""
        pool = self._pools.get(label.pool)
        return pool is not None and pool.is_epoch and label.band == pool.band

    def _is_admitted(self, pool: SsdPool, band: int, size: int, planned: int) -> bool:
        if pool.admits_all:
            return pool.pool.quota is None or size <= pool.pool.quota
        if band != pool.band:
            return band > pool.band
        return self._room(pool, size + planned) >= size + planned

    def _room(self, pool: SsdPool, needed: int) -> int:
        """Returns the bytes that a pool may take beside those below its threshold. `needed`: as many are enough."""
        space, now = self._space, self._clock()
        room = space.lasting_capacity - space.segment_size // MARGIN - space.used
        if room < needed and (giving := self._population_to_reclaim()) is not None and may_take(pool, giving, now):
            room = max(room, giving.used if is_idle(giving, now) else giving.used // 4)
        quota = pool.pool.quota
        return room if quota is None else min(room, quota - quota // QUOTA_MARGIN - pool.used)

    def _population_to_reclaim(self) -> Population | None:
        return giving_way(self._all(), self._clock())

    # Thresholds

    def read_rows(self) -> None:
        """Takes pools and thresholds from the index."""
        for number, row in self._index.pools().items():
            pool = self._pools.get(number)
            if pool is None:
                known = Pool(row.name, "epoch" if row.is_epoch else "lru", None)
                pool = self._pools[number] = SsdPool(known, number, self._clock())
            pool.band, pool.is_recorded = row.threshold, True

    def record_new(self) -> None:
        """Writes the rows of pools that have none. Raises lmdb.Error."""
        for pool in self._all():
            if not pool.is_recorded:
                self._record(pool)

    def may_rise(self) -> bool:
        """Returns whether a threshold rises if there is room."""
        return any(pool.band > 0 and pool.refusals >= REFUSALS for pool in self._all())

    def raise_thresholds(self) -> bool:
        """Raises the threshold of each pool that has room for more. Returns whether there was one.

        All of the space is offered to a share that is alone: it is full an epoch after the tier has grown. Of several
        each gets a part, as the others may be about to rise as well."""
        risen = False
        shares = sum(pool.is_epoch and pool.used > 0 for pool in self._all())
        for pool in self._all():
            if pool.band > 0 and pool.refusals >= REFUSALS:
                enough = max(self._space.segment_size, pool.used // ROOM_SHARE)
                room = self._room(pool, enough)
                if room >= enough:
                    pool.band, pool.refusals = risen_band(pool.band, FINENESS, pool.used, room // max(1, shares)), 0
                    self._record(pool)
                    risen = True
        return risen

    def _record(self, pool: SsdPool) -> None:
        with self._index.write_transaction() as txn:
            IndexUpdates(txn, self._index.tables).put_pool(pool.id, pool.row)
        pool.is_recorded = True

    # Reclaim

    def is_epoch(self, label: SegmentLabel) -> bool:
        """Returns whether a label's blocks are part of a stable share."""
        return label.band < PINNED_BAND

    def is_above(self, label: SegmentLabel) -> bool:
        """Returns whether a label's blocks are above the threshold of their pool."""
        pool = self._pools.get(label.pool)
        return pool is not None and pool.is_epoch and label.band < pool.band

    def is_over_quota(self) -> bool:
        """Returns whether a pool is beyond its quota and can shrink."""
        return any(map(self._is_over, self._all()))

    def has_excess(self) -> bool:
        """Returns whether there is something to reclaim however full the tier is: a pool beyond its quota, a segment
        above a threshold, or, where marginal blocks need the space, one with many dead bytes."""
        live = list(self._space.live.items())
        is_any_above = any(size > 0 and self.is_above(label) for label, size in live)
        return is_any_above or self.is_over_quota() or self._compactable() is not None

    def victims(self, is_written: Callable[[int], bool], *, is_full: bool) -> Iterator[SegmentVictim]:
        """Yields segments in the order in which they are to go. `is_full`: also those of pools within their quotas.

        Lowers a threshold where that is what comes next. `is_written`: whether another process appends to a segment.
        Raises lmdb.Error.
        """
        self.awaits_others = False
        segments = self._space.labelled()
        for label, numbers in segments.items():
            if self.is_above(label):
                yield from map(SegmentVictim, numbers)
        for pool in self._all():
            if self._is_over(pool):
                yield from map(SegmentVictim, self._shrink(pool, is_written))
        if (compactable := self._compactable(is_full=is_full)) is not None:
            yield SegmentVictim(compactable, is_compacted=True)
        if is_full:
            yield from map(SegmentVictim, self._giving_segments(is_written))

    def _giving_segments(self, is_written: Callable[[int], bool]) -> Iterator[int]:
        if self._pins.is_over_share:
            yield from self._pinned_segments()
        giving = self._giving_really()
        if giving is not None:
            yield from self._shrink(giving, is_written)
        if giving is not self._plain and not self.awaits_others:
            yield from self._shrink(self._plain, is_written)
        if self._pins.is_exceeded:
            yield from self._pinned_segments()

    def _compactable(self, *, is_full: bool = False) -> int | None:
        space = self._space
        is_full = is_full or space.used + 2 * space.segment_size >= space.lasting_capacity
        number = space.most_dead() if is_full else None
        if number is None or space.dead_in(number) * DEAD_SHARE < space.size_of(number):
            return None
        return number

    def _is_over(self, pool: SsdPool) -> bool:
        quota = pool.pool.quota
        return quota is not None and pool.used > 0 and pool.used > quota

    def _giving_really(self) -> SsdPool | None:
        """Returns the pool that gives way. One that seems idle may be hit all the time, so the reference bits of its
        segments are checked."""
        for _ in self._pools:
            giving = giving_way(self._all(), self._clock())
            if giving is None or not is_idle(giving, self._clock()):
                return giving
            # The last ones to go, so that the same ones are looked at each time.
            latest = sorted(self._segments_of(giving), key=lambda number: (self._space.label_of(number).band, number))
            if not self._was_read(latest[-SAMPLED_SEGMENTS:]):
                return giving
            giving.last_read = self._clock()
        return giving_way(self._all(), self._clock())

    def _segments_of(self, pool: SsdPool) -> list[int]:
        labelled = self._space.labelled()
        if pool is self._plain:  # with what was unpinned
            others = {
                number for label, numbers in labelled.items() for number in numbers
                if not label.is_pinned or self._pins.is_current(label)
            }  # fmt: skip
            return [number for number in self._space.segments() if number not in others]
        return sorted(
            number for label, numbers in labelled.items() if label.pool == pool.id
            for number in numbers
        )  # fmt: skip

    def _pinned_segments(self) -> list[int]:
        labelled = self._space.labelled()
        current = (numbers for label, numbers in labelled.items() if self._pins.is_current(label))
        return sorted(number for numbers in current for number in numbers)

    def _shrink(self, pool: SsdPool, is_written: Callable[[int], bool]) -> Iterator[int]:
        if not pool.is_epoch:
            yield from self._segments_of(pool)
            return
        by_band: dict[int, list[int]] = {}
        for number in self._segments_of(pool):
            by_band.setdefault(self._space.label_of(number).band, []).append(number)
        for band in sorted(by_band):
            if any(map(is_written, [number for above in range(pool.band) for number in by_band.get(above, ())])):
                self.awaits_others = True
                return
            self._lower(pool, band)
            yield from by_band[band]
            self._lower(pool, band + 1)  # other processes are writing what is left of it, and end it now

    def _lower(self, pool: SsdPool, band: int) -> None:
        if band > pool.band:
            pool.band = band
            self._record(pool)
