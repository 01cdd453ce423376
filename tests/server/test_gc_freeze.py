"""What lives long leaves no cycles behind, so that what stays may be set aside from the collector of cycles."""

import asyncio
import gc
import os
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from forebay.server.event_loop import loop_factory
from forebay.server.gc_freeze import freeze_long_lived
from harness.clients import path_of
from harness.fake_origin import FakeOrigin
from harness.reference_sigv4 import Secret
from harness.rig import TRAINER, Rig
from harness.served import PATHS


@contextmanager
def cycles() -> Iterator[Counter[str]]:
    """What was left in cycles, by type, once the block has ended."""
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
import gc, sys
from forebay.server.gc_freeze import freeze_long_lived
from forebay.server.event_loop import loop_factory
from forebay.server.startup import pause_collector
full, begun = [], []
gc.callbacks.append(lambda phase, told: full.append(told) if phase == "start" and told["generation"] == 2 else None)
gc.callbacks.append(lambda phase, told: begun.append(told))
pause_collector()
started = [[number] for number in range(10_000)]
freeze_long_lived(loop_factory()())
print(gc.isenabled() and not begun)
kept = [[number] for number in range(300_000)]
print(gc.get_freeze_count() > 250_000, len(gc.get_objects()) < 50_000, len(full) > 10)
"""


async def test_what_has_outlived_a_start_or_a_full_collection_is_not_looked_through_again() -> None:
    """In a process of its own, as it is for a whole process."""
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-c", PROGRAM, stdout=asyncio.subprocess.PIPE, env={**os.environ, "PYTHONPATH": PATHS}
    )
    out, _ = await child.communicate()
    assert (child.returncode, out.split()) == (0, [b"True"] * 4)


def test_where_connections_end_as_cycles_nothing_is_set_aside() -> None:
    loop = asyncio.new_event_loop()
    try:
        freeze_long_lived(loop)
        assert gc.get_freeze_count() == 0
    finally:
        loop.close()
