"""Plain reads, answered in front of the benchmarks' S3 server, as it answers them, at a small part of its CPU.

    far connection (benchmarks.origins.link) ──> GET of an object, no condition ──> answered here
                                                  └── anything else ──> the server's own protocol

A far origin takes none of the cores of the machine that is measured, and this one has to stand on them. The
server behind takes 0.5 ms of CPU for a tensor, this 0.3 to 0.35 (beside other work); the kernel's copy is what is left.

Nothing of a body is held: the pieces are views of the content's own memory. Who asks, and whether the signature is
right, nobody here looks at, and neither does the server behind (`FakeOrigin(verify=False)`).
"""

import asyncio
import re
import time
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final

from harness.fake.request_log import RequestLog
from harness.fake.responses import http_date
from harness.fake.store import Store, StoredObject

_PLAIN: Final = re.compile(rb"GET /([^/ ?%]+)/([^ ?%]+) HTTP/1\.1\r\n")
_RANGE: Final = re.compile(rb"\r\nrange: bytes=(\d+)-(\d*)\r\n", re.IGNORECASE)
_NOT_PLAIN: Final = re.compile(rb"\r\n(?:if-|range:|connection: close|expect:)", re.IGNORECASE)


class PlainReads(asyncio.Protocol):
    """One connection, in front of the `server`'s own protocol."""

    def __init__(self, server: Callable[[], asyncio.Protocol], store: Store, log: RequestLog) -> None:
        self._inner = server()
        self._store, self._log = store, log
        self._transport: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._inner.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        if not self._answers(data):
            self._inner.data_received(data)

    def _answers(self, request: bytes) -> bool:
        """Answers a request; False: it is the server's. One that comes in pieces does not begin and end as one."""
        target = _PLAIN.match(request)
        if target is None or request.find(b"\r\n\r\n") != len(request) - 4:
            return False
        asked = _RANGE.search(request)
        if _NOT_PLAIN.search(request if asked is None else request[: asked.start()] + request[asked.end() - 2 :]):
            return False
        bucket, key = target[1].decode(), target[2].decode()
        version = self._store.bucket(bucket).versions.get(key, [None])[-1] if bucket in self._store.buckets else None
        if version is None or version.marker or version.headers or version.checksums or version.tags:
            return False
        size = version.size
        start, stop = (0, size) if asked is None else (int(asked[1]), min(size, int(asked[2] or size) + 1))
        if start >= stop:
            return False
        lines = [_first_lines(version, 200 if asked is None else 206, int(time.time()))]
        if asked is not None:
            lines.append(f"Content-Range: bytes {start}-{stop - 1}/{size}\r\n")
        lines.append(f"Content-Length: {stop - start}\r\n\r\n")
        self._log.counts["GET", "GetObject", key] += 1
        self._log.bytes_sent += stop - start
        self._transport.writelines(["".join(lines).encode(), *version.content.views(start, stop)])
        return True

    def eof_received(self) -> bool | None:
        return self._inner.eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        self._inner.connection_lost(exc)

    def pause_writing(self) -> None:
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        self._inner.resume_writing()


def _first_lines(version: StoredObject, status: int, now: int) -> str:
    reason = "OK" if status == 200 else "Partial Content"
    return (
        f"HTTP/1.1 {status} {reason}\r\nx-amz-id-2: fake\r\nx-amz-request-id: FAKE\r\nServer: FakeS3\r\n"
        f"Date: {_date(now)}\r\nLast-Modified: {_date(int(version.modified))}\r\nETag: {version.etag}\r\n"
        "accept-ranges: bytes\r\ncontent-type: binary/octet-stream\r\n"
    )


@lru_cache(maxsize=64)
def _date(seconds: int) -> str:
    return http_date(seconds)
