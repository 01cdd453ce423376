"""The bare loop of a journal: `python -m benchmarks.bare_journal DIRECTORY` prints its port, and takes uploads.

Each body is received, hashed by MD5 for its ETag, written to a file of its own and synced, all in one event loop, and
the file is removed after the answer. No signature is looked at, no checksum but that is computed, nothing is kept, and
the answers are just those that S3's and OSS's clients wait for: what a journal in Python costs at the least, if one
core does it. Runs until it is terminated.
"""

import asyncio
import os
import re
import sys
from hashlib import md5
from pathlib import Path
from typing import Final

import uvloop

_PIECE: Final = 1 << 20
_LENGTH: Final = re.compile(rb"\r\ncontent-length: *([0-9]+)\r\n", re.IGNORECASE)
_CREATED: Final = (
    b"<InitiateMultipartUploadResult><Bucket>b</Bucket><Key>k</Key><UploadId>bare</UploadId>"
    b"</InitiateMultipartUploadResult>"
)
_COMPLETED: Final = (
    b"<CompleteMultipartUploadResult><Bucket>b</Bucket><Key>k</Key><ETag>&quot;bare-1&quot;</ETag>"
    b"</CompleteMultipartUploadResult>"
)


class BareConnection(asyncio.BufferedProtocol):
    """One connection; one request at a time, whose length is declared."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / f"{id(self)}"
        self._buffer = bytearray(_PIECE)
        self._view = memoryview(self._buffer)
        self._filled = 0
        self._left: int | None = None
        """Of the body; None: a head is awaited."""
        self._line = b""
        self._md5 = md5(usedforsecurity=False)
        self._file = -1

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._write = transport.write  # type: ignore[attr-defined] # of a TCP server it can be written to

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
        self._left = int(found[1]) if found is not None else 0
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
        document, etag = b"", b""
        if method == b"HEAD":  # nothing is kept, so nothing is there: what a DCP writer asks before it saves
            self._write(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
            return
        if method == b"PUT":
            os.fdatasync(self._file)
            etag = b'ETag: "%b"\r\n' % self._md5.hexdigest().encode()
        elif method == b"POST":
            document = _COMPLETED if b"uploadId=" in target else _CREATED
        self._write(b"HTTP/1.1 200 OK\r\n%bContent-Length: %d\r\n\r\n%b" % (etag, len(document), document))
        if self._file >= 0:
            os.close(self._file)
            self._path.unlink()
            self._file = -1


async def serve(directory: Path) -> None:
    server = await asyncio.get_running_loop().create_server(lambda: BareConnection(directory), "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(serve(Path(sys.argv[1])))
