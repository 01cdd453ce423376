"""One pool of the SSD tier, as one process knows it: its threshold, its bytes, and the time of the last read in it."""

from forebay.policy.pools import Pool
from forebay.storage.ssd.segments.segment_label import PoolRow


class SsdPool:
    """One pool. Its bytes are as of the last measurement."""

    def __init__(self, pool: Pool, number: bytes, last_read: float) -> None:
        self.pool = pool
        self.id = number
        self.band = 0
        """The threshold: the marginal band, the first that is admitted."""
        self.used = 0
        self.last_read = last_read
        self.refusals = 0
        """Blocks that were refused since one below the threshold was admitted, or the threshold rose."""
        self.is_recorded = False
        """Whether its row in the index is up to date."""

    @property
    def is_epoch(self) -> bool:
        """Whether it keeps a stable share."""
        return self.pool.eviction == "epoch"

    @property
    def admits_all(self) -> bool:
        """Whether every block that is read is admitted."""
        return not self.is_epoch

    @property
    def row(self) -> PoolRow:
        """The pool's row in the index."""
        return PoolRow(self.pool.name, self.is_epoch, self.band)
