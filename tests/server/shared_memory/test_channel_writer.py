"""Descriptors are sent as long as the kernel accepts them, and where it does not the connection is aborted."""

import asyncio
import os
import resource
import select
import socket
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

from forebay.protocol.channel_frames import FRAME, RING, SLOT_UNIT, WITH_DESCRIPTOR
from forebay.server.shared_memory.channel_writer import ChannelWriter
from forebay.server.shared_memory.read_channel import ReadChannel
from harness.fake_origin import FakeOrigin
from harness.inspection import run_loop_until
from harness.manual_timers import ManualTimers
from harness.socket_rig import HandChannel, SocketRig


class Ends(NamedTuple):
    """A writer, and the client's end of its connection."""

    writer: ChannelWriter
    client: socket.socket


@pytest.fixture
async def ends(tmp_path: Path) -> AsyncIterator[Ends]:
    async with FakeOrigin() as origin, SocketRig(origin, tmp_path) as rig:
        channel = await HandChannel.open(rig)
        await rig.channels_are(1)
        (served,) = rig.worker.client_memory.channels
        assert isinstance(served, ReadChannel)
        yield Ends(served._writer, channel.socket)  # noqa: SLF001 # both ends of a real connection
        channel.close()


def send_all(writer: ChannelWriter) -> int:
    """Sends descriptors while the writer says that it can; how many."""
    count = 0
    while writer.can_send:
        writer.send(b"x" * 100, [0])
        count += 1
    return count


async def test_a_full_socket_takes_no_descriptor(ends: Ends) -> None:
    count = send_all(ends.writer)
    assert count
    received = 0
    while received < 100 * count:
        data, descriptors, _, _ = socket.recv_fds(ends.client, 100, 8)
        received += len(data)
        for descriptor in descriptors:
            os.close(descriptor)
    assert send_all(ends.writer) == count, "and takes them again once it was read"


async def test_no_descriptor_overtakes_bytes_that_wait(ends: Ends) -> None:
    """The kernel has room again before the loop has written what waits: nothing awaits in between."""
    writer, transport = ends.writer, ends.writer.transport
    assert transport is not None
    writer.write(bytes(8 << 20))
    waiting = transport.get_write_buffer_size()
    assert waiting
    while ends.client.recv(1 << 20, socket.MSG_PEEK | socket.MSG_DONTWAIT):
        ends.client.recv(1 << 20)
        if select.select([], [transport.get_extra_info("socket").fileno()], [], 0)[1]:
            break
    assert transport.get_write_buffer_size() == waiting
    assert not writer.can_send


async def test_what_does_not_leave_with_a_descriptor_follows(ends: Ends) -> None:
    content = os.urandom(1 << 20)
    ends.writer.send(content, [0])

    def receive() -> bytes:
        received, descriptors, _, _ = socket.recv_fds(ends.client, 1 << 20, 8)
        for descriptor in descriptors:
            os.close(descriptor)
        while len(received) < len(content):
            received += ends.client.recv(1 << 20)
        return received

    assert await asyncio.wait_for(asyncio.to_thread(receive), 30) == content


async def test_a_descriptor_that_is_not_sent_aborts_the_connection(ends: Ends) -> None:
    writer, transport = ends.writer, ends.writer.transport
    assert transport is not None
    served = transport.get_extra_info("socket").fileno()
    with suppress(BlockingIOError):
        while os.write(served, b"x" * 4096):
            pass
    with pytest.raises(ConnectionAbortedError):
        writer.send(b"x" * 100, [0])
    assert transport.is_closing()
    await asyncio.to_thread(lambda: [None for _ in iter(lambda: ends.client.recv(1 << 20), b"")])
    assert not writer.can_send


async def test_a_ring_that_cannot_be_opened_aborts_the_connection(ends: Ends) -> None:
    writer, transport = ends.writer, ends.writer.transport
    slot = writer.allocate(100)
    assert slot is not None
    assert transport is not None
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (1, limits[1]))
    try:
        with pytest.raises(ConnectionAbortedError):
            writer.announce(b"head", slot[1], 100)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert transport.is_closing()


async def test_whatever_waits_stalls_the_channel(ends: Ends) -> None:
    """However little it is: a channel that answered on would queue for a client that reads nothing."""
    writer, transport = ends.writer, ends.writer.transport
    assert transport is not None
    while not transport.get_write_buffer_size():
        assert not writer.is_stalled
        writer.write(b"x" * 1000)
    assert writer.is_stalled


async def test_a_client_that_has_read_all_is_not_given_up(ends: Ends) -> None:
    timers, services = ManualTimers(), ends.writer._services  # noqa: SLF001 # but for its clock
    writer, transport = ChannelWriter(replace(services, timers=timers)), ends.writer.transport
    assert transport is not None
    writer.open(transport)
    writer.write(b"w")
    assert timers.pending == 0, "of a client that reads"
    writer.pause()
    writer.write(b"x")
    writer.write(b"y")
    assert timers.pending == 1, "of all that waits"
    writer.resume()
    assert timers.pending == 0


async def test_what_is_written_for_a_client_that_has_left_is_dropped(ends: Ends) -> None:
    writer = ends.writer
    writer.close()
    writer.write(b"x")
    writer.abort()
    assert not writer.can_send


async def test_pieces_are_written_one_after_the_other(ends: Ends) -> None:
    ends.writer.write(b"head", memoryview(b"body"))
    ends.writer.write(b"end")
    received = b""
    while len(received) < 11:
        received += await asyncio.to_thread(ends.client.recv, 11)
    assert received == b"headbodyend"
    assert ends.writer.was_used


async def test_a_ring_is_made_once_there_are_descriptors_for_it(ends: Ends) -> None:
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (1, limits[1]))
    try:
        assert ends.writer.allocate(100) is None
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert ends.writer.allocate(100) is not None


async def test_no_slot_of_a_ring_is_used_that_cannot_be_passed(ends: Ends) -> None:
    """Its descriptor would overtake what is queued."""
    writer, transport = ends.writer, ends.writer.transport
    assert transport is not None
    while not transport.get_write_buffer_size():
        writer.write(b"x" * 1000)
    assert writer.allocate(100) is None
    assert writer.ring is not None
    writer.ring.is_passed = True
    assert writer.allocate(100) is not None


def receive_frame(client: socket.socket) -> tuple[tuple[int, ...], bytes, int]:
    """The fields of a frame, the head of four bytes behind it, and how many descriptors came with it."""
    data, descriptors, _, _ = socket.recv_fds(client, FRAME.size + 4, 8)
    for descriptor in descriptors:
        os.close(descriptor)
    return FRAME.unpack(data[: FRAME.size]), data[FRAME.size :], len(descriptors)


async def test_a_ring_is_passed_with_its_first_slot_alone(ends: Ends) -> None:
    writer, counts = ends.writer, list[str]()
    slots = [writer.allocate(100) for _ in range(2)]
    memory: Any = SimpleNamespace(count=counts.append, retire=counts.append)
    known, writer.memory = writer.memory, memory
    try:
        for number, slot in enumerate(slots):
            assert slot is not None
            ring, position = slot
            writer.announce(b"head", position, 100)
            flags = 0 if number else WITH_DESCRIPTOR
            frame = (RING, flags, 0, 4, position, 100)
            assert await asyncio.to_thread(receive_frame, ends.client) == (frame, b"head", 1 - number)
            assert ring.is_passed
            writer.release(position // SLOT_UNIT)
            with pytest.raises(ValueError):  # the client does not have it any more
                writer.release(position // SLOT_UNIT)
        writer.count_inline()
        writer.count("memory")
        writer.retire_ring()
        writer.retire_ring()
        assert counts == ["ring", "ring", "inline", "memory", ring]
        assert not ring.memory.file.is_held(), "neither here nor there"
    finally:
        writer.memory = known
        known.retire(ring)


async def test_a_body_larger_than_the_ring_has_no_slot(ends: Ends) -> None:
    assert ends.writer.allocate(1 << 40) is None
    assert ends.writer.allocate(100) is not None


async def test_a_channel_without_a_ring_takes_and_gives_no_slot(ends: Ends) -> None:
    with pytest.raises(ValueError, match="no ring"):
        ends.writer.release(0)
    slot = ends.writer.allocate(100)
    assert slot is not None
    ends.writer.retire_ring()
    with pytest.raises(ConnectionResetError):
        ends.writer.announce(b"head", slot[1], 100)


async def test_nothing_is_announced_to_a_client_that_has_left(ends: Ends) -> None:
    slot = ends.writer.allocate(100)
    assert slot is not None
    ends.writer.close()
    with pytest.raises(ConnectionResetError):
        ends.writer.announce(b"head", slot[1], 100)


@pytest.mark.parametrize("leaves", [False, True])
async def test_all_that_wait_for_the_client_go_on(ends: Ends, *, leaves: bool) -> None:
    """An entry of a batch in its turn may wait for what was written before, as the batch does."""
    writer, size = ends.writer, 4 << 20
    writer.write(bytes(size))
    assert writer.is_stalled

    async def go_on() -> None:
        left = 0 if leaves else size
        while left:
            left -= len(await asyncio.to_thread(ends.client.recv, left))
        if leaves:
            writer.abort()

    async with asyncio.timeout(30):
        *ended, _ = await asyncio.gather(*[writer.drain() for _ in range(3)], go_on(), return_exceptions=True)
    assert [type(each) for each in ended] == [ConnectionResetError if leaves else type(None)] * 3


async def test_a_client_that_takes_something_is_waited_for(ends: Ends) -> None:
    """A drain gives up once the client has taken nothing for so long, and not before."""
    timers, services = ManualTimers(), ends.writer._services  # noqa: SLF001 # but for its clock
    writer, transport = ChannelWriter(replace(services, timers=timers)), ends.writer.transport
    assert transport is not None
    writer.open(transport)
    transport.write(bytes(8 << 20))
    writer.pause()
    stall = services.limits.stall
    async with asyncio.timeout(30):
        draining = asyncio.ensure_future(writer.drain())  # noqa: TID251 # awaited below
        await timers.armed(within=stall)
        left = transport.get_write_buffer_size()
        while transport.get_write_buffer_size() == left:
            await asyncio.to_thread(ends.client.recv, 1 << 20)
        timers.advance(stall)
        await run_loop_until(lambda: draining.done() or timers.pending > 0)
        assert not draining.done(), "it has taken something"
        timers.advance(stall)
        with pytest.raises(ConnectionAbortedError):
            await draining
