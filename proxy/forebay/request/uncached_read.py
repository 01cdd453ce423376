"""Reads of anything but a cached object: listings, subresources, objects that no rule accelerates.

    an upload of the journal is listed ──> its document                                      (write.back.write_back)
    a listing ──> a page from a snapshot, or with what is pending laid over it               (request.listing_read)
    any other, once the pending writes of its name are at the origin ──> the origin's answer (request.forwarded_reads)

So each read sees the writes that were acknowledged before it. What is read of a bucket itself (HeadBucket, its region,
its configuration) shows no object, and waits for none. A principal with its own credential at the origin waits
for pending writes ahead of a listing, too: it is shown what the origin allows it.
"""

from typing import TYPE_CHECKING, Final

from forebay.core.request_record import RequestRecord
from forebay.policy.access import LISTINGS
from forebay.protocol.exchange import Reply, Request
from forebay.protocol.listing_query import without_own_token
from forebay.protocol.operation_table import Access
from forebay.protocol.operations import Operation
from forebay.request.admission import Admission
from forebay.request.forwarded_reads import ForwardedReads
from forebay.request.listing_read import ListingReader
from forebay.write.forward_request import ForwardRequest

if TYPE_CHECKING:  # only with a journal
    from forebay.write.back.write_back import WriteBack

_UPLOAD_LISTINGS: Final = frozenset({"ListParts", "ListMultipartUploads"})


class UncachedReader:
    """Answers uncached reads. Keeps no state."""

    def __init__(
        self, forwarded_reads: ForwardedReads, listing_reader: ListingReader, write_back: "WriteBack | None"
    ) -> None:
        """`write_back` None: no write is acknowledged before the origin has it."""
        self._forwarded_reads = forwarded_reads
        self._listing_reader = listing_reader
        self._write_back = write_back

    async def answer(self, admission: Admission, request: Request, reply: Reply, record: RequestRecord) -> None:
        """Answers a GET or a HEAD. Raises S3Error, OriginError, Throttled, and ConnectionError for a client that has
        left."""
        target, is_listing = admission.target, admission.operation.access is Access.LIST
        if await self._answer_upload_listing(admission, request, reply, record):
            return
        write_back = self._write_back if _shows_objects(admission.operation) else None
        if write_back is not None and (admission.identity is not None or not is_listing):
            await write_back.barriers.before_read(target, request)
        if is_listing:
            if await self._listing_reader.answer(admission, request, reply, record):
                return
            target = without_own_token(target) or target
            if write_back is not None:
                await write_back.barriers.before_read(target, request)
        record.cache = "bypass"
        forward = ForwardRequest(request, target, admission.operation, admission.signed, admission.identity)
        await self._forwarded_reads.relay(forward, reply, record)

    async def _answer_upload_listing(
        self, admission: Admission, request: Request, reply: Reply, record: RequestRecord
    ) -> bool:
        """Answers a listing of uploads or parts that the journal has. Returns whether it was one."""
        operation = admission.operation.name
        if self._write_back is None or operation not in _UPLOAD_LISTINGS or request.method != "GET":
            return False
        is_own = admission.identity is None
        document = await self._write_back.answer_listing(operation, admission.target, admission.headers, is_own=is_own)
        if document is None:
            return False
        record.cache, record.step = "bypass", "reply"
        headers = (("Content-Type", "application/xml"), ("x-amz-request-id", record.request_id))
        await reply.start(200, headers, len(document))
        await reply.write(document)
        await reply.finish()
        return True


def _shows_objects(operation: Operation) -> bool:
    """Whether the answer may depend on objects; that of an unknown operation may."""
    return operation.level == "object" or operation.name in LISTINGS or operation.name.startswith("Unknown")
