"""What somebody else writes between the acknowledgement and the arrival is noticed, and not overwritten."""

import asyncio
import base64
import hashlib
from pathlib import Path

import pytest

from forebay.core.cooperative import run_to_completion
from forebay.core.names import ObjectName
from forebay.core.task_registry import TaskRegistry
from forebay.peers.peer_codec import encode_name
from harness.clients import path_of
from harness.fake.actions import FORBIDDEN, ChangeHeaders, Drop, HoldHead, HoldRequest, Respond
from harness.fake.gate import Gate
from harness.fake.store import md5_etag
from harness.fake_origin import FakeOrigin
from harness.held_syncs import HeldSyncs
from harness.inspection import run_loop_until
from harness.oss_client import OssClient
from harness.rig import TRAINER
from harness.write_back_rig import WriteBackRig, at_origin


async def _seen(rig: WriteBackRig, origin: FakeOrigin, key: str = "a/object") -> None:
    """An object that readers here know."""
    await rig.prove()
    origin.store.put("ckpt", key, b"known")
    assert (await rig.client().request("GET", path_of("ckpt", key))).body == b"known"


def _stuck(rig: WriteBackRig) -> list[tuple[str, bool]]:
    return [(entry.write.name.key, entry.is_conflict) for entry in rig.write_back.drainer.entries.values()]


@pytest.mark.parametrize("method", ["PUT", "DELETE"])
@pytest.mark.parametrize("restarted", [False, True], ids=["running", "restarted"])
async def test_what_somebody_else_wrote_stays(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, method: str, restarted: bool
) -> None:
    async with FakeOrigin() as origin, WriteBackRig(origin, tmp_path) as rig:
        await _seen(rig, origin)
        refusal = origin.faults.add(Respond(503, "SlowDown"), method="HEAD")
        path, body = path_of("ckpt", "a/object"), b"ours" if method == "PUT" else b""
        assert (await rig.client().request(method, path, (), body)).headers["x-forebay-durable"] == "local"
        origin.store.put("ckpt", "a/object", b"theirs")
        origin.faults.remove(refusal)
        if restarted:
            await rig.restart()
        await rig.wait_idle()
        assert _stuck(rig) == [("a/object", True)]
        [entry] = rig.write_back.drainer.entries.values()
        assert entry.reason.startswith("conflict: the origin has ")
        assert "a write of ckpt/a/object is in conflict: the origin has " in caplog.text
        backlog = rig.write_back.backlog
        assert (backlog.writes, backlog.stuck, backlog.conflicts) == (1, 0, 1)
        assert rig.parts.writes.backlog is not None
        [listed] = (await rig.parts.writes.backlog.page("ckpt", "", "conflict", "")).writes
        assert (listed.key, listed.state) == ("a/object", "conflict")
        samples = run_to_completion(rig.parts.context.metrics.exposition()).decode().splitlines()
        assert "forebay_journal_conflicts 1.0" in samples
        assert 'forebay_journal_writes_total{result="conflict"} 1.0' in samples
        assert at_origin(origin, "a/object") == b"theirs"
        read = await rig.client().request("GET", path)
        assert (read.status, read.body if method == "PUT" else b"") == (200 if method == "PUT" else 404, body)
        # Once the origin has what was expected again, a person may have it tried again.
        origin.store.put("ckpt", "a/object", b"known")
        rig.write_back.drainer.retry(entry.version.record)
        await rig.settled()
        assert at_origin(origin, "a/object") == (b"ours" if method == "PUT" else None)


async def test_a_part_of_a_write_is_not_taken_for_the_write(tmp_path: Path) -> None:
    """The origin has kept some of its bytes, and shows the ETag of all."""
    async with FakeOrigin() as origin, WriteBackRig(origin, tmp_path) as rig:
        await rig.prove()
        origin.store.put("ckpt", "a/object", b"our")
        origin.faults.add(ChangeHeaders((("ETag", md5_etag(b"ours")),)), method="HEAD")
        origin.faults.add(Respond(503, "SlowDown"), method="PUT", times=1)
        await rig.put("a/object", b"ours")
        await rig.settled()
        assert at_origin(origin, "a/object") == b"ours"


async def test_a_rule_has_it_overwritten(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, WriteBackRig(origin, tmp_path, rule='conflict = "overwrite"\n') as rig:
        await _seen(rig, origin)
        gate = Gate()
        origin.faults.add(HoldRequest(gate), method="PUT", key="a/first")
        await rig.put("a/first", b"")
        await rig.put("a/object", b"ours")
        origin.store.put("ckpt", "a/object", b"theirs")
        gate.open()
        await rig.settled()
        assert at_origin(origin, "a/object") == b"ours"


async def test_what_nobody_had_seen_is_overwritten(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, WriteBackRig(origin, tmp_path) as rig:
        await rig.prove()
        gate = Gate()
        origin.faults.add(HoldRequest(gate), method="PUT", key="a/first")
        await rig.put("a/first", b"")
        await rig.put("a/object", b"ours")
        origin.store.put("ckpt", "a/object", b"theirs")
        gate.open()
        await rig.settled()
        assert at_origin(origin, "a/object") == b"ours"
        assert origin.log.count("HEAD", key="a/object") == 1, "of the installation: nothing was to be compared"


@pytest.mark.parametrize("restarted", [False, True], ids=["running", "restarted"])
async def test_our_own_writes_are_no_conflict(tmp_path: Path, restarted: bool) -> None:
    """One after the other, and at once: a tracker that is rewritten all the time."""
    async with FakeOrigin() as origin, WriteBackRig(origin, tmp_path) as rig:
        await _seen(rig, origin, "a/latest")
        refusal = origin.faults.add(Respond(503, "SlowDown"), where=lambda each: each.method in {"PUT", "DELETE"})
        for step in range(3):
            await rig.put("a/latest", b"%d" % step)
        await asyncio.gather(*(rig.put("a/latest", b"at once %d" % nth) for nth in range(5)))
        assert (await rig.client().request("DELETE", path_of("ckpt", "a/latest"))).status == 204
        await rig.put("a/latest", b"last")
        if restarted:
            await rig.restart()
        origin.faults.remove(refusal)
        await rig.settled()
        assert at_origin(origin, "a/latest") == b"last"
        await rig.put("a/latest", b"later")
        await rig.settled()
        assert at_origin(origin, "a/latest") == b"later"


async def test_a_completion_that_an_earlier_run_carried_out_is_no_conflict(tmp_path: Path) -> None:
    """A write that was accepted beside it names the version before both."""
    files, gate, tasks, target = HeldSyncs(), Gate(), TaskRegistry(), path_of("ckpt", "a/file")
    async with FakeOrigin() as origin:
        rig = WriteBackRig(origin, tmp_path)
        rig.journal_files = files
        async with rig:
            await _seen(rig, origin, "a/file")
            oss = OssClient(rig.endpoint, TRAINER)
            upload = await oss.initiate(target)
            etag = (await oss.part(target, upload, 1, b"completed")).headers["ETag"]
            origin.faults.add(HoldHead(gate), where=lambda each: each.method == "POST" and "uploadId" in each.query)
            files.hold()
            completing = tasks.spawn(oss.complete(target, upload, [(1, etag)]), "complete")
            await run_loop_until(lambda: files.held == 1)
            putting = tasks.spawn(rig.put("a/file", b"beside"), "put")
            await run_loop_until(lambda: rig.write_back.journal.waiting == 1)
            files.release()
            assert (await completing).status == 200
            await putting
            await gate.reached()
            assert at_origin(origin, "a/file") == b"completed"
            await rig.stop()
            gate.open()
            await rig.start()
            await run_loop_until(lambda: at_origin(origin, "a/file") == b"beside" or (("a/file", True) in _stuck(rig)))
            assert ("a/file", True) not in _stuck(rig)
            await rig.settled()
            assert at_origin(origin, "a/file") == b"beside"


async def test_a_write_that_goes_through_meanwhile_is_no_conflict(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, WriteBackRig(origin, tmp_path) as rig:
        await _seen(rig, origin)
        gate = Gate()
        origin.faults.add(HoldRequest(gate), method="PUT", key="a/object")
        tags = ("x-amz-tagging", "a=b")
        through = TaskRegistry().spawn(
            rig.client().request("PUT", path_of("ckpt", "a/object"), (tags,), b"through"), "write"
        )
        await gate.reached()
        await rig.put("a/object", b"accepted meanwhile")
        gate.open()
        assert (await through).status == 200
        await rig.settled()
        assert at_origin(origin, "a/object") == b"accepted meanwhile"


async def test_a_batch_delete_that_goes_through_is_no_conflict(tmp_path: Path) -> None:
    """What is accepted meanwhile replaces an object that Forebay itself has deleted."""
    async with FakeOrigin() as origin, WriteBackRig(origin, tmp_path) as rig:
        await _seen(rig, origin)
        gate = Gate()
        origin.faults.add(HoldRequest(gate), operation="DeleteObjects")
        document = b"<Delete><Object><Key>a/none</Key></Object><Object><Key>a/object</Key></Object></Delete>"
        md5 = ("Content-MD5", base64.b64encode(hashlib.md5(document, usedforsecurity=False).digest()).decode())
        headers = (md5, ("x-forebay-durability", "origin"))
        through = TaskRegistry().spawn(rig.client().request("POST", "/ckpt?delete", headers, document), "delete")
        await gate.reached()
        assert (await rig.client().request("GET", path_of("ckpt", "a/object"))).body == b"known"
        await rig.put("a/object", b"accepted meanwhile")
        gate.open()
        assert (await through).headers["x-forebay-durable"] == "origin"
        await rig.settled()
        assert at_origin(origin, "a/object") == b"accepted meanwhile"


async def test_a_conflict_with_another_worker_ends(tmp_path: Path) -> None:
    """Its write had gone through, and its message comes after the look at the origin."""
    async with FakeOrigin() as origin, WriteBackRig(origin, tmp_path) as rig:
        await _seen(rig, origin)
        origin.store.put("ckpt", "a/object", b"by another worker")
        await rig.put("a/object", b"accepted meanwhile")
        await run_loop_until(lambda: ("a/object", True) in _stuck(rig))
        name = encode_name(ObjectName("ckpt", "a/object"))
        rig.write_back.receive_made({"name": name, "etag": md5_etag(b"by another worker")})
        await rig.settled()
        assert at_origin(origin, "a/object") == b"accepted meanwhile"


async def test_what_was_exported_meanwhile_is_no_conflict(tmp_path: Path) -> None:
    """The node did not start, and `check-journal --export-to` has carried its writes out. Then it does start: the
    origin has what the last write of an object makes."""
    async with FakeOrigin() as origin, WriteBackRig(origin, tmp_path) as rig:
        await rig.prove()
        await rig.put("a/object", b"before")
        await rig.settled()
        refusal = origin.faults.add(Respond(503, "SlowDown"), method="PUT")
        for content in (b"first", b"second", b"third"):
            await rig.put("a/object", content)
        await rig.put("a/after", b"after")
        await rig.stop()
        origin.store.put("ckpt", "a/object", b"third")
        origin.faults.remove(refusal)
        sent = origin.log.count("PUT", key="a/object")
        await rig.start()
        await rig.wait_idle()
        assert rig.write_back.backlog.conflicts == 0
        assert (at_origin(origin, "a/object"), at_origin(origin, "a/after")) == (b"third", b"after")
        assert origin.log.count("PUT", key="a/object") - sent <= 1, "its metadata at most"


@pytest.mark.parametrize("method", ["PUT", "DELETE"])
async def test_a_version_between_look_and_request_stays(tmp_path: Path, method: str) -> None:
    async with FakeOrigin() as origin, WriteBackRig(origin, tmp_path) as rig:
        await _seen(rig, origin)
        held, path = Gate(), path_of("ckpt", "a/object")
        origin.faults.add(HoldRequest(held), method=method, key="a/object", times=1)
        answer = await rig.client().request(method, path, (), b"ours" if method == "PUT" else b"")
        assert answer.headers["x-forebay-durable"] == "local"
        await held.reached()
        origin.store.put("ckpt", "a/object", b"theirs")
        held.open()
        await rig.wait_idle()
        assert _stuck(rig) == [("a/object", True)]
        assert at_origin(origin, "a/object") == b"theirs"


async def test_an_object_that_somebody_else_made_meanwhile_stays(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, WriteBackRig(origin, tmp_path) as rig:
        await _seen(rig, origin)
        deleting, writing = Gate(), Gate()
        origin.faults.add(HoldRequest(deleting), method="DELETE", key="a/object", times=1)
        origin.faults.add(HoldRequest(writing), method="PUT", key="a/object", times=1)
        await rig.client().request("DELETE", path_of("ckpt", "a/object"))
        await rig.put("a/object", b"ours")
        deleting.open()
        await writing.reached()
        origin.store.put("ckpt", "a/object", b"theirs")
        writing.open()
        await rig.wait_idle()
        assert _stuck(rig) == [("a/object", True)]
        assert at_origin(origin, "a/object") == b"theirs"


async def test_an_origin_without_conditions_is_sent_none(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, WriteBackRig(origin, tmp_path) as rig:
        await _seen(rig, origin)
        origin.faults.add(Respond(501, "NotImplemented"), where=lambda each: "If-Match" in each.headers)
        for content in (b"first", b"second"):
            await rig.put("a/object", content)
            await rig.settled()
            assert at_origin(origin, "a/object") == content
        assert origin.log.count("PUT", key="a/object") == 3


async def test_a_deletion_contradicted_twice_has_no_condition(tmp_path: Path) -> None:
    """The origin answers 412 to the ETag that it shows: Swift, for the DELETE of what was uploaded in parts."""
    async with FakeOrigin() as origin, WriteBackRig(origin, tmp_path) as rig:
        await _seen(rig, origin)
        origin.faults.add(Respond(412, "PreconditionFailed"), where=lambda each: "If-Match" in each.headers)
        assert (await rig.client().request("DELETE", path_of("ckpt", "a/object"))).headers[
            "x-forebay-durable"
        ] == "local"
        await rig.put("a/after", b"what comes after it")
        await rig.settled()
        assert at_origin(origin, "a/after") == b"what comes after it"
        assert at_origin(origin, "a/object") is None
        assert origin.log.count("DELETE", key="a/object") == 3, "a second 412 half a second later, and then without"


async def test_later_deletions_of_parts_wait_for_no_contradiction(tmp_path: Path) -> None:
    async with FakeOrigin(smallest_part=1) as origin, WriteBackRig(origin, tmp_path) as rig:
        await rig.prove()
        origin.faults.add(Respond(412, "PreconditionFailed"), where=lambda each: "If-Match" in each.headers)
        oss, sent = OssClient(rig.endpoint, TRAINER), []
        for number in range(3):
            target = path_of("ckpt", f"a/{number}")
            upload = await oss.initiate(target)
            part = await oss.part(target, upload, 1, b"part")
            assert (await oss.complete(target, upload, [(1, part.headers["ETag"])])).status == 200
            await rig.settled()
            assert (await oss.request("DELETE", target)).headers["x-forebay-durable"] == "local"
            await rig.settled()
            assert at_origin(origin, f"a/{number}") is None
            sent.append(origin.log.count("DELETE", key=f"a/{number}"))
        assert sent == [3, 1, 1]


async def test_a_single_contradiction_is_tried_again_as_it_was(tmp_path: Path) -> None:
    """The origin's look was late: somebody else has written, and the next look shows that."""
    async with FakeOrigin() as origin, WriteBackRig(origin, tmp_path) as rig:
        await _seen(rig, origin)
        origin.faults.add(Respond(412, "PreconditionFailed"), where=lambda each: "If-Match" in each.headers, times=1)
        await rig.put("a/object", b"ours")
        await run_loop_until(lambda: any(each.reason for each in rig.write_back.drainer.entries.values()))
        origin.store.put("ckpt", "a/object", b"theirs")
        await rig.wait_idle()
        assert _stuck(rig) == [("a/object", True)]
        assert at_origin(origin, "a/object") == b"theirs"


async def test_a_discarded_write_is_in_doubt(tmp_path: Path) -> None:
    """The answer to its first attempt was lost, the second was refused."""
    async with FakeOrigin() as origin, WriteBackRig(origin, tmp_path, rule='freshness = "immutable"\n') as rig:
        await rig.prove()
        origin.store.put("ckpt", "a/object", b"before")
        origin.faults.add(Drop(), method="PUT", times=1)
        origin.faults.add(FORBIDDEN, method="PUT")
        path = path_of("ckpt", "a/object")
        await rig.put("a/object", b"ours")
        await rig.wait_idle()
        backlog = rig.parts.writes.backlog
        assert backlog is not None
        [entry] = (await backlog.page("ckpt", "", "stuck", "")).writes
        assert entry.attempts > 1
        assert await backlog.discard(entry.id, ObjectName("ckpt", "a/object")) is not None
        assert (await rig.client().request("GET", path)).body == b"before"
        origin.store.put("ckpt", "a/object", b"ours")
        assert (await rig.client().request("GET", path)).body == b"ours"
