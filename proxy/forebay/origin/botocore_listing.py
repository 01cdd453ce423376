"""Listing by botocore's paginator, which knows an origin's ways of going on.

Imported by nobody at the start: see forebay.origin.bucket_listing. botocore's client is made when it is first needed,
its service model loaded on a thread, and the loop goes on meanwhile. It has a few connections and retries of its own.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

from aiobotocore.config import AioConfig
from botocore import UNSIGNED
from botocore.exceptions import BotoCoreError, ClientError, HTTPClientError
from botocore.exceptions import ConnectionError as NoConnectionError

from forebay.core.errors import OriginBroken, OriginUnreachable
from forebay.core.events import OriginFailed
from forebay.origin.listed_object import OPERATION, ListedObject
from forebay.origin.origin_client import OriginClient


class BotocoreListing:
    """Lists with the endpoint, region and credentials of an OriginClient."""

    def __init__(self, origin: OriginClient) -> None:
        self._origin = origin
        self._open = AsyncExitStack()
        self._making = asyncio.Lock()
        self._client: Any = None

    async def list_objects(self, bucket: str, prefix: str) -> AsyncIterator[ListedObject]:
        """As `OriginListing.list_objects`."""
        try:
            client = await self._connected_client()
            pages = client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
            async for page in pages:
                for listed in page.get("Contents", ()):
                    yield ListedObject(listed["Key"], listed["Size"], listed["ETag"])
        except ClientError as refusal:
            code = refusal.response.get("Error", {}).get("Code", "unknown")
            self._origin.observe(OriginFailed(OPERATION, "refused"))
            raise OriginBroken(f"listing refused: {code}") from None
        except (NoConnectionError, HTTPClientError, OSError) as fault:
            self._origin.observe(OriginFailed(OPERATION, type(fault).__name__))
            raise OriginUnreachable(f"listing: {type(fault).__name__}") from None
        except (BotoCoreError, KeyError) as fault:
            self._origin.observe(OriginFailed(OPERATION, type(fault).__name__))
            raise OriginBroken(f"listing: {type(fault).__name__}") from None

    async def _connected_client(self) -> Any:
        async with self._making:
            if self._client is None:
                self._client = await self._create_client()
            return self._client

    async def _create_client(self) -> Any:
        origin, limits = self._origin, self._origin.limits
        session = await origin.credentials.session()
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
