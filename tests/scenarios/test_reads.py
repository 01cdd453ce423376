"""Reads, end to end: what a client gets of an object, cold and warm, over a socket."""

from pathlib import Path

from harness.clients import path_of
from harness.fake_origin import FakeOrigin
from harness.rig import Rig


async def test_a_whole_object_cold_then_warm(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path) as rig:
        origin.store.put("bucket", "key", b"content" * 1000)
        for cache in ("miss", "hit-memory"):
            answer = await rig.client().request("GET", path_of("bucket", "key"))
            assert (answer.status, answer.headers["x-forebay-cache"]) == (200, cache)
            assert answer.body == b"content" * 1000
        assert origin.log.count("GET", key="key") == 1
