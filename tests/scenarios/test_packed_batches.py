"""Batches of keys that are members of packs: found in the tiers without a task each, and only what a GET would give."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from harness.batches import ReadEntry, read_batch, send_batch
from harness.bucket_owners import EXPECTED, NO_OWNER, OTHER_OWNER, OWNER, owned
from harness.clients import path_of
from harness.fake.actions import FORBIDDEN, Drop
from harness.fake_origin import FakeOrigin
from harness.packed_rig import IDENTITY, OBJECTS, PARTNER, PARTNER_THERE, RULE, pack, rig_of
from harness.rig import READER, TRAINER

KEYS = list(OBJECTS)[:60]
KEY = KEYS[7]
SMALL_BLOCKS = RULE.replace("[[rules]]", '[[rules]]\npath = "**"\nblock = "64KiB"\n[[rules]]')


@contextmanager
def counted_tasks() -> Iterator[list[object]]:
    """What becomes a task meanwhile."""
    loop, made = asyncio.get_running_loop(), list[object]()

    def make(loop: Any, coro: Any, **named: Any) -> asyncio.Task[Any]:
        made.append(coro)
        return asyncio.Task(coro, loop=loop, **named)

    loop.set_task_factory(make)
    try:
        yield made
    finally:
        loop.set_task_factory(None)


def whole(keys: list[str]) -> list[ReadEntry]:
    return [ReadEntry(key, OBJECTS[key]) for key in keys]


@pytest.mark.parametrize("rules", [RULE, SMALL_BLOCKS], ids=["one block", "members across borders"])
async def test_members_in_the_tiers_take_no_task_each(tmp_path: Path, rules: str) -> None:
    async with FakeOrigin() as origin, rig_of(origin, tmp_path, rules) as rig:
        pack(origin)
        client, keys = rig.client(), list(OBJECTS)
        assert await read_batch(client, "bucket", keys) == whole(keys)
        before = origin.log.count()
        with counted_tasks() as tasks:
            assert await read_batch(client, "bucket", keys) == whole(keys)
        assert len(tasks) < 10
        assert origin.log.count() == before


async def test_ranges_of_members_are_those_of_the_key(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, rig_of(origin, tmp_path) as rig:
        pack(origin)
        size = len(OBJECTS[KEY])
        asked: list[object] = [
            {"key": KEY, "start": 3, "end": 9},
            {"key": KEY, "start": size - 5},
            {"key": KEY, "start": 10, "end": size + 100},
            {"key": KEY, "start": size},
        ]
        for _ in range(2):
            *parts, behind = await read_batch(rig.client(), "bucket", asked)
            content = OBJECTS[KEY]
            assert [each.body for each in parts] == [content[3:9], content[-5:], content[10:]]
            assert behind.status == 416


async def test_what_was_written_or_deleted_since_is_seen(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, rig_of(origin, tmp_path) as rig:
        pack(origin)
        client = rig.client()
        await read_batch(client, "bucket", KEYS)
        assert (await client.request("PUT", path_of("bucket", KEY), (), b"mine")).status == 200
        assert (await client.request("DELETE", path_of("bucket", KEYS[8]))).status == 204
        found = await read_batch(client, "bucket", KEYS)
        assert found[:7] == whole(KEYS[:7])
        assert (found[7].body, found[8].status) == (b"mine", 404)
        assert found[9:] == whole(KEYS[9:])
        origin.store.put("bucket", KEYS[9], b"written around Forebay")
        rig.advance_clock(61)
        assert (await read_batch(client, "bucket", KEYS))[9].body == b"written around Forebay"


async def test_a_write_in_doubt_is_looked_for_by_each_read(tmp_path: Path) -> None:
    """Its answer was lost, and the origin carries it out after the packs were looked at once more."""
    async with FakeOrigin() as origin, rig_of(origin, tmp_path) as rig:
        pack(origin)
        client = rig.client()
        await read_batch(client, "bucket", KEYS)
        origin.faults.add(Drop(), method="PUT", key=KEY)
        assert (await client.request("PUT", path_of("bucket", KEY), (), b"mine")).status >= 500
        rig.advance_clock(61)
        assert await read_batch(client, "bucket", KEYS) == whole(KEYS)
        origin.store.put("bucket", KEY, b"mine")
        assert (await read_batch(client, "bucket", KEYS))[7].body == b"mine"
        assert (await client.request("GET", path_of("bucket", KEY))).body == b"mine"


async def test_a_shard_that_was_written_again_gives_no_bytes(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, rig_of(origin, tmp_path) as rig:
        pack(origin)
        client = rig.client()
        await read_batch(client, "bucket", KEYS)
        shard = origin.store.current("bucket", "packed/train-0.tar")
        assert shard is not None
        assert (await client.request("PUT", path_of("bucket", "packed/train-0.tar"), (), bytes(4096))).status == 200
        assert {each.status for each in await read_batch(client, "bucket", KEYS)} == {503}


async def test_nobody_gets_a_member_that_its_get_would_refuse(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, rig_of(origin, tmp_path, IDENTITY + RULE) as rig:
        origin.allow(PARTNER_THERE)
        pack(origin)
        denied = origin.faults.add(
            FORBIDDEN, where=lambda asked: PARTNER_THERE.access in asked.headers.get("Authorization", "")
        )
        assert await read_batch(rig.client(TRAINER), "bucket", KEYS) == whole(KEYS)
        for secret in (READER, PARTNER):  # by its grants, by the origin
            assert {each.status for each in await read_batch(rig.client(secret), "bucket", KEYS)} == {403}
        origin.faults.remove(denied)
        assert await read_batch(rig.client(PARTNER), "bucket", KEYS) == whole(KEYS)


async def test_a_member_that_is_read_anew_is_looked_up(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, rig_of(origin, tmp_path, RULE.replace("60s", "always")) as rig:
        pack(origin)
        assert await read_batch(rig.client(), "bucket", KEYS[:9]) == whole(KEYS[:9])
        origin.store.put("bucket", KEY, b"real")
        assert (await read_batch(rig.client(), "bucket", KEYS[:9]))[7].body == b"real"


async def test_the_origin_compares_the_owner_of_a_batch(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, rig_of(origin, tmp_path) as rig:
        pack(origin)
        origin.store.put("bucket", "loose", b"loose")
        owned(origin)
        for owner, status in ((OWNER, 200), (OTHER_OWNER, 403), (NO_OWNER, 400)):
            answer = await send_batch(rig.client(), "bucket", [KEY, "loose"], ((EXPECTED, owner),))
            assert answer.status == status
            assert (OBJECTS[KEY] in answer.body) == (status == 200)
