"""The fake origin as a process: `python -m harness.fake --synthetic bucket/key:10GiB ...`, from tests/.

Prints its endpoint as the first line, then serves until it is told to end (SIGTERM, SIGINT).
"""

import argparse
import asyncio
import contextlib
import signal
import sys
from random import Random

import uvloop

from harness.fake_origin import DEFAULT_SECRET, FakeOrigin
from harness.reference_sigv4 import Secret

_UNITS = {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}


def _size(text: str) -> int:
    for unit, factor in _UNITS.items():
        if text.endswith(unit):
            return int(text.removesuffix(unit)) * factor
    return int(text)


def _parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m harness.fake", description="An S3 origin for tests and benchmarks."
    )
    parser.add_argument("--port", type=int, default=0, help="default: the system chooses")
    parser.add_argument("--no-verify", action="store_true", help="believe every signature")
    parser.add_argument("--access", default=DEFAULT_SECRET.access)
    parser.add_argument("--secret", default=DEFAULT_SECRET.secret)
    parser.add_argument("--region", default=DEFAULT_SECRET.region)
    parser.add_argument("--bucket", action="append", default=[], help="an empty bucket")
    parser.add_argument("--stored", action="append", default=[], metavar="BUCKET/KEY:SIZE", help="random bytes")
    parser.add_argument(
        "--synthetic", action="append", default=[], metavar="BUCKET/KEY:SIZE[:SEED]", help="computed bytes"
    )
    return parser.parse_args()


def _fill(origin: FakeOrigin, args: argparse.Namespace) -> None:
    for bucket in args.bucket:
        origin.store.create_bucket(bucket)
    for each in args.stored:
        path, _, size = each.rpartition(":")
        bucket, _, key = path.partition("/")
        origin.store.put(bucket, key, Random(key).randbytes(_size(size)))
    for each in args.synthetic:
        path, size, *seed = each.split(":")
        bucket, _, key = path.partition("/")
        origin.store.put_synthetic(bucket, key, _size(size), int(seed[0]) if seed else 0)


async def _serve(args: argparse.Namespace) -> None:
    secret = Secret(args.access, args.secret, args.region)
    ended, loop = asyncio.Event(), asyncio.get_running_loop()
    for each in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(each, ended.set)
    async with FakeOrigin(verify=not args.no_verify, secrets=[secret], keep_log=False, port=args.port) as origin:
        _fill(origin, args)
        sys.stdout.write(f"{origin.endpoint}\n")
        sys.stdout.flush()
        await ended.wait()


def main() -> None:
    with contextlib.suppress(KeyboardInterrupt):
        uvloop.run(_serve(_parsed()))


if __name__ == "__main__":
    main()
