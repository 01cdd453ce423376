"""`journal.upload_rate` bounds the bytes a second that pending writes are sent with, and no client that waits."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from forebay.core.task_registry import TaskRegistry
from forebay.protocol.xml.s3_documents import UploadedPart, completion_document
from harness.clients import path_of
from harness.fake_origin import FakeOrigin
from harness.manual_timers import ManualTimers
from harness.oss_client import OssClient
from harness.rig import TRAINER
from harness.write_back_rig import WriteBackRig, at_origin

MIB = 1 << 20
RATE = 'upload_rate = "1MiB"\n'
STEP = 1 / 16
"""Seconds for a piece, at this rate."""


async def _put(rig: WriteBackRig) -> None:
    await rig.put("a/whole", bytes(3 * MIB))


async def _put_many(rig: WriteBackRig) -> None:
    await asyncio.gather(*(rig.put(f"a/{number}", bytes(MIB // 4)) for number in range(12)))


async def _upload(rig: WriteBackRig, *headers: tuple[str, str]) -> None:
    oss, target = OssClient(rig.endpoint, TRAINER), path_of("ckpt", "a/upload")
    upload = await oss.initiate(target)
    sent = [await oss.part(target, upload, number, bytes(size)) for number, size in ((1, 5 * MIB), (2, MIB))]
    body = completion_document([UploadedPart(number, part.headers["ETag"]) for number, part in enumerate(sent, 1)])
    answer = await rig.client().request("POST", f"{target}?uploadId={upload}", headers, body)
    assert answer.status == 200, answer


async def _steps_until_settled(rig: WriteBackRig, timers: ManualTimers) -> int:
    """Moves the time on, a STEP each time that it is waited for, until nothing is pending."""
    steps = 0
    tasks = TaskRegistry()
    settled = tasks.spawn(rig.settled(), "settled")
    while not settled.done():
        armed = tasks.spawn(timers.armed(within=STEP), "armed")
        await asyncio.wait([settled, armed], return_when=asyncio.FIRST_COMPLETED)
        if not settled.done():
            timers.advance(STEP)
            steps += 1
        armed.cancel()
    return steps


@pytest.mark.parametrize("write", [_put, _put_many, _upload])
async def test_pending_writes_are_sent_at_the_rate(
    tmp_path: Path, write: Callable[[WriteBackRig], Awaitable[None]]
) -> None:
    """Three seconds or more of them: the bucket holds one."""
    timers = ManualTimers()
    async with (
        FakeOrigin() as origin,
        WriteBackRig(origin, tmp_path, journal_settings=RATE, timers=timers) as rig,
        asyncio.timeout(60),
    ):
        await rig.prove()
        await write(rig)
        assert await _steps_until_settled(rig, timers) >= 2 / STEP - 2


async def test_no_client_waits_for_the_rate(tmp_path: Path) -> None:
    """The time stands still."""
    timers = ManualTimers()
    async with (
        FakeOrigin() as origin,
        WriteBackRig(origin, tmp_path, journal_settings=RATE, timers=timers) as rig,
        asyncio.timeout(60),
    ):
        await rig.prove()
        await _upload(rig, ("x-forebay-durability", "origin"))
        body = bytes(3 * MIB)
        headers = (("x-forebay-durability", "origin"),)
        answer = await rig.client().request("PUT", path_of("ckpt", "a/through"), headers, body)
        assert (answer.status, at_origin(origin, "a/through")) == (200, body)
        assert at_origin(origin, "a/upload") == bytes(6 * MIB)


async def test_a_reload_under_load_leaves_the_rate(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    timers = ManualTimers()
    async with (
        FakeOrigin() as origin,
        WriteBackRig(origin, tmp_path, journal_settings=RATE, timers=timers) as rig,
        asyncio.timeout(60),
    ):
        await rig.prove()
        await rig.put("a/whole", bytes(3 * MIB))
        await timers.armed(within=STEP)
        file = rig.directory / "forebay.toml"
        file.write_text(rig.configuration.replace(RATE, 'upload_rate = "1GiB"\n'))
        await rig.worker.reload()
        assert "journal.upload_rate" in caplog.text, "it takes effect with the next start"
        assert await _steps_until_settled(rig, timers) >= 2 / STEP - 2
        assert at_origin(origin, "a/whole") == bytes(3 * MIB)
