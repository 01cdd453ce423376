"""How fast one client library reads objects one after another: run by benchmarks/clients/client_reads.py.

    python object_readers.py '{"client": "boto3", "endpoint": ..., "prefix": ..., "count": ..., "seconds": ..., ...}'

So many processes, each with a client of its own, read the objects in turns for so many seconds. Before that each reads
every object once, and compares its SHA-256 with the one it was told. Prints one line of JSON: objects, seconds and CPU
seconds of all processes together; or null, if the library is not installed.

`paths` are put before the others: where Forebay's client library is, and libraries that stand beside.
"""

import hashlib
import json
import multiprocessing
import sys
import time
from collections.abc import Callable
from typing import Any

Read = Callable[[str], Any]
"""Reads the object of a key to its end; what it returns can be viewed as bytes."""

KEY, SECRET, REGION = "trainer", "trainer-secret", "us-east-1"


def boto3_reader(asked: dict[str, Any]) -> Read:
    client = boto3_client(asked)
    return lambda key: client.get_object(Bucket=asked["bucket"], Key=key)["Body"].read()


def boto3_client(asked: dict[str, Any]) -> Any:
    import boto3
    from botocore.config import Config

    return boto3.client(
        "s3",
        endpoint_url=asked["endpoint"],
        region_name=REGION,
        aws_access_key_id=KEY,
        aws_secret_access_key=SECRET,
        config=Config(s3={"addressing_style": "path"}, signature_version="s3v4"),
    )


def obstore_reader(asked: dict[str, Any]) -> Read:
    import obstore
    from obstore.store import S3Store

    store = S3Store(
        asked["bucket"],
        endpoint=asked["endpoint"],
        access_key_id=KEY,
        secret_access_key=SECRET,
        region=REGION,
        virtual_hosted_style_request=False,
        client_options={"allow_http": True},
    )
    return lambda key: obstore.get(store, key).bytes()


def s3torchconnector_reader(asked: dict[str, Any]) -> Read:
    import os

    os.environ.update(AWS_ACCESS_KEY_ID=KEY, AWS_SECRET_ACCESS_KEY=SECRET)
    from s3torchconnector import S3ClientConfig
    from s3torchconnector._s3client import S3Client

    client = S3Client(region=REGION, endpoint=asked["endpoint"], s3client_config=S3ClientConfig(force_path_style=True))
    return lambda key: client.get_object(asked["bucket"], key).read()


def aiohttp_reader(asked: dict[str, Any]) -> Read:
    import asyncio

    import aiohttp

    # Signed before, in the URL: aiohttp signs nothing.
    signer = boto3_client(asked)
    keys = keys_of(asked)
    urls = {
        key: signer.generate_presigned_url("get_object", {"Bucket": asked["bucket"], "Key": key}, ExpiresIn=3600)
        for key in keys
    }
    loop = asyncio.new_event_loop()
    made: list[aiohttp.ClientSession] = []

    async def read(key: str) -> bytes:
        if not made:
            made.append(aiohttp.ClientSession())
        async with made[0].get(urls[key]) as response:
            return await response.read()

    return lambda key: loop.run_until_complete(read(key))


def forebay_reader(asked: dict[str, Any]) -> Read:
    from forebay_client import Client

    client = Client(asked["endpoint"], access_key=KEY, secret_key=SECRET, region=REGION, socket="")
    return lambda key: client.get(asked["bucket"], key)


def files_reader(asked: dict[str, Any]) -> Read:
    return socket_reader(asked, "operator", "not-used-here")  # this key may read everything


def socket_reader(asked: dict[str, Any], access_key: str = KEY, secret_key: str = SECRET) -> Read:
    from forebay_client import Client

    client = Client(
        asked["endpoint"],
        access_key=access_key,
        secret_key=secret_key,
        region=REGION,
        socket=asked["socket"],
    )

    def read(key: str) -> memoryview:
        content = client.get(asked["bucket"], key)
        if client.stats.fallbacks:
            raise ValueError(f"fallbacks: {client.stats.fallbacks}")
        return content

    return read


def forebay_into_reader(asked: dict[str, Any]) -> Read:
    from forebay_client import Client

    client = Client(asked["endpoint"], access_key=KEY, secret_key=SECRET, region=REGION, socket="")
    buffer = memoryview(bytearray(asked["size"]))
    return lambda key: buffer[: client.get_into(asked["bucket"], key, buffer)]


READERS: dict[str, Callable[[dict[str, Any]], Read]] = {
    "boto3": boto3_reader,
    "s3torchconnector": s3torchconnector_reader,
    "aiohttp": aiohttp_reader,
    "obstore": obstore_reader,
    "forebay": forebay_reader,
    "forebay, get_into": forebay_into_reader,
    "forebay, socket": socket_reader,
    "forebay, files": files_reader,
}


def keys_of(asked: dict[str, Any]) -> list[str]:
    return [f"{asked['prefix']}/{number:05}" for number in range(asked["count"])]


def work(asked: dict[str, Any], barrier: Any, results: Any) -> None:
    keys = keys_of(asked)
    try:
        read = READERS[asked["client"]](asked)
        for key, digest in zip(keys, asked["digests"], strict=True):
            if hashlib.sha256(read(key)).hexdigest() != digest:
                raise ValueError(f"{key} holds other bytes")
        expected = [bytearray(read(key)) for key in keys]
    except BaseException as error:
        barrier.abort()
        results.put(None if isinstance(error, ImportError) else repr(error))
        return
    barrier.wait()
    seconds, cpu, count = 0.0, 0.0, 0
    while seconds < asked["seconds"]:
        at = count % len(keys)
        began, cpu_began = time.perf_counter(), time.process_time()
        body = read(keys[at])
        cpu += time.process_time() - cpu_began
        seconds += time.perf_counter() - began
        if expected[at] != body:  # byte for byte, beside the clock
            raise ValueError("an object holds other bytes")
        count += 1
    results.put((count, seconds, cpu))


def main(asked: dict[str, Any]) -> dict[str, float] | None:
    sys.path[:0] = asked["paths"]
    context = multiprocessing.get_context("fork")
    barrier, results = context.Barrier(asked["processes"]), context.SimpleQueue()
    children = [context.Process(target=work, args=(asked, barrier, results)) for _ in range(asked["processes"])]
    for child in children:
        child.start()
    found = [results.get() for _ in children]
    for child in children:
        child.join()
    if any(isinstance(each, str) for each in found):
        raise SystemExit(next(each for each in found if isinstance(each, str)))
    if None in found:
        return None
    return {
        "objects": sum(each[0] for each in found),
        "rate": sum(each[0] / each[1] for each in found),
        "cpu": sum(each[2] for each in found),
    }


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))))
