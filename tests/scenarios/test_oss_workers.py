"""An OSS client in front of several workers: its requests go to any of them, and each knows what the others took."""

from pathlib import Path

from forebay.protocol.body.crc64 import crc64
from harness.fake_origin import FakeOrigin
from harness.oss_client import OssClient
from harness.rig import TRAINER
from harness.worker_node import Node

KIB, MIB = 1 << 10, 1 << 20
TARGET = "/bucket/key"


async def test_parts_and_checksums_are_known_to_all_workers(tmp_path: Path) -> None:
    """A start costs two processes their imports, so one node goes through all of it."""
    async with FakeOrigin(smallest_part=5 * MIB) as origin, Node(origin, tmp_path) as node:
        origin.store.create_bucket("bucket")
        clients = [OssClient(node.endpoint(worker), TRAINER) for worker in (0, 1)]
        for completed in (0, 1):
            upload = await clients[0].initiate(TARGET)
            bodies = {number: bytes([number]) * (900 * KIB + number) for number in range(1, 9)}
            etags = {
                number: (await clients[number % 2].part(TARGET, upload, number, body)).headers["ETag"]
                for number, body in bodies.items()
            }
            copied = await clients[1].part(TARGET, upload, 8, b"again")  # replaces what the other worker holds
            etags[8], bodies[8] = copied.headers["ETag"], b"again"
            whole = b"".join(bodies.values())
            done = await clients[completed].complete(TARGET, upload, sorted(etags.items()))
            assert (done.status, done.headers["x-oss-hash-crc64ecma"]) == (200, str(crc64(whole))), done.body
            for client in clients:
                read = await client.request("GET", TARGET)
                assert (read.body == whole, read.headers["x-oss-hash-crc64ecma"]) == (True, str(crc64(whole)))
        for worker in (0, 1):  # whoever owns it
            assert (await clients[worker].request("PUT", TARGET, (), b"new")).status == 200
            for client in clients:
                read = await client.request("GET", TARGET)
                assert (read.body, read.headers["x-oss-hash-crc64ecma"]) == (b"new", str(crc64(b"new")))
