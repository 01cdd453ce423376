"""Writes whose task is cancelled, as a process does with what is under way at its end: at each of its waits, each kind
of write is wholly in the journal, or not at all."""

import itertools
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from forebay.core.byte_ranges import Span
from forebay.core.request_record import RequestRecord
from forebay.core.task_registry import TaskRegistry
from forebay.policy.grants import Principal
from forebay.storage.journal.body_file import BodyReader
from forebay.storage.journal.journal_files import JournalFiles
from forebay.storage.journal.journal_layout import JournalLayout
from forebay.storage.journal.journal_reclaim import bodies_of
from forebay.storage.journal.recovery_scan import scan_journal
from forebay.write.forward_request import WriteContext
from harness.cancelled_waits import is_cancelled_at
from harness.clients import path_of
from harness.fake_origin import FakeOrigin
from harness.forward_requests import make_forward_request
from harness.memory_exchange import MemoryReply
from harness.oss_client import OssClient
from harness.rig import TRAINER
from harness.write_back_rig import WriteBackRig, at_origin

SMALL: Final = b"in its record"
LARGE: Final = os.urandom(3 << 20)
"""In a file of its own."""
SOURCE: Final = ("x-amz-copy-source", "/ckpt/a/source")


async def _write(rig: WriteBackRig, method: str, target: str, body: bytes, *headers: tuple[str, str]) -> None:
    """What a task of the write path does."""
    forward = make_forward_request(method, target, body, headers=dict(headers))
    decision = rig.parts.context.rules().decide(forward.target.name)
    record = RequestRecord(method, time.monotonic(), "0" * 16)
    context = WriteContext(forward, Principal("trainer", ()), decision, MemoryReply(), record)
    assert await rig.write_back.accept(context) is None, "it goes through"


def _bodies(journal: Path) -> Iterator[bytes]:
    """The bodies that pending records have, each verified."""
    files, layout = JournalFiles(), JournalLayout(str(journal))
    for record in scan_journal(files, layout).pending:
        for ref in bodies_of(record.document):
            reader = BodyReader(files, layout, ref)
            yield bytes(reader.read(Span(0, ref.size)))
            reader.close()


@pytest.mark.parametrize(
    ("kind", "content", "least"),
    [("put", SMALL, 1), ("put", LARGE, 4), ("copy", LARGE, 4), ("part", LARGE, 4), ("copied part", LARGE, 4)],
)
async def test_a_cancelled_write_is_kept_whole_or_not_at_all(
    tmp_path: Path, kind: str, content: bytes, least: int
) -> None:
    async with FakeOrigin() as origin, WriteBackRig(origin, tmp_path) as rig:
        await rig.prove()
        await origin.refuse()
        origin.disconnect(idle_only=False)
        await rig.put("a/source", content)
        tasks = TaskRegistry()
        for nth in itertools.count():
            target = path_of("ckpt", f"a/{nth}")
            if "part" in kind:
                upload = await OssClient(rig.endpoint, TRAINER).initiate(target)
                target += f"?partNumber=1&uploadId={upload}"
            headers, body = ((SOURCE,), b"") if "cop" in kind else ((), content)
            if not await is_cancelled_at(tasks, nth, _write(rig, "PUT", target, body, *headers)):
                break
        assert nth >= least
        await rig.stop()
        assert set(_bodies(rig.journal)) <= {content}
        await origin.listen()
        await rig.start()
        await rig.settled()
        assert not rig.write_back.drainer.stopped
        assert {at_origin(origin, f"a/{each}") for each in range(nth + 1)} <= {content, None}
