"""Pages of an origin's listing, for snapshots: one request each, each by itself.

A page is requested by the key before its first one (`start-after`), never by a token of the origin. So ranges of keys
can be listed in parallel, a range can be continued after a failure, and the origin keeps no state.

Sent with Forebay's own credential. A page that no client waits for needs a background turn
(origin.turns.background_turns).
"""

from collections.abc import AsyncGenerator
from datetime import datetime
from typing import Final, NamedTuple

from forebay.core.errors import MalformedXml, OriginBroken, OriginError
from forebay.origin.bucket_listing import ListedObject
from forebay.origin.origin_request import OriginRequest
from forebay.origin.origins import Origins
from forebay.origin.reads.read_attempts import ReadAttempts
from forebay.protocol.listing_query import MAX_KEYS
from forebay.protocol.xml.listed_page import MAX_PAGE_BYTES, ListedEntries, ListingForm, entry_facts, read_page
from forebay.protocol.xml.s3_documents import embedded_error

OPERATION: Final = "ListObjectsV2"


class PageRequest(NamedTuple):
    """At most `limit` names of `bucket` under `prefix` behind `after`. `delimiter`: ends common prefixes; empty: there
    are none."""

    bucket: str
    prefix: str
    after: str
    limit: int
    delimiter: str = ""


class OriginPages:
    """Requests pages. Keeps no state."""

    def __init__(self, origins: Origins) -> None:
        self._origins = origins

    def speaks_oss(self, bucket: str) -> bool:
        """Whether the origin of `bucket` is OSS, which refuses a page of no keys. Raises S3Error NoSuchBucket."""
        return self._origins.of(bucket).dialect.speaks_oss

    async def has_members(self, _bucket: str, _prefix: str) -> bool:
        """Whether pages have keys that the origin does not list (namespace.packs.packed_pages)."""
        return False

    async def fetch(self, wanted: PageRequest, form: ListingForm, *, is_awaited: bool = True) -> ListedEntries:
        """Requests a page. `form` learns from it. `is_awaited`: a client waits for it.

        Raises OriginError: also where the origin refuses, or its page is not one that can be kept. Throttled, S3Error.
        """
        if is_awaited:
            return await self._fetch(wanted, form)
        turns, group = self._origins.background(wanted.bucket), f"listing of {wanted.bucket}/{wanted.prefix}"
        async with turns.turn(group):
            return await self._fetch(wanted, form)

    async def _fetch(self, wanted: PageRequest, form: ListingForm) -> ListedEntries:
        query = [
            ("list-type", "2"),
            ("prefix", wanted.prefix),
            ("max-keys", str(wanted.limit)),
            ("encoding-type", "url"),
            ("fetch-owner", "true"),
        ]
        if wanted.delimiter:
            query.append(("delimiter", wanted.delimiter))
        if wanted.after:
            query.append(("start-after", wanted.after))
        request = OriginRequest("GET", wanted.bucket, query=tuple(query), operation=OPERATION)
        attempts = ReadAttempts(self._origins.of(wanted.bucket), OPERATION)
        while True:
            try:
                async with await self._origins.send(request) as response:
                    if await attempts.is_repeated(response):
                        continue
                    body = await response.read(MAX_PAGE_BYTES)
                break
            except OriginError as error:
                await attempts.pause_or_raise(error)
        if response.status != 200:
            raise OriginBroken(f"listing refused: {embedded_error(body) or response.status}")
        try:
            return read_page(body, form, is_rolled=bool(wanted.delimiter))
        except MalformedXml as refused:
            raise OriginBroken(f"listing: {refused}") from refused


async def listed_objects(
    pages: OriginPages, bucket: str, prefix: str, *, is_awaited: bool = True
) -> AsyncGenerator[ListedObject]:
    """Lists the objects under a prefix, page by page, in the order of their keys. Raises the errors of
    `OriginPages.fetch`."""
    form, after = ListingForm(), ""
    while True:
        page = await pages.fetch(PageRequest(bucket, prefix, after, MAX_KEYS), form, is_awaited=is_awaited)
        for key, text in zip(page.keys, page.facts, strict=True):
            facts = entry_facts(text)
            if facts is None:
                raise OriginBroken("listing: an entry lacks its ETag, size or time")
            yield ListedObject(key, facts.size, facts.etag, _seconds(facts.last_modified))
        if not page.is_truncated:
            return
        after = page.keys[-1]


def _seconds(text: str) -> float:
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        raise OriginBroken(f"listing: {text!r} is no time") from None
