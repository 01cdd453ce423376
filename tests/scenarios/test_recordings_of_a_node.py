"""Recordings with four workers: recorded from the reads of all, carried to another node, followed for all."""

import asyncio
import re
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import pytest

from harness.clients import path_of
from harness.fake_origin import FakeOrigin
from harness.loader_orders import shuffled
from harness.recording_content import keys_in
from harness.worker_node import Node

SIZE = 2_000
KEYS = [f"key/{number:03}" for number in range(80)]
RULE = '[[rules]]\nname = "set"\npath = "**"\nfreshness = "immutable"\nrecord = true\nfollow = true\n'
RECORDING = path_of("bucket", ".forebay/recordings/nightly")
PROBED = '[[rules]]\nname = "probe"\npath = "bucket/probe/**"\nfreshness = "immutable"\nrecord = true\n'
RECORDED = "forebay_recording_recorded_total"
STEP = 20


async def metric(node: Node, name: str) -> float:
    _, text = await node.request_admin("GET", "/metrics")
    return sum(float(value) for value in re.findall(rf"^{name}(?:{{[^}}]*}})? (\S+)$", str(text), re.MULTILINE))


async def wait_until(condition: Callable[[], Awaitable[bool]]) -> None:
    """Until something is so that other processes change, which tells nobody."""
    async with asyncio.timeout(60):
        while True:
            if await condition():
                return
            await asyncio.sleep(0.02)


async def wait_metric(node: Node, name: str, least: float) -> None:
    async def is_so() -> bool:
        return await metric(node, name) >= least

    await wait_until(is_so)


async def wait_collected(node: Node) -> float:
    """Until all workers know that their reads are wanted: those before are lost. Returns the reads recorded so far.

    One read is under way at a time, so that none of another worker is counted for it. The collector, worker 0, knew
    before it told the others."""
    for worker in range(1, node.workers):
        before = await metric(node, RECORDED)

        async def is_collected(worker: int = worker, before: float = before) -> bool:
            await node.client(worker).request("GET", path_of("bucket", "probe/key"))
            for _ in range(50):
                if await metric(node, RECORDED) > before:
                    return True
                await asyncio.sleep(0.02)
            return False

        await wait_until(is_collected)
    return await metric(node, RECORDED)


async def read(node: Node, keys: Sequence[str], before: float) -> None:
    """Reads keys, STEP from each worker in turn. Then the collector knows of them, so that the order is certain.
    `before`: reads recorded before."""
    for start in range(0, len(keys), STEP):
        client = node.client(start // STEP % 4)
        for key in keys[start : start + STEP]:
            answer = await client.request("GET", path_of("bucket", key))
            assert (answer.status, len(answer.body)) == (200, SIZE)
        await wait_metric(node, RECORDED, before + start + STEP)


async def test_reads_wait_for_a_collector_that_is_restarted(tmp_path: Path) -> None:
    async with FakeOrigin() as origin:
        for key in [*KEYS, "probe/key"]:
            origin.store.put_synthetic("bucket", key, SIZE)
        async with Node(origin, tmp_path, 2, rest=PROBED + RULE) as node:
            before = await wait_collected(node)
            ended = await node.kill_worker(0)
            for key in KEYS[:STEP]:
                assert (await node.client(1).request("GET", path_of("bucket", key))).status == 200
            await node.wait_restarted(0, after=ended)
            await wait_metric(node, RECORDED, before + STEP)
            assert await metric(node, "forebay_reads_dropped_total") == 0
            status, saved = await node.request_admin("POST", "/v1/recordings/bucket/nightly/save")
            assert (status, saved["recording"]["reads"]) == (200, STEP)


async def test_hits_are_named_anew_to_a_restarted_collector(tmp_path: Path) -> None:
    async def read_again(node: Node) -> None:
        for key in KEYS[:STEP]:
            assert (await node.client(1).request("GET", path_of("bucket", key))).status == 200

    async with FakeOrigin() as origin:
        for key in [*KEYS, "probe/key"]:
            origin.store.put_synthetic("bucket", key, SIZE)
        async with Node(origin, tmp_path, 2, rest=PROBED + RULE) as node:
            before = await wait_collected(node)
            await read_again(node)
            await read_again(node)  # half of them from the memory of worker 1
            await wait_metric(node, RECORDED, before + 2 * STEP)
            ended = await node.kill_worker(0)
            await read_again(node)
            await node.wait_restarted(0, after=ended)
            await wait_metric(node, RECORDED, before + 3 * STEP)
            assert await metric(node, "forebay_reads_dropped_total") == 0


@pytest.mark.long
async def test_an_order_goes_from_node_to_node(tmp_path: Path) -> None:
    """Long, since eight workers are started."""
    order = shuffled(KEYS, 1)
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    async with FakeOrigin() as origin:
        for key in [*KEYS, "probe/key"]:
            origin.store.put_synthetic("bucket", key, SIZE)
        async with Node(origin, tmp_path / "a", 4, rest=PROBED + RULE) as first:
            await read(first, order, await wait_collected(first))
            status, saved = await first.request_admin("POST", "/v1/recordings/bucket/nightly/save")
            assert status == 200
            assert saved["recording"]["reads"] >= 60
            exported = await first.client(3).request("GET", RECORDING)
            assert exported.status == 200
            assert set(keys_in(exported.body)) <= set(KEYS)
        async with Node(origin, tmp_path / "b", 4, rest=PROBED + RULE) as second:
            assert (await second.client(2).request("PUT", RECORDING, (), exported.body)).status == 200
            before = await wait_collected(second)
            asked = origin.log.count("GET", operation="GetObject")
            await read(second, order[:40], before)
            await wait_metric(second, "forebay_recording_followed_total", 1)

            async def is_here() -> bool:
                return origin.log.count("GET", operation="GetObject") >= asked + 60

            await wait_until(is_here)
            plans = (await second.request_admin("GET", "/v1/plans"))[1]["plans"]
            assert [plan["name"] for plan in plans] == ["recording:nightly"]
            await read(second, order[40:], before + 40)
            assert origin.log.count("GET", operation="GetObject") == asked + 80, "each object came once"
