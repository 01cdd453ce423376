"""Batches over a read channel: what the TAR over HTTP has, whatever the ring does, and whatever the client does."""

import asyncio
import json
import random
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from forebay.core.names import ObjectName
from forebay.protocol.channel_frames import FRAME, MAX_BODY, SWITCHED, UPGRADE, message
from forebay.server.shared_memory.channel_batch import RUN_SIZE
from forebay.server.shared_memory.read_channel import MAX_WAITING, ReadChannel
from forebay_client.shared_memory.channel import BatchFrame
from harness.batches import ReadEntry, batch_body, entries_in, read_batch
from harness.both_loops import NEEDS_PAUSES
from harness.clients import RawRequest
from harness.fake.actions import CloseAfter, HoldHead
from harness.fake.gate import Gate
from harness.fake_origin import FakeOrigin
from harness.inspection import run_loop_until
from harness.raw_connection import head_bytes
from harness.rig import READER, TRAINER
from harness.socket_rig import HandChannel, SocketClient, SocketRig, entries_of

RULES = '[[rules]]\npath = "**"\nfreshness = "immutable"\nblock = "64KiB"\nrecord = true\n'
BLOCK = 64 << 10
TARGET = "/bucket/.forebay/batch"
SIZES = (0, 1, 63, 64, 65, 5000, 20_480, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK, 900_000)


@pytest.fixture
async def origin() -> AsyncIterator[FakeOrigin]:
    async with FakeOrigin() as made:
        fill(made)
        yield made


@pytest.fixture
async def rig(origin: FakeOrigin, tmp_path: Path) -> AsyncIterator[SocketRig]:
    async with SocketRig(origin, tmp_path, rest=RULES) as made:
        yield made


def fill(origin: FakeOrigin) -> None:
    for size in SIZES:
        origin.store.put("bucket", f"open/{size}", content(size))
    for number in range(40):
        origin.store.put("bucket", f"open/small/{number}", content(20_000 + number))
    origin.store.put("bucket", "closed/k", b"closed")


def content(size: int) -> bytes:
    return random.Random(size).randbytes(size)


def head_of(client: SocketClient, document: bytes) -> bytes:
    request = client.sign("POST", TARGET, (), document)
    return head_bytes("POST", TARGET, [pair for pair in request.pairs if pair[0] != "Content-Length"])


def settled(rig: SocketRig) -> bool:
    """Whether nothing is left of clients that have ended."""
    rig.worker.client_memory.check()
    return rig.parts.storage.rings.in_use == 0 and rig.worker.listener.requests.in_flight == 0


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("order", ["listed", "arrival"])
async def test_entries_are_those_of_the_tar(rig: SocketRig, order: str, seed: int) -> None:
    draw = random.Random(seed)
    names = [*(f"open/{size}" for size in SIZES), *(f"open/small/{number}" for number in range(40))]
    names += ["open/gone", "closed/k", "closed/gone", ".forebay/plans/x", "\u00e9/\u00fc"]
    listed: list[object] = []
    for name in draw.choices(names, k=60):
        start = draw.choice([0, 0, 3, 60_000, 70_000, 1 << 40])
        end = start + draw.choice([1, 100, 100_000])
        whole = {"key": name} if not start else {"key": name, "start": start}
        listed.append(draw.choice([name, whole, {"key": name, "start": start, "end": end}]))
    for secret in (TRAINER, READER):
        channel = SocketClient(rig, secret)
        for _ in range(3):  # misses, hits, and hits of what was prepared
            by_channel = await read_batch(channel, "bucket", listed, order=order)
            by_tar = await read_batch(rig.client(secret), "bucket", listed, order=order)
            if order == "arrival":
                by_channel.sort(key=lambda entry: entry.position or 0)
                by_tar.sort(key=lambda entry: entry.position or 0)
            assert by_channel == by_tar
        assert channel.answered == 3
        channel.close()
    assert rig.forms() == {"batch": 6}
    counted = rig.parts.context.metrics.counters["forebay_batch_entries_total"]
    assert sum(counted.values()) == 2 * 6 * len(listed), "both ways count each entry"


@pytest.mark.parametrize("ring", ["0B", "256KiB"])
async def test_without_room_in_the_ring_bytes_come_through_the_socket(tmp_path: Path, ring: str) -> None:
    settings = {"memory": f'64MiB"\nring = "{ring}"\n#"', "rest": RULES}
    async with FakeOrigin() as origin, SocketRig(origin, tmp_path, **settings) as rig:
        fill(origin)
        client = rig.library(READER)
        keys = [f"open/{size}" for size in SIZES]
        for ordered in (True, False):
            items = await asyncio.to_thread(list, client.get_many("bucket", keys, ordered=ordered))
            found = {item.key: item.content() for item in items}
            assert all(found[f"open/{size}"] == content(size) for size in SIZES)
        assert client.stats.fallbacks == {}
        assert client.stats.requests == {"socket": 2}
        client.close()


async def test_a_client_that_keeps_all_its_views_is_served_still(rig: SocketRig) -> None:
    rig.parts.storage.rings.resize(1 << 20)
    client = rig.library(READER)
    keys = [f"open/small/{number}" for number in range(40)]
    kept = [
        await asyncio.to_thread(lambda: [item.content() for item in client.get_many("bucket", keys)]) for _ in range(5)
    ]
    assert rig.parts.storage.rings.in_use == 1 << 20
    assert all(view == content(20_000 + number) for views in kept for number, view in enumerate(views))
    client.close()
    await rig.channels_are(0)
    assert not settled(rig)  # the views are still there
    kept.clear()
    await run_loop_until(lambda: settled(rig))


@NEEDS_PAUSES
async def test_slots_are_given_back_while_a_batch_is_read(rig: SocketRig) -> None:
    """A batch of many times the ring goes through it, as the client drops what it has looked at."""
    rig.parts.storage.rings.resize(2 << 20)
    channel = await HandChannel.open(rig, READER)
    keys = [f"open/small/{number % 40}" for number in range(1000)]
    document, signer = batch_body(keys), SocketClient(rig, READER)
    await read_batch(signer, "bucket", keys[:40])
    signer.close()

    def read() -> int:
        channel.channel.send_batch(head_of(signer, document), document)
        inside = 0
        while True:
            frame = channel.channel.receive_batch()
            for index, _, _, length, start in frame.entries:
                assert frame.body[start : start + length] == content(20_000 + index % 40)
            inside += type(frame.body.obj) is bytearray
            if frame.is_last:
                return inside

    inside = await asyncio.to_thread(read)
    assert inside < 1000 * 20_000 / RUN_SIZE / 2, "most came through the ring"
    channel.close()


async def test_no_frame_has_more_entries_than_a_client_takes(origin: FakeOrigin, rig: SocketRig) -> None:
    origin.store.put("bucket", "e", b"")
    channel, signer, document = await HandChannel.open(rig), SocketClient(rig), batch_body(["e"] * 4000)
    found: list[int] = []
    await asyncio.to_thread(channel.channel.send_batch, head_of(signer, document), document)
    while len(found) < 4000:
        frame = await asyncio.to_thread(channel.channel.receive_batch)
        found += [index for index, status, _, _, _ in frame.entries if status == 200]
    assert sorted(found) == list(range(4000))
    channel.close()
    signer.close()


async def test_an_entry_that_breaks_off_in_its_turn_ends_the_channel(origin: FakeOrigin, rig: SocketRig) -> None:
    large = content(40 * BLOCK)
    origin.store.put("bucket", "open/large", large)
    origin.faults.add(CloseAfter(10 * BLOCK), key="open/large", times=2)
    client = rig.library(retries=3)
    items = await asyncio.to_thread(lambda: list(client.get_many("bucket", ["open/5000", "open/large", "open/1"])))
    assert [bytes(item.content()) for item in items] == [content(5000), large, content(1)]


@pytest.mark.parametrize("order", ["listed", "arrival"])
async def test_hits_come_while_a_miss_is_waited_for(origin: FakeOrigin, rig: SocketRig, order: str) -> None:
    """What is there is written before the answer waits for what is not."""
    client, gate = SocketClient(rig), Gate()
    await read_batch(client, "bucket", ["open/5000"])
    origin.faults.add(HoldHead(gate), key="open/20480", times=1)
    document = batch_body(["open/5000", "open/20480"], order=order)
    channel = await HandChannel.open(rig)
    await asyncio.to_thread(channel.channel.send_batch, head_of(client, document), document)
    first = await asyncio.to_thread(channel.channel.receive_batch)
    assert [entry[0] for entry in first.entries] == [0]
    assert not first.is_last
    await gate.reached()
    gate.open()
    rest = await asyncio.to_thread(channel.channel.receive_batch)
    assert [(entry[0], entry[3]) for entry in rest.entries] == [(1, 20_480)]
    channel.close()
    client.close()


async def test_batches_sent_at_once_are_answered_in_order(rig: SocketRig) -> None:
    client, channel = SocketClient(rig), await HandChannel.open(rig)
    documents = [batch_body([f"open/{size}", "open/gone"]) for size in SIZES]

    def send() -> None:
        for document in documents:
            channel.channel.send_batch(head_of(client, document), document)

    await asyncio.to_thread(send)
    for size in SIZES:
        frames: list[BatchFrame] = []
        while not frames or not frames[-1].is_last:
            frames.append(await asyncio.to_thread(channel.channel.receive_batch))
        found = [(index, status, length) for frame in frames for index, status, _, length, _ in frame.entries]
        assert found == [(0, 200, size), (1, 404, 0)]
    head, body = await channel.read("bucket", "open/5000")  # and a read behind them
    assert (head.status, bytes(body)) == (200, content(5000))
    channel.close()
    client.close()


async def test_more_than_may_wait_is_read_when_there_is_room(tmp_path: Path) -> None:
    """The socket is not read while so many batches wait, and read again behind them. The client has no ring: one that
    waits to give slots back would not read the answers, for which the server waits."""
    settings = {"memory": '64MiB"\nring = "0B"\n#"', "rest": RULES}
    async with FakeOrigin() as origin, SocketRig(origin, tmp_path, **settings) as rig:
        fill(origin)
        client, channel = SocketClient(rig), await HandChannel.open(rig)
        document = batch_body(["open/1"] * 2000)
        batch = head_of(client, document), document
        number = 4 * MAX_WAITING // len(document)
        answered = 0

        def send_all() -> None:
            for _ in range(number):
                channel.channel.send_batch(*batch)

        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(asyncio.to_thread(send_all))
            while answered < number:
                answered += (await asyncio.to_thread(channel.channel.receive_batch)).is_last
        channel.close()
        client.close()


@NEEDS_PAUSES
async def test_an_answer_waits_for_a_client_that_does_not_read(tmp_path: Path) -> None:
    settings = {"memory": '64MiB"\nring = "0B"\n#"', "rest": RULES}
    async with FakeOrigin() as origin, SocketRig(origin, tmp_path, **settings) as rig:
        fill(origin)
        client, document = SocketClient(rig), batch_body([f"open/small/{number % 40}" for number in range(2000)])
        await read_batch(client, "bucket", [f"open/small/{number}" for number in range(40)])
        client.close()
        await rig.channels_are(0)
        channel = await HandChannel.open(rig)
        await rig.channels_are(1)
        (served,) = rig.worker.client_memory.channels
        assert isinstance(served, ReadChannel)
        transport = served.transport
        assert transport is not None
        await asyncio.to_thread(channel.channel.send_batch, head_of(client, document), document)
        await run_loop_until(lambda: transport.get_write_buffer_size() > 0)
        for _ in range(5000):
            await asyncio.sleep(0)
        assert transport.get_write_buffer_size() < 4 << 20, "of 40 MiB"
        channel.close()


async def test_what_is_no_batch_is_declined(origin: FakeOrigin, rig: SocketRig) -> None:
    client = SocketClient(rig)
    document = batch_body(["open/1"])
    signed = client.sign("POST", TARGET, (), document)
    deletion = b"<Delete><Object><Key>open/1</Key></Object></Delete>"
    refused = [
        client.sign("POST", "/bucket?delete", (), deletion),
        client.sign("PUT", "/bucket/open/1", (), b"content"),
        client.sign("POST", "/bucket/open/1?uploads", (), b"x"),
        client.sign("POST", f"{TARGET}?restore", (), document),
        client.sign("GET", TARGET, (), document),
        client.sign("POST", TARGET, (), b"no JSON"),
        client.sign("POST", TARGET, (), b'{"keys": ["a"], "unknown": 1}'),
        client.sign("POST", TARGET, (("Transfer-Encoding", "chunked"),), document),
        replace(signed, body=batch_body(["open/2"])),
        RawRequest("POST", TARGET, signed.pairs[:1], document),
    ]
    for request in refused:
        assert not await client.is_answered(request), request
    assert await client.is_answered(signed)
    assert rig.forms() == {"declined": len(refused), "batch": 1}
    assert origin.log.count("DELETE") == origin.log.count("PUT") == 0
    client.close()


async def test_a_revoked_key_reads_no_further_batch(tmp_path: Path) -> None:
    key = '[[auth.keys]]\nid = "leaver"\nsecret = "leaver-secret"\ngrants = [{ path = "**", allow = ["read"] }]\n'
    async with FakeOrigin() as origin, SocketRig(origin, tmp_path, rest=RULES + key) as rig:
        fill(origin)
        leaver = SocketClient(rig, type(TRAINER)("leaver", "leaver-secret"))
        for _ in range(3):  # prepared by now
            assert (await read_batch(leaver, "bucket", ["open/5000"]))[0].body == content(5000)
        (rig.directory / "forebay.toml").write_text(rig.configuration.replace(key, ""))
        await rig.worker.reload()
        document = batch_body(["open/5000"])
        assert not await leaver.is_answered(leaver.sign("POST", TARGET, (), document))
        leaver.close()


async def test_lost_grants_and_changed_rules_count_from_the_next_batch(tmp_path: Path) -> None:
    key = '[[auth.keys]]\nid = "mover"\nsecret = "mover-secret"\ngrants = [{ path = "%s", allow = ["read"] }]\n'
    async with FakeOrigin() as origin, SocketRig(origin, tmp_path, rest=RULES + key % "**") as rig:
        fill(origin)
        mover = SocketClient(rig, type(TRAINER)("mover", "mover-secret"))
        for _ in range(3):
            assert [entry.status for entry in await read_batch(mover, "bucket", ["open/1", "closed/k"])] == [200, 200]
        (rig.directory / "forebay.toml").write_text(rig.configuration.replace(key % "**", key % "bucket/open/**"))
        await rig.worker.reload()
        assert [entry.status for entry in await read_batch(mover, "bucket", ["open/1", "closed/k"])] == [200, 403]
        mover.close()


async def test_a_write_is_seen_by_the_next_batch(rig: SocketRig) -> None:
    client = SocketClient(rig)
    for _ in range(3):
        assert (await read_batch(client, "bucket", ["open/5000"]))[0].body == content(5000)
    await rig.client().request("PUT", "/bucket/open/5000", (), b"another")
    assert (await read_batch(client, "bucket", ["open/5000"]))[0] == ReadEntry("open/5000", b"another")
    client.close()


async def test_heads_expire_for_batches_too(tmp_path: Path) -> None:
    rules = '[[rules]]\npath = "**"\nfreshness = "60s"\n'
    async with FakeOrigin() as origin, SocketRig(origin, tmp_path, rest=rules) as rig:
        fill(origin)
        client = SocketClient(rig)
        for _ in range(3):
            assert (await read_batch(client, "bucket", ["open/5000"]))[0].body == content(5000)
        origin.store.put("bucket", "open/5000", b"another")
        assert (await read_batch(client, "bucket", ["open/5000"]))[0].body == content(5000)
        rig.advance_clock(61)
        assert (await read_batch(client, "bucket", ["open/5000"]))[0].body == b"another"
        client.close()


async def test_entries_in_doubt_are_validated(origin: FakeOrigin, rig: SocketRig) -> None:
    """Also one that was prepared before: the origin may carry the write out at any time."""
    client = SocketClient(rig)
    for _ in range(3):
        assert (await read_batch(client, "bucket", ["open/5000"]))[0].body == content(5000)
    rig.parts.metadata.invalidator.mark_in_doubt([ObjectName("bucket", "open/5000")])
    origin.store.put("bucket", "open/5000", b"another")
    assert (await read_batch(client, "bucket", ["open/5000"]))[0].body == b"another"
    client.close()


async def test_a_client_that_never_reads_its_batches_is_given_up_on(tmp_path: Path) -> None:
    settings = {"memory": '64MiB"\nring = "0B"\n#"', "rest": RULES + '[limits]\nbody_timeout = "1s"\n'}
    async with FakeOrigin() as origin, SocketRig(origin, tmp_path, **settings) as rig:
        fill(origin)
        client, channel = SocketClient(rig), await HandChannel.open(rig)
        document = batch_body([f"open/small/{number % 40}" for number in range(400)])
        channel.socket.sendall(message(head_of(client, document), (), document))
        await rig.channels_are(1)
        await rig.channels_are(0)
        await run_loop_until(lambda: settled(rig))
        assert rig.parts.storage.budget.in_use == 0
        channel.close()


async def test_a_client_that_leaves_in_the_middle_of_a_batch_leaves_nothing(rig: SocketRig) -> None:
    client = SocketClient(rig)
    document = batch_body([f"open/small/{number}" for number in range(40)])
    for _ in range(5):
        channel = await HandChannel.open(rig)
        channel.socket.sendall(message(head_of(client, document), (), document) * 2)
        channel.close()
    await rig.channels_are(0)
    await run_loop_until(lambda: settled(rig))


@pytest.mark.parametrize("document", [b"x" * (MAX_BODY + 1), b""], ids=["too long", "none"])
async def test_a_body_of_another_length_is_no_batch(rig: SocketRig, document: bytes) -> None:
    client = SocketClient(rig)
    reader, writer = await asyncio.open_unix_connection(rig.socket)
    writer.write(UPGRADE)
    assert await reader.readexactly(len(SWITCHED)) == SWITCHED
    writer.write(message(head_of(client, document), (), document))
    answer = await reader.read(FRAME.size)
    assert answer == (FRAME.pack(5, 0, 0, 0, 0, 0) if not document else b"")
    writer.close()


async def test_half_a_batch_keeps_nothing_waiting(rig: SocketRig) -> None:
    """A body that never comes holds its own channel, and no request is in flight."""
    client = SocketClient(rig)
    document = json.dumps({"keys": ["open/1"] * 5000}).encode()
    assert len(document) < MAX_BODY
    data = message(head_of(client, document), (), document)
    reader, writer = await asyncio.open_unix_connection(rig.socket)
    writer.write(UPGRADE)
    assert await reader.readexactly(len(SWITCHED)) == SWITCHED
    writer.write(data[:-1])
    assert (await read_batch(client, "bucket", ["open/5000"]))[0].body == content(5000)
    assert rig.worker.listener.requests.in_flight == 0
    writer.write(data[-1:])
    first = FRAME.unpack(await reader.readexactly(FRAME.size))
    assert first[0] == 7
    writer.close()
    client.close()


async def test_the_channel_says_what_http_says(rig: SocketRig) -> None:
    """Marks, with their messages."""
    client = SocketClient(rig, READER)
    channel = await HandChannel.open(rig, READER)
    document = batch_body(["closed/k", "open/gone", {"key": "open/1", "start": 5}, {"key": "open/1", "member": "m"}])
    request = RawRequest("POST", TARGET, (), document)
    entries = await asyncio.to_thread(entries_of, channel.channel, head_of(client, document), request)
    tar = entries_in((await rig.client(READER).request("POST", TARGET, (), document)).body)
    assert [entry.status for entry in entries] == [entry.status for entry in tar] == [403, 404, 416, 400]
    assert [entry.text.split(b"\n")[0].decode() for entry in entries] == [entry.code for entry in tar]
    assert all(len(entry.text.split(b"\n")) == 3 and all(entry.text.split(b"\n")) for entry in entries)
    channel.close()
