"""How long one worker takes for small objects, one GET each and in batches: run by client_batches.py.

    python batch_readers.py '{"way": "boto3", "endpoint": ..., "prefix": ..., "count": ..., "batch": ..., ...}'

Reads all objects once, and a second time: the first is cold if nobody has read them. Compares the SHA-256 of each with
the one it was told, outside of what is timed. Prints one line of JSON: the seconds of both.
"""

import hashlib
import json
import sys
import time
from typing import Any

from object_readers import (  # type: ignore[import-not-found] # beside this script, which is run by its path
    KEY,
    REGION,
    SECRET,
    boto3_reader,
    keys_of,
)


def main(asked: dict[str, Any]) -> list[float]:
    sys.path[:0] = asked["paths"]
    keys = keys_of(asked)
    client: Any = None
    if asked["way"] != "boto3":
        from forebay_client import Client

        client = Client(asked["endpoint"], access_key=KEY, secret_key=SECRET, region=REGION, socket=asked["socket"])
    read = boto3_reader(asked) if client is None else lambda key: client.get(asked["bucket"], key)
    read(asked["first"])  # the client is ready, and its connection open
    seconds = []
    for _ in range(2):
        began = time.perf_counter()
        if asked["way"] == "get_many":
            contents = []
            for start in range(0, len(keys), asked["batch"]):
                items = client.get_many(asked["bucket"], keys[start : start + asked["batch"]])
                contents += [item.content() for item in items]
        else:
            contents = [read(key) for key in keys]
        seconds.append(time.perf_counter() - began)
        if [hashlib.sha256(each).hexdigest() for each in contents] != asked["digests"]:
            raise SystemExit("other bytes")
        del contents
    if client is not None and client.stats.fallbacks:
        raise SystemExit(f"fallbacks: {client.stats.fallbacks}")
    return seconds


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))))
