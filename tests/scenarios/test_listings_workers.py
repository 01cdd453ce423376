"""Listings of a node of several workers: whichever is asked, each own write is seen, and one worker lists."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

from forebay.core.names import ObjectName
from harness.clients import RawClient
from harness.fake_origin import FakeOrigin
from harness.listing_requests import IMMUTABLE, listed, listings
from harness.owned_names import owner_of
from harness.worker_node import Node


async def test_writes_of_each_worker_are_seen_by_all(tmp_path: Path) -> None:
    """A start costs four processes their imports, so one node goes through all of it."""
    async with FakeOrigin() as origin, Node(origin, tmp_path, 4, rest=IMMUTABLE, ssd="64MiB") as node:
        origin.store.put("bucket", "a", b"a")
        clients = [node.client(worker) for worker in range(4)]
        assert [await listed(client) for client in clients] == [("miss", ["a"]), *3 * [("hit-ssd", ["a"])]]
        assert listings(origin) == 1, "one worker has listed, for all"
        keys = ["a"]
        for number in range(8):
            key = f"key-{number}"
            assert (await clients[number % 4].request("PUT", f"/bucket/{key}", (), b"x")).status == 200
            keys.append(key)
            await assert_listed(clients, keys)
        for number in range(4):
            assert (await clients[number].request("DELETE", f"/bucket/key-{number}")).status == 204
            keys.remove(f"key-{number}")
            await assert_listed(clients, keys)
        # Writes of all workers at once; each of them is seen as soon as all are acknowledged.
        answers = await asyncio.gather(
            *(clients[number % 4].request("PUT", f"/bucket/more-{number}", (), b"x") for number in range(8))
        )
        assert {answer.status for answer in answers} == {200}
        keys += [f"more-{number}" for number in range(8)]
        await assert_listed(clients, keys)
        # A page of one worker is gone on with at the other.
        first = await clients[0].request("GET", "/bucket?list-type=2&max-keys=2")
        token = first.body.partition(b"<NextContinuationToken>")[2].partition(b"<")[0].decode()
        for client in clients:
            assert (await listed(client, f"/bucket?continuation-token={quote(token)}&list-type=2"))[1] == keys[2:]
        # A worker that dies, the owner or another: the listing is right all the same.
        origin.store.put("bucket", "b", b"b")
        owner = owner_of(ObjectName("bucket", ""), 4)
        for worker in (owner, (owner + 1) % 4):
            process = await node.kill_worker(worker)
            await node.wait_restarted(worker, process)
            assert (await clients[0].request("PUT", f"/bucket/after-{worker}", (), b"x")).status == 200
            shown = [set((await listed(client))[1]) for client in clients]
            assert all(f"after-{worker}" in keys for keys in shown), shown
        status, _ = await node.request_admin("DELETE", "/v1/cache?bucket=bucket")
        assert status == 200
        assert "b" in (await listed(clients[0]))[1]


async def test_a_new_snapshot_drops_heads_of_all_workers(tmp_path: Path) -> None:
    """Without an SSD tier the worker that lists does not know what the others have."""
    rest = '[[rules]]\npath = "**"\nlisting = "200ms"\nfreshness = "immutable"\n'
    async with FakeOrigin() as origin, Node(origin, tmp_path, 2, rest=rest) as node:
        other = node.client(1 - owner_of(ObjectName("bucket", ""), 2))
        origin.store.put("bucket", "a", b"a")
        await listed(other)
        assert (await other.request("GET", "/bucket/a")).body == b"a"
        origin.store.put("bucket", "a", b"b")
        async with asyncio.timeout(30):
            while (await other.request("GET", "/bucket/a")).body == b"a":
                await listed(other)


async def assert_listed(clients: Sequence[RawClient], keys: list[str]) -> None:
    """Each worker lists these keys."""
    for client in clients:
        assert (await listed(client))[1] == keys
