"""The objects of an inventory in its order, read ahead within a bound of bytes.

    inventory ──> reads under way, in order ──> whole objects, or why one can't be packed

An object larger than half of the bound is not read here: whoever takes it reads it piece by piece.
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator
from typing import Final, NamedTuple

from forebay.core.errors import OriginBroken
from forebay.core.names import ObjectName
from forebay.core.task_registry import TaskRegistry
from forebay.jobs.packing.shard_writer import WholeObject, read_object
from forebay.jobs.state.inventory import Inventory, InventoryEntry
from forebay.origin.origins import Origins

PARALLEL: Final = 32
"""Objects read at once."""
GROWTH: Final = 64 << 10
"""Bytes by which an object may be larger than it was listed."""


class StreamedObject(NamedTuple):
    """One entry of the inventory."""

    number: int
    entry: InventoryEntry
    found: WholeObject | None
    """None: it is to be read piece by piece, or `problem`."""
    problem: str = ""


class _Read(NamedTuple):
    number: int
    entry: InventoryEntry
    task: asyncio.Task[WholeObject | str] | None


class ObjectStream:
    """Reads the entries from number `start` on. `group`: of the background turns that each read takes."""

    def __init__(
        self, origins: Origins, tasks: TaskRegistry, inventory: Inventory, start: int, window: int, group: str
    ) -> None:
        self._origins = origins
        self._tasks = tasks
        self._entries = (entry for page in inventory.pages(start) for entry in page)
        self._start = start
        self._window = window
        self._group = group

    async def objects(self) -> AsyncGenerator[StreamedObject]:
        """Yields the objects. Raises OriginUnreachable, Throttled and the like; an object that can't be read is a
        `problem`. Close it to end its reads."""
        reads: deque[_Read] = deque()
        size, number = 0, self._start
        entry = next(self._entries, None)
        try:
            while reads or entry is not None:
                while (
                    entry is not None and len(reads) < PARALLEL and (not reads or size + _size(entry) <= self._window)
                ):
                    size += _size(entry)
                    reads.append(_Read(number, entry, self._begin(entry)))
                    number, entry = number + 1, next(self._entries, None)
                first = reads.popleft()
                size -= _size(first.entry)
                if first.task is None:
                    yield StreamedObject(first.number, first.entry, None)
                    continue
                await asyncio.wait([first.task])
                result = first.task.result()
                if isinstance(result, str):
                    yield StreamedObject(first.number, first.entry, None, result)
                else:
                    yield StreamedObject(first.number, first.entry, result)
                del result
        finally:
            for each in reads:
                if each.task is not None:
                    each.task.cancel()

    def _begin(self, entry: InventoryEntry) -> asyncio.Task[WholeObject | str] | None:
        if _size(entry) > self._window // 2:
            return None
        return self._tasks.spawn(self._read(entry), f"pack {entry.name.path}")

    async def _read(self, entry: InventoryEntry) -> WholeObject | str:
        async with self._origins.background(entry.bucket).turn(self._group):
            try:
                return await read_object(self._origins, ObjectName(entry.bucket, entry.key), _size(entry) + GROWTH)
            except OriginBroken as refused:
                return refused.reason


def _size(entry: InventoryEntry) -> int:
    return entry.size or 0
