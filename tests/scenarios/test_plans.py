"""Plans: sent with an SDK, followed by the reads, fetched ahead within bounds, and nobody else's business."""

import asyncio
import base64
import hashlib
import json
from pathlib import Path
from random import Random

import pytest
from botocore.exceptions import ClientError

from forebay.core.read_stream import BATCH_SECONDS
from forebay.server.telemetry.access_log import AccessLog
from harness.background_turns import is_fetching_ahead
from harness.clients import path_of
from harness.fake import actions
from harness.fake.gate import Gate
from harness.fake_origin import FakeOrigin
from harness.inspection import metric_value, run_loop_until
from harness.manual_timers import ManualTimers
from harness.oss_client import OssClient, told
from harness.plan_rig import IMMUTABLE, KEYS, SIZE, progress, read, rig_with_data, send, send_compact, text, until
from harness.rig import READER, TRAINER, Rig
from harness.worker_node import request_admin


async def test_a_plan_is_fetched_ahead_and_its_reads_are_hits(tmp_path: Path) -> None:
    async with rig_with_data(tmp_path) as (origin, rig):
        answer = await send(rig, KEYS)
        assert (answer.headers["x-forebay-plan-entries"], answer.headers["x-forebay-plan-dropped"]) == ("60", "0")
        plan = await until(rig, lambda plan: plan["lead_entries"] == 60)
        assert (plan["state"], plan["read"]) == ("running", 0)
        await run_loop_until(lambda: rig.parts.jobs.prefetcher.tickets == 60)
        assert await read(rig, KEYS) == ["hit-memory"] * 60
        done = await until(rig, lambda plan: plan["state"] == "done")
        assert (done["read"], done["late"], done["position"], done["lead_bytes"]) == (60, 0, 60, 0)
        assert all(origin.log.count("GET", key=key) == 1 for key in KEYS)


async def test_blocks_that_others_fetched_are_none_of_a_plan(tmp_path: Path) -> None:
    rest = '[[rules]]\npath = "**"\nfreshness = "immutable"\nblock = "64KiB"\n'
    async with rig_with_data(tmp_path, (), rest=rest) as (origin, rig):
        origin.store.put_synthetic("b", "large", 200_000)
        await rig.client().request("GET", path_of("b", "large"), [("Range", "bytes=0-65535")])
        await send(rig, ["large"])
        plan = await until(rig, lambda plan: plan["lead_bytes"] == 200_000 and plan["fetched_blocks"] > 0)
        assert (plan["fetched_blocks"], plan["fetched_bytes"]) == (3, 200_000 - 65_536)


async def test_what_is_cached_already_is_ahead_without_a_fetch(tmp_path: Path) -> None:
    keys = [f"open/{number:03}" for number in range(100)]
    async with rig_with_data(tmp_path, keys) as (origin, rig):
        await read(rig, keys)
        origin.store.put_synthetic("b", "open/new", SIZE)
        gate, before = Gate(), origin.log.count("GET")
        origin.faults.add(actions.HoldHead(gate), key="open/new", times=1)
        await send(rig, ["open/new", *keys])
        found = await until(rig, lambda plan: plan["lead_entries"] == 101)
        await gate.reached()
        assert (found["lead_bytes"] >= 100 * SIZE, found["failed"], found["data_set"]) == (True, 0, "**")
        assert origin.log.count("GET") == before + 1
        gate.open()
        await until(rig, lambda plan: plan["fetched_blocks"] == 1)
        assert await read(rig, ["open/new", *keys]) == ["hit-memory"] * 101
        assert origin.log.count("GET") == before + 1


async def test_the_horizon_bounds_what_is_ahead(tmp_path: Path) -> None:
    horizon = '[[rules]]\npath = "**"\nfreshness = "immutable"\nblock = "64KiB"\nplan_horizon = "200000B"\n'
    async with rig_with_data(tmp_path, rest=horizon) as (origin, rig):
        await send(rig, KEYS)
        await run_loop_until(lambda: rig.parts.jobs.prefetcher.tickets >= 8)
        assert origin.log.count("GET", operation="GetObject") <= 12
        await read(rig, KEYS[:30])
        assert (await until(rig, lambda plan: plan["read"] == 30))["lead_bytes"] <= 200_000
        await until(rig, lambda plan: plan["position"] == 30 and plan["lead_entries"] >= 8)
        assert origin.log.count("GET", operation="GetObject") <= 42


@pytest.mark.parametrize("ahead", [f"{10 * SIZE}B", "200KiB"])
async def test_a_small_horizon_fetches_nothing_of_a_loader_twice(tmp_path: Path, ahead: str) -> None:
    """It holds less than the rest of each worker's batch, all of which lies behind the furthest read."""
    keys = [f"open/{number:03}" for number in range(240)]
    workers, batch = 4, 15
    async with rig_with_data(tmp_path, keys, memory=f'64MiB"\nahead = "{ahead}') as (origin, rig):
        await send(rig, keys)
        await run_loop_until(lambda: rig.parts.jobs.prefetcher.tickets >= 8)
        for start in range(0, len(keys), workers * batch):
            order = [keys[start + worker * batch + at] for at in range(batch) for worker in range(workers)]
            await read(rig, order)
        found = await until(rig, lambda plan: plan["state"] == "done")
        assert (found["read"], found["given_up"]) == (240, 0)
        assert [origin.log.count("GET", key=key) for key in keys] == [1] * 240


async def test_a_wrong_plan_costs_one_horizon_and_is_given_back(tmp_path: Path) -> None:
    horizon = '[[rules]]\npath = "**"\nfreshness = "immutable"\nplan_horizon = "200000B"\n'
    async with rig_with_data(tmp_path, rest=horizon) as (origin, rig):
        await send(rig, KEYS[:40])
        await run_loop_until(lambda: rig.parts.jobs.prefetcher.tickets >= 8)
        assert await read(rig, KEYS[40:]) == ["miss"] * 20
        assert sum(origin.log.count("GET", key=key) for key in KEYS[:40]) <= 12
        await rig.client().request("DELETE", path_of("b", ".forebay/plans/order"))
        assert rig.parts.storage.tiers.memory.ahead.budget.in_use == 0
        assert await progress(rig) == {}


async def test_a_cancelled_plan_ends_at_once(tmp_path: Path) -> None:
    """Nothing of it waits for the next look at the clock, which stands still here."""
    async with FakeOrigin() as origin:
        origin.store.put_synthetic("b", KEYS[0], SIZE)
        async with Rig(origin.endpoint, origin.secret, tmp_path, ManualTimers(), rest=IMMUTABLE) as rig:
            await send(rig, KEYS[:1])
            await run_loop_until(lambda: rig.parts.jobs.prefetcher.tickets == 1)
            await rig.client().request("DELETE", path_of("b", ".forebay/plans/order"))
            await rig.wait_idle()
            (plan,) = rig.parts.jobs.plans.coordinator.plans()
            assert (plan.state, plan.position, plan.lead_bytes) == ("cancelled", 0, 0)


async def test_fetches_under_way_end_with_their_worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also without a task: the refusals come while the access log is written, and nobody would end what goes on."""
    gate, write, tasks = Gate(), AccessLog.flush, set[str]()

    async def flush(log: AccessLog) -> None:
        gate.open()
        for _ in range(200):
            tasks.update(task.get_name() for task in asyncio.all_tasks())
            await asyncio.sleep(0)
        await write(log)

    async with rig_with_data(tmp_path, KEYS[:8]) as (origin, rig):
        await send(rig, KEYS[:8], "connects")
        await run_loop_until(lambda: rig.parts.jobs.prefetcher.tickets == 8)
        origin.faults.add(actions.HoldHead(gate), method="GET")
        await send(rig, KEYS[8:12], "missing")
        await run_loop_until(lambda: is_fetching_ahead(rig.parts))
        assert not any(task.get_name().startswith("fetch ") for task in asyncio.all_tasks())
        monkeypatch.setattr(AccessLog, "flush", flush)
    assert tasks
    assert not any(name.startswith("fetch ") for name in tasks)


async def test_metrics_tell_what_became_of_plans(tmp_path: Path) -> None:
    async def entries(result: str) -> float:
        return await metric_value(rig, f'forebay_plan_entries_total{{result="{result}"}}')

    async def ahead(result: str) -> float:
        return await metric_value(rig, f'forebay_ahead_bytes_total{{result="{result}"}}') / SIZE

    async with rig_with_data(tmp_path) as (_, rig):
        await send(rig, ["secret/1", "secret/2", "secret/3"], "none", READER)
        await send(rig, ["open/none", *KEYS[:10]])
        await until(rig, lambda plan: (plan["failed"], plan["lead_entries"]) == (1, 11))
        await run_loop_until(lambda: rig.parts.jobs.prefetcher.tickets == 10)
        assert await metric_value(rig, 'forebay_plans{state="running"}') == 1
        assert await metric_value(rig, "forebay_plan_lead_bytes") == 10 * SIZE
        assert await metric_value(rig, "forebay_ahead_used_bytes") > 10 * SIZE
        await read(rig, KEYS[:6])
        await until(rig, lambda plan: plan["read"] == 6)
        assert await metric_value(rig, "forebay_plan_lead_bytes") == 4 * SIZE
        await rig.client().request("DELETE", path_of("b", ".forebay/plans/order"))
        await run_loop_until(lambda: rig.parts.storage.tiers.memory.ahead.budget.in_use == 0)
        assert [await entries(each) for each in ("ready", "late", "failed", "dropped")] == [6, 0, 1, 3]
        assert [await ahead(each) for each in ("fetched", "used", "useless")] == [10, 6, 4]
        plan = rig.parts.jobs.plans.coordinator.plans()[-1]
        assert (plan.fetched_blocks, plan.fetched_bytes, plan.useless_bytes) == (10, 10 * SIZE, 4 * SIZE)
        assert await metric_value(rig, "forebay_plan_blocks_total") == 10
        of_plans = [f'forebay_plan_bytes_total{{result="{each}"}}' for each in ("fetched", "useless")]
        assert [await metric_value(rig, each) for each in of_plans] == [10 * SIZE, 4 * SIZE]
        for gauge in ('forebay_plans{state="running"}', "forebay_plan_lead_bytes", "forebay_ahead_used_bytes"):
            assert await metric_value(rig, gauge) == 0


async def test_keys_that_are_missing_or_not_cached_fail_alone(tmp_path: Path) -> None:
    off = '[[rules]]\npath = "b/off/**"\naccelerate = false\n' + IMMUTABLE
    async with rig_with_data(tmp_path, rest=off) as (_, rig):
        await send(rig, ["open/none", "off/none", *KEYS[:5], ".forebay/plans/order"])
        plan = await until(rig, lambda plan: plan["failed"] == 2 and plan["lead_entries"] == 7)
        assert plan["dropped"] == 1
        await run_loop_until(lambda: rig.parts.jobs.prefetcher.tickets == 5)
        assert await read(rig, KEYS[:5]) == ["hit-memory"] * 5


async def test_a_reader_elsewhere_in_its_plan_is_found(tmp_path: Path) -> None:
    keys = [f"open/{number:05}" for number in range(20_000)]
    horizon = '[[rules]]\npath = "**"\nfreshness = "immutable"\nplan_horizon = "1MiB"\n'
    async with rig_with_data(tmp_path, keys[15_000:15_100], rest=horizon) as (_, rig):
        await send(rig, keys)
        await until(rig, lambda plan: plan["failed"] > 0)
        await read(rig, keys[15_000:15_050])
        await until(rig, lambda plan: plan["position"] > 15_000)
        await run_loop_until(lambda: rig.parts.jobs.prefetcher.tickets > 0)
        assert "hit-memory" in await read(rig, keys[15_050:15_090])


@pytest.mark.parametrize("form", ["text", "compact"])
async def test_a_reader_in_the_second_epoch_of_a_plan_is_found(tmp_path: Path, form: str) -> None:
    """Each of its keys is in the first epoch, too, elsewhere."""
    keys = [f"open/{number:05}" for number in range(20_000)]
    second = [keys[first + number] for number in range(900) for first in (10_500, 19_000)]
    horizon = '[[rules]]\npath = "**"\nfreshness = "immutable"\nplan_horizon = "1MiB"\n'
    async with rig_with_data(tmp_path, second[1000:1100], rest=horizon) as (_, rig):
        if form == "text":
            await send(rig, [*keys, *keys[:9_000], *second])
        else:
            await send_compact(rig, keys, [*range(20_000), *range(9_000), *(int(key[5:]) for key in second)])
        await until(rig, lambda plan: plan["failed"] > 0)
        await read(rig, second[1000:1050])
        await until(rig, lambda plan: plan["position"] > 30_000)
        await run_loop_until(lambda: rig.parts.jobs.prefetcher.tickets > 0)
        assert "hit-memory" in await read(rig, second[1050:1090])


@pytest.mark.parametrize("form", ["text", "compact"])
async def test_a_reader_in_a_later_short_epoch_is_found(tmp_path: Path, form: str) -> None:
    """All epochs are within the window, so its reads are entries of the first one."""
    keys, random = [f"open/{number:05}" for number in range(400)], Random(1)
    order = [number for _ in range(8) for number in random.sample(range(400), 400)]
    horizon = '[[rules]]\npath = "**"\nfreshness = "immutable"\nplan_horizon = "1MiB"\n'
    async with rig_with_data(tmp_path, keys, rest=horizon) as (_, rig):
        await (send(rig, [keys[at] for at in order]) if form == "text" else send_compact(rig, keys, order))
        epoch = [keys[at] for at in order[5 * 400 : 6 * 400]]
        await read(rig, epoch[100:150])
        await until(rig, lambda plan: plan["position"] >= 5 * 400 + 100)
        await run_loop_until(lambda: rig.parts.jobs.prefetcher.tickets > 0)
        await read(rig, epoch[150:160])
        found = await until(rig, lambda plan: plan["position"] >= 5 * 400 + 150)
        assert found["position"] <= 5 * 400 + 160


async def test_plans_of_a_series_run_one_after_another(tmp_path: Path) -> None:
    async with rig_with_data(tmp_path) as (_, rig):
        await send(rig, KEYS[:20], "train/1")
        await send(rig, KEYS[20:40], "train/2")
        await send(rig, KEYS[40:], "other")
        await run_loop_until(lambda: rig.parts.jobs.prefetcher.tickets == 60)
        assert await read(rig, KEYS) == ["hit-memory"] * 60
        for name in ("train/1", "train/2", "other"):
            assert (await until(rig, lambda plan: plan["state"] == "done", name))["read"] == 20


async def test_of_plans_with_one_name_the_latest_is_shown(tmp_path: Path) -> None:
    async with rig_with_data(tmp_path) as (_, rig):
        for keys in (KEYS[:3], KEYS[:2]):
            await send(rig, keys)
            await rig.client().request("DELETE", path_of("b", ".forebay/plans/order"))
        assert [plan.entries for plan in rig.parts.jobs.plans.coordinator.plans()] == [2]


async def test_a_read_that_waited_for_the_origin_is_late(tmp_path: Path) -> None:
    """Also where the entry is here by the time that its read is reported."""
    late = 5
    async with FakeOrigin() as origin:
        gate, timers = Gate(), ManualTimers()
        for key in KEYS:
            origin.store.put_synthetic("b", key, SIZE)
        for key in KEYS[:late]:
            origin.faults.add(actions.HoldRequest(gate), key=key)
        async with Rig(origin.endpoint, origin.secret, tmp_path, timers, rest=IMMUTABLE) as rig:
            await send(rig, KEYS[:10])
            await gate.reached(late)
            await run_loop_until(lambda: rig.parts.jobs.prefetcher.tickets == 10 - late)
            async with asyncio.TaskGroup() as group:
                readings = [group.create_task(read(rig, [key])) for key in KEYS[:late]]
                await run_loop_until(lambda: rig.worker.listener.requests.in_flight == late)
                gate.open()
            assert [reading.result() for reading in readings] == [["miss"]] * late
            await run_loop_until(lambda: rig.parts.jobs.prefetcher.tickets == 10)
            assert await read(rig, KEYS[late:10]) == ["hit-memory"] * (10 - late)
            timers.advance(BATCH_SECONDS)
            plan = await until(rig, lambda plan: plan["state"] == "done")
            assert (plan["read"], plan["late"]) == (10, late)
            assert rig.parts.storage.tiers.memory.ahead.budget.in_use == 0, (
                "what came late does not wait for its reader"
            )


async def test_the_end_of_an_epoch_is_not_read_of_the_next_plan(tmp_path: Path) -> None:
    """The next epoch has the same keys, and its plan runs while the last of this one are read."""
    again = Random(1).sample(KEYS, len(KEYS))
    async with rig_with_data(tmp_path) as (_, rig):
        await send(rig, KEYS, "train/1")
        await send(rig, again, "train/2")
        await until(rig, lambda plan: plan["lead_entries"] == 60, "train/2")
        await read(rig, KEYS)
        await until(rig, lambda plan: plan["state"] == "done", "train/1")
        following = await progress(rig, "train/2")
        assert (following["read"], following["position"], following["lead_entries"]) == (0, 0, 60)
        assert await read(rig, again) == ["hit-memory"] * 60
        assert (await until(rig, lambda plan: plan["state"] == "done", "train/2"))["read"] == 60


async def test_what_was_read_before_a_plan_came_is_none_of_its_reads(tmp_path: Path) -> None:
    async with rig_with_data(tmp_path) as (_, rig):
        await send(rig, KEYS, "other")
        await read(rig, KEYS[30:])
        await send(rig, KEYS)
        await until(rig, lambda plan: plan["read"] == 30, "other")
        plan = await progress(rig)
        assert (plan["read"], plan["position"]) == (0, 0)


async def test_ranks_with_the_same_keys_fetch_them_once(tmp_path: Path) -> None:
    async with rig_with_data(tmp_path) as (origin, rig):
        await asyncio.gather(send(rig, KEYS, "rank-0"), send(rig, KEYS[::-1], "rank-1"))
        for name in ("rank-0", "rank-1"):
            await until(rig, lambda plan: plan["lead_entries"] == 60, name)
        await run_loop_until(lambda: rig.parts.jobs.prefetcher.tickets == 120)
        assert await read(rig, KEYS) == ["hit-memory"] * 60
        assert all(origin.log.count("GET", key=key) == 1 for key in KEYS)
        for name in ("rank-0", "rank-1"):
            await until(rig, lambda plan: plan["state"] == "done", name)


async def test_a_full_tier_does_not_evict_what_is_fetched_ahead(tmp_path: Path) -> None:
    async with rig_with_data(tmp_path, (), memory="2MiB") as (origin, rig):
        for key in KEYS:
            origin.store.put_synthetic("b", key, 5 * SIZE)
        await send(rig, KEYS[:30])
        await run_loop_until(lambda: rig.parts.jobs.prefetcher.tickets == 30)
        await read(rig, KEYS[30:], 5 * SIZE)  # a scan of more than the tier keeps
        assert await read(rig, KEYS[:30], 5 * SIZE) == ["hit-memory"] * 30
        assert all(origin.log.count("GET", key=key) == 1 for key in KEYS[:30])


@pytest.mark.parametrize("memory", ["0B", "20KiB"])
async def test_a_tier_without_room_for_heads_fetches_nothing_twice(tmp_path: Path, memory: str) -> None:
    """A block is found by its object's head alone."""
    async with rig_with_data(tmp_path, memory=memory) as (origin, rig):
        await send(rig, KEYS)
        await run_loop_until(lambda: rig.parts.jobs.prefetcher.tickets == 60)
        assert await read(rig, KEYS) == ["hit-memory"] * 60
        assert all(origin.log.count(key=key) == 1 for key in KEYS)
        await until(rig, lambda plan: plan["state"] == "done")
        await run_loop_until(lambda: rig.parts.storage.tiers.memory.ahead.budget.in_use == 0)


async def test_ranges_are_fetched_and_not_the_rest_of_an_object(tmp_path: Path) -> None:
    rule = '[[rules]]\npath = "**"\nfreshness = "immutable"\nblock = "64KiB"\n'
    block = 64 << 10
    async with rig_with_data(tmp_path, (), rest=rule) as (origin, rig):
        origin.store.put_synthetic("b", "open/shard", 20 * block)
        lines = "".join(f"open/shard\t{nth * block}-{nth * block + 99}\n" for nth in (3, 9, 4))
        await rig.client().request("PUT", path_of("b", ".forebay/plans/order"), (), lines.encode())
        await run_loop_until(lambda: rig.parts.jobs.prefetcher.tickets == 3)
        assert rig.parts.storage.tiers.memory.ahead.budget.in_use < 4 * block
        for nth in (3, 9, 4):
            span = ("Range", f"bytes={nth * block}-{nth * block + 99}")
            answer = await rig.client().request("GET", path_of("b", "open/shard"), [span])
            assert (answer.status, answer.headers["x-forebay-cache"]) == (206, "hit-memory")
        assert (await until(rig, lambda plan: plan["state"] == "done"))["read"] == 3


async def test_the_compact_form_names_a_list_that_was_sent_before(tmp_path: Path) -> None:
    async with rig_with_data(tmp_path) as (_, rig):
        listed = text(KEYS)
        digest = hashlib.sha256(listed).hexdigest()
        indices = [5, 3, 59, 0]
        body = b"FBPLAN1\n" + bytes.fromhex(digest) + bytes(4) + len(indices).to_bytes(4, "little")
        body += b"".join(index.to_bytes(4, "little") for index in indices)
        path, keys = path_of("b", ".forebay/plans/order"), path_of("b", f".forebay/plans/keys/{digest}")
        unknown = await rig.client().request("PUT", path, (), body)
        assert (unknown.status, b"not known" in unknown.body) == (400, True)
        assert (await rig.client().request("PUT", keys, (), listed)).status == 200
        assert json.loads((await rig.client().request("GET", keys)).body) == {"keys": 60}
        assert (await rig.client(READER).request("GET", keys)).status == 404, "of another principal"
        assert (await rig.client(READER).request("PUT", path, (), body)).status == 400
        assert (await rig.client().request("PUT", path, (), body)).status == 200
        await run_loop_until(lambda: rig.parts.jobs.prefetcher.tickets == 4)
        assert await read(rig, [KEYS[index] for index in indices]) == ["hit-memory"] * 4
        await until(rig, lambda plan: plan["state"] == "done")


BAD = {
    "not UTF-8": (b"open/1\nopen/2\n\xff\xfe\nopen/4\n", "Line 3"),
    "backwards": (b"open/1\nopen/2\t9-5\n", "Line 2"),
    "negative": (b"open/1\t-5-9\n", "Line 1"),
    "no number": (b"open/1\topen\n", "Line 1"),
    "too long": (b"open/1\n" + b"k" * 1025, "Line 2"),
    "no list": (b"FBPLAN1\n" + bytes(40), "Line 1"),
    "short": (b"FBPLAN1\n\1", "48 bytes"),
}


async def test_lists_of_keys_are_listed_and_deleted_as_plans_are(tmp_path: Path) -> None:
    async with rig_with_data(tmp_path) as (_, rig):
        await send_compact(rig, KEYS, [3, 1])
        name = f".forebay/plans/keys/{hashlib.sha256(text(KEYS)).hexdigest()}"

        def follow() -> None:
            s3 = rig.boto3()
            listed = s3.list_objects_v2(Bucket="b", Prefix=".forebay/plans/", Delimiter="/")
            assert [each["Key"] for each in listed["Contents"]] == [".forebay/plans/order"]
            assert [each["Prefix"] for each in listed["CommonPrefixes"]] == [".forebay/plans/keys/"]
            (found,) = s3.list_objects_v2(Bucket="b", Prefix=".forebay/plans/keys/")["Contents"]
            read = s3.get_object(Bucket="b", Key=name)
            content = read["Body"].read()
            assert (found["Key"], found["Size"], json.loads(content)) == (name, len(content), {"keys": len(KEYS)})
            assert found["LastModified"] == read["LastModified"]
            s3.delete_object(Bucket="b", Key=name)
            assert "Contents" not in s3.list_objects_v2(Bucket="b", Prefix=".forebay/plans/keys/")

        await asyncio.to_thread(follow)
        listed = await OssClient(rig.endpoint, READER).request("GET", "/b?prefix=.forebay/plans/")
        assert (listed.status, b"<Key>" in listed.body) == (200, False)


@pytest.mark.parametrize(("body", "told_line"), BAD.values(), ids=BAD)
async def test_a_body_that_is_no_plan_is_refused_with_its_line(tmp_path: Path, body: bytes, told_line: str) -> None:
    async with rig_with_data(tmp_path, ()) as (_, rig):
        path = path_of("b", ".forebay/plans/order")
        for client in (rig.client(), OssClient(rig.endpoint, TRAINER)):
            answer = await client.request("PUT", path, (), body)
            assert (answer.status, told(answer, "Code")) == (400, "InvalidArgument"), answer.body
            assert told_line in told(answer, "Message")
        assert await progress(rig) == {}
        store = rig.directory / "state"
        assert list(store.glob("plans-*/*")) == []


async def test_a_plan_of_ten_million_lines_is_refused(tmp_path: Path) -> None:
    async with rig_with_data(tmp_path, ()) as (_, rig):
        body = b"k\n" * 10_000_000
        answer = await rig.client().request(
            "PUT", path_of("b", ".forebay/plans/order"), (), body, payload="UNSIGNED-PAYLOAD"
        )
        assert (answer.status, b"EntityTooLarge" in answer.body, b"4000000 entries" in answer.body) == (400, True, True)


async def test_a_restart_in_the_middle_goes_on(tmp_path: Path) -> None:
    async with rig_with_data(tmp_path) as (_, rig):
        await send(rig, KEYS)
        await run_loop_until(lambda: rig.parts.jobs.prefetcher.tickets == 60)
        await read(rig, KEYS[:20])
        await until(rig, lambda plan: plan["read"] == 20)
        await rig.restart()
        await until(rig, lambda plan: plan["lead_entries"] > 0)
        await read(rig, KEYS[20:])
        assert (await until(rig, lambda plan: plan["position"] == 60))["entries"] == 60


async def test_after_an_orderly_end_a_plan_lacks_what_was_not_read(tmp_path: Path) -> None:
    """Nothing of what was read is fetched again, or waits for a second read; what was left out does."""
    async with rig_with_data(tmp_path) as (origin, rig):
        await send(rig, KEYS)
        await run_loop_until(lambda: rig.parts.jobs.prefetcher.tickets == 60)
        await read(rig, [*KEYS[:5], *KEYS[6:20]])
        await until(rig, lambda plan: plan["read"] == 19)
        await rig.restart()
        resumed = await until(rig, lambda plan: plan["lead_entries"] == 41)
        assert (resumed["position"], resumed["read"]) == (20, 0)
        await run_loop_until(lambda: rig.parts.jobs.prefetcher.tickets == 41)
        fetched = [key for key in KEYS if origin.log.count("GET", key=key) == 2]
        assert fetched == [KEYS[5], *KEYS[20:]]
        await read(rig, [KEYS[5], *KEYS[20:]])
        assert (await until(rig, lambda plan: plan["state"] == "done"))["read"] == 41


async def test_a_kill_leaves_the_next_epoch_its_reads(tmp_path: Path) -> None:
    """Nobody has recorded what was read before: it is given up, and no read of the next epoch counts for it."""
    async with rig_with_data(tmp_path) as (_, rig):
        await send(rig, KEYS, "job/epoch-0")
        await read(rig, KEYS[:10])
        await until(rig, lambda plan: plan["read"] == 10, "job/epoch-0")
        rig.parts.jobs.plans.coordinator.close()  # it records no more
        await rig.restart()
        await until(rig, lambda plan: plan["lead_entries"] == 60, "job/epoch-0")
        await read(rig, KEYS[10:])
        ended = await until(rig, lambda plan: plan["state"] == "done", "job/epoch-0")
        assert (ended["read"], ended["given_up"]) == (50, 10)
        await send(rig, KEYS[::-1], "job/epoch-1")
        await read(rig, KEYS[::-1])
        assert (await until(rig, lambda plan: plan["state"] == "done", "job/epoch-1"))["read"] == 60


async def test_a_plan_sees_only_what_its_sender_may_read(tmp_path: Path) -> None:
    secret = [f"secret/{number}" for number in range(5)]
    async with rig_with_data(tmp_path, [*KEYS, *secret]) as (origin, rig):
        answer = await send(rig, [*secret, *KEYS[:5]], secret=READER)
        assert (answer.headers["x-forebay-plan-entries"], answer.headers["x-forebay-plan-dropped"]) == ("5", "5")
        await run_loop_until(lambda: rig.parts.jobs.prefetcher.tickets == 5)
        assert all(origin.log.count("GET", key=key) == 0 for key in secret)


async def test_nobody_sees_or_changes_the_plan_of_another(tmp_path: Path) -> None:
    async with rig_with_data(tmp_path) as (_, rig):
        await send(rig, KEYS[:5])
        assert await progress(rig, secret=READER) == {}
        await send(rig, KEYS[5:7], secret=READER)
        listing = "/b?list-type=2&prefix=.forebay%2Fplans%2F"
        assert (await rig.client(READER).request("GET", listing)).body.count(b"<Key>") == 1
        await rig.client(READER).request("DELETE", path_of("b", ".forebay/plans/order"))
        assert (await progress(rig))["entries"] == 5
        assert (await progress(rig))["state"] == "running"
        assert (await rig.client(READER).request("GET", listing)).body.count(b"<Key>") == 0


async def test_a_key_that_is_gone_ends_its_plans(tmp_path: Path) -> None:
    async with rig_with_data(tmp_path) as (_, rig):
        await send(rig, KEYS[:5], secret=READER)
        await run_loop_until(lambda: rig.parts.jobs.prefetcher.tickets == 5)
        without = rig.configuration.replace('id = "reader"', 'id = "somebody"')
        (rig.directory / "forebay.toml").write_text(without)
        await rig.worker.reload()
        await until(rig, lambda plan: plan["state"] == "revoked")
        assert rig.parts.storage.tiers.memory.ahead.budget.in_use == 0


async def test_a_grant_that_is_gone_gives_up_what_is_ahead(tmp_path: Path) -> None:
    secret = [f"secret/{number}" for number in range(5)]
    async with rig_with_data(tmp_path, [*KEYS, *secret]) as (_, rig):
        await send(rig, [*secret, *KEYS[:5]])
        await run_loop_until(lambda: rig.parts.jobs.prefetcher.tickets == 10)
        ahead, before = rig.parts.storage.tiers.memory.ahead.budget, rig.parts.storage.tiers.memory.ahead.budget.in_use
        without = rig.configuration.replace('path = "**", allow', 'path = "b/open/**", allow', 1)
        assert without != rig.configuration
        (rig.directory / "forebay.toml").write_text(without)
        await rig.worker.reload()
        await until(rig, lambda plan: plan["given_up"] == 5)
        await run_loop_until(lambda: ahead.in_use == before // 2)
        assert await read(rig, KEYS[:5]) == ["hit-memory"] * 5
        assert (await until(rig, lambda plan: plan["state"] == "done"))["late"] == 0


async def test_a_plan_waits_for_an_origin_that_is_overloaded(tmp_path: Path) -> None:
    async with rig_with_data(tmp_path) as (origin, rig):
        origin.faults.add(actions.Respond(503, "SlowDown"), operation="GetObject")
        await send(rig, KEYS)
        await origin.log.wait_for(8 * len(KEYS) + 1, "GET")
        assert (await progress(rig))["failed"] == 0
        origin.faults.clear()
        await origin.log.wait_for(origin.log.count("GET") + len(KEYS) // 2, "GET")  # after a pause of seconds
        await until(rig, lambda plan: plan["lead_entries"] == 60)
        await run_loop_until(lambda: rig.parts.jobs.prefetcher.tickets == 60)
        assert await read(rig, KEYS) == ["hit-memory"] * 60


async def test_boto3_and_an_oss_client_send_list_and_cancel(tmp_path: Path) -> None:
    async with rig_with_data(tmp_path) as (_, rig):
        client = rig.boto3()

        def dialogue() -> None:
            client.put_object(Bucket="b", Key=".forebay/plans/boto", Body=text(KEYS[:9]))
            listed = client.list_objects_v2(Bucket="b", Prefix=".forebay/plans/")
            assert [each["Key"] for each in listed["Contents"]] == [".forebay/plans/boto"]
            plan = json.loads(client.get_object(Bucket="b", Key=".forebay/plans/boto")["Body"].read())
            assert (plan["entries"], plan["state"]) == (9, "running")
            for _ in range(2):
                client.delete_object(Bucket="b", Key=".forebay/plans/boto")
                with pytest.raises(ClientError, match="404"):
                    client.head_object(Bucket="b", Key=".forebay/plans/boto")
            with pytest.raises(client.exceptions.NoSuchKey):
                client.get_object(Bucket="b", Key=".forebay/plans/boto")
            assert "Contents" not in client.list_objects_v2(Bucket="b", Prefix=".forebay/plans/")
            with pytest.raises(ClientError):
                client.put_object(Bucket="b", Key=".forebay/plans/boto", Body=b"k\t5-1\n")

        await asyncio.to_thread(dialogue)
        client.close()
        oss, path = OssClient(rig.endpoint, TRAINER), path_of("b", ".forebay/plans/oss")
        assert (await oss.request("PUT", path, (), text(KEYS[9:12]))).status == 200
        assert json.loads((await oss.request("GET", path)).body)["entries"] == 3
        assert (await oss.request("DELETE", path)).status == 204
        assert [(await oss.request(method, path)).status for method in ("GET", "HEAD")] == [404, 404]
        assert b"<Key>" not in (await oss.request("GET", "/b?prefix=.forebay/plans/")).body


async def listed_plans(rig: Rig) -> list[str]:
    client = rig.boto3()
    answer = await asyncio.to_thread(client.list_objects_v2, Bucket="b", Prefix=".forebay/plans/")
    client.close()
    return [each["Key"].removeprefix(".forebay/plans/") for each in answer.get("Contents", ())]


async def test_a_removed_plan_is_no_object_and_is_still_shown(tmp_path: Path) -> None:
    """To the operator. What the operator cancels is an object until its owner removes it, as what was read is."""
    async with rig_with_data(tmp_path) as (_, rig):
        await send(rig, KEYS[:2], "read")
        await until(rig, lambda plan: plan["lead_entries"] == 2, "read")
        await read(rig, KEYS[:2])
        await until(rig, lambda plan: plan["state"] == "done", "read")
        for name in ("cancelled", "removed"):
            await send(rig, KEYS[2:4], name)
        cancelled = (await progress(rig, "cancelled"))["id"]
        status, plan = await request_admin(rig.admin, "DELETE", f"/v1/plans/{cancelled}")
        assert (status, plan["state"], plan["is_removed"]) == (200, "cancelled", False)
        assert (await progress(rig, "cancelled"))["state"] == "cancelled"
        found = ["cancelled", "read", "removed"]
        for name in ("removed", "read", "cancelled"):
            assert await listed_plans(rig) == found
            assert (await rig.client().request("DELETE", path_of("b", f".forebay/plans/{name}"))).status == 204
            assert await progress(rig, name) == {}
            found.remove(name)
        assert await listed_plans(rig) == []
        shown = (await request_admin(rig.admin, "GET", "/v1/plans"))[1]["plans"]
        assert {(each["name"], each["state"], each["is_removed"]) for each in shown} == {
            ("read", "done", True),
            ("cancelled", "cancelled", True),
            ("removed", "cancelled", True),
        }
        await send(rig, KEYS[2:4], "removed")
        assert await listed_plans(rig) == ["removed"]


async def test_an_operator_sends_a_plan_in_the_name_of_a_key(tmp_path: Path) -> None:
    async with rig_with_data(tmp_path, [*KEYS, "closed"]) as (_, rig):
        order = {"bucket": "b", "name": "order", "content": base64.b64encode(text([*KEYS, "closed"])).decode()}
        status, refused = await request_admin(rig.admin, "PUT", "/v1/plans", order)
        assert (status, refused["error"]) == (400, "bad_plan")
        assert TRAINER.access in refused["message"], "there are several keys"
        status, sent = await request_admin(rig.admin, "PUT", "/v1/plans", {**order, "key": READER.access})
        assert (status, sent["plan"]["entries"], sent["plan"]["dropped"]) == (200, 60, 1), "as the key may read"
        await until(rig, lambda plan: plan["lead_entries"] == 60)
        assert await progress(rig) == {}, "it is the reader's, not the trainer's"
        assert (await progress(rig, secret=READER))["entries"] == 60
        for bad in (
            {"content": "?"},
            {"name": "keys/x"},
            {"key": "nobody"},
            {"content": base64.b64encode(b"\xff").decode()},
        ):
            assert (await request_admin(rig.admin, "PUT", "/v1/plans", {**order, "key": READER.access, **bad}))[
                0
            ] == 400


async def test_plans_of_a_set_larger_than_the_memory(tmp_path: Path) -> None:
    """What the stable share keeps is not fetched again, what it does not keep is fetched once an epoch, ahead."""
    size, step = 100_000, 10
    keys = [f"open/{number:02}" for number in range(60)]
    rules = '[[rules]]\npath = "**"\nfreshness = "immutable"\neviction = "epoch"\nplan_horizon = "2MB"\n'
    async with FakeOrigin() as origin:
        for key in keys:
            origin.store.put_synthetic("b", key, size)
        async with Rig(origin.endpoint, origin.secret, tmp_path, memory="3MB", rest=rules) as rig:
            random, order = Random(1), list(keys)

            async def wait_ahead(name: str, position: int) -> None:
                await until(rig, lambda plan: plan["position"] >= position and plan["lead_entries"] >= step, name)

            for epoch in range(4):
                random.shuffle(order)
                before = {key: origin.log.count("GET", key=key) for key in keys}
                name = f"set/{epoch}"
                await send(rig, order, name)
                for start in range(0, len(order), step):
                    await wait_ahead(name, start)
                    await read(rig, order[start : start + step], size)
                await until(rig, lambda plan: plan["state"] == "done", name)
                fetched = [origin.log.count("GET", key=key) - before[key] for key in keys]
                assert max(fetched) == 1
                assert epoch < 2 or 0.5 <= sum(fetched) / len(keys) <= 0.65


async def test_a_plan_is_warmed_in_its_order(tmp_path: Path) -> None:
    small = '[[rules]]\npath = "**"\nfreshness = "immutable"\nplan_horizon = "1B"\n'
    async with rig_with_data(tmp_path, rest=small) as (origin, rig):
        order = KEYS[::-1]
        await send(rig, order)
        sent = await until(rig, lambda plan: plan["lead_entries"] == 1)
        for name in ("s3://b/order", "s3://b/.forebay/plans/order", sent["id"]):
            job = {"plans": [name], "concurrency": 1}
            status, started = await request_admin(rig.admin, "POST", "/v1/jobs", job)
            assert (status, started["listed"]) == (201, 60)
            await rig.parts.jobs.warm_ups.wait(started["id"])
        fetched = [each.key for each in origin.log.requests if each.operation == "GetObject"]
        assert fetched == order
        status, refused = await request_admin(rig.admin, "POST", "/v1/jobs", {"plans": ["s3://b/other"]})
        assert (status, refused["error"]) == (404, "no_such_plan")
        await request_admin(rig.admin, "DELETE", f"/v1/plans/{sent['id']}")
        for name, message in (
            ("s3://b/other", "There is no plan s3://b/other; `forebay plans` lists them."),
            ("s3://b/order", "The plan s3://b/order has ended: it is cancelled."),
        ):
            status, refused = await request_admin(rig.admin, "POST", "/v1/jobs", {"plans": [name]})
            assert (status, refused["message"]) == (404, message)
        bads: list[dict[str, list[str]]] = [
            {"plans": ["no id"]},
            {"plans": ["s3://b"]},
            {"recordings": ["nightly"]},
            {"recordings": []},
        ]
        for bad in bads:
            assert (await request_admin(rig.admin, "POST", "/v1/jobs", bad))[0] == 400


async def test_large_bodies_for_a_plan_take_body_turns_beside_demand(tmp_path: Path) -> None:
    async with rig_with_data(tmp_path, []) as (origin, rig):
        origin.store.put_synthetic("b", KEYS[0], 1 << 20)
        gate, turns = Gate(), rig.parts.context.body_turns
        origin.faults.add(actions.HoldRequest(gate), key=KEYS[0])

        def is_fetched_beside_demand() -> bool:
            turns.demand += 1
            return rig.parts.jobs.prefetcher.tickets == 1

        await send(rig, KEYS[:1])
        assert turns.demand > 0
        gate.open()
        await run_loop_until(is_fetched_beside_demand)
        assert (turns.granted >= 4, turns.waiting) == (True, 0)


async def test_progress_is_whole_while_a_plan_is_replaced(tmp_path: Path) -> None:
    """Never empty, and never missing; once it has ended there is none."""
    path, statuses = path_of("b", ".forebay/plans/order"), list[int]()
    async with rig_with_data(tmp_path) as (_, rig):
        await send(rig, KEYS)

        async def read() -> None:
            while not statuses or statuses[-1] == 200:
                answer = await rig.client().request("GET", path)
                statuses.append(answer.status)
                if answer.status == 200:
                    assert int(answer.headers["Content-Length"]) == len(answer.body)
                    assert json.loads(answer.body)["name"] == "order"

        async with asyncio.TaskGroup() as group:
            for _ in range(3):
                group.create_task(read())
            for last in range(10, 20):
                await send(rig, KEYS[:last])
            assert set(statuses) == {200}
            assert (await rig.client().request("DELETE", path)).status == 204
        assert set(statuses) == {200, 404}
