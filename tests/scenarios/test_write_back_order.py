"""The order at the origin, under concurrent clients and faults: what a client saw acknowledged is there before what it
sent afterwards, at every moment.

Each write can be told from every other: a PUT by its content, a DELETE by its key. The origin records what changes.
"""

import asyncio
import itertools
import time
from pathlib import Path
from random import Random

import pytest

from harness.clients import path_of
from harness.fake.actions import LoseAnswer, Respond
from harness.fake_origin import FakeOrigin
from harness.origin_history import AcknowledgedWrite, RecordingStore, check_history
from harness.rig import Rig

CLIENTS = 4
WRITES = 12
KEYS = [f"a/{nth}" for nth in range(4)]
RULES = '[journal]\npath = "{path}"\nsize = "64MiB"\n\n[[rules]]\npath = "ckpt/**"\nwrite = "back"\n'


@pytest.mark.parametrize("faulty", [False, True], ids=["sound", "faulty"])
@pytest.mark.parametrize("seed", range(4))
async def test_every_prefix_of_the_history_is_allowed(tmp_path: Path, seed: int, faulty: bool) -> None:
    random, numbers = Random(seed), itertools.count()
    acknowledged: list[AcknowledgedWrite] = []
    store = RecordingStore()
    async with FakeOrigin() as origin:
        origin.store = store
        rules = RULES.format(path=tmp_path / "journal")
        async with Rig(origin.endpoint, origin.secret, tmp_path / "rig", rest=rules) as rig:
            store.create_bucket("ckpt")
            for method in ("PUT", "DELETE"):
                assert (await rig.client().request(method, path_of("ckpt", "a/proof"))).status in {200, 204}
            for nth in range(CLIENTS * WRITES):
                store.put("ckpt", f"a/old-{nth}", b"old")
            store.history.clear()
            if faulty:
                origin.faults.add(Respond(503, "SlowDown"), where=lambda _: random.random() < 0.2)
                origin.faults.add(LoseAnswer(), where=lambda request: random.random() < 0.1)

            async def client(choice: Random) -> None:
                for _ in range(WRITES):
                    number = next(numbers)
                    effect: tuple[str, bytes | None] = (choice.choice(KEYS), b"%d" % number)
                    if choice.random() < 0.25:
                        effect = (f"a/old-{number}", None)
                    began, path = time.monotonic(), path_of("ckpt", effect[0])
                    answer = await rig.client().request("PUT" if effect[1] else "DELETE", path, (), effect[1] or b"")
                    assert answer.headers["x-forebay-durable"] == "local", answer
                    acknowledged.append(AcknowledgedWrite(effect, began, time.monotonic()))

            await asyncio.gather(*(client(Random(f"{seed}/{nth}")) for nth in range(CLIENTS)))
            assert rig.parts.write_back is not None
            await rig.parts.write_back.pending.wait_settled(lambda _: True)
    check_history(acknowledged, store.history)
