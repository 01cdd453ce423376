"""A batch of many keys does not keep the loop: what is counted is what it does between two turns of others."""

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from forebay.core.buffers import Buffer
from forebay.core.request_record import RequestRecord
from forebay.protocol.batch.batch_output import BatchOutput
from forebay.protocol.batch.batch_request import BatchEntry
from forebay.protocol.batch.tar_entries import EntryMark
from forebay.request.batch.batch_run import WORK_AT_ONCE
from forebay.server.shared_memory.batch_requests import BatchRequests
from harness.batches import batch_body
from harness.fake_origin import FakeOrigin
from harness.memory_exchange import MemoryReply
from harness.raw_connection import head_bytes
from harness.reference_sigv4 import Secret
from harness.rig import READER, TRAINER, Rig

RULES = '[[rules]]\npath = "**"\nfreshness = "immutable"\n'
KEYS = [f"set/{number:03}" for number in range(400)]


class CountedOutput(BatchOutput):
    """Never full; notes how many entries came in which turn of the loop."""

    is_full = False

    def __init__(self) -> None:
        self.turn = 0
        self.entries, self.begun = Counter[int](), Counter[int]()
        self._known = set[str]()

    def put(self, index: int, entry: BatchEntry, last_modified: str, content: Buffer) -> None:
        self.entries[self.turn] += 1

    def mark(self, index: int, entry: BatchEntry, mark: EntryMark) -> None:
        self.entries[self.turn] += 1

    def begin(self, index: int, entry: BatchEntry, last_modified: str, size: int) -> None:
        self.entries[self.turn] += 1

    def append(self, piece: Any) -> None:
        pass

    def end(self) -> None:
        pass

    async def flush(self) -> None:
        pass

    async def finish(self) -> None:
        pass

    def next_turn(self) -> None:
        reading = {task.get_name() for task in asyncio.all_tasks()}.intersection(KEYS)
        self.begun[self.turn] = len(reading - self._known)
        self._known |= reading
        self.turn += 1


class CountedBatch:
    """The channel of a batch, and others that have their turn."""

    peer = "unix"

    def __init__(self) -> None:
        self.output, self.reply = CountedOutput(), MemoryReply()
        self.answered = False

    def make_batch_reply(self, record: RequestRecord) -> tuple[CountedOutput, MemoryReply]:
        return self.output, self.reply

    def read_answered(self, *, keep_alive: bool) -> None:
        self.answered = keep_alive

    async def run(self, rig: Rig, secret: Secret, **fields: Any) -> CountedOutput:
        document = batch_body(KEYS, **fields)
        signed = rig.client(secret).sign("POST", "/bucket/.forebay/batch", body=document)
        pairs = tuple(pair for pair in signed.pairs if pair[0].lower() != "content-length")
        head = head_bytes("POST", signed.target, pairs)
        assert BatchRequests(rig.worker.listener.requests).begin(head, document, self)
        while not self.answered:
            await asyncio.sleep(0)
            self.output.next_turn()
        assert sum(self.output.entries.values()) == len(KEYS)
        return self.output


@pytest.mark.parametrize("fields", [{}, {"order": "arrival"}], ids=["listed", "arrival"])
async def test_a_batch_of_many_keys_gives_others_their_turn(tmp_path: Path, fields: dict[str, Any]) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, rest=RULES) as rig:
        for key in KEYS:
            origin.store.put("bucket", key, b"x" * 100)
        cold = await CountedBatch().run(rig, TRAINER, **fields)
        assert sum(cold.begun.values()) > len(KEYS) // 2
        assert max(cold.begun.values()) <= WORK_AT_ONCE // 4 + 1
        for secret in (TRAINER, READER):  # who may read none of them gets marks
            warm = await CountedBatch().run(rig, secret, **fields)
            assert max(warm.entries.values()) == WORK_AT_ONCE
