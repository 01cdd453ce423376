"""A PUT and a DELETE of the same member at the same time: the member never comes back, whichever is first."""

import asyncio
import base64
import hashlib
import signal
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from forebay.core.task_registry import TaskRegistry
from harness.clients import RawClient, path_of
from harness.fake.actions import FORBIDDEN, HoldRequest, LoseAnswer
from harness.fake.gate import Gate
from harness.fake.s3_request import S3Request
from harness.fake_origin import FakeOrigin
from harness.inspection import run_loop_until
from harness.packed_deletions import KEY, OTHER, is_gone, is_tombstone, tombstones
from harness.packed_rig import IMMUTABLE, RULE, pack, read, rig_of
from harness.raw_connection import RawAnswer
from harness.worker_node import Node
from harness.write_back_rig import WriteBackRig

NEW = b"the new object"
PATH = path_of("bucket", KEY)


def is_delete(asked: S3Request) -> bool:
    return (asked.key == KEY and asked.method == "DELETE") or asked.operation == "DeleteObjects"


def is_put(asked: S3Request) -> bool:
    return asked.key == KEY and asked.method == "PUT"


async def put(client: RawClient) -> RawAnswer:
    return await client.request("PUT", PATH, (), NEW)


async def copy(client: RawClient) -> RawAnswer:
    """Of an object with the same bytes, which the test has put there."""
    return await client.request("PUT", PATH, [("x-amz-copy-source", path_of("bucket", "source"))])


async def delete(client: RawClient) -> RawAnswer:
    return await client.request("DELETE", PATH)


async def delete_batch(client: RawClient) -> RawAnswer:
    listed = "".join(f"<Object><Key>{key}</Key></Object>" for key in (OTHER, KEY))
    body = f"<Delete>{listed}</Delete>".encode()
    digest = base64.b64encode(hashlib.md5(body, usedforsecurity=False).digest()).decode()
    return await client.request("POST", "/bucket?delete=", [("Content-MD5", digest)], body)


Write = Callable[[RawClient], Coroutine[Any, Any, RawAnswer]]


@pytest.mark.parametrize("write", [put, copy])
@pytest.mark.parametrize("deletion", [delete, delete_batch])
async def test_a_put_waits_for_a_delete_under_way(tmp_path: Path, write: Write, deletion: Write) -> None:
    """Whose tombstone fails then: what it was to hide would show once the DELETE had removed the new object."""
    async with FakeOrigin() as origin, rig_of(origin, tmp_path) as rig:
        pack(origin)
        origin.store.put("bucket", "source", NEW)
        assert not await is_gone(rig.client())
        gate, tasks = Gate(), TaskRegistry()
        origin.faults.add(HoldRequest(gate), where=is_delete, times=1)
        origin.faults.add(FORBIDDEN, where=is_tombstone)
        deleting = tasks.spawn(deletion(rig.client()), "delete")
        await gate.reached()
        writing = tasks.spawn(write(rig.client()), "put")
        await run_loop_until(lambda: writing.done() or rig.parts.writes.locks.waiting)
        assert not writing.done()
        gate.open()
        assert (await deleting).status == 503
        assert (await writing).status == 200
        assert (await read(rig.client(), KEY)).body == NEW


@pytest.mark.parametrize("deletion", [delete, delete_batch])
async def test_a_delete_waits_for_a_put_under_way(tmp_path: Path, deletion: Write) -> None:
    async with FakeOrigin() as origin, rig_of(origin, tmp_path) as rig:
        pack(origin)
        assert not await is_gone(rig.client())
        gate, tombstone, tasks = Gate(), Gate(), TaskRegistry()
        origin.faults.add(HoldRequest(gate), where=is_put, times=1)
        origin.faults.add(HoldRequest(tombstone), where=is_tombstone, times=1)
        writing = tasks.spawn(put(rig.client()), "put")
        await gate.reached()
        deleting = tasks.spawn(deletion(rig.client()), "delete")
        await run_loop_until(lambda: origin.log.count("DELETE") or deleting.done() or rig.parts.writes.locks.waiting)
        assert rig.parts.writes.locks.waiting
        gate.open()
        assert (await writing).status == 200
        await tombstone.reached()
        assert (await read(rig.client(), KEY)).body == NEW, "the tombstone comes first now"
        tombstone.open()
        assert (await deleting).status in {200, 204}
        assert await is_gone(rig.client())


async def test_a_completed_upload_waits_as_well(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, rig_of(origin, tmp_path) as rig:
        pack(origin)
        client, tasks, gate = rig.client(), TaskRegistry(), Gate()
        answer = await client.request("POST", f"{PATH}?uploads")
        upload = answer.body.partition(b"<UploadId>")[2].partition(b"</UploadId>")[0].decode()
        part = await client.request("PUT", f"{PATH}?partNumber=1&uploadId={upload}", (), NEW)
        listed = f"<Part><PartNumber>1</PartNumber><ETag>{part.headers['ETag']}</ETag></Part>"
        document = f"<CompleteMultipartUpload>{listed}</CompleteMultipartUpload>".encode()
        origin.faults.add(HoldRequest(gate), where=is_delete, times=1)
        deleting = tasks.spawn(delete(client), "delete")
        await gate.reached()
        writing = tasks.spawn(client.request("POST", f"{PATH}?uploadId={upload}", (), document), "complete")
        await run_loop_until(lambda: writing.done() or rig.parts.writes.locks.waiting)
        assert not writing.done()
        gate.open()
        assert [(await each).status for each in (deleting, writing)] == [204, 200]
        assert (await read(client, KEY)).body == NEW


async def test_a_put_behind_a_refused_tombstone_needs_none(tmp_path: Path) -> None:
    """The origin's answers are known: no DELETE may still be carried out."""
    async with FakeOrigin() as origin, rig_of(origin, tmp_path) as rig:
        pack(origin)
        origin.store.put("bucket", KEY, b"hides the member")
        origin.faults.add(FORBIDDEN, where=is_tombstone)
        assert (await delete(rig.client())).status == 503
        assert (await put(rig.client())).status == 200
        assert (await read(rig.client(), KEY)).body == NEW


async def test_writes_of_other_keys_do_not_wait(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, rig_of(origin, tmp_path) as rig:
        pack(origin)
        gate, tasks = Gate(), TaskRegistry()
        origin.faults.add(HoldRequest(gate), where=is_delete, times=1)
        deleting = tasks.spawn(delete(rig.client()), "delete")
        await gate.reached()
        for path in (path_of("bucket", OTHER), path_of("bucket", "elsewhere")):
            assert (await rig.client().request("PUT", path, (), NEW)).status == 200
        assert (await read(rig.client(), KEY)).status == 200
        gate.open()
        assert (await deleting).status == 204


async def test_workers_wait_for_each_other(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Node(origin, tmp_path, 2, rest=IMMUTABLE) as node:
        pack(origin)
        first, second = (node.client(worker) for worker in range(2))
        for client in (first, second):
            assert not await is_gone(client)
        gate, tasks = Gate(), TaskRegistry()
        origin.faults.add(HoldRequest(gate), where=is_delete, times=1)
        origin.faults.add(FORBIDDEN, where=is_tombstone)
        deleting = tasks.spawn(delete(first), "delete")
        await gate.reached()
        writing = tasks.spawn(put(second), "put")
        assert (await second.request("PUT", path_of("bucket", OTHER), (), NEW)).status == 200
        assert not origin.log.count("PUT", key=KEY)
        gate.open()
        assert [(await each).status for each in (deleting, writing)] == [503, 200]
        for client in (first, second):
            assert (await read(client, KEY)).body == NEW


async def test_a_delete_whose_worker_dies_delays_no_put(tmp_path: Path) -> None:
    """The origin carries the DELETE out once the PUT is acknowledged: the PUT has hidden the member."""
    async with FakeOrigin() as origin, Node(origin, tmp_path, 2, rest=IMMUTABLE) as node:
        pack(origin)
        first, second = (node.client(worker) for worker in range(2))
        for client in (first, second):
            assert not await is_gone(client)
        gate, tasks = Gate(), TaskRegistry()
        origin.faults.add(HoldRequest(gate), where=is_delete, times=1)
        deleting = tasks.spawn(delete(first), "delete")
        await gate.reached()
        await node.kill_worker(0, signal.SIGKILL)
        await asyncio.wait([deleting])
        assert (await put(second)).status == 200
        assert (await read(second, KEY)).body == NEW
        gate.open()
        await origin.log.wait_idle()
        assert origin.store.current("bucket", KEY) is None
        assert await is_gone(second)


@pytest.mark.parametrize("mode", ["through", "back"])
async def test_a_put_behind_a_lost_delete_hides_the_member(tmp_path: Path, mode: str) -> None:
    rule = RULE + f'write = "{mode}"\n'
    async with FakeOrigin() as origin, WriteBackRig(origin, tmp_path, rest=rule) as rig:
        pack(origin)
        assert not await is_gone(rig.client())
        for method in ("PUT", "DELETE", "PUT"):  # the first of their kinds go through
            assert (await rig.client().request(method, path_of("bucket", "train/proof"))).status in {200, 204}
        await rig.settled()
        lost = origin.faults.add(LoseAnswer(), where=is_put, times=1)
        origin.faults.add(FORBIDDEN, where=is_tombstone, times=1)
        with_origin = [("x-forebay-durability", "origin")]
        assert (await rig.client().request("PUT", PATH, with_origin, b"lost")).status == 503
        origin.faults.remove(lost)
        origin.store.delete("bucket", KEY)
        assert (await put(rig.client())).status == 503, "not acknowledged as long as the member may come back"
        assert (await put(rig.client())).status == 200
        assert len(tombstones(origin)) == 1
        await rig.settled()
        origin.store.delete("bucket", KEY)  # as a DELETE does that was lost
        assert await is_gone(rig.client())


async def test_a_put_in_the_journal_waits_for_a_delete(tmp_path: Path) -> None:
    """Which goes through."""
    async with FakeOrigin() as origin, WriteBackRig(origin, tmp_path, rest=RULE + 'write = "back"\n') as rig:
        pack(origin)
        for method in ("PUT", "DELETE", "PUT"):  # the first of their kinds go through
            assert (await rig.client().request(method, path_of("bucket", "train/proof"))).status in {200, 204}
        await rig.settled()
        assert not await is_gone(rig.client())
        gate, tasks = Gate(), TaskRegistry()
        origin.faults.add(HoldRequest(gate), where=is_delete, times=1)
        origin.faults.add(FORBIDDEN, where=is_tombstone)
        deleting = tasks.spawn(rig.client().request("DELETE", PATH, [("x-forebay-durability", "origin")]), "delete")
        await gate.reached()
        writing = tasks.spawn(put(rig.client()), "put")
        await run_loop_until(lambda: writing.done() or rig.parts.writes.locks.waiting)
        assert not writing.done()
        gate.open()
        assert [(await each).status for each in (deleting, writing)] == [503, 200]
        assert (await read(rig.client(), KEY)).body == NEW
        await rig.settled()
        assert (await read(rig.client(), KEY)).body == NEW


async def test_a_refused_delete_under_a_journal_changes_nothing(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, WriteBackRig(origin, tmp_path, rest=RULE + 'write = "back"\n') as rig:
        pack(origin)
        assert not await is_gone(rig.client())
        denied = origin.faults.add(FORBIDDEN, where=is_delete)
        assert (await rig.client().request("DELETE", PATH, [("x-forebay-durability", "origin")])).status == 403
        assert not await is_gone(rig.client())
        origin.faults.remove(denied)


@pytest.mark.parametrize(("first", "second"), [("PUT", "DELETE"), ("DELETE", "PUT")])
async def test_a_condition_holds_when_its_turn_comes(tmp_path: Path, first: str, second: str) -> None:
    """`If-Match` with the ETag of the member, which another write replaces first."""
    async with FakeOrigin() as origin, rig_of(origin, tmp_path) as rig:
        pack(origin)
        condition = [("If-Match", (await read(rig.client(), KEY)).headers["ETag"])]
        gate, tasks = Gate(), TaskRegistry()
        origin.faults.add(HoldRequest(gate), where=is_put if first == "PUT" else is_delete, times=1)
        writing = tasks.spawn(rig.client().request(first, PATH, (), NEW if first == "PUT" else b""), first)
        await gate.reached()
        conditional = tasks.spawn(rig.client().request(second, PATH, condition, b"late"), second)
        await run_loop_until(lambda: conditional.done() or rig.parts.writes.locks.waiting)
        assert not conditional.done()
        gate.open()
        assert (await writing).status in {200, 204}
        assert (await conditional).status == 412
        if first == "PUT":
            assert (await read(rig.client(), KEY)).body == NEW
        else:
            assert await is_gone(rig.client())
