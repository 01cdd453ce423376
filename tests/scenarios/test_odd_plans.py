"""Plans that no well-behaved sender sends: odd bodies, odd transports, odd moments. Each is right, or refused with its
line; every Rig checks at its end that nothing is left of it."""

import asyncio
import base64
import gzip
import hashlib
import struct
from collections import Counter
from pathlib import Path

import pytest

from harness.aws_chunked import Framing
from harness.clients import RawRequest, chunked, path_of
from harness.file_limit import file_size_limit
from harness.inspection import run_loop_until
from harness.oss_client import OssClient, told
from harness.plan_rig import KEYS, SIZE, progress, read, rig_with_data, send, send_compact, text, until
from harness.reference_sigv4 import SIGNED_CHUNKS_TRAILER, UNSIGNED_CHUNKS_TRAILER
from harness.rig import READER, TRAINER

PATH = path_of("b", ".forebay/plans/order")
PLAN = text(KEYS)
LIST = hashlib.sha256(PLAN).digest()


def compact(count: int, *indices: int, digest: bytes = LIST, zero: int = 0) -> bytes:
    return b"FBPLAN1\n" + digest + struct.pack(f"<II{len(indices)}I", zero, count, *indices)


REFUSED = {
    "NUL": (b"open/001\nopen\0/2\n", 2),
    "UTF-16": (PLAN.decode().encode("utf-16"), 1),
    "UTF-16 without a mark": (PLAN.decode().encode("utf-16-le"), 1),
    "gzip": (gzip.compress(PLAN), 1),
    "a line of 10 MB": (PLAN + b"k" * 10_000_000 + b"\n" + PLAN, len(KEYS) + 1),
    "a line of 10 MB of NUL": (bytes(10_000_000), 1),
    "a suffix range": (b"open/001\t-5\n", 1),
    "a range of 64 bits": (b"open/001\t0-%d\n" % (1 << 64), 1),
    "a range with two tabs": (b"open/001\t0-5\t7\n", 1),
    "an empty range": (PLAN + b"open/001\t\n", len(KEYS) + 1),
    "a range as in a header": (b"open/001\tbytes=0-5\n", 1),
    "other digits": ("open/001\t٠-٥\n".encode(), 1),
    "a range of no key": (b"\t0-5\n", 1),
    "half of a surrogate pair": (b"a\xed\xa0\x80\n", 1),
    "another version": (b"FBPLAN9\r\nx", 1),
    "an index out of range": (compact(2, 0, len(KEYS)), 2),
    "a negative index": (compact(1, 0xFFFFFFFF), 1),
    "fewer indices": (compact(2, 0), 2),
    "more indices": (compact(1, 0, 1), 2),
    "half an index": (compact(1, 0) + b"\0", 2),
    "an unknown list": (compact(0, digest=bytes(32)), 1),
    "half a header": (compact(0)[:20], 1),
    "a header with a number in its zeros": (compact(0, zero=1), 1),
}


async def test_odd_bodies_are_refused_with_their_line(tmp_path: Path) -> None:
    async with rig_with_data(tmp_path) as (_, rig):
        await send_compact(rig, KEYS, [0])
        await rig.client().request("DELETE", PATH)
        for name, (body, line) in REFUSED.items():
            for client in (rig.client(), OssClient(rig.endpoint, TRAINER)):
                answer = await client.request("PUT", PATH, (), body)
                assert (name, answer.status, told(answer, "Code")) == (name, 400, "InvalidArgument")
                assert (name, told(answer, "Line")) == (name, str(line))
        assert await progress(rig) == {}


ACCEPTED = {
    "empty": (b"", 0),
    "blank lines": (b"\n\r\n\n", 0),
    "CR LF": (PLAN.replace(b"\n", b"\r\n"), 60),
    "a byte order mark": (b"\xef\xbb\xbf" + PLAN, 60),
    "no line feed at the end": (PLAN[:-1], 60),
    "keys three times": (PLAN * 3, 180),
    "a range to the end": (b"open/001\t0-\n", 1),
    "a range beyond the object": (b"open/001\t0-999999999\n", 1),
    "a range behind the object": (b"open/001\t999999999999999999-\n", 1),
    "Forebay's own": (b".forebay/plans/order\nopen/001\n", 1),
    "a key as long as may be": ("é".encode() * 512, 1),
    "no indices": (compact(0), 0),
}


async def test_odd_bodies_that_are_plans_have_their_entries(tmp_path: Path) -> None:
    async with rig_with_data(tmp_path) as (_, rig):
        await send_compact(rig, KEYS, [0])
        for name, (body, entries) in ACCEPTED.items():
            for client in (rig.client(), OssClient(rig.endpoint, TRAINER)):
                answer = await client.request("PUT", PATH, (), body)
                assert (name, answer.status, answer.headers["x-forebay-plan-entries"]) == (name, 200, str(entries))
            await until(rig, lambda plan: plan["state"] == "done" or plan["lead_entries"] == plan["entries"])


async def test_bodies_that_arrive_changed_are_no_plans(tmp_path: Path) -> None:
    async with rig_with_data(tmp_path) as (_, rig):
        client = rig.client()
        wrong = base64.b64encode(bytes(16)).decode()
        answers = {
            "Content-MD5": await client.request("PUT", PATH, [("Content-MD5", wrong)], PLAN),
            "CRC": await client.request("PUT", PATH, [("x-amz-checksum-crc32", "AAAAAA==")], PLAN),
            "SHA-256": await client.request("PUT", PATH, (), PLAN, payload="0" * 64),
        }
        for kind in (SIGNED_CHUNKS_TRAILER, UNSIGNED_CHUNKS_TRAILER):
            framing = Framing(kind, 8192, checksum="AAAAAA==")
            answers[kind] = await client.request("PUT", PATH, (), PLAN, framing=framing)
        assert {name: answer.status for name, answer in answers.items()} == dict.fromkeys(answers, 400)
        assert await progress(rig) == {}


async def test_each_way_to_send_a_body_is_one_to_send_a_plan(tmp_path: Path) -> None:
    async with rig_with_data(tmp_path) as (_, rig):
        client = rig.client()
        host, length = ("Host", f"127.0.0.1:{client.address[1]}"), ("Content-Length", str(len(PLAN)))
        presigned = RawRequest("PUT", client.presign("PUT", PATH), (host, length), PLAN)
        unsized = chunked(client.sign("PUT", PATH, (), PLAN, payload="UNSIGNED-PAYLOAD"))
        digest = base64.b64encode(hashlib.md5(PLAN, usedforsecurity=False).digest()).decode()
        signed = [client.sign("PUT", PATH, [("Content-MD5", digest)], PLAN)]
        signed += [
            client.sign("PUT", PATH, (), PLAN, framing=Framing(kind, 8192))
            for kind in (SIGNED_CHUNKS_TRAILER, UNSIGNED_CHUNKS_TRAILER)
        ]
        for request in (presigned, unsized, *signed):
            assert (await client.send(request)).status == 200
            assert (await progress(rig))["entries"] == len(KEYS)
            await client.request("DELETE", PATH)


async def test_a_restart_finds_each_plan_in_its_state(tmp_path: Path) -> None:
    async with rig_with_data(tmp_path) as (_, rig):
        await send(rig, KEYS[:3], "done")
        await read(rig, KEYS[:3])
        await until(rig, lambda plan: plan["state"] == "done", "done")
        await send(rig, KEYS[:30], "run/0")
        await send(rig, [*KEYS[30:], *[f"open/absent-{number}" for number in range(20_000)]], "run/1")
        await send(rig, KEYS, "run/2")
        for name in ("cancelled", "replaced"):
            await send(rig, KEYS[:5], name)
        await rig.client().request("DELETE", path_of("b", ".forebay/plans/cancelled"))
        await send(rig, KEYS[:6], "replaced")
        await rig.restart()
        found = {
            name: await progress(rig, name) for name in ("done", "run/0", "run/1", "run/2", "cancelled", "replaced")
        }
        assert {name: plan.get("entries") for name, plan in found.items()} == {
            "done": None,
            "run/0": 30,
            "run/1": 20_030,
            "run/2": 60,
            "cancelled": None,
            "replaced": 6,
        }
        assert found["run/2"]["state"] == "queued"
        for name in found:
            assert (await rig.client().request("DELETE", path_of("b", f".forebay/plans/{name}"))).status == 204
        assert [each for each in (rig.directory / "state").glob("plans-*/*") if each.is_dir()] == []


@pytest.mark.parametrize("is_list", [False, True])
async def test_a_plan_that_the_disk_refuses_leaves_the_one_before(
    tmp_path: Path, is_list: bool, caplog: pytest.LogCaptureFixture
) -> None:
    long = text([f"open/{number:09}" for number in range(20_000)])
    name = f"keys/{hashlib.sha256(long).hexdigest()}" if is_list else "order"
    async with rig_with_data(tmp_path) as (_, rig):
        await send(rig, KEYS)
        with file_size_limit(100_000):
            answer = await rig.client().request("PUT", path_of("b", f".forebay/plans/{name}"), (), long)
        assert (answer.status, told(answer, "Code"), answer.headers["Retry-After"]) == (503, "SlowDown", "1")
        assert "can't be kept in server.state_dir: File too large" in told(answer, "Message")
        assert f"a plan can't be kept in {rig.directory / 'state'}" in caplog.text
        assert (await progress(rig))["entries"] == len(KEYS)
        assert len([each for each in (rig.directory / "state").glob("plans-*/*") if each.is_dir()]) == 1


async def test_a_plan_deleted_while_it_is_sent_is_there(tmp_path: Path) -> None:
    """It comes after the delete."""
    async with rig_with_data(tmp_path) as (_, rig):
        client, path = rig.client(), path_of("b", ".forebay/plans/order")
        wire = client.sign("PUT", path, (), text(KEYS)).wire
        async with await client.open() as connection:
            await connection.send(wire[:-10])
            assert (await rig.client().request("DELETE", path)).status == 204
            assert await progress(rig) == {}
            await connection.send(wire[-10:])
            assert (await connection.answer("PUT")).status == 200
        assert (await progress(rig))["entries"] == len(KEYS)


async def test_plans_of_one_name_sent_and_deleted_at_once_leave_one(tmp_path: Path) -> None:
    async with rig_with_data(tmp_path) as (_, rig):
        client, path = rig.client(), path_of("b", ".forebay/plans/order")
        for deletions in (0, 1, 2) * 4:
            answers = await asyncio.gather(
                *(client.request("PUT", path, (), text(KEYS[:count])) for count in (5, 10, 15)),
                *(client.request("DELETE", path) for _ in range(deletions)),
            )
            assert {answer.status for answer in answers} <= {200, 204}
            entries = (await progress(rig)).get("entries")
            assert entries in {5, 10, 15, *([None] if deletions else [])}
            kept = [each for each in (rig.directory / "state").glob("plans-*/*") if each.is_dir()]
            assert len(kept) == (entries is not None)


async def test_hundreds_of_plans_of_one_key_are_at_most_its_slots(tmp_path: Path) -> None:
    async with rig_with_data(tmp_path) as (_, rig):
        statuses = Counter[int]()
        for first in range(0, 200, 50):
            statuses.update(
                answer.status
                for answer in await asyncio.gather(
                    *(
                        rig.client().request("PUT", path_of("b", f".forebay/plans/{number}"), (), text(KEYS[:3]))
                        for number in range(first, first + 50)
                    )
                )
            )
        assert statuses == {200: 64, 503: 136}
        assert len([each for each in (rig.directory / "state").glob("plans-*/*") if each.is_dir()]) == 64
        await send(rig, KEYS[:3], "mine", READER)


async def test_keys_that_vanish_or_shrink_are_read_as_they_are(tmp_path: Path) -> None:
    rest = '[[rules]]\npath = "**"\nfreshness = "60s"\n'
    async with rig_with_data(tmp_path, rest=rest) as (origin, rig):
        await send(rig, KEYS)
        await run_loop_until(lambda: rig.parts.jobs.prefetcher.tickets == 60)
        for gone, short in zip(KEYS[::3], KEYS[1::3], strict=True):
            origin.store.delete("b", gone)
            origin.store.put("b", short, b"short")
        rig.advance_clock(61)
        answers = [await rig.client().request("GET", path_of("b", key)) for key in KEYS]
        assert [(answer.status, len(answer.body)) for answer in answers[1::3]] == [(200, 5)] * 20
        assert [(answer.status, len(answer.body)) for answer in answers[2::3]] == [(200, SIZE)] * 20
        assert {answer.status for answer in answers[::3]} == {404}
        await until(rig, lambda plan: plan["read"] == 40)
