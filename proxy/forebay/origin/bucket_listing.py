"""The names under a prefix, for warming and invalidation: work where meaning matters more than speed, so botocore
does it.

An origin that does not speak S3 is asked by signed requests of our own instead, a batch of names at a time.

botocore (forebay.origin.botocore_listing) is loaded when it is first needed, on a thread: that takes a while, and most
proxies never list.
"""

import asyncio
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

from forebay.core.errors import OriginBroken
from forebay.core.events import OriginFailed
from forebay.origin.endpoint import QueryPairs
from forebay.origin.listed_object import OPERATION, ListedObject
from forebay.origin.origin_client import OriginClient
from forebay.origin.origin_request import OriginRequest
from forebay.protocol.xml.strict_parser import XMLRefused
from forebay.protocol.xml.xml_tree import read_tree

if TYPE_CHECKING:
    from forebay.origin.botocore_listing import BotocoreListing

_MOST_BYTES: Final = 16 << 20  # a thousand keys of a thousand characters, however escaped
_MOST_ELEMENTS: Final = 50_000


class OriginListing:
    """Lists with the endpoint, region and credentials of an OriginClient. To be closed before it."""

    def __init__(self, origin: OriginClient) -> None:
        self._origin = origin
        self._making = asyncio.Lock()
        self._paginating: BotocoreListing | None = None

    async def list_objects(self, bucket: str, prefix: str) -> AsyncIterator[ListedObject]:
        """All objects of `bucket` whose keys begin with `prefix`, in the origin's order.

        OriginUnreachable: nobody there, or no credentials. OriginBroken: the origin refuses, or what it says isn't a
        listing; the reason has its code.
        """
        if self._origin.dialect.speaks_oss:
            async for listed in self._list_signed(bucket, prefix):
                yield listed
            return
        paginating = await self._botocore()
        async for listed in paginating.list_objects(bucket, prefix):
            yield listed

    async def _list_signed(self, bucket: str, prefix: str) -> AsyncIterator[ListedObject]:
        query = (("list-type", "2"), ("prefix", prefix), ("encoding-type", "url"))
        more: QueryPairs = ()
        while True:
            request = OriginRequest("GET", bucket, query=(*query, *more), operation=OPERATION)
            async with await self._origin.send(request) as answer:
                body = await answer.read(_MOST_BYTES)
            if answer.status != 200:
                self._origin.observe(OriginFailed(OPERATION, "refused"))
                raise OriginBroken(f"listing refused: {answer.status}")
            try:
                tree = read_tree(body, max_size=_MOST_BYTES, max_elements=_MOST_ELEMENTS)
                names = [
                    ListedObject(unquote(each.told("Key")), int(each.told("Size")), each.told("ETag"))
                    for each in tree.all("Contents")
                ]
            except (XMLRefused, ValueError):
                raise OriginBroken("listing: no document") from None
            for listed in names:
                yield listed
            token = tree.told("NextContinuationToken")
            if tree.told("IsTruncated") != "true":
                return
            if not token or more == (("continuation-token", token),):
                raise OriginBroken("listing: it does not go on")
            more = (("continuation-token", token),)

    async def _botocore(self) -> "BotocoreListing":
        async with self._making:
            if self._paginating is None:
                self._paginating = (await asyncio.to_thread(_load))(self._origin)
            return self._paginating

    async def close(self) -> None:
        async with self._making:
            paginating, self._paginating = self._paginating, None
            if paginating is not None:
                await paginating.close()


def _load() -> "type[BotocoreListing]":
    from forebay.origin.botocore_listing import BotocoreListing  # noqa: PLC0415 # see the module

    return BotocoreListing
