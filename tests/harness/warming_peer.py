"""Another worker as warm-up calls it: its answers come from a warmer in the same loop, through the real documents."""

import json
from collections import deque
from typing import Any

from forebay.core.errors import ForebayError, PeerNotListening
from forebay.core.names import ObjectName
from forebay.jobs.warm_up.owner_warm_up import PieceWarmer, answer_owner_call
from forebay.peers.frames import Document
from forebay.peers.owners import Owner, Peers
from harness.owned_names import owner_of


class WarmingPeer:
    """Worker 1 of two."""

    def __init__(self, warmer: PieceWarmer) -> None:
        self.warmer = warmer
        self.calls: list[Document] = []
        self.failure: ForebayError | None = None
        """What the next call fails with, unread."""
        self.absence: PeerNotListening | None = None
        """What every call fails with."""

    @property
    def peers(self) -> Peers:
        """The node as worker 0 sees it."""
        others: Any = {1: self}
        return Peers(others)

    @property
    def owner(self) -> Owner:
        double: Any = self
        return Owner(double, lambda: None)

    def key(self, number: int) -> str:
        """The key of that number among those that this worker owns."""
        owned = (key for key in map("key-{}".format, range(10_000)) if owner_of(ObjectName("bucket", key), 2) == 1)
        return next(key for position, key in enumerate(owned) if position == number)

    async def stream(self, request: Document) -> tuple[Document, "_Documents"]:
        self.calls.append(request)
        if self.absence is not None:
            raise self.absence
        if self.failure is not None:
            failure, self.failure = self.failure, None
            raise failure
        documents = _Documents()
        try:
            await answer_owner_call(json.loads(json.dumps(request)), self.warmer, documents)
        except ForebayError as failed:
            documents.failure = failed
        first = await documents.receive_document()
        assert first is not None
        return first, documents

    def close(self) -> None:
        pass


class _Documents:
    """The stream of one call, written and then read."""

    def __init__(self) -> None:
        self.waiting: deque[str] = deque()
        self.failure: ForebayError | None = None

    def write(self, document: Document) -> None:
        self.waiting.append(json.dumps(document))

    async def send(self, document: Document) -> None:
        self.write(document)

    async def send_end(self) -> None:
        pass

    async def receive_document(self) -> Any:
        if self.waiting:
            return json.loads(self.waiting.popleft())
        if self.failure is not None:
            raise self.failure
        return None

    def close(self) -> None:
        pass
