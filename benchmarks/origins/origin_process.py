"""The origin of the benchmarks, as a process:
`python -m benchmarks.origins.origin_process BUCKET [LINK ...] -- PREFIX:SIZE:COUNT ...`.

The fake origin of the tests with its signature check off, because nginx doesn't sign, holding COUNT objects of SIZE
computed bytes named PREFIX/00000 and so on. Those of no more than SINGLE bytes have the ETag of a single PUT, the MD5
of their bytes; larger ones that of a multipart upload, as the AWS CLI and boto3 upload them. Prints the port of S3, the
port that tells what the origin has sent (who connects there gets one line of JSON), and for each LINK (ROUND_TRIP or
ROUND_TRIP:BANDWIDTH) a port from which S3 is so far away.
"""

import asyncio
import json
import signal
import sys
from asyncio import StreamReader, StreamWriter
from contextlib import AsyncExitStack
from functools import partial
from typing import Final

import uvloop

from benchmarks.origins.link import FarConnection, Link
from benchmarks.origins.plain_reads import PlainReads
from forebay.core.byte_ranges import Span
from harness.fake.content import Synthetic
from harness.fake.store import StoredObject, md5_etag
from harness.fake_origin import FakeOrigin

SINGLE: Final = 8 << 20


async def serve(bucket: str, links: list[Link], specs: list[str]) -> None:
    ended, loop = asyncio.Event(), asyncio.get_running_loop()
    for ending in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(ending, ended.set)
    async with FakeOrigin(verify=False, keep_log=False) as origin:
        origin.store.create_bucket(bucket)
        for spec in specs:
            prefix, size, count = spec.split(":")
            for number in range(int(count)):
                put(origin, bucket, f"{prefix}/{number:05}", Synthetic(int(size), number))

        async def tell(_: StreamReader, writer: StreamWriter) -> None:
            log = origin.log
            writer.write(json.dumps({"gets": log.count("GET"), "sent": log.bytes_sent}).encode() + b"\n")
            writer.close()

        async with AsyncExitStack() as stack:
            servers = [await stack.enter_async_context(await asyncio.start_server(tell, "127.0.0.1", 0))]
            reads = partial(PlainReads, origin.protocol, origin.store, origin.log)
            for link in links:
                far = await loop.create_server(partial(FarConnection, reads, link), "127.0.0.1", 0)
                servers.append(await stack.enter_async_context(far))
            ports = [origin.port, *(server.sockets[0].getsockname()[1] for server in servers)]
            sys.stdout.write(" ".join(map(str, ports)) + "\n")
            sys.stdout.flush()
            await ended.wait()


def put(origin: FakeOrigin, bucket: str, key: str, content: Synthetic) -> None:
    """An object. Checksums of a multipart upload take another request, as ranges of it have none."""
    is_single, store = content.size <= SINGLE, origin.store
    etag = md5_etag(content.expected(Span(0, content.size))) if is_single else content.etag
    store.add(store.create_bucket(bucket), StoredObject(key, content, etag, store.clock()))


def link_of(text: str) -> Link:
    round_trip, _, bandwidth = text.partition(":")
    return Link(float(round_trip), float(bandwidth) if bandwidth else None)


if __name__ == "__main__":
    bucket, *given = sys.argv[1:]
    cut = given.index("--")
    uvloop.run(serve(bucket, [link_of(text) for text in given[:cut]], given[cut + 1 :]))
