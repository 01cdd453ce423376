"""Large entries of a batch come in files of the memory tier: the same bytes, no copy, and to nobody who may not read
all that is in the file."""

import asyncio
import gc
import random
import socket
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from forebay.core.names import ObjectName
from forebay.server.shared_memory.client_ring import STEP
from forebay.server.shared_memory.read_channel import ReadChannel
from forebay.storage.memory.shared_blocks import MIN_SHARED_BYTES
from forebay_client import BatchItem, BatchKey, Client
from harness.batches import batch_body
from harness.fake.actions import HoldHead
from harness.fake.gate import Gate
from harness.fake_origin import FakeOrigin
from harness.inspection import run_loop_until
from harness.raw_connection import head_bytes
from harness.rig import READER, TRAINER
from harness.socket_rig import HandChannel, SocketClient, SocketRig

MIB = 1 << 20
RULE = '[[rules]]\npath = "**"\nfreshness = "immutable"\n'
LARGE = {"open/a": MIB, "open/b": MIB - 7, "open/c": 2 * MIB + 5, "open/d": 602_112, "open/e": MIB, "open/f": MIB}
"""One block, one that is not full, three of them, and so many that no file has room left."""
SMALL = {f"open/small/{number}": 20_000 + number for number in range(8)}
LISTED: list[str | BatchKey] = [
    *("open/small/0", "open/a", "open/b", "open/small/1", "open/small/2", "open/c", "open/gone", "open/d"),
    *(BatchKey("open/c", 100_000, 2 * MIB + 1), BatchKey("open/a", 5, 300_000), BatchKey("open/a", 5, 50)),
    *("open/small/3", BatchKey("open/c", MIB + 1, 2 * MIB - 1), "open/a", "open/small/4"),
]


def content(key: str) -> bytes:
    return random.Random(key).randbytes({**LARGE, **SMALL}[key])


def expected(listed: str | BatchKey) -> bytes | None:
    key = listed if isinstance(listed, BatchKey) else BatchKey(listed)
    return None if key.key == "open/gone" else content(key.key)[key.start : key.end]


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[SocketRig]:
    async with FakeOrigin() as origin, SocketRig(origin, tmp_path, memory="128MiB", rest=RULE) as made:
        for key in (*LARGE, *SMALL):
            origin.store.put("b", key, content(key))
            origin.store.put("b", key.replace("open", "closed", 1), content(key)[::-1])
        yield made


async def many(client: Client, keys: list[Any], *, ordered: bool = True) -> list[BatchItem]:
    return await asyncio.to_thread(lambda: list(client.get_many("b", keys, ordered=ordered)))


def is_in_file(item: BatchItem) -> bool:
    return item.data is not None and type(item.data.obj).__name__ == "Mapping"


@pytest.mark.parametrize("ordered", [True, False])
async def test_large_entries_are_read_where_they_lie(rig: SocketRig, ordered: bool) -> None:
    await rig.promote(rig.library(), "b", *LARGE)
    in_rings, client = rig.parts.storage.rings.in_use, rig.library()
    for _ in range(2):
        items = {item.index: item for item in await many(client, LISTED, ordered=ordered)}
        found = [bytes(data) if (data := items[at].data) is not None else None for at in range(len(LISTED))]
        assert found == [expected(key) for key in LISTED]
        assert all(item.data.readonly for item in items.values() if item.data is not None)
    in_files = [key for at, key in enumerate(LISTED) if is_in_file(items[at])]
    across = BatchKey("open/c", 100_000, 2 * MIB + 1)  # blocks, at no border of a page: joined by the client
    assert in_files == [key for key in LISTED if key != across and len(expected(key) or b"") >= MIN_SHARED_BYTES]
    assert rig.parts.storage.rings.in_use == in_rings + STEP, "of small entries"
    assert client.stats.fallbacks == {}
    assert set(client.stats.requests) == {"socket"}


async def test_what_batches_read_again_moves_to_files(rig: SocketRig) -> None:
    client, arenas = rig.library(), rig.parts.storage.tiers.memory.arenas
    for key, blocks in (("open/a", 1), ("open/c", 4)):
        for _ in range(4):
            assert (await many(client, [key, "open/small/0"]))[0].content() == content(key)
        await run_loop_until(lambda blocks=blocks: len(arenas) == blocks)  # type: ignore[misc] # of the moment
    items = await many(client, ["open/a", "open/c"])
    assert [bytes(item.content()) for item in items] == [content("open/a"), content("open/c")]
    assert is_in_file(items[0])


async def test_more_files_than_the_socket_takes_at_once_are_no_error(tmp_path: Path) -> None:
    """Each block has a file of its own, and the client reads only once all of the answer is there."""
    keys = [f"open/{number}" for number in range(24)]
    async with FakeOrigin() as origin, SocketRig(origin, tmp_path, memory="48MiB", rest=RULE) as rig:
        for key in keys:
            origin.store.put("b", key, random.Random(key).randbytes(MIN_SHARED_BYTES))
        await rig.promote(rig.library(), "b", *keys)
        channel, signer = await HandChannel.open(rig), SocketClient(rig)
        await run_loop_until(lambda: len(rig.worker.client_memory.channels) == 2)
        writers = [each._writer for each in rig.worker.client_memory.channels if isinstance(each, ReadChannel)]  # noqa: SLF001 # whether one is stalled shows nowhere else
        for writer in writers:
            assert writer.transport is not None
            writer.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4608)
        document = batch_body(keys)
        request = signer.sign("POST", "/b/.forebay/batch", (), document)
        pairs = [pair for pair in request.pairs if pair[0] != "Content-Length"]
        await asyncio.to_thread(channel.channel.send_batch, head_bytes("POST", request.target, pairs), document)
        await run_loop_until(lambda: any(writer.is_stalled or writer.transport is None for writer in writers))
        found = dict[int, memoryview]()
        while len(found) < len(keys):
            frame = await asyncio.to_thread(channel.channel.receive_batch)
            found.update({index: frame.body[start : start + length] for index, _, _, length, start in frame.entries})
        assert all(found[at] == random.Random(key).randbytes(MIN_SHARED_BYTES) for at, key in enumerate(keys))
        assert any(type(body.obj).__name__ == "Mapping" for body in found.values())
        channel.close()
        signer.close()


async def test_views_outlive_eviction_writes_and_the_channel(rig: SocketRig) -> None:
    client = rig.library()
    await rig.promote(client, "b", "open/a", "open/b")
    items = await many(client, ["open/a", "open/b"])
    assert all(map(is_in_file, items))
    await asyncio.to_thread(client.put, "b", "open/a", b"another")
    rig.parts.storage.tiers.memory.forget(ObjectName("b", "open/b"))
    client.close()
    assert bytes((await many(client, ["open/a", "open/b"]))[0].content()) == b"another"
    assert [bytes(item.content()) for item in items] == [content("open/a"), content("open/b")]


async def test_files_of_a_batch_are_let_go_with_their_views(rig: SocketRig) -> None:
    client = rig.library()
    await rig.promote(client, "b", "open/a", "open/b")
    items = await many(client, ["open/a", "open/b"])
    memory = rig.worker.client_memory
    assert memory.files.size > 0
    client.close()
    await rig.channels_are(0)
    memory.check()
    assert memory.files.size > 0, "the views are still there"
    items.clear()
    gc.collect()
    memory.check()
    assert memory.files.size == 0


async def test_a_batch_brings_no_file_with_what_its_reader_may_not_read(tmp_path: Path) -> None:
    keys = ["open/a", "closed/a", "open/b", "closed/b"]
    async with FakeOrigin() as origin, SocketRig(origin, tmp_path, memory="64MiB", rest=RULE) as rig:
        for key in keys:
            origin.store.put("b", key, content(key.replace("closed", "open")))
        trainer, reader = rig.library(), rig.library(READER)
        await rig.promote(trainer, "b", *keys)  # neighbours
        assert all(map(is_in_file, await many(trainer, keys)))
        items = await many(reader, keys)
        assert [item.error is None for item in items] == [True, False, True, False]
        assert [bytes(item.content()) for item in items[::2]] == [content("open/a"), content("open/b")]
        assert not any(map(is_in_file, items))


async def test_a_file_that_has_lost_a_block_comes_with_no_batch(rig: SocketRig) -> None:
    await rig.promote(rig.library(), "b", "open/a", "open/b", "open/e", "open/f")
    rig.parts.storage.tiers.memory.forget(ObjectName("b", "open/b"))
    for secret, is_shown in ((READER, [False, True]), (TRAINER, [True, True])):
        items = await many(rig.library(secret), ["open/a", "open/e"])
        assert [bytes(item.content()) for item in items] == [content("open/a"), content("open/e")]
        assert list(map(is_in_file, items)) == is_shown


async def test_no_file_goes_to_a_key_whose_reads_the_origin_permits(tmp_path: Path) -> None:
    """Its grants cover everything, but they do not say all."""
    key = '[[auth.keys]]\nid = "own"\nsecret = "own-secret"\ngrants = [{ path = "**", allow = ["read"] }]\n'
    async with FakeOrigin() as origin:
        key += f'origin_access_key = "{origin.secret.access}"\norigin_secret_key = "{origin.secret.secret}"\n'
        async with SocketRig(origin, tmp_path, memory="128MiB", rest=RULE + key) as rig:
            for name in ("open/a", "open/b"):
                origin.store.put("b", name, content(name))
            await rig.promote(rig.library(), "b", "open/a", "open/b")
            own = rig.library(type(TRAINER)("own", "own-secret"))
            for client, is_shown in ((own, False), (rig.library(), True)):
                items = await many(client, ["open/a", "open/b"])
                assert [bytes(item.content()) for item in items] == [content("open/a"), content("open/b")]
                assert list(map(is_in_file, items)) == [is_shown] * 2


async def test_no_file_comes_behind_a_reload_in_mid_batch(tmp_path: Path) -> None:
    """The reader was admitted under the policy of before, under which it may have had more."""
    async with FakeOrigin() as origin, SocketRig(origin, tmp_path, memory="128MiB", rest=RULE) as rig:
        keys = ["open/a", "open/c", "open/b"]
        for key in keys:
            origin.store.put("b", key, content(key))
        client, gate = rig.library(), Gate()
        await rig.promote(client, "b", "open/a", "open/b")
        rig.parts.storage.tiers.memory.forget(ObjectName("b", "open/c"))
        origin.faults.add(HoldHead(gate), key="open/c", times=1)
        async with asyncio.TaskGroup() as group:
            reading = group.create_task(many(rig.library(), keys))
            await gate.reached()
            rig.parts.requests.gateway.policy = replace(rig.parts.requests.gateway.policy)  # as a reload does
            gate.open()
        items = reading.result()
        assert [bytes(item.content()) for item in items] == [content(key) for key in keys]
        assert [is_in_file(item) for item in items] == [True, False, False]


async def test_a_changed_policy_ends_a_channel_with_files_of_batches(rig: SocketRig) -> None:
    client, promoting = rig.library(), rig.library()
    await rig.promote(promoting, "b", "open/a", "open/b")
    promoting.close()  # it has no files
    assert all(map(is_in_file, await many(client, ["open/a", "open/b"])))
    memory = rig.worker.client_memory
    rig.parts.requests.gateway.policy = replace(rig.parts.requests.gateway.policy)  # as a reload does
    memory.check()
    await rig.channels_are(0)
    assert [bytes(item.content()) for item in await many(client, ["open/a", "open/b"])] == [
        content("open/a"),
        content("open/b"),
    ]
