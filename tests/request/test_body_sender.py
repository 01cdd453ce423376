"""Bodies are sent whole and in order, however much the client accepts at once, and leave no buffer in use."""

import os
from contextlib import nullcontext

import pytest

from forebay.core.read_stream import ReadStream
from forebay.request.body_sender import MAX_WRITTEN_SIZE
from forebay.request.object_read import ObjectReader
from harness.admitted_reads import admission_of, answer
from harness.fetch_rig import BLOCK, NAME, FetchRig, fetch_rig
from harness.memory_exchange import MemoryReply


class SlowReply(MemoryReply):
    """The reply of a client that accepts at most `most` bytes at a time, and then has to be waited for, or not."""

    def __init__(self, most: int, *, blocks: bool) -> None:
        super().__init__()
        self._most, self._blocks = most, blocks
        self.waits = 0
        self._is_full = False

    def accept(self, piece: memoryview) -> int:
        assert not self._is_full
        self._is_full = self._blocks
        return super().accept(piece[: self._most])

    @property
    def is_blocked(self) -> bool:
        return self._is_full

    async def drain(self) -> None:
        assert self._is_full
        self._is_full = False
        self.waits += 1


@pytest.mark.parametrize("size", [MAX_WRITTEN_SIZE, MAX_WRITTEN_SIZE + 1, BLOCK - 1, BLOCK, 3 * BLOCK + 5])
@pytest.mark.parametrize(("most", "blocks"), [(10_000, False), (10_000, True), (4 * BLOCK, True)])
async def test_a_body_is_whole_for_a_client_that_accepts_parts(size: int, most: int, blocks: bool) -> None:
    content = os.urandom(size)
    async with fetch_rig() as rig:
        rig.origin.store.put(*NAME, content)
        reader = ObjectReader(rig.resolver, rig.block_source(), ReadStream(rig.timers))
        for cache in ("miss", "hit-memory"):
            reply = SlowReply(most, blocks=blocks)
            _, _, record = await answer(reader, admission_of("GET", "/bucket/key"), reply)
            assert (record.cache, record.sent, bytes(reply.body), reply.finished) == (cache, size, content, True)
            if size > MAX_WRITTEN_SIZE:
                assert reply.waits >= (-(-size // most) if blocks else 0)
        await rig.tasks.wait_idle()
        assert rig.budget.in_use == len(rig.fetcher.registry) == 0


class AbsentReply(SlowReply):
    """The reply of a client that accepts a piece and then nothing: for hours, or until it leaves in a while."""

    def __init__(self, rig: FetchRig, *, leaves: bool) -> None:
        super().__init__(10_000, blocks=True)
        self._rig, self._leaves = rig, leaves

    async def drain(self) -> None:
        budget = self._rig.budget
        if not self.waits:
            await self._rig.tasks.wait_idle()  # all of what is fetched for it has come
            await budget.acquire(budget.capacity, 1.0)  # others need all buffers, and get them
            budget.release(budget.capacity)
        if self._leaves:
            raise ConnectionResetError
        await super().drain()


@pytest.mark.parametrize("leaves", [False, True])
@pytest.mark.parametrize("size", [BLOCK, 3 * BLOCK])
async def test_a_client_that_accepts_nothing_keeps_no_buffer(size: int, leaves: bool) -> None:  # a parameter
    content = os.urandom(size)
    async with fetch_rig() as rig:
        rig.origin.store.put(*NAME, content)
        reader = ObjectReader(rig.resolver, rig.block_source(), ReadStream(rig.timers))
        for _ in range(2):  # a miss, and a hit
            reply = AbsentReply(rig, leaves=leaves)
            with pytest.raises(ConnectionResetError) if leaves else nullcontext():
                await answer(reader, admission_of("GET", "/bucket/key"), reply)
            assert reply.body == content[: 10_000 if leaves else size]
            await rig.tasks.wait_idle()
            assert rig.budget.in_use == len(rig.fetcher.registry) == 0


async def test_a_range_of_an_object_that_came_whole() -> None:
    content = os.urandom(BLOCK)
    async with fetch_rig() as rig:
        rig.origin.store.put(*NAME, content)
        reader = ObjectReader(rig.resolver, rig.block_source(), ReadStream(rig.timers))
        reply = SlowReply(7_000, blocks=True)
        await answer(reader, admission_of("GET", "/bucket/key", Range="bytes=100-40099"), reply)
        assert bytes(reply.body) == content[100:40_100]
        assert rig.budget.in_use == len(rig.fetcher.registry) == 0
