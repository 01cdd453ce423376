"""The SSD tier: blocks and heads that survive a restart.

What it promises is in forebay.storage.tier_contract, how it keeps it in the modules beside this one:

    tier ─┬─ blocks: index, segments, reading  on the event loop, or in threads where the disk must be waited for
          └─ backlog ─> writer: appender, changes, reclaim ......... one thread, which alone changes anything

Nothing here raises once the tier is open: a failure is a miss and an event. Events come from several threads.

What is admitted is found once its batch is committed, at the latest some 50 ms later; the memory tier covers the gap.
"""

import asyncio
import contextlib
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Thread
from typing import Final, NamedTuple, Self, TypeVar

import lmdb

from forebay.core.buffers import Buffer
from forebay.core.byte_ranges import Span
from forebay.core.events import AdmissionThrottled, CorruptionFound, Observe, TierFailed, unobserved
from forebay.core.heads import Head
from forebay.core.names import BlockId, Generation, ObjectName
from forebay.storage.ssd.addressing import GENERATION, listing_prefix
from forebay.storage.ssd.block_reads import BlockReader
from forebay.storage.ssd.head_codec import decode_head
from forebay.storage.ssd.record import MAX_LENGTH, record_size
from forebay.storage.ssd.record_reads import MISS, Busy, Miss
from forebay.storage.ssd.recovery import OpenDirectory, SsdOptions, close_directory, open_directory
from forebay.storage.ssd.ssd_directory import SsdUnusable
from forebay.storage.ssd.ssd_writer import SsdWriter
from forebay.storage.ssd.verified_blocks import VerifiedExtent
from forebay.storage.ssd.write_queue import (
    AdmitBlock,
    DropHead,
    FlushQueue,
    ForgetObject,
    PurgePrefix,
    PutHead,
    Settled,
    WriteQueue,
)
from forebay.storage.tier_contract import Occupancy

__all__ = ["Busy", "ListedObject", "Miss", "SsdOptions", "SsdTier", "SsdUnusable"]

READING_THREADS: Final = 4
_T = TypeVar("_T")


class ListedObject(NamedTuple):
    """An object in the tier, for `ls`."""

    name: ObjectName
    head: Head
    cached: int
    """Bytes of the head's generation that are held."""
    cursor: bytes
    """Where a listing goes on after this one."""


class SsdTier:
    """See the module. Made by `open`, ended by `close`."""

    def __init__(
        self, opened: OpenDirectory, observe: Observe, options: SsdOptions, clock: Callable[[], float]
    ) -> None:
        self.trusted_from = opened.trusted_from
        """Heads validated before this time (seconds since the epoch) must be revalidated before they are believed."""
        self._opened = opened
        self._observe = observe
        self._index = opened.index
        self._touched = opened.references
        self._addressing = opened.addressing
        self._space = opened.space
        self._backlog = WriteQueue(options.queue_bytes, options.batch_bytes)
        self._blocks = BlockReader(opened, self._backlog, observe, clock)
        self._writer = SsdWriter(opened, self._backlog, observe, options.steady_seconds)
        self._closed = False
        self._pool = ThreadPoolExecutor(READING_THREADS, thread_name_prefix="forebay-ssd-read")
        self._thread = Thread(target=self._writer.run, name="forebay-ssd-write", daemon=True)
        self._thread.start()

    @classmethod
    def open(
        cls,
        path: Path,
        capacity: int,
        origin_id: str,
        now: float,
        observe: Observe = unobserved,
        *,
        family: str | None = None,
        options: SsdOptions | None = None,
        clock: Callable[[], float] = time.time,
    ) -> Self:
        """Open the directory, with whatever it holds of this origin. Takes milliseconds, however much that is.

        `family` names the processes that share the directory, None if this one has it to itself. SsdUnusable if
        it can't be used at all; damage is no reason, it begins with an empty one then. `clock`: seconds since the
        epoch, as the kernel's; what checks are dated by.
        """
        chosen = options or SsdOptions()
        return cls(open_directory(path, capacity, origin_id, now, observe, family=family), observe, chosen, clock)

    # Heads

    def head(self, name: ObjectName) -> Head | None:
        """The head of an object. A few microseconds; a damaged one is dropped."""
        if self._off:
            return None
        address = self._addressing.object_address(name)
        try:
            raw = self._index.head(address)
        except lmdb.Error as error:
            self._blocks.report_failure("head", error)
            return None
        if raw is None:
            return None
        named = decode_head(raw)
        if named is None or named.name != name:
            self._observe(CorruptionFound("ssd", "damaged head"))
            self._backlog.offer(DropHead(address, raw))
            return None
        self._touched.mark(address)
        return named.head

    def put_head(self, name: ObjectName, head: Head) -> None:
        """Keep a head in place of an older one. If it is lost (a crash, a full disk) the older one is still there:
        who finds that the version has changed calls `forget` first."""
        if not self._off and not self._backlog.offer(PutHead(name, self._addressing.object_address(name), head)):
            self._observe(AdmissionThrottled("ssd", 0))

    # Blocks

    def has(self, block: BlockId) -> bool:
        """Whether the block is in the index. Not a use."""
        if self._off:
            return False
        try:
            return self._index.location(self._addressing.block_address(block)) is not None
        except lmdb.Error as error:
            self._blocks.report_failure("has", error)
            return False

    def admit(self, block: BlockId, buffer: Buffer) -> bool:
        """Keep a block, whole; False if it is not going to be: it is larger than a segment, or the tier can't keep
        up, or rests after a failure."""
        size = len(buffer)
        if self._off or not 0 < size <= MAX_LENGTH or record_size(size) > self._space.segment_size:
            return False
        if len(block.generation) != GENERATION:
            return False
        order = AdmitBlock(self._addressing.block_address(block), buffer)
        if not self._writer.is_paused and self._backlog.offer(order):
            return True
        self._observe(AdmissionThrottled("ssd", size))
        return False

    def read_nowait(self, block: BlockId, length: int, within: Span) -> Buffer | Miss | Busy:
        """Bytes `within` a block of `length` bytes, if they can be had without waiting for the disk."""
        return MISS if self._off else self._blocks.read(block, length, within, wait=False)

    def verify_nowait(self, block: BlockId, length: int, within: Span, *, read: bool) -> VerifiedExtent | Miss | Busy:
        """Bytes `within` a block of `length` bytes, checked where they lie, if that can be done without waiting; and
        without reading them, unless `read`: then what was not checked lately is Busy."""
        return MISS if self._off else self._blocks.verify(block, length, within, read=read)

    async def read(self, block: BlockId, length: int, within: Span) -> Buffer | None:
        """Bytes `within` a block of `length` bytes, from the disk if need be."""
        if self._off:
            return None
        found = await self._in_thread(lambda: self._blocks.read(block, length, within, wait=True))
        return found if isinstance(found, memoryview) else None

    # Leaving

    async def forget(self, name: ObjectName, keep: Generation | None = None) -> None:
        """Remove the head and the blocks of an object, except the blocks of the generation `keep` (bytes that were
        staged for the version which is about to become current).

        When this returns, nothing of it is returned by any process, also after a crash, and no head that was put before
        comes back. Costs microseconds if nothing of the object is known. Cancelled, it is carried out all the same.
        """
        if self._off:
            return
        address = self._addressing.object_address(name)
        try:
            # In this order: what is no longer pending has been committed, so the index knows it.
            known = self._backlog.has_pending(address) or self._index.has_object(address)
        except lmdb.Error as error:
            self._blocks.report_failure("forget", error)
            known = True
        if known:
            await self._demanded(lambda settle: ForgetObject(name, address, keep, settle))

    async def forget_bucket(self, bucket: str) -> None:
        """Forget every object of a bucket that has a head."""
        await self.purge(bucket, "")

    async def purge(self, bucket: str, prefix: str) -> int:
        """Forget every object that has a head and whose key starts with `prefix`; how many there were.

        Blocks without a head, which nothing leads to, are left to reclaim.
        """
        return 0 if self._off else await self._demanded(lambda settle: PurgePrefix(bucket, prefix, settle))

    async def flush(self) -> None:
        """What was admitted, put or forgotten before is committed when this returns (or was given up, with an
        event)."""
        if not self._off:
            await self._demanded(FlushQueue)

    # Size, listings, end

    def resize(self, capacity: int) -> None:
        """Change the capacity. What is then too much leaves in the background."""
        self._space.capacity = capacity
        self._backlog.wake()

    def occupancy(self) -> Occupancy:
        blocks = heads = 0
        if not self._off:
            try:
                blocks, heads = self._index.count()
            except lmdb.Error as error:
                self._blocks.report_failure("occupancy", error)
        return Occupancy(self._space.capacity, self._space.used, blocks, heads)

    async def cached_bytes(self, name: ObjectName, head: Head) -> int:
        """Bytes held of the blocks that `head` names."""
        prefix = self._addressing.object_address(name) + head.generation
        return await self._in_thread(lambda: self._index.generation_bytes(prefix)) or 0

    async def listing(self, bucket: str, prefix: str, after: bytes = b"", limit: int = 1000) -> list[ListedObject]:
        """Objects that have a head and whose keys start with `prefix`, in the byte order of their keys (as far as their
        first 400 bytes go), from beyond the cursor `after` on. Looks at `limit` names at most at a time, and returns an
        empty list only at the end."""
        return await self._in_thread(lambda: self._listed(bucket, prefix, after, limit)) or []

    def _listed(self, bucket: str, prefix: str, after: bytes, limit: int) -> list[ListedObject]:
        start = listing_prefix(bucket, prefix)
        listed: list[ListedObject] = []
        while not listed and (rows := self._index.list_names(start, after, limit)):
            after = rows[-1][0]
            for cursor, raw in rows:
                named = decode_head(raw)
                if named is not None and named.name.key.startswith(prefix):
                    address = self._addressing.object_address(named.name)
                    held = self._index.generation_bytes(address + named.head.generation)
                    listed.append(ListedObject(named.name, named.head, held, cursor))
        return listed

    async def close(self) -> None:
        """Write what waits, and leave the directory in order. Nothing is found from now on."""
        if not self._closed:
            self._closed = True
            await asyncio.to_thread(self._end)

    def _end(self) -> None:
        self._backlog.close()
        self._thread.join()
        self._pool.shutdown()
        try:
            close_directory(self._opened)
        except (OSError, lmdb.Error) as error:
            self._observe(TierFailed("ssd", "close", str(error)))

    # Inside

    @property
    def _off(self) -> bool:
        return self._closed or self._touched.is_disowned

    async def _in_thread(self, act: Callable[[], _T]) -> _T | None:
        """The result of something that may wait for the disk; None if it fails, or the tier is off."""
        if self._off:
            return None
        try:
            return await asyncio.get_running_loop().run_in_executor(self._pool, act)
        except (OSError, lmdb.Error) as error:
            self._blocks.report_failure("read", error)
            return None

    async def _demanded(self, order: Callable[[Settled], ForgetObject | PurgePrefix | FlushQueue]) -> int:
        """Give an order and wait until it is settled; what it was settled with."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[int] = loop.create_future()

        def settle(count: int) -> None:
            with contextlib.suppress(RuntimeError):  # the loop was closed, nobody waits any more
                loop.call_soon_threadsafe(_resolve, done, count)

        return await done if self._backlog.submit(order(settle)) else 0


def _resolve(done: asyncio.Future[int], count: int) -> None:
    if not done.done():
        done.set_result(count)
