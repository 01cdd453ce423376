"""Faults of the origin while writes are carried out: what passes is tried again, what is refused for good waits for a
person, and each write arrives once it can, whole, and before what comes after it."""

import asyncio
import hashlib
import os
import re
from pathlib import Path
from typing import Final

import pytest

from harness.clients import RawClient, path_of
from harness.fake.actions import Action, ChangeHeaders, Drop, HoldRequest, LateError, LoseAnswer, Respond
from harness.fake.gate import Gate
from harness.fake_origin import FakeOrigin
from harness.inspection import run_loop_until
from harness.jumping_loop import JumpingLoop
from harness.origin_history import RecordingStore
from harness.rig import Rig
from harness.write_back_rig import WriteBackRig, at_origin

RULES: Final = '[journal]\npath = "{path}"\nsize = "64MiB"\n\n[[rules]]\npath = "ckpt/**"\nwrite = "back"\n'
WRONG: Final = (("ETag", f'"{"0" * 32}"'),)
PASSING: Final[tuple[tuple[str, Action], ...]] = (
    ("PutObject", Drop(reset=True)),
    ("PutObject", LoseAnswer(reset=True)),
    ("PutObject", ChangeHeaders(set=WRONG)),
    ("CreateMultipartUpload", Drop(reset=True)),
    ("CreateMultipartUpload", LoseAnswer()),
    ("UploadPart", Drop(reset=True)),
    ("UploadPart", LoseAnswer(reset=True)),
    ("UploadPart", ChangeHeaders(set=WRONG)),
    ("UploadPart", Respond(404, "NoSuchUpload")),
    ("CompleteMultipartUpload", Drop(reset=True)),
    ("CompleteMultipartUpload", Respond(404, "NoSuchUpload")),
    ("CompleteMultipartUpload", LoseAnswer()),
    ("CompleteMultipartUpload", LateError()),
    ("UploadPart", Respond(500, "InternalError")),
    ("UploadPart", Respond(404, "NoSuchBucket")),  # sent ahead: once more in its turn
    ("DeleteObject", Drop(reset=True)),
    ("DeleteObject", LoseAnswer(reset=True)),
)
REFUSED: Final = (
    ("PutObject", Respond(403, "AccessDenied")),
    ("PutObject", Respond(404, "NoSuchBucket")),
    ("CompleteMultipartUpload", Respond(400, "InvalidRequest")),
    ("CompleteMultipartUpload", Respond(403, "AccessDenied")),
    ("DeleteObject", Respond(403, "AccessDenied")),
)


class Writer:
    """Writes one object in the way that ends with an operation at the origin, and one after it."""

    def __init__(self, rig: Rig, store: RecordingStore, number: int, operation: str) -> None:
        self.key, self.marker = f"a/{number}", f"a/{number}-marker"
        self.content: bytes | None = b"%d " % number * 100 if operation != "DeleteObject" else None
        self._client: RawClient = rig.client()
        self._store = store

    async def write(self, *, upload: bool) -> None:
        path = path_of("ckpt", self.key)
        if self.content is None:
            self._store.put("ckpt", self.key, b"to be deleted")
            assert (await self._client.request("DELETE", path)).status == 204
        elif not upload:
            assert (await self._client.request("PUT", path, (), self.content)).status == 200
        else:
            created = await self._client.request("POST", f"{path}?uploads")
            found = re.search(rb"<UploadId>(.+)</UploadId>", created.body)
            assert found is not None
            query = f"uploadId={found[1].decode()}"
            assert (await self._client.request("PUT", f"{path}?partNumber=1&{query}", (), self.content)).status == 200
            etag = hashlib.md5(self.content, usedforsecurity=False).hexdigest()
            listed = f"<Part><PartNumber>1</PartNumber><ETag>{etag}</ETag></Part>"
            document = f"<CompleteMultipartUpload>{listed}</CompleteMultipartUpload>".encode()
            assert (await self._client.request("POST", f"{path}?{query}", (), document)).status == 200
        marked = await self._client.request("PUT", path_of("ckpt", self.marker), (), b"marker")
        assert marked.headers["x-forebay-durable"] == "local"

    def check(self) -> None:
        """Both are at the origin, in their order."""
        effects = [effect for effect in self._store.history if effect[0] in {self.key, self.marker}]
        assert (self.key, self.content) in effects
        assert effects[-1] == (self.marker, b"marker")
        assert effects.count(effects[-1]) == 1


@pytest.mark.parametrize(
    ("operation", "action", "is_final"),
    [
        *((operation, action, False) for operation, action in PASSING),
        *((operation, action, True) for operation, action in REFUSED),
    ],
)
async def test_a_write_arrives_whatever_happens_to_the_first_attempt(
    tmp_path: Path, operation: str, action: Action, is_final: bool
) -> None:
    store = RecordingStore()
    async with FakeOrigin() as origin:
        origin.store = store
        store.create_bucket("ckpt")
        rules = RULES.format(path=tmp_path / "journal")
        async with Rig(origin.endpoint, origin.secret, tmp_path / "rig", rest=rules) as rig:
            write_back = rig.parts.writes.write_back
            assert write_back is not None
            first = Writer(rig, store, 0, "PutObject")
            await first.write(upload=False)  # the origin is known to take such writes
            await write_back.pending.wait_settled(lambda _: True)
            writer = Writer(rig, store, 1, operation)
            rule = origin.faults.add(action, operation=operation, key=writer.key, times=1)
            await writer.write(upload=operation not in {"PutObject", "DeleteObject"})
            if is_final:
                await rig.wait_idle()
                assert write_back.backlog.stuck == 1
                assert (writer.marker, b"marker") not in store.history, "nothing overtakes what is stuck"
                [stuck] = [record for record, entry in write_back.drainer.entries.items() if entry.is_stuck]
                write_back.drainer.retry(stuck)
            await write_back.pending.wait_settled(lambda _: True)
            assert rule.applied == 1
            writer.check()


async def _upload(rig: Rig, key: str, parts: list[bytes]) -> None:
    """Uploads parts, which is acknowledged from the journal."""
    client, path, listed = rig.client(), path_of("ckpt", key), ""
    created = await client.request("POST", f"{path}?uploads")
    found = re.search(rb"<UploadId>(.+)</UploadId>", created.body)
    assert found is not None
    query = f"uploadId={found[1].decode()}"
    for number, content in enumerate(parts, 1):
        part = await client.request("PUT", f"{path}?partNumber={number}&{query}", (), content)
        listed += f"<Part><PartNumber>{number}</PartNumber><ETag>{part.headers['ETag']}</ETag></Part>"
    document = f"<CompleteMultipartUpload>{listed}</CompleteMultipartUpload>".encode()
    completed = await client.request("POST", f"{path}?{query}", (), document)
    assert (completed.status, completed.headers["x-forebay-durable"]) == (200, "local")


async def test_a_part_whose_sender_was_cancelled_arrives_nowhere(tmp_path: Path) -> None:
    """One part is under way when another one fails: both are sent again, to an upload of their own, before the origin
    acts upon the first."""
    parts, loser = [os.urandom(5 << 20), os.urandom(5000)], Gate()
    async with FakeOrigin() as origin, WriteBackRig(origin, tmp_path) as rig:
        await rig.prove()
        second = Gate()
        origin.faults.add(HoldRequest(loser), where=lambda each: "partNumber=1" in each.raw_query, times=1)
        origin.faults.add(
            HoldRequest(second),
            Respond(500, "InternalError"),
            where=lambda each: "partNumber=2" in each.raw_query,
            times=1,
        )
        await _upload(rig, "a/file", parts)
        await loser.reached()
        second.open()
        await rig.settled()
        assert at_origin(origin, "a/file") == b"".join(parts)
        etag = origin.store.get("ckpt", "a/file").etag
        loser.open()
        await origin.log.wait_idle()
        assert (origin.store.get("ckpt", "a/file").etag, origin.store.bucket("ckpt").uploads) == (etag, {})
        assert origin.log.count(operation="UploadPart") == 4


async def test_an_upload_that_somebody_aborts_in_the_middle_is_sent_again(tmp_path: Path) -> None:
    """As a lifecycle rule of the bucket does with unfinished uploads, here before the completion has its turn."""
    async with FakeOrigin() as origin, WriteBackRig(origin, tmp_path) as rig:
        await rig.prove()
        before = Gate()
        origin.faults.add(HoldRequest(before), method="PUT", key="a/before")
        await rig.put("a/before", b"acknowledged before")
        await _upload(rig, "a/file", [b"content"])
        await before.reached()
        await run_loop_until(lambda: any(entry.prepared for entry in rig.write_back.drainer.entries.values()))
        assert len(origin.store.bucket("ckpt").uploads) == 1
        origin.store.bucket("ckpt").uploads.clear()
        before.open()
        await rig.settled()
        assert at_origin(origin, "a/file") == b"content"
        assert (origin.log.count(operation="UploadPart"), origin.store.bucket("ckpt").uploads) == (2, {})


async def test_a_bucket_that_is_gone_gets_everything_once_it_is_back(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, WriteBackRig(origin, tmp_path) as rig:
        await rig.prove()
        before = Gate()
        origin.faults.add(HoldRequest(before), method="PUT", key="a/first", times=1)
        await rig.put("a/first", b"1")
        await _upload(rig, "a/file", [b"content"])
        await before.reached()
        gone = origin.store.buckets.pop("ckpt")
        before.open()
        await rig.wait_idle()
        assert rig.write_back.backlog.stuck == 1
        assert (await rig.client().request("GET", path_of("ckpt", "a/file"))).body == b"content"
        gone.uploads.clear()
        origin.store.buckets["ckpt"] = gone
        [stuck] = [record for record, entry in rig.write_back.drainer.entries.items() if entry.is_stuck]
        rig.write_back.drainer.retry(stuck)
        await rig.settled()
        assert (at_origin(origin, "a/first"), at_origin(origin, "a/file")) == (b"1", b"content")


def test_what_is_pending_goes_on_as_soon_as_an_outage_ends(tmp_path: Path) -> None:
    """Its pauses have grown to a minute by then."""

    async def scenario() -> tuple[float, list[tuple[str, bytes | None]]]:
        loop, store = asyncio.get_running_loop(), RecordingStore()
        assert isinstance(loop, JumpingLoop)
        async with FakeOrigin() as origin, WriteBackRig(origin, tmp_path) as rig:
            origin.store = store
            await rig.prove()
            await origin.refuse()
            origin.disconnect(idle_only=False)
            for key in ("a/shard", "a/marker"):
                await rig.put(key, key.encode())
            with loop.jumping():
                await asyncio.sleep(250)
                assert [entry.attempts for entry in rig.write_back.drainer.entries.values()] == [11, 0]
                await origin.listen()
                began = loop.time()
                await rig.write_back.pending.wait_settled(lambda _: True)
                return loop.time() - began, store.history[-2:]

    with asyncio.Runner(loop_factory=JumpingLoop) as runner:
        seconds, history = runner.run(scenario())
    assert seconds < 3, "a probe each second finds out"
    assert history == [("a/shard", b"a/shard"), ("a/marker", b"a/marker")]


def test_an_hour_of_503_is_reported_and_loses_nothing(tmp_path: Path) -> None:
    """Writes and reads go on, attempts come once a minute, `/readyz` says that `journal.max_age` has passed."""
    written = [("a/shard", b"shard"), ("a/old", None), ("a/marker", b"marker")]

    async def late(rig: WriteBackRig) -> bool:
        reason = (await rig.worker.control.readiness()).degraded.get("journal", "")
        return "The oldest acknowledged write is not at the origin after" in reason

    async def scenario() -> list[tuple[str, bytes | None]]:
        loop, store = asyncio.get_running_loop(), RecordingStore()
        assert isinstance(loop, JumpingLoop)
        async with FakeOrigin() as origin:
            rig = WriteBackRig(origin, tmp_path, journal_settings='max_age = "50m"\n')
            rig.check_interval = 60.0  # each check that is skipped to takes some milliseconds
            async with rig:
                origin.store = store
                await rig.prove()
                store.put("ckpt", "a/old", b"of the checkpoint before")
                refusal = origin.faults.add(Respond(503, "SlowDown"))
                before = len(store.history)
                for key, content in written[:2]:
                    answer = await rig.client().request(
                        "DELETE" if content is None else "PUT", path_of("ckpt", key), (), content or b""
                    )
                    assert answer.headers["x-forebay-durable"] == "local"
                with loop.jumping():
                    await asyncio.sleep(1800)
                    rig.advance_clock(1800)
                    assert not await late(rig)
                    await asyncio.sleep(1800)
                    rig.advance_clock(1800)
                    assert await late(rig)
                    first, second = rig.write_back.drainer.entries.values()
                    assert 60 <= first.attempts <= 67
                    assert second.attempts == 0
                    await rig.put("a/marker", b"marker")
                    assert (await rig.client().request("GET", path_of("ckpt", "a/shard"))).body == b"shard"
                    assert (await rig.client().request("GET", path_of("ckpt", "a/old"))).status == 404
                    assert len(store.history) == before
                    origin.faults.remove(refusal)
                    await rig.write_back.pending.wait_settled(lambda _: True)
                assert not await late(rig)
                return store.history[before:]

    with asyncio.Runner(loop_factory=JumpingLoop) as runner:
        assert runner.run(scenario()) == written


@pytest.mark.parametrize("how", ["refused", "restart"])
@pytest.mark.parametrize("content", [b"", b"same bytes"], ids=["empty", "bytes"])
async def test_other_metadata_of_the_same_bytes_arrives(tmp_path: Path, content: bytes, how: str) -> None:
    """An attempt has failed, or may have been made before the restart: the origin's ETag proves nothing of it."""
    async with FakeOrigin() as origin, WriteBackRig(origin, tmp_path) as rig:
        await rig.prove()
        for step, kind in (("1", "text/plain"), ("2", "application/json")):
            refusal = origin.faults.add(Respond(503, "SlowDown"), method="PUT", key="a/key") if step == "2" else None
            await rig.put("a/key", content, ("x-amz-meta-step", step), ("Content-Type", kind))
            if refusal is not None:
                if how == "restart":
                    await rig.stop()
                else:
                    await run_loop_until(
                        lambda: any(entry.attempts for entry in rig.write_back.drainer.entries.values())
                    )
                origin.faults.remove(refusal)
                if how == "restart":
                    await rig.start()
            await rig.settled()
        found = origin.store.current("ckpt", "a/key")
        assert found is not None
        assert dict(found.headers) == {"x-amz-meta-step": "2", "content-type": "application/json"}
