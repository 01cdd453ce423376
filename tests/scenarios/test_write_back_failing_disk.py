"""The disk of the journal fails at any one call: reads are right, writes go through or are refused, and nothing that
was acknowledged is lost. `make crash` fails every call; here is a sample.
"""

import errno
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pytest

from forebay.core.buffers import Buffer
from forebay.core.cooperative import run_to_completion
from forebay.core.errors import JournalUnusable
from forebay.storage.journal.journal_files import JournalFiles
from forebay.storage.journal.journal_layout import BODY
from harness.clients import RawClient, path_of
from harness.fake.actions import HoldRequest
from harness.fake.gate import Gate
from harness.fake_origin import FakeOrigin
from harness.inspection import run_loop_until
from harness.journal_points import FailAt, PointedFiles
from harness.origin_history import RecordingStore
from harness.raw_connection import RawAnswer
from harness.rig import Rig

RULES = '[journal]\npath = "{path}"\nsize = "64MiB"\n\n[[rules]]\npath = "ckpt/**"\nwrite = "back"\n'
LARGE: Final = 300_000
STEP: Final = 1 if os.environ.get("FOREBAY_CRASH_SCALE") else 6
"""Every how many-th call fails."""


class FailingDisk:
    """Writers of a worker whose journal is on a disk that fails."""

    def __init__(self, rig: Rig, disk: FailAt) -> None:
        self.rig, self.disk = rig, disk
        self.acknowledged: dict[str, bytes | None] = {}
        self.refused = 0
        self._number = 0

    def _check(self, answer: RawAnswer) -> bool:
        """Whether a write is acknowledged; else it is refused, and may be tried again."""
        if answer.status in {200, 204}:
            return True
        assert (answer.status, b"<Code>SlowDown</Code>" in answer.body) == (503, True), answer
        assert answer.headers["Retry-After"] == "1"
        self.refused += 1
        return False

    async def dialogue(self) -> None:
        """One of each sort of write, each with a key of its own, and reads of what was acknowledged."""
        self._number += 1
        client, keys = self.rig.client(), [f"a/{self._number}-{kind}" for kind in ("small", "large", "upload", "gone")]
        for key, size in zip(keys, (100, LARGE, LARGE, 100), strict=True):
            content = key.encode() * (size // len(key))
            write = self._upload if key.endswith("upload") else self._put
            if await write(client, key, content):
                self.acknowledged[key] = content
        if keys[3] in self.acknowledged and self._check(await client.request("DELETE", path_of("ckpt", keys[3]))):
            self.acknowledged[keys[3]] = None
        for key in keys:
            await self._read(client, key)

    async def _put(self, client: RawClient, key: str, content: bytes) -> bool:
        return self._check(await client.request("PUT", path_of("ckpt", key), (), content))

    async def _upload(self, client: RawClient, key: str, content: bytes) -> bool:
        path = path_of("ckpt", key)
        created = await client.request("POST", f"{path}?uploads")
        if not self._check(created):
            return False
        found = re.search(rb"<UploadId>(.+)</UploadId>", created.body)
        assert found is not None
        upload = f"uploadId={found[1].decode()}"
        part = await client.request("PUT", f"{path}?partNumber=1&{upload}", (), content)
        if not self._check(part):
            return False
        listed = f"<Part><PartNumber>1</PartNumber><ETag>{part.headers['ETag']}</ETag></Part>"
        document = f"<CompleteMultipartUpload>{listed}</CompleteMultipartUpload>".encode()
        return self._check(await client.request("POST", f"{path}?{upload}", (), document))

    async def _read(self, client: RawClient, key: str) -> None:
        """What is acknowledged is read whole, or refused while the disk fails; nobody is shown anything else."""
        answer = await client.request("GET", path_of("ckpt", key))
        if self.disk.failed is not None and (answer.aborted or answer.status in {500, 503}):
            answer = await client.request("GET", path_of("ckpt", key))
        content = self.acknowledged.get(key)
        if content is not None:
            assert (answer.status, answer.body) == (200, content), (key, self.disk.failed)
        elif key in self.acknowledged:
            assert answer.status == 404, (key, self.disk.failed)


@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC], ids=errno.errorcode.get)
async def test_any_one_call_may_fail(tmp_path: Path, error: int) -> None:
    disk = FailAt()
    async with FakeOrigin() as origin:
        rules = RULES.format(path=tmp_path / "journal")
        rig = Rig(origin.endpoint, origin.secret, tmp_path / "rig", rest=rules)
        rig.journal_files = PointedFiles(disk)
        async with rig:
            origin.store.create_bucket("ckpt")
            failing, write_back = FailingDisk(rig, disk), rig.parts.writes.write_back
            assert write_back is not None
            await failing.dialogue()
            disk.arm(None)
            await failing.dialogue()
            calls, failed = disk.calls, set()
            for nth in range(error % STEP, calls, STEP):
                disk.arm(nth, error)
                await failing.dialogue()
                failed.add(disk.failed)
                disk.arm(None)
                write_back.writer.failed_until = 0.0  # the journal is trusted again
            assert len(failed) > min(calls // STEP // 4, 10), "of some 20 names"
            assert failing.refused, "some writes have to wait"
            await rig.restart()
            write_back = rig.parts.writes.write_back  # what the first one has left is pending in this one
            assert write_back is not None
            await write_back.pending.wait_settled(lambda _: True)
            for key, content in failing.acknowledged.items():
                found = origin.store.current("ckpt", key)
                assert (None if found is None else b"".join(found.content.views(0, found.content.size))) == content, key


class KeptBodies(JournalFiles):
    """A disk that removes no body while it fails."""

    is_failing = True

    def unlink(self, path: str) -> None:
        if self.is_failing and path.endswith(BODY):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        super().unlink(path)


async def test_a_write_whose_body_cannot_be_removed_is_settled(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with FakeOrigin() as origin:
        rig = Rig(origin.endpoint, origin.secret, tmp_path / "rig", rest=RULES.format(path=tmp_path / "journal"))
        rig.journal_files = files = KeptBodies()
        async with rig:
            origin.store.create_bucket("ckpt")
            answer = await rig.client().request("PUT", path_of("ckpt", "a/key"), (), bytes(LARGE))
            assert answer.headers["x-forebay-durable"] == "local"
            write_back = rig.parts.writes.write_back
            assert write_back is not None
            await run_loop_until(lambda: not write_back.drainer.entries)
            assert "can't be settled" not in caplog.text
            assert "can't be removed" in caplog.text
            assert write_back.room.used >= LARGE, "its file is there still"
            files.is_failing = False
            await write_back.journal.reclaim()
            assert list((tmp_path / "journal" / "bodies").iterdir()) == []


class FullDisk(JournalFiles):
    """A disk without space for another byte, while `is_full`."""

    is_full = True

    def write(self, fd: int, pieces: Sequence[Buffer | bytes], offset: int) -> None:
        if self.is_full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        super().write(fd, pieces, offset)


@pytest.mark.parametrize("size", [100, LARGE], ids=["record", "body"])
async def test_a_failing_journal_is_reported_until_it_is_written(tmp_path: Path, size: int) -> None:
    async with FakeOrigin() as origin:
        rig = Rig(origin.endpoint, origin.secret, tmp_path / "rig", rest=RULES.format(path=tmp_path / "journal"))
        rig.journal_files = files = FullDisk()
        async with rig:
            origin.store.create_bucket("ckpt")
            write_back, seen = rig.parts.writes.write_back, list[tuple[int, str | None]]()
            assert write_back is not None
            for is_full in (True, True, False):
                files.is_full = is_full
                answer = await rig.client().request("PUT", path_of("ckpt", "a/key"), (), bytes(size))
                seen.append((answer.status, answer.headers.get("x-forebay-durable")))
                ready = await rig.worker.control.readiness()
                said = "No space left on device" in ready.degraded.get("journal", "")
                lines = run_to_completion(rig.parts.context.metrics.exposition()).decode().splitlines()
                assert (ready.ready, said, f"forebay_journal_failing {float(is_full)}" in lines) == (
                    True,
                    is_full,
                    True,
                )
                if len(seen) == 2:
                    write_back.writer.failed_until = 0.0
            assert seen == [(503, None), (200, "origin"), (200, "local")]


class ReadOnlyDisk(JournalFiles):
    """A file system that the kernel has made read-only after an error, while `is_read_only`."""

    is_read_only = False

    def write(self, fd: int, pieces: Sequence[Buffer | bytes], offset: int) -> None:
        if self.is_read_only:
            raise OSError(errno.EROFS, os.strerror(errno.EROFS))
        super().write(fd, pieces, offset)


async def test_nobody_waits_for_what_a_read_only_disk_cannot_settle(tmp_path: Path) -> None:
    """The origin has the first write, and the journal can't note that: what comes after it is refused at once."""
    async with FakeOrigin() as origin:
        rig = Rig(origin.endpoint, origin.secret, tmp_path / "rig", rest=RULES.format(path=tmp_path / "journal"))
        rig.journal_files = files = ReadOnlyDisk()
        async with rig:
            origin.store.create_bucket("ckpt")
            write_back, client, gate = rig.parts.writes.write_back, rig.client(), Gate()
            assert write_back is not None
            assert (await client.request("PUT", path_of("ckpt", "a/proof"), (), b"proof")).status == 200
            origin.faults.add(HoldRequest(gate), method="PUT", key="a/first")
            first = await client.request("PUT", path_of("ckpt", "a/first"), (), b"first")
            assert first.headers["x-forebay-durable"] == "local"
            await gate.reached()
            files.is_read_only = True
            gate.open()
            await run_loop_until(lambda: bool(write_back.shown.unsettled))
            assert "Read-only file system" in (await rig.worker.control.readiness()).degraded["journal"]
            [entry] = write_back.drainer.entries.values()
            assert entry.reason == "the origin has it, and the journal can't be written: Read-only file system"
            later = [await client.request("PUT", path_of("ckpt", "a/later"), (), b"later") for _ in range(3)]
            forwarded = await client.request("GET", f"{path_of('ckpt', 'a/first')}?tagging")
            for answer in (*later, forwarded):
                assert (answer.status, b"The journal can't be written." in answer.body) == (503, True), answer
            assert (await client.request("GET", path_of("ckpt", "a/first"))).body == b"first"
            listed = await client.request("GET", "/ckpt?list-type=2&prefix=a%2F")
            files.is_read_only = False
            await run_loop_until(lambda: not write_back.drainer.entries)
            assert not write_back.shown.unsettled
            assert re.findall(b"<Key>(.*?)</Key>", listed.body) == [b"a/first", b"a/proof"]


async def test_a_read_only_disk_keeps_no_write_from_the_origin(tmp_path: Path) -> None:
    """All that is pending is carried out, in its order and once, whatever starts meanwhile; but nothing behind an
    earlier write of its object: the next start could not tell that the earlier one was there."""
    store = RecordingStore()
    async with FakeOrigin() as origin:
        origin.store = store
        rig = Rig(origin.endpoint, origin.secret, tmp_path / "rig", rest=RULES.format(path=tmp_path / "journal"))
        rig.journal_files = files = ReadOnlyDisk()
        async with rig:
            store.create_bucket("ckpt")
            client, gate = rig.client(), Gate()
            for method in ("PUT", "DELETE"):
                assert (await client.request(method, path_of("ckpt", "a/proof"))).status in {200, 204}
            assert (await client.request("PUT", path_of("ckpt", "a/old"), (), b"old")).status == 200
            await rig.wait_idle()
            hold = origin.faults.add(HoldRequest(gate), method="PUT", key="a/1")
            written = [("a/1", b"first"), ("a/2", bytes(LARGE)), ("a/old", None), ("a/3", b"third")]
            behind = [("a/1", b"again"), ("a/4", b"behind that")]
            for key, content in (*written, *behind):
                method = "DELETE" if content is None else "PUT"
                answer = await client.request(method, path_of("ckpt", key), (), content or b"")
                assert answer.headers["x-forebay-durable"] == "local"
            await gate.reached()
            before = len(store.history)
            files.is_read_only = True
            gate.open()
            await run_loop_until(lambda: store.history[before:] == written)
            origin.faults.remove(hold)
            # A flush counts what the origin has, whether the journal could note it or not.
            backlog, write_back = rig.parts.writes.backlog, rig.parts.writes.write_back
            assert backlog is not None
            assert write_back is not None
            await run_loop_until(lambda: len(write_back.shown.unsettled) == len(written))
            metrics = run_to_completion(rig.parts.context.metrics.exposition())
            assert f"\nforebay_journal_unsettled {len(written)}.0\n".encode() in metrics
            assert f"\nforebay_journal_waiting {len(behind)}.0\n".encode() in metrics
            assert (await backlog.flush("ckpt", "a/2", 3600, "")).left == 0
            # What waits for the repair ends it, and what it waits for is named.
            report = await backlog.flush("ckpt", "", 3600, "")
            assert (report.left, report.held_up) == (len(behind), len(behind))
            assert [(each.key, each.reason) for each in report.stuck] == [
                ("a/1", next(iter(write_back.shown.unsettled.values())))
            ]
            await rig.restart()
            restarted = rig.parts.writes.write_back
            assert restarted is not None
            await run_loop_until(lambda: len(restarted.shown.unsettled) == len(written))
            assert store.history[before:] == written
            files.is_read_only = False
            await run_loop_until(lambda: not restarted.drainer.entries)
            assert store.history[before:] == [*written, *behind]


async def test_a_start_that_cannot_reclaim_carries_out_what_is_pending(tmp_path: Path) -> None:
    async with FakeOrigin() as origin:
        rig = Rig(origin.endpoint, origin.secret, tmp_path / "rig", rest=RULES.format(path=tmp_path / "journal"))
        rig.journal_files = files = ReadOnlyDisk()
        async with rig:
            origin.store.create_bucket("ckpt")
            gate = Gate()
            for key in ("a/proof", "a/settled", "a/pending"):
                if key == "a/pending":
                    origin.faults.add(HoldRequest(gate), method="PUT", key=key, times=1)
                assert (await rig.client().request("PUT", path_of("ckpt", key), (), bytes(LARGE))).status == 200
            await gate.reached()
            files.is_read_only = True
            await rig.restart()
            write_back = rig.parts.writes.write_back
            assert write_back is not None
            await run_loop_until(lambda: bool(write_back.shown.unsettled))
            assert origin.store.get("ckpt", "a/pending").content.size == LARGE
            assert (await rig.client().request("GET", path_of("ckpt", "a/pending"))).body == bytes(LARGE)
            files.is_read_only = False
            gate.open()
            await run_loop_until(lambda: not write_back.drainer.entries)


class UnlistedDisk(JournalFiles):
    """Directories that may not be listed."""

    def names(self, path: str) -> list[str]:
        raise OSError(errno.EACCES, os.strerror(errno.EACCES), path)


async def test_a_journal_that_cannot_be_read_ends_the_start(tmp_path: Path) -> None:
    async with FakeOrigin() as origin:
        rig = Rig(origin.endpoint, origin.secret, tmp_path / "rig", rest=RULES.format(path=tmp_path / "journal"))
        rig.journal_files = UnlistedDisk()
        with pytest.raises(JournalUnusable, match=r"journal.path: .* can't be used \(Permission denied\)"):
            await rig.start()
        await rig.parts.origins.close()
