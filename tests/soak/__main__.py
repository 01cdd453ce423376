"""A soak: many clients at once, for as long as is wished, with an origin that fails now and then and a cache that is
too small, damaged, emptied and resized meanwhile; with several workers, these are killed and stopped as well.

    PYTHONPATH=proxy:client:tests python -m soak [SECONDS] [SEED, 0 for any] [WORKERS] [ORIGIN: s3 or oss]

Each answer is held against what may be answered (soak.oracle). At the end nothing is left behind (no flight, no buffer,
no task), and every worker answers with what the origin has. Prints what was done.
"""

import asyncio
import random
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import uvloop

from forebay.server.event_loop import detaching_loop
from harness.clients import path_of
from harness.fake.actions import FORBIDDEN
from harness.fake_origin import FakeOrigin
from harness.oss_origin import OssOrigin
from soak.clients import SoakClient
from soak.configuration import BOB_THERE, BUCKET, CLIENTS, VERSIONED, all_keys
from soak.oracle import NOTHING, ObservedStore, Oracle, Snapshot
from soak.several_workers import SeveralWorkers
from soak.single_worker import SingleWorker

ORIGINS: Final[Mapping[str, type[FakeOrigin]]] = {"s3": FakeOrigin, "oss": OssOrigin}


async def soak(seconds: float, seed: int, workers: int, kind: type[FakeOrigin]) -> None:
    oracle = Oracle()
    with tempfile.TemporaryDirectory() as temporary:
        async with kind(verify=False, keep_log=False) as origin:
            origin.store = ObservedStore(oracle, BUCKET)
            origin.store.create_bucket(BUCKET)
            origin.store.create_bucket(VERSIONED).versioning = "Enabled"
            bob = f"Credential={BOB_THERE.access}/"
            origin.faults.add(FORBIDDEN, where=lambda asked: bob in asked.headers.get("Authorization", ""))
            directory = Path(temporary)
            node = (
                SeveralWorkers(origin, directory, oracle, workers)
                if workers > 1
                else SingleWorker(origin, directory, oracle)
            )
            await node.start()
            deadline = time.monotonic() + seconds
            async with asyncio.TaskGroup() as group:
                group.create_task(disturb(node, seed, deadline))
                for number in range(CLIENTS):
                    client = SoakClient(node, oracle, number, random.Random(f"{seed}/{number}"))
                    group.create_task(client.run(deadline))
            await node.wait_idle()
            del origin.faults.rules[1:]
            await verify_all_keys(node, oracle)
            await node.stop()
    for what, count in sorted(oracle.done.items()):
        print(f"{count:9d}  {what}")  # noqa: T201 - a command's output
    print("nothing wrong, nothing left behind")  # noqa: T201 - likewise


async def disturb(node: SingleWorker | SeveralWorkers, seed: int, deadline: float) -> None:
    rng = random.Random(seed)
    while time.monotonic() < deadline:
        await asyncio.sleep(0.2)
        await node.disturb(rng)


async def verify_all_keys(node: SingleWorker | SeveralWorkers, oracle: Oracle) -> None:
    """When all is quiet, every worker answers with what the origin has."""
    for key in all_keys():
        for client in node.worker_clients():
            answer = await client.request("GET", path_of(BUCKET, key))
            if answer.status == 404:
                assert oracle.current_version(key) == NOTHING, f"{key}: the origin has it"
            else:
                oracle.verify_body(key, Snapshot(len(oracle.keys[key].states) - 1, oracle.damages), answer, 0)
            oracle.done["compared at the end"] += 1


def main() -> None:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 60.0
    seed = (int(sys.argv[2]) if len(sys.argv) > 2 else 0) or random.randrange(1 << 32)
    workers = int(sys.argv[3]) if len(sys.argv) > 3 else 1
    origin = sys.argv[4] if len(sys.argv) > 4 else "s3"
    print(f"{seconds:g} s, seed {seed}, workers {workers}, origin {origin}", flush=True)  # noqa: T201 - likewise
    # The clients' sockets are connected before the loop takes them over: plain uvloop may mix up their descriptors.
    with asyncio.Runner(loop_factory=detaching_loop(uvloop.Loop)) as runner:
        runner.run(soak(seconds, seed, workers, ORIGINS[origin]))


if __name__ == "__main__":
    main()
