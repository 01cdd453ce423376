"""A worker that is told to end answers what has arrived: connections that nobody has accepted, requests that nobody has
read, and those that follow a new connection."""

import asyncio
import os
import socket
from pathlib import Path

from forebay.server.http.arrived_requests import MAX_TURNS, QUIET_TURNS, wait_for_reads
from harness.fake_origin import FakeOrigin
from harness.inspection import run_loop_until
from harness.rig import Rig


async def answer_of(sock: socket.socket) -> bytes:
    sock.setblocking(False)
    reader, writer = await asyncio.open_connection(sock=sock)
    try:
        return await reader.read()
    finally:
        writer.close()


def is_answered(answer: bytes) -> bool:
    head, _, body = answer.partition(b"\r\n\r\n")
    return head.startswith(b"HTTP/1.1 200 ") and b"connection: close" in head.lower() and body == b"content"


async def test_what_waits_to_be_accepted_is_answered(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path) as rig:
        origin.store.put("bucket", "key", b"content")
        wire, address = rig.client().sign("GET", "/bucket/key").wire, rig.worker.address
        sockets = [socket.create_connection(address) for _ in range(3)]  # by the kernel: the loop has no turn
        for sock in sockets:
            sock.sendall(wire)
        await rig.stop()
        assert all([is_answered(await answer_of(sock)) for sock in sockets])


async def test_what_waits_to_be_read_is_answered(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path) as rig:
        origin.store.put("bucket", "key", b"content")
        client = rig.client()
        connection = await client.open()
        assert (await client.send(client.sign("GET", "/bucket/key"), connection)).body == b"content"
        kept = connection._writer.get_extra_info("socket")  # noqa: SLF001 # past the loop, as from another process
        os.write(kept.fileno(), client.sign("GET", "/bucket/key").wire)
        await rig.stop()
        answer = await connection.answer()
        assert (answer.status, answer.body) == (200, b"content")
        assert await connection.ended()
        await connection.close()


async def test_a_new_connection_may_still_send_its_request(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path) as rig:
        origin.store.put("bucket", "key", b"content")
        wire, worker = rig.client().sign("GET", "/bucket/key").wire, rig.worker
        sock, idle = (socket.create_connection(worker.address) for _ in range(2))
        await run_loop_until(lambda: worker.listener.connections == 2)
        async with asyncio.TaskGroup() as group:
            group.create_task(rig.stop())
            await run_loop_until(lambda: worker.listener.requests.is_draining)
            sock.sendall(wire)
            assert is_answered(await answer_of(sock))
            assert await answer_of(idle) == b"", "which sends nothing, and delays nobody for long"


async def test_a_socket_that_is_never_read_ends_the_wait() -> None:
    ours, theirs = socket.socketpair()
    turns = 0

    def descriptors() -> list[int]:
        nonlocal turns
        turns += 1
        return [ours.fileno()]

    await wait_for_reads(descriptors)
    assert turns == QUIET_TURNS, "nothing has arrived"
    theirs.send(b"x")
    await wait_for_reads(descriptors)
    assert turns == QUIET_TURNS + MAX_TURNS
    ours.close()
    theirs.close()
