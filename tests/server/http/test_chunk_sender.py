"""Answers to batches that are written past aiohttp: whole, in order and unchanged under every disturbance."""

import asyncio
import random
import socket
import ssl
from collections.abc import Callable, Coroutine, Sequence
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from forebay.core.names import ObjectName
from forebay.server.http.chunk_sender import LOCAL_BUFFER, ChunkSender
from forebay.server.http.parsed_requests import is_local
from harness.batches import batch_body, entries_in
from harness.both_loops import BOTH_LOOPS, run_on
from harness.certificates import TestAuthority, install, tls_settings
from harness.clients import RawClient, RawRequest, path_of
from harness.fake_origin import FakeOrigin
from harness.inspection import run_loop_until
from harness.manual_timers import ManualTimers
from harness.raw_connection import RawConnection
from harness.rig import TRAINER, Rig

MIB = 1 << 20
SIZES = {"small": 5_000, "middle": 70_001, "block": 602_112, "large": 3 * MIB + 12_345, "other": 2 * MIB}
"""Copied, and referred to where they lie; the last two, of several blocks, are sent from files."""
BLOCKS = 4 + 2
LISTED: list[Any] = [
    *("small", "large", "gone", "block", "middle", "other", "small", "large"),
    *({"key": "large", "start": 5, "end": 2 * MIB}, {"key": "block", "start": 9}, {"key": "large", "start": 3 * MIB}),
]
RULE = '[[rules]]\npath = "**"\nfreshness = "immutable"\n'
IMPATIENT = f'{RULE}[limits]\nbody_timeout = "1s"\nidle_timeout = "60s"\n'


@cache
def content(key: str) -> bytes:
    return random.Random(key).randbytes(SIZES[key])


def expected() -> list[bytes]:
    cut = [each if isinstance(each, dict) else {"key": each} for each in LISTED]
    return [
        content(each["key"])[each.get("start", 0) : each.get("end")] if each["key"] in SIZES else b"" for each in cut
    ]


def batch(rig: Rig, keys: Sequence[object] = LISTED) -> RawRequest:
    return rig.client().sign("POST", "/b/.forebay/batch", (), batch_body(keys))


async def bodies(connection: RawConnection) -> list[bytes]:
    answer = await connection.answer("POST")
    assert (answer.status, answer.aborted) == (200, False)
    return [entry.body for entry in entries_in(answer.body)]


async def in_files(rig: Rig, origin: FakeOrigin) -> None:
    """Fills the cache, and reads until what has several blocks lies in files."""
    for key in SIZES:
        origin.store.put("b", key, content(key))
    async with asyncio.timeout(30), await rig.client().open() as connection:
        while len(rig.parts.storage.tiers.memory.arenas) < BLOCKS:
            await connection.send(batch(rig).wire)
            assert await bodies(connection) == expected()


async def is_idle(rig: Rig) -> None:
    await run_loop_until(lambda: rig.parts.storage.budget.in_use == 0 and rig.worker.listener.requests.in_flight == 0)


async def entries_are_the_same_however_they_are_sent(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, rest=RULE) as rig:
        await in_files(rig, origin)
        gets = origin.log.count("GET")
        for receive_buffer in (None, 4096):
            async with await rig.client().open(receive_buffer=receive_buffer) as connection:
                for _ in range(2):
                    await connection.send(batch(rig).wire)
                    assert await bodies(connection) == expected()
        assert origin.log.count("GET") == gets + 4, "of the one that is gone"
        await is_idle(rig)


async def what_is_fetched_meanwhile_comes_behind_what_is_sent(tmp_path: Path) -> None:
    """An entry in its turn may have more to write before what comes before it has left."""
    blocks = '[[rules]]\npath = "b/blocks"\nfreshness = "immutable"\nblock = "64KiB"\n'
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, rest=blocks + RULE) as rig:
        await in_files(rig, origin)
        origin.store.put("b", "blocks", several := random.Random("blocks").randbytes(200_000))
        for receive_buffer in (None, 4096):
            cold = {f"{receive_buffer}/{number}": random.Random(number).randbytes(MIB) for number in range(8)}
            for key, body in cold.items():
                origin.store.put("b", key, body)
            async with await rig.client().open(receive_buffer=receive_buffer) as connection:
                while len(rig.parts.storage.tiers.memory.arenas) < BLOCKS + 4:
                    await connection.send(batch(rig, ["blocks"]).wire)
                    assert await bodies(connection) == [several]
                await connection.send(batch(rig, ["large", *[key for each in cold for key in ("blocks", each)]]).wire)
                found = await bodies(connection)
                assert found == [content("large"), *[body for each in cold.values() for body in (several, each)]]


async def what_is_asked_behind_a_batch_is_answered_behind_it(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, rest=RULE) as rig:
        await in_files(rig, origin)
        large, small = (rig.client().sign("GET", path_of("b", key)).wire for key in ("large", "small"))
        async with await rig.client().open(receive_buffer=4096) as connection:
            await connection.send(batch(rig).wire)
            await connection.send(small + large)  # while the batch is on its way
            await connection.send(batch(rig).wire + small)
            assert await bodies(connection) == expected()
            assert [(await connection.answer()).body for _ in range(2)] == [content("small"), content("large")]
            assert await bodies(connection) == expected()
            assert (await connection.answer()).body == content("small")


async def a_slow_client_gets_what_was_read_whatever_becomes_of_it(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, rest=RULE) as rig:
        await in_files(rig, origin)
        slow = await rig.client().open(receive_buffer=4096)
        await slow.send(batch(rig, ["large", "block", "large"]).wire)
        await run_loop_until(lambda: rig.worker.listener.requests.in_flight == 1)
        head = await slow.read_head("POST")
        for key, size in SIZES.items():
            await rig.parts.storage.tiers.forget(ObjectName("b", key))
            origin.store.put("b", key, bytes(size))
        body, is_aborted = await slow.read_rest()
        assert (head.status, is_aborted) == (200, False)
        first, *_ = [entry.body for entry in entries_in(body)]
        assert first == content("large")
        await slow.close()
        await is_idle(rig)


async def a_client_that_leaves(tmp_path: Path, leave: str = "reset") -> None:
    async with (
        FakeOrigin() as origin,
        Rig(origin.endpoint, origin.secret, tmp_path, timers := ManualTimers(), rest=IMPATIENT) as rig,
        asyncio.timeout(30),
    ):
        await in_files(rig, origin)
        for listed in (["large"] * 20, ["block"] * 100, ["small"] * 5_000):
            connection = await rig.client().open(receive_buffer=4096)
            await connection.send(batch(rig, listed).wire)
            assert (await connection.read_head("POST")).status == 200
            if leave == "reset":
                connection.reset()
            began = timers.time()
            with timers.flowing(0.0 if leave == "reset" else 0.1):
                await is_idle(rig)
            if leave != "reset":
                assert timers.time() >= began + 1.0
                assert (await connection.read_rest())[1], "is seen to be no whole batch"
                await connection.close()


async def a_client_that_stalls(tmp_path: Path) -> None:
    await a_client_that_leaves(tmp_path, "takes nothing")


async def draining_waits_for_a_batch_that_is_on_its_way(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, rest=RULE) as rig:
        await in_files(rig, origin)
        async with (
            asyncio.timeout(30),
            await rig.client().open(receive_buffer=64 << 10) as connection,
            asyncio.TaskGroup() as group,
        ):
            await connection.send(batch(rig).wire)
            await run_loop_until(lambda: rig.worker.listener.requests.in_flight == 1)
            group.create_task(rig.stop())
            assert await bodies(connection) == expected()
            assert await connection.ended()
        await rig.start()


async def a_client_of_http_1_0_gets_no_chunks(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, rest=RULE) as rig:
        await in_files(rig, origin)
        async with await rig.client().open() as connection:
            await connection.send(batch(rig).wire.replace(b" HTTP/1.1\r\n", b" HTTP/1.0\r\n", 1))
            answer = await connection.answer("POST")
        assert "Transfer-Encoding" not in answer.headers
        assert [entry.body for entry in entries_in(answer.body)] == expected()


class _Transport:
    """Of a connection on which nothing waits. It is its request's writer as well."""

    def __init__(self, own: socket.socket) -> None:
        self.own = own
        self.sent = b""

    def get_extra_info(self, name: str) -> socket.socket:
        assert name == "socket"
        return self.own

    def set_write_buffer_limits(self, high: int) -> None:
        assert high == 0

    def send_headers(self) -> None:
        assert not self.sent

    def is_closing(self) -> bool:
        return False

    def writelines(self, pieces: Sequence[bytes]) -> None:
        self.sent += b"".join(pieces)


@pytest.mark.parametrize(("peer", "is_kept"), [("127.0.0.1", True), ("::1", True), ("unix", True), ("10.0.0.1", False)])
async def test_the_kernel_buffers_little_for_a_local_client(peer: str, is_kept: bool) -> None:
    with socket.socket() as own:
        before = own.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF)
        transport = _Transport(own)
        connection: Any = SimpleNamespace(transport=transport, writing_paused=False, secure=False)
        request: Any = SimpleNamespace(writer=transport)
        await ChunkSender(request, connection, is_local=is_local(peer)).write([b"abc"], 3)
        assert transport.sent == b"3\r\nabc\r\n"
        size = own.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF)
        assert before < size <= 2 * LOCAL_BUFFER if is_kept else size == before, "as much as the system lets it have"


def records_of(address: tuple[str, int], trusted: ssl.SSLContext, wire: bytes) -> list[bytes]:
    """What each record of TLS holds of the answer to a batch, behind its head."""
    with socket.create_connection(address) as plain, trusted.wrap_socket(plain, server_hostname="localhost") as secure:
        secure.sendall(wire)
        records = [secure.recv(1 << 16)]  # one record at most
        while not records[-1].endswith(b"0\r\n\r\n"):
            records.append(secure.recv(1 << 16))
    assert b"".join(records).count(b"\r\n\r\n") >= 2
    return records


async def an_entry_over_tls_is_sent_from_where_it_is(tmp_path: Path) -> None:
    """A record of its own for what is in front of it: the two were not joined, which takes a copy."""
    authority = TestAuthority(tmp_path)
    install(tmp_path, authority.issue("server"))
    server = tls_settings(tmp_path)
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, rest=RULE, server=server) as rig:
        origin.store.put("b", "block", content("block"))
        trusted = ssl.create_default_context(cafile=str(authority.file))
        address = rig.worker.tls_address[:2]
        wire = RawClient(f"https://127.0.0.1:{address[1]}", TRAINER, tls=trusted).sign(
            "POST", "/b/.forebay/batch", (), batch_body(["block"])
        )
        for _ in range(2):  # the first fetches it
            records = await asyncio.to_thread(records_of, address, trusted, wire.wire)
        at = records.index(b"%x\r\n" % (512 + SIZES["block"]))
        assert len(records[at + 1]) == 512
        assert b"".join(records[at + 2 :]).startswith(content("block"))


SCENARIOS = (
    an_entry_over_tls_is_sent_from_where_it_is,
    entries_are_the_same_however_they_are_sent,
    what_is_fetched_meanwhile_comes_behind_what_is_sent,
    what_is_asked_behind_a_batch_is_answered_behind_it,
    a_slow_client_gets_what_was_read_whatever_becomes_of_it,
    a_client_that_leaves,
    a_client_that_stalls,
    draining_waits_for_a_batch_that_is_on_its_way,
    a_client_of_http_1_0_gets_no_chunks,
)


@BOTH_LOOPS
@pytest.mark.parametrize("scenario", SCENARIOS, ids=[scenario.__name__ for scenario in SCENARIOS])
def test_chunks(
    scenario: Callable[[Path], Coroutine[Any, Any, None]],
    loop: Callable[[], asyncio.AbstractEventLoop],
    tmp_path: Path,
) -> None:
    run_on(loop, scenario(tmp_path))
