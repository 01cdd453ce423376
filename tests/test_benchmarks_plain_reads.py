"""Reads of the benchmarks' far origin: answered as its server answers them, by fewer steps."""

import asyncio
from functools import partial

import pytest
from benchmarks.origins.link import FarConnection, Link
from benchmarks.origins.origin_process import put
from benchmarks.origins.plain_reads import PlainReads

from harness.fake.content import Synthetic
from harness.fake_origin import FakeOrigin

_PLAIN = (
    "GET /bucket/key HTTP/1.1\r\n\r\n",
    "GET /bucket/key HTTP/1.1\r\nRange: bytes=0-4194303\r\n\r\n",
    "GET /bucket/key HTTP/1.1\r\nrange: bytes=5-9\r\nx-amz-checksum-mode: ENABLED\r\n\r\n",
    "GET /bucket/large HTTP/1.1\r\nRange: bytes=1048570-2097160\r\n\r\n",
    "GET /bucket/large HTTP/1.1\r\nRange: bytes=7-\r\n\r\n",
    "GET /bucket/key HTTP/1.1\r\nRange: bytes=9-9\r\n\r\n",
)
_OTHERS = (
    "HEAD /bucket/key HTTP/1.1\r\n\r\n",
    "GET /bucket/none HTTP/1.1\r\n\r\n",
    "GET /none/key HTTP/1.1\r\n\r\n",
    "GET /bucket/key?versionId=null HTTP/1.1\r\n\r\n",
    "GET /bucket/k%65y HTTP/1.1\r\n\r\n",
    "GET /bucket/key HTTP/1.1\r\nIf-None-Match: *\r\n\r\n",
    'GET /bucket/key HTTP/1.1\r\nRange: bytes=0-4\r\nIf-Match: "other"\r\n\r\n',
    "GET /bucket/key HTTP/1.1\r\nRange: bytes=-3\r\n\r\n",
    "GET /bucket/key HTTP/1.1\r\nRange: bytes=9-4\r\n\r\n",
    "GET /bucket/key HTTP/1.1\r\nRange: bytes=100-\r\n\r\n",
    "GET /bucket/empty HTTP/1.1\r\n\r\n",
    "GET /bucket/typed HTTP/1.1\r\n\r\n",
)


async def _answer(port: int, pieces: list[bytes]) -> tuple[list[bytes], bytes]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for piece in pieces:
        writer.write(piece)
        await writer.drain()
    head = await reader.readuntil(b"\r\n\r\n")
    lines = [line for line in head.split(b"\r\n") if not line.startswith(b"Date:")]
    length = next((int(line.split(b":")[1]) for line in lines if line.lower().startswith(b"content-length")), 0)
    body = b"" if pieces[0].startswith(b"HEAD") else await reader.readexactly(length)
    writer.close()
    await writer.wait_closed()
    return sorted(lines), body


@pytest.mark.parametrize("request_text", [*_PLAIN, *_OTHERS])
async def test_a_far_read_is_answered_as_the_server_does(request_text: str) -> None:
    async with FakeOrigin(verify=False) as origin:
        origin.store.create_bucket("bucket")
        put(origin, "bucket", "key", Synthetic(10, 3))
        put(origin, "bucket", "empty", Synthetic(0))
        origin.store.put("bucket", "typed", b"text", content_type="text/plain")
        put(origin, "bucket", "large", Synthetic((2 << 20) + 20, 17))
        reads = partial(PlainReads, origin.protocol, origin.store, origin.log)
        loop = asyncio.get_running_loop()
        far = await loop.create_server(partial(FarConnection, reads, Link(0.0)), "127.0.0.1", 0)
        async with far:
            request = request_text.replace("\r\n\r\n", "\r\nHost: here\r\n\r\n", 1).encode()
            port = far.sockets[0].getsockname()[1]
            expected = await _answer(origin.port, [request])
            counted = origin.log.count("GET"), origin.log.bytes_sent
            assert await _answer(port, [request]) == expected
            assert (origin.log.count("GET"), origin.log.bytes_sent) == (2 * counted[0], 2 * counted[1])
            assert len(origin.log.requests) == (1 if request_text in _PLAIN else 2)  # those of the server itself
            middle = len(request) // 2
            assert await _answer(port, [request[:middle], request[middle:]]) == expected
