"""Pack jobs over a rig: the objects that they pack, a job at its end, and one that is held on its way."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp

from harness.clients import RawClient, path_of
from harness.fake.faults import Rule
from harness.fake.gate import Gate
from harness.fake_origin import FakeOrigin
from harness.rig import Rig

RULE = '[[rules]]\npath = "bucket/train/**"\npacked = "packed/**"\nfreshness = "10m"\n'
OBJECTS = {
    f"train/{number:03}/{kind}": bytes([number]) * (1000 * number)
    for number in range(40)
    for kind in ("a.cls", "a.jpg")
}


def rig_of(origin: Any, directory: Path, **settings: Any) -> Rig:
    return Rig(origin.endpoint, origin.secret, directory, rest=RULE, **settings)


def fill(origin: FakeOrigin, objects: dict[str, bytes] = OBJECTS) -> None:
    for key, content in objects.items():
        origin.store.put("bucket", key, content, content_type="image/jpeg", x_amz_meta_label="cat")


async def run_job(rig: Rig, state: str = "done", **fields: Any) -> dict[str, Any]:
    """A pack job, at its end."""
    order = {"bucket": "bucket", "prefix": "train/", "shard_size": "1MiB"} | fields
    async with aiohttp.ClientSession() as session:
        async with session.post(f"{rig.admin}/v1/packs", json=order) as answer:
            assert answer.status == 201, await answer.text()
            job = (await answer.json())["id"]
        await rig.parts.jobs.warm_ups.wait(job)
        async with session.get(f"{rig.admin}/v1/jobs/{job}") as answer:
            found: dict[str, Any] = await answer.json()
    assert found["state"] == state, found
    return found


async def body(client: RawClient, key: str) -> bytes:
    answer = await client.request("GET", path_of("bucket", key))
    assert answer.status == 200, answer.body
    return answer.body


def stored(origin: FakeOrigin, suffix: str) -> dict[str, bytes]:
    """The objects at the origin whose keys end so."""
    found = {key: versions[-1] for key, versions in origin.store.buckets["bucket"].versions.items()}
    return {key: b"".join(each.content.views(0, each.size)) for key, each in found.items() if key.endswith(suffix)}


@asynccontextmanager
async def held_job(rig: Rig, origin: FakeOrigin, gate: Gate, held: Rule, **order: Any) -> AsyncIterator[None]:
    """Within: a pack job that waits at `gate`, by the fault `held`. Behind: the job is done, and nothing has failed."""
    order = {"bucket": "bucket", "prefix": "train/"} | order
    async with aiohttp.ClientSession() as session, session.post(f"{rig.admin}/v1/packs", json=order) as answer:
        job = (await answer.json())["id"]
    await gate.reached()
    yield
    gate.open()
    await rig.parts.jobs.warm_ups.wait(job)
    origin.faults.remove(held)
    found = rig.parts.jobs.warm_ups.job(job)
    assert found is not None
    assert (found.state, found.failed) == ("done", 0), found.reason
