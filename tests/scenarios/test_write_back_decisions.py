"""What a drainer has decided of several requests at once holds, whenever it ends: nothing acknowledged is dropped for
what was refused, and what was refused stays so."""

import asyncio
import errno
import fcntl
import os
from base64 import b64encode
from collections.abc import AsyncIterator, Awaitable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from forebay.core.names import ObjectName
from forebay.core.task_registry import TaskRegistry
from forebay.policy.drain_order import WriteInterval
from forebay.storage.journal.journal_files import JournalFiles
from forebay.storage.journal.journal_layout import SETTLED, JournalLayout
from forebay.storage.journal.log_writer import RecordId
from forebay.storage.journal.settled_numbers import append_settled
from forebay.storage.journal.upload_locks import UploadLocks
from forebay.write.back.pending.accepted_write import AbortedUpload, OriginCompletion
from forebay.write.repeated_completion import completion_digest
from harness.clients import path_of
from harness.fake.actions import HoldRequest
from harness.fake.gate import Gate
from harness.fake_origin import FakeOrigin
from harness.held_syncs import HeldSyncs
from harness.inspection import run_loop_until
from harness.origin_history import RecordingStore
from harness.oss_client import OssClient
from harness.raw_connection import RawAnswer
from harness.rig import TRAINER
from harness.write_back_rig import WriteBackRig

MIB = 1 << 20
TARGET = path_of("ckpt", "a/file")
Listed = Sequence[tuple[int, str]]


class _Files(HeldSyncs):
    """Settled numbers can't be written, if they are told so."""

    def __init__(self) -> None:
        super().__init__()
        self.is_full = False
        self.locked: list[bool] = []
        """Attempts to have the lock of an upload, and whether they had it."""

    def lock_byte(self, fd: int, offset: int) -> bool:
        self.locked.append(super().lock_byte(fd, offset))
        return self.locked[-1]

    def open(self, path: str, *, writable: bool = False) -> int:
        if self.is_full and writable and path.endswith(SETTLED):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return super().open(path, writable=writable)


class _Upload:
    """An upload of `a/file`: parts 1 and 2, of bytes that are their number."""

    def __init__(self, rig: WriteBackRig, files: _Files) -> None:
        self.rig, self.files, self.tasks, self.size = rig, files, TaskRegistry(), 1
        self.id = ""
        self.parts: Listed = ()

    @property
    def oss(self) -> OssClient:
        return OssClient(self.rig.endpoint, TRAINER)

    async def begin(self) -> None:
        self.id = await self.oss.initiate(TARGET)
        self.parts = [(number, await self.part(number, bytes([number]) * self.size)) for number in (1, 2)]

    async def part(self, number: int, content: bytes) -> str:
        """Returns its ETag."""
        return (await self.oss.part(TARGET, self.id, number, content)).headers["ETag"]

    async def at_once(self, *lists: Listed | None) -> list[asyncio.Task[RawAnswer]]:
        """Completions by these lists, or aborts (None): each is recorded before the first one is acted upon."""
        self.files.hold()
        requests: list[asyncio.Task[RawAnswer]] = []
        for listed in lists:
            work = (
                self.oss.request("DELETE", f"{TARGET}?uploadId={self.id}")
                if listed is None
                else self.oss.complete(TARGET, self.id, list(listed))
            )
            requests.append(self.tasks.spawn(work, "at once"))
            await run_loop_until(lambda: self.files.held + self.rig.write_back.journal.waiting == len(requests))
        self.files.release()
        return requests


@asynccontextmanager
async def _uploading(directory: Path) -> AsyncIterator[tuple[WriteBackRig, RecordingStore, _Upload]]:
    store, files = RecordingStore(), _Files()
    async with FakeOrigin() as origin:
        origin.store = store
        rig = WriteBackRig(origin, directory)
        rig.journal_files = files
        async with rig:
            await rig.prove()
            store.history.clear()
            yield rig, store, _Upload(rig, files)


@asynccontextmanager
async def _cut_off(rig: WriteBackRig) -> AsyncIterator[None]:
    """The origin can't be reached, and afterwards the worker has been started again."""
    await rig.origin.refuse()
    rig.origin.disconnect()
    yield
    await rig.stop()
    await rig.origin.listen()
    await rig.start()


def _settle(rig: WriteBackRig, *records: RecordId) -> None:
    for record in records:
        append_settled(JournalFiles(), JournalLayout(str(rig.journal)), record.log, [record.number])


async def _wait_for_none(_acquiring: Awaitable[None]) -> None:
    raise AssertionError("it is free")


def _bodies(rig: WriteBackRig) -> int:
    return len(list((rig.journal / "bodies").iterdir()))


async def test_a_repeated_completion_survives_a_restart(tmp_path: Path) -> None:
    """The record of the second try, which is settled, was written later than that of the first, which counts."""
    async with _uploading(tmp_path) as (rig, store, upload):
        async with _cut_off(rig):
            await upload.begin()
            answers = await asyncio.gather(*await upload.at_once(upload.parts, upload.parts))
            assert [each.status for each in answers] == [200, 200]
        await rig.settled()
        assert store.history == [("a/file", b"\1\2")]


async def test_a_refused_completion_supersedes_nothing(tmp_path: Path) -> None:
    """An earlier write of its object is pending, and the node is started again."""
    async with _uploading(tmp_path) as (rig, store, upload):
        async with _cut_off(rig):
            await rig.put("a/file", b"earlier")
            await upload.begin()
            aborted, refused = await asyncio.gather(*await upload.at_once(None, upload.parts))
            assert (aborted.status, refused.status) == (204, 404)
        await rig.settled()
        assert store.history == [("a/file", b"earlier")]


async def test_an_abort_that_comes_too_late_is_refused(tmp_path: Path) -> None:
    async with _uploading(tmp_path) as (rig, store, upload):
        await upload.begin()
        completed, refused = await asyncio.gather(*await upload.at_once(upload.parts[:1], None))
        assert (completed.status, refused.status, b"<Code>NoSuchUpload<" in refused.body) == (200, 404, True)
        await rig.settled()
        assert store.history == [("a/file", b"\1")]


async def test_a_decision_is_recorded_before_it_is_answered(tmp_path: Path) -> None:
    """Else a kill might have the next start decide otherwise."""
    async with _uploading(tmp_path) as (rig, store, upload):
        async with _cut_off(rig):
            await upload.begin()
            upload.files.is_full = True
            answers = await asyncio.gather(*await upload.at_once(None, upload.parts))
            assert [each.status for each in answers] == [503, 503]
            upload.files.is_full = False
        await rig.settled()
        assert store.history == [("a/file", b"\1\2")], "none of both was answered"


@pytest.mark.parametrize("is_killed", [False, True])
async def test_a_drainer_ends_between_two_completions(tmp_path: Path, is_killed: bool) -> None:
    """It alone knew which of them it had accepted, and had not settled the other. So both are carried out, as they were
    written, by the worker that takes over, or by the next start."""
    async with _uploading(tmp_path) as (rig, store, upload):
        await rig.stop()
        lock = os.open(rig.journal / "drain.lock", os.O_RDWR)
        fcntl.flock(lock, fcntl.LOCK_EX)
        await rig.start()
        await upload.begin()
        completing = await upload.at_once(upload.parts[:1], upload.parts[1:])
        await run_loop_until(lambda: len(rig.write_back.shown.writes) == 2)
        if is_killed:
            for request in completing:
                request.cancel()
            await rig.stop()
        os.close(lock)
        if is_killed:
            await rig.start()
        else:
            await rig.write_back.watch.take_over()
            assert [each.status for each in await asyncio.gather(*completing)] == [200, 200]
        await rig.settled()
        assert store.history == [("a/file", b"\1"), ("a/file", b"\2")]
        await rig.restart()
        assert (rig.write_back.uploads.parts, rig.write_back.shown.known()) == ({}, frozenset())


@pytest.mark.parametrize("ending", ["abort", "complete"])
async def test_what_a_kill_leaves_of_an_upload_is_removed(tmp_path: Path, ending: str) -> None:
    """Its end was settled, and the rest was not yet."""
    async with _uploading(tmp_path) as (rig, store, upload):
        upload.size = MIB
        await upload.begin()
        created = rig.write_back.uploads.by_id[upload.id].record
        async with _cut_off(rig):
            upload.files.is_full = True
            listed = upload.parts[:1] if ending == "complete" else None
            [answer] = await asyncio.gather(*await upload.at_once(listed))
            assert answer.status == (200 if ending == "complete" else 503)
            first = created if ending == "abort" else next(iter(rig.write_back.shown.writes))
            upload.files.is_full = False
            await rig.stop()
            assert _bodies(rig) == 2
            _settle(rig, first)
            await rig.start()
        await run_loop_until(lambda: _bodies(rig) == 0)
        assert (rig.write_back.uploads.by_id, rig.write_back.uploads.parts, store.history) == ({}, {}, [])


async def test_the_later_part_counts_whatever_the_clock_says(tmp_path: Path) -> None:
    """Also after a restart, and where the clock was set back in between."""
    async with _uploading(tmp_path) as (rig, store, upload):
        await upload.begin()
        rig.advance_clock(-3600)
        upload.parts = [(1, await upload.part(1, b"later")), *upload.parts[1:]]
        await rig.restart()
        assert (await upload.oss.complete(TARGET, upload.id, upload.parts)).status == 200
        await rig.settled()
        assert store.history == [("a/file", b"later\2")]


async def test_an_earlier_write_that_comes_late_overtakes_nothing(tmp_path: Path) -> None:
    """Its worker was slower to tell of it, or was killed before it could: a later write is under way already."""
    async with _uploading(tmp_path) as (rig, store, _):
        gate, client = Gate(), rig.client()
        earlier = rig.write_back.journal.stamp()
        held = rig.origin.faults.add(HoldRequest(gate), operation="PutObject")
        await rig.put("a/key", b"later")
        await run_loop_until(lambda: held.applied == 1)
        write = next(iter(rig.write_back.shown.writes.values()))
        late = write._replace(interval=WriteInterval(earlier, earlier))
        message = {
            "log": "e" * 32,
            "number": 0,
            "document": dict(late.document()),
            "payload": b64encode(b"early").decode(),
        }
        rig.write_back.exchange.receive_pending(message)
        await asyncio.sleep(0)
        seen = [(await client.request("GET", path_of("ckpt", "a/key"))).body]
        gate.open()
        await rig.settled()
        seen.append((await client.request("GET", path_of("ckpt", "a/key"))).body)
        assert (store.history, seen) == ([("a/key", b"later")], [b"later", b"later"])
        assert rig.write_back.drainer.entries == {}


async def test_a_completion_with_a_condition_is_repeated_under_way(tmp_path: Path) -> None:
    """Its client has given the first try up: the second one waits for that, and does not fail by its object."""
    async with _uploading(tmp_path) as (rig, store, upload):
        await upload.begin()
        gate, condition = Gate(), ("If-None-Match", "*")
        rig.origin.faults.add(HoldRequest(gate), operation="CompleteMultipartUpload")
        listed = f"<Part><PartNumber>1</PartNumber><ETag>{upload.parts[0][1]}</ETag></Part>"
        document = f"<CompleteMultipartUpload>{listed}</CompleteMultipartUpload>".encode()
        query = f"{TARGET}?uploadId={upload.id}"
        requests = (rig.client().request("POST", query, (condition,), document) for _ in range(2))
        tries = [upload.tasks.spawn(request, "complete") for request in requests]
        await gate.reached()
        gate.open()
        first, again = await asyncio.gather(*tries)
        assert (first.status, again.status, first.body == again.body) == (200, 200, True)
        assert store.history == [("a/file", b"\1")]


@pytest.mark.parametrize("is_answered", [False, True])
async def test_another_worker_is_waited_for_that_completes(tmp_path: Path, is_answered: bool) -> None:
    """Its completion with the same condition is under way. If it ends without an answer, the origin is asked."""
    async with _uploading(tmp_path) as (rig, store, upload):
        await upload.begin()
        condition = ("If-None-Match", "*")
        listed = f"<Part><PartNumber>1</PartNumber><ETag>{upload.parts[0][1]}</ETag></Part>"
        document = f"<CompleteMultipartUpload>{listed}</CompleteMultipartUpload>".encode()
        another = UploadLocks(JournalFiles(), JournalLayout(str(rig.journal)))
        async with another.held(upload.id, _wait_for_none):
            request = rig.client().request("POST", f"{TARGET}?uploadId={upload.id}", (condition,), document)
            completing = upload.tasks.spawn(request, "complete")
            await run_loop_until(lambda: len(upload.files.locked) >= 2)
            if is_answered:
                made = OriginCompletion('"made"', (), completion_digest(document, (condition,)))
                ended = AbortedUpload(ObjectName("ckpt", "a/file"), upload.id, made)
                message = {"log": "e" * 32, "number": 0, "document": dict(ended.document()), "payload": ""}
                rig.write_back.exchange.receive_pending(message)
        answer = await completing
        assert (answer.status, answer.headers["x-forebay-durable"]) == (200, "origin")
        assert (b"made" in answer.body) == is_answered
        assert store.history == ([] if is_answered else [("a/file", b"\1")])
