"""The admin port's verbs about pending writes, over one worker: those of the node, wherever they are carried out."""

from base64 import b64encode

from forebay.core.names import ObjectName
from forebay.core.pending_write import LEFT_TO_A_PERSON, PendingPage, PendingWrite
from forebay.server.admin.pending_schema import (
    NOT_STUCK,
    OTHER_ORIGIN,
    Flushed,
    PendingContent,
    PendingDiscarded,
    PendingRetried,
)
from forebay.write.back.node_backlog import PART_SIZE, DamagedContent, NodeBacklog


class PendingVerbs:
    """Answers the admin port. `backlog` None: no journal is configured. Methods raise Throttled."""

    def __init__(self, backlog: NodeBacklog | None) -> None:
        self._backlog = backlog

    async def flush(self, bucket: str, prefix: str, seconds: float, before: str) -> Flushed | None:
        """Waits until what is pending under a prefix is at the origin; None: there is no journal."""
        if self._backlog is None:
            return None
        return Flushed(*await self._backlog.flush(bucket, prefix, seconds, before))

    async def page(self, bucket: str, prefix: str, state: str, after: str, limit: int) -> PendingPage | None:
        """A page of them; None: there is no journal."""
        if self._backlog is None:
            return None
        return await self._backlog.page(bucket, prefix, state, after, limit)

    async def find(self, number: str) -> PendingWrite | None:
        """The write of this id; None: it is not pending."""
        return await self._backlog.find(number) if self._backlog is not None else None

    async def content(self, number: str, offset: int) -> PendingContent | None:
        """A part of the object that it makes; None: it is not pending."""
        found = await self._backlog.content(number, offset) if self._backlog is not None else None
        if found is None:
            return None
        if isinstance(found, DamagedContent):
            return PendingContent(offset, "", None, f"Its bytes can't be read: {found.reason}.")
        following = offset + len(found) if len(found) == PART_SIZE else None
        return PendingContent(offset, b64encode(found).decode(), following)

    async def retry(self, number: str) -> PendingRetried | None:
        """Has it tried again now; None: it is not pending."""
        found = await self._backlog.retry(number) if self._backlog is not None else None
        if found is None:
            return None
        return PendingRetried(found, OTHER_ORIGIN if found.is_of_other_origin else _problem(found))

    async def discard(self, number: str, name: ObjectName) -> PendingDiscarded | None:
        """Gives it up; None: no such write is pending."""
        found = await self._backlog.discard(number, name) if self._backlog is not None else None
        return PendingDiscarded(found, _problem(found)) if found is not None else None


def _problem(write: PendingWrite) -> str:
    return "" if write.state in LEFT_TO_A_PERSON else NOT_STUCK
