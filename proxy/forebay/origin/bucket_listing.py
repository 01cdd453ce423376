"""The objects under a prefix, parsed, for warm-up and invalidation. It is not made for speed.

botocore's paginator lists an S3 origin: it knows how origins continue a listing, and has a few connections and retries
of its own. It takes a while to import and most proxies never list, so it is imported, and its service model loaded, in
a thread when it is first needed. An OSS origin is listed by signed requests of our own.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AsyncExitStack
from datetime import datetime
from typing import Any, Final, NamedTuple
from urllib.parse import unquote

from forebay.core.errors import BucketMissing, MalformedXml, OriginBroken, OriginOverloaded, OriginUnreachable
from forebay.core.events import OriginFailed
from forebay.origin.credential_refusal import REFUSALS, CredentialRefusal
from forebay.origin.endpoint import QueryPairs
from forebay.origin.http.transport_errors import TRANSPORT_ERRORS, error_before_response
from forebay.origin.origin_client import OriginClient
from forebay.origin.origin_limits import RETRIED_STATUSES
from forebay.origin.origin_request import OriginRequest
from forebay.protocol.xml.s3_documents import embedded_error
from forebay.protocol.xml.xml_tree import read_tree

_OPERATION: Final = "ListObjectsV2"
_MAX_BYTES: Final = 16 << 20  # a thousand keys of a thousand characters, however escaped
_MAX_ELEMENTS: Final = 50_000
_MAX_REGIONS: Final = 32
"""Connected to at a time."""


class ListedObject(NamedTuple):
    """One object of a listing. The ETag is as in a header, quotes included."""

    key: str
    size: int
    etag: str
    last_modified: float
    """Seconds since the epoch."""


class BucketListing:
    """Lists with the endpoint, region and credentials of an OriginClient. Closed before it."""

    def __init__(self, origin: OriginClient) -> None:
        self._origin = origin
        self._connecting = asyncio.Lock()
        self._open = AsyncExitStack()
        self._clients: dict[str, Any] = {}
        """Botocore's, by region."""

    async def list_objects(self, bucket: str, prefix: str, after: str = "") -> AsyncGenerator[ListedObject]:
        """All objects of `bucket` whose keys begin with `prefix` and come after `after`, in the origin's order.

        OriginUnreachable: no connection. OriginCredentialFault: no credential, or the origin refuses it. OriginBroken:
        the origin refuses, with its code in the reason, or its response is not a listing. OriginOverloaded: likewise,
        with 429 or 5xx.
        """
        pages = self._oss_pages if self._origin.dialect.speaks_oss else self._botocore_pages
        async for page in pages(bucket, prefix, after):
            for listed in page:
                yield listed

    async def _oss_pages(self, bucket: str, prefix: str, after: str) -> AsyncIterator[list[ListedObject]]:
        query = (("list-type", "2"), ("prefix", prefix), ("encoding-type", "url"))
        more: QueryPairs = (("start-after", after),) if after else ()
        while True:
            request = OriginRequest("GET", bucket, query=(*query, *more), operation=_OPERATION)
            async with await self._origin.send(request) as response:
                body = await response.read(_MAX_BYTES)
            if response.status != 200:
                raise self._refused(response.status, embedded_error(body) or str(response.status))
            try:
                tree = read_tree(body, max_size=_MAX_BYTES, max_elements=_MAX_ELEMENTS)
                page = [
                    ListedObject(
                        unquote(each.text_at("Key")),
                        int(each.text_at("Size")),
                        each.text_at("ETag"),
                        datetime.fromisoformat(each.text_at("LastModified")).timestamp(),
                    )
                    for each in tree.all("Contents")
                ]
            except (MalformedXml, ValueError):
                raise OriginBroken("listing: no document") from None
            yield page
            token = tree.text_at("NextContinuationToken")
            if tree.text_at("IsTruncated") != "true":
                return
            if not token or more == (("continuation-token", token),):
                raise OriginBroken("listing: it does not go on")
            more = (("continuation-token", token),)

    async def _botocore_pages(self, bucket: str, prefix: str, after: str) -> AsyncIterator[list[ListedObject]]:
        errors = await asyncio.to_thread(_import_botocore)
        try:
            client = await self._botocore_client(await self._origin.region_of(bucket))
            async for page in client.get_paginator("list_objects_v2").paginate(
                Bucket=bucket, Prefix=prefix, **({"StartAfter": after} if after else {})
            ):
                yield [
                    ListedObject(each["Key"], each["Size"], each["ETag"], each["LastModified"].timestamp())
                    for each in page.get("Contents", ())
                ]
        except errors.ClientError as refusal:
            code = refusal.response.get("Error", {}).get("Code", "unknown")
            if code in REFUSALS:
                self._failed("refused")
                await self.close()  # with the credential that it was made with
                key = await self._origin.credentials.current()
                raise self._origin.credential_check.refused(CredentialRefusal(code), key, own=True) from None
            status = refusal.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 500)
            raise self._refused(status, code) from None
        except (errors.ConnectionError, errors.HTTPClientError, OSError) as fault:
            self._failed(type(fault).__name__)
            cause = getattr(fault, "kwargs", {}).get("error")
            known = error_before_response(cause) if isinstance(cause, TRANSPORT_ERRORS) else None
            raise OriginUnreachable(known.reason if known is not None else type(fault).__name__) from None
        except (errors.BotoCoreError, KeyError) as fault:
            self._failed(type(fault).__name__)
            raise OriginBroken(f"listing: {type(fault).__name__}") from None

    def _refused(self, status: int, code: str) -> OriginBroken:
        if status >= 500:  # below that the origin has answered, and the fault is not its own
            self._failed("refused")
        if code == "NoSuchBucket":
            return BucketMissing("the origin answered NoSuchBucket, there is no such bucket")
        kind = OriginOverloaded if status in RETRIED_STATUSES else OriginBroken
        return kind(f"the origin answered {code}")

    def _failed(self, reason: str) -> None:
        self._origin.observe(OriginFailed(_OPERATION, reason, self._origin.name))

    async def _botocore_client(self, region: str) -> Any:
        async with self._connecting:
            if region not in self._clients and len(self._clients) >= _MAX_REGIONS:
                self._clients.clear()
                await self._open.aclose()
            if region not in self._clients:
                self._clients[region] = await self._connect(region)
            return self._clients[region]

    async def _connect(self, region: str) -> Any:
        from aiobotocore.config import AioConfig  # noqa: PLC0415 # see the module
        from botocore import UNSIGNED  # noqa: PLC0415 # see the module

        origin, limits = self._origin, self._origin.limits
        authority = origin.endpoint.authority if region == origin.region else origin.endpoint.authority_in(region)
        session = await origin.credentials.session()
        anonymous = await origin.credentials.current() is None
        loader = session.get_component("data_loader")
        # What create_client loads first, and by far the largest: the loader keeps it.
        for model in ("service-2", "endpoint-rule-set-1"):
            await asyncio.to_thread(loader.load_service_model, "s3", model)
        config = AioConfig(
            connect_timeout=limits.connect_timeout,
            read_timeout=limits.answer_timeout,
            retries={"total_max_attempts": limits.attempts, "mode": "standard"},
            s3={"addressing_style": "virtual" if origin.endpoint.virtual else "path"},
            proxies={},
            **({"signature_version": UNSIGNED} if anonymous else {}),
        )
        return await self._open.enter_async_context(
            session.create_client(
                "s3",
                region_name=region,
                endpoint_url=f"{origin.endpoint.scheme}://{authority}",
                verify=origin.ca_file if origin.ca_file is not None else True,
                config=config,
            )
        )

    async def close(self) -> None:
        """Closes botocore's connections."""
        async with self._connecting:
            self._clients.clear()
            await self._open.aclose()


def _import_botocore() -> Any:
    """Imports the modules that listing needs, and returns botocore's errors. For a thread."""
    import aiobotocore.config  # noqa: F401, PLC0415 # see the module
    import botocore.exceptions  # noqa: PLC0415 # see the module

    return botocore.exceptions
