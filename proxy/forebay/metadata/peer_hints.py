"""Peer hints: object heads announced by the node's other workers, kept in memory only and never trusted.

    learnt, gone    the owner of an object has found that another version is the current one, or none is
    heard           another worker wants bytes of an object that is ours, of a version that the origin told it of in a
                    principal's own name

What is heard is kept as something to compare with, never to be believed: which fences it has missed nobody knows. It
turns the opening of the next reader, whose bytes are here already, into a check (forebay.metadata.resolver).
"""

from typing import Final

from forebay.core.heads import Head
from forebay.core.names import ObjectName
from forebay.storage.tiers import Tiers

NEVER_VALIDATED: Final = -1.0
"""When a head was vouched for that was not: earlier than any time from which heads are to be trusted."""


class PeerHints:
    """See the module."""

    def __init__(self, tiers: Tiers) -> None:
        self._tiers = tiers

    def head_changed(self, name: ObjectName, head: Head) -> None:
        """Rather the owner's head than an older one. A head that a fence has dropped is not brought back."""
        known = self._tiers.memory.head(name)
        if known is not None and known.version != head.version and known.validated_at < head.validated_at:
            self._tiers.memory.put_head(name, head)

    def head_removed(self, name: ObjectName, head: Head) -> None:
        """The version which `head` describes is not the current one any more."""
        known = self._tiers.memory.head(name)
        if known is not None and known.version == head.version:
            self._tiers.memory.forget(name)

    def head_seen(self, name: ObjectName, head: Head) -> None:
        if not head.by_id and self._tiers.head(name) is None:
            self._tiers.memory.put_head(name, head.validated(NEVER_VALIDATED))
