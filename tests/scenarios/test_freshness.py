"""Freshness, end to end: how long an object stays fresh, the cost of revalidation, and that stale bytes are never
sent."""

import asyncio
import time
from pathlib import Path

import pytest

from harness.clients import path_of
from harness.fake import actions
from harness.fake.gate import Gate
from harness.fake_origin import FakeOrigin
from harness.inspection import cache_status, run_loop_until
from harness.rig import Rig

OBJECT = path_of("bucket", "key")
NO_CACHE = (("Cache-Control", "no-cache"),)


def rule(freshness: str) -> str:
    return f'[[rules]]\npath = "**"\nfreshness = "{freshness}"\nblock = "64KiB"\n'


async def test_immutable_object_is_never_revalidated(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, rest=rule("immutable")) as rig:
        origin.store.put("bucket", "key", b"old")
        await rig.client().request("GET", OBJECT)
        origin.store.put("bucket", "key", b"new")
        rig.advance_clock(10 * 365 * 86_400)
        answer = await rig.client().request("GET", OBJECT)
        assert (cache_status(answer), answer.body) == ((200, "hit-memory"), b"old")
        assert origin.log.count(key="key") == 1


async def test_stale_object_costs_one_revalidation_without_a_body(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, rest=rule("60s")) as rig:
        stored = origin.store.put("bucket", "key", b"content" * 30_000)
        await rig.client().request("GET", OBJECT)
        rig.advance_clock(59)
        assert cache_status(await rig.client().request("GET", OBJECT)) == (200, "hit-memory")
        assert origin.log.count(key="key") == 1
        rig.advance_clock(2)
        answer = await rig.client().request("GET", OBJECT)
        assert (cache_status(answer), answer.body) == ((200, "revalidated"), b"content" * 30_000)
        _, asked = origin.log.matching(key="key")
        assert (asked.headers["If-None-Match"], asked.status, asked.bytes_sent) == (stored.etag, 304, 0)
        rig.advance_clock(59)  # vouched for anew
        assert cache_status(await rig.client().request("GET", OBJECT)) == (200, "hit-memory")
        assert origin.log.count(key="key") == 2


async def test_a_clock_set_back_makes_nothing_fresh_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with FakeOrigin() as origin:
        rig = Rig(origin.endpoint, origin.secret, tmp_path, rest=rule("60s"))
        rig.check_interval = 0.01
        async with rig:
            origin.store.put("bucket", "key", b"old")
            await rig.client().request("GET", OBJECT)
            origin.store.put("bucket", "key", b"new")
            rig.advance_clock(-3600)
            await run_loop_until(lambda: "the clock was set back by 3600 s" in caplog.text)
            rig.advance_clock(3600)  # an hour later it shows the time again at which the object was read
            await run_loop_until(lambda: rig.worker.parts.context.in_doubt_writes.marked)
            answer = await rig.client().request("GET", OBJECT)
            assert (cache_status(answer), answer.body) == ((200, "miss"), b"new")


async def test_always_asks_each_time(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, rest=rule("always")) as rig:
        origin.store.put("bucket", "key", b"content")
        for number, cache in enumerate(("miss", "revalidated", "revalidated"), start=1):
            answer = await rig.client().request("GET", OBJECT)
            assert (cache_status(answer), answer.body) == ((200, cache), b"content")
            assert origin.log.count(key="key") == number
        assert sum(seen.bytes_sent for seen in origin.log.matching(key="key")) == 7
        origin.store.put("bucket", "key", b"changed")
        assert (await rig.client().request("GET", OBJECT)).body == b"changed"


@pytest.mark.parametrize("header", ["no-cache", "max-age=0", "no-store"])
async def test_client_can_force_revalidation(tmp_path: Path, header: str) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, rest=rule("immutable")) as rig:
        origin.store.put("bucket", "key", b"old")
        await rig.client().request("GET", OBJECT)
        unchanged = await rig.client().request("GET", OBJECT, [("Cache-Control", header)])
        assert (cache_status(unchanged), unchanged.body) == ((200, "revalidated"), b"old")
        origin.store.put("bucket", "key", b"new")
        assert (await rig.client().request("GET", OBJECT, [("Cache-Control", header)])).body == b"new"
        assert (await rig.client().request("GET", OBJECT)).body == b"new"


async def test_changed_object_is_sent_with_the_revalidation(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path) as rig:
        origin.store.put("bucket", "key", b"old", x_amz_meta_age="old")
        await rig.client().request("GET", OBJECT)
        origin.store.put("bucket", "key", b"longer than before", x_amz_meta_age="new")
        rig.advance_clock(61)
        answer = await rig.client().request("GET", OBJECT)
        assert (cache_status(answer), answer.body) == ((200, "miss"), b"longer than before")
        assert answer.headers["x-amz-meta-age"] == "new"
        assert origin.log.count(key="key") == 2
        assert cache_status(await rig.client().request("GET", OBJECT)) == (200, "hit-memory")


async def test_other_metadata_on_the_same_bytes_is_noticed(tmp_path: Path) -> None:
    """The ETag is the same, so the origin says 304; that it was written again only its date tells."""
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path) as rig:
        body = b"content" * 100
        origin.store.put("bucket", "key", body, x_amz_meta_colour="blue")
        await rig.client().request("GET", OBJECT)
        origin.store.clock = lambda: time.time() + 10
        origin.store.put("bucket", "key", body, x_amz_meta_colour="red")
        rig.advance_clock(61)
        answer = await rig.client().request("GET", OBJECT)
        assert (cache_status(answer), answer.headers["x-amz-meta-colour"]) == ((200, "revalidated"), "red")
        assert answer.body == body
        assert sum(seen.bytes_sent for seen in origin.log.matching(key="key")) == len(body)


@pytest.mark.parametrize("header", ["Cache-Control", "Expires", "x-amz-meta-colour"])
@pytest.mark.parametrize("freshness", ["60s", "always"])
async def test_other_metadata_that_a_304_tells_is_noticed(tmp_path: Path, header: str, freshness: str) -> None:
    """Within the same second: neither the ETag nor the date has changed."""
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, rest=rule(freshness)) as rig:
        origin.store.put("bucket", "key", b"content")
        await rig.client().request("GET", OBJECT)
        origin.faults.add(actions.change_headers(**{header.replace("-", "_"): "red"}), key="key")
        rig.advance_clock(61)
        answer = await rig.client().request("GET", OBJECT)
        assert (cache_status(answer), answer.headers[header]) == ((200, "revalidated"), "red")
        sent = origin.log.count(key="key")
        rig.advance_clock(61)
        assert cache_status(await rig.client().request("GET", OBJECT)) == (200, "revalidated")
        assert origin.log.count(key="key") == sent + 1, "known by then"


async def test_a_304_that_spells_the_digest_in_another_case_is_believed(tmp_path: Path) -> None:
    """OSS writes digests in upper case, and compares them in any: so does another Forebay in front of it."""
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, rest=rule("60s")) as rig:
        stored = origin.store.put("bucket", "key", b"content")
        await rig.client().request("GET", OBJECT)
        origin.faults.add(actions.change_headers(etag=stored.etag.upper()), key="key")
        rig.advance_clock(61)
        answer = await rig.client().request("GET", OBJECT)
        assert (answer.status, answer.body, answer.headers["ETag"]) == (200, b"content", stored.etag.upper())
        assert cache_status(await rig.client().request("GET", OBJECT)) == (200, "hit-memory")


async def test_deleted_object_may_be_created_again(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path) as rig:
        origin.store.put("bucket", "key", b"old")
        await rig.client().request("GET", OBJECT)
        origin.store.delete("bucket", "key")
        rig.advance_clock(61)
        for _ in range(2):
            answer = await rig.client().request("GET", OBJECT)
            assert answer.status == 404
            assert b"<Code>NoSuchKey</Code>" in answer.body
        origin.store.put("bucket", "key", b"back")
        assert (await rig.client().request("GET", OBJECT)).body == b"back"


async def test_deletion_seen_by_one_client_is_seen_by_all(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, rest=rule("immutable")) as rig:
        origin.store.put("bucket", "key", b"content")
        await rig.client().request("GET", OBJECT)
        origin.store.delete("bucket", "key")
        assert (await rig.client().request("GET", OBJECT, NO_CACHE)).status == 404
        assert (await rig.client().request("GET", OBJECT)).status == 404


async def test_failed_revalidation_is_503_and_keeps_the_object(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path) as rig:
        body = b"content" * 1000
        origin.store.put("bucket", "key", body)
        await rig.client().request("GET", OBJECT)
        rig.advance_clock(61)
        await origin.refuse()
        origin.disconnect(idle_only=False)
        answer = await rig.client().request("GET", OBJECT)
        assert (answer.status, answer.headers["Retry-After"]) == (503, "1")
        assert b"<Code>ServiceUnavailable</Code>" in answer.body
        await origin.listen()
        answer = await rig.client().request("GET", OBJECT)
        assert (cache_status(answer), answer.body) == ((200, "revalidated"), body)
        assert sum(seen.bytes_sent for seen in origin.log.matching(key="key")) == len(body)


async def test_fresh_object_is_served_without_the_origin(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path) as rig:
        origin.store.put("bucket", "key", b"content")
        await rig.client().request("GET", OBJECT)
        await origin.refuse()
        origin.disconnect(idle_only=False)
        assert (await rig.client().request("GET", OBJECT)).body == b"content"


async def test_a_refusal_at_the_question_is_passed_on_and_nothing_is_lost(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path) as rig:
        origin.store.put("bucket", "key", b"content")
        await rig.client().request("GET", OBJECT)
        rig.advance_clock(61)
        refusing = origin.faults.add(actions.FORBIDDEN, key="key")
        answer = await rig.client().request("GET", OBJECT)
        assert (answer.status, b"AccessDenied" in answer.body) == (403, True)
        origin.faults.remove(refusing)
        assert cache_status(await rig.client().request("GET", OBJECT)) == (200, "revalidated")


async def test_a_thousand_readers_at_expiry_ask_once(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path) as rig:
        origin.store.put("bucket", "key", b"content")
        client = rig.client()
        await client.request("GET", OBJECT)
        rig.advance_clock(61)
        origin.faults.add(actions.HoldHead(gate := Gate()), key="key")
        request = client.sign("GET", OBJECT)
        async with asyncio.TaskGroup() as group:
            readers = [group.create_task(client.send(request)) for _ in range(1000)]
            await run_loop_until(lambda: rig.worker.listener.requests.in_flight == 1000)
            gate.open()
        assert {(*cache_status(reader.result()), reader.result().body) for reader in readers} == {
            (200, "revalidated", b"content")
        }
        assert origin.log.count(key="key") == 2


async def test_strict_reader_joins_no_older_lookup(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path) as rig:
        origin.store.put("bucket", "key", b"old")
        await rig.client().request("GET", OBJECT)
        rig.advance_clock(61)
        origin.faults.add(actions.HoldHead(gate := Gate()), key="key", times=1)
        async with asyncio.TaskGroup() as group:
            older = group.create_task(rig.client().request("GET", OBJECT))
            await gate.reached()
            origin.store.put("bucket", "key", b"new")
            newer = await rig.client().request("GET", OBJECT, NO_CACHE)
            assert newer.body == b"new"
            gate.open()
        assert older.result().body == b"old"  # it was, when it was asked for
        answer = await rig.client().request("GET", OBJECT)
        assert (cache_status(answer), answer.body) == ((200, "hit-memory"), b"new")  # the older answer came too late


async def test_strict_reader_revalidates_after_a_joined_lookup(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path) as rig:
        origin.store.put("bucket", "key", b"old")
        origin.faults.add(actions.HoldHead(gate := Gate()), key="key", times=1)
        async with asyncio.TaskGroup() as group:
            older = group.create_task(rig.client().request("GET", OBJECT))
            await gate.reached()
            origin.store.put("bucket", "key", b"new")
            newer = group.create_task(rig.client().request("GET", OBJECT, NO_CACHE))
            await run_loop_until(lambda: rig.worker.listener.requests.in_flight == 2)
            gate.open()
        assert (older.result().body, newer.result().body) == (b"old", b"new")


async def test_older_404_does_not_answer_a_strict_reader(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, rest=rule("always")) as rig:
        origin.store.create_bucket("bucket")
        origin.faults.add(actions.HoldHead(gate := Gate()), key="key", times=1)
        async with asyncio.TaskGroup() as group:
            older = group.create_task(rig.client().request("GET", OBJECT))
            await gate.reached()
            origin.store.put("bucket", "key", b"new")
            newer = group.create_task(rig.client().request("GET", OBJECT))
            await run_loop_until(lambda: rig.worker.listener.requests.in_flight == 2)
            gate.open()
        assert (older.result().status, newer.result().body) == (404, b"new")
