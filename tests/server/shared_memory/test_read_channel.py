"""A channel and clients that break its protocol, or use it as nobody should: they lose their connection, and nothing
else happens."""

import array
import asyncio
import gc
import os
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from forebay.protocol.channel_frames import DECLINED, FRAME, MESSAGE, SWITCHED, UPGRADE, message
from forebay.server.shared_memory.read_channel import ANSWERED_AT_ONCE, COPIED_AT_ONCE, MAX_REQUESTS, ReadChannel
from harness.fake_origin import FakeOrigin
from harness.inspection import run_loop_until
from harness.manual_timers import ManualTimers
from harness.rig import READER, TRAINER
from harness.socket_rig import HandChannel, SocketRig

HEAD = b"GET /b/open/k HTTP/1.1\r\nhost: h\r\n\r\n"


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[SocketRig]:
    async with FakeOrigin() as origin, SocketRig(origin, tmp_path) as made:
        origin.store.put("b", "open/k", b"x" * 200_000)
        origin.store.put("b", "open/small", b"small")
        yield made


async def switched(rig: SocketRig) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_unix_connection(rig.socket)
    writer.write(UPGRADE)
    assert await reader.readexactly(len(SWITCHED)) == SWITCHED
    return reader, writer


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def head_of(channel: HandChannel, key: str = "open/k") -> bytes:
    return channel.signer.head("b", key, None)


@pytest.mark.parametrize(
    "data",
    [
        b"\xff" * 40,
        b"GET / HTTP/1.1\r\nHost: h\r\n\r\n",
        MESSAGE.pack(0, 100, 0) + b"x" * 100,
        message(HEAD + HEAD),
        message(HEAD, [0]),
        message(b"", [1, 2, 3]),
        message(HEAD[:-2]),
        message(b""),
    ],
    ids=["bytes", "http", "no head", "two heads", "no ring", "no slots", "half a head", "nothing"],
)
async def test_garbage_ends_the_channel(rig: SocketRig, data: bytes) -> None:
    reader, writer = await switched(rig)
    writer.write(data)
    assert await reader.read() == b""
    writer.close()
    await rig.channels_are(0)


async def test_a_slot_is_given_back_once(rig: SocketRig) -> None:
    channel = await HandChannel.open(rig, READER)
    _, body = await channel.read("b", "open/k")
    raw = channel.socket
    raw.sendall(message(b"", [0]) + message(b"", [0]))
    assert bytes(await asyncio.to_thread(raw.recv, 1)) == b""
    await rig.channels_are(0)
    assert bytes(body) == b"x" * 200_000
    channel.close()


@pytest.mark.parametrize("step", [1, 3, 50])
async def test_a_message_may_come_in_parts(rig: SocketRig, step: int) -> None:
    channel = await HandChannel.open(rig)
    data = message(head_of(channel, "open/small"))
    for start in range(0, len(data), step):
        channel.socket.sendall(data[start : start + step])
        await asyncio.sleep(0)
    head, body = await channel.receive()
    assert (head.status, bytes(body)) == (200, b"small")
    channel.close()


async def test_what_a_channel_sends_is_demand(rig: SocketRig) -> None:
    channel = await HandChannel.open(rig, READER)
    before = rig.parts.context.body_turns.demand
    head, _ = await channel.read("b", "open/small")
    assert (head.status, rig.parts.context.body_turns.demand - before) == (200, 1)
    channel.close()


async def test_requests_sent_at_once_are_answered_in_order(rig: SocketRig) -> None:
    channel = await HandChannel.open(rig, READER)
    keys = ["open/k", "open/absent", "open/small", "open/k", "open/small"] * 20
    data = b"".join(message(head_of(channel, key)) for key in keys)
    sending = asyncio.create_task(asyncio.to_thread(channel.socket.sendall, data))  # noqa: TID251 # awaited below
    for key in keys:
        head, body = await channel.receive()
        expected = {"open/k": (200, 200_000), "open/small": (200, 5)}.get(key)
        assert head.status == 404 if expected is None else (head.status, len(body)) == expected
    await sending
    channel.close()


async def test_who_sends_much_at_once_leaves_others_their_turn(rig: SocketRig) -> None:
    """Answers of some microseconds each held the loop for as long as a client sent requests."""
    channel = await HandChannel.open(rig)
    [served] = rig.worker.client_memory.channels
    assert isinstance(served, ReadChannel)
    served.data_received(message(b"nonsense\r\n\r\n") * 1000)  # before anything else of the loop
    assert rig.forms() == {"declined": ANSWERED_AT_ONCE}
    assert len(served._waiting) == MAX_REQUESTS - ANSWERED_AT_ONCE  # noqa: SLF001 # what others wait for
    received = served._received  # noqa: SLF001 # likewise
    await run_loop_until(lambda: rig.forms()["declined"] > MAX_REQUESTS)
    assert served._received is received, "not copied for each few that are read"  # noqa: SLF001 # likewise
    frames = await asyncio.to_thread(channel.channel._input.receive, 1000 * FRAME.size)  # noqa: SLF001 # likewise
    assert frames == FRAME.pack(DECLINED, 0, 0, 0, 0, 0) * 1000
    assert bytes((await channel.read("b", "open/small"))[1]) == b"small"
    channel.close()


async def test_what_is_no_plain_read_is_declined(rig: SocketRig) -> None:
    """Nothing but an admitted GET or HEAD of an object is answered: no write, no listing, no forgery."""
    reader, writer = await switched(rig)
    channel = await HandChannel.open(rig, READER)
    heads = [
        HEAD,
        channel.signer.head("b", "closed/k", None),
        channel.signer.head("b", "open/k", None).replace(b"GET", b"DELETE", 1),
        channel.signer.head("b", "open/k", None).replace(b"GET", b"PUT", 1),
        channel.signer.head("b", "open/k", None).replace(b"open/k", b"open/j", 1),
        channel.signer.head("b", "", None),
        b"POST /b?delete HTTP/1.1\r\nhost: h\r\ncontent-length: 5\r\n\r\n",
        b"nonsense\r\n\r\n",
    ]
    for head in heads:
        writer.write(message(head))
        assert (await reader.readexactly(FRAME.size))[0] == 5
    writer.close()
    channel.close()
    assert rig.forms() == {"declined": len(heads)}


async def test_descriptors_from_a_client_are_dropped(rig: SocketRig) -> None:
    channel = await HandChannel.open(rig)
    before = descriptors()
    own = os.memfd_create("hostile")
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [own] * 250))]
    for _ in range(20):
        channel.socket.sendmsg([message(head_of(channel, "open/small"))], rights)
        await channel.receive()
    os.close(own)
    head, _ = await channel.read("b", "open/small")
    assert head.status == 200
    assert descriptors() < before + 50  # of 5,000
    channel.close()


async def test_a_client_that_never_reads_is_given_up_on(tmp_path: Path) -> None:
    settings = {"rest": '[limits]\nbody_timeout = "1s"\n', "server": ""}
    async with FakeOrigin() as origin, SocketRig(origin, tmp_path, **settings) as rig:
        origin.store.put("b", "open/k", b"x" * 16_000)
        channel = await HandChannel.open(rig)
        data = message(head_of(channel)) * 200
        channel.socket.setblocking(False)
        sent = channel.socket.send(data)
        assert sent
        await rig.channels_are(0)
        assert rig.parts.storage.budget.in_use == 0
        channel.close()


@pytest.mark.parametrize("start", [b"", UPGRADE[:9], UPGRADE], ids=["idle", "half", "channels"])
async def test_who_takes_all_connections_keeps_nobody_from_http(tmp_path: Path, start: bytes) -> None:
    async with (
        FakeOrigin() as origin,
        SocketRig(origin, tmp_path, rest="[limits]\nconnections = 20\n") as rig,
    ):
        origin.store.put("b", "open/k", b"x")
        served, memory = await HandChannel.open(rig), rig.worker.client_memory
        held = [await asyncio.open_unix_connection(rig.socket) for _ in range(60)]
        for _, writer in held:
            writer.write(start)
        await run_loop_until(lambda: memory.plain_connections + len(memory.channels) == 5)
        late = rig.library()
        assert bytes(await asyncio.to_thread(late.get, "b", "open/k")) == b"x"
        # Whether it sees an answer or a closed connection is up to the kernel.
        assert list(late.stats.fallbacks.values()) == [1]
        assert set(late.stats.fallbacks) <= {"socket: refused", "socket: unreachable"}
        assert bytes((await served.read("b", "open/k"))[1]) == b"x"
        clients = [rig.library(socket="") for _ in range(10)]
        assert {bytes(await asyncio.to_thread(each.get, "b", "open/k")) for each in clients} == {b"x"}
        for _, writer in held:
            writer.close()
        served.close()
        await run_loop_until(lambda: memory.plain_connections + len(memory.channels) == 0)
        assert bytes((await (await HandChannel.open(rig)).read("b", "open/k"))[1]) == b"x"


async def test_a_client_that_leaves_in_the_middle_leaves_nothing(rig: SocketRig) -> None:
    for _ in range(5):
        channel = await HandChannel.open(rig, TRAINER)
        channel.socket.sendall(message(head_of(channel)) * 3)
        channel.close()
    await rig.channels_are(0)
    await run_loop_until(lambda: rig.worker.listener.requests.in_flight == 0)
    rig.worker.client_memory.check()
    assert rig.parts.storage.rings.in_use == 0


async def test_a_client_that_leaves_while_its_body_is_copied_leaves_nothing(tmp_path: Path) -> None:
    """Its ring could not be unmapped, and stayed in the budget of all rings."""
    async with FakeOrigin() as origin, SocketRig(origin, tmp_path) as rig:
        origin.store.put("b", "open/large", b"x" * (3 * COPIED_AT_ONCE))
        channel = await HandChannel.open(rig, READER)
        await channel.read("b", "open/large")
        [served] = rig.worker.client_memory.channels
        assert isinstance(served, ReadChannel)
        served.data_received(message(head_of(channel, "open/large")))
        channel.close()
        gc.collect()
        assert served.transport is not None
        served.transport.abort()
        await rig.channels_are(0)
        await run_loop_until(lambda: not served._is_reading)  # noqa: SLF001 # the copy
        rig.worker.client_memory.check()
        assert rig.parts.storage.rings.in_use == 0


async def test_no_slot_is_written_before_it_is_given_back(rig: SocketRig) -> None:
    """Every view of a client is what it was, however many it takes and whenever it drops them."""
    channel = await HandChannel.open(rig, READER)
    views = []
    for _ in range(20):
        _, body = await channel.read("b", "open/k")
        views.append(body)
        if len(views) > 4:
            del views[0]
        assert all(view == b"x" * 200_000 for view in views)
    assert rig.parts.storage.rings.in_use <= 2 << 20
    channel.close()


async def test_a_channel_ends_when_nobody_uses_it(tmp_path: Path) -> None:
    timers, limits = ManualTimers(), '[limits]\nidle_timeout = "10s"\n'
    async with FakeOrigin() as origin, SocketRig(origin, tmp_path, timers, rest=limits) as rig:
        origin.store.put("b", "open/k", b"x" * 20_000)
        never_used = await HandChannel.open(rig)
        channel = await HandChannel.open(rig)
        timers.advance(9.0)
        _, body = await channel.read("b", "open/k")
        timers.advance(9.0)
        await rig.channels_are(1)
        for _ in range(5):
            timers.advance(10.0)
        assert not rig.all_channels_end(), "its client holds a slot"
        assert body == b"x" * 20_000
        del body
        await asyncio.to_thread(channel.channel.flush)

        def has_ended() -> bool:
            timers.advance(10.0)
            return not rig.worker.client_memory.channels

        await run_loop_until(has_ended)
        never_used.close()
        channel.close()
