"""The objects of an inventory, read ahead: their order, what can't be read, and that no read outlives the stream."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager

from forebay.core.task_registry import TaskRegistry
from forebay.jobs.packing.object_stream import PARALLEL, ObjectStream
from forebay.jobs.state.inventory import Inventory, InventoryEntry
from forebay.origin.origins import Origins
from harness.fake.actions import HoldRequest
from harness.fake.gate import Gate
from harness.fake_origin import FakeOrigin
from harness.origin_client import client_of

SMALL = [f"small/{number:03d}" for number in range(3)]
WINDOW = 1000


@asynccontextmanager
async def streaming(
    origin: FakeOrigin, keys: Sequence[str], start: int = 0
) -> AsyncIterator[tuple[ObjectStream, TaskRegistry]]:
    inventory, tasks = Inventory(), TaskRegistry()
    for key in keys:
        found = origin.store.current("bucket", key)
        inventory.add(InventoryEntry("bucket", key, found.size if found is not None else 10))
    async with client_of(origin.endpoint) as client, asyncio.timeout(60):
        yield ObjectStream(Origins.single(client), tasks, inventory, start, WINDOW, "job"), tasks
        await tasks.wait_idle()


async def test_objects_come_in_the_order_of_the_inventory() -> None:
    async with FakeOrigin(verify=False) as origin:
        for key in SMALL:
            origin.store.put("bucket", key, key.encode())
        origin.store.put("bucket", "large", bytes(WINDOW // 2 + 1))
        keys = [*SMALL[:2], "large", "gone", SMALL[2]]
        async with streaming(origin, keys, start=1) as (stream, _), aclosing(stream.objects()) as objects:
            found = [each async for each in objects]
        assert [(each.number, each.entry.key) for each in found] == [(n, keys[n]) for n in range(1, 5)]
        assert [each.found.content if each.found is not None else None for each in found] == [
            SMALL[1].encode(),
            None,
            None,
            SMALL[2].encode(),
        ]
        assert [bool(each.problem) for each in found] == [False, False, True, False]


async def test_closing_the_stream_ends_its_reads() -> None:
    async with FakeOrigin(verify=False) as origin:
        for key in SMALL:
            origin.store.put("bucket", key, key.encode())
        origin.faults.add(HoldRequest(gate := Gate()), key=SMALL[1])
        async with streaming(origin, SMALL) as (stream, tasks):
            objects = stream.objects()
            assert (await anext(objects)).entry.key == SMALL[0]
            await gate.reached()
            await objects.aclose()
            await tasks.wait_idle()
        gate.open()


async def test_reads_ahead_are_bounded() -> None:
    async with FakeOrigin(verify=False) as origin:
        sized = [f"sized/{number}" for number in range(8)]
        for key in sized:
            origin.store.put("bucket", key, bytes(WINDOW // 3))
        many = [f"many/{number}" for number in range(2 * PARALLEL)]
        for key in many:
            origin.store.put("bucket", key, b"")
        for keys, most in ((sized, 3), (many, PARALLEL)):
            async with streaming(origin, keys) as (stream, tasks), aclosing(stream.objects()) as objects:
                async for _ in objects:
                    assert len(tasks) < most
                    tasks_seen = len(tasks)
                assert tasks_seen == 0
