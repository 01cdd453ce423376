"""The names under a prefix, for warming and invalidation: work where meaning matters more than speed, so botocore
does it.

An origin that does not speak S3 is asked by signed requests of our own instead, a batch of names at a time.

botocore's client is made when it is first needed: its service model takes a while to load, and most proxies never list.
Loading is done on a thread, the loop goes on meanwhile. Listing has its own few connections and its own retries
(botocore's).
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any, Final, NamedTuple
from urllib.parse import unquote

from aiobotocore.config import AioConfig
from botocore import UNSIGNED
from botocore.exceptions import BotoCoreError, ClientError, HTTPClientError
from botocore.exceptions import ConnectionError as NoConnectionError

from forebay.protocol.strictxml import XMLRefused
from forebay.protocol.xmltree import read_tree
from forebay.stores.origin.client import OriginClient
from forebay.stores.origin.endpoint import QueryPairs
from forebay.stores.origin.request import OriginRequest
from forebay.words.errors import OriginBroken, OriginUnreachable
from forebay.words.events import OriginFailed

_OPERATION: Final = "ListObjectsV2"
_MOST_BYTES: Final = 16 << 20  # a thousand keys of a thousand characters, however escaped
_MOST_ELEMENTS: Final = 50_000


class Listed(NamedTuple):
    """One object of a listing. The ETag is as in a header, quotes included."""

    key: str
    size: int
    etag: str


class OriginListing:
    """Lists with the endpoint, region and credentials of an OriginClient. To be closed before it."""

    def __init__(self, origin: OriginClient) -> None:
        self._origin = origin
        self._open = AsyncExitStack()
        self._making = asyncio.Lock()
        self._client: Any = None

    async def list_objects(self, bucket: str, prefix: str) -> AsyncIterator[Listed]:
        """All objects of `bucket` whose keys begin with `prefix`, in the origin's order.

        OriginUnreachable: nobody there, or no credentials. OriginBroken: the origin refuses, or what it says isn't a
        listing; the reason has its code.
        """
        if self._origin.dialect.speaks_oss:
            async for listed in self._list_signed(bucket, prefix):
                yield listed
            return
        try:
            client = await self._ready()
            pages = client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
            async for page in pages:
                for listed in page.get("Contents", ()):
                    yield Listed(listed["Key"], listed["Size"], listed["ETag"])
        except ClientError as refusal:
            code = refusal.response.get("Error", {}).get("Code", "unknown")
            self._origin.observe(OriginFailed(_OPERATION, "refused"))
            raise OriginBroken(f"listing refused: {code}") from None
        except (NoConnectionError, HTTPClientError, OSError) as fault:
            self._origin.observe(OriginFailed(_OPERATION, type(fault).__name__))
            raise OriginUnreachable(f"listing: {type(fault).__name__}") from None
        except (BotoCoreError, KeyError) as fault:
            self._origin.observe(OriginFailed(_OPERATION, type(fault).__name__))
            raise OriginBroken(f"listing: {type(fault).__name__}") from None

    async def _list_signed(self, bucket: str, prefix: str) -> AsyncIterator[Listed]:
        query = (("list-type", "2"), ("prefix", prefix), ("encoding-type", "url"))
        more: QueryPairs = ()
        while True:
            request = OriginRequest("GET", bucket, query=(*query, *more), operation=_OPERATION)
            async with await self._origin.send(request) as answer:
                body = await answer.read(_MOST_BYTES)
            if answer.status != 200:
                self._origin.observe(OriginFailed(_OPERATION, "refused"))
                raise OriginBroken(f"listing refused: {answer.status}")
            try:
                tree = read_tree(body, max_size=_MOST_BYTES, max_elements=_MOST_ELEMENTS)
                names = [
                    Listed(unquote(each.told("Key")), int(each.told("Size")), each.told("ETag"))
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

    async def _ready(self) -> Any:
        async with self._making:
            if self._client is None:
                self._client = await self._make()
            return self._client

    async def _make(self) -> Any:
        origin, limits = self._origin, self._origin.limits
        session = origin.credentials.session()
        anonymous = await origin.credentials.current() is None
        loader = session.get_component("data_loader")
        # What create_client loads first, and by far the largest: the loader keeps it.
        for model in ("service-2", "endpoint-rule-set-1"):
            await asyncio.to_thread(loader.load_service_model, "s3", model)
        endpoint = origin.endpoint
        config = AioConfig(
            connect_timeout=limits.connect_timeout,
            read_timeout=limits.answer_timeout,
            retries={"total_max_attempts": limits.attempts, "mode": "standard"},
            s3={"addressing_style": "virtual" if endpoint.virtual else "path"},
            proxies={},
            **({"signature_version": UNSIGNED} if anonymous else {}),
        )
        return await self._open.enter_async_context(
            session.create_client(
                "s3",
                region_name=origin.region,
                endpoint_url=f"{endpoint.scheme}://{endpoint.authority}",
                verify=origin.ca_file if origin.ca_file is not None else True,
                config=config,
            )
        )

    async def close(self) -> None:
        async with self._making:
            self._client = None
            await self._open.aclose()
