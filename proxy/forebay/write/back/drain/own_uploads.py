"""Own uploads: the uploads at the origin by which Forebay carries completions out. Their clients have completed them
already, under ids of the journal, so no listing shows them: otherwise a client that aborts unfinished uploads would
abort them.

The worker that created one knows its id. A listing, in any worker, asks the others once it has the origin's page. What
an earlier run has left is known by the journal's notes, and aborted by the drainer.
"""

from collections.abc import Awaitable, Callable, Collection
from typing import Final

from cachetools import FIFOCache

from forebay.core.names import ObjectName
from forebay.peers.frames import Document
from forebay.peers.owners import Peers
from forebay.peers.peer_codec import decode
from forebay.storage.journal.journal import Journal
from forebay.storage.journal.upload_notes import NotedUpload

MOST: Final = 10_000
"""Ids that are remembered."""


class OwnUploads:
    """The uploads at the origin that one worker has created."""

    def __init__(
        self,
        peers: Peers,
        journal: Journal | None = None,
        abort: Callable[[ObjectName, str], Awaitable[bool]] | None = None,
    ) -> None:
        """`abort(name, upload_id)`: aborts one at the origin, and returns whether it is gone. Both None: nothing is
        noted."""
        self._peers = peers
        self._journal = journal
        self._abort = abort
        self._ids: FIFOCache[str, None] = FIFOCache(MOST)
        self._left: dict[str, NotedUpload] = {}
        self._is_loaded = False

    @property
    def has_left(self) -> bool:
        """Whether uploads of an earlier run are known and not aborted yet."""
        return bool(self._left)

    async def add(self, name: ObjectName, upload_id: str) -> None:
        """Forebay has created an upload. Its id need not be removed: no other will have it."""
        self._ids[upload_id] = None
        if self._journal is not None:
            await self._journal.run(self._journal.upload_notes.add, name, upload_id)

    async def end(self, upload_id: str) -> None:
        """An upload was completed, or aborted."""
        if self._journal is not None:
            await self._journal.run(self._journal.upload_notes.end, upload_id)

    async def load_left(self) -> None:
        """Looks for what earlier runs have left. For the drainer."""
        if self._journal is None or self._is_loaded:
            return
        self._is_loaded = True
        left = await self._journal.run(self._journal.upload_notes.take_left)
        self._left = {each.upload_id: each for each in left}
        for each in self._left:
            self._ids[each] = None

    async def abort_left(self) -> None:
        """Aborts what earlier runs have left: what they carried out is carried out by other uploads. Ends at the first
        that can't be aborted; the next call goes on with the others. For the drainer."""
        await self.load_left()
        for each in list(self._left.values()):
            if self._abort is None or not await self._abort(each.name, each.upload_id):
                self._left[each.upload_id] = self._left.pop(each.upload_id)
                return
            await self.end(each.upload_id)
            del self._left[each.upload_id]

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
