"""Own writes: versions of objects written through this Forebay that the origin or the stored heads do not have yet.

pending        the journal has the write and the origin has not: it makes the version that readers see
installing     the origin has the write, and its staged bytes are about to become the object: readers wait for that
settled        neither
"""

from forebay.core.errors import S3Error
from forebay.core.names import ObjectName
from forebay.metadata.resolution import ResolvedVersion
from forebay.metadata.staged_objects import StagedObjects
from forebay.origin.origin_identity import OriginIdentity
from forebay.storage.journal.pending_objects import Deleted, PendingObjects


class OwnWrites:
    """See the module."""

    def __init__(self, staged: StagedObjects, pending: PendingObjects | None = None) -> None:
        """`pending`: None without a journal."""
        self._staged, self._pending = staged, pending

    def are_pending(self, name: ObjectName) -> bool:
        """Whether a write of the object is pending."""
        return self._pending is not None and name in self._pending

    def are_settled(self, name: ObjectName) -> bool:
        """Whether none is pending or being installed."""
        return not (self.are_pending(name) or self._staged.is_installing(name))

    async def settle(self, name: ObjectName, identity: OriginIdentity | None) -> ResolvedVersion | None:
        """Returns the version that a pending write makes, or None once all are settled. With an identity it waits for
        that: only the origin can say what that credential may read. Raises S3Error NoSuchKey for an object that a write
        deletes."""
        if self._pending is not None and (pending := self._pending.head(name)) is not None:
            if identity is None:
                if isinstance(pending, Deleted):
                    raise S3Error("NoSuchKey", Key=name.key)
                return ResolvedVersion(pending, "fresh")
            await self._pending.wait_for_read(name)
        await self._staged.wait_installed(name)
        return None
