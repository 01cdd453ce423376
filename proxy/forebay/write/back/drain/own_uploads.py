"""Own uploads: the uploads at the origin by which Forebay carries completions out. Their clients have completed them
already, under ids of the journal, so no listing shows them: otherwise a client that aborts unfinished uploads would
abort them.

The worker that created one knows its id. A listing, in any worker, asks the others once it has the origin's page.
"""

from collections.abc import Collection
from typing import Final

from cachetools import FIFOCache

from forebay.peers.frames import Document
from forebay.peers.owners import Peers
from forebay.peers.peer_codec import decode

MOST: Final = 10_000
"""Ids that are remembered."""


class OwnUploads:
    """Those of one worker."""

    def __init__(self, peers: Peers) -> None:
        self._peers = peers
        self._ids: FIFOCache[str, None] = FIFOCache(MOST)

    def add(self, upload_id: str) -> None:
        """Forebay has created an upload. It need not be removed: no other will have its id."""
        self._ids[upload_id] = None

    async def find(self, upload_ids: Collection[str]) -> set[str]:
        """Returns which of these are own uploads, of any worker that answers."""
        found = {each for each in upload_ids if each in self._ids}
        if upload_ids and self._peers.others:
            responses = await self._peers.call_all({"kind": "own_uploads", "uploads": list(upload_ids)})
            found.update(str(each) for response in responses.values() for each in response.get("own", ()))
        return found

    def receive(self, request: Document) -> Document:
        """Answers another worker. Raises PeerUnavailable."""
        asked_for = decode(lambda: [str(each) for each in request["uploads"]])
        return {"own": [each for each in asked_for if each in self._ids]}
