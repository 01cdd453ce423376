"""A copy of a hit's body to shared memory, made in steps, so that a large one does not hold up the loop."""

import os
from collections.abc import Sequence

from forebay.core.buffers import Buffer
from forebay.server.fastpath.lane_answer import FileExtent


class BodyCopy:
    """See the module. The bytes come from buffers, or from files whose pages are in memory."""

    __slots__ = ("_at", "_number", "_offset", "_sources", "_target")

    def __init__(self, target: memoryview, sources: Sequence[Buffer] | Sequence[FileExtent]) -> None:
        """`target`: as long as the sources together."""
        self._target, self._sources = target, sources
        self._at = self._number = self._offset = 0

    def advance(self, limit: int) -> bool:
        """Copies `limit` bytes more, or the rest. Returns whether the copy is complete. Raises OSError for a file that
        is shorter than it was."""
        end = min(len(self._target), self._at + limit)
        while self._at < end:
            source = self._sources[self._number]
            length = len(source) if isinstance(source, memoryview) else source[2] - source[1]
            count = min(length - self._offset, end - self._at)
            part = self._target[self._at : self._at + count]
            if isinstance(source, memoryview):
                part[:] = source[self._offset : self._offset + count]
            else:
                _read_into(part, source[0].fd, source[1] + self._offset)
            self._at += count
            self._offset += count
            if self._offset == length:
                self._number, self._offset = self._number + 1, 0
        return self._at == len(self._target)


def read_extent(extent: FileExtent) -> bytearray:
    """Returns the bytes of an extent. Raises OSError for a file that is shorter than it was."""
    file, start, stop, _ = extent
    body = bytearray(stop - start)
    _read_into(memoryview(body), file.fd, start)
    return body


def _read_into(part: memoryview, fd: int, position: int) -> None:
    while part:
        count = os.preadv(fd, [part], position)
        if not count:
            raise OSError("the file is shorter than it was")
        part, position = part[count:], position + count
