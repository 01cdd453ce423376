"""An object as a file that is written: Client.create. Parts travel while the next is filled.

    write ──> part ── full ──> uploaded, at most AT_ONCE at once ──> close: CompleteMultipartUpload
                └── closed before the first is full: one PUT

Nothing is visible before `close`. A writer that is left by an exception, or that nobody closes, aborts its upload. In a
child after a fork it is of no use, and harms nothing.
"""

import io
import os
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

from forebay_client.object_uploads import SMALLEST_PART, PartUpload, put_content
from forebay_client.objects import ObjectInfo, bytes_of, index_of
from forebay_client.transport.object_request import SendRequest

if TYPE_CHECKING:
    from concurrent.futures import Executor, Future

    from _typeshed import ReadableBuffer

WRITER_PART_SIZE: Final = 16 << 20
AT_ONCE: Final = 4
"""Parts under way."""
_GROWTH: Final = 2000
"""Parts after which their size doubles: 10,000 parts are enough for 5 TiB."""


class WritableObject(io.BufferedIOBase):
    """A binary file, write-only, for one thread at a time. `info`: the object, once it is closed."""

    def __init__(
        self,
        send: SendRequest,
        executor: "Callable[[], Executor]",
        bucket: str,
        key: str,
        part_size: int,
        headers: Mapping[str, str],
    ) -> None:
        self._send, self._executor, self._headers = send, executor, headers
        self.bucket, self.key = bucket, key
        self.info: ObjectInfo | None = None
        self._part_size = max(index_of(part_size, "part_size"), SMALLEST_PART)
        self._part = bytearray()
        self._size = 0
        self._upload: PartUpload | None = None
        self._futures: list[Future[str]] = []
        self._under_way: deque[Future[str]] = deque()
        self._is_open = True
        self._process = os.getpid()

    def writable(self) -> bool:
        """Yes."""
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        """The position, for `tell`. Raises UnsupportedOperation for every other."""
        if (offset, whence) == (0, io.SEEK_CUR) or (offset, whence) == (self._size, io.SEEK_SET):
            return self._size
        raise io.UnsupportedOperation("an object is written from its beginning to its end")

    def write(self, data: "ReadableBuffer", /) -> int:
        """Appends all of `data`. Raises the ClientError of a part that failed."""
        self._check_open()
        view = bytes_of(data)
        start = 0
        while start < len(view):
            count = min(len(view) - start, self._part_size - len(self._part))
            self._part += view[start : start + count]
            start += count
            if len(self._part) == self._part_size:
                self._put_part()
        self._size += len(view)
        return len(view)

    def close(self) -> None:
        """Completes the object. Raises ClientError, and then there is none."""
        if not self._is_open:
            return
        if self._process != os.getpid():
            self.abort()
            raise ValueError("the object is written by the process that this one was forked from")
        self._is_open = False
        try:
            if self._upload is None:
                content = memoryview(self._part)
                self.info = put_content(self._send, self.bucket, self.key, content, len(content), self._headers)
            else:
                if self._part:
                    self._put_part()
                self.info = self._upload.complete(self._futures, self._size)
        finally:
            self._part = bytearray()
            super().close()

    def abort(self) -> None:
        """Drops the written bytes; no object is made."""
        if not self._is_open:
            return
        self._is_open = False
        self._part = bytearray()
        is_own = self._process == os.getpid()  # a child's copy is not to end the parent's upload
        if self._upload is not None and is_own:
            self._upload.abort(self._futures)
        super().close()

    def __enter__(self) -> Self:
        self._check_open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        else:
            self.abort()

    def __del__(self) -> None:
        # Not what IOBase does, which would close it: half a checkpoint must not look like a whole one.
        with suppress(Exception):
            self.abort()

    def _put_part(self) -> None:
        """Sends the buffer as the next part, once there are fewer than AT_ONCE under way."""
        if self._upload is None:
            self._upload = PartUpload(self._send, self.bucket, self.key, self._headers)
        while len(self._under_way) >= AT_ONCE:
            self._under_way.popleft().result()
        content, self._part = memoryview(self._part), bytearray()
        number = len(self._futures) + 1
        future = self._executor().submit(self._upload.put, number, content)
        self._futures.append(future)
        self._under_way.append(future)
        if number % _GROWTH == 0:
            self._part_size *= 2

    def _check_open(self) -> None:
        if not self._is_open:
            raise ValueError("the object is closed")
        if self._process != os.getpid():
            raise ValueError("the object is written by the process that this one was forked from")
