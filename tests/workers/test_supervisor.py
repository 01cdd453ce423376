"""Several workers on one node, as processes: what one of them fetches, stores and writes, and what the others serve.

A start costs two processes their imports, so one node goes through several scenarios.
"""

import asyncio
import contextlib
import errno
import hashlib
import json
import random
import re
import signal
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from forebay.core.errors import WorkerStartError
from forebay.peers.unix_socket import socket_path
from forebay.workers.worker_process import RunningProcess
from forebay.workers.worker_rpc import WorkerRpc, call
from forebay_client import Client
from forebay_client.cli.throughput import Rates, rates_between
from harness.clients import RawRequest, path_of
from harness.fake.actions import FORBIDDEN, HoldAfter, HoldRequest
from harness.fake.gate import Gate
from harness.fake_origin import DEFAULT_SECRET, FakeOrigin
from harness.raw_connection import RawAnswer
from harness.reference_sigv4 import Secret
from harness.rig import TRAINER
from harness.worker_node import Node

MIB = 1 << 20
RULES = """\
[[rules]]
path = "*/ever/**"
freshness = "immutable"
warm_on_write = true

[[rules]]
path = "*/always/**"
freshness = "always"
"""


async def _cold_objects(origin: FakeOrigin, node: Node) -> None:
    """Each object is fetched once, whichever worker is read through: by many clients of both at once, then by either
    alone. The node's first scenario, because it looks at the node's stats."""
    body = random.Random(1).randbytes(9 * MIB + 12345)
    keys = [node.key_owned_by(worker, prefix="cold/key") for worker in range(2)]
    for key in keys:
        origin.store.put("bucket", key, body)

    async def read(worker: int, key: str) -> RawAnswer:
        answer = await node.client(worker).request("GET", path_of("bucket", key))
        assert (answer.status, answer.body == body) == (200, True)
        return answer

    for key in keys:
        await asyncio.gather(*(read(worker, key) for worker in (0, 1) * 5))
    assert origin.log.bytes_sent <= 2 * len(body) * 1.01
    for worker in (0, 1):
        for key in keys:
            assert (await read(worker, key)).headers["x-forebay-cache"] == "hit-memory"
    _, figures = await node.request_admin("GET", "/v1/stats")
    assert (figures["workers"], figures["workers_alive"]) == (2, 2)
    assert figures["requests"]["by_status"] == {"200": 24}
    assert sum(reads["fetched"] for reads in figures["reads"]) == 2 * len(body)
    _, listing = await node.request_admin("GET", "/v1/cache?bucket=bucket")
    assert {each["key"]: (each["memory"], each["cached"]) for each in listing["objects"]} == {
        key: (len(body), len(body)) for key in keys
    }
    if any(tier["name"] == "ssd" for tier in figures["tiers"]):  # shared: stored by one worker, hit by all
        killed = await node.kill_worker(0)
        await node.wait_restarted(0, killed)
        for key in keys:
            assert (await read(0, key)).headers["x-forebay-cache"] == "hit-ssd"
    assert origin.log.bytes_sent <= 2 * len(body) * 1.01


async def _small_cold_objects(origin: FakeOrigin, node: Node) -> None:
    """Each is fetched once, and kept in both workers, when it is read through the one that does not own it."""
    for key in (node.key_owned_by(0, prefix=f"cold/small-{number}") for number in range(5)):
        origin.store.put("bucket", key, key.encode())
        for cache, worker in (("miss", 1), ("hit-memory", 1), ("hit-memory", 0)):
            answer = await node.client(worker).request("GET", path_of("bucket", key))
            assert (answer.headers["x-forebay-cache"], answer.body) == (cache, key.encode())
        assert origin.log.count(key=key) == 1


async def _objects_that_nobody_owns(origin: FakeOrigin, node: Node) -> None:
    """Each is fetched once, when both workers are asked at the same moment, and by the one that is asked first."""
    keys = [f"cold/unowned/{number}" for number in range(60)]
    for key in keys:
        origin.store.put("bucket", key, key.encode())

    async def read(worker: int, key: str) -> RawAnswer:
        answer = await node.client(worker).request("GET", path_of("bucket", key))
        assert answer.body == key.encode()
        return answer

    await asyncio.gather(*(read(worker, key) for key in keys[:40] for worker in (0, 1)))
    for key in keys[40:]:
        assert (await read(1, key)).headers["x-forebay-cache"] == "miss"
        assert node.have_owned(key, 0) == 1, "it was asked first"
        assert (await read(0, key)).headers["x-forebay-cache"] in {"hit-worker", "hit-ssd"}, "the SSD is shared"
    assert [origin.log.count(key=key) for key in keys] == [1] * len(keys)


@dataclass
class Register:
    """The versions of a key that a read may return while it is written."""

    written: list[int] = field(default_factory=lambda: [0])
    """The versions whose write has begun, in order; each key has one writer."""
    acknowledged: int = 0

    def body(self, version: int) -> bytes:
        return f"{version}:".encode() * 1000


async def test_a_write_is_seen_at_once_through_every_worker(tmp_path: Path) -> None:
    """Writers and readers through both workers, and a foreign writer at the origin. A read may answer with what was
    acknowledged before it began, or with anything later that was begun: under `immutable`, where nothing but the write
    itself makes anybody ask again, of what was written through Forebay; under `always` of what anybody wrote."""
    async with FakeOrigin() as origin, Node(origin, tmp_path, ssd="256MiB", rest=RULES) as node:
        await _cold_objects(origin, node)
        await _small_cold_objects(origin, node)
        await _objects_that_nobody_owns(origin, node)
        keys = [f"ever/{number}" for number in range(6)]
        foreign = [f"always/{number}" for number in range(2)]
        registers = {key: Register() for key in (*keys, *foreign)}
        for key, register in registers.items():
            origin.store.put("bucket", key, register.body(0))
        over = asyncio.Event()
        reads = 0

        async def write(key: str, chance: random.Random) -> None:
            register = registers[key]
            for version in range(1, 25):
                register.written.append(version)
                client = node.client(chance.randrange(2))
                answer = await client.request("PUT", path_of("bucket", key), body=register.body(version))
                assert answer.status == 200
                register.acknowledged = version
                # The plainest case: nothing between the write and the read.
                answer = await node.client(chance.randrange(2)).request("GET", path_of("bucket", key))
                assert answer.body == register.body(version), (key, version, answer.body[:10])

        async def write_behind(key: str, chance: random.Random) -> None:
            """Directly at the origin and through Forebay, in turns."""
            register = registers[key]
            while not over.is_set():
                register.written.append(version := register.written[-1] + 1)
                if version % 2:
                    origin.store.put("bucket", key, register.body(version))
                else:
                    await node.client(chance.randrange(2)).request(
                        "PUT", path_of("bucket", key), body=register.body(version)
                    )
                register.acknowledged = version
                answer = await node.client(chance.randrange(2)).request("GET", path_of("bucket", key))
                assert answer.body == register.body(version), (key, version, answer.body[:10])

        async def read(chance: random.Random) -> None:
            nonlocal reads
            while not over.is_set():
                register = registers[key := chance.choice([*registers])]
                least = register.acknowledged
                method = chance.choice(("GET", "GET", "HEAD"))
                answer = await node.client(chance.randrange(2)).request(method, path_of("bucket", key))
                possible = range(least, register.written[-1] + 1)
                assert answer.status == 200
                etags = {f'"{hashlib.md5(register.body(v), usedforsecurity=False).hexdigest()}"': v for v in possible}
                assert answer.headers["ETag"] in etags, (key, possible, answer.body[:10])
                if method == "GET":
                    assert answer.body == register.body(etags[answer.headers["ETag"]])
                reads += 1

        async with asyncio.TaskGroup() as group:
            for seed in range(6):
                group.create_task(read(random.Random(seed)))
            for seed, key in enumerate(foreign):
                group.create_task(write_behind(key, random.Random(200 + seed)))
            async with asyncio.TaskGroup() as writers:
                for seed, key in enumerate(keys):
                    writers.create_task(write(key, random.Random(100 + seed)))
            over.set()
        assert reads > 50
        await _staged_upload(origin, node)


async def _staged_upload(origin: FakeOrigin, node: Node) -> None:
    """Parts uploaded through both workers are cached once the upload is completed."""
    key = node.key_owned_by(1, prefix="ever/staged")
    target, parts = (
        path_of("bucket", key),
        [random.Random(4).randbytes(5 * MIB), random.Random(4).randbytes(5 * MIB), b"the last"],
    )
    answer = await node.client(0).request("POST", f"{target}?uploads")
    upload = answer.body.partition(b"<UploadId>")[2].partition(b"</UploadId>")[0].decode()
    listed = ""
    for number, part in enumerate(parts, 1):
        query = f"{target}?partNumber={number}&uploadId={upload}"
        answer = await node.client(number % 2).request("PUT", query, body=part)
        listed += f"<Part><PartNumber>{number}</PartNumber><ETag>{answer.headers['ETag']}</ETag></Part>"
    document = f"<CompleteMultipartUpload>{listed}</CompleteMultipartUpload>".encode()
    answer = await node.client(0).request("POST", f"{target}?uploadId={upload}", body=document)
    assert answer.status == 200, answer.body
    question = f"/v1/explain?bucket=bucket&key={key}"
    async with asyncio.timeout(60):
        while (await node.request_admin("GET", question))[1]["cached"] is None:
            pass  # the owner installs it once the origin has confirmed it
    for worker in (0, 1):
        answer = await node.client(worker).request("GET", target)
        assert answer.body == b"".join(parts)
    assert origin.log.count("GET", "GetObject", key) == 0


async def test_workers_die(tmp_path: Path) -> None:
    server = f'socket = "{tmp_path / "forebay.sock"}"'
    async with FakeOrigin() as origin, Node(origin, tmp_path, ssd="256MiB", rest=RULES, server=server) as node:
        await _killed_under_load(origin, node)
        await _dead_and_hung(origin, node)
        await _read_through_one_socket(origin, node, str(tmp_path / "forebay.sock"))
    assert not (tmp_path / "forebay.sock").exists()


async def _read_through_one_socket(origin: FakeOrigin, node: Node, path: str) -> None:
    """All workers accept from the Unix socket; a killed one takes its channels with it, and its clients go on."""
    body = random.Random(3).randbytes(300_000)
    keys = [node.key_owned_by(worker, prefix="socket/key") for worker in range(2)]
    for key in keys:
        origin.store.put("bucket", key, body)
    clients = [
        Client(node.endpoint(0), access_key=TRAINER.access, secret_key=TRAINER.secret, socket=path) for _ in range(12)
    ]

    async def read() -> list[memoryview]:
        return await asyncio.gather(
            *(asyncio.to_thread(client.get, "bucket", key) for client in clients for key in keys)
        )

    async def channels() -> list[int]:
        reports = [await call(node.process(worker).peer, WorkerRpc.report) for worker in range(2)]
        pattern = re.compile(r"^forebay_socket_channels ([0-9.]+)$", re.MULTILINE)
        return [int(float(pattern.findall(report.metrics)[0])) for report in reports]

    small = [node.key_owned_by(worker, prefix=f"socket/small/{number}") for number in range(20) for worker in range(2)]
    for key in small:
        origin.store.put("bucket", key, key.encode() * 100)

    def batch(client: Client) -> list[memoryview]:
        return [item.content() for item in client.get_many("bucket", small)]

    async def read_batches() -> None:
        """Each worker answers for its own objects and for those of the other."""
        for found in await asyncio.gather(*(asyncio.to_thread(batch, client) for client in clients)):
            assert found == [key.encode() * 100 for key in small]

    await read_batches()
    assert all(origin.log.count("GET", "GetObject", key) == 1 for key in small), "each object once, by its owner"
    sent = origin.log.bytes_sent
    views = await read()
    assert sum(await channels()) >= len(clients)
    assert origin.log.bytes_sent - sent <= 2 * len(body) * 1.01  # each object once, by its owner
    killed = await node.kill_worker(1)
    assert await read() == views
    await read_batches()
    await node.wait_restarted(1, killed)
    assert await read() == views == [body] * (2 * len(clients))
    await read_batches()
    for client in clients:
        assert client.stats.requests == {"socket": 9}
        assert client.stats.fallbacks == {}
        client.close()


async def _killed_under_load(origin: FakeOrigin, node: Node) -> None:
    """A client sees no more than its own broken connection, no reader waits for a flight of a worker that has exited,
    and the exited workers' counters stay."""
    body = random.Random(2).randbytes(3 * MIB + 5)
    keys = [f"ever/load/{number}" for number in range(12)]
    for key in keys:
        origin.store.put("bucket", key, body)
    over, served = asyncio.Event(), asyncio.Event()
    whole = [0, 0]
    broken = [0, 0]

    async def read(worker: int, chance: random.Random) -> None:
        while not over.is_set():
            key = chance.choice(keys)
            try:
                answer = await node.client(worker).request("GET", path_of("bucket", key))
            except OSError:
                broken[worker] += 1
                await asyncio.sleep(0.02)
                continue
            if answer.aborted:
                broken[worker] += 1
            else:
                assert (answer.status, answer.body == body) == (200, True), answer
                whole[worker] += 1
                if worker == 1:
                    served.set()

    async with asyncio.TaskGroup() as group:
        for seed in range(6):
            group.create_task(read(seed % 2, random.Random(seed)))
        for _ in range(2):
            await served.wait()
            before = whole[0]
            killed = await node.kill_worker(1)
            await node.wait_restarted(1, killed)
            served.clear()
            await served.wait()
            assert whole[0] > before, "the other worker went on"
        over.set()
    assert broken[0] == 0, "its clients have noticed nothing"
    assert broken[1], "those of the one that was killed have"
    status, _ = await node.request_admin("GET", "/readyz")
    assert status == 200
    _, metrics = await node.request_admin("GET", "/metrics")
    assert "\nforebay_worker_restarts_total 2.0\n" in metrics
    assert "\nforebay_workers 2.0\n" in metrics
    assert "\nforebay_flights 0.0\n" in metrics


async def _dead_and_hung(origin: FakeOrigin, node: Node) -> None:
    """A reader that waits for a flight of an owner that dies is served. A write is acknowledged once the worker that
    can't be notified has exited. A worker that dies during a write leaves it in doubt."""
    body = random.Random(3).randbytes(2 * MIB)
    waited, held = node.key_owned_by(1, prefix="ever/w"), node.key_owned_by(0, prefix="ever/h")
    for key in (waited, held):
        origin.store.put("bucket", key, body)
    gate = Gate()
    origin.faults.add(HoldAfter(100_000, gate), key=waited, method="GET", times=1)
    async with asyncio.TaskGroup() as group:
        reading = group.create_task(node.client(0).request("GET", path_of("bucket", waited)))
        await origin.log.wait_for(1, "GET", "GetObject", waited)
        killed = await node.kill_worker(1)
    assert reading.result().body == body
    gate.open()
    await node.wait_restarted(1, killed)

    for worker in (0, 1):
        assert (await node.client(worker).request("GET", path_of("bucket", held))).body == body
    await _hung(origin, node, held)

    # A worker whose socket was removed can't be notified of writes, so it must not go on.
    lost = node.process(1)
    socket_path(node.supervisor.directory, 1).unlink()
    assert await lost.wait_exit() == -signal.SIGKILL
    await node.wait_restarted(1, lost)

    # Worker 1 forwards a write to an object of its own; the origin receives it, and worker 1 dies before the response.
    assert (await node.client(0).request("PUT", path_of("bucket", waited), body=b"new")).status == 200
    gate = Gate()
    origin.faults.add(HoldRequest(gate), key=waited, method="PUT", times=1)
    async with asyncio.TaskGroup() as group:
        writing = group.create_task(_broken(node, waited))
        await origin.log.wait_for(2, "PUT", "PutObject", waited)
        for worker in (0, 1):
            assert (await node.client(worker).request("GET", path_of("bucket", waited))).body == b"new"
        killed = await node.kill_worker(1)
    assert writing.result()
    await node.wait_restarted(1, killed)
    for worker in (0, 1):
        assert (await node.client(worker).request("GET", path_of("bucket", waited))).body == b"new"
    gate.open()  # the origin carries it out later
    await origin.log.wait_idle()
    for worker in (1, 0):  # the live worker's in-doubt write, which it has passed to the new one
        assert (await node.client(worker).request("GET", path_of("bucket", waited))).body == b"lost"


async def _hung(origin: FakeOrigin, node: Node, held: str) -> None:
    """Readers of a hung worker's objects, new and in the middle of a body, are served without it before it is killed. A
    write waits until it is killed, and no longer."""
    body = random.Random(5).randbytes(2 * MIB)
    begun, cold = node.key_owned_by(1, prefix="ever/begun"), node.key_owned_by(1, prefix="ever/cold")
    for key in (begun, cold):
        origin.store.put("bucket", key, body)
    gate = Gate()
    origin.faults.add(HoldAfter(100_000, gate), key=begun, method="GET", times=1)
    async with asyncio.TaskGroup() as group:
        middle = group.create_task(node.client(0).request("GET", path_of("bucket", begun)))
        await origin.log.wait_for(1, "GET", "GetObject", begun)
        hung = node.process(1)
        hung.signal(signal.SIGSTOP)
        write = group.create_task(node.client(0).request("PUT", path_of("bucket", held), body=b"new"))
        fresh = group.create_task(node.client(0).request("GET", path_of("bucket", cold)))
        for reading in (middle, fresh):
            assert (await reading).body == body
            assert hung.exit_code is None
            assert not write.done()
    gate.open()
    assert write.result().status == 200
    assert await hung.wait_exit() == -signal.SIGKILL
    await node.wait_restarted(1, hung)
    assert (await node.client(1).request("GET", path_of("bucket", held))).body == b"new"
    _, metrics = await node.request_admin("GET", "/metrics")
    [missed] = [line for line in metrics.splitlines() if line.startswith("forebay_owner_missed_total ")]
    assert float(missed.rpartition(" ")[2]) >= 2


async def _broken(node: Node, key: str) -> bool:
    """A write through worker 1 that gets no response."""
    with contextlib.suppress(OSError):
        return (await node.client(1).request("PUT", path_of("bucket", key), body=b"lost")).aborted
    return True


ALICE, BOB = Secret("alice", "alice-secret"), Secret("bob", "bob-secret")
ALICE_THERE, BOB_THERE = Secret("alicethere", "alices-own"), Secret("bobthere", "bobs-own")
OWN_CREDENTIALS = "".join(
    f'[[auth.keys]]\nid = "{here.access}"\nsecret = "{here.secret}"\norigin_access_key = "{there.access}"\n'
    f'origin_secret_key = "{there.secret}"\ngrants = [{{ path = "**", allow = ["read"] }}]\n'
    for here, there in ((ALICE, ALICE_THERE), (BOB, BOB_THERE))
)
ANONYMOUS_GRANTS = '[auth.anonymous]\ngrants = [{ path = "**", allow = ["read"] }]\n'


async def _own_credentials(origin: FakeOrigin, node: Node) -> None:
    """Through every worker: each principal's own credentials, bytes once, and no hit where the origin refuses."""
    origin.faults.add(
        FORBIDDEN, where=lambda request: f"Credential={BOB_THERE.access}/" in request.headers.get("Authorization", "")
    )
    for owner in (0, 1):
        key, body = node.key_owned_by(owner, prefix="own/key"), random.Random(owner).randbytes(3 * MIB + owner)
        origin.store.put("bucket", key, body)
        before = origin.log.bytes_sent
        for worker in (1 - owner, owner) * 2:
            answer = await node.client(worker, ALICE).request("GET", path_of("bucket", key))
            assert (answer.status, answer.body == body) == (200, True)
            refused = await node.client(worker, BOB).request("GET", path_of("bucket", key))
            assert refused.status == 403
        assert origin.log.bytes_sent - before <= len(body) * 1.01
        signed = {
            seen.headers["Authorization"].split("Credential=")[1].split("/")[0] for seen in origin.log.matching(key=key)
        }
        assert signed == {ALICE_THERE.access, BOB_THERE.access}


async def _anonymous_clients(origin: FakeOrigin, node: Node) -> None:
    """Through every worker: what the origin gives to anybody, asked unsigned, and no hit of anything else."""
    origin.is_public = lambda asked: (asked.key or "").startswith("public/")
    for owner in (0, 1):
        for prefix, status in (("public/", 200), ("private/", 403)):
            key, body = node.key_owned_by(owner, prefix=prefix), random.Random(owner).randbytes(3 * MIB + owner)
            origin.store.put("bucket", key, body)
            target = path_of("bucket", key)
            if status == 403:
                assert (await node.client(owner).request("GET", target)).body == body
            origin.log.reset()
            for worker in (1 - owner, owner) * 2:
                answer = await node.client(worker).send(RawRequest("GET", target, (("Host", "forebay.test"),)))
                assert (answer.status, answer.body == body) == (status, status == 200)
            assert not any("Authorization" in seen.headers for seen in origin.log.matching(key=key))
            assert origin.log.bytes_sent <= len(body) * 1.01
    origin.is_public = lambda _: False


async def _versions_by_their_id(origin: FakeOrigin, node: Node) -> None:
    """The same for versions that are not the current one."""
    origin.store.create_bucket("versions").versioning = "Enabled"
    for owner in (0, 1):
        key, body = node.key_owned_by(owner, "versions", "key"), random.Random(owner).randbytes(3 * MIB + owner)
        target = path_of("versions", key)
        old = await node.client(0).request("PUT", target, body=body)
        assert (await node.client(1).request("PUT", target, body=b"new")).status == 200
        before = origin.log.bytes_sent
        for worker in (1 - owner, owner):
            by_id = f"{target}?versionId={old.headers['x-amz-version-id']}"
            assert (await node.client(worker).request("GET", by_id)).body == body
            assert (await node.client(worker).request("GET", target)).body == b"new"
        assert origin.log.bytes_sent - before <= len(body) * 1.01


async def _top_rates(origin: FakeOrigin, node: Node) -> None:
    """Bytes that pass through two workers are counted once, and a miss is counted as one through either."""
    keys = [node.key_owned_by(worker, prefix="top") for worker in (0, 1)]

    async def rates_of(*workers: int) -> Rates | None:
        before = (await node.request_admin("GET", "/v1/stats"))[1]
        for worker in workers:
            for key in keys:
                assert (await node.client(worker).request("GET", path_of("bucket", key))).status == 200
        return rates_between(before, (await node.request_admin("GET", "/v1/stats"))[1], 1.0)

    for key in keys:
        origin.store.put("bucket", key, bytes(MIB + 1000))
    cold = Rates(requests=2, errors=0, sent=2 * (MIB + 1000), fetched=2 * (MIB + 1000), hit_ratio=0.0)
    assert await rates_of(0) == cold
    assert await rates_of(0, 1) == cold._replace(requests=4, sent=2 * cold.sent, fetched=0, hit_ratio=1.0)


async def test_admin_port_covers_the_whole_node(tmp_path: Path) -> None:
    """Metrics, purge, sizes, warm-up, and a configuration for all or for none."""
    origin_keys = (DEFAULT_SECRET, ALICE_THERE, BOB_THERE)
    async with (
        FakeOrigin(secrets=origin_keys) as origin,
        Node(origin, tmp_path, rest=OWN_CREDENTIALS + ANONYMOUS_GRANTS + RULES) as node,
    ):
        await _cold_objects(origin, node)
        keys = [f"ever/{number}" for number in range(8)]
        for key in keys:
            origin.store.put("bucket", key, key.encode() * 1000)
        _, job = await node.request_admin("POST", "/v1/jobs", {"bucket": "bucket", "prefix": "ever/"})
        job = await node.wait_job(job["id"])
        assert (job["state"], job["done"], job["failed"]) == ("done", 8, 0)
        assert job["bytes_done"] == sum(len(key) * 1000 for key in keys)
        assert (job["kept"], job["bytes_kept"], job["bytes_in_memory"]) == (8, job["bytes_done"], job["bytes_done"])
        assert job["capacity"] == 64 * MIB
        gets = origin.log.count("GET", "GetObject")
        for worker in (0, 1):
            for key in keys:
                answer = await node.client(worker).request("GET", path_of("bucket", key))
                assert answer.body == key.encode() * 1000
        assert origin.log.count("GET", "GetObject") == gets, "each was warmed where it is read"

        _, metrics = await node.request_admin("GET", "/metrics")
        assert 'forebay_warm_objects_total{result="warmed"} 8.0' in metrics
        requests = [line for line in metrics.splitlines() if line.startswith("forebay_requests_total{")]
        assert sum(float(line.rpartition(" ")[2]) for line in requests) == 24.0 + 16.0
        [capacity] = [line for line in metrics.splitlines() if line.startswith("forebay_tier_capacity_bytes{")]
        assert float(capacity.rpartition(" ")[2]) == 64 * MIB

        # Without a shared tier, the other worker receives no more of a write than a fence.
        for key in keys[:4]:
            for writer, other in ((0, 1), (1, 0)):
                body = f"{key} by {writer}".encode()
                assert (await node.client(writer).request("PUT", path_of("bucket", key), body=body)).status == 200
                assert (await node.client(other).request("GET", path_of("bucket", key))).body == body
        for worker in (0, 1):  # written at the origin, and a client that demands revalidation
            origin.store.put("bucket", keys[4], f"foreign {worker}".encode())
            fresh = [("Cache-Control", "no-cache")]
            answer = await node.client(worker).request("GET", path_of("bucket", keys[4]), fresh)
            assert answer.body == f"foreign {worker}".encode()
        gets = origin.log.count("GET", "GetObject")

        _, purged = await node.request_admin("DELETE", "/v1/cache?bucket=bucket&prefix=ever/")
        assert purged["objects"] == 8
        for worker in (0, 1):
            await node.client(worker).request("GET", path_of("bucket", keys[0]))
        assert origin.log.count("GET", "GetObject") == gets + 1

        await _own_credentials(origin, node)
        await _anonymous_clients(origin, node)
        await _versions_by_their_id(origin, node)

        await _top_rates(origin, node)

        _, resized = await node.request_admin("PUT", "/v1/tiers/memory", {"size": "32MiB"})
        assert (resized["before"], resized["after"]) == (64 * MIB, 32 * MIB)
        await node.supervisor.reload()
        assert (await node.request_admin("GET", "/v1/config"))[1]["memory"]["size"] == 32 * MIB, (
            "the file has not changed"
        )
        killed = await node.kill_worker(0)
        await node.wait_restarted(0, killed)
        _, figures = await node.request_admin("GET", "/v1/stats")
        assert figures["tiers"][0]["capacity"] == 32 * MIB, "also in one that began since"
        assert figures["requests"]["total"] >= 1

        text = node.configuration
        node.configure(text.replace('"reader-secret"', '"other-secret"').replace("64MiB", "48MiB"))
        await node.supervisor.reload()
        assert (await node.request_admin("GET", "/v1/config"))[1]["memory"]["size"] == 48 * MIB
        assert (await node.request_admin("GET", "/v1/stats"))[1]["tiers"][0]["capacity"] == 48 * MIB
        reader = Secret("reader", "reader-secret")
        origin.store.put("bucket", "open/a", b"a")
        for worker in (0, 1):
            assert (await node.client(worker, reader).request("GET", path_of("bucket", "open/a"))).status == 403
        node.configure(text.replace("drain_timeout", "drain_timeouts"))
        await node.supervisor.reload()
        for worker in (0, 1):
            assert (await node.client(worker, reader).request("GET", path_of("bucket", "open/a"))).status == 403
        node.configure(text)
        await node.supervisor.reload()
        for worker in (0, 1):
            assert (await node.client(worker, reader).request("GET", path_of("bucket", "open/a"))).status == 200
        lines = (tmp_path / "access.log").read_text().splitlines()
        assert len([json.loads(line) for line in lines]) >= 1


async def test_a_worker_that_can_not_be_started_ends_the_start(tmp_path: Path) -> None:
    """By its own error, which `serve` prints as a sentence: in a group it would be a traceback."""

    async def refuse(_arguments: Sequence[str], _socket_fd: int | None) -> RunningProcess:
        raise PermissionError(errno.EACCES, "Permission denied")

    async with FakeOrigin() as origin:
        node = Node(origin, tmp_path)
        node.run = refuse
        with pytest.raises(WorkerStartError, match=r"worker \d can't be started: .*Permission denied"):
            await node.__aenter__()
