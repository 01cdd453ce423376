"""The ghost list of the memory tier: hashes of blocks that were read from the SSD and not admitted.

A block that is read a second time while its hash is still listed is worth admitting (second-hit admission). A scan of
more blocks than the tier holds therefore displaces nothing. Two blocks with one hash cost a needless admission,
nothing else. The caller bounds the list by the number of blocks that the tier keeps, each of which is counted with the
bytes of one entry (`memory_tier.BLOCK_OVERHEAD`).
"""

from collections import OrderedDict

from forebay.core.names import BlockId


class GhostList:
    """Hashes of recently rejected blocks, the oldest first."""

    def __init__(self) -> None:
        self._hashes: OrderedDict[int, None] = OrderedDict()

    def __len__(self) -> int:
        """Returns the number of entries."""
        return len(self._hashes)

    def add(self, block: BlockId, limit: int) -> None:
        """Records a rejection, and removes the oldest entries beyond `limit`."""
        hashes = self._hashes
        hashes[hash(block)] = None
        while len(hashes) > limit:  # as `trim`, without a call: this is the way of hits on the SSD
            hashes.popitem(last=False)

    def pop(self, block: BlockId) -> bool:
        """Removes the block's entry. Returns whether there was one: it was rejected recently."""
        return self._hashes.pop(hash(block), False) is None

    def trim(self, limit: int) -> None:
        """Removes the oldest entries beyond `limit`."""
        while len(self._hashes) > limit:
            self._hashes.popitem(last=False)
