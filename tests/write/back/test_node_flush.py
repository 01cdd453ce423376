"""A flush ends once all that is left waits for a person, and names the stuck writes."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from forebay.write.back.node_flush import NAMED, FlushReport
from harness.clients import path_of
from harness.fake.actions import HoldRequest, Respond
from harness.fake.gate import Gate
from harness.fake_origin import FakeOrigin
from harness.inspection import run_loop_until
from harness.worker_node import Node
from harness.write_back_rig import JOURNAL, RULE, WriteBackRig, at_origin


async def flush(rig: WriteBackRig, prefix: str = "") -> FlushReport:
    """Never comes to the end of its time."""
    assert rig.parts.writes.backlog is not None
    async with asyncio.timeout(20):
        return await rig.parts.writes.backlog.flush("ckpt", prefix, 3600, "")


@asynccontextmanager
async def under_way(rig: WriteBackRig, key: str) -> AsyncGenerator[None]:
    """A write whose request has begun, and which is acknowledged at the end."""
    request = rig.client().sign("PUT", path_of("ckpt", key), (("Expect", "100-continue"),), b"1")
    async with await rig.client().open() as connection:
        await connection.send(request.wire[:-1])
        assert (await connection.read_head("100-continue")).status == 100
        yield
        await connection.send(request.wire[-1:])
        assert (await connection.answer("PUT")).headers["x-forebay-durable"] == "local"


async def test_it_ends_at_once_behind_a_stuck_write(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, WriteBackRig(origin, tmp_path) as rig:
        await rig.prove()
        origin.faults.add(Respond(403, "AccessDenied"), method="PUT", key="a/refused")
        await rig.put("a/refused", b"1")
        await rig.put("b/behind", b"2")
        report = await flush(rig)
        assert (report.left, report.held_up) == (2, 2)
        [stuck] = report.stuck
        assert (stuck.bucket, stuck.key) == ("ckpt", "a/refused")
        assert stuck.reason == "the origin answered AccessDenied"
        # It is named also where it is outside of the prefix.
        behind = await flush(rig, "b/")
        assert (behind.left, behind.held_up, behind.stuck) == (1, 1, (stuck,))
        assert (await flush(rig, "c/"))[2:4] == (0, ())


async def test_it_ends_when_a_write_gets_stuck_meanwhile(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, WriteBackRig(origin, tmp_path) as rig:
        await rig.prove()
        origin.faults.add(HoldRequest(gate := Gate()), Respond(403, "AccessDenied"), method="PUT", key="a/refused")
        await rig.put("a/refused", b"1")
        await gate.reached()
        async with asyncio.TaskGroup() as group:
            waiting = group.create_task(flush(rig))
            await run_loop_until(lambda: rig.write_back.pending.waiting > 0)
            gate.open()
        report = waiting.result()
        assert (report.left, report.held_up, len(report.stuck)) == (1, 1, 1)


async def test_it_waits_for_what_can_arrive_beside_it(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, WriteBackRig(origin, tmp_path) as rig:
        await rig.prove()
        origin.faults.add(HoldRequest(gate := Gate()), method="PUT", key="a/slow", times=1)
        origin.faults.add(Respond(403, "AccessDenied"), method="PUT", key="a/refused")
        async with under_way(rig, "a/slow"):
            await rig.put("a/refused", b"2")  # neither comes after the other
        await gate.reached()
        await run_loop_until(lambda: bool(rig.write_back.shown.stopped))
        async with asyncio.TaskGroup() as group:
            waiting = group.create_task(flush(rig))
            await run_loop_until(lambda: rig.write_back.pending.waiting > 0)
            gate.open()
        report = waiting.result()
        assert (report.left, report.held_up, at_origin(origin, "a/slow")) == (1, 1, b"1")


async def test_a_later_write_of_the_object_is_held_up_too(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, WriteBackRig(origin, tmp_path) as rig:
        await rig.prove()
        origin.faults.add(Respond(403, "AccessDenied"), method="PUT", key="a/refused")
        async with under_way(rig, "a/refused"):
            await rig.put("a/refused", b"2")
        assert (await flush(rig))[:1] == (2,)


async def test_not_more_than_a_few_are_named(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, WriteBackRig(origin, tmp_path) as rig:
        await rig.prove()
        origin.faults.add(Respond(403, "AccessDenied"), method="PUT")
        await asyncio.gather(*(rig.put(f"a/{number}", b"") for number in range(NAMED + 5)))
        report = await flush(rig)
        assert report.left == report.held_up == NAMED + 5
        assert len(report.stuck) <= NAMED


@pytest.mark.parametrize("worker", [0, 1])
async def test_any_worker_ends_it(tmp_path: Path, worker: int) -> None:
    rest = JOURNAL.format(path=tmp_path / "journal", size="64MiB") + RULE
    async with FakeOrigin() as origin, Node(origin, tmp_path, rest=rest) as node, asyncio.timeout(60):
        origin.store.create_bucket("ckpt")
        assert (await node.client(0).request("PUT", path_of("ckpt", "a/proof"), (), b"")).status == 200
        origin.faults.add(Respond(403, "AccessDenied"), method="PUT", key="a/refused")
        assert (await node.client(worker).request("PUT", path_of("ckpt", "a/refused"), (), b"x")).status == 200
        path = path_of("ckpt", ".forebay/flush/new")
        answer = await node.client(worker).request("PUT", path, (), b"a/")
        assert answer.headers["x-forebay-flush-held-up"] == answer.headers["x-forebay-flush-left"] == "1"
