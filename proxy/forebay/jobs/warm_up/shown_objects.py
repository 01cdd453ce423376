"""Shown objects: the objects of a listing for a warm-up. Members of packs are added; objects with a pending deletion
are left out, and so are pending objects that the origin does not have: their bytes are here already."""

from collections.abc import AsyncGenerator, Callable

from forebay.core.errors import OriginBroken, S3Error, Throttled
from forebay.core.names import ObjectName
from forebay.namespace.origin_pages import OriginPages, listed_objects
from forebay.namespace.pending_entries import PendingEntries
from forebay.origin.bucket_listing import ListedObject


class ShownObjects:
    """Lists a bucket. `list_objects`: the origin's objects. `pages`: pages of the origin with members of packs."""

    def __init__(
        self,
        list_objects: Callable[[str, str], AsyncGenerator[ListedObject]],
        pages: OriginPages,
        pending: PendingEntries,
    ) -> None:
        self._list_objects, self._pages, self._pending = list_objects, pages, pending

    async def list_objects(self, bucket: str, prefix: str) -> AsyncGenerator[ListedObject]:
        """Lists the objects under a prefix, in the order of their keys. Raises OriginError."""
        has_members = await self._pages.has_members(bucket, prefix)
        async for entry in (self._with_members if has_members else self._list_objects)(bucket, prefix):
            if not self._pending.is_deleted(ObjectName(bucket, entry.key)):
                yield entry

    async def _with_members(self, bucket: str, prefix: str) -> AsyncGenerator[ListedObject]:
        try:
            async for entry in listed_objects(self._pages, bucket, prefix, is_awaited=False):
                yield entry
        except (S3Error, Throttled) as error:
            raise OriginBroken(f"listing: {error}") from None
