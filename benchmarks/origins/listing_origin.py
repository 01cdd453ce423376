"""An origin of a million keys that are computed, not stored, far away, as a process:
`python -m benchmarks.origins.listing_origin KEYS ROUND_TRIP`.

Answers ListObjectsV2 (prefix, start-after, continuation-token, max-keys, encoding-type) and reads of one byte, of
objects that were written long ago, and signs nothing. A page costs it a tenth of a millisecond: what is measured is
who lists. Prints its port, and a port that tells how many listings and reads it was sent.
"""

import asyncio
import hashlib
import json
import signal
import sys
from asyncio import StreamReader, StreamWriter
from collections import Counter
from functools import lru_cache, partial
from urllib.parse import parse_qs, unquote, urlsplit

import uvloop
from aiohttp import web

from benchmarks.origins.link import FarConnection, Link

BUCKET = "bench"
MODIFIED, HTTP_MODIFIED = "2026-01-02T03:04:05.000Z", "Fri, 02 Jan 2026 03:04:05 GMT"
_HEAD = '<?xml version="1.0" encoding="UTF-8"?>\n<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'


def key_of(number: int) -> str:
    return f"train/{number:08d}.jpg"


def etag_of(key: str) -> str:
    return hashlib.md5(key.encode(), usedforsecurity=False).hexdigest()


@lru_cache(maxsize=256)
def _entries(first: int, stop: int) -> str:
    return "".join(
        f"<Contents><Key>{key}</Key><LastModified>{MODIFIED}</LastModified><ETag>&quot;{etag_of(key)}&quot;</ETag>"
        f"<Size>1</Size><Owner><ID>bench</ID></Owner><StorageClass>STANDARD</StorageClass></Contents>"
        for key in map(key_of, range(first, stop))
    )


def _first_behind(key: str, keys: int) -> int:
    """The number of the first key behind `key`."""
    low, high = 0, keys
    while low < high:
        middle = (low + high) // 2
        low, high = (middle + 1, high) if key_of(middle) <= key else (low, middle)
    return low


def page(query: dict[str, str], keys: int) -> str:
    prefix = query.get("prefix", "")
    after = query.get("continuation-token", query.get("start-after", ""))
    first = max(_first_behind(after, keys), 0 if not prefix else _first_behind(prefix, keys))
    if prefix and first and key_of(first - 1).startswith(prefix) and not after:
        first -= 1  # the prefix is a key
    limit = min(int(query.get("max-keys", "1000")), 1000)
    stop = min(first + limit, keys)
    while stop > first and not key_of(stop - 1).startswith(prefix):
        stop -= 1
    truncated = stop < keys and key_of(stop).startswith(prefix)
    token = f"<NextContinuationToken>{key_of(stop - 1)}</NextContinuationToken>" if truncated else ""
    encoding = "<EncodingType>url</EncodingType>" if "encoding-type" in query else ""
    return (
        f"{_HEAD}<Name>{BUCKET}</Name><Prefix>{prefix}</Prefix><MaxKeys>{limit}</MaxKeys>{encoding}"
        f"<IsTruncated>{str(truncated).lower()}</IsTruncated>{token}<KeyCount>{stop - first}</KeyCount>"
        f"{_entries(first, stop)}</ListBucketResult>"
    )


async def serve(keys: int, link: Link) -> None:
    ended, loop, counts = asyncio.Event(), asyncio.get_running_loop(), Counter[str]()
    for ending in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(ending, ended.set)

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        split = urlsplit(request.raw_path)
        key = unquote(split.path).partition("/")[2].partition("/")[2]
        if not key:
            counts["listings"] += 1
            query = {name: values[0] for name, values in parse_qs(split.query, keep_blank_values=True).items()}
            return web.Response(text=page(query, keys), content_type="application/xml")
        counts["reads"] += 1
        headers = {"ETag": f'"{etag_of(key)}"', "Last-Modified": HTTP_MODIFIED, "Accept-Ranges": "bytes"}
        if request.headers.get("If-None-Match") == headers["ETag"]:
            return web.Response(status=304, headers=headers)
        if "Range" in request.headers:
            return web.Response(status=206, body=b"x", headers=headers | {"Content-Range": "bytes 0-0/1"})
        return web.Response(body=b"x", headers=headers)

    async def tell(_: StreamReader, writer: StreamWriter) -> None:
        writer.write(json.dumps(counts).encode() + b"\n")
        writer.close()

    protocol = web.Server(answer, access_log=None)
    far = await loop.create_server(partial(FarConnection, protocol, link), "127.0.0.1", 0)
    told = await asyncio.start_server(tell, "127.0.0.1", 0)
    sys.stdout.write(f"{far.sockets[0].getsockname()[1]} {told.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    await ended.wait()


if __name__ == "__main__":
    uvloop.run(serve(int(sys.argv[1]), Link(float(sys.argv[2]))))
