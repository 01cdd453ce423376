"""Pages of the origin with the pending writes laid over them: for listings that no snapshot answers. Pages with members
of packs (namespace.packs.packed_pages) are answered here as well, whether or not anything is pending.

    origin's page    a   b/   c        up to c, and more behind
    pending          a:-   b/9   bb   d
    page             b/   bb   c       d is behind the page; a is deleted; b/ is there already

A page accounts for all names up to its last one, or for all remaining names. A common prefix of the origin's page is
dropped if every key below it is deleted; the origin is asked for these keys. The request to the origin has the client's
prefix and delimiter, and begins behind a name (`start-after`). So a listing continues here with a token of Forebay's
own, or at the origin when nothing is pending any more.

The pending objects are read both before the request to the origin and after its response. A write that was settled in
between may be missing in the origin's page; a write that was accepted in between is not in the first reading.
"""

from typing import Final, TypeVar

from forebay.core.errors import OriginBroken, PackUnavailable, S3Error, Throttled
from forebay.namespace.listing_answer import ListingAnswer
from forebay.namespace.origin_pages import OriginPages, PageRequest
from forebay.namespace.pending_entries import PendingEntries, PendingState, PendingWindow, common_prefix, entry_of
from forebay.protocol.listing_query import LAST_CHARACTER, MAX_KEYS, ListingQuery
from forebay.protocol.xml.entry_rows import EntryRows, EntryRun
from forebay.protocol.xml.listed_page import ListedEntries, ListingForm
from forebay.protocol.xml.listing_document import PageEntries, PageForm, is_writable, listing_document

_T = TypeVar("_T")

_MAX_REQUESTS: Final = 64
"""The most requests for one page of a client. Several are needed where most of the objects are deleted."""


class PendingPages:
    """Builds pages. Keeps no state."""

    def __init__(self, pages: OriginPages, entries: PendingEntries) -> None:
        self._pages = pages
        self._entries = entries

    async def answer(self, query: ListingQuery, *, has_members: bool) -> ListingAnswer | None:
        """Returns the page; None: nothing is pending or packed under the prefix, or only the origin can answer.
        `has_members`: as the method says. Raises OriginError, Throttled, S3Error."""
        limit = query.limit(MAX_KEYS)
        is_echoed = limit >= (query.max_keys or 0) or has_members
        if not limit or not is_echoed or not (has_members or self._entries.is_any(query.bucket, query.prefix)):
            return None
        form = ListingForm()
        try:
            entries = await self._entries_of(query, limit, form)
        except (OriginBroken, S3Error):
            if has_members:
                raise
            return None  # the origin's own answer says why
        if not is_writable(query, entries):
            if has_members:  # the origin's page would lack them
                raise PackUnavailable("the page has keys that XML can't carry; list with encoding-type=url")
            return None
        # S3 repeats no larger number than it has keys in a page; of pages without members the origin says what it does.
        shown = PageForm(form.encoding, form.owners, str(MAX_KEYS), MAX_KEYS)
        return ListingAnswer(listing_document(query, entries, shown), "miss")

    async def has_members(self, bucket: str, prefix: str) -> bool:
        """Whether a listing may have members of packs, which only Forebay lists. Raises PackUnavailable."""
        return await self._pages.has_members(bucket, prefix)

    async def _entries_of(self, query: ListingQuery, limit: int, form: ListingForm) -> PageEntries:
        names: dict[str, str | None] = {}  # the facts of keys; None: a common prefix
        after = _bound(query.start.name, is_prefix=query.start.kind == "prefix")
        for _ in range(_MAX_REQUESTS):
            before = self._window(query, after, limit)
            most = min(MAX_KEYS, limit + 1 + sum(head is None for head in before.state.values()))
            page = await self._pages.fetch(PageRequest(query.bucket, query.prefix, after, most, query.delimiter), form)
            now = self._window(query, after, limit)
            bounds = [each for each in (_last_bound(page), before.bound, now.bound) if each is not None]
            bound = min(bounds, default=None)
            found = await self._merged(query, page, _within(before.state | now.state, bound), form)
            names |= _within(found, bound)
            if query.start.kind == "prefix":
                names.pop(query.start.name, None)  # keys of it may be behind its bound
            if len(names) > limit or bound is None:
                return _page_of(names, limit, form)
            after = bound
        raise Throttled(f"{_MAX_REQUESTS} pages of the origin have too few objects that are not deleted")

    def _window(self, query: ListingQuery, after: str, limit: int) -> PendingWindow:
        return self._entries.window(query.bucket, query.prefix, query.delimiter, after, limit + 1)

    async def _merged(
        self, query: ListingQuery, page: ListedEntries, state: PendingState, form: ListingForm
    ) -> dict[str, str | None]:
        names: dict[str, str | None] = dict(zip(page.keys, page.facts, strict=True))
        prefixes = set(page.prefixes)
        deleted: dict[str, set[str]] = {}
        for key, head in state.items():
            rolled = common_prefix(key, query.prefix, query.delimiter)
            if rolled is None:
                names.pop(key, None)
                if head is not None:
                    names[key] = entry_of(head, form.owners)
            elif head is not None:
                prefixes.add(rolled)
                names[rolled] = None
            else:
                deleted.setdefault(rolled, set()).add(key)
        for prefix in prefixes:
            is_certain = prefix in names or prefix not in deleted
            if is_certain or await self._has_others(query.bucket, prefix, deleted[prefix], form):
                names[prefix] = None
        return names

    async def _has_others(self, bucket: str, prefix: str, deleted: set[str], form: ListingForm) -> bool:
        """Returns whether the origin has a key under a prefix that is none of these."""
        after = ""
        for _ in range(_MAX_REQUESTS):
            page = await self._pages.fetch(PageRequest(bucket, prefix, after, min(MAX_KEYS, len(deleted) + 1)), form)
            if not deleted.issuperset(page.keys):
                return True
            if not page.is_truncated:
                return False
            after = page.keys[-1]
        return True


def _page_of(names: dict[str, str | None], limit: int, form: ListingForm) -> PageEntries:
    shown = sorted(names)[:limit]
    listed = [(name, facts) for name in shown if (facts := names[name]) is not None]
    rows = EntryRows.written([key for key, _ in listed], [facts for _, facts in listed], form.encoding)
    prefixes = [name for name in shown if names[name] is None]
    return PageEntries([EntryRun(rows, 0, len(listed))] if listed else [], prefixes, len(names) > limit)


def _bound(name: str, *, is_prefix: bool) -> str:
    """Returns the position behind a name, where a listing continues."""
    return name + LAST_CHARACTER if is_prefix else name


def _last_bound(page: ListedEntries) -> str | None:
    """Returns the position where the next page begins; None: there is none."""
    if not page.is_truncated:
        return None
    key, prefix = (names[-1] if names else "" for names in (page.keys, page.prefixes))
    return _bound(max(key, prefix), is_prefix=prefix > key)


def _within(names: dict[str, _T], bound: str | None) -> dict[str, _T]:
    """Returns the names that a page accounts for."""
    return names if bound is None else {name: value for name, value in names.items() if name <= bound}
