"""The block source: the tiers and the fetcher that bodies read from, and the bounds of their fetches."""

from dataclasses import dataclass

from forebay.core.events import Observe
from forebay.core.names import BlockId
from forebay.fetch.fetcher import Fetcher
from forebay.fetch.paused_readers import PausedReaders
from forebay.policy.coalescing import BlockState, FetchBounds
from forebay.storage.tiers import Tiers


@dataclass(frozen=True, slots=True)
class BlockSource:
    """The sources of bodies, and the bounds of their fetches."""

    tiers: Tiers
    fetcher: Fetcher
    bounds: FetchBounds
    buffer_timeout: float
    """Seconds that a reader waits for memory; then it gets SlowDown."""
    observe: Observe
    paused: PausedReaders
    started_timeout: float = 60.0
    """The timeout of a reader whose response has begun: it can't be answered 503, only broken off."""

    def first_bytes(self) -> int:
        """Returns how many bytes to request together with the head of an object."""
        share, run = self.paused.share(), self.bounds.edge.max_run
        return run if share is None else min(run, share)

    def locate(self, block: BlockId) -> BlockState:
        """Returns where a block is."""
        if self.tiers.memory.has(block):
            return BlockState.MEMORY
        if self.fetcher.registry.find(block) is not None:
            return BlockState.IN_FLIGHT
        return BlockState.SSD if self.tiers.has_on_disk(block) else BlockState.MISSING
