"""A soak: many clients at once, for as long as is wished, with an origin that fails now and then and a cache that is
too small, damaged, emptied and resized meanwhile; with several workers, these are killed and stopped as well.

    PYTHONPATH=proxy:client:tests python -m soak [SECONDS] [SEED, 0 for any] [WORKERS] [ORIGIN: s3 or oss] [SWITCH ...]

The switches are those of soak.switches.

Each answer is held against what may be answered (soak.oracle). At the end nothing is left behind (no flight, no buffer,
no task), and every worker answers with what the origin has. Prints what was done.
"""

import asyncio
import contextlib
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
from soak.data_bucket import DATA, EPOCH_KEYS, EPOCH_SIZE, MEMBER_SIZE, packed_keys
from soak.data_clients import DataClients
from soak.final_state import (
    end_plans_and_uploads,
    flush,
    verify_data,
    verify_gauges,
    verify_journal,
    verify_no_process,
)
from soak.foreign_bucket import FOREIGN
from soak.foreign_clients import run_foreign
from soak.foreign_history import ForeignHistory
from soak.operators import Operators
from soak.oracle import NOTHING, Oracle, Snapshot
from soak.several_workers import SeveralWorkers
from soak.single_worker import SingleWorker
from soak.switches import Switches
from soak.upper_forebay import UpperForebay
from soak.witnesses import report
from soak.write_history import DataStore, WriteHistory

ORIGINS: Final[Mapping[str, type[FakeOrigin]]] = {"s3": FakeOrigin, "oss": OssOrigin}

BETWEEN_RESTARTS: Final = 60.0
"""Seconds between two restarts of the whole node, on the average."""
BETWEEN_KILLS: Final = 20.0
"""Likewise, where the restarts are kills."""


async def soak(seconds: float, seed: int, workers: int, kind: type[FakeOrigin], switches: Switches) -> None:
    oracle = Oracle()
    history = WriteHistory(oracle)
    is_alone = workers == 1 and not switches.kills
    foreign = ForeignHistory(oracle, is_monotonic=is_alone)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as temporary:
        async with kind(verify=False, keep_log=False) as origin:
            fill(origin, oracle, history, foreign)
            directory = Path(temporary)
            upper = UpperForebay(origin, directory) if switches.levels else None
            if upper is not None:
                await upper.start()
            node = (
                SingleWorker(upper or origin, directory, oracle, switches)
                if is_alone
                else SeveralWorkers(upper or origin, directory, oracle, workers, switches)
            )
            await node.start()
            try:
                operators = await run_clients(node, origin, oracle, history, foreign, seconds, seed, switches)
                await verify_end(node, origin, oracle, history, foreign, operators)
            except BaseException as error:
                for line in await report(error, node.worker_clients(), origin):
                    print(line)
                with contextlib.suppress(AssertionError):  # what was wrong first is told
                    await node.stop()
                raise
            await node.stop()
            if upper is not None:
                await upper.stop()
            verify_journal(directory / "journal")
            verify_no_process()
    for what, count in sorted(oracle.done.items()):
        print(f"{count:9d}  {what}")
    print("nothing wrong, nothing left behind")


async def run_clients(
    node: SingleWorker | SeveralWorkers,
    origin: FakeOrigin,
    oracle: Oracle,
    history: WriteHistory,
    foreign: ForeignHistory,
    seconds: float,
    seed: int,
    switches: Switches,
) -> Operators:
    """All that happens at the same time."""
    rng = random.Random(seed)
    operators = Operators(origin.faults, node.configuration, node.request_admin, history, foreign, rng)
    await operators.pack()
    deadline = time.monotonic() + seconds
    async with asyncio.TaskGroup() as group:
        group.create_task(
            disturb(node, operators, history, rng, deadline, BETWEEN_KILLS if switches.kills else BETWEEN_RESTARTS)
        )
        group.create_task(DataClients(node, node.socket, oracle, history, seed).run(deadline))
        if switches.foreign:
            group.create_task(run_foreign(node, origin.store, oracle, foreign, seed, deadline))
        for number in range(3 if switches.few else CLIENTS):
            client = SoakClient(node, oracle, number, random.Random(f"{seed}/{number}"))
            group.create_task(client.run(deadline))
    await operators.end()
    await node.end_disturbances()
    return operators


async def verify_end(
    node: SingleWorker | SeveralWorkers,
    origin: FakeOrigin,
    oracle: Oracle,
    history: WriteHistory,
    foreign: ForeignHistory,
    operators: Operators,
) -> None:
    """When all is quiet, the origin has what was acknowledged, everybody reads it, and nothing is held."""
    del origin.faults.rules[1:]
    await flush(node.request_admin, DATA)
    await flush(node.request_admin, FOREIGN, operators.end_conflicts)
    foreign.verify_arrived()
    await end_plans_and_uploads(node.request_admin, node.worker_clients()[0])
    await verify_gauges(node.request_admin)
    await node.wait_idle()
    await verify_all_keys(node, oracle)
    await verify_data(origin, history, node.worker_clients())
    await node.restart(is_last=True)  # a start removes what kills have left in the journal
    await verify_data(origin, history, node.worker_clients())


def fill(origin: FakeOrigin, oracle: Oracle, history: WriteHistory, foreign: ForeignHistory) -> None:
    """The buckets, what is in them before anybody writes, and whom the origin refuses."""
    origin.store = DataStore(oracle, BUCKET, history, foreign)
    origin.store.create_bucket(FOREIGN)
    origin.store.create_bucket(BUCKET)
    origin.store.create_bucket(VERSIONED).versioning = "Enabled"
    for key in packed_keys():
        origin.store.put(DATA, key, history.preload(key, MEMBER_SIZE))
    for key in EPOCH_KEYS:
        origin.store.put(DATA, key, history.preload(key, EPOCH_SIZE))
    bob = f"Credential={BOB_THERE.access}/"
    origin.faults.add(FORBIDDEN, where=lambda asked: bob in asked.headers.get("Authorization", ""))


async def disturb(
    node: SingleWorker | SeveralWorkers,
    operators: Operators,
    history: WriteHistory,
    rng: random.Random,
    deadline: float,
    between: float,
) -> None:
    restart_at = time.monotonic() + between * rng.uniform(0.3, 1.3)
    while time.monotonic() < deadline:
        await asyncio.sleep(0.2)
        await node.disturb(rng)
        await operators.disturb()
        assert not history.violations, history.violations
        if time.monotonic() >= restart_at:
            await node.restart()
            restart_at = time.monotonic() + between * rng.uniform(0.7, 1.3)


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
    switches = Switches.named(sys.argv[5:])
    print(f"{seconds:g} s, seed {seed}, workers {workers}, origin {origin}, switches: {switches}", flush=True)
    # The clients' sockets are connected before the loop takes them over: plain uvloop may mix up their descriptors.
    with asyncio.Runner(loop_factory=detaching_loop(uvloop.Loop)) as runner:
        runner.run(soak(seconds, seed, workers, ORIGINS[origin], switches))


if __name__ == "__main__":
    main()
