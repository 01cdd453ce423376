"""Pages of the origin's listing that include the members of packs, where the rules name packs.

    origin's page    a   b/   d          up to d, and more behind
    packs            a   b/9  c   e
    page             a   b/   c   d      e is behind the page; the object a wins over the member a

Snapshots, look-ups of written keys and pages with pending writes all take their pages from here, so members are
ordinary keys to them. After the origin's last page, pages of `limit` names continue with the remaining members.
"""

from collections.abc import Callable
from typing import Final

from forebay.core.heads import head_of
from forebay.core.names import ObjectName
from forebay.namespace.origin_pages import OriginPages, PageRequest
from forebay.namespace.packs.pack_catalogue import PackCatalogue
from forebay.namespace.packs.pack_view import PackView
from forebay.namespace.pending_entries import entry_of
from forebay.policy.packed_scopes import PackedScope
from forebay.policy.rules import Rules
from forebay.protocol.listing_query import LAST_CHARACTER
from forebay.protocol.packs.packed_member import PackedMember
from forebay.protocol.xml.listed_page import ListedEntries, ListingForm

_BATCH: Final = 1000
_BLOCK: Final = 1 << 20
"""The block size of heads from which only an entry is made."""


class PackedPages(OriginPages):
    """Requests pages, and adds members. Keeps no state."""

    def __init__(self, pages: OriginPages, catalogue: PackCatalogue, rules: Callable[[], Rules]) -> None:
        self._pages = pages
        self._catalogue = catalogue
        self._rules = rules

    def speaks_oss(self, bucket: str) -> bool:
        """See OriginPages."""
        return self._pages.speaks_oss(bucket)

    async def has_members(self, bucket: str, prefix: str) -> bool:
        """Returns whether there are packs with members that may have this prefix. Raises PackUnavailable."""
        return any(view.members for _, view in await self._views(bucket, prefix))

    async def _views(self, bucket: str, prefix: str) -> list[tuple[PackedScope, PackView]]:
        scopes = self._rules().packed.scopes(bucket, prefix)
        return [(scope, await self._catalogue.view(bucket, scope.packed, scope.freshness)) for scope in scopes]

    async def fetch(self, wanted: PageRequest, form: ListingForm, *, is_awaited: bool = True) -> ListedEntries:
        """See OriginPages. Raises PackUnavailable as well."""
        views = await self._views(wanted.bucket, wanted.prefix)
        page = await self._pages.fetch(wanted, form, is_awaited=is_awaited)
        if not any(view.members for _, view in views):
            return page
        end = max([*page.keys[-1:], *page.prefixes[-1:]]) if page.is_truncated else None
        if end is not None and end in page.prefixes[-1:]:
            end += LAST_CHARACTER
        added: dict[str, str | None] = {}
        for scope, view in views:  # a name that two packs have is of the first
            added = await self._added(wanted, scope, view, end, form) | added
        names = added | dict.fromkeys(page.prefixes) | dict(zip(page.keys, page.facts, strict=True))
        shown = sorted(names)[: wanted.limit]
        is_truncated = page.is_truncated or len(names) > len(shown) or len(added) > wanted.limit
        keys = [name for name in shown if names[name] is not None]
        facts_of = [facts for name in keys if (facts := names[name]) is not None]
        return ListedEntries(
            keys, facts_of, is_truncated, page.max_keys, [name for name in shown if names[name] is None]
        )

    async def _added(
        self, wanted: PageRequest, scope: PackedScope, view: PackView, end: str | None, form: ListingForm
    ) -> dict[str, str | None]:
        """Returns the first names of members, at most one more than the page has: their facts; None: a common
        prefix."""
        names: dict[str, str | None] = {}
        bucket, prefix, position, limit, delimiter = wanted
        rules = self._rules()
        while len(names) <= limit:
            batch = await view.members_behind(position, prefix, end, min(_BATCH, limit + 1))
            for member in batch:
                position = member.key
                if rules.decide(ObjectName(bucket, member.key)).packed != scope.packed:
                    continue
                found = member.key.find(delimiter, len(prefix)) if delimiter else -1
                if found < 0:
                    names[member.key] = _entry(member, form)
                    continue
                rolled = member.key[: found + len(delimiter)]
                names[rolled] = None
                position = rolled + LAST_CHARACTER
                break
            else:
                if len(batch) < min(_BATCH, limit + 1):
                    return names
            if len(names) > limit:
                return names
        return names


def _entry(member: PackedMember, form: ListingForm) -> str:
    return entry_of(head_of(member.facts(), _BLOCK, float(member.modified)), form.owners)
