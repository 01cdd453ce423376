"""Listings in a world of the reference model: each page of one is followed, and checked."""

from collections.abc import Awaitable, Callable
from typing import Final, Literal
from urllib.parse import quote
from xml.etree import ElementTree as Tree

from harness.clients import query_of
from harness.memory_exchange import MemoryReply
from harness.reference_model import ListedObject, Model, Page, Query

_PAGES: Final = 8
_ANSWERED_HERE: Final = {"hit-ssd", "partial", "miss"}


class ListingSteps:
    """The listings of a bucket. `sources`: where their pages came from, by x-forebay-cache."""

    def __init__(self, model: Model, bucket: str) -> None:
        self._model = model
        self._bucket = bucket
        self.sources: list[str] = []

    async def follow(
        self,
        get: Callable[[str], Awaitable[MemoryReply]],
        version: Literal[1, 2],
        query: Query,
        now: Callable[[], float],
    ) -> None:
        """Lists from the query on, page by page."""
        parameters = {"prefix": query.prefix, "delimiter": query.delimiter, "max-keys": str(query.max_keys)}
        parameters |= {"list-type": "2", "start-after": query.after} if version == 2 else {"marker": query.after}
        for _ in range(_PAGES):
            reply = await get(f"/{quote(self._bucket)}?{query_of({k: v for k, v in parameters.items() if v})}")
            assert reply.status == 200, reply
            document = Tree.fromstring(bytes(reply.body))
            page = page_of(document)
            source = reply.headers.get("x-forebay-cache", "")
            self.sources.append(source)
            is_passed_on = source not in _ANSWERED_HERE
            assert self._model.may_list(query, page, now(), is_passed_on=is_passed_on), (query, page, source)
            if not page.is_truncated:
                return
            query = query._replace(after=page.names[-1])
            if version == 1:
                parameters["marker"] = query.after
            else:
                parameters["continuation-token"] = document.findtext("{*}NextContinuationToken") or ""


def page_of(document: Tree.Element) -> Page:
    """The page of an answer."""
    objects = [
        ListedObject(
            each.findtext("{*}Key") or "", int(each.findtext("{*}Size") or -1), (each.findtext("{*}ETag") or "").lower()
        )
        for each in document.iterfind("{*}Contents")
    ]
    prefixes = [each.findtext("{*}Prefix") or "" for each in document.iterfind("{*}CommonPrefixes")]
    return Page(objects, prefixes, document.findtext("{*}IsTruncated") == "true")
