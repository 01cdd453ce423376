"""The admin port's verbs about recordings, on a worker that serves."""

from base64 import b64decode, b64encode
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from forebay.core.events import RecordedRead
from forebay.jobs.state.inventory import InventoryEntry
from harness.clients import path_of
from harness.fake_origin import FakeOrigin
from harness.loader_orders import sample_keys
from harness.recording_content import keys_in, recording_of
from harness.rig import Rig
from harness.worker_node import request_admin

KEYS = sample_keys(60)
READS = [*(RecordedRead(key, 0, 1000, True) for key in KEYS[:40]), RecordedRead("large", 1 << 20, 1 << 20, False)]


class RecordingRig:
    def __init__(self, origin: FakeOrigin, rig: Rig) -> None:
        self.origin = origin
        self.rig = rig

    async def call(self, method: str, path: str, body: object = None, **query: str) -> tuple[int, Any]:
        async with (
            aiohttp.ClientSession() as session,
            session.request(method, f"{self.rig.admin}/v1/recordings{path}", json=body or {}, params=query) as answer,
        ):
            return answer.status, await answer.json()

    async def send(self, name: str, content: bytes) -> tuple[int, Any]:
        return await self.call("PUT", f"/bucket/{name}", {"content": b64encode(content).decode()})


@pytest.fixture
async def running(tmp_path: Path) -> AsyncIterator[RecordingRig]:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path) as rig:
        for key in KEYS:
            origin.store.put("bucket", key, bytes(1000))
        origin.store.put("bucket", "large", bytes(4 << 20))
        yield RecordingRig(origin, rig)


async def test_a_file_is_stored_listed_read_and_removed(running: RecordingRig) -> None:
    status, stored = await running.send("nightly", recording_of(READS))
    assert (status, stored["recording"]["reads"], stored["recording"]["principal"]) == (200, 41, "")
    status, listed = await running.call("GET", "", bucket="bucket")
    assert [each["name"] for each in listed["recordings"]] == ["nightly"]
    status, part = await running.call("GET", "/bucket/nightly")
    assert keys_in(b64decode(part["content"])) == [*KEYS[:40], "large"]
    assert part["next"] is None
    status, removed = await running.call("DELETE", "/bucket/nightly")
    assert (status, removed["recording"]["name"]) == (200, "nightly")
    for method in ("GET", "DELETE"):
        status, refused = await running.call(method, "/bucket/nightly")
        assert (status, refused["error"]) == (404, "no_such_recording")


async def test_a_file_is_read_in_parts(running: RecordingRig) -> None:
    content = recording_of([RecordedRead(f"{number:x}" * 100, 0, number, True) for number in range(1, 400)])
    await running.send("nightly", content)
    status, part = await running.call("GET", "/bucket/nightly", offset="1000")
    assert b64decode(part["content"]) == content[1000:]
    status, refused = await running.call("GET", "/bucket/nightly", offset="-1")
    assert (status, refused["error"]) == (400, "bad_request")


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("nightly", b"text", "it is no recording (byte 0)"),
        ("nightly", recording_of(READS)[:-5], "it is truncated"),
        ("a b", recording_of(READS), "letters, digits"),
    ],
)
async def test_a_bad_file_is_refused(running: RecordingRig, name: str, content: bytes, reason: str) -> None:
    status, refused = await running.send(name, content)
    assert (status, refused["error"]) == (400, "bad_recording")
    assert reason in refused["message"]
    status, refused = await running.call("PUT", "/bucket/nightly", {"content": "no base64!"})
    assert (status, refused["error"]) == (400, "bad_request")


async def test_a_recording_is_saved_under_a_name(running: RecordingRig) -> None:
    await running.rig.parts.jobs.recordings.store("bucket", "mine", "trainer", recording_of(READS))
    status, saved = await running.call("POST", "/bucket/ours/save", {"source": "mine"})
    assert (status, saved["recording"]["principal"]) == (200, "trainer")
    status, saved = await running.call("POST", "/bucket/all/save", {"source": "ours", "shared": True})
    assert (saved["recording"]["name"], saved["recording"]["principal"]) == ("all", "")
    status, refused = await running.call("POST", "/bucket/x/save")
    assert (status, refused["error"]) == (404, "no_such_recording")
    status, refused = await running.call("POST", "/bucket/-x/save", {"source": "all"})
    assert (status, refused["error"]) == (400, "bad_recording")


async def test_a_replay_warms_what_was_read(running: RecordingRig) -> None:
    await running.send("nightly", recording_of(READS))
    status, job = await running.call("POST", "/bucket/nightly/replay", {"rate": "100MiB", "concurrency": 1})
    assert (status, job["state"] in {"queued", "running", "done"}, job["rate"]) == (201, True, 100 << 20)
    await running.rig.parts.jobs.warm_ups.wait(job["id"])
    status, ended = 0, await running.rig.worker.control.verbs.jobs.job(job["id"])
    assert ended is not None
    assert (ended.state, ended.done, ended.failed) == ("done", 41, 0)
    fetched = [each.key for each in running.origin.log.matching("GET", "GetObject")]
    assert fetched == [*KEYS[:40], "large"], "in the recorded order"
    answer = await running.rig.client().request("GET", path_of("bucket", KEYS[0]))
    assert answer.headers["x-forebay-cache"] == "hit-memory"
    status, refused = await running.call("POST", "/bucket/none/replay")
    assert (status, refused["error"]) == (404, "no_such_recording")


async def test_a_recording_is_warmed_in_its_order(running: RecordingRig) -> None:
    await running.send("nightly", recording_of(READS[:40][::-1]))
    job = {"recordings": ["s3://bucket/nightly"], "concurrency": 1, "until": "10KB"}
    status, started = await request_admin(running.rig.admin, "POST", "/v1/jobs", job)
    assert (status, started["listed"], started["bucket"]) == (201, 40, "bucket")
    await running.rig.parts.jobs.warm_ups.wait(started["id"])
    fetched = [each.key for each in running.origin.log.requests if each.operation == "GetObject"]
    assert fetched == KEYS[:40][::-1][: len(fetched)]
    assert 10 <= len(fetched) <= 12, "up to the bytes that it may fill"


async def test_a_refused_job_names_what_is_missing(running: RecordingRig) -> None:
    await running.send("nightly", recording_of(READS))
    listed = running.rig.parts.jobs.warm_ups.lists.extend("", [InventoryEntry("bucket", KEYS[0])])
    assert listed is not None
    for order, error, named in (
        (
            {"recordings": ["s3://bucket/nightly", "s3://bucket/none"]},
            "no_such_recording",
            "recording s3://bucket/none",
        ),
        (
            {"plans": ["s3://bucket/none"], "recordings": ["s3://bucket/nightly"]},
            "no_such_plan",
            "plan s3://bucket/none",
        ),
        ({"lists": [listed[0], "ff"]}, "no_such_list", "list ff"),
    ):
        status, refused = await request_admin(running.rig.admin, "POST", "/v1/jobs", {"lists": [listed[0]]} | order)
        assert (status, refused["error"]) == (404, error)
        assert named in refused["message"]
    status, started = await request_admin(running.rig.admin, "POST", "/v1/jobs", {"lists": [listed[0]]})
    assert (status, started["listed"]) == (201, 1), "a refused job uses up no list"


async def test_advice_says_that_a_lone_recording_may_have_broken_off(tmp_path: Path) -> None:
    rule = '[[rules]]\npath = "bucket/**"\nname = "set"\nrecord = true\n'
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, rest=rule) as rig:
        for key in KEYS:
            origin.store.put("bucket", key, bytes(1000))
        for key in KEYS[:40]:
            await rig.client().request("GET", path_of("bucket", key))
        status, _ = await request_admin(rig.admin, "POST", "/v1/recordings/bucket/seed-7/save", {})
        assert status == 200
        advised = await request_admin(rig.admin, "GET", "/v1/advice?source=recordings")
    [advice] = advised[1]["data_sets"]
    assert (advice["size"], advice["is_whole"], advice["quota"]) == (40_000, False, None)
    assert "may have more than the 39.1 KiB" in advice["reasons"][0]
