"""A write that goes through and gets no answer: what it may have made is not somebody else's, where a write was
accepted meanwhile."""

from pathlib import Path
from typing import cast

import pytest

from forebay.core.names import ObjectName
from forebay.core.task_registry import TaskRegistry
from forebay.peers.frames import Document
from forebay.peers.owners import Peers
from forebay.peers.peer_client import Peer
from forebay.server.rpc.rpc_methods import OpenWrites
from forebay.write.back.record_exchange import RecordExchange
from harness.clients import RawClient, path_of
from harness.fake.actions import HoldRequest, LoseAnswer, Respond
from harness.fake.gate import Gate
from harness.fake.store import md5_etag
from harness.fake_origin import FakeOrigin
from harness.inspection import run_loop_until
from harness.oss_client import told
from harness.write_back_rig import WriteBackRig, at_origin

PATH = path_of("ckpt", "a/object")
DOCUMENT = "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>%s</ETag></Part></CompleteMultipartUpload>"
THROUGH = ("x-forebay-durability", "origin")
OPERATIONS = {
    "PUT": "PutObject",
    "DELETE": "DeleteObject",
    "POST": "CompleteMultipartUpload",
    "COPY": "CopyObject",
}


async def _upload(client: RawClient) -> tuple[str, bytes]:
    """An upload of the origin's with one part. Returns its target, and the document of its completion."""
    upload = told(await client.request("POST", f"{PATH}?uploads", (THROUGH,)), "UploadId")
    part = await client.request("PUT", f"{PATH}?partNumber=1&uploadId={upload}", (), b"through")
    return f"{PATH}?uploadId={upload}", (DOCUMENT % part.headers["ETag"]).encode()


async def _seen(rig: WriteBackRig, origin: FakeOrigin) -> None:
    await rig.prove()
    origin.store.put("ckpt", "a/object", b"known")
    assert (await rig.client().request("GET", PATH)).body == b"known"


@pytest.mark.parametrize("method", OPERATIONS)
async def test_a_lost_answer_makes_no_conflict(tmp_path: Path, method: str) -> None:
    """The origin has carried the write out, and one that was accepted meanwhile replaces it."""
    async with FakeOrigin() as origin, WriteBackRig(origin, tmp_path) as rig:
        await _seen(rig, origin)
        target, body, headers = PATH, b"through" if method == "PUT" else b"", [THROUGH]
        if method == "POST":
            target, body = await _upload(rig.client())
        elif method == "COPY":
            origin.store.put("ckpt", "a/source", b"through")
            assert (await rig.client().request("GET", path_of("ckpt", "a/source"))).body == b"through"
            headers.append(("x-amz-copy-source", "/ckpt/a/source"))
        gate, drained = Gate(), Gate()
        origin.faults.add(HoldRequest(gate), LoseAnswer(), operation=OPERATIONS[method], times=1)
        sent = rig.client().request("PUT" if method == "COPY" else method, target, headers, body)
        through = TaskRegistry().spawn(sent, "write")
        await gate.reached()
        origin.faults.add(HoldRequest(drained), method="HEAD")
        assert (await rig.client().request("GET", PATH)).body == b"known"
        await rig.put("a/object", b"accepted meanwhile")
        gate.open()
        assert (await through).status == 503
        assert at_origin(origin, "a/object") == (None if method == "DELETE" else b"through")
        drained.open()
        await rig.settled()
        assert at_origin(origin, "a/object") == b"accepted meanwhile"


async def test_a_refused_write_is_not_taken_for_ours(tmp_path: Path) -> None:
    """Somebody else has written the same bytes, and what was accepted meanwhile does not replace them."""
    async with FakeOrigin() as origin, WriteBackRig(origin, tmp_path) as rig:
        await _seen(rig, origin)
        gate, drained = Gate(), Gate()
        origin.faults.add(HoldRequest(gate), Respond(403, "AccessDenied"), operation="PutObject", times=1)
        through = TaskRegistry().spawn(rig.client().request("PUT", PATH, (THROUGH,), b"through"), "write")
        await gate.reached()
        origin.faults.add(HoldRequest(drained), method="HEAD")
        await rig.client().request("GET", PATH)
        await rig.put("a/object", b"accepted meanwhile")
        origin.store.put("ckpt", "a/object", b"through")
        gate.open()
        assert (await through).status == 403
        drained.open()
        await run_loop_until(lambda: [entry.is_conflict for entry in rig.write_back.drainer.entries.values()] == [True])
        assert at_origin(origin, "a/object") == b"through"


async def test_a_version_before_the_last_is_not_taken_for_ours(tmp_path: Path) -> None:
    """Somebody else has put back what this node wrote first and then replaced."""
    async with FakeOrigin() as origin, WriteBackRig(origin, tmp_path) as rig:
        await _seen(rig, origin)
        for body in (b"first", b"second"):
            await rig.client().request("PUT", PATH, (THROUGH,), body)
        await rig.client().request("GET", PATH)
        drained = Gate()
        origin.faults.add(HoldRequest(drained), method="HEAD")
        await rig.put("a/object", b"accepted meanwhile")
        origin.store.put("ckpt", "a/object", b"first")
        drained.open()
        await run_loop_until(lambda: [entry.is_conflict for entry in rig.write_back.drainer.entries.values()] == [True])
        assert at_origin(origin, "a/object") == b"first"


async def test_what_another_worker_has_sent_is_no_conflict(tmp_path: Path) -> None:
    """Its message comes after the look at the origin; it says no more, as that worker was killed."""
    told = list[Document]()

    class _Peer:
        def notify(self, request: Document) -> None:
            told.append(request)

    async with FakeOrigin() as origin, WriteBackRig(origin, tmp_path) as rig:
        await _seen(rig, origin)
        origin.store.put("ckpt", "a/object", b"through")
        await rig.put("a/object", b"accepted meanwhile")
        await run_loop_until(lambda: [entry.is_conflict for entry in rig.write_back.drainer.entries.values()] == [True])
        proofs, room = rig.write_back.proofs, rig.write_back.room
        another = RecordExchange(Peers({1: cast("Peer", _Peer())}), rig.write_back.shown, proofs, room)
        versions = [(ObjectName("ckpt", "a/object"), md5_etag(b"through"))]
        another.announce_sent(versions)
        another.announce_sent(versions, "settled")
        another.announce_sent(versions)
        another.announce_sent(versions, "lost")
        for message in told:
            rig.parts.peer_service.ordered["sent_through"](message, OpenWrites())
        await rig.settled()
        assert at_origin(origin, "a/object") == b"accepted meanwhile"
