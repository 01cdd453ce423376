"""Deletions of members whose outcome a worker did not learn, or could tell nobody: none shows what another hides."""

import asyncio
import signal
from pathlib import Path

import pytest

from forebay.core.task_registry import TaskRegistry
from harness.clients import RawClient
from harness.fake.actions import HoldHead, LoseAnswer
from harness.fake.gate import Gate
from harness.fake_origin import FakeOrigin
from harness.packed_deletions import KEY, TOMBSTONES, delete, is_gone, is_tombstone, tombstones
from harness.packed_rig import IMMUTABLE, OBJECTS, pack, read
from harness.worker_node import Node


async def until_gone(client: RawClient) -> None:
    """Until the worker has noticed the death of the other one."""
    async with asyncio.timeout(30):
        while (await read(client, KEY)).status != 404:
            pass


@pytest.mark.parametrize("is_real", [False, True], ids=["no object", "an object hides it"])
async def test_a_worker_dies_before_it_tells_of_a_tombstone(tmp_path: Path, is_real: bool) -> None:  # a parameter
    async with FakeOrigin() as origin, Node(origin, tmp_path, 2, rest=IMMUTABLE) as node:
        pack(origin)
        if is_real:
            origin.store.put("bucket", KEY, b"newer")
        first, second = (node.client(worker) for worker in range(2))
        for client in (first, second):
            assert (await read(client, KEY)).body == (b"newer" if is_real else OBJECTS[KEY])
        gate, tasks = Gate(), TaskRegistry()
        origin.faults.add(HoldHead(gate), where=is_tombstone)
        deletion = tasks.spawn(first.request("DELETE", f"/bucket/{KEY}"), "delete")
        await gate.reached()
        assert len(tombstones(origin)) == 1
        await node.kill_worker(0, signal.SIGKILL)
        gate.open()
        await asyncio.wait([deletion])
        assert deletion.exception() is not None or deletion.result().aborted, "nobody has acknowledged it"
        if is_real:  # it was to be deleted behind the tombstone
            origin.store.delete("bucket", KEY)
        await until_gone(second)
        assert await is_gone(second)


async def test_an_answer_to_a_tombstone_is_lost(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Node(origin, tmp_path, 2, rest=IMMUTABLE) as node:
        pack(origin)
        clients = [node.client(worker) for worker in range(2)]
        for client in clients:
            assert not await is_gone(client)
        origin.faults.add(LoseAnswer(), where=is_tombstone, times=1)
        assert await delete(clients[0], KEY) == 503
        assert len(tombstones(origin)) == 1
        assert [(await read(client, KEY)).status for client in clients] == [404, 404]
        assert [await is_gone(client) for client in clients] == [True, True]


async def test_another_object_in_the_folder_of_tombstones_is_none(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Node(origin, tmp_path, 1, rest=IMMUTABLE) as node:
        pack(origin)
        client = node.client(0)
        assert not await is_gone(client)
        origin.store.put("bucket", f"{TOMBSTONES}notes.txt", b"not ours")
        origin.faults.add(LoseAnswer(), where=is_tombstone, times=1)
        assert await delete(client, KEY) == 503
        assert (await read(client, KEY)).status == 404
