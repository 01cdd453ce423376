"""Peer hints: what the workers of a node tell each other about object heads.

    head_changed    owner -> others    another version is the current one
    head_removed    owner -> others    the version is not the current one any more
    head_seen       other -> owner     the origin gave this head to a principal with its own credential

A hint is kept in memory, to be compared with and never to be trusted: which fences it has missed is not known. It turns
the opening of the next reader, whose bytes may be here already, into a revalidation (forebay.metadata.resolver).

Hints are notifications: one that is lost costs a request to the origin.
"""

from typing import Final

from forebay.core.heads import Head
from forebay.core.names import ObjectName
from forebay.peers.owners import Peers
from forebay.peers.peer_codec import encode_head, encode_name
from forebay.storage.tiers import Tiers

NEVER_VALIDATED: Final = -1.0
"""The validation time of a head that nobody has validated: earlier than any time from which heads are trusted."""


class PeerHints:
    """Sends hints to the other workers and takes in theirs."""

    def __init__(self, tiers: Tiers, peers: Peers) -> None:
        self._tiers = tiers
        self._peers = peers

    def announce_changed(self, name: ObjectName, head: Head) -> None:
        """Tells the other workers that `head` is the current one, if this worker owns the object."""
        self._announce("head_changed", name, head)

    def announce_removed(self, name: ObjectName, head: Head) -> None:
        """Tells the other workers that `head` is not the current one, if this worker owns the object."""
        self._announce("head_removed", name, head)

    def _announce(self, kind: str, name: ObjectName, head: Head) -> None:
        if self._peers.owns(name):
            self._peers.notify({"kind": kind, "name": encode_name(name), "head": encode_head(head)})

    def head_changed(self, name: ObjectName, head: Head) -> None:
        """Replaces an older head by the owner's. A head that a fence has dropped is not brought back."""
        known = self._tiers.memory.head(name)
        if known is not None and known.version != head.version and known.validated_at < head.validated_at:
            self._tiers.memory.put_head(name, head)

    def head_removed(self, name: ObjectName, head: Head) -> None:
        """Forgets the head of the version that `head` describes."""
        known = self._tiers.memory.head(name)
        if known is not None and known.version == head.version:
            self._tiers.memory.forget(name)

    def head_seen(self, name: ObjectName, head: Head) -> None:
        """Keeps a head as never validated, where none is known."""
        if not head.by_id and self._tiers.head(name) is None:
            self._tiers.memory.put_head(name, head.with_validation(NEVER_VALIDATED))
