"""A rig with objects to plan: plans that are sent and shown over the data port, and reads that follow them."""

import hashlib
import json
import struct
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from harness.clients import path_of
from harness.fake_origin import FakeOrigin
from harness.inspection import run_loop_until
from harness.raw_connection import RawAnswer
from harness.rig import TRAINER, Rig

SIZE = 20_000
KEYS = [f"open/{number:03}" for number in range(60)]
IMMUTABLE = '[[rules]]\npath = "**"\nfreshness = "immutable"\n'


@asynccontextmanager
async def rig_with_data(
    tmp_path: Path, keys: Sequence[str] = KEYS, **settings: Any
) -> AsyncIterator[tuple[FakeOrigin, Rig]]:
    settings = {"rest": IMMUTABLE, **settings}
    async with FakeOrigin() as origin:
        for key in keys:
            origin.store.put_synthetic("b", key, SIZE)
        async with Rig(origin.endpoint, origin.secret, tmp_path, **settings) as rig:
            yield origin, rig


def text(keys: Sequence[str]) -> bytes:
    return "".join(f"{key}\n" for key in keys).encode()


async def send(rig: Rig, keys: Sequence[str], name: str = "order", secret: Any = TRAINER) -> RawAnswer:
    answer = await rig.client(secret).request("PUT", path_of("b", f".forebay/plans/{name}"), (), text(keys))
    assert answer.status == 200, answer.body
    return answer


async def send_compact(rig: Rig, keys: Sequence[str], order: Sequence[int], name: str = "order") -> None:
    digest = hashlib.sha256(text(keys)).hexdigest()
    listed = await rig.client().request("PUT", path_of("b", f".forebay/plans/keys/{digest}"), (), text(keys))
    body = b"FBPLAN1\n" + bytes.fromhex(digest) + struct.pack(f"<II{len(order)}I", 0, len(order), *order)
    answer = await rig.client().request("PUT", path_of("b", f".forebay/plans/{name}"), (), body)
    assert (listed.status, answer.status) == (200, 200), answer.body


async def progress(rig: Rig, name: str = "order", secret: Any = TRAINER) -> dict[str, Any]:
    answer = await rig.client(secret).request("GET", path_of("b", f".forebay/plans/{name}"))
    return dict(json.loads(answer.body)) if answer.status == 200 else {}


async def until(rig: Rig, condition: Callable[[dict[str, Any]], bool], name: str = "order") -> dict[str, Any]:
    """The progress of a plan, once it meets the condition."""

    def meets() -> bool:
        found = [plan for plan in rig.parts.jobs.plans.coordinator.plans() if plan.name == name]
        return bool(found) and condition({field: getattr(found[0], field) for field in found[0].__slots__})

    await run_loop_until(meets)
    return await progress(rig, name)


async def read(rig: Rig, keys: Sequence[str], size: int = SIZE) -> list[str]:
    """Reads the objects one after another, and returns their cache statuses."""
    found = []
    for key in keys:
        answer = await rig.client().request("GET", path_of("b", key))
        assert (answer.status, len(answer.body)) == (200, size)
        found.append(answer.headers["x-forebay-cache"])
    return found
