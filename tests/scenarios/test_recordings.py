"""Recordings through a whole worker: recorded, downloaded, uploaded to another one, followed."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from forebay.core.events import RecordedRead
from forebay.core.read_stream import MAX_BATCH_SECONDS
from forebay.jobs.plans.plan_runner import END_SECONDS
from forebay.jobs.recordings.recorder import IDLE_AFTER
from harness.background_turns import is_fetching_ahead
from harness.clients import path_of
from harness.fake_origin import FakeOrigin
from harness.file_limit import file_size_limit
from harness.inspection import run_loop_until
from harness.loader_orders import alternating, shuffled
from harness.manual_timers import ManualTimers
from harness.oss_client import OssClient
from harness.recording_content import keys_in, recording_of
from harness.reference_sigv4 import Secret
from harness.rig import READER, TRAINER, Rig
from harness.worker_node import request_admin

KEYS = [f"open/{number:04}.jpg" for number in range(400)]
PREFIX = ".forebay/recordings/"
BATCH = 20


def rule(*, record: bool = False, follow: bool = False) -> str:
    decided = f"record = {str(record).lower()}\nfollow = {str(follow).lower()}\n"
    return f'[[rules]]\nname = "set"\npath = "bucket/**"\nfreshness = "immutable"\n{decided}'


class Node:
    """A worker whose batches of reads are delivered by the test."""

    def __init__(self, origin: FakeOrigin, rig: Rig, timers: ManualTimers) -> None:
        self.origin = origin
        self.rig = rig
        self.timers = timers

    async def read(self, keys: Sequence[str], secret: Secret = TRAINER, *, settle: bool = False) -> None:
        """Reads keys one after another. `settle`: what is fetched ahead after each batch is there before the next."""
        client = self.rig.client(secret)
        async with await client.open() as connection:
            for start in range(0, len(keys), BATCH):
                for key in keys[start : start + BATCH]:
                    answer = await client.request("GET", path_of("bucket", key), connection=connection)
                    assert answer.body == key.encode() * 10
                self.timers.advance(MAX_BATCH_SECONDS)
                if settle:
                    await self.settle()

    async def settle(self) -> None:
        """Until everything that may be fetched ahead is here."""
        plans, tasks = self.rig.parts.jobs.plans.coordinator, self.rig.parts.context.tasks

        def is_settled() -> bool:
            running = [plan for plan in plans.plans() if plan.state == "running"]
            has_all = all(plan.lead_entries >= plan.entries - plan.position for plan in running)
            return len(tasks) <= len(running) and has_all and not is_fetching_ahead(self.rig.parts)

        while not is_settled():
            self.timers.advance(0.001)
            await asyncio.sleep(0)

    @property
    def gets(self) -> int:
        """Requests for objects at the origin."""
        return self.origin.log.count("GET", "GetObject")

    async def s3(self, call: Callable[[Any], Any], secret: Secret = TRAINER) -> Any:
        """Does something with boto3."""
        client = self.rig.boto3(secret)
        try:
            return await asyncio.to_thread(call, client)
        finally:
            client.close()

    async def names(self, secret: Secret = TRAINER) -> list[str]:
        """The recordings that a listing shows."""
        found = await self.s3(lambda s3: s3.list_objects_v2(Bucket="bucket", Prefix=PREFIX), secret)
        return [each["Key"].removeprefix(PREFIX) for each in found.get("Contents", ())]

    async def download(self, name: str, secret: Secret = TRAINER) -> bytes:
        """A recording's file."""
        content: bytes = await self.s3(
            lambda s3: s3.get_object(Bucket="bucket", Key=PREFIX + name)["Body"].read(), secret
        )
        return content

    async def upload(self, name: str, content: bytes, secret: Secret = TRAINER) -> dict[str, str]:
        """Sends a recording. Returns the headers of the answer."""
        put = await self.s3(lambda s3: s3.put_object(Bucket="bucket", Key=PREFIX + name, Body=content), secret)
        headers: dict[str, str] = put["ResponseMetadata"]["HTTPHeaders"]
        return headers

    async def remove(self, name: str, secret: Secret = TRAINER) -> None:
        """Removes a recording."""
        await self.s3(lambda s3: s3.delete_object(Bucket="bucket", Key=PREFIX + name), secret)

    async def metric(self, name: str) -> float:
        lines = (await self.rig.worker.control.metrics()).splitlines()
        return next(float(line.split()[1]) for line in lines if line.startswith(f"{name} "))


@asynccontextmanager
async def node(directory: Path, rest: str, keys: Sequence[str] = KEYS, **settings: Any) -> AsyncIterator[Node]:
    timers = ManualTimers()
    async with (
        FakeOrigin() as origin,
        Rig(origin.endpoint, origin.secret, directory, timers, rest=rest, **settings) as rig,
    ):
        for key in keys:
            origin.store.put("bucket", key, key.encode() * 10)
        yield Node(origin, rig, timers)


async def recorded(directory: Path, orders: Sequence[Sequence[str]]) -> bytes:
    """The file of the first epoch of a run with these orders."""
    async with node(directory, rule(record=True)) as first:
        for order in orders:
            await first.read(order)
        [name] = await first.names()
        return await first.download(name)


async def refusal(attempt: Awaitable[Any]) -> tuple[str, int, str]:
    """Code, status and message of what boto3 raises."""
    with pytest.raises(ClientError) as caught:
        await attempt
    response = caught.value.response
    return response["Error"]["Code"], response["ResponseMetadata"]["HTTPStatusCode"], response["Error"]["Message"]


async def test_an_order_is_recorded_and_downloaded(tmp_path: Path) -> None:
    order = shuffled(KEYS, 1)
    content = await recorded(tmp_path, [order, shuffled(KEYS, 2)[:100]])
    assert keys_in(content)[:380] == order[:380]
    assert set(keys_in(content)) >= set(KEYS[:380]) & set(order[:380])
    assert abs(len(keys_in(content)) - 400) < 10


async def test_a_warm_up_says_that_its_recording_goes_on(tmp_path: Path) -> None:
    async with node(tmp_path, rule(record=True)) as one:
        kept = one.rig.parts.jobs.kept_recordings
        assert kept is not None
        await one.read(KEYS[:200])
        await run_loop_until(lambda: bool(kept.catalogue.recordings))
        [recording] = kept.catalogue.recordings
        for name, message in (
            (recording.name, f"The recording s3://bucket/{recording.name} is still being made."),
            ("none", "There is no recording s3://bucket/none; `forebay recordings` lists them."),
        ):
            order = {"recordings": [f"s3://bucket/{name}"]}
            assert await request_admin(one.rig.admin, "POST", "/v1/jobs", order) == (
                404,
                {"error": "no_such_recording", "message": message},
            )


@pytest.mark.parametrize("seconds", [86400.0, -86400.0])
async def test_a_clock_that_is_set_ends_and_keeps_no_recording(tmp_path: Path, seconds: float) -> None:
    """The reader reads on, and stops afterwards."""
    order = shuffled(KEYS, 1)
    async with node(tmp_path, rule(record=True)) as one:
        kept = one.rig.parts.jobs.kept_recordings
        assert kept is not None
        await one.read(order[:200])
        one.rig.advance_clock(seconds)
        await one.read([*order[200:], *shuffled(KEYS, 2)[:100]])
        [name] = await one.names()
        assert keys_in(await one.download(name))[:380] == order[:380]
        assert [each.state for each in kept.catalogue.recordings] == ["automatic", "recording"]
        one.timers.advance(IDLE_AFTER + 1.0)
        kept.recorder.end_idle()
        assert [each.state for each in kept.catalogue.recordings] == ["automatic"] * 2


async def test_a_second_run_on_another_node_is_served_from_the_cache(tmp_path: Path) -> None:
    order = shuffled(KEYS, 1)
    content = await recorded(tmp_path / "a", [order, shuffled(KEYS, 2)[:100]])
    async with node(tmp_path / "b", rule(follow=True)) as second:
        assert await second.upload("nightly", content) is not None
        await second.read(order[:BATCH], settle=True)
        assert await second.metric("forebay_recording_followed_total") == 1
        served_ahead = second.gets
        assert served_ahead > BATCH + 100
        await second.read(order[BATCH:], settle=True)
        assert second.gets == 400, "each object came once"
        second.timers.advance(END_SECONDS + 1)
        await second.rig.wait_idle()
        assert await second.metric("forebay_recordings_following") == 0
    hits = [line for line in second.rig.access_lines() if '"cache":"hit-memory"' in line]
    assert len(hits) >= 400 - BATCH


@pytest.mark.parametrize("workers", [2, 4, 6])
async def test_the_rest_of_each_workers_batch_is_fetched_ahead(tmp_path: Path, workers: int) -> None:
    """They read a batch each: behind the furthest of them nearly all of these batches is unread."""
    order = shuffled(KEYS, 1)
    batches = [order[start : start + 16] for start in range(0, 16 * workers, 16)]
    begun = [key for keys in zip(*batches, strict=True) for key in keys]
    async with node(tmp_path, rule(follow=True)) as second:
        await second.upload("nightly", recording_of(order))
        await second.read(begun[:BATCH], settle=True)
        assert await second.metric("forebay_recording_followed_total") == 1
        assert second.gets == 400
        await second.read(begun[BATCH:] + order[16 * workers :], settle=True)
        assert second.gets == 400, "each object came once"
        second.timers.advance(END_SECONDS + 1)
        await second.rig.wait_idle()
        [plan] = second.rig.parts.jobs.plans.coordinator.plans()
        assert (plan.state, plan.read, plan.late, plan.given_up) == ("done", 400 - BATCH, 0, 0)


async def test_a_reader_that_parts_costs_no_more(tmp_path: Path) -> None:
    others = [f"open/other/{number}" for number in range(100)]
    async with node(tmp_path, rule(follow=True), KEYS + others) as running:
        await running.upload("nightly", recording_of(KEYS))
        await running.read(KEYS[:40], settle=True)
        await running.read(others, settle=True)
        assert await running.metric("forebay_recording_parted_total") == 1
        assert await running.metric("forebay_recordings_following") == 0
        assert running.rig.parts.storage.tiers.memory.ahead.budget.in_use == 0


@pytest.mark.parametrize("record", [False, True])
async def test_a_recording_that_is_removed_is_followed_no_further(tmp_path: Path, record: bool) -> None:
    """What was fetched ahead is given back at once, and what the epoch has read of it stays recorded."""
    order = shuffled(KEYS, 1)
    async with node(tmp_path, rule(record=record, follow=True)) as running:
        await running.upload("nightly", recording_of(order))
        await running.read(order[:100], settle=True)
        plans, ahead = running.rig.parts.jobs.plans.coordinator, running.rig.parts.storage.tiers.memory.ahead
        assert (len(ahead), running.gets) == (300, 400)
        await running.remove("nightly")
        assert [(plan.name, plan.state) for plan in plans.plans()] == [("recording:nightly", "cancelled")]
        assert await running.metric("forebay_recordings_following") == 0
        await running.rig.wait_idle()
        await run_loop_until(lambda: ahead.budget.in_use == running.rig.parts.jobs.prefetcher.tickets == 0)
        before = running.gets
        await running.read(order[200:])
        assert (running.gets - before, await running.metric("forebay_recording_followed_total")) == (200, 1)
        kept = running.rig.parts.jobs.kept_recordings
        assert kept is not None
        kept.recorder.close()
        found = [keys_in(await running.download(name)) for name in await running.names()]
        assert found == ([order[:100] + order[200:]] if record else [])


async def test_a_job_is_followed_beside_another_under_one_key(tmp_path: Path) -> None:
    others = [f"open/other/{number:03}" for number in range(200)]
    async with node(tmp_path, rule(follow=True), KEYS + others) as running:
        await running.upload("nightly", recording_of(shuffled(KEYS, 1)))
        mixed = alternating(shuffled(KEYS, 1)[:120], others[:120])
        await running.read(mixed[:160], settle=True)
        assert await running.metric("forebay_recording_followed_total") == 1
        assert running.gets == 400 + 80, "all of its own, and what the other one has read"
        await running.read(mixed[160:], settle=True)
        assert running.gets == 400 + 120
        assert await running.metric("forebay_recording_parted_total") == 0


async def test_nothing_is_followed_without_the_rule(tmp_path: Path) -> None:
    async with node(tmp_path, rule(record=True)) as running:
        await running.upload("nightly", recording_of(KEYS))
        await running.read(KEYS[:60], settle=True)
        assert running.gets == 60


async def test_rules_of_a_reload_begin_and_end_recording(tmp_path: Path) -> None:
    async with node(tmp_path, "") as running:
        await running.read(KEYS[:40])
        assert await running.metric("forebay_recording_recorded_total") == 0
        text = running.rig.configuration
        await running.rig.worker.control.replace_config(text + rule(record=True))
        await running.read(KEYS[:40])
        assert await running.metric("forebay_recording_recorded_total") == 40
        await running.rig.worker.control.replace_config(text)
        await running.read(KEYS[:40])
        assert await running.metric("forebay_recording_recorded_total") == 40
        assert len(await running.names()) == 1


async def test_the_latest_reads_before_a_restart_are_recorded(tmp_path: Path) -> None:
    async with node(tmp_path, rule(record=True)) as running:
        client = running.rig.client()
        for key in KEYS[:40]:
            await client.request("GET", path_of("bucket", key))
        await running.rig.restart()
        [name] = await running.names()
        assert keys_in(await running.download(name)) == KEYS[:40]


async def test_recordings_survive_a_restart(tmp_path: Path) -> None:
    async with node(tmp_path, rule(record=True, follow=True)) as running:
        await running.upload("nightly", recording_of(KEYS))
        await running.read(shuffled(KEYS, 1)[:200])
        await running.rig.restart()
        assert len(await running.names()) == 2
        gets = running.gets
        assert keys_in(await running.download("nightly")) == KEYS
        await running.read(shuffled(KEYS, 1)[:40], settle=True)
        assert await running.metric("forebay_recording_followed_total") == 1
        assert running.gets >= gets


async def test_an_oss_client_has_recordings_too(tmp_path: Path) -> None:
    async with node(tmp_path, rule()) as running:
        client = OssClient(running.rig.endpoint, TRAINER)
        put = await client.request("PUT", f"/bucket/{PREFIX}nightly", body=recording_of(KEYS))
        assert put.status == 200, put
        got = await client.request("GET", f"/bucket/{PREFIX}nightly")
        assert keys_in(got.body) == KEYS
        bad = await client.request("PUT", f"/bucket/{PREFIX}nightly", body=b"nonsense")
        assert bad.status == 400
        assert b"it is no recording (byte 0)" in bad.body
        assert (await client.request("DELETE", f"/bucket/{PREFIX}nightly")).status == 204
        assert await running.names() == []


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "it is no recording (byte 0)"),
        (b"text\n", "it is no recording (byte 0)"),
        (recording_of(KEYS)[:-30], "it is truncated"),
        (recording_of(KEYS)[:300] + b"\0" + recording_of(KEYS)[301:], "a checksum does not match"),
        (recording_of(KEYS)[:8] + b"\7\0" + recording_of(KEYS)[10:], "its version is 7, and version 1 is read here"),
        (recording_of(KEYS[:15]), "at least 16 reads"),
    ],
)
async def test_a_bad_recording_is_refused_with_its_place(tmp_path: Path, content: bytes, reason: str) -> None:
    async with node(tmp_path, rule()) as running:
        code, status, message = await refusal(running.upload("nightly", content))
        assert (code, status) == ("InvalidArgument", 400)
        assert reason in message
        assert await running.names() == []


@pytest.mark.parametrize("name", ["a/b", "..", "a b", "-x"])
async def test_a_bad_name_is_refused(tmp_path: Path, name: str) -> None:
    async with node(tmp_path, rule()) as running:
        code, status, message = await refusal(running.upload(name, recording_of(KEYS)))
        assert (code, status) == ("InvalidArgument", 400)
        assert "letters, digits" in message


async def test_an_upload_that_the_disk_refuses_says_so(tmp_path: Path) -> None:
    async with node(tmp_path, rule()) as running:
        await running.upload("nightly", recording_of(KEYS))
        with file_size_limit(10):
            code, status, message = await refusal(running.upload("nightly", recording_of(KEYS[:50])))
        assert (code, status) == ("SlowDown", 503)
        assert "can't be kept: File too large" in message
        assert keys_in(await running.download("nightly")) == KEYS


# Who sees what. The reader may read what is under open/, the trainer everything.


async def test_an_upload_loses_keys_that_its_sender_may_not_read(tmp_path: Path) -> None:
    secret = [f"secret/{number}" for number in range(30)]
    async with node(tmp_path, rule(), KEYS + secret) as running:
        headers = await running.upload("mine", recording_of(KEYS[:50] + secret), READER)
        assert headers["x-forebay-dropped"] == "30"
        assert keys_in(await running.download("mine", READER)) == KEYS[:50]
        code, status, message = await refusal(running.upload("all-secret", recording_of(secret), READER))
        assert (code, status) == ("InvalidArgument", 400)
        assert "this one 0" in message


async def test_an_upload_counts_in_the_spool(tmp_path: Path) -> None:
    async with node(tmp_path, '[limits]\nheld = "1MiB"\n' + rule(), ()) as running:
        spool = running.rig.parts.storage.spool
        put = await running.rig.client().request("PUT", path_of("bucket", f"{PREFIX}large"), (), bytes(2 << 20))
        assert put.status == 503, put.body
        assert (spool.in_use, len(spool)) == (0, 0)
        await running.upload("nightly", recording_of(KEYS))
        assert (spool.in_use, len(spool)) == (0, 0)


async def test_a_recording_belongs_to_its_principal(tmp_path: Path) -> None:
    async with node(tmp_path, rule(record=True)) as running:
        await running.upload("nightly", recording_of(KEYS))
        await running.read(shuffled(KEYS, 1), TRAINER)
        await running.read(shuffled(KEYS, 2)[:100], TRAINER)
        assert len(await running.names()) == 2
        assert await running.names(READER) == []
        for name in [*(await running.names()), "none"]:
            code, status, _ = await refusal(running.download(name, READER))
            assert (code, status) == ("NoSuchKey", 404)
            await running.remove(name, READER)
        assert len(await running.names()) == 2
        await running.upload("nightly", recording_of(KEYS[:100]), READER)
        assert len(keys_in(await running.download("nightly"))) == 400, "another one of this name"


async def test_what_belongs_to_nobody_is_seen_as_grants_allow(tmp_path: Path) -> None:
    secret = [f"secret/{number}" for number in range(30)]
    async with node(tmp_path, rule(), KEYS + secret) as running:
        await running.rig.parts.jobs.recordings.store("bucket", "shared", "", recording_of(KEYS[:50] + secret))
        assert len(keys_in(await running.download("shared"))) == 80
        assert keys_in(await running.download("shared", READER)) == KEYS[:50]
        code, status, _ = await refusal(running.remove("shared", READER))
        assert (code, status) == ("AccessDenied", 403)
        await running.rig.parts.jobs.recordings.store("bucket", "hidden", "", recording_of(secret))
        code, status, _ = await refusal(running.download("hidden", READER))
        assert (code, status) == ("NoSuchKey", 404)


async def test_following_fetches_only_what_the_reader_may_read(tmp_path: Path) -> None:
    secret = [f"secret/{number}" for number in range(200)]
    mixed = [key for pair in zip(KEYS[:200], secret, strict=True) for key in pair]
    async with node(tmp_path, rule(follow=True), KEYS + secret) as running:
        await running.upload("nightly", recording_of(mixed))
        await running.read(KEYS[:80], READER, settle=True)
        assert await running.metric("forebay_recording_followed_total") == 1
        fetched = {each.key for each in running.origin.log.matching() if each.operation == "GetObject"}
        assert len(fetched) > 100
        assert not fetched & set(secret)


async def test_ranges_are_fetched_ahead_as_ranges(tmp_path: Path) -> None:
    size = 1 << 20
    reads = [RecordedRead(key, (8 + nth % 3) << 16, 1 << 16, False) for nth, key in enumerate(KEYS[:60])]
    settings = {"memory": "256MiB", "buffers": "64MiB"}
    text = rule(follow=True).replace('freshness = "immutable"\n', 'freshness = "immutable"\nblock = "64KiB"\n')
    async with node(tmp_path, text, (), **settings) as running:
        for key in KEYS[:60]:
            running.origin.store.put("bucket", key, bytes(size))
        await running.upload("nightly", recording_of(reads))
        client = running.rig.client()
        for read in reads[:20]:
            headers = (("Range", f"bytes={read.start}-{read.start + read.length - 1}"),)
            answer = await client.request("GET", path_of("bucket", read.key), headers)
            assert answer.status == 206
        running.timers.advance(0.05)
        await running.settle()
        assert running.gets == 60
        delivered = await running.metric('forebay_ahead_bytes_total{result="fetched"}')
        assert delivered == 40 << 16
