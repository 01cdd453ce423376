"""Clients that keep a Forebay busy with useless work: `python -m benchmarks.cache.noisy_clients KIND PORT`.

They run until they are terminated, and print a line once all of them are active. What they send is valid as far as it
goes: they are slow, many or expensive.
"""

import asyncio
import itertools
import os
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Final

from harness.aws_chunked import Framing
from harness.clients import RawClient, RawRequest, path_of
from harness.raw_connection import RawConnection, head_bytes
from harness.reference_sigv4 import Secret

OPERATOR: Final = Secret("operator", "not-used-here")
"""May do everything: see benchmarks/servers/forebay.toml."""
_DRIP: Final = 0.1
_NESTED: Final = b"<a>" * 100_000


async def idle(client: RawClient) -> None:
    """2,000 connections that ask nothing."""
    await _many(client, 2000, lambda connection: connection.ended())


async def slow_heads(client: RawClient) -> None:
    """200 heads, a byte every tenth of a second, begun again when they were refused."""
    head = client.sign("GET", path_of("bench", "none")).wire
    await _many(client, 200, lambda connection: _drip(connection, head))


async def slow_bodies(client: RawClient) -> None:
    """100 uploads, a byte every tenth of a second."""
    head = _announcing(client.sign("PUT", path_of("slow", "body"), payload="UNSIGNED-PAYLOAD"), 1_000_000)
    await _many(client, 100, lambda connection: _drip(connection, bytes(1000), head))


async def two_lengths(client: RawClient) -> None:
    """100 uploads of two lengths, which are refused as malformed, and begun again after a tenth of a second."""
    put = client.sign("PUT", path_of("slow", "body"), [("Content-Length", "1000000")], payload="UNSIGNED-PAYLOAD").wire
    await _many(client, 100, lambda connection: _drip(connection, bytes(1000), put))


async def slow_readers(client: RawClient) -> None:
    """50 readers of 8 MiB that take nothing."""
    get = client.sign("GET", path_of("bench", "large/00000")).wire
    await _many(client, 50, lambda connection: _ask_and_wait(connection, get))


async def tiny_chunks(client: RawClient) -> None:
    """4 uploads at a time in chunks of one byte, which are refused after some."""
    framing = Framing("STREAMING-UNSIGNED-PAYLOAD-TRAILER", size=1)
    put = client.sign("PUT", path_of("slow", "chunks"), (), bytes(20_000), framing=framing)
    await _again_and_again(4, lambda: client.send(put))


async def chunk_flood(client: RawClient) -> None:
    """4 uploads at a time that announce a GiB, so that they may come in many chunks, and come in chunks of one byte."""
    headers = [
        ("Content-Encoding", "aws-chunked"),
        ("x-amz-decoded-content-length", str(1 << 30)),
        ("x-amz-trailer", "x-amz-checksum-crc32"),
    ]
    put = client.sign("PUT", path_of("slow", "flood"), headers, payload="STREAMING-UNSIGNED-PAYLOAD-TRAILER")
    head = _announcing(put, 6 << 30)
    await _many(client, 4, lambda connection: _pour(connection, b"1\r\na\r\n" * 10_000, head))


async def deep_xml(client: RawClient) -> None:
    """4 batch deletes at a time, of 100,000 elements within each other."""
    await _again_and_again(4, lambda: client.request("POST", "/slow?delete", (), _NESTED))


KINDS: Final[dict[str, Callable[[RawClient], Awaitable[None]]]] = {
    kind.__name__.replace("_", " "): kind
    for kind in (idle, slow_heads, slow_bodies, slow_readers, two_lengths, tiny_chunks, chunk_flood, deep_xml)
}


async def _many(client: RawClient, count: int, act: Callable[[RawConnection], Awaitable[object]]) -> None:
    """`count` connections at a time, each of which does its act and is then replaced."""

    async def one() -> None:
        while True:
            connection = await client.open(receive_buffer=4096)
            try:
                await act(connection)
            except ConnectionError:
                continue
            finally:
                await connection.close()

    await _run([one() for _ in range(count)])


async def _again_and_again(count: int, act: Callable[[], Awaitable[object]]) -> None:
    async def one() -> None:
        while True:
            await act()

    await _run([one() for _ in range(count)])


async def _run(acts: list[Awaitable[None]]) -> None:
    working = asyncio.gather(*acts)
    await asyncio.sleep(1)  # until they have all begun: nobody tells when the last connection is open
    print("at it", flush=True)
    await working


async def _drip(connection: RawConnection, slowly: bytes, first: bytes = b"") -> None:
    await connection.send(first)
    for byte in itertools.cycle(slowly):
        await connection.send(bytes([byte]))
        await asyncio.sleep(_DRIP)


async def _pour(connection: RawConnection, body: bytes, first: bytes) -> None:
    await connection.send(first)
    while True:
        await connection.send(body)


def _announcing(request: RawRequest, length: int) -> bytes:
    """The head of a request, with another length than its body has."""
    pairs = [(name, str(length) if name == "Content-Length" else value) for name, value in request.pairs]
    return head_bytes(request.method, request.target, pairs)


async def _ask_and_wait(connection: RawConnection, request: bytes) -> None:
    await connection.send(request)
    await asyncio.sleep(3600)


def main(kind: str, port: int) -> None:
    os.nice(10)  # the client that is measured shares our core: what it feels is to be Forebay, not us
    asyncio.run(_start(kind, port))


async def _start(kind: str, port: int) -> None:
    await KINDS[kind](RawClient(f"http://127.0.0.1:{port}", OPERATOR, clock=time.time))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
