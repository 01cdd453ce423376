"""One object whose reads break their connections: what becomes of everybody else's reads."""

import asyncio
from pathlib import Path

from harness.clients import path_of
from harness.fake import actions
from harness.fake_origin import FakeOrigin
from harness.inspection import run_loop_until
from harness.rig import Rig

READS = 154


async def test_a_poison_object_never_shuts_others_off(tmp_path: Path) -> None:
    """Four clients in a loop on an object that breaks every connection, while another reads cold objects."""
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path) as rig:
        origin.store.put("b", "poison", b"never seen")
        for number in range(READS):
            origin.store.put("b", f"fine/{number}", b"fine")
        origin.faults.add(actions.Drop(reset=True), key="poison")
        stop = asyncio.Event()

        async def read_poison() -> None:
            while not stop.is_set():
                answer = await rig.client().request("GET", path_of("b", "poison"))
                assert answer.status == 503

        async with asyncio.TaskGroup() as group:
            for _ in range(4):
                group.create_task(read_poison())
            await run_loop_until(lambda: origin.log.count("GET", key="poison") >= 24)
            statuses = []
            for number in range(READS):
                answer = await rig.client().request("GET", path_of("b", f"fine/{number}"))
                statuses.append(answer.status)
            stop.set()
    assert statuses.count(503) == 0, statuses.count(503)
    assert set(statuses) == {200}
