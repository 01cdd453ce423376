"""What workers tell each other of their records, and what one hears of while it begins, and reads the journal."""

import asyncio
import hashlib
from base64 import b64encode
from pathlib import Path
from typing import cast

import pytest

from forebay.core.cooperative import run_to_completion
from forebay.core.names import ObjectName
from forebay.peers.frames import Document
from forebay.peers.owners import Peers
from forebay.peers.peer_client import Peer
from forebay.policy.drain_order import WriteInterval
from forebay.server.rpc.rpc_methods import OpenWrites
from forebay.storage.journal.log_writer import RecordId
from forebay.storage.journal.pending_objects import BodyPart
from forebay.storage.journal.recovery_scan import JournalScan, PendingRecord
from forebay.write.back.accept.record_writer import facts_of
from forebay.write.back.pending.accepted_write import (
    AcceptedPart,
    AcceptedUpload,
    AcceptedWrite,
    CompletedPart,
    JournalEntry,
)
from forebay.write.back.record_exchange import RecordExchange
from harness.clients import path_of
from harness.fake.actions import HoldRequest
from harness.fake.gate import Gate
from harness.fake_origin import FakeOrigin
from harness.write_back_rig import WriteBackRig, at_origin

NAME = ObjectName("ckpt", "a/key")
CONTENT = b"content of a part"
PART = hashlib.md5(CONTENT, usedforsecurity=False).digest()
ETAG = f'"{hashlib.md5(PART, usedforsecurity=False).hexdigest()}-1"'


def _entries(written: int) -> list[tuple[RecordId, JournalEntry, bytes]]:
    """An upload, its part and its completion."""
    ids = [RecordId("b" * 32, 0), RecordId("c" * 32, 0), RecordId("a" * 32, 0)]
    completed = AcceptedWrite(
        "complete",
        NAME,
        WriteInterval(written, written),
        facts=facts_of(ETAG, len(CONTENT), 0.0, ()),
        block_size=1 << 20,
        upload_id="upload",
        parts=(CompletedPart(1, f'"{PART.hex()}"', ids[1]),),
    )
    entries: list[JournalEntry] = [
        AcceptedUpload(NAME, "upload", (), 0.0),
        AcceptedPart(NAME, "upload", 1, f'"{PART.hex()}"', len(CONTENT), (), None, (), 0.0, 0, 0),
        completed,
    ]
    return list(zip(ids, entries, (b"", CONTENT, b""), strict=True))


async def test_a_completion_heard_while_the_journal_is_read_has_its_parts(tmp_path: Path) -> None:
    """The scan has read the log of the upload, and not yet that of the part, when the completion is heard of."""
    async with FakeOrigin() as origin, WriteBackRig(origin, tmp_path) as rig:
        await rig.prove()
        write_back = rig.write_back
        exchange = RecordExchange(Peers(), write_back.shown, write_back.proofs, write_back.room)
        upload, *heard = _entries(write_back.journal.stamp())
        for record, entry, payload in heard[::-1]:
            document = dict(entry.document())
            message = {"log": record.log, "number": record.number, "document": document}
            exchange.receive_pending({**message, "payload": b64encode(payload).decode()})
        assert NAME not in write_back.pending
        named = write_back.record_origins.named("ckpt")
        scan = JournalScan([PendingRecord(upload[0], {**upload[1].document(), **named}, b"")])
        run_to_completion(write_back.loader.load(scan, exchange.take_received))
        exchange.end_buffering()
        version = write_back.pending.current(NAME)
        assert version is not None
        assert version.parts == (BodyPart(len(CONTENT), CONTENT, None),)
        await rig.settled()
        assert at_origin(origin, NAME.key) == CONTENT
        record, entry, payload = _entries(write_back.journal.stamp())[0]
        exchange.receive_pending(
            {"log": "d" * 32, "number": 1, "document": dict(entry.document()), "payload": b64encode(payload).decode()}
        )
        assert list(write_back.uploads.by_id) == [], "an upload that has ended does not come back"


async def test_what_is_heard_while_the_journal_is_shown_comes_behind_it(tmp_path: Path) -> None:
    """The journal is shown in steps: a completion that is heard in between would come before its parts."""
    async with FakeOrigin() as origin, WriteBackRig(origin, tmp_path) as rig:
        await rig.prove()
        write_back = rig.write_back
        exchange = RecordExchange(Peers(), write_back.shown, write_back.proofs, write_back.room)
        *found, completed = _entries(write_back.journal.stamp())
        named = write_back.record_origins.named("ckpt")
        other = AcceptedUpload(ObjectName("ckpt", "a/other"), "other", (), 0.0)
        records = [
            PendingRecord(RecordId("e" * 32, number), {**other.document(), **named}, b"") for number in range(99)
        ]
        records += [PendingRecord(record, {**entry.document(), **named}, payload) for record, entry, payload in found]
        work = write_back.loader.load(JournalScan(records), exchange.take_received)
        while not write_back.uploads.by_id:
            next(work)
        assert "upload" not in write_back.uploads.by_id
        record, entry, _ = completed
        exchange.receive_pending(
            {"log": record.log, "number": record.number, "document": dict(entry.document()), "payload": ""}
        )
        assert NAME not in write_back.pending
        run_to_completion(work)
        exchange.end_buffering()
        await rig.settled()
        assert at_origin(origin, NAME.key) == CONTENT


class OtherWorker:
    """Acknowledges each call, and notes it."""

    def __init__(self, seen: list[str]) -> None:
        self._seen = seen

    async def call_until_acked(self, request: Document, _seconds: float, *, slow: bool = False) -> str | None:
        self._seen.append(str(request["kind"]))
        return "another"


@pytest.mark.parametrize("has_others", [False, True])
async def test_an_answer_waits_for_other_workers_alone(tmp_path: Path, has_others: bool) -> None:
    async with FakeOrigin() as origin, WriteBackRig(origin, tmp_path) as rig:
        await rig.prove()
        write_back, seen = rig.write_back, list[str]()
        peers = Peers({1: cast("Peer", OtherWorker(seen))}) if has_others else Peers()
        exchange = RecordExchange(peers, write_back.shown, write_back.proofs, write_back.room)
        record, upload, payload = _entries(write_back.journal.stamp())[0]

        async def answer() -> None:
            seen.append("shown" if write_back.uploads.by_id else "not shown")
            await asyncio.sleep(0)
            seen.append("shown" if write_back.uploads.by_id else "not shown")

        await exchange.publish_answered(answer(), upload, record, payload)
        assert seen == (["pending", "shown", "shown"] if has_others else ["not shown", "shown"])


async def test_bodies_of_other_workers_take_room(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, WriteBackRig(origin, tmp_path) as rig:
        room, exchange = rig.write_back.room, rig.write_back.exchange
        await room.measure()
        used, (upload, part, _) = room.used, _entries(rig.write_back.journal.stamp())
        bodies = [["e" * 32, 5 << 20, 0]]
        for record, entry, _ in (upload, part, part):  # a message whose answer was lost is repeated
            named = {"bodies": bodies} if isinstance(entry, AcceptedPart) else {}
            document = {**entry.document(), **named}
            exchange.receive_pending({"log": record.log, "number": record.number, "document": document, "payload": ""})
        assert room.used == used + (5 << 20)
        for _ in range(2):
            exchange.receive_settled({"records": [list(part[0])], "persisted": False})
        assert room.used == used


async def test_what_another_worker_cannot_settle_is_not_waited_for(tmp_path: Path) -> None:
    """Until it is settled: the journal's file system may be read-only, and a wait would be in vain."""
    async with FakeOrigin() as origin, WriteBackRig(origin, tmp_path) as rig:
        await rig.prove()
        gate = Gate()
        origin.faults.add(HoldRequest(gate), method="PUT", key="a/pending")
        await rig.put("a/pending", b"acknowledged")
        [record] = rig.write_back.shown.writes
        message = {"log": record.log, "number": record.number, "reason": "the disk is read-only"}
        rig.write_back.exchange.receive_unsettled({**message, "number": record.number + 1})
        assert rig.write_back.shown.unsettled == {}, "that record is settled"
        rig.write_back.exchange.receive_unsettled(message)
        assert rig.write_back.failure == "the disk is read-only"
        tagging = path_of("ckpt", "a/pending") + "?tagging"
        for _ in range(2):
            answer = await rig.client().request("GET", tagging)
            assert (answer.status, b"The journal can't be written." in answer.body) == (503, True)
        gate.open()
        await rig.settled()
        assert rig.write_back.shown.unsettled == {}
        assert (await rig.client().request("GET", tagging)).status != 503


async def test_all_workers_hear_of_what_cannot_be_settled(tmp_path: Path) -> None:
    told = list[Document]()

    class _Peer:
        def notify(self, request: Document) -> None:
            told.append(request)

    async with FakeOrigin() as origin, WriteBackRig(origin, tmp_path) as rig:
        shown, proofs = rig.write_back.shown, rig.write_back.proofs
        exchange = RecordExchange(Peers({1: cast("Peer", _Peer())}), shown, proofs, rig.write_back.room)
        exchange.announce_unsettled(RecordId("a" * 32, 7), "EROFS")
    assert told == [{"kind": "unsettled", "log": "a" * 32, "number": 7, "reason": "EROFS"}]


async def test_a_journal_that_another_worker_has_written_has_not_failed(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, WriteBackRig(origin, tmp_path) as rig:
        await rig.prove()
        rig.write_back.writer.failure = "the disk was full"
        record, entry, _ = _entries(rig.write_back.journal.stamp())[0]
        message = {"log": record.log, "number": record.number, "document": dict(entry.document()), "payload": ""}
        rig.parts.peer_service.ordered["pending"](message, OpenWrites())
        assert rig.write_back.failure == ""


async def test_a_worker_that_begins_hears_what_waits_would_be_in_vain(tmp_path: Path) -> None:
    """The journal can't note the one, a person has to decide about the other."""
    told = list[Document]()

    class _Peer:
        def notify(self, request: Document) -> None:
            told.append(request)

    async with FakeOrigin() as origin, WriteBackRig(origin, tmp_path) as rig:
        await rig.prove()
        gate, shown = Gate(), rig.write_back.shown
        origin.faults.add(HoldRequest(gate), method="PUT")
        for key in ("a/unsettled", "a/stopped"):
            await rig.put(key, b"acknowledged")
        unsettled, stopped = ({"log": record.log, "number": record.number} for record in shown.writes)
        rig.write_back.exchange.receive_unsettled({**unsettled, "reason": "EROFS"})
        rig.write_back.exchange.receive_stopped({**stopped, "reason": "403"})
        peers = Peers({1: cast("Peer", _Peer())})
        RecordExchange(peers, shown, rig.write_back.proofs, rig.write_back.room).repeat_announcements()
        assert told == [
            {"kind": "unsettled", **unsettled, "reason": "EROFS"},
            {"kind": "stopped", **stopped, "reason": "403"},
        ]
        gate.open()
        await rig.settled()
