"""A completion is acknowledged once the worker that drains accepts it; where that one has ended, the next one."""

import asyncio
import fcntl
import os
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

from forebay.core.task_registry import TaskRegistry
from forebay.storage.journal.journal import Journal
from forebay.storage.journal.journal_files import JournalFiles
from forebay.storage.journal.journal_layout import JournalLayout
from forebay.storage.journal.log_writer import RecordId
from forebay.storage.journal.settled_numbers import append_settled
from forebay.write.back.pending.accepted_write import JournalEntry, MovedUpload
from harness.clients import path_of
from harness.fake_origin import FakeOrigin
from harness.inspection import run_loop_until
from harness.write_back_rig import WriteBackRig, at_origin

PATH = path_of("ckpt", "a/upload")
CONTENT = b"a part that is the whole object"


@asynccontextmanager
async def _beside_a_drainer(directory: Path) -> AsyncIterator[tuple[FakeOrigin, WriteBackRig, int]]:
    """A worker, and the lock of another one that drains the journal."""
    async with FakeOrigin() as origin:
        origin.store.create_bucket("ckpt")
        rig = WriteBackRig(origin, directory)
        await Journal.open(rig.journal, "made before").close()
        lock = os.open(rig.journal / "drain.lock", os.O_RDWR | os.O_CREAT)
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            async with rig:
                yield origin, rig, lock
        finally:
            os.close(lock)


async def _upload(rig: WriteBackRig) -> tuple[str, str]:
    """Uploads a part. Returns the upload's id, and the ETag."""
    assert (await rig.client().request("PUT", path_of("ckpt", "a/proof"))).status == 200
    created = await rig.client().request("POST", f"{PATH}?uploads")
    found = re.search(rb"<UploadId>(.+)</UploadId>", created.body)
    assert found is not None, created
    upload = found[1].decode()
    part = await rig.client().request("PUT", f"{PATH}?partNumber=1&uploadId={quote(upload)}", (), CONTENT)
    return upload, part.headers["ETag"]


async def _complete(rig: WriteBackRig, upload: str, etag: str) -> int:
    parts = f"<Part><PartNumber>1</PartNumber><ETag>{etag}</ETag></Part>"
    document = f"<CompleteMultipartUpload>{parts}</CompleteMultipartUpload>".encode()
    return (await rig.client().request("POST", f"{PATH}?uploadId={quote(upload)}", (), document)).status


def _is_completed(rig: WriteBackRig) -> bool:
    return any(write.kind == "complete" for write in rig.write_back.shown.writes.values())


def _hear(rig: WriteBackRig, entry: JournalEntry, record: RecordId) -> None:
    """Has the worker hear of a record of another one."""
    message = {"log": record.log, "number": record.number, "document": dict(entry.document()), "payload": ""}
    rig.write_back.exchange.receive_pending(message)


async def test_a_completion_lacks_a_part_that_is_settled(tmp_path: Path) -> None:
    """The last drainer has moved the upload, settled its part, and ended before it told that: the completion would be
    acknowledged, and lost."""
    async with _beside_a_drainer(tmp_path) as (origin, rig, lock):
        upload, etag = await _upload(rig)
        [part] = rig.write_back.uploads.by_id[upload].parts.values()
        completing = TaskRegistry().spawn(_complete(rig, upload, etag), "complete")
        await run_loop_until(lambda: _is_completed(rig) or completing.done())
        append_settled(JournalFiles(), JournalLayout(str(rig.journal)), part.record.log, [part.record.number])
        fcntl.flock(lock, fcntl.LOCK_UN)
        await rig.write_back.watch.take_over()
        assert await completing == 404
        await rig.settled()
        assert (rig.write_back.drainer.entries, at_origin(origin, "a/upload")) == ({}, None)


async def test_a_worker_that_knew_of_the_move_completes_it(tmp_path: Path) -> None:
    """The drainer was killed when it had told this worker of the move, and not the one that accepted the completion."""
    async with _beside_a_drainer(tmp_path) as (origin, rig, lock):
        upload, etag = await _upload(rig)
        name = rig.write_back.uploads.by_id[upload].upload.name
        completing = asyncio.Event()
        write = rig.write_back.writer.write

        async def heard_of_the_move(*arguments: Any) -> RecordId:
            if not completing.is_set():
                completing.set()
                moved = MovedUpload(name, upload, "at-origin", rig.write_back.journal.stamp())
                _hear(rig, moved, RecordId("e" * 32, 0))
            return await write(*arguments)

        rig.write_back.writer.write = heard_of_the_move  # type: ignore[method-assign, assignment] # the moment between check and record
        answer = TaskRegistry().spawn(_complete(rig, upload, etag), "complete")
        await completing.wait()
        fcntl.flock(lock, fcntl.LOCK_UN)
        await rig.write_back.watch.take_over()
        assert await answer == 200
        await rig.settled()
        assert at_origin(origin, "a/upload") == CONTENT
