"""Writes concurrent with reads, lost responses and failed writes: old bytes are never served afterwards."""

import asyncio
from pathlib import Path

import pytest

from harness.fake import actions
from harness.fake.gate import Gate
from harness.fake_origin import FakeOrigin
from harness.rig import Rig

TARGET = "/bucket/key"
RULES = '[[rules]]\npath = "*/minute/**"\nfreshness = "60s"\n\n[[rules]]\npath = "**"\nfreshness = "immutable"\n'
IMPATIENT = 'answer_timeout = "0.3s"'
MIB = 1 << 20


@pytest.mark.parametrize("method", ["GET", "HEAD"])
async def test_read_begun_before_a_write_caches_no_old_bytes(tmp_path: Path, method: str) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, rest=RULES) as rig:
        origin.store.put("bucket", "key", b"old")
        client, gate = rig.client(), Gate()
        origin.faults.add(actions.HoldHead(gate), method=method, key="key", times=1)
        async with asyncio.TaskGroup() as readers:
            early = readers.create_task(client.request(method, TARGET))
            await gate.reached()
            assert (await client.request("PUT", TARGET, (), b"new!")).status == 200
            # Whoever comes after the acknowledgement does not join what was asked before it.
            assert (await client.request("GET", TARGET)).body == b"new!"
            gate.open()
        assert early.result().headers["Content-Length"] in {"3", "4"}
        await rig.wait_idle()
        for _ in range(2):
            assert (await client.request("GET", TARGET)).body == b"new!"
            assert (await client.request("HEAD", TARGET)).headers["Content-Length"] == "4"


@pytest.mark.parametrize(
    ("target", "later"), [(TARGET, None), ("/bucket/minute/key", 61)], ids=["read", "revalidation"]
)
async def test_lookup_begun_before_a_write_caches_nothing(tmp_path: Path, target: str, later: float | None) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, rest=RULES) as rig:
        origin.store.put("bucket", target.removeprefix("/bucket/"), b"old")
        client, gate = rig.client(), Gate()
        if later is not None:
            await client.request("GET", target)
            rig.advance_clock(later)
        revalidates = later is not None
        origin.faults.add(
            actions.HoldHead(gate),
            method="GET",
            where=lambda asked: ("If-None-Match" in asked.headers) == revalidates,
            times=1,
        )
        async with asyncio.TaskGroup() as readers:
            readers.create_task(client.request("GET", target))
            await gate.reached()
            await client.request("PUT", target, (), b"new!")
            gate.open()
        await rig.wait_idle()
        assert (await client.request("GET", target)).body == b"new!"


async def test_body_half_read_at_a_write_is_of_one_version(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, rest=RULES) as rig:
        old, new = b"o" * 3 * MIB, b"n" * 3 * MIB
        origin.store.put("bucket", "key", old)
        client, gate = rig.client(), Gate()
        origin.faults.add(actions.HoldAfter(MIB // 2, gate), method="GET", times=1)
        async with await client.open() as connection:
            await connection.send(client.sign("GET", TARGET).wire)
            head = await connection.read_head()
            first = await connection.read(1000)
            await client.request("PUT", TARGET, (), new)
            gate.open()
            rest, cut = await connection.read_rest()
        assert (head.status, set(first + rest)) == (200, {ord("o")})
        assert cut or len(first + rest) == len(old)
        assert (await client.request("GET", TARGET)).body == new


async def test_read_during_a_write_is_not_fresh_after_it(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, rest=RULES) as rig:
        origin.store.put("bucket", "key", b"old")
        client, gate = rig.client(), Gate()
        origin.faults.add(actions.HoldRequest(gate), method="PUT")
        async with asyncio.TaskGroup() as writers:
            written = writers.create_task(client.request("PUT", TARGET, (), b"new!"))
            await gate.reached()
            assert (await client.request("GET", TARGET)).body == b"old"
            gate.open()
        assert written.result().status == 200
        assert (await client.request("GET", TARGET)).body == b"new!"


async def test_cached_object_is_not_fresh_during_a_write(tmp_path: Path) -> None:
    """Were we to end here, the write may be done, and nobody left to forget what was cached."""
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, rest=RULES) as rig:
        origin.store.put("bucket", "key", b"old")
        client, gate = rig.client(), Gate()
        await client.request("GET", TARGET)
        origin.faults.add(actions.HoldHead(gate), method="PUT")
        async with asyncio.TaskGroup() as writers:
            writers.create_task(client.request("PUT", TARGET, (), b"new!"))
            await gate.reached()
            assert (await client.request("GET", TARGET)).body == b"new!"
            gate.open()


@pytest.mark.parametrize("lost", [actions.LoseAnswer(), actions.LoseAnswer(reset=True)], ids=["closed", "reset"])
@pytest.mark.parametrize("method", ["PUT", "DELETE"])
async def test_a_write_whose_answer_was_lost_is_seen(tmp_path: Path, method: str, lost: actions.LoseAnswer) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, rest=RULES) as rig:
        origin.store.put("bucket", "key", b"old")
        client = rig.client()
        await client.request("GET", TARGET)
        origin.faults.add(lost, method=method)
        answer = await client.request(method, TARGET, (), b"new" if method == "PUT" else b"")
        assert (answer.status, b"<Code>ServiceUnavailable</Code>" in answer.body) == (503, True)
        found = await client.request("GET", TARGET)
        assert found.body == b"new" if method == "PUT" else found.status == 404


async def test_a_write_that_the_origin_carries_out_late_is_seen_when_it_is(tmp_path: Path) -> None:
    async with (
        FakeOrigin() as origin,
        Rig(origin.endpoint, origin.secret, tmp_path, rest=RULES, origin=IMPATIENT) as rig,
    ):
        origin.store.put("bucket", "key", b"old")
        client, gate = rig.client(), Gate()
        await client.request("GET", TARGET)
        origin.faults.add(actions.HoldRequest(gate), method="PUT")
        assert (await client.request("PUT", TARGET, (), b"new")).status == 503
        for _ in range(2):
            assert (await client.request("GET", TARGET)).body == b"old"
        gate.open()
        await origin.log.wait_idle()
        assert (await client.request("GET", TARGET)).body == b"new"


@pytest.mark.parametrize("restarted", [False, True], ids=["", "restarted"])
async def test_read_during_an_in_doubt_write_is_not_fresh_later(tmp_path: Path, restarted: bool) -> None:
    async with (
        FakeOrigin() as origin,
        Rig(origin.endpoint, origin.secret, tmp_path, rest=RULES, origin=IMPATIENT, ssd="256MiB") as rig,
    ):
        origin.store.put("bucket", "key", b"old")
        client, gate = rig.client(), Gate()
        origin.faults.add(actions.HoldRequest(gate), method="PUT")
        assert (await client.request("PUT", TARGET, (), b"new")).status == 503
        assert (await client.request("GET", TARGET)).body == b"old"
        gate.open()
        await origin.log.wait_idle()
        rig.advance_clock(3600)
        if restarted:
            await rig.restart()
        assert (await rig.client().request("GET", TARGET)).body == b"new"


@pytest.mark.parametrize(
    "denied",
    [actions.FORBIDDEN, actions.Respond(412, "PreconditionFailed"), actions.Respond(400, "BadDigest")],
    ids=lambda action: action.code,
)
async def test_a_write_that_the_origin_denied_leaves_the_cache_right(tmp_path: Path, denied: actions.Respond) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, rest=RULES) as rig:
        origin.store.put("bucket", "key", b"old")
        client = rig.client()
        await client.request("GET", TARGET)
        origin.faults.add(denied, method="PUT")
        answer = await client.request("PUT", TARGET, (), b"new")
        assert (answer.status, denied.code.encode() in answer.body) == (denied.status, True)
        for cache in ("miss", "hit-memory"):  # it is asked again, and there is no doubt about it
            found = await client.request("GET", TARGET)
            assert (found.body, found.headers["x-forebay-cache"][: len(cache)]) == (b"old", cache)


@pytest.mark.parametrize("broken", [actions.INTERNAL_ERROR, actions.SLOW_DOWN], ids=lambda action: action.code)
async def test_write_failed_at_the_origin_is_in_doubt(tmp_path: Path, broken: actions.Respond) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, rest=RULES) as rig:
        origin.store.put("bucket", "key", b"old")
        client = rig.client()
        rule = origin.faults.add(broken, method="PUT")
        assert (await client.request("PUT", TARGET, (), b"new")).status == broken.status
        origin.faults.remove(rule)
        assert (await client.request("GET", TARGET)).body == b"old"
        origin.store.put("bucket", "key", b"new")  # as if the origin had done it after all
        assert (await client.request("GET", TARGET)).body == b"new"


async def test_concurrent_writers_and_readers_converge_on_the_origin(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, rest=RULES) as rig:
        origin.store.put("bucket", "key", b"0" * 1000)
        client = rig.client()

        async def write(digit: int) -> None:
            for _ in range(5):
                assert (await client.request("PUT", TARGET, (), b"%d" % digit * 1000)).status == 200

        async def read() -> None:
            for _ in range(15):
                answer = await client.request("GET", TARGET)
                assert (answer.status, len(answer.body), len(set(answer.body))) == (200, 1000, 1)

        async with asyncio.TaskGroup() as group:
            for digit in range(1, 4):
                group.create_task(write(digit))
                group.create_task(read())
        kept = b"".join(origin.store.get("bucket", "key").content.views(0, 1000))
        assert (await client.request("GET", TARGET)).body == kept
