"""Peer hints: what a worker of the node tells the owner of an object about its head.

    head_seen       other -> owner     the origin gave this head to a principal with its own credential

A hint is kept in memory as a head that was never validated, as it may have missed fences. It turns the opening of the
next reader into a revalidation (forebay.metadata.resolver), as the blocks may be cached already.
"""

from forebay.core.heads import NEVER_VALIDATED, Head
from forebay.core.names import ObjectName
from forebay.storage.tiers import Tiers


class PeerHints:
    """Takes in the hints of other workers."""

    def __init__(self, tiers: Tiers) -> None:
        self._tiers = tiers

    def head_seen(self, name: ObjectName, head: Head) -> None:
        """Keeps a head as never validated, where none is known."""
        if not (head.by_id or head.facts.is_doubtfully_empty) and self._tiers.head(name) is None:
            self._tiers.memory.put_head(name, head.with_validation(NEVER_VALIDATED))
