"""Files of the fsspec file system: an object read in blocks, or written in parts.

rb        blocks through fsspec's caches, each read under If-Match: a file never holds bytes of two versions
wb, xb    one PUT for what fits one block, else a multipart upload, completed when the file is closed; one whose
          writer fails, that is discarded, or that is never closed, leaves nothing
ab        the same, after the bytes that the object has: copied at the server as the first parts, or, of an object that
          is smaller than a part may be, read. A larger one that is overwritten meanwhile is not appended to: ESTALE
"""

import errno
import io
import os
from concurrent.futures import Future
from typing import Any

from fsspec.spec import AbstractBufferedFile

from forebay_client.client_errors import BodyCorrupt
from forebay_client.filesystem_errors import os_errors
from forebay_client.filesystem_writes import FileSystemWrites
from forebay_client.object_copies import LARGEST_COPY, part_source
from forebay_client.object_downloads import range_of
from forebay_client.object_uploads import SMALLEST_PART, PartUpload, put_content, upload_headers
from forebay_client.transport.object_request import ObjectRequest


class ForebayFile(AbstractBufferedFile):
    """An object, opened by ObjectFileSystem.open."""

    DEFAULT_BLOCK_SIZE = 16 << 20
    """Bytes of a part, and those that are read ahead."""

    fs: FileSystemWrites
    buffer: io.BytesIO
    closed: bool

    def __init__(self, fs: FileSystemWrites, path: str, mode: str = "rb", **options: Any) -> None:
        """`options`: of AbstractBufferedFile. Raises FileNotFoundError, PermissionError, IsADirectoryError."""
        self._bucket, self._key = fs.split(path)
        self._upload: PartUpload | None = None
        self._parts: list[Future[str]] = []
        self._size = 0
        """Bytes of the parts."""
        self._is_complete = False
        self._headers: dict[str, str] = {}
        super().__init__(fs, path, mode, **options)
        if not self._key or (mode == "rb" and self.details["type"] == "directory"):
            self.closed = True
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        if mode == "ab":
            self._append()

    def _append(self) -> None:
        """Begins with what the object has. One that does not exist is made."""
        if not self.fs.exists(self.path):
            return
        with os_errors(self.path):
            found, client = self.fs.client.head(self._bucket, self._key), self.fs.client
            self._headers = upload_headers(found.content_type, found.metadata)
            if found.size < SMALLEST_PART:
                self.buffer.write(client.get(self._bucket, self._key))
                self.loc = found.size
                return
            self._upload = PartUpload(client.send_request, self._bucket, self._key, self._headers)
            number = -(-found.size // LARGEST_COPY)
            length = -(-found.size // number)
            for position in range(number):
                stop = min(found.size, (position + 1) * length)
                source = part_source((self._bucket, self._key), position * length, stop, found.etag)
                part: Future[str] = Future()
                part.set_result(self._upload.copy(position + 1, source))
                self._parts.append(part)
            self._size = self.loc = found.size
            self.offset = found.size

    def _fetch_range(self, start: int, end: int) -> bytes:
        """The bytes, of the version that was found when the file was opened."""
        end = min(end, self.size)
        if start >= end:
            return b""
        headers = {"if-match": etag} if (etag := self.details.get("ETag")) else {}
        with os_errors(self.path):
            request = ObjectRequest("GET", self._bucket, self._key, headers=headers, span=(start, end))
            body = range_of(self.fs.client.send_request(request), self._bucket, self._key, start, end)
            if len(body) != end - start:
                raise BodyCorrupt("the object has another length", bucket=self._bucket, key=self._key)
        return bytes(body)

    def _initiate_upload(self) -> None:
        """Does nothing: a multipart upload begins when a block is full."""

    def _upload_chunk(self, final: bool = False) -> bool:
        """Sends the buffer as a part; a file of one block is sent when it is closed."""
        content = self.buffer.getvalue()
        is_single = final and self._upload is None
        if not is_single:
            with os_errors(self.path):
                if self._upload is None:
                    self._upload = PartUpload(self.fs.client.send_request, self._bucket, self._key, {})
                if content:
                    part: Future[str] = Future()
                    part.set_result(self._upload.put(len(self._parts) + 1, content))
                    self._parts.append(part)
                    self._size += len(content)
        if final and self.autocommit:
            self.commit()
        return not is_single  # False: the buffer is kept for `commit`

    def commit(self) -> None:
        """Makes the object: at the end of a transaction, or when the file is closed."""
        if self._is_complete:
            return
        with os_errors(self.path):
            if self._upload is not None:
                self._upload.complete(self._parts, self._size)
            else:
                content = self.buffer.getvalue()
                headers = {"if-none-match": "*"} if self.mode == "xb" else self._headers
                put_content(self.fs.client.send_request, self._bucket, self._key, content, len(content), headers)
        self._is_complete = True

    def discard(self) -> None:
        """Drops the written bytes: no object is made of them."""
        if self._upload is not None and not self._is_complete:
            self._upload.abort(self._parts)
            self._is_complete = True

    def close(self) -> None:
        """Completes the object. Raises OSError where it can't be written: then there is none."""
        try:
            super().close()
        except BaseException:
            if "b" in self.mode and self.mode != "rb":
                self.discard()
            raise

    def __del__(self) -> None:
        # Not what AbstractBufferedFile does, which would close it: half a checkpoint must not look like a whole one.
        if not getattr(self, "closed", True) and self.mode != "rb":
            self.discard()
            self.closed = True

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if kind is not None and self.mode != "rb" and not self.closed:
            # A half-written object is none.
            self.discard()
            self.closed = True
            return
        self.close()
