"""Many readers of one object: each block is fetched once, readers get bytes as they arrive, and no reader waits for
another."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from forebay.core.byte_ranges import Span
from forebay.server.composition import compose
from forebay.server.telemetry.metrics import Metrics
from forebay.settings.loader import load_settings
from harness.clients import RawClient, RawRequest, path_of
from harness.fake import actions
from harness.fake.gate import Gate
from harness.fake_origin import FakeOrigin
from harness.inspection import lost_clients, metric_value, run_loop_until
from harness.memory_exchange import handle_request
from harness.raw_connection import RawAnswer
from harness.rig import Rig

KIB, MIB = 1 << 10, 1 << 20
BLOCK = 64 * KIB
RULES = '[[rules]]\npath = "**"\nblock = "64KiB"\n'


async def run_to_completion(client: RawClient, requests: Sequence[RawRequest]) -> list[RawAnswer]:
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(client.send(request)) for request in requests]
    return [task.result() for task in tasks]


@pytest.mark.parametrize("memory", ["64MiB", "0"])
async def test_a_hundred_readers_of_a_cold_object_cost_one_read_of_it(tmp_path: Path, memory: str) -> None:
    """Also where no tier keeps what has come: those who wait for it share it."""
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, memory=memory, rest=RULES) as rig:
        content = origin.store.put_synthetic("bucket", "key", 8 * BLOCK)
        origin.faults.add(actions.HoldHead(gate := Gate()), key="key", times=1)
        client = rig.client()
        async with asyncio.TaskGroup() as group:
            wanted = group.create_task(run_to_completion(client, [client.sign("GET", path_of("bucket", "key"))] * 100))
            await run_loop_until(lambda: rig.worker.listener.requests.in_flight == 100)
            gate.open()
        for answer in wanted.result():
            assert (answer.status, answer.body) == (200, content.expected(Span(0, 8 * BLOCK)))
        assert origin.log.ranges("key") == ["bytes=0-4194303"]
        assert sum(seen.bytes_sent for seen in origin.log.matching(key="key")) == 8 * BLOCK
        assert await metric_value(rig, "forebay_flights_started_total") == 8


async def test_thousand_readers_fetch_each_block_once(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, rest=RULES) as rig:
        content = origin.store.put_synthetic("bucket", "key", 4 * BLOCK)
        client = rig.client()
        await client.request("HEAD", path_of("bucket", "key"))
        spans = [Span(n * BLOCK // 2, n * BLOCK // 2 + 1000) for n in range(8)]
        requests = [
            client.sign("GET", path_of("bucket", "key"), [("Range", f"bytes={span.start}-{span.stop - 1}")])
            for span in spans
        ]
        origin.faults.add(actions.HoldRequest(gate := Gate()), method="GET", key="key")
        async with asyncio.TaskGroup() as group:
            wanted = group.create_task(run_to_completion(client, requests * 125))
            await run_loop_until(lambda: rig.worker.listener.requests.in_flight == 1000)
            gate.open()
        for position, answer in enumerate(wanted.result()):
            assert (answer.status, answer.body) == (206, content.expected(spans[position % 8]))
        assert sorted(map(str, origin.log.ranges("key"))) == sorted(
            f"bytes={n * BLOCK}-{(n + 1) * BLOCK - 1}" for n in range(4)
        )
        assert await metric_value(rig, "forebay_flights_started_total") == 4


async def test_the_first_byte_does_not_wait_for_the_block(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path) as rig:
        content = origin.store.put_synthetic("bucket", "key", MIB)
        origin.faults.add(actions.HoldAfter(1000, gate := Gate()), key="key")
        async with await rig.client().open() as connection:
            await connection.send(rig.client().sign("GET", path_of("bucket", "key")).wire)
            assert (await connection.read_head()).status == 200
            assert await connection.read(1000) == content.expected(Span(0, 1000))
            assert origin.log.concurrent == 1
            gate.open()
            assert await connection.read_rest() == (content.expected(Span(1000, MIB)), False)


async def test_reader_joining_a_flight_gets_its_bytes_at_once(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path) as rig:
        content = origin.store.put_synthetic("bucket", "key", MIB)
        origin.faults.add(actions.HoldAfter(300_000, gate := Gate()), key="key")
        wire = rig.client().sign("GET", path_of("bucket", "key")).wire
        async with await rig.client().open() as first, await rig.client().open() as second:
            for connection in (first, second):
                await connection.send(wire)
                assert (await connection.read_head()).status == 200
                assert await connection.read(300_000) == content.expected(Span(0, 300_000))
            gate.open()
            for connection in (first, second):
                assert await connection.read_rest() == (content.expected(Span(300_000, MIB)), False)
        assert origin.log.count(key="key") == 1


async def test_a_large_miss_is_read_in_parallel_but_no_more_than_allowed(tmp_path: Path) -> None:
    bounds = 'parallel = 4\nmax_run = "64KiB"\ngap = "0"'
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, origin=bounds, rest=RULES) as rig:
        content = origin.store.put_synthetic("bucket", "key", 32 * BLOCK)
        gates = [Gate() for _ in range(32)]
        for number, gate in enumerate(gates):
            asked = f"bytes={number * BLOCK}-{(number + 1) * BLOCK - 1}"
            origin.faults.add(actions.HoldHead(gate), key="key", range=asked)
        async with asyncio.TaskGroup() as group:
            wanted = group.create_task(rig.client().request("GET", path_of("bucket", "key")))
            for number in (0, 1):
                await gates[number].reached()
                gates[number].open()
            for number in (2, 3, 4, 5):  # who had to wait has as many in flight as are allowed
                await gates[number].reached()
            assert [gate.arrived for gate in gates] == [1] * 6 + [0] * 26
            for gate in gates:
                gate.open()
        assert wanted.result().body == content.expected(Span(0, 32 * BLOCK))
        assert origin.log.high_water == 4
        assert origin.log.count("GET", key="key") == 32


async def test_the_first_reader_leaves_and_nine_others_get_everything(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, rest=RULES) as rig:
        content = origin.store.put_synthetic("bucket", "key", 8 * BLOCK)
        origin.faults.add(actions.HoldAfter(10_000, gate := Gate()), key="key", times=1)
        client = rig.client()
        request = client.sign("GET", path_of("bucket", "key"))
        async with asyncio.TaskGroup() as group, await client.open() as first:
            await first.send(request.wire)
            await first.read_head()
            others = group.create_task(run_to_completion(client, [request] * 9))
            await run_loop_until(lambda: rig.worker.listener.requests.in_flight == 10)
            first.reset()
            await run_loop_until(lambda: lost_clients(rig) == 1)
            gate.open()
        for answer in others.result():
            assert (answer.aborted, answer.body) == (False, content.expected(Span(0, 8 * BLOCK)))
        assert origin.log.count(key="key") == 1


async def test_abandoned_flight_finishes_its_current_block_only(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, rest=RULES) as rig:
        content = origin.store.put_synthetic("bucket", "key", 64 * BLOCK)
        gates = [Gate(), Gate()]
        origin.faults.add(
            actions.HoldAfter(2 * BLOCK + 100, gates[0]),
            actions.HoldAfter(4 * BLOCK + 100, gates[1]),
            key="key",
            times=1,
        )
        client = rig.client()
        async with await client.open() as only:
            await only.send(client.sign("GET", path_of("bucket", "key")).wire)
            await only.read_head()
            await only.read(2 * BLOCK)
            only.reset()
            await run_loop_until(lambda: lost_clients(rig) == 1)
        gates[0].open()
        await run_loop_until(
            lambda: rig.worker.listener.requests.in_flight == 0
        )  # seen when there was something to send
        gates[1].open()
        await rig.wait_idle()
        kept = rig.parts.storage.tiers.memory.occupancy().blocks
        assert 3 <= kept < 32
        answer = await client.request("GET", path_of("bucket", "key"))
        assert (answer.status, answer.body) == (200, content.expected(Span(0, 64 * BLOCK)))
        assert origin.log.ranges("key")[1:] == [f"bytes={kept * BLOCK}-{64 * BLOCK - 1}"]


async def test_slow_reader_uses_little_memory_and_blocks_nobody(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, memory="4MiB") as rig:
        content = origin.store.put_synthetic("bucket", "large", 96 * MIB)
        origin.store.put("bucket", "small", b"content")
        async with await rig.client().open(receive_buffer=4096) as slow:
            await slow.send(rig.client().sign("GET", path_of("bucket", "large")).wire)
            await slow.read_head()
            assert await slow.read(1000) == content.expected(Span(0, 1000))
            await rig.wait_idle()  # nothing more is fetched while nothing more is taken
            assert origin.log.bytes_sent <= 33 * MIB
            assert rig.parts.storage.budget.in_use <= 33 * MIB
            assert (await rig.client().request("GET", path_of("bucket", "small"))).body == b"content"
            assert (await slow.read(40 * MIB)) == content.expected(Span(1000, 1000 + 40 * MIB))
            await rig.wait_idle()
            assert rig.parts.storage.budget.in_use <= 64 * MIB


async def test_reader_without_buffer_memory_gets_slow_down(tmp_path: Path) -> None:
    """In open mode and without a socket, as the time that memory is waited for is set here."""
    async with FakeOrigin(verify=False) as origin:
        origin.store.put("bucket", "a", b"a" * MIB)
        origin.store.put("bucket", "b", b"b" * MIB)
        text = (
            f'[origin]\nendpoint = "{origin.endpoint}"\ndialect = "swift"\nanonymous = true\nmax_run = "1MiB"\n'
            '[memory]\nsize = "8MiB"\nbuffers = "1MiB"\n[auth]\nmode = "open"\n'
        )
        parts = compose(load_settings(text, {}, {}, lambda _: "").settings, Metrics(), buffer_wait=0.0)
        origin.faults.add(actions.HoldAfter(1000, gate := Gate()), key="a")
        async with asyncio.TaskGroup() as group:
            first = group.create_task(handle_request(parts.requests.gateway, "GET", "/bucket/a"))
            await gate.reached()
            refused = await handle_request(parts.requests.gateway, "GET", "/bucket/b")
            assert (refused.status, refused.headers["Retry-After"]) == (503, "1")
            assert b"<Code>SlowDown</Code>" in refused.body
            gate.open()
        assert (first.result().status, bytes(first.result().body)) == (200, b"a" * MIB)
        later = await handle_request(parts.requests.gateway, "GET", "/bucket/b")
        assert (later.status, bytes(later.body)) == (200, b"b" * MIB)
        await parts.context.tasks.wait_idle()
        assert (parts.storage.budget.in_use, len(parts.fetch.flights)) == (0, 0)
        await parts.origins.of(None).close()
