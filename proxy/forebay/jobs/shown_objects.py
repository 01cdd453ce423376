"""The objects of a listing as readers see them, for warm-ups: with the members of packs, without what a pending write
has deleted. Objects that are pending and not at the origin yet are left out: they are here already."""

from collections.abc import AsyncGenerator, Callable
from datetime import datetime
from typing import Final

from forebay.core.errors import OriginBroken, S3Error, Throttled
from forebay.core.names import ObjectName
from forebay.namespace.origin_pages import OriginPages, PageRequest
from forebay.namespace.pending_entries import PendingEntries
from forebay.origin.bucket_listing import ListedObject
from forebay.protocol.xml.listed_page import ListingForm, entry_facts

_PAGE: Final = 1000


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
        form, after, is_truncated = ListingForm(), "", True
        while is_truncated:
            try:
                page = await self._pages.fetch(PageRequest(bucket, prefix, after, _PAGE), form, is_awaited=False)
            except (S3Error, Throttled) as error:
                raise OriginBroken(f"listing: {error}") from None
            for key, text in zip(page.keys, page.facts, strict=True):
                facts = entry_facts(text)
                if facts is None:
                    raise OriginBroken("listing: an entry lacks its facts")
                modified = datetime.fromisoformat(facts.last_modified).timestamp()
                yield ListedObject(key, facts.size, facts.etag, modified)
            is_truncated, after = page.is_truncated, page.keys[-1] if page.keys else after
