"""Bits that flip in a journal at rest: what is intact is carried out, what is not is named, and no wrong byte read."""

import os
import re
from pathlib import Path

import pytest

from forebay.write.back.journal_check import check_journal
from harness.clients import path_of
from harness.fake.actions import Respond
from harness.fake_origin import FakeOrigin
from harness.inspection import run_loop_until
from harness.oss_client import OssClient, told
from harness.rig import TRAINER
from harness.write_back_rig import WriteBackRig, at_origin

LARGE = 300_000


def _flip(file: Path, offset: int) -> None:
    content = bytearray(file.read_bytes())
    content[offset] ^= 1
    file.write_bytes(content)


async def test_a_damaged_body_is_stuck_and_the_rest_arrives(tmp_path: Path) -> None:
    contents = {key: os.urandom(LARGE) for key in ("a/intact", "a/damaged", "a/later")}
    async with FakeOrigin() as origin, WriteBackRig(origin, tmp_path) as rig:
        await rig.prove()
        refusal = origin.faults.add(Respond(503, "SlowDown"), method="PUT")
        for key, content in contents.items():
            await rig.put(key, content)
        await rig.stop()
        [damaged] = [each for each in (rig.journal / "bodies").iterdir() if contents["a/damaged"] in each.read_bytes()]
        _flip(damaged, 1000)
        origin.faults.remove(refusal)
        await rig.start()
        await rig.wait_idle()
        assert at_origin(origin, "a/intact") == contents["a/intact"]
        assert (at_origin(origin, "a/damaged"), at_origin(origin, "a/later")) == (None, None), "nothing overtakes it"
        [(record, entry)] = [each for each in rig.write_back.drainer.entries.items() if each[1].is_stuck]
        assert entry.write.name.key == "a/damaged"
        assert "its bytes in the journal are damaged" in entry.reason
        sent = origin.log.count("GET")
        for headers in ((), (("Range", "bytes=7-999"),)):
            read = await rig.client().request("GET", path_of("ckpt", "a/damaged"), headers)
            assert read.status == 503
            assert b"<Code>ServiceUnavailable</Code>" in read.body
            assert b"is not at the origin yet, and its bytes in the journal can't be read: the body" in read.body
        assert origin.log.count("GET") - sent == 2, "one question each, and no waiting"
        assert (await rig.client().request("GET", path_of("ckpt", "a/later"))).body == contents["a/later"]
        await rig.write_back.settlement.settle(rig.write_back.shown.with_upload(record))
        rig.write_back.drainer.discard(record)
        await rig.settled()
        assert at_origin(origin, "a/later") == contents["a/later"]


@pytest.mark.parametrize("is_known", [False, True])
async def test_a_copy_of_a_damaged_source_is_refused_at_once(tmp_path: Path, *, is_known: bool) -> None:
    """By which of the ways it would be taken, and whether the drainer has come upon the damage or not."""
    content = os.urandom(LARGE)
    async with FakeOrigin() as origin, WriteBackRig(origin, tmp_path, 'fence = ["**/latest*"]\n') as rig:
        await rig.prove()
        refusal = origin.faults.add(Respond(503, "SlowDown"), method="PUT")
        await rig.put("a/damaged", content)
        await rig.stop()
        [body] = (rig.journal / "bodies").iterdir()
        _flip(body, LARGE - 1000)
        if is_known:
            origin.faults.remove(refusal)
        await rig.start()
        if is_known:
            await run_loop_until(lambda: bool(rig.write_back.drainer.stopped))
        upload = await OssClient(rig.endpoint, TRAINER).initiate(path_of("ckpt", "a/upload"))
        through = ("a/latest", (("x-forebay-durability", "origin"),))
        targets = ["a/copy", "a/latest", f"a/upload?partNumber=1&uploadId={upload}"]
        for target, headers in [*((each, ()) for each in targets), through]:
            path, question, query = target.partition("?")
            copied = await rig.client().request(
                "PUT", path_of("ckpt", path) + question + query, (("x-amz-copy-source", "ckpt/a/damaged"), *headers)
            )
            assert copied.status == 503, target
            assert b"<Code>ServiceUnavailable</Code>" in copied.body
            assert (
                b"The source of the copy is not at the origin yet, and its bytes in the journal can't be" in copied.body
            )
        if not is_known:
            assert origin.log.count(operation="CopyObject") == 0


async def test_a_damaged_lock_loses_no_later_write(tmp_path: Path) -> None:
    """It has the number of the run, by which a write is newer than those of runs before."""
    async with FakeOrigin() as origin, WriteBackRig(origin, tmp_path) as rig:
        await rig.prove()
        await rig.restart()
        await rig.restart()
        await rig.prove()
        await rig.put("a/key", b"first")
        await rig.settled()
        refusal = origin.faults.add(Respond(503, "SlowDown"), method="PUT", key="a/pending")
        await rig.put("a/pending", b"keeps its log")
        await rig.stop()
        lock = rig.journal / "lock"
        lock.write_bytes(lock.read_bytes().replace(b" 3 ", b" 1 "))  # one bit
        await rig.start()
        await rig.put("a/key", b"second")
        origin.faults.remove(refusal)
        await rig.settled()
        assert at_origin(origin, "a/key") == b"second"
        assert (await rig.client().request("GET", path_of("ckpt", "a/key"))).body == b"second"


async def test_a_damaged_record_is_named_and_the_others_arrive(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with FakeOrigin() as origin, WriteBackRig(origin, tmp_path) as rig:
        await rig.prove()
        refusal = origin.faults.add(Respond(503, "SlowDown"), method="PUT")
        for key in ("a/first", "a/damaged", "a/last"):
            await rig.put(key, key.encode() * 100)
        await rig.stop()
        [log] = [each for each in (rig.journal / "logs").glob("*.log") if b"a/damaged" * 100 in each.read_bytes()]
        _flip(log, log.read_bytes().index(b"a/damaged" * 100))
        origin.faults.remove(refusal)
        await rig.start()
        await rig.settled()
        assert [at_origin(origin, key) for key in ("a/first", "a/damaged", "a/last")] == [
            b"a/first" * 100,
            None,
            b"a/last" * 100,
        ]
        assert f"the journal's log {log.stem} is damaged from byte" in caplog.text
        assert log.exists(), "it stays, to be looked at"


async def test_a_torn_end_is_named_and_the_others_arrive(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """It may be the last record, damaged. `check-journal` names it as well, and the first start alone."""
    async with FakeOrigin() as origin, WriteBackRig(origin, tmp_path) as rig:
        await rig.prove()
        refusal = origin.faults.add(Respond(503, "SlowDown"), method="PUT")
        for key in ("a/first", "a/last"):
            await rig.put(key, key.encode() * 100)
        await rig.stop()
        [log] = [each for each in (rig.journal / "logs").glob("*.log") if b"a/last" * 100 in each.read_bytes()]
        _flip(log, log.read_bytes().index(b"a/last" * 100))
        report = check_journal(rig.journal)
        assert ([name for name, _ in report.torn], report.log_damages, len(report.writes)) == ([log.stem], [], 1)
        await rig.start()
        await rig.write_back.watch.receive_scan()
        origin.faults.remove(refusal)
        await rig.settled()
        assert [at_origin(origin, key) for key in ("a/first", "a/last")] == [b"a/first" * 100, None]
        assert caplog.text.count(f"the journal's log {log.stem} is torn from byte") == 1


async def test_a_damaged_part_of_a_moved_upload_is_told_and_sent_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Its client has it no more in ListParts, and its completion is refused; the operator is told which one it is."""
    contents = [os.urandom(5 << 20) for _ in range(3)]
    async with FakeOrigin() as origin, WriteBackRig(origin, tmp_path, journal_size="16MiB") as rig:
        await rig.prove()
        oss, target, listed = OssClient(rig.endpoint, TRAINER), path_of("ckpt", "a/file"), list[tuple[int, str]]()
        refusal = origin.faults.add(Respond(503, "SlowDown"), where=lambda each: each.query.get("partNumber") == "1")
        upload = await oss.initiate(target)
        for number, content in enumerate(contents, 1):
            listed.append((number, (await oss.part(target, upload, number, content)).headers["ETag"]))
        [body] = [each for each in (rig.journal / "bodies").iterdir() if each.read_bytes().startswith(contents[0])]
        _flip(body, (4 << 20) + 7)
        origin.faults.remove(refusal)
        refused = await oss.complete(target, upload, listed)
        assert (refused.status, told(refused, "Code"), told(refused, "PartNumber")) == (400, "InvalidPart", "1")
        parts = await oss.request("GET", f"{target}?uploadId={upload}")
        assert re.findall(b"<PartNumber>([0-9]+)<", parts.body) == [b"2", b"3"]
        reason = f"the body {body.stem} is damaged in its MiB 4"
        assert f"part 1 of the upload {upload} of ckpt/a/file is lost: {reason}" in caplog.text
        assert rig.parts.context.metrics.total("forebay_journal_damaged_parts_total") == 1
        await oss.part(target, upload, 1, contents[0])
        assert (await oss.complete(target, upload, listed)).status == 200
        assert at_origin(origin, "a/file") == b"".join(contents)
