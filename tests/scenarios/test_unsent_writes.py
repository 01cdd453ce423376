"""A write that can have had no effect has none: what is cached stays, and nothing is in doubt."""

from pathlib import Path
from typing import Any

import pytest

from harness.clients import path_of
from harness.fake import actions
from harness.fake_origin import FakeOrigin
from harness.inspection import cache_status
from harness.rig import Rig

PATH = path_of("bucket", "key")
IMMUTABLE = '[[rules]]\npath = "**"\nfreshness = "immutable"\n'
BATCH = b"<Delete><Object><Key>key</Key></Object></Delete>"
WRITES: dict[str, tuple[Any, ...]] = {
    "PutObject": ("PUT", PATH, (), b"other"),
    "an empty PutObject": ("PUT", PATH, (), b""),
    "CopyObject": ("PUT", PATH, (("x-amz-copy-source", "/bucket/another"),), b""),
    "DeleteObject": ("DELETE", PATH, (), b""),
    "DeleteObjects": ("POST", "/bucket?delete", (), BATCH),
    "CompleteMultipartUpload": ("POST", f"{PATH}?uploadId=1", (), b"<CompleteMultipartUpload/>"),
    "DeleteBucket": ("DELETE", "/bucket", (), b""),
}


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES.keys())
async def test_a_write_that_was_not_sent_forgets_nothing(tmp_path: Path, write: tuple[Any, ...]) -> None:
    async with (
        FakeOrigin() as origin,
        Rig(origin.endpoint, origin.secret, tmp_path, ssd="64MiB", rest=IMMUTABLE) as rig,
    ):
        origin.store.put("bucket", "key", b"content")
        client, breaker = rig.client(), rig.parts.origins.of(None).breaker
        assert await rig.parts.origins.of(
            None
        ).probe()  # the one at the start has ended: it would be taken for the next
        assert (await client.request("GET", PATH)).body == b"content"
        await origin.refuse()
        origin.disconnect(idle_only=False)
        assert not await rig.parts.origins.of(None).probe()  # and idle connections have been seen to end
        refused = await client.request(*write)
        for _ in range(10):
            breaker.failed()
        assert not breaker.admit()
        shut = await client.request(*write)
        assert (refused.status, shut.status) == (503, 503)
        assert cache_status(await client.request("GET", PATH)) == (200, "hit-memory")
        await origin.listen()
        assert await rig.parts.origins.of(None).probe()
        await rig.restart()
        assert cache_status(await rig.client().request("GET", PATH)) == (200, "hit-ssd")


async def test_a_body_that_was_refused_forgets_nothing(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, rest=IMMUTABLE) as rig:
        origin.store.put("bucket", "key", b"content")
        client = rig.client()
        assert (await client.request("GET", PATH)).body == b"content"
        assert (await client.request("PUT", PATH, (), b"other", payload="0" * 64)).status == 400
        assert cache_status(await client.request("GET", PATH)) == (200, "hit-memory")


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES.keys())
async def test_a_write_that_lost_its_answer_is_in_doubt(tmp_path: Path, write: tuple[Any, ...]) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, rest=IMMUTABLE) as rig:
        origin.store.put("bucket", "key", b"content")
        client = rig.client()
        assert (await client.request("GET", PATH)).body == b"content"
        origin.faults.add(actions.Drop(reset=True), method=write[0], times=1)
        assert (await client.request(*write)).status == 503
        caches = [cache_status(await client.request("GET", PATH)) for _ in range(2)]
        assert caches == [(200, "miss"), (200, "revalidated")]
