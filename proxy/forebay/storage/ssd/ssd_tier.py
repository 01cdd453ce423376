"""The SSD tier: blocks and heads that survive a restart.

Its promises are in forebay.storage.tier_contract; the modules beside this one keep them:

    tier ─┬─ block reader: index, segments, records   on the event loop, or in threads where the disk must be waited for
          └─ write queue ─> writer: appender, index updates, reclaim ... one thread, which alone changes anything

Nothing here raises once the tier is open: a failure is a miss and an event. Events come from several threads.

An admitted block is found once its batch is committed, some 200 ms later at most; the memory tier covers the gap.
"""

import asyncio
import contextlib
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Thread
from typing import Final, Self, TypeVar

from forebay.core.buffers import Buffer
from forebay.core.byte_ranges import Span
from forebay.core.errors import SsdUnusable
from forebay.core.events import AdmissionRefused, AdmissionThrottled, Observe, TierFailed, unobserved
from forebay.core.heads import Head, NamedHead
from forebay.core.names import BlockId, Generation, ObjectName
from forebay.policy.pins import NO_PINS, PinSet
from forebay.policy.pools import Pool
from forebay.storage.cache_origin import CacheOrigins
from forebay.storage.run_record import NodeRun
from forebay.storage.ssd.block_reads import BlockReader
from forebay.storage.ssd.head_reads import HeadReader
from forebay.storage.ssd.index.index import DAMAGE, INDEX_ERRORS
from forebay.storage.ssd.index.stored_objects import StoredObject, StoredObjects
from forebay.storage.ssd.reclaim.ssd_pins import SsdPins
from forebay.storage.ssd.reclaim.ssd_pools import PoolBytes, SsdPools
from forebay.storage.ssd.recovery import (
    OpenDirectory,
    SsdOptions,
    abandon_directory,
    close_directory,
    open_directory,
)
from forebay.storage.ssd.segments.addressing import GENERATION
from forebay.storage.ssd.segments.record import MAX_LENGTH, record_size
from forebay.storage.ssd.segments.segment_label import PLAIN
from forebay.storage.ssd.segments.segment_use import SegmentUse
from forebay.storage.ssd.segments.space_accounting import BLOCK_SHARE, DiskSpace
from forebay.storage.ssd.segments.verified_extents import VerifiedExtent
from forebay.storage.ssd.ssd_writer import SsdWriter
from forebay.storage.ssd.write_queue import (
    AdmitBlock,
    FlushQueue,
    ForgetObject,
    OnSettled,
    PurgePrefix,
    PutHead,
    WriteQueue,
)
from forebay.storage.tier_contract import MISS, Busy, Miss, Occupancy

READING_THREADS: Final = 4
SETTLE_ROUNDS: Final = 100
_T = TypeVar("_T")


class SsdTier:
    """A cache of blocks and heads in a directory. Made by `open`, ended by `close`."""

    def __init__(
        self, opened: OpenDirectory, observe: Observe, options: SsdOptions, clock: Callable[[], float], pins: PinSet
    ) -> None:
        self.doubt = opened.doubt
        """Why the heads that this process found are not trusted; None if they are."""
        self._opened = opened
        self._observe = observe
        self._index = opened.index
        self._references = opened.references
        self._addressing = opened.addressing
        self._space = opened.space
        self._space.segment_floor = options.segment_floor
        self._queue = WriteQueue(options.queue_bytes, options.batch_bytes)
        self._blocks = BlockReader(opened, self._queue, observe, clock)
        self._stored = StoredObjects(opened.index, opened.addressing)
        self._heads = HeadReader(opened, self._queue, observe, self._blocks.report_failure)
        use = SegmentUse(opened.segments, opened.references)
        self._pins = SsdPins(opened.addressing, opened.space, pins)
        self._pools = SsdPools(opened.index, opened.space, self._pins, clock, use.was_read)
        self._writer = SsdWriter(opened, self._queue, self._pools, self._pins, observe)
        self._is_closed = False
        self._pool = ThreadPoolExecutor(READING_THREADS, thread_name_prefix="forebay-ssd-read")
        self._thread = Thread(target=self._writer.run, name="forebay-ssd-write", daemon=True)
        self._thread.start()

    @classmethod
    def open(
        cls,
        path: Path,
        capacity: int,
        origins: CacheOrigins,
        run: NodeRun,
        observe: Observe = unobserved,
        *,
        family: str | None = None,
        options: SsdOptions | None = None,
        clock: Callable[[], float] = time.time,
        pins: PinSet = NO_PINS,
    ) -> Self:
        """Opens the directory with its content of these origins. Takes milliseconds, however much that is.

        `run` decides whether the heads in it are trusted. `family` names the processes that share the directory; None
        if this one has it to itself. `clock`: seconds since the epoch, as the kernel's. `pins`: before anything is
        reclaimed. Raises SsdUnusable if the directory can't be used at all; if its index is damaged, that is rebuilt.
        """
        opened = open_directory(path, capacity, origins, clock, observe, run, family=family)
        try:
            return cls(opened, observe, options or SsdOptions(), clock, pins)
        except INDEX_ERRORS as error:
            if isinstance(error, DAMAGE):
                opened.references.suspect()
            abandon_directory(opened)
            raise SsdUnusable(f"{path}: {error}") from error

    # Heads

    def head(self, name: ObjectName) -> Head | None:
        """Returns the head of an object, as never validated if its validation is not trusted. A few microseconds; a
        damaged one is dropped."""
        return None if self.is_off else self._heads.read(name)

    def put_head(self, name: ObjectName, head: Head) -> None:
        """Keeps a head in place of an older one. If it is lost (a crash, a full disk) the older one is still there: a
        caller that finds a changed version calls `forget` first."""
        order = PutHead(name, self._addressing.object_address(name), head)
        if not self.is_off and not self._queue.offer(order):
            self._observe(AdmissionThrottled("ssd", 0))

    # Blocks

    def has(self, block: BlockId) -> bool:
        """Returns whether the block is in the index. Not a use."""
        if self.is_off:
            return False
        try:
            return self._index.location(self._addressing.block_address(block)) is not None
        except INDEX_ERRORS as error:
            self._blocks.report_failure("has", error)
            return False

    def admit(self, block: BlockId, buffer: Buffer, pool: Pool | None = None, head: Head | None = None) -> bool:
        """Queues a block, whole, to be written, and the head of its object with it, if one is passed. Returns False if
        it is refused: it is large for the tier, not part of what its pool keeps, the queue is full, or the tier pauses
        after a failure. Then the head is not put either."""
        size = len(buffer)
        if self.is_off or not 0 < size <= MAX_LENGTH or len(block.generation) != GENERATION:
            return False
        record = record_size(size)
        if record > self._space.largest_record:
            if record <= self._space.capacity // BLOCK_SHARE:  # so it is for the file system
                self._observe(TierFailed("ssd", "write", "the file system has no space left for a block"))
            self._observe(AdmissionThrottled("ssd", size))
            return False
        address = self._addressing.block_address(block)
        pinned = self._pins.label_for(block.object, record)
        label = pinned or (PLAIN if pool is None else self._pools.label_of(block, address, pool))
        if not self._pools.admits(label, record):
            self._observe(AdmissionRefused("ssd", size))
            return False
        order = AdmitBlock(address, buffer, label, NamedHead(block.object, head) if head is not None else None)
        if not self._writer.is_paused and self._queue.offer(order):
            return True
        self._observe(AdmissionThrottled("ssd", size))
        return False

    def read_nowait(self, block: BlockId, length: int, within: Span) -> Buffer | Miss | Busy:
        """Reads bytes `within` a block of `length` bytes, if the page cache has them."""
        return MISS if self.is_off else self._blocks.read(block, length, within, wait=False)

    def verify_nowait(self, block: BlockId, length: int, within: Span, *, read: bool) -> VerifiedExtent | Miss | Busy:
        """Verifies bytes `within` a block of `length` bytes in place, without waiting. Unless `read`, nothing is read,
        and bytes that were not verified recently are Busy."""
        return MISS if self.is_off else self._blocks.verify(block, length, within, read=read)

    async def read(self, block: BlockId, length: int, within: Span) -> Buffer | None:
        """Reads bytes `within` a block of `length` bytes, from the disk if need be."""
        if self.is_off:
            return None
        found = await self._in_thread(lambda: self._blocks.read(block, length, within, wait=True))
        return found if isinstance(found, memoryview) else None

    # Removal

    async def forget(self, name: ObjectName, keep: Generation | None = None) -> None:
        """Removes the head and the blocks of an object, except the blocks of the generation `keep` (bytes that were
        staged for the version that is about to become current).

        When this returns, no process returns any of it, also after a crash, and no head that was put before comes back.
        Costs microseconds if nothing of the object is known. Carried out also if it is cancelled.
        """
        if self.is_off:
            return
        address = self._addressing.object_address(name)
        try:
            # In this order: what is no longer pending has been committed, so it is in the index.
            known = self._queue.has_pending(address) or self._index.has_object(address)
        except INDEX_ERRORS as error:
            self._blocks.report_failure("forget", error)
            known = True
        if known:
            await self._submit(lambda on_settled: ForgetObject(name, address, keep, on_settled))

    async def forget_bucket(self, bucket: str) -> None:
        """Forgets every object of a bucket that has a head."""
        await self.purge(bucket, "")

    async def purge(self, bucket: str, prefix: str) -> int:
        """Forgets every object that has a head and whose key starts with `prefix`, and returns their number.

        Blocks without a head, which nothing leads to, are left to reclaim.
        """
        return 0 if self.is_off else await self._submit(lambda on_settled: PurgePrefix(bucket, prefix, on_settled))

    async def flush(self) -> None:
        """Waits until everything admitted, put or forgotten before is committed (or was given up, with an event)."""
        if not self.is_off:
            await self._submit(FlushQueue)

    async def settle(self) -> None:
        """Waits until reclaim, which goes on after a flush, has nothing more to do. Gives up after a while, because
        other admissions may keep it busy."""
        for _ in range(SETTLE_ROUNDS):
            await self.flush()  # a step of reclaim follows each batch
            if not (self._space.is_reclaim_due or self._pools.has_excess()):
                break

    # Size, listings, end

    @property
    def lasting_capacity(self) -> int:
        """Bytes of recent admissions that the tier keeps: less than its capacity, as reclaim needs space."""
        return self._space.lasting_capacity

    def resize(self, capacity: int) -> None:
        """Changes the capacity. The excess is reclaimed in the background."""
        self._space.capacity = capacity
        self._queue.wake()

    def occupancy(self) -> Occupancy:
        """Returns how full the tier is."""
        blocks = heads = 0
        if not self.is_off:
            try:
                blocks, heads = self._index.count()
            except INDEX_ERRORS as error:
                self._blocks.report_failure("occupancy", error)
        return Occupancy(self._space.capacity, self._space.used, blocks, heads)

    def pools(self) -> list[PoolBytes]:
        """Returns the bytes of each pool; of the objects without one under an empty name."""
        return self._pools.stats()

    @property
    def pins(self) -> SsdPins:
        """The pins, and their space."""
        return self._pins

    def use_pins(self, pins: PinSet) -> None:
        """Replaces all pins. Cached blocks of new pins are gathered in the background."""
        self._pins.use(pins)
        self._queue.wake()

    async def cached_bytes(self, name: ObjectName, head: Head) -> int:
        """Returns the bytes of the blocks that `head` names."""
        prefix = self._addressing.object_address(name) + head.generation
        return await self._in_thread(lambda: self._index.generation_bytes(prefix)) or 0

    async def listing(self, bucket: str, prefix: str, after: bytes = b"", limit: int = 1000) -> list[StoredObject]:
        """Returns objects that have a head and whose keys start with `prefix`, in the byte order of their keys, beyond
        the cursor `after`. Looks at `limit` names at most at a time; the list is empty only at the end."""
        stored = self._stored
        return await self._in_thread(lambda: stored.listing(bucket, prefix, after, limit)) or []

    async def close(self) -> None:
        """Writes the queue, and closes the directory. Nothing is found from now on."""
        if not self._is_closed:
            self._is_closed = True
            await asyncio.to_thread(self._end)

    def _end(self) -> None:
        self._queue.close()
        self._thread.join()
        self._pool.shutdown()
        try:
            close_directory(self._opened)
        except (OSError, *INDEX_ERRORS) as error:
            self._observe(TierFailed("ssd", "close", str(error)))

    @property
    def is_off(self) -> bool:
        """Whether nothing is read or kept any more: the tier is closed, or its content was disowned or is damaged."""
        return self._is_closed or self._references.is_disowned

    @property
    def disk(self) -> DiskSpace:
        """The space of the file system, measured within the last second or so."""
        return self._space.disk

    @property
    def usable(self) -> int:
        """Bytes that the tier can use: its capacity, or less where the file system has less room."""
        return self._space.limit

    async def _in_thread(self, act: Callable[[], _T]) -> _T | None:
        """Returns the result of a call that may wait for the disk; None if it fails, or the tier is off."""
        if self.is_off:
            return None
        try:
            return await asyncio.get_running_loop().run_in_executor(self._pool, act)
        except (OSError, *INDEX_ERRORS) as error:
            self._blocks.report_failure("read", error)
            return None

    async def _submit(self, order: Callable[[OnSettled], ForgetObject | PurgePrefix | FlushQueue]) -> int:
        """Queues an order, waits until it is settled, and returns the number of objects that it removed."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[int] = loop.create_future()

        def on_settled(count: int) -> None:
            with contextlib.suppress(RuntimeError):  # the loop was closed, nobody waits any more
                loop.call_soon_threadsafe(_resolve, done, count)

        return await done if self._queue.submit(order(on_settled)) else 0


def _resolve(done: asyncio.Future[int], count: int) -> None:
    if not done.done():
        done.set_result(count)
