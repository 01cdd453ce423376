"""Listings of a node of several workers: whichever is asked, each own write is seen, and one worker lists."""

from pathlib import Path
from urllib.parse import quote

from harness.fake_origin import FakeOrigin
from harness.worker_node import Node
from scenarios.test_listings import IMMUTABLE, listed, listings


async def test_writes_of_each_worker_are_seen_by_all(tmp_path: Path) -> None:
    """A start costs two processes their imports, so one node goes through all of it."""
    async with FakeOrigin() as origin, Node(origin, tmp_path, rest=IMMUTABLE, ssd="64MiB") as node:
        origin.store.put("bucket", "a", b"a")
        clients = [node.client(worker) for worker in (0, 1)]
        assert [await listed(client) for client in clients] == [("miss", ["a"]), ("hit-ssd", ["a"])]
        assert listings(origin) == 1
        keys = ["a"]
        for number in range(6):
            key = f"key-{number}"
            assert (await clients[number % 2].request("PUT", f"/bucket/{key}", (), b"x")).status == 200
            keys.append(key)
            for client in clients:
                assert (await listed(client))[1] == keys
        for number in range(3):
            assert (await clients[number % 2].request("DELETE", f"/bucket/key-{number}")).status == 204
            keys.remove(f"key-{number}")
            for client in reversed(clients):
                assert (await listed(client))[1] == keys
        # A page of one worker is gone on with at the other.
        first = await clients[0].request("GET", "/bucket?list-type=2&max-keys=2")
        token = first.body.partition(b"<NextContinuationToken>")[2].partition(b"<")[0].decode()
        assert (await listed(clients[1], f"/bucket?continuation-token={quote(token)}&list-type=2"))[1] == keys[2:]
        # A worker that dies, the owner or another: the listing is right all the same.
        origin.store.put("bucket", "b", b"b")
        for worker in (0, 1):
            process = await node.kill_worker(worker)
            await node.wait_restarted(worker, process)
            assert (await clients[0].request("PUT", f"/bucket/after-{worker}", (), b"x")).status == 200
            shown = [set((await listed(client))[1]) for client in clients]
            assert all(f"after-{worker}" in keys for keys in shown), shown
        status, _ = await node.request_admin("DELETE", "/v1/cache?bucket=bucket")
        assert status == 200
        assert "b" in (await listed(clients[0]))[1]
