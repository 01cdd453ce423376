"""Misses of small objects take no task, and differ in nothing else from those that do."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from forebay.server.fastpath.direct_misses import DirectMisses
from harness.clients import RawClient, path_of
from harness.fake import actions
from harness.fake.gate import Gate
from harness.fake_origin import FakeOrigin
from harness.inspection import cache_status, error_code, metric_value, object_response, run_loop_until
from harness.manual_timers import ManualTimers
from harness.raw_connection import RawAnswer
from harness.rig import READER, Rig

SIZE = 20_480
RULES = '[[rules]]\npath = "**"\nblock = "64KiB"\nfreshness = "60s"\n'


@asynccontextmanager
async def connected(
    directory: Path, *objects: str, timers: ManualTimers | None = None, size: int = SIZE
) -> AsyncIterator[tuple[Rig, FakeOrigin]]:
    """A Forebay with an idle connection to an origin with these objects: no miss needs to wait for one."""
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, directory, timers, rest=RULES) as rig:
        for key in ("connection", *objects):
            origin.store.put("bucket", key, content_of(key, size))
        await rig.client().request("GET", path_of("bucket", "connection"))
        yield rig, origin


def content_of(key: str, size: int = SIZE) -> bytes:
    return (f"{key} ".encode() * size)[:size]


def misses_of(rig: Rig) -> DirectMisses:
    misses = rig.worker.listener.reads.misses
    assert misses is not None
    return misses


async def begun(
    rig: Rig, client: RawClient, key: str, group: asyncio.TaskGroup, count: int = 1
) -> list[asyncio.Task[RawAnswer]]:
    """Reads that are under way, of which the first is a direct miss."""
    tasks = [group.create_task(client.request("GET", path_of("bucket", key))) for _ in range(count)]
    await run_loop_until(lambda: rig.worker.listener.requests.in_flight == count)
    assert len(misses_of(rig)) == 1
    return tasks


async def test_a_miss_is_answered_and_kept_without_a_task(tmp_path: Path) -> None:
    async with connected(tmp_path, "key") as (rig, origin):
        origin.faults.add(actions.HoldHead(gate := Gate()), key="key", times=1)
        async with asyncio.TaskGroup() as group:
            (read,) = await begun(rig, rig.client(), "key", group)
            gate.open()
        again = await rig.client().request("GET", path_of("bucket", "key"))
        assert (cache_status(read.result()), cache_status(again)) == ((200, "miss"), (200, "hit-memory"))
        assert read.result().body == again.body == content_of("key")
        assert object_response(read.result()) == object_response(again)
        assert (origin.log.count(key="key"), len(misses_of(rig))) == (1, 0)


async def test_readers_that_come_meanwhile_share_it(tmp_path: Path) -> None:
    async with connected(tmp_path, "key") as (rig, origin):
        origin.faults.add(actions.HoldHead(gate := Gate()), key="key", times=1)
        async with asyncio.TaskGroup() as group:
            reads = await begun(rig, rig.client(), "key", group, 20)
            gate.open()
        for read in reads:
            assert (cache_status(read.result()), len(read.result().body)) == ((200, "miss"), SIZE)
        assert origin.log.count(key="key") == 1
        assert await metric_value(rig, "forebay_flights_started_total") == 2  # with that of the first object


@pytest.mark.parametrize("readers", [1, 3])
async def test_a_task_goes_on_with_an_object_of_many_blocks(tmp_path: Path, readers: int) -> None:
    async with connected(tmp_path, "key", size=1 << 20) as (rig, origin):
        origin.faults.add(actions.HoldHead(gate := Gate()), key="key", times=1)
        async with asyncio.TaskGroup() as group:
            reads = await begun(rig, rig.client(), "key", group, readers)
            gate.open()
        for read in reads:
            assert read.result().body == content_of("key", 1 << 20)
        assert origin.log.count(key="key") == 1


@pytest.mark.parametrize("readers", [1, 3])
async def test_a_task_sends_it_anew_where_the_connection_breaks(tmp_path: Path, readers: int) -> None:
    async with connected(tmp_path, "key") as (rig, origin):
        origin.faults.add(actions.HoldRequest(gate := Gate()), actions.Drop(), key="key", times=1)
        async with asyncio.TaskGroup() as group:
            reads = await begun(rig, rig.client(), "key", group, readers)
            gate.open()
        for read in reads:
            assert read.result().body == content_of("key")
        assert origin.log.count(key="key") == 2


async def test_a_late_response_is_hedged_as_soon_as_any(tmp_path: Path) -> None:
    async with connected(tmp_path, "key", timers=(timers := ManualTimers())) as (rig, origin):
        origin.faults.add(actions.HoldRequest(gate := Gate()), key="key", times=1)
        async with asyncio.TaskGroup() as group:
            (read,) = await begun(rig, rig.client(), "key", group)
            await gate.reached()
            for _ in range(8):
                timers.advance(0.3125)
                await asyncio.sleep(0)
        assert read.result().body == content_of("key")
        assert await metric_value(rig, 'forebay_origin_hedges_total{result="won"}') == 1
        gate.open()


async def test_a_refusal_is_the_origins(tmp_path: Path) -> None:
    async with connected(tmp_path) as (rig, origin):
        origin.faults.add(actions.HoldHead(gate := Gate()), key="absent", times=1)
        async with asyncio.TaskGroup() as group:
            (read,) = await begun(rig, rig.client(), "absent", group)
            gate.open()
        assert (read.result().status, error_code(read.result())) == (404, "NoSuchKey")
        assert origin.log.count(key="absent") == 1


async def test_a_write_meanwhile_is_seen_by_the_next_reader(tmp_path: Path) -> None:
    async with connected(tmp_path, "key") as (rig, origin):
        old = content_of("key")
        origin.faults.add(actions.HoldHead(gate := Gate()), method="GET", key="key", times=1)
        client = rig.client()
        async with asyncio.TaskGroup() as group:
            (read,) = await begun(rig, client, "key", group)
            await gate.reached()
            await client.request("PUT", path_of("bucket", "key"), body=b"new")
            gate.open()
        assert read.result().body in {old, b"new"}
        assert (await client.request("GET", path_of("bucket", "key"))).body == b"new"


async def test_what_was_written_through_is_verified_and_fetched_once(tmp_path: Path) -> None:
    async with connected(tmp_path) as (rig, origin):
        client = rig.client()
        await client.request("PUT", path_of("bucket", "key"), body=content_of("key"))
        await rig.parts.storage.tiers.forget_bucket("bucket")
        assert (await client.request("GET", path_of("bucket", "key"))).body == content_of("key")
        assert origin.log.count("GET", key="key") == 1


async def test_what_a_reader_left_is_kept(tmp_path: Path) -> None:
    async with connected(tmp_path, "key") as (rig, origin):
        origin.faults.add(actions.HoldHead(gate := Gate()), key="key", times=1)
        async with await rig.client().open() as connection:
            await connection.send(rig.client().sign("GET", path_of("bucket", "key")).wire)
            await gate.reached()
        await run_loop_until(lambda: not rig.worker.listener.server.connections)
        gate.open()
        await run_loop_until(lambda: rig.worker.listener.requests.is_idle)
        again = await rig.client().request("GET", path_of("bucket", "key"))
        assert cache_status(again) == (200, "hit-memory")


async def test_another_range_goes_on_with_a_miss_that_was_given_up(tmp_path: Path) -> None:
    async with connected(tmp_path, "key", size=1 << 20) as (rig, origin):
        origin.faults.add(actions.HoldHead(gate := Gate()), key="key", times=1)
        client, content = rig.client(), content_of("key", 1 << 20)
        async with asyncio.TaskGroup() as group:
            (read,) = await begun(rig, client, "key", group)
            other = group.create_task(
                client.request("GET", path_of("bucket", "key"), headers=[("Range", "bytes=600000-700000")])
            )
            await run_loop_until(lambda: rig.worker.listener.requests.in_flight == 2)
            gate.open()
        assert read.result().body == content
        assert other.result().body == content[600_000:700_001]


async def test_a_stop_ends_misses_under_way(tmp_path: Path) -> None:
    async with connected(tmp_path, "key") as (rig, origin):
        origin.faults.add(actions.HoldHead(gate := Gate()), key="key", times=1)
        async with await rig.client().open() as connection:
            await connection.send(rig.client().sign("GET", path_of("bucket", "key")).wire)
            await gate.reached()
            service = rig.worker.listener.requests
            rig.worker.listener.reads.close()
            assert (await connection.read_rest())[0] == b""
            assert (service.in_flight, len(misses_of(rig))) == (0, 0)
        assert [each.client.reads.in_use for each in rig.parts.origins] == [0]
        gate.open()


async def test_a_drain_ends_the_connection_with_the_answer_to_its_miss(tmp_path: Path) -> None:
    async with connected(tmp_path, "key") as (rig, origin):
        origin.faults.add(actions.HoldHead(gate := Gate()), key="key", times=1)
        client, service = rig.client(), rig.worker.listener.requests
        async with await client.open() as connection, asyncio.timeout(30):
            await connection.send(client.sign("GET", path_of("bucket", "key")).wire)
            await gate.reached()
            assert len(misses_of(rig)) == 1
            async with asyncio.TaskGroup() as group:
                group.create_task(rig.worker.stop())
                await run_loop_until(lambda: service.is_draining)
                gate.open()
                answer = await connection.answer()
            assert (answer.status, answer.headers["Connection"], answer.body) == (200, "close", content_of("key"))
            assert await connection.ended()
        assert origin.log.count(key="key") == 1
        rig._worker = None  # noqa: SLF001 # it has been stopped


async def test_a_head_of_an_unknown_object_has_no_body(tmp_path: Path) -> None:
    async with connected(tmp_path, "key") as (rig, _):
        client, path = rig.client(), path_of("bucket", "key")
        async with await client.open() as connection, asyncio.timeout(30):
            await connection.send(client.sign("HEAD", path).wire + client.sign("GET", path).wire)
            head, read = await connection.answer("HEAD"), await connection.answer()
        assert (head.status, head.headers["Content-Length"], head.body) == (200, str(SIZE), b"")
        assert (read.status, read.body) == (200, content_of("key"))


async def test_a_range_of_an_unknown_object_is_that_range(tmp_path: Path) -> None:
    async with connected(tmp_path, "key") as (rig, _):
        part = await rig.client().request("GET", path_of("bucket", "key"), headers=[("Range", "bytes=5-9")])
        assert (part.status, part.body) == (206, content_of("key")[5:10])


async def test_the_origin_is_not_asked_for_a_resource(tmp_path: Path) -> None:
    async with connected(tmp_path, ".forebay/plans/one") as (rig, origin):
        before = origin.log.count()
        found = await rig.client().request("GET", path_of("bucket", ".forebay/plans/one"))
        assert (found.status, origin.log.count()) == (404, before)


async def test_who_may_not_read_an_object_does_not_open_it(tmp_path: Path) -> None:
    async with connected(tmp_path, "key") as (rig, origin):
        denied = await rig.client(READER).request("GET", path_of("bucket", "key"))
        assert (denied.status, error_code(denied)) == (403, "AccessDenied")
        assert origin.log.count(key="key") == 0
