"""What a small object costs one process, in batches and one by one, beside local files: run by client_batches.py.

    python small_readers.py '{"way": "files", "directory": ..., "prefix": ..., "count": ..., "batch": ..., ...}'

The files are made where they are not there yet. Reads all objects in a new order each time, batch by batch, for so many
seconds, and compares the bytes of each with those that it was told the SHA-256 of: within what is timed, as a reader
looks at what it has read. Prints one line of JSON: objects, those read before the clock began included, and seconds and
CPU seconds an object.
"""

import hashlib
import json
import random
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from object_readers import (  # type: ignore[import-not-found] # beside this script, which is run by its path
    KEY,
    REGION,
    SECRET,
    keys_of,
)

ReadBatch = Callable[[list[str]], Iterable[Any]]


def files_reader(asked: dict[str, Any]) -> ReadBatch:
    directory = Path(asked["directory"])
    if not directory.exists():
        (directory / asked["prefix"]).mkdir(parents=True)
        keys = keys_of(asked)
        for key, content in zip(keys, client_reader({**asked, "way": "get"})(keys), strict=True):
            (directory / key).write_bytes(content)

    def read(keys: list[str]) -> Iterable[bytes]:
        for key in keys:
            with open(f"{directory}/{key}", "rb") as file:  # noqa: PTH123 # as loops over files do it
                yield file.read()

    return read


def client_reader(asked: dict[str, Any]) -> ReadBatch:
    from forebay_client import Client

    client = Client(asked["endpoint"], access_key=KEY, secret_key=SECRET, region=REGION, socket=asked["socket"])
    bucket = asked["bucket"]

    def get_many(keys: list[str]) -> Iterable[memoryview]:
        for item in client.get_many(bucket, keys):
            yield item.content()
        if client.stats.fallbacks:
            raise ValueError(f"fallbacks: {client.stats.fallbacks}")

    def get(keys: list[str]) -> Iterable[memoryview]:
        for key in keys:
            yield client.get(bucket, key)

    return get_many if asked["way"] == "get_many" else get


def main(asked: dict[str, Any]) -> dict[str, float]:
    sys.path[:0] = asked["paths"]
    keys = keys_of(asked)
    read = files_reader(asked) if asked["way"] == "files" else client_reader(asked)
    expected: dict[str, bytearray] = {}
    for start in range(0, len(keys), asked["batch"]):
        group = keys[start : start + asked["batch"]]
        expected.update(zip(group, map(bytearray, read(group)), strict=True))
    if [hashlib.sha256(each).hexdigest() for each in expected.values()] != asked["digests"]:
        raise SystemExit("other bytes")
    count, seconds, cpu, draw = 0, 0.0, 0.0, random.Random(1)
    while seconds < asked["seconds"]:
        draw.shuffle(keys)
        began, cpu_began = time.perf_counter(), time.process_time()
        for start in range(0, len(keys), asked["batch"]):
            group = keys[start : start + asked["batch"]]
            for key, content in zip(group, read(group), strict=True):
                if expected[key] != content:  # in this order, which has memory compared
                    raise SystemExit("other bytes")
        cpu += time.process_time() - cpu_began
        seconds += time.perf_counter() - began
        count += len(keys)
    return {"objects": count + len(keys), "seconds": seconds / count, "cpu": cpu / count}


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))))
