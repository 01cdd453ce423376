"""The drainer has ended: what the worker knows that takes over comes first, and what was settled is forgotten."""

import asyncio
import fcntl
import os
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from dataclasses import asdict
from operator import sub
from pathlib import Path
from threading import Event
from typing import cast

import pytest

from forebay.core.buffers import Buffer
from forebay.core.names import ObjectName
from forebay.core.task_registry import TaskRegistry
from forebay.peers.frames import Document
from forebay.policy.drain_order import WriteInterval
from forebay.protocol.listing_query import ListingQuery, StartPoint
from forebay.server.rpc.rpc_methods import OpenWrites, ResponseWriter
from forebay.storage.journal.journal import Journal
from forebay.storage.journal.journal_files import JournalFiles
from forebay.storage.journal.journal_layout import JournalLayout
from forebay.storage.journal.log_writer import RecordId
from forebay.storage.journal.settled_numbers import append_settled
from forebay.write.back.accept.record_writer import facts_of
from forebay.write.back.drain_duty import ADDED
from forebay.write.back.journal_loader import RECORDS
from forebay.write.back.pending.accepted_write import AcceptedWrite
from forebay.write.back.pending.settled_records import REMEMBERED
from harness.clients import path_of
from harness.fake.actions import HoldRequest
from harness.fake.gate import Gate
from harness.fake_origin import FakeOrigin
from harness.inspection import run_loop_until
from harness.journal_points import PointedFiles
from harness.jumping_loop import JumpingLoop
from harness.origin_history import RecordingStore
from harness.oss_client import OssClient
from harness.rig import TRAINER
from harness.write_back_rig import AheadFiles, WriteBackRig, at_origin


class _HeldScan:
    """Holds the thread that lists the files of a folder, or fails it."""

    def __init__(self, folder: str = "logs") -> None:
        self._point = f"before list {folder}"
        self.is_armed = self.is_failing = False
        self.defects = 0
        """So many times it fails by what is no OSError."""
        self.held, self.released = Event(), Event()

    def __call__(self, point: str) -> None:
        if point == self._point and self.is_failing:
            raise OSError(5, "EIO")
        if point == self._point and self.defects:
            self.defects -= 1
            raise ValueError("a defect")
        if point == self._point and self.is_armed:
            self.held.set()
            self.released.wait()


@asynccontextmanager
async def _drainer_elsewhere(rig: WriteBackRig) -> AsyncIterator[int]:
    """The journal of a rig that is not started yet, and the lock of another process that drains it."""
    await Journal.open(rig.journal, "made before").close()
    lock = os.open(rig.journal / "drain.lock", os.O_RDWR | os.O_CREAT)
    fcntl.flock(lock, fcntl.LOCK_EX)
    try:
        yield lock
    finally:
        os.close(lock)


async def test_a_write_during_a_takeover_overtakes_nothing(tmp_path: Path) -> None:
    scan, store = _HeldScan(), RecordingStore()
    async with FakeOrigin() as origin:
        origin.store = store
        store.create_bucket("ckpt")
        rig = WriteBackRig(origin, tmp_path)
        rig.journal_files = PointedFiles(scan)
        async with _drainer_elsewhere(rig) as lock, rig:
            await rig.put("a/first", b"1")
            assert not rig.write_back.is_draining
            fcntl.flock(lock, fcntl.LOCK_UN)
            scan.is_failing = True
            with pytest.raises(OSError, match="EIO"):
                await rig.write_back.watch.take_over()
            assert not rig.write_back.is_draining, "it tries again"
            scan.is_failing, scan.is_armed = False, True
            taking_over = TaskRegistry().spawn(rig.write_back.watch.take_over(), "take over")
            await run_loop_until(scan.held.is_set)
            try:
                await rig.put("a/second", b"2")
                await rig.parts.context.tasks.wait_idle()
            finally:
                scan.released.set()
            await taking_over
            await rig.settled()
            assert store.history == [("a/first", b"1"), ("a/second", b"2")]


@asynccontextmanager
async def _starting_again(
    directory: Path, *keys: str, rule: str = ""
) -> AsyncIterator[tuple[WriteBackRig, _HeldScan, asyncio.Task[None]]]:
    """A worker that starts beside pending writes of these keys and an origin that refuses, held as it reads the
    journal; the hold, and its start."""
    scan = _HeldScan("bodies")
    async with FakeOrigin() as origin:
        rig = WriteBackRig(origin, directory, rule)
        rig.journal_files = PointedFiles(scan)
        async with rig:
            await rig.prove()
            await origin.refuse()
            for key in keys:
                await rig.put(key, b"1")
            await rig.stop()
            scan.is_armed = True
            starting = TaskRegistry().spawn(rig.start(), "start")
            await run_loop_until(scan.held.is_set)
            try:
                yield rig, scan, starting
            finally:
                scan.released.set()


async def test_what_is_settled_while_a_worker_begins_is_not_shown(tmp_path: Path) -> None:
    """However much the drainer settles meanwhile: its readers would see replaced versions until the next minute."""
    async with _starting_again(tmp_path, "a/key", "a/settled") as (rig, scan, starting):
        exchange, log = rig.write_back.exchange, next((rig.journal / "logs").glob("*.log")).stem
        exchange.forget_here([RecordId(log, 3), *(RecordId("another", number) for number in range(REMEMBERED))])
        scan.released.set()
        await starting
        assert [write.name.key for write in rig.write_back.shown.writes.values()] == ["a/key"]


class _Documents:
    """In place of the connection of a worker that asks: the documents of the response."""

    def __init__(self) -> None:
        self.sent: list[Document] = []

    async def send(self, document: Document) -> None:
        self.sent.append(document)

    async def send_bytes(self, _bytes: Buffer) -> None: ...

    async def send_end(self) -> None: ...


async def test_a_worker_that_reads_the_journal_lists_nothing_for_others(tmp_path: Path) -> None:
    """It would list the origin's objects, without what is pending; the worker that asks knows what is."""
    query = asdict(ListingQuery(2, "ckpt", "", "", StartPoint(), None))
    async with _starting_again(tmp_path, "a/key", rule='listing = "1m"\n') as (rig, scan, starting):
        await rig.origin.listen()
        methods = rig.parts.peer_service
        early, late = _Documents(), _Documents()
        await methods.stream("list", {"query": query}, cast(ResponseWriter, early))
        assert early.sent == [{}]
        assert await methods.call("listed", {"name": ["ckpt", "a/key"]}, OpenWrites()) == {}
        scan.released.set()
        await starting
        await methods.stream("list", {"query": query}, cast(ResponseWriter, late))
        assert late.sent[0]["source"] == "miss"


async def test_a_worker_that_reads_the_journal_acts_on_no_message(tmp_path: Path) -> None:
    """It carries nothing out before it has read what was settled: it would take the older version for the origin's."""
    async with _starting_again(tmp_path, "a/key") as (rig, scan, starting):
        await rig.write_back.watch.receive_scan()
        assert rig.write_back.shown.writes == {}
        scan.released.set()
        await starting
        assert len(rig.write_back.shown.writes) == 1


async def test_a_start_with_many_pending_writes_holds_up_nobody(tmp_path: Path) -> None:
    """100,000 were one step of six seconds: another worker with a write to tell takes this one for hung after five."""
    count = 5 * max(ADDED, RECORDS)
    async with _starting_again(tmp_path, *(f"a/{number}" for number in range(count))) as (rig, scan, starting):
        write_back = rig.write_back
        scan.released.set()
        before, most = [0, 0], [0, 0]
        while not starting.done():
            now = [len(write_back.shown.writes), len(write_back.drainer.entries)]
            most = [max(each) for each in zip(most, map(sub, now, before), strict=True)]
            before = now
            await asyncio.sleep(0)
        assert before == [count, count]
        assert most[0] <= RECORDS
        assert most[1] <= ADDED


async def test_a_worker_that_begins_meanwhile_is_looked_after_at_the_end(tmp_path: Path) -> None:
    """What its predecessor left is read once more, when what this worker found is shown."""
    async with _starting_again(tmp_path, "a/key") as (rig, scan, starting):
        write_back = rig.write_back
        entry = AcceptedWrite("delete", ObjectName("ckpt", "a/left"), WriteInterval(*2 * [write_back.journal.stamp()]))
        await write_back.journal.append({**entry.document(), **write_back.record_origins.named("ckpt")})
        await write_back.watch.receive_scan()
        scan.released.set()
        await starting
        assert {write.name.key for write in write_back.shown.writes.values()} == {"a/key", "a/left"}


async def test_what_a_killed_drainer_has_settled_is_forgotten(tmp_path: Path) -> None:
    """It was killed between the settled number and the message about it: the worker that begins in its place tells."""
    async with FakeOrigin() as origin:
        origin.store.create_bucket("ckpt")
        rig = WriteBackRig(origin, tmp_path)
        async with _drainer_elsewhere(rig), rig:
            await rig.put("a/settled", b"1")
            await rig.put("a/pending", b"2")
            [settled, pending] = sorted(rig.write_back.shown.writes)
            origin.store.put("ckpt", "a/settled", b"at the origin")
            append_settled(JournalFiles(), JournalLayout(str(rig.journal)), settled.log, [settled.number])
            await rig.write_back.watch.receive_scan()
            assert list(rig.write_back.shown.writes) == [pending]
            assert (await rig.client().request("GET", path_of("ckpt", "a/settled"))).body == b"at the origin"
            log = rig.journal / "logs" / f"{pending.log}.log"
            log.write_bytes(log.read_bytes()[:-1] + b"?")
            await rig.put("a/later", b"3")
            await rig.write_back.watch.receive_scan()
            assert pending in rig.write_back.shown.writes, "what can't be read is not settled"


def test_each_minute_a_worker_looks_what_was_settled_unheard(tmp_path: Path) -> None:
    """The message about it was lost with the drainer, and so was the one of the worker that began in its place."""

    async def scenario() -> float:
        async with FakeOrigin() as origin:
            origin.store.create_bucket("ckpt")
            rig = WriteBackRig(origin, tmp_path)
            async with _drainer_elsewhere(rig), rig:
                await rig.put("a/settled", b"1")
                [settled] = rig.write_back.shown.writes
                append_settled(JournalFiles(), JournalLayout(str(rig.journal)), settled.log, [settled.number])
                return await _seconds_of_watching(rig, rig.write_back.pending.wait_settled(lambda _: True))

    with asyncio.Runner(loop_factory=JumpingLoop) as runner:
        assert 59 < runner.run(scenario()) < 62


def test_each_minute_the_drainer_finds_what_nobody_told_it(tmp_path: Path) -> None:
    """The record of a worker that ended between its sync and its message; and uploads that their clients have left."""

    async def scenario() -> float:
        async with FakeOrigin() as origin, WriteBackRig(origin, tmp_path) as rig:
            rig.journal_files = files = AheadFiles()
            await rig.restart()
            await rig.prove()
            write_back, name = rig.write_back, ObjectName("ckpt", "a/untold")
            facts = facts_of('"9dd4e461268c8034f5c8564e155c67a6"', 1, 0.0, ())
            interval = WriteInterval(write_back.journal.stamp(), write_back.journal.stamp())
            untold = AcceptedWrite("put", name, interval, facts=facts, block_size=1 << 20)
            document = {**untold.document(), **write_back.record_origins.named("ckpt")}
            await write_back.journal.append(document, b"x")
            await OssClient(rig.endpoint, TRAINER).initiate(path_of("ckpt", "a/left"))
            files.seconds += 25 * 3600

            gate = Gate()
            origin.faults.add(HoldRequest(gate), method="PUT", key="a/untold")
            seconds = await _seconds_of_watching(rig, gate.reached())
            gate.open()
            await rig.settled()
            assert at_origin(origin, "a/untold") == b"x"
            assert write_back.uploads.by_id == {}
            return seconds

    with asyncio.Runner(loop_factory=JumpingLoop) as runner:
        assert 59 < runner.run(scenario()) < 62


def test_a_failure_of_any_kind_does_not_end_the_watch(tmp_path: Path) -> None:
    """Nobody would take the drain over, or look at the directory, until the worker ends."""
    scan = _HeldScan()

    async def scenario() -> float:
        async with FakeOrigin() as origin:
            origin.store.create_bucket("ckpt")
            rig = WriteBackRig(origin, tmp_path)
            rig.journal_files = PointedFiles(scan)
            async with _drainer_elsewhere(rig) as lock, rig:
                await rig.put("a/pending", b"1")
                fcntl.flock(lock, fcntl.LOCK_UN)
                scan.defects = 4  # the worker watches, too
                return await _seconds_of_watching(rig, rig.write_back.pending.wait_settled(lambda _: True))

    with asyncio.Runner(loop_factory=JumpingLoop) as runner:
        assert 6 < runner.run(scenario()) < 10
    assert scan.defects == 0


def test_a_completion_waits_for_the_worker_that_decides(tmp_path: Path) -> None:
    """While nobody carries writes out it is in doubt, and refused after some time. Repeated, it is acknowledged."""

    async def scenario() -> float:
        async with FakeOrigin() as origin:
            origin.store.create_bucket("ckpt")
            rig, target = WriteBackRig(origin, tmp_path), path_of("ckpt", "a/file")
            async with _drainer_elsewhere(rig) as lock, rig:
                oss = OssClient(rig.endpoint, TRAINER)
                upload = await oss.initiate(target)
                listed = [(1, (await oss.part(target, upload, 1, b"part")).headers["ETag"])]
                loop = asyncio.get_running_loop()
                assert isinstance(loop, JumpingLoop)
                began = loop.time()
                with loop.jumping():
                    refused = await oss.complete(target, upload, listed)
                seconds = loop.time() - began
                assert (refused.status, refused.headers["Retry-After"]) == (503, "1")
                assert b"No worker carries writes out at the moment." in refused.body
                fcntl.flock(lock, fcntl.LOCK_UN)
                assert await rig.write_back.watch.take_over()
                assert (await oss.complete(target, upload, listed)).status == 200
                await rig.settled()
                assert at_origin(origin, "a/file") == b"part"
                return seconds

    with asyncio.Runner(loop_factory=JumpingLoop) as runner:
        assert 9 < runner.run(scenario()) < 12


async def _seconds_of_watching(rig: WriteBackRig, until: Awaitable[None]) -> float:
    """How long the worker watches until something has happened, by a clock that jumps."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, JumpingLoop)
    began, watching = loop.time(), TaskRegistry().spawn(rig.write_back.watch.run(), "watch")
    with loop.jumping():
        await until
    ended = loop.time()
    watching.cancel()
    await asyncio.wait([watching])
    return ended - began
