"""The admin port's verbs about pins, over a node of several workers: one changes the file, and all read it."""

import asyncio

from forebay.server.admin.control import PinVerbs
from forebay.server.admin.pin_changes import PinChanges
from forebay.server.admin.schema.pin_schema import PinChange, PinList, merged_pins
from forebay.workers.worker_calls import WorkerCalls
from forebay.workers.worker_rpc import WorkerOrders, WorkerRpc


class NodePins(PinChanges):
    """The pins of all workers. `change_lock`: held while something changes."""

    def __init__(self, calls: WorkerCalls, change_lock: asyncio.Lock) -> None:
        self._calls = calls
        self._change_lock = change_lock
        self._first_worker = calls.first_worker(WorkerRpc)
        self._every_worker = calls.every_worker(WorkerOrders)

    async def pins(self) -> PinList:
        """Returns the pins as all workers see them."""
        return merged_pins([answer for _, answer in await self._calls.answers(PinVerbs.pins)])

    async def change(self, bucket: str, prefix: str, *, is_pinned: bool) -> PinChange:
        """Through the first worker, then in all."""
        async with self._change_lock:
            change = await self._first_worker.change_pins(bucket, prefix, is_pinned)
            if change.problem is None:
                await self._every_worker.load_pins()
            return change
