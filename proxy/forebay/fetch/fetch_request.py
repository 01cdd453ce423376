"""Fetch requests: the run of blocks of one version that the fetcher reads, and the reader that it reads them for."""

from dataclasses import dataclass
from typing import NamedTuple

from forebay.core.byte_ranges import Span, block_span
from forebay.core.heads import Head
from forebay.core.names import BlockId, ObjectName
from forebay.origin.origin_identity import OriginIdentity
from forebay.policy.coalescing import Run


class ObjectView(NamedTuple):
    """One version of an object as one reader sees it: its blocks, and the identity that they are fetched with."""

    name: ObjectName
    head: Head
    rule: str
    """The name of the rule that the reader came under, for the metrics."""
    identity: OriginIdentity | None = None
    """The identity that signs the requests to the origin; None: Forebay's own."""

    def block(self, number: int) -> BlockId:
        """Returns the id of a block."""
        return BlockId(self.name, self.head.generation, number)

    def block_span(self, number: int) -> Span:
        """Returns the bytes of a block, within the object."""
        return block_span(number, self.head.block_size, self.head.size)

    def block_length(self, number: int) -> int:
        """Returns the bytes of a block: the last one may be short."""
        return block_span(number, self.head.block_size, self.head.size).length


@dataclass(frozen=True, slots=True)
class FetchRequest:
    """One run of one version, to be fetched."""

    view: ObjectView
    run: Run
    ignore_tiers: bool = False
    """Whether to fetch blocks that a tier's index still has: the tier was read and gave nothing (a damaged record, an
    eviction)."""

    @property
    def buffer_bytes(self) -> int:
        """Bytes of buffer that its flights need."""
        missing = self.run.missing
        if len(missing) == 1:  # a small object: most misses
            return self.view.block_length(missing[0])
        return sum(self.view.block_length(number) for number in missing)

    def first_block(self) -> "FetchRequest":
        """Returns the same without the blocks behind the first missing one."""
        first = self.run.missing[0]
        blocks, span = range(self.run.blocks.start, first + 1), self.run.span
        run = Run(blocks, (first,), Span(span.start, self.view.block_span(first).stop))
        return FetchRequest(self.view, run, self.ignore_tiers)
