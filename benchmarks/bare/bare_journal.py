"""The bare loop of a journal: `python -m benchmarks.bare.bare_journal DIRECTORY` prints its port, and takes uploads.

Each body is received, hashed by MD5 for its ETag, written to a file of its own and synced, all in one event loop, and
the file is removed after the answer. No signature is looked at, no checksum but that is computed, nothing is kept but
the size of each object, and the answers are just those that S3's and OSS's clients wait for: what a journal in Python
costs at the least, if one core does it. Runs until it is terminated.
"""

import asyncio
import os
import re
import sys
from hashlib import md5
from pathlib import Path
from typing import Final, cast

import uvloop

_PIECE: Final = 1 << 20
_LENGTH: Final = re.compile(rb"\r\ncontent-length: *([0-9]+)\r\n", re.IGNORECASE)
_CREATED: Final = (
    b"<InitiateMultipartUploadResult><Bucket>b</Bucket><Key>k</Key><UploadId>bare</UploadId>"
    b"</InitiateMultipartUploadResult>"
)
_COPIED: Final = b"<CopyObjectResult><ETag>&quot;bare&quot;</ETag></CopyObjectResult>"
_DATE: Final = b"Sun, 22 Nov 2026 00:00:00 GMT"
_COMPLETED: Final = (
    b"<CompleteMultipartUploadResult><Bucket>b</Bucket><Key>k</Key><ETag>&quot;bare-1&quot;</ETag>"
    b"</CompleteMultipartUploadResult>"
)


class BareConnection(asyncio.BufferedProtocol):
    """One connection; one request at a time, whose length is declared."""

    def __init__(self, directory: Path, sizes: dict[bytes, int]) -> None:
        """`sizes`: bytes of each object, by its path: what a writer asks for before it copies."""
        self._path = directory / f"{id(self)}"
        self._sizes = sizes
        self._buffer = bytearray(_PIECE)
        self._view = memoryview(self._buffer)
        self._filled = 0
        self._left: int | None = None
        """Of the body; None: a head is awaited."""
        self._line = b""
        self._length = 0
        self._is_copy = False
        self._md5 = md5(usedforsecurity=False)
        self._file = -1

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._write = cast("asyncio.Transport", transport).write

    def get_buffer(self, hint: int) -> memoryview:
        return self._view[self._filled :]

    def buffer_updated(self, count: int) -> None:
        self._filled += count
        if self._left is None:
            end = self._buffer.find(b"\r\n\r\n", 0, self._filled)
            if end < 0:
                return
            self._begin(bytes(self._buffer[: end + 2]))
            content = bytes(self._view[end + 4 : self._filled])
            self._filled = 0
            self._take(content)
        elif self._filled == len(self._buffer) or self._filled >= self._left:
            content_view, self._filled = self._view[: self._filled], 0
            self._take(content_view)

    def _begin(self, head: bytes) -> None:
        found = _LENGTH.search(head)
        self._line = head.partition(b"\r\n")[0]
        self._left = self._length = int(found[1]) if found is not None else 0
        self._is_copy = b"\r\nx-amz-copy-source:" in head.lower()
        if b"100-continue" in head.lower():
            self._write(b"HTTP/1.1 100 Continue\r\n\r\n")
        if self._line.startswith(b"PUT"):
            self._md5 = md5(usedforsecurity=False)
            self._file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)

    def _take(self, content: bytes | memoryview) -> None:
        assert self._left is not None, "after its head"
        self._left -= len(content)
        if self._file >= 0:
            self._md5.update(content)
            os.write(self._file, content)
        if self._left == 0:
            self._answer()
            self._left = None

    def _answer(self) -> None:
        method, target, _ = self._line.split(b" ", 2)
        path = target.partition(b"?")[0]
        document, head = b"", b""
        match method:
            case b"PUT" if self._is_copy:
                document, self._sizes[path] = _COPIED, 0
            case b"PUT":
                os.fdatasync(self._file)
                self._sizes[path] = self._sizes.get(path, 0) + self._length
                head = b'ETag: "%b"\r\n' % self._md5.hexdigest().encode()
            case b"POST":
                document = _COMPLETED if b"uploadId=" in target else _CREATED
            case b"HEAD" if path in self._sizes:
                described = b'ETag: "bare"\r\nLast-Modified: %b\r\nContent-Length: %d\r\n\r\n'
                self._write(b"HTTP/1.1 200 OK\r\n" + described % (_DATE, self._sizes[path]))
                return
            case b"HEAD":
                self._write(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
                return
            case b"DELETE":
                self._sizes.pop(path, None)
            case _:
                pass
        self._write(b"HTTP/1.1 200 OK\r\n%bContent-Length: %d\r\n\r\n%b" % (head, len(document), document))
        if self._file >= 0:
            os.close(self._file)
            self._path.unlink()
            self._file = -1


async def serve(directory: Path) -> None:
    sizes: dict[bytes, int] = {}
    server = await asyncio.get_running_loop().create_server(lambda: BareConnection(directory, sizes), "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(serve(Path(sys.argv[1])))
