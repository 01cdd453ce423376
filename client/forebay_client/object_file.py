"""An object as a file: seekable, read-only, and read ahead where it is read in order.

    read(n) ──> within the window           a slice of it
            ──> right behind it             the next window, which was requested when this one was begun to be read
            ──> elsewhere                   a new window, small at first: a reader that jumps wants little
            ──> more than a window          straight into the caller's buffer

Windows double from FIRST_WINDOW up to `read_ahead` bytes while reads follow each other. Every request names the version
that the first one found (If-Match), so a file never holds bytes of two: if the object is overwritten, reading fails
with ConditionNotMet.
"""

import io
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from forebay_client.client_errors import RangeNotSatisfiable
from forebay_client.objects import ObjectInfo, bytes_to_fill, index_of
from forebay_client.transport.body_checks import content_range
from forebay_client.transport.error_document import corrupt_body
from forebay_client.transport.object_request import ObjectRequest, SendRequest

if TYPE_CHECKING:
    from concurrent.futures import Executor, Future

    from _typeshed import WriteableBuffer

FIRST_WINDOW: Final = 128 << 10
_PEEKED: Final = 4096
"""Bytes: of a line that is longer each look copies so much."""


class ObjectFile(io.BufferedIOBase):
    """An object, opened for reading in binary. For one thread at a time; usable after a fork."""

    _following: "Future[memoryview] | None" = None
    """The window that was requested ahead. Of the class: a file that was not made is closed, too."""

    def __init__(
        self,
        send: SendRequest,
        head: Callable[[], ObjectInfo],
        executor: "Callable[[], Executor]",
        bucket: str,
        key: str,
        read_ahead: int,
    ) -> None:
        """`head`: for an empty object. Raises ObjectNotFound and the other ClientErrors."""
        self._send, self._executor = send, executor
        self.bucket, self.key = bucket, key
        self._read_ahead = max(0, index_of(read_ahead, "read_ahead"))
        self._position = 0
        self._window, self._window_start = memoryview(b""), 0
        self._window_size = min(FIRST_WINDOW, self._read_ahead)
        self._following_start = -1
        self._process = os.getpid()
        self.etag = ""
        """The ETag of the version that is read."""
        self.size = 0
        """Bytes of the object."""
        self._open(head)

    @property
    def name(self) -> str:
        """`s3://bucket/key`, as files have it."""
        return f"s3://{self.bucket}/{self.key}"

    @property
    def mode(self) -> str:
        """Always `rb`."""
        return "rb"

    def readable(self) -> bool:
        """Always."""
        return True

    def seekable(self) -> bool:
        """Always."""
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        """Moves the position, also behind the end, where nothing is read."""
        self._check_open()
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self.size}.get(whence)
        if base is None:
            raise ValueError(f"no such whence: {whence}")
        offset = index_of(offset)
        if base + offset < 0:
            raise ValueError(f"a negative position: {base + offset}")
        self._position = base + offset
        return self._position

    def read(self, size: int | None = -1, /) -> bytes:
        """`size` bytes, fewer only at the end of the object; all that are left if it is negative or None."""
        left = self._left()
        wanted = left if size is None or index_of(size, "size") < 0 else min(size, left)
        if self._window_start <= self._position and self._position + wanted <= self._window_start + len(self._window):
            at = self._position - self._window_start
            self._position += wanted
            return bytes(self._window[at : at + wanted])
        buffer = bytearray(wanted)
        self.readinto(buffer)
        return bytes(buffer)

    def read1(self, size: int = -1, /) -> bytes:
        """At most `size` bytes, those that are here first."""
        self._check_open()
        here = self._window_start + len(self._window) - self._position
        if not (self._window_start <= self._position and here > 0):
            self._fill(1)
            here = self._window_start + len(self._window) - self._position
        return self.read(min(index_of(size, "size"), here) if size >= 0 else max(0, here))

    def peek(self, size: int = 1, /) -> bytes:
        """The buffered bytes from the position on, at least one before the end. `readline` reads as many at once."""
        start, stop = self._position, min(self._position + max(size, _PEEKED), self._position + self._left())
        if start < stop and not self._window_start <= start < self._window_start + len(self._window):
            if self._read_ahead >= _PEEKED:
                self._fill(1)
            else:  # one request, of what lines may need
                self._window, self._window_start = self._range(start, stop), start
        return bytes(self._window[start - self._window_start : stop - self._window_start]) if start < stop else b""

    def readinto(self, buffer: "WriteableBuffer", /) -> int:
        """Fills the buffer, as far as the object goes."""
        view = bytes_to_fill(buffer)
        wanted = min(len(view), self._left())
        done = 0
        while done < wanted:
            at = self._position - self._window_start
            if 0 <= at < len(self._window):
                count = min(len(self._window) - at, wanted - done)
                view[done : done + count] = self._window[at : at + count]
            elif wanted - done >= max(self._read_ahead, 1) and not self._is_following():
                count = len(self._range(self._position, self._position + wanted - done, view[done:wanted]))
            else:
                self._fill(wanted - done)
                continue
            done += count
            self._position += count
        return done

    def readinto1(self, buffer: "WriteableBuffer", /) -> int:
        """Reads as `readinto` does."""
        return self.readinto(buffer)

    def close(self) -> None:
        """Lets go of what was read ahead."""
        following, self._following = self._following, None
        if following is not None and self._process == os.getpid():
            following.cancel()
        self._window = memoryview(b"")
        super().close()

    def _open(self, head: Callable[[], ObjectInfo]) -> None:
        """Reads the first window, which brings size and version along."""
        request = ObjectRequest("GET", self.bucket, self.key, span=(0, max(self._window_size, 1)))
        try:
            response = self._send(request)
        except RangeNotSatisfiable:
            info = head()
            if info.size:
                raise
            self.etag = info.etag
            return
        self.etag = response.etag
        found = content_range(response)
        if response.status == 206:
            if found is None or found.size is None or found.start != 0:
                raise corrupt_body("the response is of another range", self.bucket, self.key, response)
            self.size = found.size
        else:
            self.size = len(response.body)
        self._window = response.body

    def _check_open(self) -> None:
        if self.closed:
            raise ValueError("I/O operation on closed file")

    def _left(self) -> int:
        self._check_open()
        return max(0, self.size - self._position)

    def _is_following(self) -> bool:
        """Whether the bytes at the position are on their way."""
        return self._following is not None and self._position == self._following_start

    def _fill(self, wanted: int) -> None:
        """Replaces the window by one that begins at the position."""
        start = self._position
        if start >= self.size:
            return
        is_sequential = start == self._window_start + len(self._window)
        size = self._window_size * 2 if is_sequential else FIRST_WINDOW
        self._window_size = max(1, min(size, self._read_ahead))
        following, following_start = self._following, self._following_start
        self._following = None
        if following is not None and self._process != os.getpid():
            following = None  # the parent's: nothing completes it here
        if following is not None and start == following_start:
            self._window = following.result()
        else:
            if following is not None:
                following.cancel()
            self._window = self._range(start, start + max(self._window_size, min(wanted, self._read_ahead)))
        self._window_start = start
        behind = start + len(self._window)
        if is_sequential and behind < self.size and self._read_ahead > FIRST_WINDOW:
            self._process, self._following_start = os.getpid(), behind
            self._following = self._executor().submit(self._range, behind, behind + self._window_size)

    def _range(self, start: int, end: int, buffer: memoryview | None = None) -> memoryview:
        end = min(end, self.size)
        headers = {"if-match": self.etag} if self.etag and not self.etag.startswith("W/") else {}
        request = ObjectRequest("GET", self.bucket, self.key, headers=headers, span=(start, end), buffer=buffer)
        response = self._send(request)
        body, found = response.body, content_range(response)
        if response.status != 206:
            body = body[start:end]
        elif found is None or found.start != start:
            raise corrupt_body("the response is of another range", self.bucket, self.key, response)
        if len(body) != end - start:
            raise corrupt_body("the object has another length", self.bucket, self.key, response)
        if buffer is not None and body.obj is not buffer.obj:
            buffer[: len(body)] = body
        return body
