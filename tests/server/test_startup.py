"""What a process imports as it starts, and what the collector of cycles does in it.

Each kind of process runs in an interpreter of its own. The modules listed as absent were measured to cost something
(docs/performance.md, Start), or belong to another kind of process.
"""

import asyncio
import gc
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from forebay.server.event_loop import loop_factory
from forebay.server.startup import freeze_long_lived
from harness.certificates import TestAuthority
from harness.clients import path_of
from harness.fake_origin import FakeOrigin
from harness.forebay_process import PATHS
from harness.reference_sigv4 import Secret
from harness.rig import TRAINER, Rig

SUPERVISOR = ("forebay.main", "forebay.serve", "forebay.workers.supervisor")
ONLY_WORKER = ("forebay.main", "forebay.serve", "forebay.server.worker")
MEMBER = ("forebay.workers.worker_main", "forebay.workers.node_worker")

NOT_IN_A_SUPERVISOR = {"aiohttp", "lmdb", "fastcrc", "uvloop", "cachetools", "yarl"} | {
    f"forebay.{room}"
    for room in (
        *("protocol", "policy", "metadata", "fetch", "write", "request", "jobs", "storage.memory", "storage.ssd"),
        *("server.worker", "server.composition"),
    )
}
NOT_AT_START = {"forebay_demo", "awscrt", "botocore", "aiobotocore", "boto3", "rich", "swift"}
"""Imported by no process as it starts."""
ONLY_WHERE_CONFIGURED = {"forebay.write.back", "forebay.storage.journal.journal", "forebay.storage.ssd.ssd_tier"}
"""Rooms that a setting turns on: write-back and its journal, the SSD tier."""


def output_of(program: str, **environ: str) -> Any:
    """The JSON that a program prints in a fresh interpreter."""
    ran = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": PATHS, **environ},
        capture_output=True,
        check=True,
        text=True,
    )
    return json.loads(ran.stdout)


@pytest.mark.parametrize(
    ("modules", "absent"),
    [
        (SUPERVISOR, NOT_AT_START | NOT_IN_A_SUPERVISOR),
        (
            ONLY_WORKER,
            NOT_AT_START | ONLY_WHERE_CONFIGURED | {"forebay.workers.supervisor", "forebay.workers.worker_pool"},
        ),
        (MEMBER, NOT_AT_START | ONLY_WHERE_CONFIGURED | {"forebay.workers.supervisor", "forebay.serve"}),
    ],
    ids=["supervisor", "only worker", "worker among several"],
)
def test_a_process_imports_its_own_parts_only(modules: tuple[str, ...], absent: set[str]) -> None:
    found = output_of(f"import json, sys, {', '.join(modules)}\nprint(json.dumps(sorted(sys.modules)))")
    assert set(modules) <= set(found)
    assert set(found) & absent == set()


def test_only_connections_to_an_origin_read_certificates(tmp_path: Path) -> None:
    system = TestAuthority(tmp_path).file  # in place of the system's
    program = (
        "import json, os\n"
        "from forebay.server.startup import import_aiohttp\n"
        "import_aiohttp()\n"
        "from aiohttp import connector\n"
        "from forebay.origin.http.origin_tls import tls_context\n"
        "contexts = connector._SSL_CONTEXT_VERIFIED, connector._SSL_CONTEXT_UNVERIFIED, tls_context(None)\n"
        "known = [each.cert_store_stats()['x509_ca'] for each in contexts]\n"
        "print(json.dumps([known, os.environ['SSL_CERT_FILE']]))"
    )
    assert output_of(program, SSL_CERT_FILE=str(system)) == [[0, 0, 1], str(system)]


# The collector of cycles


@contextmanager
def cycles() -> Iterator[Counter[str]]:
    """Objects left in cycles by the block, counted by type."""
    found: Counter[str] = Counter()
    gc.collect()
    gc.disable()
    try:
        yield found
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        found.update(f"{type(each).__module__}.{type(each).__qualname__}" for each in gc.garbage)
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()


def test_requests_and_connections_leave_no_cycles(tmp_path: Path) -> None:
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(_requests_of_all_kinds(tmp_path))


async def _requests_of_all_kinds(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, ssd="64MiB") as rig:
        origin.store.put("b", "large", b"y" * (5 << 20))
        for number in range(20):
            origin.store.put("b", f"small/{number}", b"x" * 5000)
        client, stranger = rig.client(), rig.client(Secret(TRAINER.access, "wrong"))
        for _ in range(2):  # the second time nothing is made for the first time
            with cycles() as left:
                for target in (
                    *(path_of("b", f"small/{number}") for number in range(20)),
                    *[path_of("b", "large")] * 4,
                    path_of("b", "none"),
                    "/b?list-type=2",
                ):
                    await client.request("GET", target)  # each on a connection of its own
                    await client.request("GET", target, [("Range", "bytes=4000-5999999")])
                    await stranger.request("GET", target)
                await client.request("PUT", path_of("b", "new"), body=b"z" * 9000)
                await client.request("GET", path_of("b", "new"))
                await client.request("DELETE", path_of("b", "new"))
                async with await client.open() as broken:
                    await broken.send(client.sign("GET", path_of("b", "large")).wire[:-9])
        assert not left


PROGRAM = """
import gc, json
from forebay.server.startup import freeze_long_lived
from forebay.server.event_loop import loop_factory
from forebay.server.startup import pause_collector
full, begun = [], []
gc.callbacks.append(lambda phase, info: full.append(info) if phase == "start" and info["generation"] == 2 else None)
gc.callbacks.append(lambda phase, info: begun.append(info))
pause_collector()
started = [[number] for number in range(10_000)]
freeze_long_lived(loop_factory()())
resumed = gc.isenabled() and not begun
kept = [[number] for number in range(300_000)]
print(json.dumps([resumed, gc.get_freeze_count() > 250_000, len(gc.get_objects()) < 50_000, len(full) > 10]))
"""


def test_survivors_of_start_and_of_full_collections_are_not_scanned() -> None:
    assert output_of(PROGRAM) == [True] * 4


def test_nothing_is_frozen_under_asyncios_own_loop() -> None:
    loop, before = asyncio.new_event_loop(), gc.get_freeze_count()
    try:
        freeze_long_lived(loop)
        assert gc.get_freeze_count() <= before  # fewer: something frozen is gone
    finally:
        loop.close()
