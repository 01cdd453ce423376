"""The order at the origin, under concurrent clients and faults: what a client saw acknowledged is there before what it
sent afterwards, at every moment; and what is found too late changes nothing.

Each write can be told from every other: a PUT by its content, a DELETE by its key. The origin records what changes.
"""

import asyncio
import itertools
import time
from hashlib import md5
from pathlib import Path
from random import Random

import pytest

from forebay.core.names import ObjectName
from forebay.policy.drain_order import WriteInterval
from forebay.write.back.accept.record_writer import facts_of
from forebay.write.back.pending.accepted_write import AcceptedWrite
from harness.clients import path_of
from harness.fake.actions import LoseAnswer, Respond
from harness.fake_origin import FakeOrigin
from harness.origin_history import AcknowledgedWrite, RecordingStore, check_history
from harness.rig import Rig

CLIENTS = 4
WRITES = 12
KEYS = [f"a/{nth}" for nth in range(4)]
RULES = '[journal]\npath = "{path}"\nsize = "64MiB"\n\n[[rules]]\npath = "ckpt/**"\nwrite = "back"\n'


@pytest.mark.parametrize(
    ("seed", "faulty"),
    [
        *((seed, False) for seed in range(4)),
        (0, True),
        *(pytest.param(seed, True, marks=pytest.mark.long) for seed in range(1, 4)),
    ],
)
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
            assert rig.parts.writes.write_back is not None
            await rig.parts.writes.write_back.pending.wait_settled(lambda _: True)
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
            await rig.parts.writes.write_back.pending.wait_settled(lambda _: True)
    check_history(acknowledged, store.history)


@pytest.mark.parametrize("restarted", [False, True], ids=["running", "restarted"])
async def test_a_record_found_late_does_not_replace_a_later_write(tmp_path: Path, restarted: bool) -> None:
    """As of a worker that was killed when its record was durable, and no other worker knew of it."""
    rules, name = RULES.format(path=tmp_path / "journal"), ObjectName("ckpt", "a/tracker")
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path / "rig", rest=rules) as rig:
        origin.store.create_bucket("ckpt")
        client, path = rig.client(), path_of(*name)
        assert (await client.request("PUT", path_of("ckpt", "a/proof"))).status == 200
        write_back = rig.parts.writes.write_back
        assert write_back is not None
        began, written = write_back.journal.stamp(), write_back.journal.stamp()
        for step in (b"100", b"200"):
            assert (await client.request("PUT", path, (), step)).headers["x-forebay-durable"] == "local"
        await write_back.pending.wait_settled(lambda _: True)
        facts = facts_of(f'"{md5(b"100", usedforsecurity=False).hexdigest()}"', 3, 0.0, ())
        late = AcceptedWrite("put", name, WriteInterval(began, written), facts=facts, block_size=1 << 20)
        await write_back.journal.append({**late.document(), **write_back.record_origins.named("ckpt")}, b"100")
        if restarted:
            await rig.restart()
            write_back = rig.parts.writes.write_back
            assert write_back is not None
        else:
            await write_back.watch.receive_scan()
        assert (await rig.client().request("GET", path)).body == b"200"
        while (await write_back.journal.scan()).pending:  # noqa: ASYNC110 # being settled has no event
            await asyncio.sleep(0)
        found = origin.store.current(*name)
        assert found is not None
        assert b"".join(found.content.views(0, found.content.size)) == b"200"
