"""The context of a read of an object: the request as it was admitted, and the bytes that were selected to answer it."""

from typing import NamedTuple

from forebay.core.byte_ranges import Span
from forebay.core.heads import HeaderPairs
from forebay.core.names import ObjectName
from forebay.core.request_record import CacheStatus, RequestRecord
from forebay.metadata.resolution import ResolvedVersion
from forebay.policy.rules import Decision
from forebay.protocol.exchange import ObjectReply, Request
from forebay.protocol.range_header import RangeSpec
from forebay.protocol.read_variants import ReadVariant
from forebay.request.admission import Admission


class ReadContext(NamedTuple):
    """One read: the request as admitted, and its reply."""

    admission: Admission
    name: ObjectName
    variant: ReadVariant
    decision: Decision
    spec: RangeSpec
    """The range as requested."""
    request: Request
    reply: ObjectReply
    record: RequestRecord

    async def start(self, status: int, headers: HeaderPairs, length: int | None, cache: CacheStatus) -> None:
        """Sends the response head."""
        self.record.step, self.record.cache = "reply", cache
        own = (("x-amz-request-id", self.record.request_id), ("x-forebay-cache", cache))
        await self.reply.start(status, (*headers, *own), length)


class Selection(NamedTuple):
    """The bytes that answer a read."""

    known: ResolvedVersion
    span: Span
    is_whole: bool

    @property
    def status(self) -> int:
        """The status of the response."""
        return 200 if self.is_whole else 206
