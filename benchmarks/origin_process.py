"""The origin of the benchmarks, as a process: `python -m benchmarks.origin_process BUCKET PREFIX:SIZE:COUNT ...`.

The fake origin of the tests with its signature check off, because nginx doesn't sign, holding COUNT objects of SIZE
computed bytes named PREFIX/00000 and so on. Prints the port of S3, and the port that tells what the origin has sent:
who connects there gets one line of JSON.
"""

import asyncio
import json
import signal
import sys
from asyncio import StreamReader, StreamWriter

import uvloop

from harness.fake_origin import FakeOrigin


async def serve(bucket: str, specs: list[str]) -> None:
    ended, loop = asyncio.Event(), asyncio.get_running_loop()
    for ending in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(ending, ended.set)
    async with FakeOrigin(verify=False, keep_log=False) as origin:
        origin.store.create_bucket(bucket)
        for spec in specs:
            prefix, size, count = spec.split(":")
            for number in range(int(count)):
                origin.store.put_synthetic(bucket, f"{prefix}/{number:05}", int(size), number)

        async def tell(_: StreamReader, writer: StreamWriter) -> None:
            log = origin.log
            writer.write(json.dumps({"gets": log.count("GET"), "sent": log.bytes_sent}).encode() + b"\n")
            writer.close()

        async with await asyncio.start_server(tell, "127.0.0.1", 0) as counts:
            sys.stdout.write(f"{origin.port} {counts.sockets[0].getsockname()[1]}\n")
            sys.stdout.flush()
            await ended.wait()


if __name__ == "__main__":
    bucket, *specs = sys.argv[1:]
    uvloop.run(serve(bucket, specs))
