"""Exhaustion: what a few clients can do to the others. Memory and work stay bounded, and the others are answered.

No time is measured. Memory is: by the budget that hands out buffers, by tracemalloc for what parsers make, and by the
resident size of the process for connections, each against a generous bound. Work is counted in what was read before
the refusal.
"""

import asyncio
import contextlib
import gc
import os
import resource
import socket
import sys
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from forebay.core.errors import S3Error
from forebay.protocol.body.aws_chunked_decoder import AwsChunkedDecoder
from forebay.protocol.body.chunk_signatures import ChunkedMode
from forebay.protocol.xml.s3_documents import MAX_BODY, listed_keys
from harness.aws_chunked import Framing
from harness.clients import RawClient, RawRequest, chunked
from harness.inspection import run_loop_until
from harness.manual_timers import ManualTimers
from harness.raw_connection import head_bytes
from harness.reference_sigv4 import UNSIGNED_CHUNKS_TRAILER
from harness.rig import Rig
from harness.uploaded_parts import uploaded_parts
from security.scale import IDLE_CONNECTIONS
from security.served_others import CONTENT, serving

MIB: Final = 1 << 20
EACH_CONNECTION: Final = 32 << 10
"""Bytes that an idle connection may cost: the kernel's buffers are not counted."""


async def _others_are_answered(rig: Rig) -> None:
    for method, key in (
        ("GET", "others"),
        ("HEAD", "others"),
        ("PUT", "written"),
        ("GET", "written"),
        ("DELETE", "written"),
    ):
        answer = await rig.client().request(method, f"/bucket/{key}", body=CONTENT if method == "PUT" else b"")
        assert answer.status in {200, 204}, (method, answer)


def _resident() -> int:
    with Path("/proc/self/statm").open() as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@contextmanager
def at_most(size: int) -> Iterator[None]:
    """That no more than `size` bytes of Python's memory are in use at once within."""
    gc.collect()
    tracemalloc.start()
    try:
        yield
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak <= size, f"{peak} bytes"


async def test_idle_connections_cost_little_and_stand_in_nobodys_way(tmp_path: Path) -> None:
    count = IDLE_CONNECTIONS
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    async with serving(tmp_path, f"[limits]\nconnections = {count + 100}\n") as (rig, _):
        allowed = rig.worker.listener.server.services.limits.connections
        assert allowed == count + 100, f"{allowed} at most: raise the hard limit of open files (ulimit -Hn)"
        await _others_are_answered(rig)
        gc.collect()
        before = _resident()
        holder = await asyncio.create_subprocess_exec(
            *(
                sys.executable,
                str(Path(__file__).with_name("idle_connections.py")),
                str(rig.worker.address[1]),
                str(count),
            ),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        assert holder.stdout is not None
        assert (await holder.stdout.readline()).decode() == f"held {count}\n"
        await run_loop_until(lambda: rig.worker.listener.connections >= count)
        grown = _resident() - before
        assert grown <= count * EACH_CONNECTION + 16 * MIB, f"{grown // count} bytes a connection"
        await _others_are_answered(rig)
        await holder.communicate(b"")
        assert holder.returncode == 0


async def test_many_may_come_at_once(tmp_path: Path) -> None:
    """While the loop does something else, connections wait in the kernel, and none is turned away."""
    async with serving(tmp_path) as (rig, _):
        # Blocking, on purpose: nobody accepts meanwhile.
        waiting = [socket.create_connection(rig.worker.address, timeout=60) for _ in range(400)]
        for each in waiting:
            each.close()
        await _others_are_answered(rig)


async def test_connections_beyond_the_limit_are_refused(tmp_path: Path) -> None:
    async with serving(tmp_path, "[limits]\nconnections = 20\n") as (rig, _):
        held = [await rig.client().open() for _ in range(19)]
        try:
            await _others_are_answered(rig)
            held.append(await rig.client().open())
            async with await rig.client().open() as late:
                answer = await late.answer()
                assert (answer.status, b"SlowDown" in answer.body) == (503, True)
                assert await late.ended()
        finally:
            for each in held:
                await each.close()
        await run_loop_until(lambda: not rig.worker.listener.connections)
        await _others_are_answered(rig)


@pytest.mark.parametrize(
    "start", [b"", b"G", b"GET / HT", b"GET /bucket/others HTTP/1.1\r\nHost: h\r\nX-A: ", b"\r\n\r\n\r\n"]
)
async def test_slow_heads_are_ended(tmp_path: Path, start: bytes) -> None:
    # A head that was not begun is for the idle timer to end, one that was for its own.
    idle = "60s" if start else "1s"
    limits = f'[limits]\nheader_timeout = "300ms"\nidle_timeout = "{idle}"\n'
    timers = ManualTimers()
    async with serving(tmp_path, limits, timers) as (rig, _):
        slow = [await rig.client().open() for _ in range(50)]
        for each in slow:
            await each.send(start)
        await _others_are_answered(rig)
        try:
            # However much more comes meanwhile, a byte at a time.
            for each in slow[:5]:
                await each.send(b"a")
            await _arrived()
            async with asyncio.timeout(20):
                await timers.armed(0.3 if start else 1.0, len(slow[5:]))
                timers.advance(0.3 if start else 1.0)
                for each in slow:
                    answer = await each.answer()
                    assert answer.aborted or answer.status in {400, 405, 408}
        finally:
            for each in slow:
                each.reset()
        await _others_are_answered(rig)


async def _arrived() -> None:
    """Let the loop read what was sent to it."""
    for _ in range(3):
        await asyncio.sleep(0)


async def test_a_head_that_drips_is_ended_all_the_same(tmp_path: Path) -> None:
    """The time of a head runs from its first byte: each further byte buys nothing."""
    limits, timers = '[limits]\nheader_timeout = "300ms"\nidle_timeout = "60s"\n', ManualTimers()
    async with serving(tmp_path, limits, timers) as (rig, _):
        async with await rig.client().open() as slow, asyncio.timeout(20):
            await slow.send(b"GET /bucket/others HTTP/1.1\r\nHost: h\r\nX-A: ")
            await timers.armed(0.3)
            for _ in range(30):
                await slow.send(b"a")
                await _arrived()
                timers.advance(0.01)
            assert await slow.ended()
        await _others_are_answered(rig)


async def test_slow_bodies_are_ended_and_store_nothing(tmp_path: Path) -> None:
    timers = ManualTimers()
    async with serving(tmp_path, '[limits]\nbody_timeout = "1s"\n', timers, buffers="8MiB") as (rig, origin):
        client = rig.client()
        slow = []
        for number in range(40):
            request = client.sign("PUT", f"/bucket/slow-{number}", body=bytes(MIB))
            connection = await client.open()
            await connection.send(head_bytes(request.method, request.target, request.pairs) + bytes(100 * number))
            slow.append(connection)
        await _others_are_answered(rig)
        assert rig.parts.storage.budget.in_use <= rig.parts.storage.budget.capacity
        try:
            with timers.flowing(0.1):
                for each in slow:
                    answer = await each.answer()
                    assert answer.aborted or answer.status >= 400
        finally:
            for each in slow:
                each.reset()
        assert [key for key in origin.store.bucket("bucket").keys_from("") if key.startswith("slow")] == []
        await _others_are_answered(rig)


@pytest.mark.parametrize("key", ["large", "hit"])
async def test_slow_readers_use_little_memory(tmp_path: Path, key: str) -> None:
    limits = '[limits]\nbody_timeout = "2s"\n'
    async with serving(tmp_path, limits, buffers="8MiB", memory="64MiB") as (rig, origin):
        origin.store.put_synthetic("bucket", "large", 64 * MIB)
        origin.store.put_synthetic("bucket", "hit", 3 * MIB)
        client = rig.client()
        for _ in range(2):
            await client.request("GET", "/bucket/hit")
        gc.collect()
        before = _resident()
        slow = []
        for _ in range(40):
            connection = await client.open(receive_buffer=4096)
            await connection.send(client.sign("GET", f"/bucket/{key}").wire)
            slow.append(connection)
        try:
            for each in slow[:10]:
                assert (await each.read_head()).status in {200, 503}
            assert rig.parts.storage.budget.in_use <= rig.parts.storage.budget.capacity
            answer = await client.request("GET", "/bucket/others")
            assert answer.status in {200, 503}
            grown = _resident() - before
            assert grown <= 8 * MIB + 64 * MIB + 40 * 2 * MIB, f"{grown} bytes"
        finally:
            for each in slow:
                each.reset()
        await rig.wait_idle()
        await _others_are_answered(rig)


def _deep(depth: int) -> bytes:
    return b"<Delete>" + b"<a>" * depth + b"</a>" * depth + b"</Delete>"


BOMBS: Final = {
    "entities": b'<!DOCTYPE d [<!ENTITY a "aaaaaaaaaa">'
    + b"".join(b'<!ENTITY %c "%b">' % (number, b"&%c;" % (number - 1) * 10) for number in range(ord("b"), ord("j")))
    + b"]><Delete><Object><Key>&i;</Key></Object></Delete>",
    "one large entity": b'<!DOCTYPE d [<!ENTITY a "'
    + b"a" * 100_000
    + b'">]><Delete>'
    + b"&a;" * 10_000
    + b"</Delete>",
    "external entity": b'<!DOCTYPE d [<!ENTITY a SYSTEM "file:///etc/passwd">]><Delete><Object><Key>&a;</Key></Object></Delete>',
    "external document": b'<!DOCTYPE d SYSTEM "http://127.0.0.1:1/x"><Delete/>',
    "parameter entity": b'<!DOCTYPE d [<!ENTITY % a SYSTEM "file:///etc/passwd"> %a;]><Delete/>',
    "deep": _deep(100_000),
    "wide": b"<Delete>" + b"<a/>" * 200_000 + b"</Delete>",
    "many objects": b"<Delete>" + b"<Object><Key>k</Key></Object>" * 30_000 + b"</Delete>",
    "attributes": b"<Delete " + b" ".join(b'a%d="b"' % number for number in range(50_000)) + b"/>",
    "one attribute": b'<Delete a="' + b"a" * 1_500_000 + b'"/>',
    "a long name": b"<" + b"a" * 1_500_000 + b"/>",
    "namespaces": b"<Delete " + b" ".join(b'xmlns:a%d="b"' % number for number in range(20_000)) + b"/>",
    "long text": b"<Delete><Object><Key>" + b"a" * 1_500_000 + b"</Key></Object></Delete>",
    "comment": b"<Delete><!--" + b"-a" * 500_000 + b"--></Delete>",
    "never ended": b"<Delete><Object><Key>" * 60_000,
    "blanks": b"<Delete>" + b" " * 1_900_000,
    "too large": b"<Delete>" + b" " * (5 * MIB) + b"</Delete>",
    "another encoding": "<Delete/>".encode("utf-16"),
}


@pytest.mark.parametrize("bomb", BOMBS)
def test_no_document_grows(bomb: str) -> None:
    """A document costs no more than some times its own size, and a refusal."""
    body = BOMBS[bomb]
    for read in (listed_keys, uploaded_parts):
        # An attribute of ten bytes is two strings and a place in a dictionary.
        with at_most(32 * min(len(body), MAX_BODY) + 2 * MIB):
            reading: Callable[[bytes], object] = read
            with pytest.raises(S3Error) as refusal:
                reading(body)
            assert refusal.value.status == 400


async def test_no_document_is_answered(tmp_path: Path) -> None:
    async with serving(tmp_path) as (rig, origin):
        client = rig.client()
        origin.log.reset()
        for body in BOMBS.values():
            for target in ("/bucket?delete", "/bucket/key?uploadId=u"):
                answer = await client.request("POST", target, body=body)
                # Of an upload's completion the origin is the judge: its document is passed on as it came.
                assert 400 <= answer.status < 500 or answer.aborted, body[:60]
                assert b"root:" not in answer.body
        assert [seen for seen in origin.log.requests if seen.method == "POST" and seen.key is None] == []
        await _others_are_answered(rig)


@pytest.mark.parametrize("mode", ChunkedMode)
@pytest.mark.parametrize("size", [1, 7])
def test_a_million_tiny_chunks_are_not_read(mode: ChunkedMode, size: int) -> None:
    """Refused while their framing is still small beside what it frames, whatever length was announced."""
    length = 1_000_000 * size
    signed = b";chunk-signature=" + b"0" * 64 if mode.is_signed else b""
    chunk = b"%x%b\r\n%b\r\n" % (size, signed, b"a" * size)
    trailer = "x-amz-checksum-crc32" if mode.has_trailer else None
    decoder, read = AwsChunkedDecoder(mode, length, trailer, None), 0

    def feed() -> None:
        nonlocal read
        for _ in range(1_000_000):
            decoder.feed(chunk)
            read += 1

    with at_most(4 * MIB), pytest.raises(S3Error):
        feed()
    assert read <= 64 + length // 1024
    whole = AwsChunkedDecoder(mode, length, trailer, None)
    with at_most(4 * MIB), pytest.raises(S3Error):
        whole.feed(chunk * 20_000)


async def test_tiny_chunks_over_a_socket(tmp_path: Path) -> None:
    async with serving(tmp_path) as (rig, origin):
        client: RawClient = rig.client()
        for kind in (UNSIGNED_CHUNKS_TRAILER,):
            framing = Framing(kind, size=1)
            request = client.sign("PUT", "/bucket/tiny", body=bytes(30_000), framing=framing)
            answer = await client.send(request)
            assert answer.status in {400, 403} or answer.aborted
            chunked = [pair for pair in request.pairs if pair[0] != "Content-Length"]
            # Chunked transfer around it, a byte at a time: what is read before the refusal is the story's to bound.
            body = b"".join(b"1\r\n%b\r\n" % request.body[at : at + 1] for at in range(100_000)) + b"0\r\n\r\n"
            answer = await client.send(
                RawRequest("PUT", "/bucket/tiny", (*chunked, ("Transfer-Encoding", "chunked")), body)
            )
            assert answer.status in {400, 403} or answer.aborted
        assert origin.store.current("bucket", "tiny") is None
        await _others_are_answered(rig)


@pytest.mark.parametrize("excess", ["an extension", "extensions", "a trailer"])
async def test_chunk_framing_without_end_is_refused(tmp_path: Path, excess: str) -> None:
    """Extensions and trailers of chunked transfer coding are bounded by the content that they frame."""
    start, piece = {
        "an extension": (b"1;", b"a" * (64 << 10)),
        "extensions": (b"", b"1;%b\r\na\r\n" % (b"a" * 1000) * 64),
        "a trailer": (b"0\r\n", b"x-trailer: %b\r\n" % (b"a" * 1000) * 64),
    }[excess]
    async with serving(tmp_path) as (rig, origin), await rig.client().open() as connection:
        request = rig.client().sign("PUT", "/bucket/framed", payload="UNSIGNED-PAYLOAD")
        pairs = [pair for pair in request.pairs if pair[0] != "Content-Length"]
        await connection.send(head_bytes("PUT", request.target, [*pairs, ("Transfer-Encoding", "chunked")]))
        await connection.send(start)
        sent = 0
        async with asyncio.TaskGroup() as group:
            answering = group.create_task(connection.answer("PUT"))
            with contextlib.suppress(ConnectionError):
                while not answering.done() and sent < 64 * MIB:
                    await connection.send(piece)
                    sent += len(piece)
                    await asyncio.sleep(0)
            assert sent < 64 * MIB
        answer = answering.result()
        assert answer.status == 400 or answer.aborted, answer
        assert origin.store.current("bucket", "framed") is None
        await _others_are_answered(rig)


async def test_content_in_tiny_chunks_is_stored_whole(tmp_path: Path) -> None:
    async with serving(tmp_path) as (rig, origin):
        content = bytes(range(256)) * 400
        request = chunked(rig.client().sign("PUT", "/bucket/tiny", body=content), size=1)
        assert (await rig.client().send(request)).status == 200
        assert (await rig.client().request("GET", "/bucket/tiny")).body == content
        assert origin.log.count("PUT", key="tiny") == 1
        await _others_are_answered(rig)


async def test_many_headers_and_parameters_cost_their_own_size(tmp_path: Path) -> None:
    """What a head may hold, it may hold in the smallest pieces."""
    async with serving(tmp_path) as (rig, _):
        client = rig.client()
        query = "&".join(f"a{number}" for number in range(2000))
        answer = await client.request("GET", f"/bucket/others?{query}")
        assert answer.status < 500
        answer = await client.unsigned("GET", "/bucket/others", [(f"x-{number}", "") for number in range(1000)])
        assert answer.status in {400, 403}
        answer = await client.unsigned(
            "GET", "/bucket/others", [("Authorization", "AWS4-HMAC-SHA256 " + "a=b," * 3000)]
        )
        assert answer.status == 400
        await _others_are_answered(rig)
