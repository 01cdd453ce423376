"""The admin port's verbs about pending writes, over one worker: those of the node, wherever they are carried out."""

from base64 import b64encode
from typing import TYPE_CHECKING

from forebay.core.errors import BucketMissing
from forebay.core.names import ObjectName
from forebay.core.pending_write import CONTENT_PART, LEFT_TO_A_PERSON, DamagedContent, PendingPage, PendingWrite
from forebay.server.admin.control import WriteVerbs
from forebay.server.admin.schema.admin_schema import MAX_PAGE
from forebay.server.admin.schema.pending_schema import (
    NOT_STUCK,
    OTHER_ORIGIN,
    Flushed,
    PendingContent,
    PendingDiscarded,
    PendingRetried,
)

if TYPE_CHECKING:  # only with a journal
    from forebay.write.back.node_backlog import NodeBacklog


class WorkerWrites(WriteVerbs):
    """Answers the admin port. `backlog` None: no journal is configured. Methods raise Throttled."""

    def __init__(self, backlog: "NodeBacklog | None") -> None:
        self._backlog = backlog

    async def flush_writes(self, bucket: str, prefix: str = "", wait: float = 0.0, before: str = "") -> Flushed | None:
        """Waits until the pending writes under a prefix are at the origin. None: there is no journal."""
        if self._backlog is None:
            return None
        try:
            report = await self._backlog.flush(bucket, prefix, wait, before)
        except BucketMissing:
            return Flushed(0, "", problem=f"There is no bucket {bucket}.")
        return Flushed(report.left, report.before, report.held_up, report.stuck, report.found)

    async def pending_writes(
        self, bucket: str = "", prefix: str = "", state: str = "", after: str = "", limit: int = MAX_PAGE
    ) -> PendingPage | None:
        """A page of them; None: there is no journal."""
        if self._backlog is None:
            return None
        return await self._backlog.page(bucket, prefix, state, after, limit)

    async def pending_write(self, write_id: str) -> PendingWrite | None:
        """The write of this id; None: it is not pending."""
        return await self._backlog.find(write_id) if self._backlog is not None else None

    async def pending_content(self, write_id: str, offset: int = 0) -> PendingContent | None:
        """A part of the object that it makes; None: it is not pending."""
        found = await self._backlog.content(write_id, offset) if self._backlog is not None else None
        if found is None:
            return None
        if isinstance(found, DamagedContent):
            return PendingContent(offset, "", None, f"Its bytes can't be read: {found.reason}.")
        following = offset + len(found) if len(found) == CONTENT_PART else None
        return PendingContent(offset, b64encode(found).decode(), following)

    async def retry_write(self, write_id: str) -> PendingRetried | None:
        """Has it tried again now; None: it is not pending."""
        found = await self._backlog.retry(write_id) if self._backlog is not None else None
        if found is None:
            return None
        return PendingRetried(found, OTHER_ORIGIN if found.is_of_other_origin else _problem(found))

    async def discard_write(self, write_id: str, bucket: str, key: str) -> PendingDiscarded | None:
        """Gives it up; None: no such write is pending."""
        found = await self._backlog.discard(write_id, ObjectName(bucket, key)) if self._backlog is not None else None
        return PendingDiscarded(found, _problem(found)) if found is not None else None


def _problem(write: PendingWrite) -> str:
    return "" if write.state in LEFT_TO_A_PERSON else NOT_STUCK
