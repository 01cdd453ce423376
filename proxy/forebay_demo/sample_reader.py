"""Reading the sample set as a training job does: an unmodified boto3, several threads, every byte compared."""

import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

from forebay_demo.samples import BUCKET

READERS = 8


class ReadingResult(NamedTuple):
    """One pass over the set."""

    seconds: float
    size: int
    """Bytes read."""
    wrong: tuple[str, ...]
    """Keys whose bytes were not what was written."""


def s3_client(endpoint: str, access_key: str, secret_key: str, region: str) -> Any:
    """boto3 as it comes, but for the endpoint and a pool that fits the threads."""
    import boto3  # noqa: PLC0415 - from the demo extra: its absence is told by EmbeddedSwift, not by an ImportError
    from botocore.config import Config  # noqa: PLC0415 - likewise

    return boto3.client(
        "s3",
        endpoint_url=endpoint,
        aws_access_key_id=access_key,
        aws_secret_access_key=secret_key,
        region_name=region,
        # No proxies: all of this is on loopback, whatever HTTP_PROXY says.
        config=Config(s3={"addressing_style": "path"}, max_pool_connections=READERS, proxies={}),
    )


def read_set(
    client: Any, expected: Mapping[str, bytes], read: Callable[[int], None] = lambda size: None
) -> ReadingResult:
    """Reads every object of `expected` once, in READERS threads. `read(size)` is called in this thread after each."""

    def fetch(key: str) -> tuple[str, int, bool]:
        body = client.get_object(Bucket=BUCKET, Key=key)["Body"]
        with body:
            content = body.read()
        return key, len(content), content == expected[key]

    total, wrong = 0, []
    started = time.perf_counter()
    with ThreadPoolExecutor(READERS, thread_name_prefix="reader") as pool:
        for key, size, right in pool.map(fetch, expected):
            total += size
            read(size)
            if not right:
                wrong.append(key)
    return ReadingResult(time.perf_counter() - started, total, tuple(wrong))
