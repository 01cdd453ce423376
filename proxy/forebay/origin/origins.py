"""The origins of a Forebay: requests and reads go to the one that has their bucket.

    OriginRequest ──> which origin has the bucket ──┬──> its OriginClient        a breaker, turns, credential of its own
    (bucket, key)     (policy.origin_routes)        └──> none: NoSuchBucket

A caller sends, reads and lists as with one origin. Requests are about one bucket, with two exceptions, both known by
their operation here, below everything that sends:

- ListBuckets lists those buckets of each origin that it has here (origin.bucket_union);
- a copy from a bucket of another origin is refused: no origin reads from another one.
"""

from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from multidict import CIMultiDict

from forebay.core.byte_ranges import Span
from forebay.core.errors import BucketMissing, S3Error
from forebay.core.fences import RequestTime
from forebay.core.heads import HeaderPairs
from forebay.core.names import ObjectName
from forebay.origin.bucket_listing import BucketListing, ListedObject
from forebay.origin.bucket_union import BucketUnion
from forebay.origin.origin_client import OriginClient
from forebay.origin.origin_request import OriginRequest, RequestCredential
from forebay.origin.origin_response import OriginResponse
from forebay.origin.reads.object_reads import OriginReads
from forebay.origin.reads.origin_read import OriginRead
from forebay.origin.reads.read_outcomes import ReadOutcome
from forebay.origin.reads.sent_reads import ReadReceiver, SentRead
from forebay.origin.turns.background_turns import BackgroundTurns
from forebay.origin.turns.upload_turns import UploadTurns
from forebay.protocol.copy_source import COPY_SOURCE, parse_copy_source
from forebay.protocol.header_map import Headers

_COPIES: Final = frozenset({"CopyObject", "UploadPartCopy"})


@dataclass(frozen=True, slots=True)
class Origin:
    """One origin, with its reader and its lister of objects."""

    client: OriginClient
    reads: OriginReads
    listing: BucketListing


class Origins:
    """Closed by `close`. Implements forebay.origin.reads.object_reads.ObjectReads."""

    def __init__(self, origins: Sequence[Origin], position_of: Callable[[str], int | None]) -> None:
        """`position_of`: the origin among `origins` that has a bucket; None: none has it."""
        self._origins = tuple(origins)
        self._position_of = position_of
        self._union = BucketUnion([origin.client for origin in origins], self._client_of)

    @classmethod
    def single(cls, client: OriginClient) -> "Origins":
        """One origin that has all buckets."""
        return cls([Origin(client, OriginReads(client), BucketListing(client))], lambda _bucket: 0)

    def __iter__(self) -> Iterator[Origin]:
        return iter(self._origins)

    def __len__(self) -> int:
        return len(self._origins)

    def of(self, bucket: str | None) -> OriginClient:
        """The client of the origin that has `bucket`; None, for requests that name no bucket: of the last one, which is
        `[origin]` where there is one. Raises S3Error NoSuchBucket."""
        position = -1 if bucket is None else self._position_of(bucket)
        if position is None:
            raise _no_origin(bucket)
        return self._origins[position].client

    async def send(self, request: OriginRequest) -> OriginResponse:
        """Sends a request to the origin that has its bucket; the contract is OriginClient.send's.

        Also raises S3Error NoSuchBucket for a bucket that no origin has, NotImplemented for a copy from another origin.
        """
        bucket = request.bucket
        if bucket is None and len(self._origins) > 1:
            return await self._union.send(request)
        client = self.of(bucket)
        self.check_source(request.operation, bucket, request.headers)
        return await client.send(request)

    def check_source(self, operation: str, bucket: str | None, headers: Headers | HeaderPairs) -> None:
        """Checks that the origin that has `bucket` has the source of a copy, too. `headers`: of the request. Raises
        S3Error NotImplemented, and NoSuchBucket."""
        if operation not in _COPIES or len(self._origins) == 1:
            return
        source = parse_copy_source(CIMultiDict(headers))
        if source is not None and self._client_of(source.name.bucket) is not self.of(bucket):
            raise S3Error(
                "NotImplemented",
                "The source of the copy is in a bucket of another origin: read the object and write it.",
                ArgumentName=COPY_SOURCE,
            )

    def open_read(
        self,
        name: ObjectName,
        read: OriginRead,
        *,
        credential: RequestCredential | None = None,
        is_hedge: bool = False,
        sent: SentRead | None = None,
    ) -> Coroutine[Any, Any, ReadOutcome]:
        """Opens a read at the origin that has the bucket; the contract is OriginReads.open_read's. Raises S3Error
        NoSuchBucket, at once."""
        reads = self._of(name.bucket).reads
        return reads.open_read(name, read, credential=credential, is_hedge=is_hedge, sent=sent)

    def send_read(
        self,
        name: ObjectName,
        span: Span,
        principal: str,
        requested: RequestTime,
        receiver: ReadReceiver,
    ) -> SentRead | None:
        """Sends a read at the origin that has the bucket; the contract is OriginReads.send_read's."""
        position = self._position_of(name.bucket)
        if position is None:
            return None
        return self._origins[position].reads.send_read(name, span, principal, requested, receiver)

    def admits_hedge(self, bucket: str) -> bool:
        """Whether a hedge would be sent now to the origin that has `bucket`."""
        return self._of(bucket).client.admits_hedge

    def background(self, bucket: str) -> BackgroundTurns:
        """The background turns of the origin that has `bucket`. Raises S3Error NoSuchBucket."""
        return self._of(bucket).client.reads.background

    def uploads(self, bucket: str) -> UploadTurns:
        """The upload turns of the origin that has `bucket`. Raises S3Error NoSuchBucket."""
        return self._of(bucket).client.uploads

    def region_of(self, bucket: str | None) -> str:
        """The region of the origin that has `bucket`; of the last one where none has it, or there is none."""
        position = self._position_of(bucket) if bucket is not None else None
        return self._origins[-1 if position is None else position].client.region

    def origin_of(self, bucket: str) -> str:
        """The name of the origin that has `bucket`."""
        return self._of(bucket).client.name

    def list_objects(self, bucket: str, prefix: str, after: str = "") -> AsyncGenerator[ListedObject]:
        """The objects of a bucket under a prefix, behind a key; the contract is BucketListing.list_objects's."""
        position = self._position_of(bucket)
        if position is None:
            raise BucketMissing("no origin is configured for this bucket")
        return self._origins[position].listing.list_objects(bucket, prefix, after)

    async def close(self) -> None:
        """Closes all clients and their listers. Responses in progress break off."""
        for origin in self._origins:
            await origin.listing.close()
            await origin.client.close()

    def _of(self, bucket: str) -> Origin:
        position = self._position_of(bucket)
        if position is None:
            raise _no_origin(bucket)
        return self._origins[position]

    def _client_of(self, bucket: str) -> OriginClient | None:
        position = self._position_of(bucket)
        return None if position is None else self._origins[position].client


def _no_origin(bucket: str | None) -> S3Error:
    return S3Error("NoSuchBucket", "No origin is configured for this bucket.", BucketName=bucket or "")
