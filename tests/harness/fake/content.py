"""The bytes of an object, or a way to have them without storing them.

Stored      one or several buffers, one after the other; reads are views
Synthetic   computed at any offset: MiB number n is one of a few random MiB, rotated by n * 104729 bytes and further by
            the seed, so that no two MiB of the first TiB are alike, no two objects begin alike, and a block that lands
            at the wrong place is seen
"""

import hashlib
from collections.abc import Iterator, Sequence
from functools import lru_cache
from random import Random
from typing import Protocol

from forebay.core.byte_ranges import Span

_TURN = 1 << 20
_STRIDE = 104_729  # odd, so that n * stride mod 2**20 runs through all rotations
_BASES = 16  # all are kept: making one takes 2 ms, for which the first reader of an object would wait
_SEED_STRIDE = 618_033  # odd as well


class Content(Protocol):
    @property
    def size(self) -> int: ...

    def views(self, start: int, stop: int) -> Iterator[memoryview]:
        """The bytes [start, stop) in order, uncopied, for 0 <= start <= stop <= size."""
        ...


class Stored:
    """Bytes kept as they came: one buffer, or the parts of a multipart upload."""

    def __init__(self, *buffers: bytes | memoryview) -> None:
        self._buffers = tuple(memoryview(each).cast("B") for each in buffers)
        self.size = sum(each.nbytes for each in self._buffers)

    def views(self, start: int, stop: int) -> Iterator[memoryview]:
        begin = 0
        for buffer in self._buffers:
            low, high = max(start - begin, 0), min(stop - begin, buffer.nbytes)
            if low < high:
                yield buffer[low:high]
            begin += buffer.nbytes


@lru_cache(maxsize=_BASES)
def _twice(base: int) -> memoryview:
    return memoryview(Random(base).randbytes(_TURN) * 2)


class Synthetic:
    """`size` bytes that follow from `seed`."""

    def __init__(self, size: int, seed: int = 0) -> None:
        self.size, self.seed = size, seed
        self._twice = _twice(seed % _BASES)

    @property
    def etag(self) -> str:
        """Looks like a multipart ETag: nobody may take it for the MD5 of bytes that were never hashed."""
        name = hashlib.md5(f"{self.size}:{self.seed}".encode(), usedforsecurity=False).hexdigest()
        return f'"{name}-{max(1, -(-self.size // _TURN))}"'

    def views(self, start: int, stop: int) -> Iterator[memoryview]:
        while start < stop:
            turn, inside = divmod(start, _TURN)
            end = min(stop, (turn + 1) * _TURN)
            at = (turn * _STRIDE + self.seed // _BASES * _SEED_STRIDE) % _TURN + inside
            yield self._twice[at : at + end - start]
            start = end

    def expected(self, span: Span) -> bytes:
        """What a right reader gets for `span`."""
        return b"".join(self.views(span.start, span.stop))


def joined(contents: Sequence[Content]) -> Stored:
    """The contents one after the other, uncopied."""
    return Stored(*(view for content in contents for view in content.views(0, content.size)))
