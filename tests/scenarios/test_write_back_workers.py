"""One completion with a condition, sent to two workers of a node at once: one of them has the origin decide, and the
other one waits for it."""

import asyncio
from pathlib import Path
from typing import Final

import pytest

from forebay.core.task_registry import TaskRegistry
from forebay.storage.journal.journal_layout import JournalLayout
from harness.clients import path_of
from harness.fake.actions import HoldRequest
from harness.fake.gate import Gate
from harness.fake_origin import FakeOrigin
from harness.inspection import run_loop_until
from harness.origin_history import RecordingStore
from harness.oss_client import OssClient
from harness.raw_connection import RawAnswer
from harness.rig import TRAINER
from harness.worker_node import Node
from harness.write_back_rig import JOURNAL, RULE

TARGET: Final = path_of("ckpt", "a/file")
CONDITION: Final = (("If-None-Match", "*"),)


def _has_opened(node: Node, worker: int, path: str) -> bool:
    """Whether the process of a worker has this file open now."""
    files = Path(f"/proc/{node.process(worker).pid}/fd").iterdir()
    return any(_target_of(each) == path for each in files)


def _target_of(link: Path) -> str:
    try:
        return str(link.readlink())
    except FileNotFoundError:  # closed meanwhile
        return ""


def _etag(answer: RawAnswer) -> bytes:
    return answer.body.partition(b"<ETag>")[2].partition(b"<")[0]


@pytest.mark.parametrize("is_killed", [False, True])
async def test_a_completion_in_two_workers_is_made_once(tmp_path: Path, is_killed: bool) -> None:
    """If the worker ends that has the origin decide, the other one has it decide."""
    journal, tasks = tmp_path / "journal", TaskRegistry()
    rest = JOURNAL.format(path=journal, size="16MiB") + RULE
    lock = JournalLayout(str(journal)).uploads_lock
    async with FakeOrigin(smallest_part=1) as origin:
        origin.store = store = RecordingStore()
        store.create_bucket("ckpt")
        async with Node(origin, tmp_path, rest=rest) as node, asyncio.timeout(60):
            upload = await OssClient(node.endpoint(0), TRAINER).initiate(TARGET)
            part = await OssClient(node.endpoint(1), TRAINER).part(TARGET, upload, 1, b"content")
            assert part.headers["x-forebay-durable"] == "local"
            listed = f"<Part><PartNumber>1</PartNumber><ETag>{part.headers['ETag']}</ETag></Part>"
            document = f"<CompleteMultipartUpload>{listed}</CompleteMultipartUpload>".encode()
            gate, query = Gate(), f"{TARGET}?uploadId={upload}"
            origin.faults.add(HoldRequest(gate), operation="CompleteMultipartUpload", times=1)
            tries = []
            for worker in (0, 1):
                request = node.client(worker).request("POST", query, CONDITION, document)
                tries.append(tasks.spawn(request, f"complete by {worker}"))
                await (gate.reached() if worker == 0 else run_loop_until(lambda: _has_opened(node, 1, lock)))
            if is_killed:
                await node.kill_worker(0)
            else:
                gate.open()
            first, second = await asyncio.gather(*tries)
            gate.open()
        if is_killed:
            assert (first.status, second.status) == (0, 200)
        else:
            assert (first.status, second.status, _etag(first) == _etag(second) != b"") == (200, 200, True)
            assert origin.log.count("POST", "CompleteMultipartUpload") == 1
        assert store.history == [("a/file", b"content")]
