"""ListBuckets over several origins: of each origin, those buckets that it has here.

    each origin in turn, page by page ──> its buckets that are here ──> sorted, paged ──> one document

A refusal of any origin is the response: a list that silently lacks buckets would be taken for the whole one. Most keys
may not list buckets, and then the union may not either.

https://docs.aws.amazon.com/AmazonS3/latest/API/API_ListBuckets.html
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from forebay.core.errors import MalformedXml, OriginBroken
from forebay.origin.origin_client import OriginClient
from forebay.origin.origin_request import OriginRequest
from forebay.origin.origin_response import OriginResponse
from forebay.protocol.xml.bucket_lists import MAX_SIZE, BucketPage, bucket_list, read_bucket_page

_MAX_PAGES: Final = 100
"""The most pages of one origin. Amazon's have 10,000 buckets, and an account has as many at most."""
_TOKEN: Final = "continuation-token"  # noqa: S105 # the name of a query parameter


class BucketUnion:
    """Lists the buckets of several origins as one."""

    def __init__(self, clients: Sequence[OriginClient], client_of: Callable[[str], OriginClient | None]) -> None:
        """`client_of`: of the origin that has a bucket; None: none has it."""
        self._clients, self._client_of = clients, client_of

    async def send(self, request: OriginRequest) -> OriginResponse:
        """Returns the response to a ListBuckets: all buckets, or the first refusal. Raises the errors of
        OriginClient.send."""
        pages: list[BucketPage] = []
        last: OriginResponse | None = None
        for client in self._clients:
            if request.listed_origins and client.name not in request.listed_origins:
                continue
            token = ""
            for _ in range(_MAX_PAGES):
                last = await client.send(request._replace(query=((_TOKEN, token),) if token else ()))
                if last.status != 200:
                    return last
                page = await self._read(last)
                buckets = tuple(bucket for bucket in page.buckets if self._client_of(bucket.name) is client)
                pages.append(replace(page, buckets=buckets))
                if not page.token or page.token == token:
                    break
                token = page.token
        assert last is not None  # noqa: S101 # an identity names origins that there are
        query = dict(request.query)
        document = bucket_list(pages, query.get("prefix", ""), query.get(_TOKEN, ""), query.get("max-buckets", ""))
        last.replace_head(200, (("Content-Type", "application/xml"),), document)
        return last

    async def _read(self, response: OriginResponse) -> BucketPage:
        try:
            return read_bucket_page(await response.read(MAX_SIZE))
        except MalformedXml as refused:
            raise OriginBroken(f"ListBuckets: {refused}") from None
