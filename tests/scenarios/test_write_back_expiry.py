"""Unfinished uploads of the journal expire by the node's clock, and not by a system clock that was set."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from harness.clients import path_of
from harness.fake_origin import FakeOrigin
from harness.oss_client import OssClient, told
from harness.rig import TRAINER
from harness.write_back_rig import AheadFiles, WriteBackRig

MIB, HOUR = 1 << 20, 3600
TARGET = path_of("ckpt", "a/file")


@asynccontextmanager
async def _uploading(directory: Path) -> AsyncIterator[tuple[WriteBackRig, AheadFiles, OssClient]]:
    async with FakeOrigin() as origin:
        rig, files = WriteBackRig(origin, directory), AheadFiles()
        rig.journal_files = files
        async with rig:
            await rig.prove()
            yield rig, files, OssClient(rig.endpoint, TRAINER)


async def _expire(rig: WriteBackRig) -> list[str]:
    """Returns the ids of the uploads that are left."""
    await rig.write_back.expiry.expire()
    await rig.parts.context.tasks.wait_idle()
    return list(rig.write_back.uploads.by_id)


async def test_an_upload_that_was_left_expires(tmp_path: Path) -> None:
    async with _uploading(tmp_path) as (rig, files, oss):
        left, resumed = [await oss.initiate(TARGET) for _ in range(2)]
        await oss.part(TARGET, left, 1, bytes(MIB))
        files.seconds += 23 * HOUR
        await oss.part(TARGET, resumed, 1, bytes(MIB))
        files.seconds += HOUR
        assert await _expire(rig) == [resumed]
        assert len(list((rig.journal / "bodies").iterdir())) == 1
        refused = await oss.request("PUT", f"{TARGET}?partNumber=2&uploadId={left}", (), b"late")
        assert (refused.status, told(refused, "Code")) == (404, "NoSuchUpload")
        assert rig.parts.context.metrics.total("forebay_journal_expired_uploads_total") == 1
        await rig.restart()
        assert list(rig.write_back.uploads.by_id) == [resumed]


async def test_a_clock_that_jumps_leaves_uploads_alone(tmp_path: Path) -> None:
    """After a restart its client has an hour to go on; then the system's clock is believed."""
    async with _uploading(tmp_path) as (rig, files, oss):
        upload = await oss.initiate(TARGET)
        await oss.part(TARGET, upload, 1, bytes(MIB))
        rig.advance_clock(48 * HOUR)
        assert await _expire(rig) == [upload]
        await rig.restart()
        assert await _expire(rig) == [upload]
        files.seconds += HOUR
        assert await _expire(rig) == []
