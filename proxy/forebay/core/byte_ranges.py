"""Arithmetic on byte ranges and blocks. Spans are half-open: `Span(0, 1)` is the first byte."""

from typing import NamedTuple


class Span(NamedTuple):
    """The bytes from `start` up to, not including, `stop`."""

    start: int
    stop: int

    @property
    def length(self) -> int:
        """Bytes of the span."""
        return self.stop - self.start

    def clip(self, other: "Span") -> "Span":
        """The part of this span that lies in `other`; empty (start == stop) when there is none."""
        start = max(self.start, other.start)
        return Span(start, max(start, min(self.stop, other.stop)))


def block_count(size: int, block_size: int) -> int:
    """The number of blocks of a version of `size` bytes. An empty object has none."""
    return -(-size // block_size)


def block_span(index: int, block_size: int, size: int) -> Span:
    """The bytes of block `index` of a version of `size` bytes. The last block may be short."""
    start = index * block_size
    return Span(start, min(start + block_size, size))


def blocks_touching(span: Span, block_size: int) -> range:
    """The indices of the blocks that `span` overlaps, in order. An empty span overlaps none."""
    if span.start >= span.stop:
        return range(0)
    return range(span.start // block_size, -(-span.stop // block_size))
