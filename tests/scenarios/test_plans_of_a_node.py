"""Plans with four workers: sent to any, read from any, fetched by each object's owner."""

import asyncio
import json
from pathlib import Path
from typing import Any

from harness.clients import path_of
from harness.fake_origin import FakeOrigin
from harness.worker_node import Node

SIZE = 20_000
KEYS = [f"key/{number:03}" for number in range(40)]
RULE = '[[rules]]\npath = "**"\nfreshness = "immutable"\n'
PLAN = path_of("bucket", ".forebay/plans/order")


async def progress(node: Node, worker: int) -> dict[str, Any]:
    return dict(json.loads((await node.client(worker).request("GET", PLAN)).body))


async def wait_progress(node: Node, worker: int, **wanted: object) -> dict[str, Any]:
    """The progress once it is as wanted: another process changes it, which tells nobody."""
    async with asyncio.timeout(60):
        while True:
            plan = await progress(node, worker)
            if all(plan[name] == value for name, value in wanted.items()):
                return plan
            await asyncio.sleep(0.02)


async def test_a_plan_sent_to_one_worker_serves_readers_of_all(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Node(origin, tmp_path, 4, rest=RULE) as node:
        for key in KEYS:
            origin.store.put_synthetic("bucket", key, SIZE)
        answer = await node.client(2).request("PUT", PLAN, (), "\n".join(KEYS).encode())
        assert (answer.status, answer.headers["x-forebay-plan-entries"]) == (200, "40")
        await wait_progress(node, 3, lead_bytes=40 * SIZE, fetched_blocks=40)
        listed = await node.client(1).request("GET", "/bucket?list-type=2&prefix=.forebay%2F")
        assert b"<Key>.forebay/plans/order</Key>" in listed.body
        for number, key in enumerate(KEYS):
            answer = await node.client(number % 4).request("GET", path_of("bucket", key))
            assert (answer.status, len(answer.body)) == (200, SIZE)
            assert answer.headers["x-forebay-cache"] in {"hit-memory", "hit-worker", "revalidated"}, key
        plan = await wait_progress(node, 0, state="done")
        assert (plan["read"], plan["late"]) == (40, 0)
        assert all(origin.log.count("GET", key=key) == 1 for key in KEYS)
        text = await node.request_admin("GET", "/metrics")
        assert "forebay_ahead_used_bytes 0.0" in text[1]
        await node.client(1).request("PUT", path_of("bucket", ".forebay/plans/other"), (), b"none\n")
        assert (await node.client(3).request("DELETE", path_of("bucket", ".forebay/plans/other"))).status == 204
        assert (await node.client(2).request("GET", path_of("bucket", ".forebay/plans/other"))).status == 404


async def test_a_plan_survives_the_worker_that_runs_it(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Node(origin, tmp_path, 2, rest=RULE) as node:
        for key in KEYS:
            origin.store.put_synthetic("bucket", key, SIZE)
        await node.client(1).request("PUT", PLAN, (), "\n".join(KEYS).encode())
        await wait_progress(node, 1, lead_entries=40)
        killed = await node.kill_worker(0)
        gone = await node.client(1).request("GET", PLAN)
        assert gone.status in {200, 503}
        await node.wait_restarted(0, killed)
        await wait_progress(node, 1, lead_entries=40)
        status, found = await node.request_admin("GET", "/v1/plans")
        assert (status, [plan["name"] for plan in found["plans"]]) == (200, ["order"])
        status, plan = await node.request_admin("DELETE", f"/v1/plans/{found['plans'][0]['id']}")
        assert (status, plan["state"]) == (200, "cancelled")
        assert (await progress(node, 1))["state"] == "cancelled"
