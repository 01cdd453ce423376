"""Batches through a whole Forebay: many objects by one POST, in one TAR."""

import asyncio
import json
import ssl
from pathlib import Path

import pytest

from forebay.core.names import ObjectName
from forebay.core.read_stream import ReadBatch
from harness.batches import ReadEntry, batch_body, entries_in, read_batch, send_batch
from harness.certificates import TestAuthority, install, tls_settings
from harness.clients import RawClient, path_of
from harness.fake.actions import CloseAfter, HoldAfter, HoldHead, HoldRequest, IgnoreRange, Respond
from harness.fake.gate import Gate
from harness.fake_origin import FakeOrigin
from harness.inspection import run_loop_until
from harness.oss_client import OssClient
from harness.rig import READER, TRAINER, Rig
from harness.write_back_rig import WriteBackRig, at_origin

BLOCK = 64 << 10
RULES = '[[rules]]\npath = "**"\nfreshness = "immutable"\nblock = "64KiB"\nrecord = true\n'
ODD_KEYS = ["a/", "//", "é/ü", "new\nline", "x" * 101, "x" * 1024, "%41", "a b+c", "../up", "tab\t", "\U0001f600"]


def content(key: str, size: int = 10 << 10) -> bytes:
    return (key.encode() + b"|") * (size // (len(key.encode()) + 1) + 1)


def put(origin: FakeOrigin, keys: list[str], size: int = 10 << 10) -> dict[str, bytes]:
    bodies = {key: content(key, size)[:size] for key in keys}
    for key, body in bodies.items():
        origin.store.put("bucket", key, body)
    return bodies


async def test_a_batch_reads_in_the_order_listed_cold_and_warm(tmp_path: Path) -> None:
    keys = [f"set/{number:03}" for number in range(200)]
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, rest=RULES) as rig:
        bodies = put(origin, keys)
        listed = [*reversed(keys), keys[7], keys[7]]
        for _ in range(2):
            found = await read_batch(rig.client(), "bucket", listed)
            assert [(entry.key, entry.body) for entry in found] == [(key, bodies[key]) for key in listed]
            assert {entry.position for entry in found} == {None}
        assert origin.log.count(operation="GetObject") == len(keys), "each object was fetched once"
        counters = rig.parts.context.metrics.counters
        assert counters["forebay_batch_entries_total"][("200",)] == 2 * len(listed)
        results = counters["forebay_cache_results_total"]
        assert results["**", "hit-memory"] >= len(listed)
        assert sum(results.values()) == 2 * len(listed)
        assert rig.parts.context.metrics.rules["**"].requests == 2 * len(listed)


async def test_a_batch_over_tls_is_the_same(tmp_path: Path) -> None:
    keys, sizes = [f"set/{number:03}" for number in range(40)], (0, 1, 511, 10_000, BLOCK, 3 * BLOCK + 1, 1_000_001)
    authority = TestAuthority(tmp_path)
    install(tmp_path, authority.issue("server"))
    server = f'{tls_settings(tmp_path)}socket = "{tmp_path}/forebay.sock"\n'  # objects read again enter files
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, rest=RULES, server=server) as rig:
        bodies: dict[str, bytes] = {}
        for number, key in enumerate(keys):
            bodies |= put(origin, [key], sizes[number % len(sizes)])
        trusted = ssl.create_default_context(cafile=str(authority.file))
        client = RawClient(f"https://127.0.0.1:{rig.worker.tls_address[1]}", TRAINER, tls=trusted)
        for _ in range(4):
            found = await read_batch(client, "bucket", keys)
            assert [(entry.key, entry.body) for entry in found] == list(bodies.items())
            async with await client.open() as connection:  # and a client that leaves in the middle
                await connection.send(client.sign("POST", "/bucket/.forebay/batch", body=batch_body(keys)).wire)
                assert (await connection.read_head()).status == 200
                connection.reset()


async def test_each_object_counts_as_read(tmp_path: Path) -> None:
    keys = [f"set/{number:03}" for number in range(20)]
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, rest=RULES) as rig:
        put(origin, keys)
        seen: list[tuple[str, bool]] = []
        all_seen = asyncio.Event()

        def note(batch: ReadBatch) -> None:
            seen.extend((read.name.key, read.track != "") for read in batch.reads)
            if len(seen) == 2 * len(keys):
                all_seen.set()

        rig.parts.requests.gateway.reader.reads.subscribe(note)
        for _ in range(2):
            await read_batch(rig.client(), "bucket", keys)
        await asyncio.wait_for(all_seen.wait(), 30)
        assert sorted(seen) == sorted((key, True) for key in keys * 2)
        assert [key for key, _ in seen[len(keys) :]] == keys, "hits are read in their order"
        await rig.stop()
        lines = [json.loads(line) for line in rig.access_lines()]
        sent = [line["sent"] for line in lines if line["operation"] == "GetBatch"]
        assert len(sent) == 2
        assert min(sent) >= 20 * (10 << 10)
        assert {line["operation"] for line in lines} == {"GetBatch"}
        await rig.start()


async def test_ranges_and_missing_objects(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, rest=RULES) as rig:
        body = put(origin, ["a"], 3 * BLOCK + 5)["a"]
        origin.store.put("bucket", "empty", b"")
        listed = [
            {"key": "a", "start": 10, "end": 20},
            "gone",
            {"key": "a", "start": BLOCK - 5, "end": BLOCK + 5},
            {"key": "a", "start": 3 * BLOCK},
            {"key": "a", "end": 1 << 40},
            {"key": "a", "start": 1 << 40},
            "empty",
        ]
        for _ in range(2):
            assert await read_batch(rig.client(), "bucket", listed) == [
                ReadEntry("a", body[10:20]),
                ReadEntry("gone", b"", 404, "NoSuchKey"),
                ReadEntry("a", body[BLOCK - 5 : BLOCK + 5]),
                ReadEntry("a", body[-5:]),
                ReadEntry("a", body),
                ReadEntry("a", b"", 416, "InvalidRange"),
                ReadEntry("empty", b""),
            ]


async def test_odd_keys_come_back_exactly(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, rest=RULES) as rig:
        bodies = put(origin, ODD_KEYS)
        for _ in range(2):
            found = await read_batch(rig.client(), "bucket", ODD_KEYS)
            assert {entry.key: entry.body for entry in found} == bodies


async def test_no_keys_and_too_many(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, rest=RULES) as rig:
        origin.store.put("bucket", "k", b"v")
        assert await read_batch(rig.client(), "bucket", []) == []
        most = await send_batch(rig.client(), "bucket", ["k"] * 10_000)
        assert (most.status, most.aborted, len(most.body)) == (200, False, 10_000 * 1024 + 1024)
        refused = await send_batch(rig.client(), "bucket", ["k"] * 10_001)
        assert (refused.status, b"at most 10000" in refused.body) == (400, True)
        misspelt = await send_batch(rig.client(), "bucket", ["k", {"kye": "k"}])
        assert (misspelt.status, b"keys[1]" in misspelt.body) == (400, True), misspelt.body


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "DELETE"])
async def test_another_method_is_refused(tmp_path: Path, method: str) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path) as rig:
        for client in (rig.client(), OssClient(rig.endpoint, TRAINER)):
            assert (await client.request(method, path_of("bucket", ".forebay/batch"))).status == 405
        assert (await rig.client().request("POST", "/bucket/.forebay/batch?restore")).status == 501
        assert origin.log.count(operation="GetObject") == 0


async def test_keys_outside_the_grants_are_marked(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, rest=RULES) as rig:
        bodies = put(origin, ["open/a", "closed/b"])
        listed = ["closed/b", "open/a", "closed/gone", ".forebay/plans/x", "open/a"]
        await read_batch(rig.client(TRAINER), "bucket", listed)
        for order in ("listed", "arrival"):
            answer = await send_batch(rig.client(READER), "bucket", listed, order=order)
            assert b"closed/b|" not in answer.body
            found = entries_in(answer.body)
            assert min(found, key=lambda entry: entry.position or 0)[:4] == ("closed/b", b"", 403, "AccessDenied")
            assert [entry.body for entry in found if entry.status == 200] == [bodies["open/a"]] * 2
            assert [entry.code for entry in found if entry.status != 200] == ["AccessDenied"] * 3


async def test_clients_of_oss_send_batches_too(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, rest=RULES) as rig:
        bodies = put(origin, ["a", "b"])
        client = OssClient(rig.endpoint, TRAINER)
        for _ in range(2):
            found = await read_batch(client, "bucket", ["b", "gone", "a"])
            assert [entry.body for entry in found] == [bodies["b"], b"", bodies["a"]]
            assert found[1][2:4] == (404, "NoSuchKey")
        malformed = await client.request("POST", "/bucket/.forebay/batch", (), b"{")
        assert (malformed.status, b"InvalidRequest" in malformed.body) == (400, True)


async def test_what_arrives_first_comes_first_if_asked_for(tmp_path: Path) -> None:
    keys = [f"set/{number}" for number in range(6)]
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, rest=RULES) as rig:
        bodies = put(origin, keys)
        gate = Gate()
        origin.faults.add(HoldHead(gate), key=keys[0])
        async with await rig.client().open() as connection:
            body = json.dumps({"keys": keys, "order": "arrival"}).encode()
            await connection.send(rig.client().sign("POST", "/bucket/.forebay/batch", (), body).wire)
            await gate.reached()
            memory, others = rig.parts.storage.tiers.memory, [ObjectName("bucket", key) for key in keys[1:]]
            await run_loop_until(lambda: all(map(memory.head, others)))
            gate.open()
            answer = await connection.answer("POST")
        found = entries_in(answer.body)
        assert {entry.position: entry.body for entry in found} == dict(enumerate(bodies.values()))
        assert found[-1].position == 0


async def test_entries_behind_a_slow_one_are_fetched_meanwhile(tmp_path: Path) -> None:
    keys = [f"set/{number:02}" for number in range(8)]
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, rest=RULES) as rig:
        bodies = put(origin, keys)
        gate = Gate()
        origin.faults.add(HoldHead(gate))
        reading = asyncio.gather(read_batch(rig.client(), "bucket", keys))
        await gate.reached(len(keys))
        gate.open()
        (found,) = await reading
        assert [entry.body for entry in found] == list(bodies.values())


async def test_a_version_that_changes_half_way_breaks_the_batch(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, rest=RULES) as rig:
        put(origin, ["first"])
        large = put(origin, ["large"], 40 * BLOCK)["large"]
        gate = Gate()
        origin.faults.add(HoldAfter(BLOCK, gate), key="large", times=1)
        sending = asyncio.gather(send_batch(rig.client(), "bucket", ["first", "large"]))
        await gate.reached()
        origin.store.put("bucket", "large", b"x" * 40 * BLOCK)
        origin.faults.add(CloseAfter(2 * BLOCK), key="large", times=1)
        gate.open()
        (answer,) = await sending
        at = answer.body.find(large[:1000])
        kept = answer.body[at:]
        assert answer.aborted or entries_in(answer.body)[1].body in {large, b"x" * 40 * BLOCK}
        assert b"xxxx" not in kept or large[:100] not in kept


async def test_a_body_that_ends_early_is_no_whole_batch(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, rest=RULES) as rig:
        body = put(origin, ["large"], 40 * BLOCK)["large"]
        origin.faults.add(CloseAfter(10 * BLOCK), key="large")
        answer = await send_batch(rig.client(), "bucket", ["large"])
        if answer.aborted:
            assert body not in answer.body
        else:
            assert entries_in(answer.body)[0].status == 503


async def test_a_batch_that_breaks_off_is_no_error_of_ours(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The connection was ended before the head had left: there is no 500, in no log."""
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, rest=RULES) as rig:
        put(origin, ["object"], 3 * BLOCK)
        origin.faults.add(CloseAfter(BLOCK // 2), key="object")
        answer = await send_batch(rig.client(), "bucket", ["object"])
        assert (answer.status, answer.aborted) == (0, True)
    assert len(rig.access_lines()) == 1
    assert "unhandled" not in caplog.text


async def test_a_failure_ends_the_batch_if_asked_for(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, rest=RULES) as rig:
        put(origin, ["a"])
        answer = await send_batch(rig.client(), "bucket", ["a", "gone"], continue_on_error=False)
        assert answer.aborted or answer.status == 404
        answer = await send_batch(rig.client(), "bucket", ["gone", "a"], continue_on_error=False)
        assert (answer.status, b"NoSuchKey" in answer.body, b"keys[0]" in answer.body) == (404, True, True)


async def test_an_origin_that_fails_marks_its_objects_only(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, rest=RULES) as rig:
        bodies = put(origin, ["a", "b"])
        origin.faults.add(Respond(403, "AccessDenied"), key="a")
        assert await read_batch(rig.client(), "bucket", ["a", "b"]) == [
            ReadEntry("a", b"", 403, "AccessDenied"),
            ReadEntry("b", bodies["b"]),
        ]


async def test_objects_that_no_rule_accelerates_are_read_as_well(tmp_path: Path) -> None:
    rest = '[[rules]]\npath = "**"\naccelerate = false\n'
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, rest=rest) as rig:
        body = put(origin, ["large"], 5 * BLOCK)["large"]
        listed = ["large", {"key": "large", "start": 7, "end": 9}, "gone"]
        found = await read_batch(rig.client(), "bucket", listed)
        assert [entry.body for entry in found] == [body, body[7:9], b""]
        assert found[2].status == 404
        origin.faults.add(IgnoreRange(), key="large")
        (ignored,) = await read_batch(rig.client(), "bucket", [listed[1]])
        assert (ignored.body, ignored.status, ignored.code) == (b"", 501, "NotImplemented")


async def test_pending_writes_are_in_the_batch(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, WriteBackRig(origin, tmp_path) as rig:
        await rig.prove()
        gate = Gate()
        origin.faults.add(HoldRequest(gate), method="PUT")
        await rig.client().request("PUT", path_of("ckpt", "a/new"), (), b"pending")
        for _ in range(2):
            assert await read_batch(rig.client(), "ckpt", ["a/new"]) == [ReadEntry("a/new", b"pending")]
        assert at_origin(origin, "a/new") is None
        gate.open()
        await rig.settled()


async def test_a_client_that_reads_nothing_holds_little(tmp_path: Path) -> None:
    keys = [f"set/{number:03}" for number in range(40)]
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, rest=RULES) as rig:
        bodies = put(origin, keys, 2 * BLOCK)
        budget = rig.parts.storage.budget
        async with await rig.client().open(receive_buffer=4096) as connection:
            body = json.dumps({"keys": keys}).encode()
            await connection.send(rig.client().sign("POST", "/bucket/.forebay/batch", (), body).wire)
            await origin.log.wait_for(1, "GET")
            await rig.client().request("GET", path_of("bucket", keys[-1]))
            # Others need all of the buffers: what the batch has beyond its share must come back.
            await budget.acquire(budget.capacity - budget.capacity // 4, 30)
            budget.release(budget.capacity - budget.capacity // 4)
            answer = await connection.answer("POST")
        assert [entry.body for entry in entries_in(answer.body)] == list(bodies.values())
